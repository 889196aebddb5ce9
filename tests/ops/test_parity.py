"""Every backend equals the specification: values and gradients, all sizes, precisions and kinds of input."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ghrr import ops
from ghrr.ops import torch_implementation
from ghrr.ops.dispatch import OPERATIONS
from tests.helpers import gaussian, rounding, unitary

pytestmark = pytest.mark.usefixtures("poisoned_memory")

SIZES = range(1, 9)
Layout = Callable[[Tensor], Tensor]
DTYPES = (torch.complex64, torch.complex128)


def bind_bags(keys: Tensor, values: Tensor) -> Tensor:
    """Three bags, of which the second is empty; all are empty if there are no items."""
    n = 7 if len(keys) and len(values) else 0
    places = torch.arange(n)
    starts = torch.tensor([0, n // 2, n // 2, n])
    return ops.bind_bags(keys, values, places % max(1, len(keys)), 5 * places % max(1, len(values)), starts)


CALLS: dict[str, Callable[..., Tensor]] = {
    "bind": ops.bind,
    "bind adjoint left": lambda a, b: ops.bind(a, b, adjoint_a=True),
    "bind adjoint right": lambda a, b: ops.bind(a, b, adjoint_b=True),
    "bind adjoint both": lambda a, b: ops.bind(a, b, adjoint_a=True, adjoint_b=True),
    "adjoint": ops.adjoint,
    "bundle": ops.bundle,
    "multibind": ops.multibind,
    "bind_bags": bind_bags,
    "bind_bundle": ops.bind_bundle,
    "bind_bundle adjoint left": lambda a, b: ops.bind_bundle(a, b, adjoint_keys=True),
    "bind_bundle adjoint right": lambda a, b: ops.bind_bundle(a, b, adjoint_values=True),
    "bind_similarity": ops.bind_similarity,
    "bind_similarity adjoint left": lambda a, b, c: ops.bind_similarity(a, b, c, adjoint_a=True),
    "bind_similarity adjoint right": lambda a, b, c: ops.bind_similarity(a, b, c, adjoint_b=True),
    "similarity": ops.similarity,
    "pairwise_similarity": ops.pairwise_similarity,
    "shift": lambda a: ops.shift(a, 2),
    "shift back": lambda a: ops.shift(a, -7),
    "power 3": lambda a: ops.power(a, 3),
    "power 10": lambda a: ops.power(a, 10),
    "power 1": lambda a: ops.power(a, 1),
    "power 0": lambda a: ops.power(a, 0),
    "power -2": lambda a: ops.power(a, -2),
}
# Batch shapes of the arguments before (dim, m, m); several cases per operation: plain, broadcast, empty.
BATCHES: dict[str, list[tuple[tuple[int, ...], ...]]] = {
    "bind": [((), ()), ((3, 1), (2,)), ((0,), (0,)), ((4,), ())],
    "adjoint": [((),), ((2, 3),), ((0,),)],
    "bundle": [((5,),), ((2, 3),), ((0,),)],
    "multibind": [((1,),), ((2, 5),), ((6,),), ((0,),)],
    "bind_bags": [((4,), (6,)), ((1,), (3,)), ((0,), (0,)), ((0,), (2,))],
    "bind_bundle": [
        ((5,), (5,)),
        ((3, 1, 4), (2, 4)),
        ((1,), (5,)),
        ((5,), (1,)),
        ((0,), (0,)),
        ((0,), (1,)),
        ((2, 0), (0,)),
    ],
    "bind_similarity": [((), (), ()), ((3, 1), (2,), (3, 2)), ((4,), (), (4,)), ((), (), (5,)), ((0,), (), ())],
    "similarity": [((), ()), ((3, 1), (2,)), ((4,), (4,)), ((0,), ()), ((), (5,))],
    "pairwise_similarity": [((), (5,)), ((3,), (5,)), ((2, 3), (5,)), ((0,), (5,)), ((3,), (0,))],
}
FOR_ALL: list[tuple[tuple[int, ...], ...]] = [((),), ((2, 3),), ((0,),)]
DIM = 5


def contiguous(x: Tensor) -> Tensor:
    return x


def strided(x: Tensor) -> Tensor:
    """The same numbers, every second one of a larger tensor, with the matrix axes swapped in memory."""
    wide = torch.full((*x.shape[:-3], 2 * x.shape[-3], *x.shape[-2:]), torch.nan, dtype=x.dtype)
    wide.mT[..., ::2, :, :] = x
    return wide.mT[..., ::2, :, :]


def conjugated(x: Tensor) -> Tensor:
    """The same numbers, behind torch's lazy conjugation."""
    return x.conj().resolve_conj().conj()


LAYOUTS: list[Layout] = [contiguous, strided, conjugated]


def arguments(name: str, batches: tuple[tuple[int, ...], ...], m: int) -> list[Tensor]:
    shapes = [(*batch, DIM, m, m) for batch in batches]
    if name.startswith("power"):
        return [unitary(*shape[:-2], m=m, seed=i) + 0.1 * gaussian(*shape, seed=9) for i, shape in enumerate(shapes)]
    return [gaussian(*shape, seed=i) for i, shape in enumerate(shapes)]


def value_and_gradients(function: Callable[..., Tensor], inputs: list[Tensor]) -> list[Tensor]:
    leaves = [x.detach().requires_grad_() for x in inputs]
    out = function(*leaves)
    weights = gaussian(*out.shape, seed=77).to(out.dtype if out.is_complex() else torch.complex128)
    weights = (weights if out.is_complex() else weights.real.to(out.dtype)).to(out.device)
    if not out.requires_grad:  # a constant, as the product of nothing is
        return [out, *(torch.zeros_like(x) for x in inputs)]
    gradients = torch.autograd.grad(out, leaves, grad_outputs=weights, allow_unused=True)
    return [out.detach()] + [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, gradients, strict=True)]


@functools.cache
def specified(name: str, batches: tuple[tuple[int, ...], ...], m: int) -> list[Tensor]:
    """Value and gradients after the specification, which is slow: once for all backends and precisions."""
    with ops.backend("reference"):
        return value_and_gradients(CALLS[name], arguments(name, batches, m))


CASES = [
    pytest.param(name, batches, id=f"{name}-{'x'.join(map(str, batches)).replace(' ', '')}")
    for name in CALLS
    for batches in BATCHES.get(name.split(" ")[0], FOR_ALL)
]


def sizes_and_layouts(name: str, batches: tuple[tuple[int, ...], ...], backend: str) -> Iterator[tuple[int, Layout]]:
    """Yield every m with every layout for the first batches of an operation; for others fewer, which differ by case."""
    if (name, backend) == ("power 10", "numba"):  # each m compiles a loop for ten seconds; test_power.py tests it
        yield from itertools.product((1, 3), LAYOUTS)
        return
    case = BATCHES.get(name.split(" ", maxsplit=1)[0], FOR_ALL).index(batches)
    if case == 0:
        yield from itertools.product(SIZES, LAYOUTS)
    else:
        yield from ((m, LAYOUTS[(i + case) % len(LAYOUTS)]) for i, m in enumerate((1, 2, 3, 5, 8)))


@pytest.mark.parametrize("dtype", DTYPES, ids=["complex64", "complex128"])
@pytest.mark.parametrize(("name", "batches"), CASES)
@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_values_and_gradients_equal_the_reference(
    backend: str, name: str, batches: tuple[tuple[int, ...], ...], dtype: torch.dtype
) -> None:
    for m, layout in sizes_and_layouts(name, batches, backend):
        expected = specified(name, batches, m)
        inputs = [layout(x.to(dtype)) for x in arguments(name, batches, m)]
        with ops.backend(backend):
            got = [CALLS[name](*inputs), *value_and_gradients(CALLS[name], inputs)]
        for want, have in zip([expected[0], *expected], got, strict=True):
            assert have.shape == want.shape
            assert have.dtype == (dtype if want.is_complex() else torch.empty(0, dtype=dtype).real.dtype)
            scale = 1.0 + float(want.abs().max()) if want.numel() else 1.0
            tolerance = rounding(dtype, terms=8 * m, scale=scale)
            torch.testing.assert_close(have.to(want.dtype), want, atol=tolerance, rtol=0)


def smallest_gap(a: Tensor) -> float:
    eigenvalues = torch.linalg.eigvals(a)
    gaps = (eigenvalues[..., :, None] - eigenvalues[..., None, :]).abs()
    return float((gaps + 9 * torch.eye(a.shape[-1])).min())


@pytest.mark.parametrize("dtype", DTYPES, ids=["complex64", "complex128"])
@pytest.mark.parametrize(
    ("batch", "exponents"), [((), ()), ((2,), ()), ((), (4,)), ((3, 1), (2,)), ((0,), ()), ((2,), (2,))]
)
def test_real_power_equals_the_reference(
    batch: tuple[int, ...], exponents: tuple[int, ...], dtype: torch.dtype
) -> None:
    x = torch.linspace(-1.7, 2.3, max(1, torch.Size(exponents).numel()), dtype=torch.float64).reshape(exponents)
    for m in SIZES:
        a = unitary(*batch, DIM, m=m, seed=3)
        with ops.backend("reference"):
            expected = value_and_gradients(ops.power, [a, x])
        got = value_and_gradients(ops.power, [strided(a.to(dtype)), x.to(torch.empty(0, dtype=dtype).real.dtype)])
        # An eigenvector is known to rounding divided by the gap between eigenvalues; the reference differentiates it.
        gap = min(1.0, smallest_gap(a)) if a.numel() else 1.0
        for want, have in zip(expected, got, strict=True):
            scale = 1.0 + float(want.abs().max()) if want.numel() else 1.0
            tolerance = rounding(dtype, terms=DIM * m**2, scale=scale) / gap
            torch.testing.assert_close(have.to(want.dtype), want, atol=tolerance, rtol=0)


@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_real_power_differentiates_where_eigenvalues_meet(m: int) -> None:
    eye = torch.eye(m, dtype=torch.complex128).repeat(3, 1, 1).requires_grad_()
    exponent = torch.tensor([0.3, 1.0, 2.5], dtype=torch.float64)
    out = ops.power(eye, exponent)
    (grad,) = torch.autograd.grad(out.real.sum(), eye)
    # A^x at the identity is 1 + x (A - 1) to first order, so the gradient is the sum of the exponents everywhere.
    torch.testing.assert_close(grad, torch.full_like(grad, exponent.sum().item()))


@pytest.mark.slow
def test_real_power_passes_gradcheck() -> None:
    a = (unitary(2, 3, m=3) + 0.05 * gaussian(2, 3, 3, 3, seed=4)).requires_grad_()
    exponent = torch.tensor([0.7, -1.3], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(ops.power, (a, exponent))
    assert torch.autograd.gradgradcheck(ops.power, (a, exponent))


class LargestAllocation(TorchDispatchMode):
    """Remembers the largest tensor that an operation allocated; views cost nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        given = {x.untyped_storage().data_ptr() for x in args if isinstance(x, Tensor)}
        if isinstance(out, Tensor) and out.untyped_storage().data_ptr() not in given:
            self.numbers = max(self.numbers, out.numel())
        return out


@pytest.mark.parametrize("m", [1, 2, 4])
def test_bind_bundle_does_not_store_the_bound_items(m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_implementation, "_CHUNK_NUMBERS", 4000)
    keys, values = gaussian(201, 50, m, m), gaussian(201, 50, m, m, seed=1)  # the last chunk can have one item
    with LargestAllocation() as fused:
        fast = torch_implementation.bind_bundle(keys, values)
    with LargestAllocation() as materialised:
        slow = torch_implementation.bundle(torch_implementation.bind(keys, values))
    torch.testing.assert_close(fast, slow)
    assert fused.numbers <= 4000
    assert materialised.numbers == keys.numel()  # negative control: the other way does hold them


def test_broadcast_similarity_is_one_real_matrix_product() -> None:
    queries, items = gaussian(30, 1, 20, 2, 2), gaussian(40, 20, 2, 2, seed=1)
    with LargestAllocation() as memory:
        got = torch_implementation.similarity(queries, items)
    torch.testing.assert_close(got, torch_implementation.pairwise_similarity(queries[:, 0], items))
    assert memory.numbers == 30 * 40  # the result; the products of the pairs would be 30 * 40 * 80


@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_wrong_implementations_fail_the_comparison(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bind = OPERATIONS["bind"]

    def use(product: Callable[..., Tensor]) -> None:
        if backend == "torch":
            monkeypatch.setattr(bind, "torch", product)
        else:
            monkeypatch.setattr(bind.kernels[0], "function", product)

    use(lambda a, b, *adjoint: b @ a)
    with pytest.raises(AssertionError):
        test_values_and_gradients_equal_the_reference(backend, "bind", ((), ()), torch.complex128)
    use(lambda a, b, *adjoint: a @ b)
    with pytest.raises(AssertionError):
        test_values_and_gradients_equal_the_reference(backend, "bind adjoint left", ((), ()), torch.complex128)
    monkeypatch.setattr(OPERATIONS["adjoint"], "torch", lambda a: a.mT)
    with pytest.raises(AssertionError):
        test_values_and_gradients_equal_the_reference(backend, "adjoint", ((),), torch.complex128)


@pytest.mark.parametrize("m", SIZES)
def test_elementwise_bind_of_a_gpu_equals_the_reference(m: int) -> None:
    a, b = arguments("bind", ((3, 1), (2,)), m)
    want = specified("bind", ((3, 1), (2,)), m)
    for got, expected in zip(value_and_gradients(torch_implementation.elementwise_bind, [a, b]), want, strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=rounding(a.dtype, terms=10 * m))
