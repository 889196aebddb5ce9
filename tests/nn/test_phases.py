"""Operator ``ghrr::phases``: its PyTorch implementation, the choice of a kernel, and invalid arguments."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr.nn.phases import Phases
from ghrr.ops.dispatch import OPERATIONS
from tests.helpers import generator, rounding
from tests.nn.failing_kernels import use_failing_kernels

MEAN = 0.4


def random_inputs(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=generator())


def by_operator(phases: Phases, x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    out: Tensor = torch.ops.ghrr.phases(x, phases.frequencies, phases.slots, MEAN, dtype or x.dtype)
    return out


@pytest.mark.parametrize("slots", [1, 2])
def test_operator_equals_layer_and_passes_gradcheck(slots: int) -> None:
    phases = Phases(6, 4, slots=slots, dtype=torch.float64)
    x = random_inputs(5, 6, dtype=torch.float64).requires_grad_()
    torch.testing.assert_close(by_operator(phases, x), phases(x, MEAN, torch.float64))
    assert torch.autograd.gradcheck(lambda y: by_operator(phases, y), [x])
    torch.library.opcheck(torch.ops.ghrr.phases.default, (x, phases.frequencies, slots, MEAN, torch.float64))


@pytest.mark.parametrize("slots", [1, 2])
def test_gradient_operator_has_the_declared_shape(slots: int) -> None:
    for inputs, dtype in ((6, torch.float64), (2, torch.float64), (6, torch.bfloat16)):
        f = Phases(inputs, 8, slots=slots).frequencies
        given = (random_inputs(3, 16).to(dtype), random_inputs(3, 16).to(dtype), f, slots, MEAN)
        tests = ("test_schema", "test_faketensor")
        torch.library.opcheck(torch.ops.ghrr.phases_backward.default, given, test_utils=tests)


def test_operator_refuses_gradients_of_frequencies() -> None:
    phases = Phases(6, 4, trainable=True)
    with pytest.raises(NotImplementedError, match="frequencies have no gradient here; use"):
        by_operator(phases, random_inputs(5, 6)).sum().backward()


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return use_failing_kernels("phases", monkeypatch)


WARNING = "triton backend failed .RuntimeError"


def test_failing_kernel_is_replaced_by_pytorch(launched: list[str]) -> None:
    phases, x = Phases(32, 32), random_inputs(3, 32)
    with ghrr.backend("torch"):
        want = phases(x)
    with ghrr.backend("auto"):
        with pytest.warns(RuntimeWarning, match=WARNING):
            have = phases(x)
        phases(x)
    assert launched == ["forward"]
    assert torch.equal(have, want)


def test_failing_gradient_kernel_is_replaced_by_pytorch(launched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    phases, x = Phases(32, 32, slots=2), random_inputs(3, 32).requires_grad_()
    weights = random_inputs(3, 64)
    with ghrr.backend("torch"):
        want = torch.autograd.grad(phases(x), x, weights)[0]
    monkeypatch.setattr(OPERATIONS["phases"].kernels[0], "function", OPERATIONS["phases"].torch)
    with ghrr.backend("auto"):
        out = phases(x)
        with pytest.warns(RuntimeWarning, match=WARNING):
            have = torch.autograd.grad(out, x, weights)[0]
    assert launched == ["backward"]
    torch.testing.assert_close(have, want, atol=rounding(torch.float32, terms=16), rtol=0)


def test_error_that_pytorch_raises_too_does_not_disable_the_backend(
    launched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*_: Any) -> Tensor:
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(sys.modules["ghrr.nn.phases"], "_cosines_and_sines", no_memory)
    with ghrr.backend("auto"):
        for _ in range(2):
            with pytest.raises(torch.OutOfMemoryError, match="no memory"):
                Phases(32, 32)(random_inputs(3, 32))
    assert launched == ["forward", "forward"]


def test_out_of_memory_is_raised_and_the_backend_stays(launched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: Any) -> Tensor:
        launched.append("no memory")
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(OPERATIONS["phases"].kernels[0], "function", no_memory)
    with ghrr.backend("auto"):
        for _ in range(2):
            with pytest.raises(torch.OutOfMemoryError, match="no memory"):
                Phases(32, 32)(random_inputs(3, 32))
    assert launched == ["no memory", "no memory"]


def test_trainable_and_trained_phases_use_pytorch(launched: list[str]) -> None:
    x, trained, plain = random_inputs(3, 32), Phases(32, 32, trainable=True), Phases(32, 32)
    assert trained.offsets is not None
    trained.offsets.data += 0.5
    trained.requires_grad_(False)
    plain.frequencies.requires_grad_()
    with ghrr.backend("auto"):
        have = trained(x), torch.autograd.grad(plain(x)[..., 1].sum(), plain.frequencies)[0]
    with ghrr.backend("torch"):
        want = trained(x), torch.autograd.grad(plain(x)[..., 1].sum(), plain.frequencies)[0]
    torch.testing.assert_close(have, want, atol=0, rtol=0)
    assert launched == []


@pytest.mark.parametrize(("inputs", "count", "slots"), [(6, 4, 0), (6, 4, 4), (6, 4, 3), (6, 5, 2)])
def test_sizes_that_slots_do_not_divide_raise(inputs: int, count: int, slots: int) -> None:
    with pytest.raises(ValueError, match=f"must be multiples of slots={slots}, got {inputs} and {count}"):
        Phases(inputs, count, slots=slots)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_kernels_take_16_and_32_bit_numbers(dtype: torch.dtype, launched: list[str]) -> None:
    with ghrr.backend("auto"), pytest.warns(RuntimeWarning, match=WARNING):
        Phases(64, 32, slots=2)(random_inputs(2, 3, 64), MEAN, dtype)
    assert launched == ["forward"]


def test_unsupported_sizes_dtypes_and_layers_use_pytorch(launched: list[str]) -> None:
    x = random_inputs(3, 32)
    with ghrr.backend("auto"):
        Phases(32, 24)(x)
        Phases(64, 48, slots=2)(random_inputs(3, 64))  # 24 phases per slot
        Phases(24, 32)(x[:, :24])
        Phases(32, 32, slots=4)(x)
        Phases(32, 32, trainable=True)(x)
        Phases(32, 32).double()(x.double())
        Phases(32, 32)(x, MEAN, torch.float64)
        torch.vmap(Phases(32, 32))(x)
    with ghrr.backend("torch"):
        Phases(32, 32)(x)
    assert launched == []


@pytest.mark.parametrize(
    ("shape", "frequencies", "slots", "message"),
    [
        ((3, 5), (4, 6), 1, r"expected shape \(n, 6\)"),
        ((3, 6), (4, 6), 2, r"expected shape \(n, 12\)"),
        ((2, 3, 6), (4, 6), 1, r"expected shape \(n, 6\)"),
        ((3, 6), (4, 6), 0, "a multiple of slots=0"),
        ((3, 6), (4, 6), 3, "a multiple of slots=3"),
        ((3, 6), (6,), 1, "frequencies must have shape"),
    ],
)
def test_mismatched_shapes_raise(
    shape: tuple[int, ...], frequencies: tuple[int, ...], slots: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        torch.ops.ghrr.phases(torch.zeros(shape), torch.zeros(frequencies), slots, MEAN, torch.float32)


def test_gradient_unlike_the_result_raises() -> None:
    out, frequencies = torch.zeros(3, 8), torch.zeros(4, 6)
    with pytest.raises(ValueError, match="the gradient must be like the result"):
        torch.ops.ghrr.phases_backward(torch.zeros(3, 7), out, frequencies, 1, MEAN)
    with pytest.raises(ValueError, match="the gradient must be like the result"):
        torch.ops.ghrr.phases_backward(out.double(), out, frequencies, 1, MEAN)
