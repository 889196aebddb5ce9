"""Custom operators: first and second derivatives, vmap, compilation, and PyTorch's operator checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad

from ghrr import ops
from ghrr.ops import backends, gradients
from ghrr.ops.dispatch import OPERATIONS
from tests.helpers import gaussian

FLAGS = [(False, False), (True, False), (False, True), (True, True)]
# Batches of the factors: equal, broadcast either way, in the middle, along several axes, over items.
SHAPES: dict[str, list[tuple[tuple[int, ...], ...]]] = {
    "bind": [((), ()), ((2, 1), (2,)), ((3, 2), ()), ((1,), (3,)), ((2, 1, 2), (1, 3, 1)), ((2, 1, 2), (2, 2, 2))],
    "bind_bundle": [((3,), (3,)), ((2, 1, 3), (2, 3)), ((1,), (3,)), ((3,), (1,)), ((2, 1), (3,)), ((1, 1), (2, 3))],
    "bind_similarity": [((), (), ()), ((2, 1), (2,), (2, 2)), ((2,), (), (2,)), ((1,), (2,), ())],
}
CASES = [(name, shapes) for name, cases in SHAPES.items() for shapes in cases]


@pytest.fixture(autouse=True)
def numba_for_all() -> Iterator[None]:
    with ops.backend("numba"):
        yield


def factors(shapes: tuple[tuple[int, ...], ...], m: int, dim: int = 2) -> list[Tensor]:
    return [gaussian(*shape, dim, m, m, seed=seed) for seed, shape in enumerate(shapes)]


def product(name: str, *adjoint: bool) -> Callable[..., Tensor]:
    function: Callable[..., Tensor] = getattr(ops, name)
    return lambda *tensors: function(*tensors, *adjoint)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the operators that were called."""
    seen: list[str] = []

    def spy(name: str, operator: Any) -> Callable[..., Tensor]:
        def call(*arguments: Any) -> Tensor:
            seen.append(name)
            return operator(*arguments)  # type: ignore[no-any-return]

        return call

    for name in SHAPES:
        monkeypatch.setattr(OPERATIONS[name], "operator", spy(name, OPERATIONS[name].operator))
    return seen


@pytest.mark.parametrize(("name", "shapes"), CASES, ids=str)
def test_first_and_second_derivatives_pass_gradcheck(name: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    for adjoint in FLAGS:
        inputs = [x.requires_grad_() for x in factors(shapes, m=2, dim=1)]
        assert torch.autograd.gradcheck(product(name, *adjoint), inputs, fast_mode=True)
        assert torch.autograd.gradgradcheck(product(name, *adjoint), inputs, fast_mode=True)


def test_gradcheck_fails_for_swapped_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control."""
    right = gradients.product_like
    monkeypatch.setattr(gradients, "product_like", lambda x, a, b, *adjoint: right(x, b, a, *adjoint))
    inputs = [x.requires_grad_() for x in factors(((), ()), m=2)]
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        torch.autograd.gradcheck(product("bind"), inputs, fast_mode=True)


@pytest.mark.parametrize("adjoint", FLAGS, ids=str)
def test_gradient_of_a_broadcast_factor_uses_bind_bundle(adjoint: tuple[bool, bool], calls: list[str]) -> None:
    a, b = gaussian(4, 3, 3).requires_grad_(), gaussian(5, 4, 3, 3, seed=1).requires_grad_()
    out = ops.bind(a, b, *adjoint)
    assert calls == ["bind"]
    torch.autograd.grad(out, (a, b), torch.ones_like(out), create_graph=True)
    assert sorted(calls) == ["bind", "bind", "bind_bundle"]


def test_only_needed_gradients_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = gaussian(2, 4, 3, 3)
    right, computed = gradients.product_like, list[Tensor]()

    def spy(x: Tensor, *rest: Any) -> Tensor:
        computed.append(x)
        return right(x, *rest)

    monkeypatch.setattr(gradients, "product_like", spy)
    out = ops.bind(a, b.requires_grad_())
    (grad,) = torch.autograd.grad(out, b, out.detach())
    assert [x.data_ptr() for x in computed] == [b.data_ptr()]
    torch.testing.assert_close(grad, a.mH @ a @ b)


def test_plain_tensors_bypass_the_operator(calls: list[str]) -> None:
    a, b = gaussian(2, 4, 3, 3)
    ops.bind(a, b)
    assert calls == []
    with torch.no_grad():
        ops.bind(a.requires_grad_(), b)
    assert calls == []
    ops.bind(a, b)
    assert calls == ["bind"]


@pytest.mark.parametrize("in_dims", [(0, 0), (0, None), (None, 1), (2, -1)], ids=str)
@pytest.mark.parametrize("name", ["bind", "bind_bundle", "bind_similarity"])
def test_vmap_equals_a_loop(name: str, in_dims: tuple[int | None, int | None], calls: list[str]) -> None:
    a, b = gaussian(4, 5, 3, 3), gaussian(2, 4, 5, 3, 3, seed=1)  # one has a batch more than the other
    function = product(name, True, False)
    tensors = (a, b) if name != "bind_similarity" else (a, b, b)
    dims = (*in_dims, in_dims[1])[: len(tensors)]
    rows = 3
    many = [
        x if axis is None else torch.stack([x * (k + 1) for k in range(rows)], dim=axis)
        for x, axis in zip(tensors, dims, strict=True)
    ]
    got = torch.vmap(function, in_dims=dims)(*many)
    assert calls == [name, name]  # for one row, and then for all of them: no loop
    each = [
        function(*[x if axis is None else x * (k + 1) for x, axis in zip(tensors, dims, strict=True)])
        for k in range(rows)
    ]
    torch.testing.assert_close(got, torch.stack(each))


def test_torch_func_transforms_use_pytorch(calls: list[str]) -> None:
    a, b = gaussian(2, 4, 3, 3)

    def loss(x: Tensor) -> Tensor:
        return ops.bind(x, b).abs().square().sum()

    leaf = a.clone().requires_grad_()
    (want,) = torch.autograd.grad(loss(leaf), leaf)
    calls.clear()
    torch.testing.assert_close(torch.func.grad(loss)(a), want)
    torch.testing.assert_close(torch.vmap(torch.func.grad(loss))(a[None])[0], want)
    torch.testing.assert_close(torch.func.jvp(lambda x: ops.bind(x, b), (a,), (b,))[1], b @ b)
    with forward_ad.dual_level():
        out = ops.bind(forward_ad.make_dual(a, b), b)
        torch.testing.assert_close(forward_ad.unpack_dual(out).tangent, b @ b)
        ops.bind(a, b)  # no tangent among them
    assert calls == []


@pytest.mark.parametrize("name", ["bind", "bind_bundle", "bind_similarity"])
def test_operators_pass_opcheck(name: str) -> None:
    tensors = factors(((2,), (1,), (2,))[: 3 if name == "bind_similarity" else 2], m=2)
    operator = getattr(torch.ops.ghrr, name).default
    for inputs in (tensors, [x.clone().requires_grad_() for x in tensors], [x.mH for x in tensors]):
        torch.library.opcheck(operator, (*inputs, True, False))


def test_compiled_function_is_one_graph_with_operators() -> None:
    torch.compiler.reset()
    seen: list[str] = []

    def collect(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., Any]:
        seen.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    def loss(a: Tensor, b: Tensor) -> Tensor:
        bound = ops.bind(a, b, adjoint_a=True)
        return ops.bind_similarity(bound, b, a) + ops.bind_bundle(a[None], b[None]).abs().sum()

    a, b = gaussian(2, 4, 3, 3)
    torch.testing.assert_close(torch.compile(loss, fullgraph=True, backend=collect)(a, b), loss(a, b))
    assert [name for name in seen if name.startswith("ghrr")] == [
        "ghrr.bind.default", "ghrr.bind_similarity.default", "ghrr.bind_bundle.default"
    ]  # fmt: skip


def test_compiled_function_for_a_gpu_contains_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """With fake tensors nothing is computed, and no GPU is needed."""
    monkeypatch.setitem(backends._installed, "triton", True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: pytest.fail("asked the driver while compiling"))
    seen: list[str] = []

    def collect(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., Any]:
        seen.extend(str(node.target) for node in graph.graph.nodes if str(node.target).startswith("ghrr"))
        return graph.forward

    def loss(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        bound = ops.bind(a, b, adjoint_a=True)
        return ops.bind_similarity(bound, b, a), ops.bind_bundle(a, b)

    with ops.backend("auto"), FakeTensorMode():
        torch.compiler.reset()
        a, b = (torch.empty(rows, 4, 3, 3, dtype=torch.complex64, device="cuda") for rows in (5, 1))
        similarity, bundled = torch.compile(loss, fullgraph=True, backend=collect)(a, b)
    assert seen == [f"ghrr.{name}.default" for name in ("bind", "bind_similarity", "bind_bundle")]
    assert (similarity.device.type, similarity.dtype, similarity.shape) == ("cuda", torch.float32, (5,))
    assert (bundled.device.type, bundled.dtype, bundled.shape) == ("cuda", torch.complex64, (4, 3, 3))


def test_compiled_gradients_with_dynamic_shapes() -> None:
    torch.compiler.reset()

    def loss(a: Tensor, b: Tensor) -> Tensor:
        return ops.bind(a, b).abs().square().sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager", dynamic=True)
    for rows in (2, 3, 7):
        a, b = (x.requires_grad_() for x in (gaussian(rows, 4, 3, 3), gaussian(4, 3, 3, seed=1)))
        got, want = (torch.autograd.grad(f(a, b), (a, b)) for f in (compiled, loss))
        torch.testing.assert_close(got, want)


def test_multibind_and_power_are_differentiated_by_bind(calls: list[str]) -> None:
    items = gaussian(5, 2, 2, 2).requires_grad_()
    assert torch.autograd.gradcheck(ops.multibind, items)
    assert torch.autograd.gradcheck(lambda a: ops.power(a, 5), items)
    assert set(calls) >= {"bind"}


@pytest.mark.parametrize("case", ["bind", "broadcast", "bind_bundle", "bind_similarity", "multibind"])
def test_batched_gradients_equal_single_gradients(case: str) -> None:
    x = gaussian(500, 3, 3).requires_grad_()
    other = gaussian(2, 500, 3, 3, seed=1)
    out = {
        "bind": lambda: ops.bind(x, other[0]),
        "broadcast": lambda: ops.bind(x, other),
        "bind_bundle": lambda: ops.bind_bundle(x[None], other),
        "bind_similarity": lambda: ops.bind_similarity(x, other, other, adjoint_a=True),
        "multibind": lambda: ops.multibind(torch.stack([x, x, x])),
    }[case]()
    grads = torch.randn(4, *out.shape, dtype=out.dtype, generator=torch.Generator().manual_seed(2))
    (together,) = torch.autograd.grad(out, x, grads, is_grads_batched=True, retain_graph=True)
    alone = torch.stack([torch.autograd.grad(out, x, grad, retain_graph=True)[0] for grad in grads])
    torch.testing.assert_close(together, alone)


def test_operators_check_their_arguments() -> None:
    a = gaussian(500, 3, 3)
    for what, other in (("dtype", a.to(torch.complex64)), ("m", gaussian(500, 1, 1)), ("dim", gaussian(400, 3, 3))):
        with pytest.raises(ValueError, match=rf"^ghrr::bind: a and b differ in {what}: "):
            torch.ops.ghrr.bind(a, other, False, False)
    with pytest.raises(ValueError, match=r"^ghrr::bind: a must have shape \(\*batch, dim, m, m\), square slots"):
        torch.ops.ghrr.bind(a[:, :2], a[:, :2], False, False)  # kernels would read beyond the last slot


def test_operator_results_are_contiguous() -> None:
    x = gaussian(5, 400, 1, 1).transpose(0, 1)
    with ops.backend("torch"):
        assert torch.ops.ghrr.bind(x, x, False, False).is_contiguous()
