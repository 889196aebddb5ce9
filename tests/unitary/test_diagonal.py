"""Diagonality: measurement, and sampling of a given value in closed form and by gradient descent."""

from __future__ import annotations

import pytest
import torch

from ghrr.unitary import diagonal, diagonality, haar, is_unitary, with_diagonality
from tests.helpers import assert_mean, generator

VALUES = (0.0, 0.001, 0.1, 1 / 3, 0.5, 0.77, 0.99, 1.0)


def test_diagonality_of_known_matrices() -> None:
    assert diagonality(torch.eye(4)) == 1
    assert diagonality(torch.eye(4).roll(1, 0)) == 0
    assert diagonality(torch.ones(5, 5)) == pytest.approx(0.2)
    q = haar(10, m=3, generator=generator())
    phases = torch.polar(torch.ones(3), torch.tensor([0.1, 2.0, -1.0]))
    order = torch.tensor([2, 0, 1])
    torch.testing.assert_close(diagonality(phases[:, None] * q), diagonality(q))
    torch.testing.assert_close(diagonality(q[:, order][..., order]), diagonality(q))
    assert not torch.allclose(
        diagonality(q[:, order]), diagonality(q)
    )  # negative control: permuting only rows changes it


@pytest.mark.parametrize("m", range(2, 17))
@pytest.mark.parametrize("value", VALUES)
def test_closed_form_reaches_every_value(m: int, value: float) -> None:
    for dtype, tolerance in ((torch.complex64, 1e-6), (torch.complex128, 1e-12)):
        q = with_diagonality(value, 40, 3, m=m, generator=generator(m), dtype=dtype)
        assert q.shape == (40, 3, m, m)
        assert is_unitary(q)
        assert (diagonality(q) - value).abs().max() < tolerance


@pytest.mark.parametrize("m", [2, 3, 4, 5, 8, 16])
def test_descent_reaches_every_value(m: int) -> None:
    for value in VALUES if m == 4 else (0.0, 0.5, 1.0):
        q = with_diagonality(value, 4, m=m, generator=generator(m), method="descent", dtype=torch.complex128)
        assert is_unitary(q)
        assert (diagonality(q) - value).abs().max() < 1e-3


def test_haar_matrices_rarely_have_a_given_diagonality() -> None:
    q = haar(1000, m=4, generator=generator())
    assert ((diagonality(q) - 0.5).abs() < 1e-3).float().mean() < 0.01


@pytest.mark.parametrize("m", [2, 3, 5])
def test_drawn_matrices_differ(m: int) -> None:
    q = with_diagonality(0.4, 50, m=m, generator=generator())
    distance = (q[:, None] - q[None]).abs().amax(dim=(-1, -2)) + 9 * torch.eye(50)
    assert distance.min() > 1e-3


@pytest.mark.parametrize(("m", "monomial"), [(2, True), (3, True), (4, False), (5, False), (6, False)])
def test_zero_diagonal_implies_one_entry_per_row_for_m_up_to_3_only(m: int, monomial: bool) -> None:
    largest = with_diagonality(0.0, 200, m=m, generator=generator()).abs().amax(dim=-1)
    assert bool((largest > 1 - 1e-5).all()) == monomial


@pytest.mark.parametrize("m", [4, 5, 6])
def test_entries_off_the_diagonal_have_equal_mean_weight(m: int) -> None:
    """Because rows and columns are permuted at random."""
    weights = with_diagonality(0.4, 20_000, m=m, generator=generator()).abs().square()
    off = ~torch.eye(m, dtype=torch.bool)
    share = (1 - torch.diagonal(weights, dim1=-2, dim2=-1).mean(-1)) / (m - 1)
    for row, column in off.nonzero().tolist():
        assert_mean(weights[:, row, column] - share, 0.0)


def test_all_pairings_of_opposite_angles_occur_equally_often() -> None:
    """For m = 4 and a zero diagonal, each row has a second zero for one of the three pairings of opposite angles."""
    smallest = with_diagonality(0.0, 300, m=4, generator=generator()).abs().sort(dim=-1).values[:, 0, 1]
    share = (smallest < 1e-6).double()
    assert_mean(share, 1 / 3)


def test_descent_works_without_gradient_mode() -> None:
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode:
            q = with_diagonality(0.5, 2, m=2, generator=generator(), method="descent")
            assert (diagonality(q) - 0.5).abs().max() < 1e-3


def test_matrices_of_size_one_are_unitary() -> None:
    q = with_diagonality(1.0, 10, m=1, generator=generator())
    assert is_unitary(q)


def test_descent_that_does_not_converge_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def stuck(value: float, count: int, m: int, _: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros(count, m, m, dtype=torch.complex128), torch.zeros(count, dtype=torch.bool)

    monkeypatch.setattr(diagonal, "_descend_once", stuck)
    with pytest.raises(RuntimeError, match=r"descent to 0.5 with m=3 did not converge for 4 of 4 matrices"):
        with_diagonality(0.5, 4, m=3, generator=generator(), method="descent")
