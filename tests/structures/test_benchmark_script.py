"""The benchmark of structures runs and writes its results; the speed is not tested."""

from __future__ import annotations

import json
from pathlib import Path

from tests.scripts import run_script

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "structures.py"


def test_benchmark_writes_its_results(tmp_path: Path) -> None:
    sizes = ("--records", "20", "--values", "5", "--total-dim", "36", "--m", "1", "2", "--repeats", "2")
    status, output = run_script(SCRIPT, *sizes, "--out", str(tmp_path))
    assert status == 0, output
    report = json.loads((tmp_path / "structures.json").read_text())
    assert [(row["m"], row["values_per_field"]) for row in report["results"]] == [(1, 5), (2, 5)]
    assert all(row["ratio"]["median"] > 0 for row in report["results"])
    assert report["records"] == 20
    assert "ratio" in output


def test_one_repeat_is_refused() -> None:
    status, output = run_script(SCRIPT, "--repeats", "1")
    assert status == 2
    assert "--repeats must be at least 2" in output
