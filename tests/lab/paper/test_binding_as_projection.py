"""Binding as a projection: φ is the paper's linear map, and its inverse requires all entries of R."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import ghrr
from ghrr_lab.paper.experiments import binding_as_projection as projection
from ghrr_lab.paper.theory.sampling import random_phases
from tests.helpers import generator, unitary
from tests.lab.paper.tables import assert_survives_files, findings, run, scaled, verdicts

SMALL: dict[str, Any] = {
    "effective_dim": 6,
    "pairs": 5,
    "empty_ms": [2, 3, 4],
    "condition_ms": [2, 3],
    "rotations": 400,
    "blocks": 3,
}


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return run(projection.EXPERIMENT, SMALL)


def test_verdicts_of_a_small_run(data: pd.DataFrame) -> None:
    found = findings(projection.CLAIMS, data, SMALL)
    assert [finding.verdict for finding in found] == ["reproduced"] * 4
    assert not any(check.holds for checks in found[2].rejected.values() for check in checks)
    assert_survives_files(projection.CLAIMS, data, SMALL)


@pytest.mark.parametrize(
    ("what", "claim", "verdict"),
    [
        (projection.ENTRY, 0, "not reproduced"),
        (projection.VIEW, 1, "not reproduced"),
        (projection.INVERSE, 2, "partly"),
        (projection.SINGULAR, 2, "partly"),
        (projection.RANK_OFF, 2, "partly"),
        (projection.CONDITION, 2, "partly"),
        (projection.KEPT, 3, "partly"),
        (projection.DIAGONAL, 3, "partly"),
    ],
)
def test_verdicts_change_with_altered_data(data: pd.DataFrame, what: str, claim: int, verdict: str) -> None:
    before, after = (verdicts(projection.CLAIMS, x, SMALL) for x in (data, scaled(data, 1.2, 0.2, what=what)))
    assert after[claim] == verdict
    assert [n for n in range(4) if before[n] != after[n]] == ([2, 3] if what == projection.KEPT else [claim])


def test_diagonal_blocks_of_a_tensor_product() -> None:
    product = torch.arange(36.0).reshape(6, 6)
    blocks = projection.diagonal_blocks(product, 2)
    assert torch.equal(blocks, torch.stack([product[i : i + 2, i : i + 2] for i in (0, 2, 4)]))
    assert torch.equal(projection.diagonal_blocks(product, 1).flatten(), product.diagonal())
    assert torch.equal(projection.diagonal_blocks(product, 6)[0], product)


def test_view_matrix_transforms_columns_as_in_the_paper() -> None:
    q, r, block = unitary(3, m=3)
    transformed = projection.view_matrix(q, r) @ block.mT.flatten()
    for l in range(3):
        column = q @ torch.diag(r[:, l]) @ block[:, l]
        assert torch.allclose(transformed[3 * l : 3 * l + 3], column)


def test_chance_above_matches_haar_matrices() -> None:
    assert np.allclose(projection.chance_above(np.array([1.0, 3**0.5])), [1.0, 0.5])
    sizes = ghrr.unitary.haar(20_000, m=2, generator=generator(), dtype=torch.complex128).abs()
    ratio = sizes.amax((-1, -2)) / sizes.amin((-1, -2))
    for c in (1.5, 3.0, 10.0):
        chance = float(projection.chance_above(np.array(c)))
        assert abs(float((ratio > c).double().mean()) - chance) < 5 * (chance / 20_000) ** 0.5


def test_tensor_products_can_be_completed_where_the_view_is_singular() -> None:
    """For m = 4, a zero of R hides an entry, which the other entries determine because the rank is one."""
    r = ghrr.unitary.with_diagonality(0.0, 50, m=4, generator=generator(1), dtype=torch.complex128)
    r = r[(r.abs() > 1e-8).sum((-1, -2)) == 12][0]
    left, right = random_phases(2, 4, generator=generator(2))
    product = torch.outer(left, right)
    seen = torch.where(r.abs() > 1e-8, product, torch.nan)
    for n in range(4):
        k, p = (n + 1) % 4, (n + 2) % 4
        assert torch.allclose(seen[n, k] * seen[p, k].conj() * seen[p, n], product[n, n])


def test_figure_is_complete(data: pd.DataFrame) -> None:
    figure = projection.EXPERIMENT.draw(data, SMALL)
    matrices, lines = figure.subfigs
    assert matrices.get_supxlabel()
    assert matrices.get_supylabel()
    titles = [axis.get_title(loc="left") for axis in matrices.axes[:4]]
    assert titles == ["m = 1: FHRR", "m = 2: 3 blocks", "m = 3: 2 blocks", "m = 6: everything"]
    assert lines.axes[0].get_xlabel()
    assert lines.axes[0].get_legend() is not None
