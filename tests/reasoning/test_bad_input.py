from typing import Any

import pytest
import torch

from ghrr.reasoning import Entities, Matrices, Numbers, Slots, read_raven
from tests.reasoning.common import raven_problem

ROWS = [[[2, 1, 5]] * 3, [[1, 4, 2]] * 3, [[3, 2, 4]] * 2]
ANSWERS = [[3, 2, k] for k in range(8)]


def test_read_raven_refuses_values_out_of_range() -> None:
    with pytest.raises(ValueError, match=r"panel 8 of problem test/0 has the entity \[0, 3, 6, 1\]"):
        read_raven([raven_problem(ROWS, [[3, 6, 1], *ANSWERS[1:]])])


def test_read_raven_refuses_ragged_rows() -> None:
    with pytest.raises(ValueError, match="must have 16 panels, got 15"):
        read_raven([raven_problem([*ROWS[:2], [[3, 2, 4]]], ANSWERS)])


def test_read_raven_refuses_unknown_layouts() -> None:
    with pytest.raises(ValueError, match="read_raven: unknown layout 'Centre'"):
        read_raven([raven_problem(ROWS, ANSWERS, layout="Centre")])


def test_read_raven_refuses_two_configurations() -> None:
    with pytest.raises(ValueError, match="read one configuration at a time"):
        read_raven([raven_problem(ROWS, ANSWERS), raven_problem(ROWS, ANSWERS, layout="Left_Center_Single")])


def test_read_raven_refuses_targets_that_are_no_answer() -> None:
    with pytest.raises(ValueError, match="target must be from 0 to 7"):
        read_raven([raven_problem(ROWS, ANSWERS) | {"target": 8}])


VALUES = torch.zeros(2, 16, 1, dtype=torch.int64)
BAD: dict[str, tuple[Any, str]] = {
    "values": (Numbers(VALUES + 5, torch.ones(2, 16, 1), 5), "must be from 0 to 4, got 5 to 5"),
    "negative": (Numbers(VALUES - 1, torch.ones(2, 16, 1), 5), "must be from 0 to 4, got -1"),
    "weights": (Numbers(VALUES, torch.full((2, 16, 1), 1.5), 5), "probabilities of 'a' must be from 0 to 1"),
    "nan": (Slots(torch.full((2, 16, 4), torch.nan)), "probabilities of 'a' must be from 0 to 1"),
    "shape": (Numbers(VALUES, torch.ones(2, 16, 3), 5), "must have the same shape"),
    "panels": (Slots(torch.ones(2, 8, 4)), "need 8 panels and at least one answer, got 8"),
    "entities": (Entities(torch.ones(2, 16, 1), -torch.ones(2, 16, 1, 5)), "must be from 0 to 1, got -1"),
}


@pytest.mark.parametrize("name", BAD)
def test_matrices_refuse(name: str) -> None:
    attribute, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        Matrices({"a": attribute})


def test_matrices_refuse_attributes_of_different_batches() -> None:
    with pytest.raises(ValueError, match="same batch and panels"):
        Matrices({"a": Slots(torch.ones(2, 16, 4)), "b": Slots(torch.ones(3, 16, 4))})


def test_matrices_refuse_no_attributes() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        Matrices({})
