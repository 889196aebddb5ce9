"""The benchmark of structures runs and writes its results; the speed is not tested."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.structures import encode


def test_benchmark_writes_its_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ("--records", "20", "--values", "5", "--total-dim", "36", "--m", "1", "2", "--repeats", "2")
    encode.main((*sizes, "--out", str(tmp_path)))
    report = json.loads((tmp_path / "structures.json").read_text())
    assert [(row["m"], row["values_per_field"]) for row in report["results"]] == [(1, 5), (2, 5)]
    assert all(row["ratio"]["median"] > 0 for row in report["results"])
    assert report["records"] == 20
    assert "ratio" in capsys.readouterr().out


def test_one_repeat_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        encode.main(("--repeats", "1"))
    assert "--repeats must be at least 2" in capsys.readouterr().err
