"""``ghrr compare``: some models or all, and a later run adds models without computing the others again."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ghrr_lab.comparison import order
from ghrr_lab.paper import registry
from tests.cli.common import invoke

SMALL = {"reals": 72, "pairs": 10, "pairs_of_matrices": 3, "blocks": 2}


@pytest.fixture
def small() -> Iterator[None]:
    """Reduce the comparisons to one small experiment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_COMPARISON_NAMES", ("compare-order",))
        settings = {"quick": SMALL, "full": SMALL}
        patch.setattr(order, "EXPERIMENT", dataclasses.replace(order.EXPERIMENT, settings=settings))
        yield


def test_unknown_names_are_refused_with_a_suggestion(tmp_path: Path) -> None:
    result = invoke("compare", "hhr", "--out", str(tmp_path / "c"))
    assert result.exit_code == 2
    assert "compare: unknown model 'hhr', expected one of fhrr, " in result.output
    assert "did you mean 'hrr'?" in result.output.replace("\n", " ")
    result = invoke("compare", "--experiment", "compare-tree", "--out", str(tmp_path / "c"))
    assert result.exit_code == 2
    assert "compare: unknown experiment 'compare-tree', expected one of " in result.output
    assert "did you mean 'compare-trees'?" in result.output.replace("\n", " ")
    assert not (tmp_path / "c").exists()


def test_experiment_without_the_chosen_model_is_refused(tmp_path: Path) -> None:
    result = invoke("compare", "tpr", "--experiment", "compare-nested-records", "--out", str(tmp_path / "c"))
    assert result.exit_code == 2
    assert "none of these experiments has a trial of tpr" in result.output.replace("\n", " ")


@pytest.mark.usefixtures("small")
def test_second_run_adds_models_and_keeps_finished_trials(tmp_path: Path) -> None:
    out = tmp_path / "comparison"
    result = invoke("compare", "fhrr", "-j", "1", "--out", str(out))
    assert result.exit_code == 0, result.output
    journal = out / "trials" / "quick-seed-0" / "compare-order.jsonl"
    first = journal.read_text().splitlines()
    assert len(first) == 1 + 2
    assert invoke("compare", "fhrr", "ghrr-2", "-j", "1", "--out", str(out)).exit_code == 0
    second = journal.read_text().splitlines()
    assert second[:3] == first
    assert len(second) == 1 + 4
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["command"] == "ghrr compare fhrr ghrr-2 --quick --seed 0"
    page = (out / "index.html").read_text()
    assert "Vector symbolic architectures, compared" in page
    assert "ghrr compare --experiment compare-order --quick --seed 0" in page
    assert invoke("compare", "fhrr", "-j", "1", "--out", str(out)).exit_code == 0
    assert journal.read_text().splitlines() == second
    assert len((out / "compare-order.csv").read_text().splitlines()) == 1 + 2 * 3 * 10  # blocks, tasks, pairs
