"""Powers with large exponents: unitary, and equal to the power of the nearest unitary matrix."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import ghrr
from ghrr import ops
from ghrr.ops import reference
from ghrr.ops.cpu import lanes
from ghrr.ops.cpu.power import power
from tests.helpers import gaussian, rounding, unitary

DTYPES = [torch.complex64, torch.complex128]
EPS = torch.finfo(torch.float64).eps


def tolerance(m: int, dtype: torch.dtype, exponent: float) -> float:
    """Allow the rounding of the result, and the error of eigenphases in double precision times the exponent."""
    return rounding(dtype, terms=m) + 40 * m * EPS * abs(exponent)


@pytest.mark.parametrize("backend", ["torch", "numba"])
@pytest.mark.parametrize(
    "exponent", [9, -9, 1000, 10**6, -(10**9), 10**12, 0.5, -1e6 - 0.25, 1e12 + 0.0, -(1e12) + 0.5]
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_of_unitary_slots_are_those_of_the_nearest_unitary_matrix(
    dtype: torch.dtype, exponent: float, backend: str
) -> None:
    # numba compiles a loop for each m and dtype, which takes ten seconds; PyTorch has one form for all m.
    for m in range(1, 9) if backend == "torch" else (1, 2, 3, 8) if dtype == torch.complex64 else (1, 3):
        a = unitary(20, m=m, dtype=dtype, seed=m)
        want = reference.power(
            reference.polar(a.to(torch.complex128)), torch.tensor(float(exponent), dtype=torch.float64)
        )
        with ops.backend(backend):
            got = ghrr.power(a, exponent)
        assert ghrr.unitary.is_unitary(got)
        torch.testing.assert_close(got.to(want.dtype), want, rtol=0, atol=tolerance(m, dtype, exponent))


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [0.3, 1.5, 40.5, 1e3 + 0.5, 1e5 + 0.5, 1e7 + 0.5])
@pytest.mark.parametrize("m", [1, 3])
def test_single_precision_slots_at_the_edge_of_unitary_have_exact_powers(m: int, exponent: float) -> None:
    """Larger exponents need more exact polishing and diagonalisation."""
    largest = 20 * m * torch.finfo(torch.complex64).eps
    a = unitary(70, m=m, seed=m)
    a = (a * torch.linspace(1, 1 + 0.4 * largest, 70)[:, None, None]).to(torch.complex64)
    number = torch.tensor(exponent, dtype=torch.float64)
    want = reference.power(reference.polar(a.to(torch.complex128)), number)
    with ops.backend("numba"):
        got = ops.unitary_power(a, number)
    assert got is not None
    torch.testing.assert_close(got.to(want.dtype), want, rtol=0, atol=tolerance(m, a.dtype, exponent))
    wrong = reference.power(reference.polar(a.to(torch.complex128)), number + 1e-3)  # negative control
    assert (got - wrong).abs().max() > tolerance(m, a.dtype, exponent)


def with_phases(phases: Tensor) -> Tensor:
    """Return complex64 slots with random eigenvectors and these eigenphases, ``(slots, m)``."""
    v = unitary(len(phases), m=phases.shape[-1], seed=3)
    return ((v * torch.exp(1j * phases)[:, None, :]) @ v.mH).to(torch.complex64)


@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 2, 3, 8])
def test_small_powers_of_slots_with_eigenvalues_near_minus_one(m: int) -> None:
    """Near the branch cut, errors of single precision would be larger than rounding."""
    distance = torch.logspace(-9, 0, 300, dtype=torch.float64)
    phases = torch.linspace(-1, 1, m, dtype=torch.float64).repeat(300, 1)
    phases[:, 0] = math.pi - distance
    if m > 1:
        phases[:, 1] = -math.pi + 0.7 * distance
    a = with_phases(phases)
    for exponent in (0.5, -0.3, 2.0, 2.5):
        number = torch.tensor(exponent, dtype=torch.float64)
        want = reference.power(reference.polar(a.to(torch.complex128)), number)
        with ops.backend("numba"):
            got = ops.unitary_power(a, number)
        assert got is not None
        torch.testing.assert_close(got.to(want.dtype), want, rtol=0, atol=tolerance(m, a.dtype, exponent))


@pytest.mark.slow
def test_single_precision_leaves_eigenvalues_near_minus_one_to_double_precision() -> None:
    far = torch.tensor([[2.0, -2.0, 0.3]], dtype=torch.float64).repeat(lanes.SLOTS, 1)
    near, apart = far.clone(), far.clone()
    near[5, 0] = math.pi - 1e-6
    apart[7, :2] = torch.tensor([math.pi - 0.05, 0.05 - math.pi])
    a = with_phases(torch.cat([far, near, apart]))
    source = torch.view_as_real(a).flatten().numpy()
    for bits, expected in ((32, [True, False, False]), (64, [True, True, True])):
        done, out = np.zeros(3, dtype=np.bool_), np.zeros_like(source)
        one = np.arange(1), np.arange(2)
        power(
            bits,
            3,
            0,
            3,
            np.arange(3),
            len(a),
            source.ctypes.data,
            1e-5,
            np.array([0.5]),
            *one,
            out.ctypes.data,
            32,
            done,
        )
        assert done.tolist() == expected


def test_reference_power_is_exact_for_known_eigenphases() -> None:
    """Whole powers of phases that are multiples of 45°, some of them equal, are known exactly."""
    for m in range(2, 9):
        v = unitary(5, m=m, seed=m)
        eighths = torch.arange(m).div(2, rounding_mode="floor") - m // 4
        turns = torch.tensor([(10**6 + 1) * int(k) % 8 for k in eighths], dtype=torch.float64) / 8
        a = (v * torch.exp(2j * math.pi * eighths.double() / 8)) @ v.mH
        want = (v * torch.exp(2j * math.pi * turns)) @ v.mH
        for exponent in (10**6 + 1, torch.tensor(1e6 + 1, dtype=torch.float64)):
            with ops.backend("reference"):
                got = ops.power(a, exponent)
            # An eigenphase of 180° may be on either side of the branch cut; whole powers are equal.
            torch.testing.assert_close(got, want, rtol=0, atol=tolerance(m, a.dtype, 1e6))


@pytest.mark.parametrize(
    ("backend", "m"), [*(("torch", m) for m in (2, 3, 4, 8)), *(("numba", m) for m in (2, 3))]
)  # numba compiles a loop for each m
def test_powers_with_equal_and_nearly_equal_eigenvalues(backend: str, m: int) -> None:
    gaps = torch.tensor([0.0, 1e-15, 1e-12, 1e-8, 1e-4], dtype=torch.float64)
    v = unitary(5, m=m)
    phases = 0.7 + gaps[:, None] * torch.arange(m)
    phases[:, -1] = -2.0
    a = (v * torch.exp(1j * phases)[:, None, :]) @ v.mH
    shift = torch.eye(m, dtype=a.dtype).roll(1, 0)  # equally spaced eigenvalues and a zero diagonal
    a = torch.cat([a, shift[None], torch.eye(m, dtype=a.dtype)[None], -1j * torch.eye(m, dtype=a.dtype)[None]])
    with ops.backend(backend):
        got = ghrr.power(a, torch.tensor([0.3, 12345.5], dtype=torch.float64))
        root = ghrr.power(a, 1 / 3)
    want = (v * torch.exp(0.3j * phases)[:, None, :]) @ v.mH
    torch.testing.assert_close(got[0, :5], want, rtol=0, atol=rounding(a.dtype, terms=m))
    assert ghrr.unitary.is_unitary(got)
    even = torch.ones(len(a), dtype=torch.bool)
    even[5] = m % 2 == 1  # for even m, a shift has the eigenvalue -1
    torch.testing.assert_close((root @ root @ root)[even], a[even], rtol=0, atol=rounding(a.dtype, terms=8 * m))


def test_powers_of_other_slots_are_repeated_products() -> None:
    a = gaussian(6, 3, 3) / 3
    a[2] = unitary(m=3)
    want = torch.linalg.matrix_power(a, 40)
    torch.testing.assert_close(ghrr.power(a, 40), want)
    torch.testing.assert_close(ghrr.power(a.to(torch.complex64), 40), want.to(torch.complex64), rtol=1e-4, atol=1e-5)
    assert not ghrr.unitary.is_unitary(ghrr.power(1.001 * unitary(6, m=3), 10**6)[:2])  # negative control


@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_real_powers_of_unusual_shapes_and_layouts(backend: str) -> None:
    torch.use_deterministic_algorithms(True)  # fills new memory with NaN, which shows if a kernel does not write it
    try:
        for m, dim, batch, exponents in (
            (1, 33, (), (4,)),
            (2, 5, (3, 1), (2,)),
            (3, 65, (2,), (2,)),
            (5 if backend == "torch" else 3, 1, (), ()),
            (2, 4, (0,), ()),
            (3, 2, (2, 3), (0, 1, 1)),
        ):
            a = unitary(*batch, 2 * dim, m=m, seed=m)[..., ::2, :, :].mH
            x = torch.linspace(-3.3, 4.4, torch.Size(exponents).numel(), dtype=torch.float64).reshape(exponents)
            with ops.backend(backend):
                got = ghrr.power(a, x)
            want = reference.power(a, x)
            torch.testing.assert_close(got, want, rtol=0, atol=tolerance(m, a.dtype, 5))
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.slow
def test_kernel_takes_unitary_slots_only() -> None:
    a, x = unitary(40, m=3), torch.tensor(0.3, dtype=torch.float64)
    with ops.backend("numba"):
        assert ops.unitary_power(a, x) is not None
        a[37] *= 1 + 1e-12
        assert ops.unitary_power(a, x) is None
        torch.testing.assert_close(ghrr.power(a, x), reference.power(a, x))
        a[37, 0, 0] = torch.nan
        assert ops.unitary_power(a, x) is None
    with ops.backend("torch"):
        assert ops.unitary_power(unitary(40, m=3), x) is None


@pytest.mark.parametrize("m", [1, 3])
def test_large_whole_power_passes_gradcheck(m: int) -> None:
    a = unitary(2, 4, m=m).requires_grad_()
    assert torch.autograd.gradcheck(lambda a: ops.power(a, 12), a)
    assert torch.autograd.gradgradcheck(lambda a: ops.power(a, 12), a)
    (grad,) = torch.autograd.grad(ops.power(a, -1000).real.sum(), a)
    (real,) = torch.autograd.grad(ops.power(a, torch.tensor(-1000.0)).real.sum(), a)
    torch.testing.assert_close(grad, real, rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("m", [1, 2, 4])
def test_real_power_of_unitary_slots_passes_gradcheck(m: int) -> None:
    a, x = unitary(2, 3, m=m).requires_grad_(), torch.tensor([0.7, -2.3], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(ghrr.power, (a, x))
    single = a.detach().to(torch.complex64).requires_grad_()
    grads = torch.autograd.grad(ghrr.power(single, x).real.sum(), (single, x))
    want = torch.autograd.grad(ghrr.power(a, x).real.sum(), (a, x))
    assert grads[0].dtype == torch.complex64
    torch.testing.assert_close(grads[0].to(want[0].dtype), want[0], rtol=0, atol=1e-4)
    torch.testing.assert_close(grads[1], want[1], rtol=0, atol=1e-4)


@given(
    st.integers(1, 8),
    st.sampled_from(DTYPES),
    st.floats(-1e6, 1e6),
    st.floats(-1e6, 1e6),
    st.integers(0, 10_000),
)
def test_product_of_powers_adds_large_exponents(m: int, dtype: torch.dtype, x: float, y: float, seed: int) -> None:
    a = unitary(5, m=m, dtype=dtype, seed=seed)
    both, product = ghrr.power(a, x + y), ghrr.bind(ghrr.power(a, x), ghrr.power(a, y))
    assert ghrr.unitary.is_unitary(both)
    torch.testing.assert_close(both, product, rtol=0, atol=3 * tolerance(m, dtype, abs(x) + abs(y)))
    other = ghrr.power(a, x + y + 0.5)  # negative control
    assert not torch.allclose(other, product, rtol=0, atol=3 * tolerance(m, dtype, abs(x) + abs(y)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index", [10**6, 10**6 + 0.5, -(10**9), 10**12 - 1])
def test_positions_of_large_index_are_exact_and_unitary(index: float, dtype: torch.dtype) -> None:
    space = ghrr.Space(30, 3, dtype=dtype)
    positions = ghrr.encoding.PowerPositions(space)
    base = reference.polar(positions.base.to(torch.complex128))
    want = reference.power(base, torch.tensor(float(index), dtype=torch.float64))
    for indices in (index, torch.tensor([index], dtype=torch.float64), [index]):
        got = positions(indices).reshape(30, 3, 3)
        assert ghrr.unitary.is_unitary(got)
        torch.testing.assert_close(got.to(want.dtype), want, rtol=0, atol=tolerance(3, dtype, index))
    assert not torch.allclose(positions(index), positions(index + 1), atol=0.1)
