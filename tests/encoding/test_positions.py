"""Positions: one-hot rows, powers of a base, and given hypervectors."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import torch

import ghrr
from ghrr import Space
from ghrr.encoding import GivenPositions, OneHotPositions, PowerPositions
from ghrr.unitary import is_unitary
from tests.helpers import gaussian, generator, wrong

SPACE = Space(6, 3, dtype=torch.complex128)


# -------------------------------------------------------------------------------------------------------------- one-hot


def test_one_hot_position_j_selects_row_j() -> None:
    items = gaussian(3, 6, 3, 3)
    bound = ghrr.bind_bundle(OneHotPositions(SPACE)(torch.arange(3)), items)
    for j in range(3):
        torch.testing.assert_close(bound[:, j], items[j, :, j])
    from_the_right = ghrr.bind_bundle(items, OneHotPositions(SPACE)(torch.arange(3)))
    for j in range(3):
        torch.testing.assert_close(from_the_right[:, :, j], items[j, :, :, j])  # the other side: columns
    assert not torch.allclose(bound, from_the_right, atol=0.1)


def test_one_hot_positions_are_projections_with_sum_identity() -> None:
    e = OneHotPositions(SPACE)(torch.arange(3))
    torch.testing.assert_close(ghrr.bind(e, e), e)
    torch.testing.assert_close(ghrr.bind(e[0], e[1]), SPACE.zeros())
    torch.testing.assert_close(e.sum(dim=0), SPACE.identity())
    assert not is_unitary(e)


# --------------------------------------------------------------------------------------------------------------- powers


def test_binding_powers_adds_exponents() -> None:
    positions = PowerPositions(SPACE)
    for i, j in ((1, 2), (3, 4), (0.5, 2.25), (-1, 3)):
        torch.testing.assert_close(ghrr.bind(positions(i), positions(j)), positions(i + j))
    torch.testing.assert_close(positions(0), SPACE.identity())
    torch.testing.assert_close(positions(1), positions.base)
    torch.testing.assert_close(positions(5), ghrr.power(positions.base, 5))
    assert not torch.allclose(ghrr.bind(positions(1), positions(2)), positions(4), atol=0.1)
    assert is_unitary(positions(torch.linspace(-3, 3, 13)))


def test_similarity_of_powers_depends_on_their_distance_only() -> None:
    positions = PowerPositions(Space(50, 3, dtype=torch.complex128))
    p = positions(torch.arange(8))
    for i in range(6):
        torch.testing.assert_close(ghrr.bind(ghrr.adjoint(p[i]), p[i + 2]), positions(2))
        torch.testing.assert_close(ghrr.unbind(p[i + 2], p[i], side="left"), positions(2))
    similar = ghrr.pairwise_similarity(p, p)
    torch.testing.assert_close(similar[1:, 1:], similar[:-1, :-1])
    # Negative control: independent atoms.
    atoms = GivenPositions(Space(50, 3, dtype=torch.complex128).vectors([str(i) for i in range(8)]))(torch.arange(8))
    similar = ghrr.pairwise_similarity(atoms, atoms)
    assert not torch.allclose(similar[1:, 1:], similar[:-1, :-1], atol=1e-3)


def test_base_can_be_given_or_named() -> None:
    base = SPACE.random(generator=generator())
    torch.testing.assert_close(PowerPositions(SPACE, base=base)(1), base)
    torch.testing.assert_close(PowerPositions(SPACE, name="hour")(1), SPACE.vectors(["hour"], namespace="position")[0])
    assert not torch.allclose(PowerPositions(SPACE)(1), PowerPositions(SPACE, name="hour")(1), atol=0.1)


# ---------------------------------------------------------------------------------------------------------------- given


def test_given_positions_are_selected_by_index() -> None:
    given = SPACE.random(4, generator=generator())
    positions = GivenPositions(given)
    assert torch.equal(positions([[3, 0], [1, 1]]), given[torch.tensor([[3, 0], [1, 1]])])
    assert not list(positions.parameters())


def test_given_positions_can_be_trained() -> None:
    given, target = SPACE.random(4, generator=generator()), SPACE.vectors(["target"])[0]
    positions = GivenPositions(given, trainable=True)
    before = given.clone()
    optimiser = torch.optim.SGD(positions.parameters(), lr=10.0)
    for _ in range(20):
        optimiser.zero_grad()
        (-ghrr.similarity(positions(2), target)).backward()
        optimiser.step()
    assert ghrr.similarity(positions(2), target) > 1
    assert torch.equal(positions([0, 1, 3]), before[[0, 1, 3]])  # the others do not change
    assert torch.equal(given, before)  # a copy is trained
    assert not is_unitary(positions(2).detach())


# --------------------------------------------------------------------------------------------------------------- inputs

WHOLE: dict[str, Any] = {
    "one-hot": OneHotPositions(SPACE),
    "given": GivenPositions(SPACE.random(3, generator=generator())),
}
ALL: dict[str, Any] = WHOLE | {"power": PowerPositions(SPACE)}


@pytest.mark.parametrize("which", ALL)
def test_every_index_type_and_batch_shape(which: str) -> None:
    positions = ALL[which]
    want = positions(torch.tensor([[0, 2], [1, 1]]))
    assert want.shape == (2, 2, 6, 3, 3)
    assert want.dtype == torch.complex128
    indices: list[Any] = [[[0, 2], [1, 1]], np.array([[0, 2], [1, 1]]), torch.tensor([[0, 2], [1, 1]]).to(torch.uint8)]
    for x in indices:
        torch.testing.assert_close(positions(x), want)
    assert positions(1).shape == (6, 3, 3)
    assert positions([]).shape == (0, 6, 3, 3)
    assert positions(torch.empty(2, 0, dtype=torch.long)).shape == (2, 0, 6, 3, 3)


@pytest.mark.parametrize("which", WHOLE)
@pytest.mark.parametrize(
    ("indices", "error", "message"),
    [
        (3, ValueError, "indices must be from 0 to 2, got 3 to 3"),
        ([0, -1], ValueError, "indices must be from 0 to 2, got -1 to 0"),
        (1.0, TypeError, "indices must be whole numbers, got float 1.0"),
        (True, TypeError, "indices must be whole numbers, got bool True"),
        ("a", TypeError, "indices must be whole numbers, got str 'a'"),
        (None, TypeError, "indices must be whole numbers, got NoneType None"),
    ],
)
def test_invalid_indices_raise_and_are_named(which: str, indices: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match="Positions: " + re.escape(message)):
        WHOLE[which](indices)


def test_invalid_exponents_and_bases_raise() -> None:
    positions = PowerPositions(SPACE)
    for bad in (math.nan, [0.0, math.inf]):
        with pytest.raises(ValueError, match=r"PowerPositions: .*is not finite"):
            positions(bad)
    for wrong_type in ("a", None, 1j):
        with pytest.raises(TypeError, match=r"PowerPositions: needs (real )?numbers, got"):
            positions(wrong_type)
    with pytest.raises(ValueError, match=r"PowerPositions: .*does not fit Space"):
        PowerPositions(SPACE, base=Space(4, 2, dtype=torch.complex128).zeros())


def test_invalid_given_positions_raise() -> None:
    with pytest.raises(ValueError, match="positions needs an axis of items"):
        GivenPositions(SPACE.zeros())
    with pytest.raises(TypeError, match="positions must be a complex tensor"):
        GivenPositions(wrong([1, 2]))
    with pytest.raises(ValueError, match="number of positions must be a whole number of at least 1"):
        GivenPositions(SPACE.zeros(0))(0)
