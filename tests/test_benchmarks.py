"""The benchmarks run and write what they measured; how fast it was is not tested."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "benchmarks"


def run_script(name: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", str(FOLDER / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_encoding(tmp_path: Path) -> None:
    sizes = ("--rows", "50", "--features", "3", "--total-dim", "64", "--repeats", "2")
    shown = run_script("encoding.py", *sizes, "--out", str(tmp_path))
    results = json.loads((tmp_path / "encoding.json").read_text())["results"]
    assert [result["m"] for result in results] == [1, 2, 4]
    assert all(result["ratio_to_unavoidable"]["median"] > 0 for result in results)
    assert "ratio" in shown


def test_kernel_error(tmp_path: Path) -> None:
    shown = run_script("kernel_error.py", "--dim", "64", "--seeds", "3", "--out", str(tmp_path))
    results = json.loads((tmp_path / "kernel_error.json").read_text())["results"]
    rbf = next(row for row in results if row["kernel"] == "rbf" and row["features"] == 4)
    assert rbf["qmc"] < rbf["orthogonal"] < rbf["random"]
    assert "matern-1/2" in shown


def test_lm_step(tmp_path: Path) -> None:
    sizes = ("--vocabulary", "500", "--width", "64", "--layers", "2", "--context", "16", "--batch", "2")
    shown = run_script("lm_step.py", *sizes, "--rounds", "2", "--repeats", "1", "--out", str(tmp_path))
    rows = json.loads((tmp_path / "lm_step.json").read_text())["rows"]
    assert {row["attention"] for row in rows} >= {"vanilla", "rope", "ghrr-feature"}
    counts = [row["params"] for row in rows]
    assert max(counts) / min(counts) < 1.02
    assert "x vanilla" in shown
