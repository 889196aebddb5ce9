"""Real pairs in 16 bits: every backend gives the numbers of the specification, rounded once."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from ghrr import ops
from ghrr.ops import choice, numba_backend, pairs, reference, torch_backend
from tests.helpers import generator, rounding
from tests.ops.test_library import calls  # noqa: F401 (a fixture)

DTYPES = pytest.mark.parametrize("dtype", pairs.DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
OPERATIONS: dict[str, Callable[..., Tensor]] = {
    "bind": ops.bind_pairs,
    "bind adjoint left": lambda a, b: ops.bind_pairs(a, b, adjoint_a=True),
    "bind adjoint right": lambda a, b: ops.bind_pairs(a, b, adjoint_b=True),
    "bind adjoint both": lambda a, b: ops.bind_pairs(a, b, adjoint_a=True, adjoint_b=True),
    "bind_bundle": ops.bind_bundle_pairs,
    "bind_bundle adjoint left": lambda a, b: ops.bind_bundle_pairs(a, b, adjoint_keys=True),
    "bind_bundle adjoint right": lambda a, b: ops.bind_bundle_pairs(a, b, adjoint_values=True),
}
# Batches of the factors: alike, broadcast either way, along axes that are not neighbours, over items, empty.
BATCHES: dict[str, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {
    "bind": [((), ()), ((3, 1), (2,)), ((4,), ()), ((2, 1, 2), (1, 3, 1)), ((2, 3, 2), (1, 3, 1)), ((0,), (0,))],
    "bind_bundle": [((5,), (5,)), ((3, 1, 4), (2, 4)), ((1,), (5,)), ((5,), (1,)), ((0,), (0,)), ((2, 0), (0,))],
}
CASES = [(name, batches) for name in OPERATIONS for batches in BATCHES[name.partition(" ")[0]]]
SIZES = (1, 2, 3, 9)
DIM = 3


@pytest.fixture(autouse=True)
def poisoned_memory() -> Iterator[None]:
    """Memory that a kernel forgets to write holds NaN."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def drawn(batches: tuple[tuple[int, ...], ...], m: int, dtype: torch.dtype, dim: int = DIM) -> list[Tensor]:
    return [
        torch.randn(*batch, dim, m, m, 2, generator=generator(seed)).to(dtype) for seed, batch in enumerate(batches)
    ]


def contiguous(x: Tensor) -> Tensor:
    return x


def strided(x: Tensor) -> Tensor:
    """Every second slot of a larger tensor."""
    wide = x.new_full((*x.shape[:-4], 2 * x.shape[-4], *x.shape[-3:]), torch.nan)
    wide[..., ::2, :, :, :] = x
    return wide[..., ::2, :, :, :]


def transposed(x: Tensor) -> Tensor:
    return x.transpose(-2, -3).contiguous().transpose(-2, -3)


def parts_apart(x: Tensor) -> Tensor:
    """All real parts before all imaginary parts."""
    return x.movedim(-1, 0).contiguous().movedim(0, -1)


def odd(x: Tensor) -> Tensor:
    """Words begin in the middle of words."""
    flat = x.new_full((x.numel() + 1,), torch.nan)
    flat[1:] = x.flatten()
    return flat[1:].view(x.shape)


def batch_last(x: Tensor) -> Tensor:
    """Axes before the slots in the reverse order in memory."""
    axes = [*reversed(range(x.ndim - 4)), *range(x.ndim - 4, x.ndim)]
    return x.permute(axes).contiguous().permute(axes)


def negated(x: Tensor) -> Tensor:
    return torch._neg_view(-x)


def in_threes(x: Tensor) -> Tensor:
    """Pairs with an odd step from one to the next."""
    return x.new_empty((*x.shape[:-1], 3))[..., :2].copy_(x)


LAYOUTS = [contiguous, strided, transposed, parts_apart, odd, in_threes, batch_last, negated]


def value_and_gradients(function: Callable[..., Tensor], given: list[Tensor]) -> list[Tensor]:
    leaves = [x.detach().requires_grad_() for x in given]
    out = function(*leaves)
    weights = torch.randn(out.shape, generator=generator(77)).bfloat16().to(out)  # the same in every precision
    if not out.requires_grad:  # a constant, as the sum of nothing is
        return [out, *(torch.zeros_like(x) for x in leaves)]
    return [out.detach(), *torch.autograd.grad(out, leaves, weights)]


@functools.cache
def specified(name: str, batches: tuple[tuple[int, ...], ...], m: int, dtype: torch.dtype) -> list[Tensor]:
    """Value and gradients after the specification, for the numbers that ``dtype`` holds, not rounded."""
    adjoint = ["left" in name or "both" in name, "right" in name or "both" in name]
    function = getattr(reference, name.partition(" ")[0] + "_pairs")
    return value_and_gradients(lambda a, b: function(a, b, *adjoint), [x.double() for x in drawn(batches, m, dtype)])


def assert_rounded_once(got: Tensor, want: Tensor, m: int, units: float = 0.5) -> None:
    """Off by half a unit of the last place, and by what the arithmetic in single precision explains."""
    assert got.shape == want.shape
    scale = 1.0 + float(want.abs().max()) if want.numel() else 1.0
    last_place = torch.finfo(got.dtype).eps * want.abs()
    off = (got.double().cpu() - want).abs()
    assert (off <= units * last_place + rounding(torch.float32, terms=8 * m, scale=scale)).all()


@DTYPES
@pytest.mark.parametrize(("name", "batches"), CASES, ids=str)
@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_values_and_gradients_equal_the_reference(
    backend: str, name: str, batches: tuple[tuple[int, ...], ...], dtype: torch.dtype
) -> None:
    for m in SIZES:
        given, expected = drawn(batches, m, dtype), specified(name, batches, m, dtype)
        with ops.backend(backend):
            got = [OPERATIONS[name](*given), *value_and_gradients(OPERATIONS[name], given)]
        for want, have in zip([expected[0], *expected], got, strict=True):
            assert have.dtype == dtype
            assert_rounded_once(have, want, m)


@DTYPES
def test_the_reference_is_the_complex_one_rounded(dtype: torch.dtype) -> None:
    a, b = drawn(((5,), (1,)), 3, dtype)
    x, y = (torch.view_as_complex(x.double()) for x in (a, b))
    with ops.backend("reference"):
        for flags in ((False, False), (True, False), (False, True), (True, True)):
            bound, bundled = ops.bind_pairs(a, b, *flags), ops.bind_bundle_pairs(a, b, *flags)
            assert torch.equal(bound, torch.view_as_real(reference.bind(x, y, *flags)).to(dtype))
            assert torch.equal(bundled, torch.view_as_real(reference.bind_bundle(x, y, *flags)).to(dtype))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_every_layout(backend: str, layout: Callable[[Tensor], Tensor]) -> None:
    for dtype in pairs.DTYPES:
        for m in (1, 2, 3):
            given = drawn(((2, 3), (2, 3)), m, dtype)
            for name in ("bind adjoint left", "bind_bundle adjoint right"):
                with ops.backend(backend):
                    got = value_and_gradients(OPERATIONS[name], [layout(x) for x in given])
                for have, want in zip(got, specified(name, ((2, 3), (2, 3)), m, dtype), strict=True):
                    assert_rounded_once(have, want, m)


@pytest.mark.parametrize("layout", LAYOUTS)
@DTYPES
def test_words_are_the_same_memory_where_they_can_be(dtype: torch.dtype, layout: Callable[[Tensor], Tensor]) -> None:
    x = layout(drawn(((2, 4),), 3, dtype)[0])
    words = pairs.as_words(x)
    assert words.shape == x.shape[:-1]
    assert torch.equal(pairs.from_words(words, dtype), x)
    assert (words.data_ptr() == x.data_ptr()) == (layout not in (parts_apart, odd, in_threes, negated))


def test_words_of_a_repeated_tensor_are_not_written_out() -> None:
    (x,) = drawn(((1,),), 3, torch.bfloat16)
    for one in (x, parts_apart(x)):
        words = pairs.as_words(one.expand(50, *x.shape[1:]))
        assert words.shape == (50, DIM, 3, 3)
        assert words.untyped_storage().nbytes() == DIM * 9 * 4


def test_words_begin_where_a_word_may() -> None:
    memory = torch.frombuffer(bytearray(2 + 4 * DIM * 9), dtype=torch.bfloat16, offset=2)  # its own first number
    x = memory.view(DIM, 3, 3, 2).copy_(drawn(((),), 3, torch.bfloat16)[0])
    words = pairs.as_words(x)
    assert words.data_ptr() % 4 == 0
    assert torch.equal(pairs.from_words(words, x.dtype), x)


@pytest.mark.parametrize("name", ["bind_pairs", "bind_bundle_pairs"])
def test_operators_of_torch_want_the_axis_of_items(name: str) -> None:
    x = torch.zeros(5, 3, 3, 2) if name == "bind_bundle_pairs" else torch.zeros(3, 3, 2)
    with pytest.raises(ValueError, match=f"^ghrr::{name}: "):
        getattr(torch.ops.ghrr, name)(x, x, False, False)


@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_pairs_in_single_precision_are_complex64(backend: str) -> None:
    a, b = drawn(((2,), (2,)), 3, torch.float32)
    with ops.backend(backend):
        want = ops.bind(torch.view_as_complex(a), torch.view_as_complex(b), adjoint_b=True)
        assert torch.equal(torch.view_as_complex(ops.bind_pairs(a, b, adjoint_b=True)), want)


@pytest.mark.parametrize(("backend", "kernels"), [("torch", torch_backend), ("numba", numba_backend)])
def test_parity_would_notice_a_wrong_kernel(backend: str, kernels: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: swapped factors, a lost adjoint, and arithmetic in 16 bits do not pass."""

    def swapped(a: Tensor, b: Tensor, *adjoint: bool) -> Tensor:
        return reference.bind_pairs(b, a)

    def without_adjoint(a: Tensor, b: Tensor, *adjoint: bool) -> Tensor:
        return reference.bind_pairs(a, b)

    def coarse(a: Tensor, b: Tensor, *adjoint: bool) -> Tensor:
        (ar, ai), (br, bi) = a.unbind(-1), b.unbind(-1)
        return torch.stack([ar @ br - ai @ bi, ar @ bi + ai @ br], dim=-1)

    wrong = (("bind", swapped), ("bind adjoint left", without_adjoint), ("bind", coarse))
    for name, kernel in wrong:
        monkeypatch.setattr(kernels, "bind_pairs", kernel)
        with pytest.raises(AssertionError):
            test_values_and_gradients_equal_the_reference(backend, name, ((), ()), torch.bfloat16)


def test_a_gradient_that_is_summed_is_rounded_once() -> None:
    """Along axes that are not neighbours products cannot be bundled; the control sums rounded ones."""
    batches = ((1, 3, 1), (30, 3, 30))
    given = drawn(batches, 2, torch.bfloat16)
    want = specified("bind", batches, 2, torch.bfloat16)[1]
    with ops.backend("numba"):
        assert_rounded_once(value_and_gradients(ops.bind_pairs, given)[1], want, 2)
        weights = torch.randn(30, 3, 30, DIM, 2, 2, 2, generator=generator(77)).bfloat16()
        one_by_one = ops.bind_pairs(weights, given[1], adjoint_b=True).sum((0, 2), keepdim=True)
    with pytest.raises(AssertionError):
        assert_rounded_once(one_by_one, want, 2)


def test_second_derivatives() -> None:
    def slope(function: Callable[..., Tensor], a: Tensor, b: Tensor) -> Tensor:
        (grad,) = torch.autograd.grad(function(a, b, True, False).square().sum(), a, create_graph=True)
        return torch.autograd.grad(grad.square().sum(), b)[0]

    for name, batches in (("bind_pairs", ((2, 1), (3,))), ("bind_bundle_pairs", ((2, 3), (3,)))):
        given = drawn(batches, 2, torch.float32)
        want = slope(getattr(reference, name), *[x.double().requires_grad_() for x in given])
        with ops.backend("numba"):
            got = slope(getattr(ops, name), *[x.requires_grad_() for x in given])
        torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-4)


def test_operators_are_for_derivatives_and_broadcast_ones_are_bundled(calls: list[str]) -> None:  # noqa: F811
    a, b = (x.requires_grad_() for x in drawn(((), (5,)), 3, torch.bfloat16))
    with ops.backend("numba"):
        ops.bind_pairs(a.detach(), b.detach())
        assert calls == []
        out = ops.bind_pairs(a, b)
        torch.autograd.grad(out, (a, b), torch.ones_like(out), create_graph=True)
    assert sorted(calls) == ["bind_bundle_pairs", "bind_pairs", "bind_pairs"]


@pytest.mark.parametrize("backend", ["torch", "numba"])
@pytest.mark.parametrize("in_dims", [(0, 0), (0, None), (None, 1), (2, -1)], ids=str)
@pytest.mark.parametrize("name", ["bind_pairs", "bind_bundle_pairs"])
def test_vmap_equals_a_loop(name: str, in_dims: tuple[int | None, int | None], backend: str) -> None:
    a, b = drawn(((4,), (2, 4)), 3, torch.bfloat16)
    function, rows = getattr(ops, name), 3
    many = [
        x if axis is None else torch.stack([x * (k + 1) for k in range(rows)], dim=axis)
        for x, axis in zip((a, b), in_dims, strict=True)
    ]
    with ops.backend(backend):
        got = torch.vmap(function, in_dims=in_dims)(*many)
        each = [
            function(*[x if axis is None else x * (k + 1) for x, axis in zip((a, b), in_dims, strict=True)])
            for k in range(rows)
        ]
    torch.testing.assert_close(got, torch.stack(each))


def test_transforms_of_torch_func_use_torchs_own_operations(calls: list[str]) -> None:  # noqa: F811
    a, b = drawn(((), ()), 3, torch.float32)

    def loss(x: Tensor) -> Tensor:
        return ops.bind_pairs(x, b).square().sum()

    leaf = a.clone().requires_grad_()
    (want,) = torch.autograd.grad(loss(leaf), leaf)
    with ops.backend("numba"):
        torch.testing.assert_close(torch.func.grad(loss)(a), want)
        with forward_ad.dual_level():
            out = ops.bind_pairs(forward_ad.make_dual(a, b), b)
            torch.testing.assert_close(forward_ad.unpack_dual(out).tangent, reference.bind_pairs(b, b))
    assert calls == []


@pytest.mark.parametrize("name", ["bind_pairs", "bind_bundle_pairs"])
def test_the_operators_pass_torchs_own_checks(name: str) -> None:
    operator = getattr(torch.ops.ghrr, name).default
    for dtype in (torch.float32, torch.bfloat16):
        tensors = drawn(((2,), (1,)), 2, dtype)
        for given in (tensors, [x.clone().requires_grad_() for x in tensors], [transposed(x) for x in tensors]):
            with ops.backend("numba"):
                torch.library.opcheck(operator, (*given, True, False))


def test_compiled_derivatives_and_sizes_that_change() -> None:
    torch.compiler.reset()

    def loss(a: Tensor, b: Tensor) -> Tensor:
        return ops.bind_bundle_pairs(ops.bind_pairs(a, b), b[None], adjoint_values=True).float().square().sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager", dynamic=True)
    with ops.backend("numba"):
        for rows in (2, 3, 7):
            a, b = (x.requires_grad_() for x in drawn(((rows,), ()), 3, torch.bfloat16))
            got, want = (torch.autograd.grad(f(a, b), (a, b)) for f in (compiled, loss))
            torch.testing.assert_close(got, want)


def test_which_backend_computes() -> None:
    large, small = drawn(((), ()), 3, torch.bfloat16, dim=500)[0], drawn(((),), 3, torch.bfloat16)[0]
    assert choice.kernels_for("bind_pairs", large, large) is numba_backend
    assert choice.kernels_for("bind_pairs", small, small) is torch_backend
    fhrr = large.reshape(-1, 1, 1, 2)
    assert choice.kernels_for("bind_pairs", fhrr, fhrr) is torch_backend
    assert choice.kernels_for("bind_bundle_pairs", fhrr, fhrr) is numba_backend
    with ops.backend("numba"):
        assert choice.kernels_for("bind_pairs", small, small) is numba_backend
        for other in (drawn(((),), 9, torch.bfloat16)[0], small.to("meta")):
            assert choice.kernels_for("bind_pairs", other, other) is torch_backend
    with ops.backend("reference"):
        assert choice.kernels_for("bind_pairs", large, large) is reference


def test_a_loop_that_fails_to_compile_is_replaced_with_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_failed", {})

    def broken() -> None:
        raise OSError("no compiler")

    monkeypatch.setattr(numba_backend, "_loops", broken)
    x = drawn(((),), 3, torch.bfloat16, dim=500)[0]
    want = torch_backend.bind_pairs(x, x)
    with pytest.warns(RuntimeWarning, match="numba backend failed"):
        assert torch.equal(ops.bind_pairs(x, x), want)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(ops.bind_pairs(x, x), want)


GOOD = drawn(((5,),), 3, torch.bfloat16)[0]
BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "complex": (
        torch.view_as_complex(GOOD.float()),
        TypeError,
        r"b must hold real pairs .*, got a complex64 tensor of shape \(5, 3, 3, 3\); "
        r"for complex numbers use (ghrr::)?bind, or give torch.view_as_real\(b\)",
    ),
    "a list": ([1.0], TypeError, r"b must be a tensor of real pairs \(\*batch, dim, m, m, 2\), got list \[1.0\]"),
    "double": (GOOD.double(), TypeError, "b must be bfloat16, float16 or float32, got a float64 tensor"),
    "whole numbers": (GOOD.to(torch.int32), TypeError, "b must be bfloat16, float16 or float32, got a int32 tensor"),
    "no parts": (
        GOOD[..., 0],
        ValueError,
        r"b must have shape \(\*batch, dim, m, m, 2\).*got a bfloat16 .* \(5, 3, 3, 3\)",
    ),
    "three parts": (GOOD[..., [0, 1, 1]], ValueError, r"b .* real and imaginary parts last; got .* \(5, 3, 3, 3, 3\)"),
    "not square": (GOOD[..., :2, :], ValueError, r"b .* square slots of m >= 1 and dim >= 1, .* \(5, 3, 3, 2, 2\)"),
    "no slots": (GOOD[:, :0], ValueError, r"b .* square slots of m >= 1 and dim >= 1, .* \(5, 0, 3, 3, 2\)"),
    "too few axes": (GOOD[0, 0], ValueError, r"b must have shape .* \(3, 3, 2\)"),
    "another m": (GOOD[..., :2, :2, :], ValueError, r"a and b differ in m: 3 and 2 \(a is a bfloat16 tensor"),
    "another dim": (GOOD[:, :2], ValueError, "a and b differ in dim: 3 and 2"),
    "another dtype": (GOOD.half(), ValueError, "a and b differ in dtype: torch.bfloat16 and torch.float16"),
    "another device": (GOOD.to("meta"), ValueError, "a and b differ in device: cpu and meta"),
    "another batch": (GOOD[:4], ValueError, r"the batch shapes do not broadcast: a \(5,\), b \(4,\)"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_does_not_fit_is_named(what: str) -> None:
    other, error, message = BAD[what]
    with pytest.raises(error, match=r"^bind_pairs\(a, b\): " + message):
        ops.bind_pairs(GOOD, other)
    if isinstance(other, Tensor) and other.is_cpu:
        with pytest.raises(error, match=r"^ghrr::bind_pairs: " + message):
            torch.ops.ghrr.bind_pairs(GOOD, other, False, False)


def test_bundles_need_an_axis_of_items() -> None:
    with pytest.raises(
        ValueError, match=r"^bind_bundle_pairs\(keys, values\): values must have shape \(\*batch, n, dim"
    ):
        ops.bind_bundle_pairs(GOOD, GOOD[0])
    with pytest.raises(TypeError, match=r"use bind_bundle, or give torch.view_as_real\(keys\)"):
        ops.bind_bundle_pairs(torch.view_as_complex(GOOD.float()), GOOD)
