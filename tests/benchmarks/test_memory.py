"""The benchmark scripts of the memory run and write their results. The times are not tested."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

SIZES = ("--queries", "200", "--items", "2000", "--total-dim", "100", "--m", "2", "--repeats", "1")

Main = Callable[[tuple[str, ...]], object]


@pytest.fixture
def script() -> Iterator[Callable[[str], Main]]:
    """Import a script to call its ``main`` in this process, which saves the imports of torch."""
    threads = torch.get_num_threads()
    yield lambda name: importlib.import_module(f"benchmarks.memory.{name}").main
    torch.set_num_threads(threads)


def test_all_results_are_written(
    script: Callable[[str], Main], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script("cleanup")((*SIZES, "--out", str(tmp_path)))
    report = json.loads((tmp_path / "memory.json").read_text())
    assert set(report["cleanup"]) == {"1", "10"}
    for result in report["cleanup"].values():
        assert result["ratio_least"] <= result["ratio"] <= result["ratio_most"]
    assert [row["to"] for row in report["growing"]] == [100, 1000]
    rows: dict[str, Any] = {row["storage"]: row for row in report["storage"]}
    assert rows["float64"]["score_error_over_noise"] == rows["float32"]["score_error_over_noise"] == 0
    errors = [rows[kind]["score_error_over_noise"] for kind in ("float16", "bfloat16", "int8")]
    assert min(errors) > 0
    assert max(errors) < 0.05
    assert abs(rows["int8"]["right"] - rows["float32"]["right"]) <= 0.05  # two of forty answers
    shown = capsys.readouterr().out
    for text in ("peak extra memory", "int8", "µs per item"):
        assert text in shown


@pytest.mark.parametrize("wrong", [("--repeats", "0"), ("--items", "10")])
def test_sizes_that_are_too_small_raise(
    script: Callable[[str], Main], wrong: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        script("cleanup")(wrong)
    assert caught.value.code == 2
    assert "--repeats must be at least 1, --items at least 1000" in capsys.readouterr().err


@pytest.mark.slow
def test_every_backend_is_measured(
    script: Callable[[str], Main], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ("--items", "50", "80", "--queries", "20", "--total-dim", "100", "--m", "2", "--repeats", "1")
    script("engines")((*sizes, "--out", str(tmp_path)))
    rows = json.loads((tmp_path / "memory_backends.json").read_text())["seconds"]
    expected = [(count, name) for count in (50, 80) for name in ("torch", "faiss", "milvus")]
    assert [(row["items"], row["backend"]) for row in rows] == expected
    assert all(row["add"] > 0 and row["query"] > 0 for row in rows)
    assert rows[2]["search"] > 0
    assert "query 1" in capsys.readouterr().out
