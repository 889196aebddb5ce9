"""Triton kernels of phases: values and gradients equal PyTorch, and no memory beyond the results is written.

The kernels run on a GPU, or with ``TRITON_INTERPRET=1`` on the CPU in Triton's interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr.nn.phases import Phases
from ghrr.ops import tensor_state
from tests.helpers import generator, rounding
from tests.ops.test_triton import DEVICE, assert_untouched, guarded, pytestmark  # noqa: F401 (when to skip)

COMPILER = "inductor" if DEVICE == "cuda" else "aot_eager"
# The interpreter truncates numbers, a GPU rounds to the nearest.
UNITS = 0.5 if DEVICE == "cuda" else 1.0
needs_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
MEAN = 0.4


class Case(NamedTuple):
    """Sizes of a call."""

    inputs: int = 32
    phases: int = 48
    slots: int = 1
    shape: tuple[int, ...] = (2, 5)
    phase_std: float = 1.0


EVERY = pytest.mark.parametrize(
    "case",
    [
        *[Case(shape=shape) for shape in [(), (1,), (64,), (65,), (3, 50), (0,)]],
        *[Case(inputs, count) for inputs, count in [(16, 16), (96, 256), (256, 80)]],
        *[
            Case(slots * inputs, slots * count, slots)
            for slots, inputs, count in [(2, 16, 48), (8, 32, 32), (3, 128, 16)]
        ],
        Case(phase_std=1000.0),
    ],
    ids=str,
)
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)


@pytest.fixture(autouse=True)
def launched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Use kernels for CPU tensors too, record the names of launched kernels, and check guards around the results."""
    from ghrr.nn import phase_kernels as phases_kernels

    names: list[str] = []
    buffers: list[Tensor] = []
    launch, empty = phases_kernels._launch, guarded(buffers)

    def record_launch(kernel: Any, *rest: Any, **options: Any) -> None:
        names.append("forward" if kernel is phases_kernels.phases_forward else "backward")
        launch(kernel, *rest, **options)

    monkeypatch.setattr(phases_kernels, "_launch", record_launch)
    monkeypatch.setattr(phases_kernels, "_empty", lambda shape, like, dtype: empty(shape, like.to(dtype)))
    monkeypatch.setattr(tensor_state, "is_on_gpu", lambda _: True)
    with ghrr.backend("triton"):
        yield names
    assert_untouched(buffers)


def layer(case: Case) -> Phases:
    return Phases(case.inputs, case.phases, slots=case.slots, phase_std=case.phase_std).to(DEVICE)


def random_inputs(case: Case, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Draw inputs and the gradient of the result."""
    x = torch.randn(*case.shape, case.inputs, generator=generator(1))
    return x.to(DEVICE), torch.randn(*case.shape, 2 * case.phases, generator=generator(2)).to(DEVICE, dtype)


def expected(case: Case, x: Tensor, grad: Tensor, out: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute angles, phases and the gradient of the input (from the rounded phases) in double precision."""
    f = layer(case).frequencies.double()
    parts = x.double().unflatten(-1, (case.slots, -1))
    angles = torch.einsum("...si,sji->...sj", parts, f.unflatten(0, (case.slots, -1))).flatten(-2)
    c, s = out.double().chunk(2, dim=-1)
    by_c, by_s = grad.double().chunk(2, dim=-1)
    by_angle = (by_s * (c + MEAN) - by_c * s).unflatten(-1, (case.slots, -1))
    by_x = torch.einsum("...sj,sji->...si", by_angle, f.unflatten(0, (case.slots, -1))).flatten(-2)
    return angles, torch.cat((angles.cos() - MEAN, angles.sin()), dim=-1), by_x


def check(case: Case, dtype: torch.dtype, layout: Callable[[Tensor], Tensor] = lambda x: x) -> None:
    x, grad = random_inputs(case, dtype)
    leaf = layout(x).detach().requires_grad_()
    out = layer(case)(leaf, MEAN, dtype)
    assert out.dtype == dtype
    angles, want, by_x = expected(case, x, grad, out.detach())
    eps = torch.finfo(dtype).eps
    size = float(angles.abs().max()) if angles.numel() else 0.0
    slack = rounding(torch.float32, terms=case.inputs // case.slots, scale=1 + size)
    assert ((out.detach().double() - want).abs() <= UNITS * eps * want.abs() + slack).all()
    got = torch.autograd.grad(out, leaf, layout(grad))[0]
    assert got.dtype == torch.float32
    # Both factors of a product are rounded once. Worst case: all errors have the same sign.
    phases, largest = case.phases // case.slots, float(layer(case).frequencies.abs().max())
    scale = largest * float(grad.double().abs().max()) if grad.numel() else 0.0
    bound = 2 * UNITS * eps * phases * 2 * scale + rounding(torch.float32, terms=phases, scale=4 * phases * scale)
    assert ((got.double() - by_x).abs() <= bound).all()
    assert (got.double() - by_x).norm() <= 4 * eps * by_x.norm()  # typical case: errors have both signs


@EVERY
@DTYPES
def test_values_and_gradients_equal_double_precision(case: Case, dtype: torch.dtype, launched: list[str]) -> None:
    check(case, dtype)
    assert launched == expected_kernels(case)


def expected_kernels(case: Case) -> list[str]:
    """Return the kernels that a call launches. Without slots, PyTorch computes the gradient."""
    return ["forward"] if case.slots == 1 else ["forward", "backward"]


def features_strided(x: Tensor) -> Tensor:
    return x.movedim(-1, 0).contiguous().movedim(0, -1)


def padded_with_nan(x: Tensor) -> Tensor:
    """Put NaN before and after the features in memory."""
    return torch.nn.functional.pad(x, (3, 2), value=torch.nan)[..., 3:-2]


@pytest.mark.parametrize("layout", [features_strided, padded_with_nan])
@DTYPES
def test_every_memory_layout(layout: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    check(Case(shape=(70,)), dtype, layout)
    check(Case(32, 32, 2, shape=(3, 4)), dtype, layout)


@pytest.mark.parametrize("place", ["frequency", "mean"])
@DTYPES
def test_wrong_frequency_or_mean_is_noticed(place: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: change the sign of some frequencies of one phase, or the mean."""
    from ghrr.nn import phase_kernels as phases_kernels

    launch = phases_kernels._launch

    def changed(kernel: Any, given: tuple[Any, ...], frequencies: Tensor, *rest: Any, **options: Any) -> None:
        other = frequencies.clone()
        other[3, 5:] *= -1
        given = tuple(
            (other if place == "frequency" else x) if isinstance(x, Tensor) and x.shape == other.shape else x
            for x in given
        )
        given = tuple(x * 1.05 if place == "mean" and isinstance(x, float) else x for x in given)
        launch(kernel, given, frequencies, *rest, **options)

    for case in (Case(), Case(32, 32, 2)):
        check(case, dtype)
    monkeypatch.setattr(phases_kernels, "_launch", changed)
    for case in (Case(), Case(32, 32, 2)):
        with pytest.raises(AssertionError):
            check(case, dtype)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # from the interpreter
def test_huge_angles_stay_on_the_unit_circle_and_nan_stays_nan() -> None:
    x = torch.tensor([1e8, 1e15, 3e30, torch.nan, torch.inf], device=DEVICE)[:, None].expand(-1, 32)
    with torch.no_grad():
        cosines, sines = layer(Case())(x, 0.0, torch.float32).chunk(2, dim=-1)
    assert (cosines[:3].square() + sines[:3].square() - 1).abs().max() < rounding(torch.float32, scale=4)
    assert cosines[3:].isnan().all()
    assert sines[3:].isnan().all()


@pytest.mark.parametrize("largest", [0.8, 10.0, 1000.0])
def test_cosines_and_sines_are_within_units_of_the_last_place(largest: float) -> None:
    angles = (2 * torch.rand(500, 16, generator=generator()) - 1) * largest
    given = (angles.to(DEVICE), torch.eye(16, device=DEVICE), 1, 0.0, torch.float32)  # products with 1 are exact
    have = torch.ops.ghrr.phases(*given).double().cpu()
    exact = angles.double()
    want = torch.cat((exact.cos(), exact.sin()), dim=-1)
    assert (have - want).abs().max() < 8 * 2**-24


def test_products_are_exact_unless_torch_is_set_to_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    from ghrr.nn import phase_kernels as phases_kernels

    precisions: list[str] = []

    class Recorder:
        def __getitem__(self, grid: Any) -> Callable[..., None]:
            return lambda *_, **options: precisions.append(options["PRECISION"])

    for name in ("phases_forward", "phases_backward"):
        monkeypatch.setattr(phases_kernels, name, Recorder())
    matmul: Any = torch.backends.cuda.matmul
    x, f, grad = (
        torch.zeros(3, 32, device=DEVICE),
        torch.zeros(32, 16, device=DEVICE),
        torch.zeros(3, 64, device=DEVICE),
    )

    def call_kernels() -> None:
        torch.ops.ghrr.phases(x, f, 2, MEAN, torch.float32)
        for dtype in (torch.float32, torch.bfloat16):
            torch.ops.ghrr.phases_backward(grad.to(dtype), grad.to(dtype), f, 2, MEAN)

    before = matmul.fp32_precision
    try:
        call_kernels()
        matmul.fp32_precision = "tf32"
        call_kernels()
    finally:
        matmul.fp32_precision = before
    assert precisions == ["ieee", "ieee", "tf32", "tf32", "tf32", "tf32"]  # 16-bit numbers are exact in TF32


def test_second_derivatives_raise() -> None:
    case = Case(32, 32, 2)
    x = random_inputs(case, torch.float32)[0].requires_grad_()
    first = torch.autograd.grad(layer(case)(x).pow(3).sum(), x, create_graph=True)[0]
    with pytest.raises(NotImplementedError, match=r"first derivatives only; use ghrr\.backend\('torch'\)"):
        first.sum().backward()
    with ghrr.backend("torch"):
        first = torch.autograd.grad(layer(case)(x).pow(3).sum(), x, create_graph=True)[0]
        first.sum().backward()
    assert x.grad is not None


def test_unsupported_layers_use_pytorch(launched: list[str]) -> None:
    x = random_inputs(Case(), torch.float32)[0]
    Phases(32, 48, trainable=True).to(DEVICE)(x).sum().backward()
    Phases(32, 40).to(DEVICE)(x)  # a size without kernels
    Phases(32, 48, dtype=torch.float64).to(DEVICE)(x.double())
    assert not launched


def test_operator_passes_opcheck(monkeypatch: pytest.MonkeyPatch) -> None:
    from ghrr.nn import phase_kernels as phases_kernels

    monkeypatch.setattr(phases_kernels, "_empty", lambda shape, like, dtype: like.new_empty(shape, dtype=dtype))
    f = layer(Case()).frequencies
    x = random_inputs(Case(shape=(7,)), torch.float32)[0].requires_grad_()
    for dtype, slots in ((torch.float32, 1), (torch.bfloat16, 1), (torch.bfloat16, 3)):
        given = x if slots == 1 else torch.cat((x, x, x), dim=-1).detach().requires_grad_()
        torch.library.opcheck(torch.ops.ghrr.phases.default, (given, f, slots, MEAN, dtype))


@pytest.mark.parametrize("case", [Case(shape=(2, 40)), Case(64, 64, 2, shape=(70,))], ids=str)
@DTYPES
def test_compiled_phases_are_one_graph_and_equal_eager(case: Case, dtype: torch.dtype, launched: list[str]) -> None:
    phases = layer(case)
    x, grad = random_inputs(case, dtype)
    results = []
    torch.compiler.reset()
    function = lambda y: phases(y * 2, MEAN, dtype) * 2  # noqa: E731
    # For gradients that PyTorch computes, inductor would fuse multiplications and additions; this disables it.
    options: Any = {"emulate_precision_casts": True} if COMPILER == "inductor" else None
    compiled = torch.compile(function, fullgraph=True, dynamic=False, backend=COMPILER, options=options)
    for f in (function, compiled):
        launched.clear()
        leaf = x.clone().requires_grad_()
        out = f(leaf)
        results.append((out, torch.autograd.grad(out, leaf, grad)[0]))
        assert launched == expected_kernels(case)
    torch.testing.assert_close(results[1], results[0], atol=0, rtol=0)


@needs_gpu
def test_products_follow_the_float32_matmul_precision_of_torch() -> None:
    case = Case(256, 256, shape=(4096,))
    x, grad = random_inputs(case, torch.float32)
    angles = expected(case, x, grad, grad)[0]
    want = torch.cat((angles.cos(), angles.sin()), dim=-1)
    errors = {}
    before = torch.get_float32_matmul_precision()
    for precision in ("highest", "high"):
        torch.set_float32_matmul_precision(precision)
        try:
            errors[precision] = float((layer(case)(x, 0.0, torch.float32) - want).square().mean().sqrt())
        finally:
            torch.set_float32_matmul_precision(before)
    assert errors["highest"] < 1e-6
    assert 1e-5 < errors["high"] < 2**-10  # TF32 has 10 bits
