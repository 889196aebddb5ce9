"""The example of record capacity runs, writes its results, and measures what theory predicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ghrr import Space
from ghrr.capacity import recall_error
from tests.helpers import STANDARD_ERRORS
from tests.scripts import run_script

SCRIPT = Path(__file__).parents[2] / "examples" / "record_capacity.py"


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    out = tmp_path_factory.mktemp("results") / "new folder"
    status, output = run_script(SCRIPT, "--quick", "--out", str(out))
    assert status == 0, output
    return output, out


def load(folder: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((folder / "record_capacity.json").read_text())
    return report


def furthest(points: list[dict[str, Any]], total_dim: int | None = None) -> float:
    """The largest distance from the prediction, in standard errors; predicted for ``total_dim`` if given."""
    worst = 0.0
    for point in points:
        predicted = point["predicted_recall"]
        if total_dim is not None:
            space = Space.from_total(total_dim, point["m"])
            predicted = 1 - recall_error(point["leaves"], 100, space.noise_std, space.crosstalk_std)
        error = max(
            point["recall"]["error"], (predicted * (1 - predicted) / (point["leaves"] * point["records"])) ** 0.5
        )
        worst = max(worst, abs(point["recall"]["mean"] - predicted) / max(error, 1e-3))
    return worst


def test_measured_recall_equals_prediction(quick: tuple[str, Path]) -> None:
    points = load(quick[1])["points"]
    assert [(point["m"], point["leaves"]) for point in points] == [(m, n) for m in (1, 3) for n in (4, 8, 16, 32)]
    assert min(point["predicted_recall"] for point in points) < 0.8  # sizes at which many leaves are read wrongly
    assert furthest(points) < STANDARD_ERRORS
    assert furthest(points, total_dim=100) > STANDARD_ERRORS  # negative control: the prediction for a smaller space


def test_confident_answers_are_right_and_cancellation_finds_more(quick: tuple[str, Path]) -> None:
    points = load(quick[1])["points"]
    for point in points:
        for name in ("confident", "decoded"):
            assert point[name]["right"] is None or point[name]["right"] >= 0.98
        assert point["decoded"]["share"]["mean"] >= point["confident"]["share"]["mean"]
    assert any(point["decoded"]["share"]["mean"] > 0.1 + point["confident"]["share"]["mean"] for point in points)


def test_table_and_figure_are_written(quick: tuple[str, Path]) -> None:
    text, out = quick
    report = load(out)
    assert report["command"].startswith("python examples/record_capacity.py --quick")
    for point in report["points"]:
        assert f"{point['recall']['mean']:.4f} ± {point['recall']['error']:.4f}" in text
    assert (out / "record_capacity.png").read_bytes().startswith(b"\x89PNG")


def test_stored_result_equals_theory() -> None:
    points = load(SCRIPT.parent / "results")["points"]
    assert {point["m"] for point in points} == {1, 2, 3, 4}
    assert furthest(points) < STANDARD_ERRORS


def test_negative_seed_is_explained() -> None:
    status, output = run_script(SCRIPT, "--quick", "--seed", "-1")
    assert status == 2
    assert "--seed must be at least 0" in output
