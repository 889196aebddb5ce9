"""Triton kernels of rows: values and gradients equal PyTorch, and no memory beyond the results is written.

The kernels run on a GPU, or with ``TRITON_INTERPRET=1`` on the CPU in Triton's interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr.nn.rows import LONGEST_WINDOW, rotate_rows, tokens_of_a_line, torch_implementation
from ghrr.ops import tensor_state
from tests.helpers import case_id, generator, pairwise, rounding
from tests.nn.test_rows import Case, differentiable, random_inputs
from tests.ops.test_triton import DEVICE, assert_untouched, guarded, pytestmark  # noqa: F401 (when to skip)

COMPILER = "inductor" if DEVICE == "cuda" else "aot_eager"
# The interpreter truncates numbers, a GPU rounds to the nearest.
UNITS = 0.5 if DEVICE == "cuda" else 1.0
needs_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
Layout = Callable[[Tensor], Tensor]

_ONE: dict[str, Any] = {"heads": 1, "batch": 1}  # the interpreter takes long for many programs and long windows
CASES = [
    *[Case(m=m, window=window, n=n) for m, window, n in [(4, 1, 7), (4, 3, 300), (8, 2, 7), (32, 3, 33), (8, 3, 1)]],
    *[Case(m=m, window=3, n=n, **_ONE) for m, n in [(64, 17), (128, 9), (4, 64)]],
    *[Case(m=m, window=window, n=n, **_ONE) for m, window, n in [(16, 5, 66), (4, 5, 3), (4, 8, 3)]],
    *[Case(m=8, window=window, normalize=False, rotated_values=True) for window in (1, 2, 3)],
    *[
        Case(m=32, window=window, heads=3, kv_heads=3, n=35, normalize=normalize)
        for window, normalize in [(1, True), (2, False)]
    ],
    Case(m=8, window=2, heads=4, kv_heads=2, rotated_values=True, batch=3),
    Case(m=4, window=3, kv_heads=0),
    Case(m=4, window=2, n=0),
    Case(m=4, window=2, batch=0),
]
EVERY = pytest.mark.parametrize("case", CASES, ids=str)
_LONG, _SHARED = Case(m=8, window=3, n=130, rotated_values=True), Case(m=8, heads=4, kv_heads=2, window=3)
SOME = [Case(window=1), _LONG, _SHARED]


@pytest.fixture(autouse=True)
def launched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Use kernels for CPU tensors too, record the names of launched kernels, and check guards around the results."""
    from ghrr.nn import row_kernels as rows_kernels

    names: list[str] = []
    buffers: list[Tensor] = []
    launch = rows_kernels._launch

    def record_launch(kernel: Any, *rest: Any) -> None:
        names.append("forward" if kernel is rows_kernels.rotate_rows_forward else "backward")
        launch(kernel, *rest)

    monkeypatch.setattr(rows_kernels, "_launch", record_launch)
    monkeypatch.setattr(rows_kernels, "_empty", guarded(buffers))
    monkeypatch.setattr(tensor_state, "is_on_gpu", lambda _: True)
    with ghrr.backend("triton"):
        yield names
    assert_untouched(buffers)


def contiguous(x: Tensor) -> Tensor:
    return x


def padded_with_nan(x: Tensor) -> Tensor:
    """Put NaN before and after the features in memory."""
    padded = torch.nn.functional.pad(x, (3, 2), value=torch.nan)
    return padded[..., 3:-2]


def axes_reversed(x: Tensor) -> Tensor:
    """Reverse the order of all axes but the last in memory."""
    axes = [*reversed(range(x.ndim - 1)), x.ndim - 1]
    return x.permute(axes).contiguous().permute(axes)


def features_strided(x: Tensor) -> Tensor:
    return x.movedim(-1, 0).contiguous().movedim(0, -1)


def heads_first(x: Tensor) -> Tensor:
    """Use the memory layout of gradients from attention."""
    return x.transpose(1, 2).contiguous().transpose(1, 2) if x.ndim == 4 else x


LAYOUTS = [contiguous, padded_with_nan, axes_reversed, features_strided, heads_first]


def weights(case: Case, dtype: torch.dtype) -> list[Tensor]:
    counts = (case.heads, case.kv_heads, case.kv_heads)
    return [
        torch.randn(case.batch, case.n, count, 2 * case.m, generator=generator(i)).to(dtype)
        for i, count in enumerate(counts)
    ]


def assert_close(case: Case, have: Tensor, want: Tensor, terms: int = 1) -> None:
    """Allow one rounding of the result and the rounding errors of arithmetic in single precision."""
    assert have.shape == want.shape
    size = float(want.abs().max()) if want.numel() else 0.0
    slack = rounding(torch.float32, terms=case.window, scale=terms + size)
    off = (have.double().cpu() - want).abs()
    assert (off <= UNITS * torch.finfo(have.dtype).eps * want.abs() + slack).all()


def check(case: Case, dtype: torch.dtype, layout: Layout = contiguous) -> None:
    """Compare queries, keys, values and all gradients with PyTorch in double precision."""
    given, grads, options = random_inputs(case, dtype), weights(case, dtype), tuple(case.options.values())
    exact, leaves = differentiable([x if x is None else x.double() for x in given], 0, 1, 3)
    results = torch_implementation(*exact, *options)
    expected = torch.autograd.grad(results, leaves, [g.double() for g in grads])
    own, leaves = differentiable([x if x is None else layout(x.to(DEVICE)) for x in given], 0, 1, 3)
    three = rotate_rows(*own, **case.options)
    laid_out = [layout(g.to(DEVICE)).transpose(1, 2) for g in grads]
    for have, want in zip(three, results, strict=True):
        assert have.dtype == dtype
        assert have.transpose(1, 2).is_contiguous()
        assert_close(case, have.detach(), want.detach().transpose(1, 2))
    got = torch.autograd.grad(three, leaves, laid_out)
    assert got[0].dtype == dtype
    assert_close(case, got[0], expected[0])
    for have, want in zip(got[1:], expected[1:], strict=True):  # sums over all tokens
        assert have.dtype == torch.float32
        assert_close(case, have, want, terms=max(1, case.batch * case.n))


@EVERY
def test_values_and_gradients_equal_double_precision(case: Case, launched: list[str]) -> None:
    check(case, torch.float32)
    assert launched == ["forward", "backward"]


WINDOWS_AND_LENGTHS = [(window, 40) for window in range(1, LONGEST_WINDOW + 1)] + [
    (3, 8),
    (3, 9),
    (3, 16),
    (3, 17),
    (8, 16),
    (8, 17),
]


@pytest.mark.parametrize(("window", "n"), WINDOWS_AND_LENGTHS)
def test_windows_across_chunks_and_programs(window: int, n: int) -> None:
    """Chunks have 1, 8 or 16 tokens, and a program of the gradient kernel has 16 tokens."""
    case = Case(m=128, window=window, n=n, kv_heads=0, **_ONE)
    assert tokens_of_a_line(torch.empty(case.batch, n, case.rows, 2 * case.m)) == 16
    check(case, torch.float32)


@pytest.mark.parametrize("n", [512, 513])
def test_many_chunks_in_one_program(n: int) -> None:
    check(Case(n=n, heads=1, batch=1), torch.bfloat16)


@pytest.mark.parametrize("case", SOME, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision(case: Case, dtype: torch.dtype) -> None:
    check(case, dtype)


@pytest.mark.parametrize(
    "options", pairwise(case=SOME, layout=LAYOUTS[1:], dtype=[torch.float32, torch.bfloat16]), ids=case_id
)
def test_every_memory_layout(options: dict[str, Any]) -> None:
    check(**options)


def test_expanded_gradients() -> None:
    case = Case(m=8)
    given, leaves = differentiable(
        [x if x is None else x.to(DEVICE) for x in random_inputs(case, torch.float32)], 0, 1, 3
    )
    have = torch.autograd.grad([x.sum() for x in rotate_rows(*given, **case.options)], leaves)
    want = torch.autograd.grad([x.sum() for x in torch_implementation(*given, *case.options.values())], leaves)
    torch.testing.assert_close(have, want, atol=rounding(torch.float32, scale=20), rtol=0)


def test_unused_results() -> None:
    case = Case(m=8)
    given, leaves = differentiable([x if x is None else x.to(DEVICE) for x in random_inputs(case, torch.float32)], 0, 1)
    have = torch.autograd.grad(rotate_rows(*given, **case.options)[1].sum(), leaves)
    want = torch.autograd.grad(torch_implementation(*given, *case.options.values())[1].sum(), leaves)
    torch.testing.assert_close(have, want, atol=rounding(torch.float32, scale=20), rtol=0)


@pytest.mark.parametrize("strided", ["q", "k", "v", "scale"])
def test_operands_with_different_strides(strided: str) -> None:
    case = _SHARED
    given, leaves = differentiable(
        [x if x is None else x.to(DEVICE) for x in random_inputs(case, torch.float32)], 0, 1, 3
    )
    if strided == "scale":
        given[3] = torch.stack((given[3], given[3]), dim=-1)[:, 0]
    grads = [
        torch.stack((g, g), dim=2).flatten(1, 2)[:, ::2] if name == strided else g
        for name, g in zip("qkv", (g.to(DEVICE).transpose(1, 2) for g in weights(case, torch.float32)), strict=True)
    ]
    have = torch.autograd.grad(rotate_rows(*given, **case.options), leaves, grads)
    three = [x.transpose(1, 2) for x in torch_implementation(*given, *case.options.values())]
    want = torch.autograd.grad(three, leaves, grads)
    torch.testing.assert_close(have, want, atol=rounding(torch.float32, scale=40), rtol=0)


def test_second_derivatives_raise() -> None:
    case = Case(m=8)
    given, leaves = differentiable([x if x is None else x.to(DEVICE) for x in random_inputs(case, torch.float32)], 0)
    (first,) = torch.autograd.grad(rotate_rows(*given, **case.options)[1].square().sum(), leaves, create_graph=True)
    with pytest.raises(NotImplementedError, match=r"kernels have first derivatives only; use ghrr.backend\('torch'\)"):
        first.sum().backward()


def test_expanded_rotations() -> None:
    case = Case(m=8, heads=3, kv_heads=3)
    given: list[Any] = [x if x is None else x.to(DEVICE) for x in random_inputs(case, torch.float32)]
    given[2] = given[2][:1].expand(6, -1, -1)
    want = torch_implementation(*given, *case.options.values())
    for have, expected in zip(rotate_rows(*given, **case.options), want, strict=True):
        torch.testing.assert_close(have, expected.transpose(1, 2), atol=rounding(torch.float32, scale=4), rtol=0)


@pytest.mark.parametrize(
    ("place", "dtype"), [("rotation", torch.float32), ("tap", torch.bfloat16), ("scale", torch.float32)], ids=str
)
def test_wrong_sign_is_noticed(place: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: change the sign of one sine, one number of a tap or one log scale."""
    from ghrr.nn import row_kernels as rows_kernels

    case = Case(m=32, window=3, n=33)
    launch = rows_kernels._launch

    def changed(
        kernel: Any, own: Any, rows: Tensor, taps: Tensor, rotations: Tensor, log_scale: Tensor, *rest: Any
    ) -> None:
        taps, rotations, log_scale = taps.clone(), rotations.clone(), log_scale.clone()
        {"rotation": rotations[1, 32, 40:41], "tap": taps[1, 3, 5:6], "scale": log_scale[1:]}[place].neg_()
        launch(kernel, own, rows, taps, rotations, log_scale, *rest)

    check(case, dtype)
    monkeypatch.setattr(rows_kernels, "_launch", changed)
    with pytest.raises(AssertionError):
        check(case, dtype)


def test_operator_passes_opcheck(monkeypatch: pytest.MonkeyPatch) -> None:
    from ghrr.nn import row_kernels as rows_kernels

    monkeypatch.setattr(rows_kernels, "_empty", lambda shape, like: like.new_empty(shape))  # without guards
    for dtype in (torch.float32, torch.bfloat16):
        given, _ = differentiable([x if x is None else x.to(DEVICE) for x in random_inputs(Case(), dtype)], 0, 1, 3)
        torch.library.opcheck(torch.ops.ghrr.rotate_rows.default, (*given, *Case().options.values()))


def test_gradient_kernel_returns_the_declared_number_of_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    from ghrr.nn import row_kernels as rows_kernels

    monkeypatch.setattr(rows_kernels, "_empty", lambda shape, like: like.new_empty(shape))
    case = Case(m=128, n=17, heads=1)
    given = [
        x if x is None else x.to(DEVICE) for x in [*random_inputs(case, torch.float32), *weights(case, torch.float32)]
    ]
    arguments = (*given[:4], *case.options.values(), *given[4:])
    assert len(torch.ops.ghrr.rotate_rows_backward(*arguments)[1]) == 2 * case.batch
    backward = torch.ops.ghrr.rotate_rows_backward.default
    torch.library.opcheck(backward, arguments, test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize(("case", "dtype"), [(Case(window=1), torch.bfloat16), (_SHARED, torch.float32)], ids=str)
def test_compiled_rows_are_one_graph_and_equal_eager(case: Case, dtype: torch.dtype, launched: list[str]) -> None:
    def function(rows: Tensor, *rest: Any) -> Any:
        three = rotate_rows(rows * 2, *rest, **case.options)
        return tuple(x * 2 for x in three)

    grads = [g.to(DEVICE).transpose(1, 2) for g in weights(case, dtype)]
    results = []
    torch.compiler.reset()
    for f in (function, torch.compile(function, fullgraph=True, dynamic=False, backend=COMPILER)):
        launched.clear()
        given, leaves = differentiable([x if x is None else x.to(DEVICE) for x in random_inputs(case, dtype)], 0, 1, 3)
        out = f(*given)
        results.append([*out, *torch.autograd.grad(out, leaves, grads)])
        assert launched == ["forward", "backward"]
    exact = 4 if COMPILER == "inductor" else len(results[0])  # inductor sums lines in a different order
    torch.testing.assert_close(results[1][:exact], results[0][:exact], atol=0, rtol=0)
    for have, want in zip(results[1][exact:], results[0][exact:], strict=True):
        assert_close(case, have, want.double().cpu(), terms=case.batch * case.n)


@needs_gpu
def test_cuda_graph_can_be_replayed() -> None:
    case = Case(m=32, window=3, n=64, heads=4, kv_heads=2)
    given, leaves = differentiable(
        [x if x is None else x.to(DEVICE) for x in random_inputs(case, torch.bfloat16)], 0, 1, 3
    )
    grads = [g.to(DEVICE).transpose(1, 2) for g in weights(case, torch.bfloat16)]

    def step() -> list[Tensor]:
        out = rotate_rows(*given, **case.options)
        # Without the graph of the gradient, which would remember the stream of the first call.
        return [*(x.detach() for x in out), *torch.autograd.grad(out, leaves, grads)]

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = step()
    for factor in (0.5, 3.0):
        with torch.no_grad():
            leaves[0].mul_(factor)
        graph.replay()
        torch.testing.assert_close(recorded, step(), atol=0, rtol=0)
