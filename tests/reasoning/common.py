"""Small matrices for the tests of reasoning."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ghrr.reasoning import Matrices, Numbers


def number_matrix(rows: Sequence[Sequence[int]], answers: Sequence[int], weight: float = 1.0) -> Matrices:
    """Return one matrix of three rows; the last row ends with the gap.

    The true value has a weight, and its two neighbours share the rest.
    """
    values = torch.tensor([[*(x for row in rows for x in row), *answers]])[..., None]
    weights = torch.ones(values.shape)
    if weight < 1:
        values = (values + torch.tensor([-1, 0, 1])) % 20
        weights = torch.tensor([(1 - weight) / 2, weight, (1 - weight) / 2]).expand(values.shape)
    return Matrices({"size": Numbers(values, weights, 20)}, columns=3, rows=3)


def raven_problem(
    rows: Sequence[Sequence[Sequence[int]]], answers: Sequence[Sequence[int]], layout: str = "Center_Single"
) -> dict[str, object]:
    """Return a problem of one entity per panel: ``[type, size, color]`` each; the first answer is right."""
    panels = [[{"layout": layout, "entities": [[0, *x, 3]]}] for x in (*(x for row in rows for x in row), *answers)]
    return {"id": "test/0", "panels": panels, "target": 0}
