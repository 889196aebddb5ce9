"""The nearest unitary matrix by every backend: values, gradients, singular slots, shapes and layouts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr import ops
from ghrr.ops import reference
from ghrr.ops.dispatch import OPERATIONS
from tests.helpers import gaussian, rounding, unitary

DTYPES = [torch.complex64, torch.complex128]


def error(got: Tensor, x: Tensor) -> Tensor:
    """Return the error of each slot relative to the change of W by an error of X in its last digit."""
    sizes = torch.linalg.svdvals(x.to(torch.complex128))
    sensitivity = 2 * sizes[..., 0] / sizes[..., -2:].sum(dim=-1)
    want = reference.polar(x.to(torch.complex128))
    difference: Tensor = (got.to(want.dtype) - want).abs()
    scaled: Tensor = difference.amax(dim=(-1, -2)) / sensitivity.clamp(min=1.0)
    return scaled


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_polar_equals_reference(backend: str, dtype: torch.dtype) -> None:
    torch.use_deterministic_algorithms(True)  # memory that a kernel forgets to write holds NaN
    try:
        for m in range(1, 9):
            for shape in ((1,), (33,), (2, 3, 65), (0,)):
                x = gaussian(*shape, m, m, seed=m).to(dtype)
                for layout in (
                    x,
                    x.mT,
                    x.conj(),
                    x.repeat_interleave(2, dim=-3)[..., ::2, :, :],
                    x.expand(2, *x.shape),
                ):
                    with ops.backend(backend):
                        got = ghrr.unitary.polar(layout)
                    assert got.dtype == dtype
                    assert got.shape == layout.shape
                    if x.numel():
                        assert ghrr.unitary.is_unitary(got)
                        assert error(got, layout).max() <= rounding(dtype, terms=m)
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("backend", ["torch", "numba"])
@pytest.mark.parametrize("m", [1, 2, 3, 4, 5])
def test_gradients_equal_reference(m: int, backend: str) -> None:
    x, weights = gaussian(2, 20, m, m).requires_grad_(), gaussian(2, 20, m, m, seed=1)
    (want,) = torch.autograd.grad(reference.polar(x), x, weights)
    with ops.backend(backend):
        got = torch.autograd.grad(ghrr.unitary.polar(x), x, weights)[0]
        single = x.detach().to(torch.complex64).requires_grad_()
        rough = torch.autograd.grad(ghrr.unitary.polar(single), single, weights.to(torch.complex64))[0]
    scale = float(want.abs().max())
    torch.testing.assert_close(got, want, rtol=0, atol=1e3 * rounding(x.dtype, terms=m, scale=scale))
    torch.testing.assert_close(
        rough.to(want.dtype), want, rtol=0, atol=20 * rounding(rough.dtype, terms=m, scale=scale)
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("backend", ["torch", "numba"])
@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_singular_and_extreme_slots_have_a_nearest_unitary_matrix(m: int, backend: str, dtype: torch.dtype) -> None:
    tiny, huge = torch.finfo(dtype).tiny, torch.finfo(dtype).max
    u, v = unitary(2, m=m)
    for rank in range(m + 1):
        for small in (0.0, 1e-3, 1e-7, 1e-12):
            sizes = torch.where(torch.arange(m) < rank, 1.0, small).to(u.dtype)
            x = (u * sizes @ v).to(dtype).expand(40, m, m)
            with ops.backend(backend):
                got = ghrr.unitary.polar(x)
            assert ghrr.unitary.is_unitary(got)
            positive = got.to(u.dtype).mH @ x.to(u.dtype)  # P = W^H X has the same singular values, as eigenvalues
            shortfall = (
                torch.linalg.svdvals(x.to(u.dtype)).sum(-1) - positive.diagonal(dim1=-2, dim2=-1).sum(-1)
            ).abs()
            assert shortfall.max() <= rounding(dtype, terms=m)
    x = unitary(40, m=m).to(dtype)
    for scale in (8 * tiny, huge / 8):
        with ops.backend(backend):
            torch.testing.assert_close(ghrr.unitary.polar(scale * x), x, rtol=0, atol=rounding(dtype, terms=m))


def test_kernel_is_used_and_wrong_results_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    x = gaussian(1000, 3, 3)
    calls: list[int] = []
    kernel = OPERATIONS["polar_factor"].kernels[0]
    function = kernel.load()

    def counted(x: Tensor) -> Tensor:
        calls.append(len(x))
        result: Tensor = function(x)
        return result

    monkeypatch.setattr(kernel, "function", counted)
    assert error(ghrr.unitary.polar(x), x).max() <= rounding(x.dtype, terms=3)
    assert calls == [1000]
    assert error(ghrr.unitary.polar(x).mT, x).max() > rounding(x.dtype, terms=3)
