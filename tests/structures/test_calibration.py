"""At least 98 % of the confident answers of every structure are correct, for m = 1 to 4.

The queries are made as in benchmarks/structures/calibration.py, whose stored table has more of them. The controls read
without decorrelation, and are then often confident and wrong.
"""

from __future__ import annotations

import itertools
import json

import pytest
from benchmarks.common.paths import RESULTS
from benchmarks.structures import calibration

from tests.structures.common import skip_decorrelation

ORDERED = ("Tree", "Record", "Set", "NGrams", "Chain", "Graph", "Automaton")
REVERSED = ("Graph", "Automaton")  # the only other order is the reversal


def is_calibrated(structure: str, m: int, count: int, permute: bool | None = None) -> bool:
    found = calibration.summary(calibration.answers(structure, m, count, permute))
    # At a confidence of 0.99 up to 1 % of absent items can be confident, but no permutation of an encoded item.
    absent = 0 if structure in ORDERED else max(1, 0.01 * found["absent"])
    right = found["right"] >= calibration.LEAST * found["confident"] > 0
    return bool(right and found["confident_and_absent"] <= absent)


@pytest.mark.filterwarnings("ignore::ghrr.structures.CapacityWarning")  # some tasks are too large on purpose
@pytest.mark.parametrize("m", calibration.M)
@pytest.mark.parametrize("structure", calibration.TASKS)
def test_confident_answers_are_right(structure: str, m: int) -> None:
    assert is_calibrated(structure, m, 200)


@pytest.mark.parametrize(("m", "permute"), [(1, False), (2, True)])
@pytest.mark.parametrize("structure", ORDERED)
def test_confident_answers_are_right_with_and_without_shifts(structure: str, m: int, permute: bool) -> None:
    assert is_calibrated(structure, m, 200, permute)


# For m = 2 a reversal is too little similar to matter; Chain handles m = 1 without decorrelation.
@pytest.mark.parametrize(
    ("structure", "m"),
    [*((name, 1) for name in ORDERED if name != "Chain"), *((name, 2) for name in ORDERED if name not in REVERSED)],
)
def test_confident_answers_without_decorrelation_are_often_wrong(
    structure: str, m: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_decorrelation(monkeypatch)
    assert not is_calibrated(structure, m, 400, permute=False)


def test_the_stored_table_is_complete_and_calibrated() -> None:
    rows = json.loads((RESULTS / "calibration.json").read_text())["rows"]
    assert {(row["structure"], row["m"]) for row in rows} == set(itertools.product(calibration.TASKS, calibration.M))
    for row in rows:
        assert row["right"] >= calibration.LEAST * row["confident"]
        assert row["answers"] >= 1000
