"""The polar projection and the check of unitarity."""

from __future__ import annotations

import pytest
import torch

from ghrr.unitary import is_unitary, polar, unitarity_error
from ghrr.unitary.projection import check_unitary
from tests.helpers import gaussian, unitary


@pytest.mark.parametrize("m", [1, 2, 3, 8])
def test_polar_factor_leaves_a_positive_matrix(m: int) -> None:
    x = gaussian(10, m, m)
    w = polar(x)
    rest = w.mH @ x
    assert is_unitary(w)
    torch.testing.assert_close(rest, rest.mH)
    assert (torch.linalg.eigvalsh(rest) > 0).all()
    other = unitary(10, m=m) @ x  # negative control: another unitary factor leaves no positive matrix
    assert not torch.allclose(w.mH @ other, (w.mH @ other).mH)


def test_polar_commutes_with_rotations() -> None:
    x, u, v = gaussian(5, 3, 3), unitary(5, m=3, seed=1), unitary(5, m=3, seed=2)
    torch.testing.assert_close(polar(u @ x @ v), u @ polar(x) @ v)


def test_polar_differentiates_at_unitary_matrices() -> None:
    """Where a derivative through the singular value decomposition is not finite: the control."""
    x = unitary(4, m=3).requires_grad_()
    weights = gaussian(4, 3, 3, seed=1)
    (grad,) = torch.autograd.grad(polar(x), x, weights)
    assert torch.isfinite(grad).all()
    eye = torch.eye(3, dtype=x.dtype, requires_grad=True)
    (grad,) = torch.autograd.grad(polar(eye), eye, weights[0])
    torch.testing.assert_close(grad, (weights[0] - weights[0].mH) / 2)
    u, _, vh = torch.linalg.svd(eye)
    (lost,) = torch.autograd.grad(u @ vh, eye, weights[0])
    assert not torch.allclose(lost, grad)


def test_polar_gradcheck() -> None:
    for x in (gaussian(2, 3, 3), unitary(2, m=3)):
        assert torch.autograd.gradcheck(polar, x.clone().requires_grad_())
        assert torch.autograd.gradgradcheck(polar, x.clone().requires_grad_())


def test_check_unitary_returns_a_unitary_tensor_and_names_the_worst_slot_of_another() -> None:
    x = unitary(2, 6, m=3, dtype=torch.complex64)
    assert check_unitary("test", x) is x
    x[1, 4] *= 1.5
    x[0, 2] *= 1.2
    with pytest.raises(ValueError, match=r"test: slot 4 of item \(1,\) is not unitary, got .* up to 1.25, expected"):
        check_unitary("test", x)
    assert is_unitary(x) is False
    assert unitarity_error(x).argmax() == 10


def test_is_unitary_is_as_strict_as_the_precision() -> None:
    x = unitary(5, m=3)
    assert is_unitary(x)
    assert not is_unitary(x * (1 + 1e-9))
    assert is_unitary((x * (1 + 1e-9)).to(torch.complex64))
    assert is_unitary(x[:, None][:0])  # none at all
