"""The example of the learned kernel runs, writes its results, and its quick setting shows the same result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.scripts import run_script

SCRIPT = Path(__file__).parents[2] / "examples" / "adaptive_kernel.py"


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    out = tmp_path_factory.mktemp("results") / "new folder"
    status, output = run_script(SCRIPT, "--quick", "--out", str(out))
    assert status == 0, output
    return output, out


def test_adaptive_kernel_beats_the_best_stationary_one_on_the_chirp(quick: tuple[str, Path]) -> None:
    report = json.loads((quick[1] / "adaptive_kernel.json").read_text())
    chirp, photo = report["summary"]
    assert (chirp["problem"], photo["problem"]) == ("chirp", "photo")
    assert chirp["adaptive_better"] == chirp["seeds"] == 2
    assert chirp["adaptive_mean"] < 0.75 * chirp["stationary_mean"]
    assert chirp["stationary_mean"] < 0.05  # a competitor that was tuned, not a straw man


def test_every_number_is_written(quick: tuple[str, Path]) -> None:
    report = json.loads((quick[1] / "adaptive_kernel.json").read_text())
    assert report["seeds"] == [100, 101]
    assert report["command"].startswith("python examples/adaptive_kernel.py --quick")
    assert [(run["problem"], run["seed"]) for run in report["runs"]] == [
        (problem, seed) for problem in ("chirp", "photo") for seed in (100, 101)
    ]
    for run, setting in zip(report["runs"], [s for s in report["settings"] for _ in (0, 1)], strict=True):
        assert run["stationary"]["bandwidth"] in setting["stationary_bandwidths"]
        assert run["adaptive"]["bandwidth"] in setting["adaptive_bandwidths"]
    mean = sum(run["adaptive"]["test_nmse"] for run in report["runs"][:2]) / 2
    assert report["summary"][0]["adaptive_mean"] == pytest.approx(mean)


def test_table_and_figure_are_written(quick: tuple[str, Path]) -> None:
    text, out = quick
    summary = json.loads((out / "adaptive_kernel.json").read_text())["summary"]
    for row in summary:
        line = next(line for line in text.splitlines() if line.startswith(f"{row['problem']} "))
        assert f"{row['stationary_mean']:.4f} ± {row['stationary_std']:.4f}" in line
        assert f"{row['adaptive_mean']:.4f} ± {row['adaptive_std']:.4f}" in line
    assert (out / "adaptive_kernel.png").read_bytes().startswith(b"\x89PNG")


def test_missing_seeds_are_explained() -> None:
    status, output = run_script(SCRIPT, "--quick", "--seeds", "0")
    assert status == 2
    assert "--seeds must be at least 1" in output
