"""Haar sampling is uniform, which plain QR is not; the exponential of a Hermitian matrix is unitary."""

from __future__ import annotations

import pytest
import torch

import ghrr
from ghrr.unitary import check_unitary, exp_hermitian, haar, orthonormalize
from tests.helpers import assert_mean, gaussian, generator


@pytest.mark.parametrize("m", [1, 2, 3, 5, 8, 16])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_haar_matrices_are_unitary(m: int, dtype: torch.dtype) -> None:
    q = haar(50, 4, m=m, generator=generator(), dtype=dtype)
    assert q.shape == (50, 4, m, m)
    assert q.dtype == dtype
    assert check_unitary(q)


def moments(q: torch.Tensor) -> dict[str, tuple[torch.Tensor, float]]:
    """Quantities whose mean is known for the uniform distribution on U(m)."""
    m = q.shape[-1]
    trace = torch.diagonal(q, dim1=-2, dim2=-1).sum(-1)
    return {
        "real trace": (trace.real, 0.0),
        "trace squared": (trace.abs().square(), 1.0),
        "square of the trace": ((trace * trace).real, 0.0),
        "fourth moment of the trace": (trace.abs().pow(4), 2.0),
        "entry": (q[..., 0, 0].abs().square(), 1 / m),
        "fourth power of an entry": (q[..., 0, 0].abs().pow(4), 2 / (m * (m + 1))),
    }


@pytest.mark.parametrize("m", [2, 3, 4])
def test_haar_has_the_moments_of_the_uniform_distribution(m: int) -> None:
    for values, expected in moments(haar(100_000, m=m, generator=generator(m))).values():
        assert_mean(values, expected)


def test_qr_without_the_phases_of_r_is_not_uniform() -> None:
    """The control: the same check notices LAPACK's plain Q."""
    plain = torch.linalg.qr(gaussian(100_000, 3, 3)).Q
    with pytest.raises(AssertionError):
        for values, expected in moments(plain).values():
            assert_mean(values, expected)


def test_the_distribution_is_invariant_under_rotation() -> None:
    q, fixed = haar(50_000, m=3, generator=generator(1)), haar(m=3, generator=generator(2))
    for values, expected in (moments(fixed @ q) | moments(q @ fixed)).values():
        assert_mean(values, expected)


@pytest.mark.parametrize("m", [1, 2, 3, 8])
def test_orthonormalize_is_qr_with_a_positive_diagonal(m: int) -> None:
    x = gaussian(30, m, m)
    q, r = torch.linalg.qr(x)
    diagonal = torch.diagonal(r, dim1=-2, dim2=-1)
    torch.testing.assert_close(orthonormalize(x), q * (diagonal / diagonal.abs())[..., None, :])


def test_orthonormalize_holds_for_ill_conditioned_columns() -> None:
    x = gaussian(20, 3, 3)
    x[..., 1] = x[..., 0] + 1e-9 * x[..., 1]
    assert check_unitary(orthonormalize(x))


def test_the_same_generator_gives_the_same_matrices_and_the_global_seed_is_untouched() -> None:
    state = torch.get_rng_state()
    one, two = (haar(5, m=3, generator=generator(7)) for _ in range(2))
    assert torch.equal(one, two)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(one, haar(5, m=3, generator=generator(8)))


@pytest.mark.parametrize("m", [1, 2, 5])
def test_exp_hermitian_is_unitary_for_any_matrix(m: int) -> None:
    x = 3 * gaussian(20, m, m)
    q = exp_hermitian(x)
    assert check_unitary(q)
    eigenvalues = torch.linalg.eigvalsh((x + x.mH) / 2)
    want = torch.exp(1j * eigenvalues).sum(-1)
    torch.testing.assert_close(torch.diagonal(q, dim1=-2, dim2=-1).sum(-1), want)
    assert not check_unitary(torch.matrix_exp(1j * x))  # the control: X itself will not do


def test_exp_hermitian_gradient() -> None:
    for m in (1, 2, 3):
        assert torch.autograd.gradcheck(exp_hermitian, gaussian(2, m, m).requires_grad_())
        assert torch.autograd.gradcheck(exp_hermitian, torch.zeros(2, m, m, dtype=torch.complex128, requires_grad=True))


@pytest.mark.parametrize("scale", [0.0, 1e-12, 1e-3, 1.0, 30.0])
def test_closed_form_of_exp_equals_the_series(scale: float) -> None:
    x = scale * gaussian(50, 2, 2)
    torch.testing.assert_close(exp_hermitian(x), torch.matrix_exp(0.5j * (x + x.mH)))
    x[0] = scale * torch.eye(2)  # equal eigenvalues
    torch.testing.assert_close(exp_hermitian(x), torch.matrix_exp(0.5j * (x + x.mH)))


def test_large_batches_do_not_go_one_by_one() -> None:
    assert check_unitary(ghrr.unitary.haar(100_000, m=2, generator=generator()))
