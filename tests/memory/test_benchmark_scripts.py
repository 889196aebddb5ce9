"""The benchmark scripts of the memory run and write their results. The times are not tested."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SIZES = ("--queries", "200", "--items", "2000", "--total-dim", "100", "--m", "2", "--repeats", "1")


def run_script(*arguments: str, script: str = "memory.py") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(BENCHMARKS / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_all_results_are_written(tmp_path: Path) -> None:
    done = run_script(*SIZES, "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "memory.json").read_text())
    assert set(report["cleanup"]) == {"1", "10"}
    for result in report["cleanup"].values():
        assert result["ratio_least"] <= result["ratio"] <= result["ratio_most"]
    assert [row["to"] for row in report["growing"]] == [100, 1000]
    rows = {row["storage"]: row for row in report["storage"]}
    assert rows["float64"]["score_error_over_noise"] == rows["float32"]["score_error_over_noise"] == 0
    errors = [rows[kind]["score_error_over_noise"] for kind in ("float16", "bfloat16", "int8")]
    assert min(errors) > 0
    assert max(errors) < 0.05
    assert abs(rows["int8"]["right"] - rows["float32"]["right"]) <= 0.05  # two of forty answers
    for text in ("peak extra memory", "int8", "µs per item"):
        assert text in done.stdout


@pytest.mark.parametrize("wrong", [("--repeats", "0"), ("--items", "10")])
def test_sizes_that_are_too_small_raise(wrong: tuple[str, str]) -> None:
    done = run_script(*wrong)
    assert done.returncode == 2
    assert "--repeats must be at least 1, --items 1000, --queries 10" in done.stderr


def test_every_backend_is_measured(tmp_path: Path) -> None:
    sizes = ("--items", "50", "80", "--queries", "20", "--total-dim", "100", "--m", "2", "--repeats", "1")
    done = run_script(*sizes, "--out", str(tmp_path), script="memory_backends.py")
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "memory_backends.json").read_text())["seconds"]
    expected = [(count, name) for count in (50, 80) for name in ("torch", "faiss", "milvus")]
    assert [(row["items"], row["backend"]) for row in rows] == expected
    assert all(row["add"] > 0 and row["query"] > 0 for row in rows)
    assert rows[2]["search"] > 0
    assert "query 1" in done.stdout
