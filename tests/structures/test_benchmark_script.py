"""The benchmark of structures runs and writes its results; the speed is not tested."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "structures.py"


def run_script(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_benchmark_writes_its_results(tmp_path: Path) -> None:
    sizes = ("--records", "20", "--values", "5", "--total-dim", "36", "--m", "1", "2", "--repeats", "2")
    done = run_script(*sizes, "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "structures.json").read_text())
    assert [(row["m"], row["values_per_field"]) for row in report["results"]] == [(1, 5), (2, 5)]
    assert all(row["ratio"]["median"] > 0 for row in report["results"])
    assert report["records"] == 20
    assert "ratio" in done.stdout


def test_one_repeat_is_refused() -> None:
    done = run_script("--repeats", "1")
    assert done.returncode == 2
    assert "--repeats must be at least 2" in done.stderr
