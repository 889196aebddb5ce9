"""What ``torch.compile`` makes of the operations where triton computes: one graph, the same kernels, the same numbers.

On a GPU by torch's own compiler. In the interpreter graphs are run as they are, and kernels get tensors on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from ghrr import ops
from ghrr.ops import gradients, operations
from tests.helpers import rounding
from tests.ops.test_parity import value_and_gradients
from tests.ops.test_triton import DEVICE, inputs, record_kernels
from tests.ops.test_triton import pytestmark as interpreted_or_on_gpu

COMPILER = "inductor" if DEVICE == "cuda" else "aot_eager"
pytestmark = interpreted_or_on_gpu
needs_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")

Batches = tuple[tuple[int, ...], ...]
OPERATIONS: dict[str, tuple[Callable[..., Tensor], Batches, set[str]]] = {
    "bind": (ops.bind, ((2,), (2,)), {"bind"}),
    "unbind left": (lambda a, b: ops.bind(a, b, adjoint_a=True), ((3, 1), (2,)), {"bind", "bind_bundle"}),
    "unbind right": (lambda a, b: ops.bind(a, b, adjoint_b=True), ((2,), ()), {"bind", "bind_bundle"}),
    "lazy adjoint": (lambda a, b: ops.bind(a.mH, b), ((2,), (2,)), {"bind"}),
    "bind_bundle": (ops.bind_bundle, ((2, 3), (3,)), {"bind", "bind_bundle"}),
    "unbind and similarity": (
        lambda a, b, c: ops.bind_similarity(a, b, c, adjoint_a=True),
        ((2,), (2,), ()),
        {"bind", "bind_similarity"},
    ),
    "multibind": (ops.multibind, ((2, 3),), {"bind"}),
    "power": (lambda a: ops.power(a, 5), ((2,),), {"bind"}),
}


@pytest.fixture(autouse=True)
def used(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Names of the kernels that were started."""
    names = record_kernels(monkeypatch)
    torch.compiler.reset()
    with ops.backend("triton"):
        yield names


def compiled(function: Callable[..., Tensor], **options: Any) -> Callable[..., Tensor]:
    return torch.compile(function, fullgraph=True, backend=COMPILER, **options)


def as_real(x: Tensor) -> Tensor:
    return torch.view_as_real(x) if x.is_complex() else x


@pytest.mark.parametrize("name", OPERATIONS)
def test_values_and_gradients(name: str, used: set[str]) -> None:
    operation, batches, kernels = OPERATIONS[name]

    def function(*tensors: Tensor) -> Tensor:
        return as_real(operation(*tensors))

    m = 3
    exact = inputs(m, *batches)
    single = [x.to(DEVICE, torch.complex64) for x in exact]
    with ops.backend("reference"):
        expected = value_and_gradients(function, exact)
    eager = value_and_gradients(function, single)
    used.clear()
    got = value_and_gradients(compiled(function), single)
    assert used == kernels
    for want, have, uncompiled in zip(expected, got, eager, strict=True):
        assert (have.shape, have.dtype) == (uncompiled.shape, uncompiled.dtype)
        tolerance = rounding(torch.complex64, terms=8 * m, scale=1 + float(want.abs().max()))
        torch.testing.assert_close(have, uncompiled, atol=tolerance, rtol=0)
        torch.testing.assert_close(have.cpu().to(want.dtype), want, atol=tolerance, rtol=0)


def test_wrong_gradient_is_noticed(monkeypatch: pytest.MonkeyPatch, used: set[str]) -> None:
    """Negative control: with the factors of the gradient swapped nothing passes."""
    right = gradients.product_like
    monkeypatch.setattr(gradients, "product_like", lambda x, a, b, *adjoint: right(x, b, a, *adjoint))
    with pytest.raises(AssertionError):
        test_values_and_gradients("bind", used)


def test_dynamic_shapes(used: set[str]) -> None:
    def function(a: Tensor, b: Tensor) -> Tensor:
        return as_real(ops.bind(a, b) + ops.bind_bundle(a[None], b[None]))

    dynamic = compiled(function, dynamic=True)
    for rows in (2, 3, 7):
        given = [x.to(DEVICE, torch.complex64) for x in inputs(3, (rows,), ())]
        got, want = (value_and_gradients(f, given) for f in (dynamic, function))
        torch.testing.assert_close(got, want, atol=rounding(torch.complex64, terms=24, scale=30), rtol=0)
    assert used == {"bind", "bind_bundle"}


def test_strides_chosen_by_the_compiler() -> None:
    """A compiler may hand on tensors in other strides than it was given."""

    def function(a: Tensor, b: Tensor) -> Tensor:
        left, right = (a * 2).transpose(0, 1), (b + 1).mT
        return as_real(ops.bind(left, right)).permute(1, 0, 2, 3, 4, 5) * 3

    given = [x.to(DEVICE, torch.complex64) for x in inputs(3, (2, 4), (4, 2))]
    got, want = (value_and_gradients(f, given) for f in (compiled(function), function))
    torch.testing.assert_close(got, want, atol=rounding(torch.complex64, terms=24, scale=30), rtol=0)


def test_vmap_and_vmap_compiled(used: set[str]) -> None:
    a, b = (x.to(DEVICE, torch.complex64) for x in inputs(3, (4,), ()))
    mapped = torch.vmap(ops.bind, in_dims=(0, None))
    torch.testing.assert_close(mapped(a, b), ops.bind(a, b))
    assert used == {"bind"}
    torch.testing.assert_close(compiled(mapped)(a, b), ops.bind(a, b))


@pytest.mark.parametrize("name", ["bind", "bind_bundle", "bind_similarity"])
def test_operators_pass_opcheck(name: str) -> None:
    operator = getattr(torch.ops.ghrr, name).default
    tensors = inputs(2, *((2,), (1,), (2,))[: 3 if name == "bind_similarity" else 2])
    tensors = [x.to(DEVICE, torch.complex64) for x in tensors]
    for given in (tensors, [x.clone().requires_grad_() for x in tensors]):
        torch.library.opcheck(operator, (*given, True, False))


@needs_gpu
def test_auto_uses_kernels_for_large_tensors(used: set[str]) -> None:
    a, b = (x.to(DEVICE, torch.complex64) for x in inputs(3, (), (), dim=operations._MIN_NUMBERS_GPU // 9 + 1))
    with ops.backend("auto"):
        got = compiled(ops.bind)(a, b)
    assert used == {"bind"}
    torch.testing.assert_close(got, a @ b, atol=rounding(torch.complex64, terms=3, scale=20), rtol=0)


@needs_gpu
def test_cuda_graph_can_be_replayed() -> None:
    recorded = torch.compile(lambda a, b: as_real(ops.bind(a, b)), fullgraph=True, mode="reduce-overhead")
    for seed in range(4):
        a, b = (x.to(DEVICE, torch.complex64) * (seed + 1) for x in inputs(3, (5,), ()))
        want = torch.view_as_real(a @ b)
        tolerance = rounding(torch.complex64, terms=3, scale=float(want.abs().max()))
        torch.testing.assert_close(recorded(a, b).clone(), want, atol=tolerance, rtol=0)
