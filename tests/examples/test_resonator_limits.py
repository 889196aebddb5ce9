"""The example of the resonator's limits runs, writes its results, and its quick setting shows the same result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.scripts import run_script

FOLDER = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    out = tmp_path_factory.mktemp("results") / "new folder"
    status, output = run_script(FOLDER / "resonator_limits.py", "--quick", "--out", str(out))
    assert status == 0, output
    return output, out


def check_report(report: dict[str, Any]) -> None:
    """What holds at any size: small books work, what is found is correct, and order matters for m > 1."""
    assert report["wrongly_found"] == 0
    assert report["reversed_found_for_m_above_1"] == 0
    for row in report["points"]:
        assert row["share"] == row["found"] / row["tried"]
        if row["size"] == min(report["setting"]["sizes"]):
            assert row["share"] > 0.9
            if row["m"] == 1:
                assert row["reversed_found"] == row["reversed_tried"]  # negative control: without order both are found
    without, with_noise = (
        next(row["share"] for row in report["variants"] if (row["projection"], row["jitter"]) == ("norm", jitter))
        for jitter in (0.0, 1.0)
    )
    assert with_noise > without


def test_quick_run_finds_the_limits(quick: tuple[str, Path]) -> None:
    report = json.loads((quick[1] / "resonator_limits.json").read_text())
    assert report["command"].startswith("python examples/resonator_limits.py --quick")
    check_report(report)
    assert any(row["share"] < 0.5 for row in report["points"])  # it does stop working
    assert len(report["variants"]) == 12


def test_table_and_figure_are_written(quick: tuple[str, Path]) -> None:
    text, out = quick
    limits = json.loads((out / "resonator_limits.json").read_text())["limits"]
    for row in limits:
        line = next(line for line in text.splitlines() if line.startswith(f"{row['total_dim']} "))
        assert ("beyond" if row["size"] is None else f"{row['size']:.0f}") in line.split()
    assert (out / "resonator_limits.png").read_bytes().startswith(b"\x89PNG")


def test_stored_results_show_the_same_limits() -> None:
    report = json.loads((FOLDER / "results" / "resonator_limits.json").read_text())
    check_report(report)
    assert report["command"] == "python examples/resonator_limits.py"
    assert {row["m"] for row in report["points"]} == {1, 2, 3, 4}
