"""Dispatch: the choice of an implementation, and kernels that fail."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr import models, ops
from ghrr.ops import backends, operations, reference, tensor_state
from ghrr.ops.dispatch import OPERATIONS, Kernel, Operation, is_out_of_memory
from tests.helpers import gaussian, generator, unitary

LARGE, SMALL = gaussian(500, 3, 3), gaussian(5, 3, 3)


def chosen(name: str, *arguments: Any) -> str:
    kernel = OPERATIONS[name].choose_kernel(*arguments)
    return "torch" if kernel is None else kernel.backend


@pytest.fixture(autouse=True)
def failures(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The backends that failed during the test."""
    failed: dict[str, str] = {}
    monkeypatch.setattr(backends, "_failures", failed)
    return failed


def fail_with(error: BaseException) -> Callable[..., Any]:
    def fail(*arguments: Any) -> Any:
        raise error

    return fail


# ------------------------------------------------------------------------------------------------------ which kernel


def test_auto_uses_numba_where_it_pays_off() -> None:
    assert chosen("bind", LARGE, LARGE, False, False) == "numba"
    assert chosen("bind", LARGE, SMALL, False, False) == "numba"
    assert chosen("bind", SMALL, SMALL, False, False) == "torch"
    fhrr = LARGE.reshape(-1, 1, 1)
    assert chosen("bind", fhrr, fhrr, False, False) == "torch"  # an elementwise product
    assert chosen("bind_bundle", fhrr, fhrr, False, False) == "numba"


def test_unsupported_arguments_go_to_pytorch() -> None:
    with ghrr.backend("numba"):
        assert chosen("bind", SMALL, SMALL, False, False) == "numba"
        for other in (gaussian(2, 9, 9), SMALL.to("meta"), SMALL.real):
            assert chosen("bind", other, other, False, False) == "torch"
        big = gaussian(2, 9, 9)
        torch.testing.assert_close(ghrr.bind(big, big), big @ big)


@pytest.mark.parametrize("name", ["torch", "reference", "triton"])
def test_other_selected_backends_exclude_numba(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "_selected", name)
    assert chosen("bind", LARGE, LARGE, False, False) == "torch"


def test_gpu_tensors_use_triton_where_it_pays_off(monkeypatch: pytest.MonkeyPatch) -> None:
    used = {"supports": True, "pays_off": True}
    kernel = Kernel("triton", "nowhere:nothing", lambda *_: used["supports"], lambda *_: used["pays_off"])
    monkeypatch.setitem(backends._installed, "triton", True)
    monkeypatch.setattr(OPERATIONS["bind"], "kernels", (kernel,))
    assert chosen("bind", LARGE, LARGE) == "triton"
    used["pays_off"] = False
    assert chosen("bind", LARGE, LARGE) == "torch"
    monkeypatch.setattr(backends, "_selected", "triton")
    assert chosen("bind", LARGE, LARGE) == "triton"  # selected by name: used where it does not pay off
    used["supports"] = False
    assert chosen("bind", LARGE, LARGE) == "torch"
    used["supports"] = True
    monkeypatch.setitem(backends._installed, "triton", False)
    assert chosen("bind", LARGE, LARGE) == "torch"


def test_gpu_kernels_need_single_precision_and_a_recent_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    single = LARGE.to(torch.complex64)
    assert not operations._gpu_supports(single)  # on the CPU
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (6, 1))
    assert not operations._is_recent.__wrapped__(0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 0))
    assert operations._is_recent.__wrapped__(0)


def test_traced_code_uses_pytorch(failures: dict[str, str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about torch.jit and about shapes in traces
        traced = torch.jit.trace(ops.bind, (LARGE, LARGE))
    torch.testing.assert_close(traced(LARGE, LARGE), reference.bind(LARGE, LARGE))
    assert failures == {}


# ------------------------------------------------------------------------------------------------- kernels that fail

BITS = torch.eye(64, dtype=torch.bool)
# For every operation with a CPU kernel, a call that uses the kernel.
CALLS: dict[str, Callable[[], Any]] = {
    "bind": lambda: ops.bind(LARGE, LARGE[None]),
    "bind_bundle": lambda: ops.bind_bundle(LARGE[None], LARGE[None]),
    "bind_similarity": lambda: ops.bind_similarity(LARGE, LARGE, LARGE),
    "bind_bags": lambda: ops.bind_bags(
        LARGE[None], LARGE[None], torch.tensor([0, 0]), torch.tensor([0, 0]), torch.tensor([0, 2])
    ),
    "multibind": lambda: ops.multibind(torch.stack([LARGE, LARGE])),
    "whole_power": lambda: ops.power(LARGE, 3),
    "unitary_power": lambda: ops.unitary_power(unitary(500, m=3), torch.tensor(0.5)),
    "polar_factor": lambda: ops.polar(LARGE),
    "fractional_power": lambda: ops.fractional_power(
        unitary(4, m=2).to(torch.complex64), torch.ones(4, 2, 3), torch.zeros(1 << 15, 3)
    ),
    "cos_sin": lambda: ops.cos_sin(torch.linspace(-9, 9, 1 << 17).reshape(-1, 64)),
    "base_slots": lambda: ghrr.Space(1000, 3).random(2, generator=generator()),
    "count_different_bits": lambda: models.BSC(64).pairwise_similarity(BITS, BITS),
    "count_equal_bytes": lambda: models.SBC(64 * 64).pairwise_similarity(BITS.byte(), BITS.byte()),
}


def test_every_operation_with_a_cpu_kernel_is_listed() -> None:
    with_kernel = {name for name, one in OPERATIONS.items() if any(k.backend == "numba" for k in one.kernels)}
    assert set(CALLS) == with_kernel


@pytest.mark.parametrize("name", CALLS)
def test_kernel_that_fails_is_replaced_with_one_warning(
    name: str, failures: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    want = CALLS[name]()
    monkeypatch.setattr(OPERATIONS[name].kernels[0], "function", fail_with(OSError("no compiler")))
    with pytest.warns(
        RuntimeWarning, match=r"numba backend failed \(OSError: no compiler\); falling back to PyTorch .*GHRR_BACKEND"
    ) as caught:
        first = CALLS[name]()
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CALLS[name]()
    if name == "unitary_power":
        assert first is None  # the caller uses PyTorch instead
    else:
        torch.testing.assert_close(first, want)
    assert ops.in_use()["cpu"] == "torch: numba failed (OSError: no compiler)"


OUT_OF_MEMORY = [
    MemoryError("no memory"),
    torch.OutOfMemoryError("no memory"),
    RuntimeError("Triton Error [CUDA]: out of memory"),
    RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"),
]


@pytest.mark.parametrize("error", [*OUT_OF_MEMORY, KeyboardInterrupt()], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("name", ["bind", "base_slots", "unitary_power"])
def test_out_of_memory_and_interrupts_are_raised_and_the_backend_stays(
    name: str, error: BaseException, failures: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(OPERATIONS[name].kernels[0], "function", fail_with(error))
        with pytest.raises(type(error)):
            CALLS[name]()
    assert failures == {}
    assert CALLS[name]() is not None
    assert ops.in_use()["cpu"].startswith("numba ")


def test_other_errors_are_not_out_of_memory() -> None:
    assert all(is_out_of_memory(error) for error in OUT_OF_MEMORY)
    for error in (RuntimeError("size mismatch"), OSError("out of memory"), ValueError("no memory")):
        assert not is_out_of_memory(error)


def test_error_that_pytorch_raises_too_does_not_disable_the_backend(failures: dict[str, str]) -> None:
    with pytest.raises(RuntimeError, match="size"):
        ops.bind(gaussian(4, 500, 3, 3), gaussian(3, 500, 3, 3))
    assert failures == {}


def test_kernel_that_returns_none_leaves_the_result_to_pytorch(failures: dict[str, str]) -> None:
    operation = Operation("test_none", torch=lambda x: x + 1, kernels=(Kernel("numba", "", lambda x: True),))
    operation.kernels[0].function = lambda x: None
    try:
        assert torch.equal(operation(torch.zeros(2)), torch.ones(2))
    finally:
        del OPERATIONS["test_none"]
    assert failures == {}


def test_triton_that_cannot_be_imported_is_replaced_with_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel("triton", "ghrr.ops.gpu.products:bind", lambda *_: True)
    monkeypatch.setitem(backends._installed, "triton", True)
    monkeypatch.setitem(sys.modules, "ghrr.ops.gpu.products", None)
    monkeypatch.setattr(OPERATIONS["bind"], "kernels", (kernel,))
    monkeypatch.setattr(OPERATIONS["bind"], "flat_kernels", ())
    with pytest.warns(RuntimeWarning, match="triton backend failed") as caught:
        torch.testing.assert_close(ops.bind(LARGE, LARGE), LARGE @ LARGE)
    assert len(caught) == 1
    torch.testing.assert_close(ops.bind(LARGE, LARGE), LARGE @ LARGE)


# ------------------------------------------------------------------------------------------------------ plain tensors


class Subclass(Tensor):
    pass


def test_is_plain_is_true_for_plain_tensors_only() -> None:
    x = SMALL.clone()
    assert tensor_state.is_plain(x, torch.nn.Parameter(x, requires_grad=False))
    assert not tensor_state.is_plain(x, x.clone().requires_grad_())
    assert not tensor_state.is_plain(x.as_subclass(Subclass))
    with torch.no_grad():
        assert tensor_state.is_plain(x.clone().requires_grad_())
    with torch._subclasses.FakeTensorMode():
        assert not tensor_state.is_plain()
    seen: list[bool] = []
    torch.vmap(lambda y: seen.append(tensor_state.is_plain(y)) or y)(x)  # type: ignore[func-returns-value]
    assert seen == [False]


def test_subclasses_are_computed_by_pytorch() -> None:
    x = LARGE.as_subclass(Subclass)
    got = ops.bind(x, LARGE)
    assert isinstance(got, Subclass)
    torch.testing.assert_close(got.as_subclass(Tensor), LARGE @ LARGE)


def test_meta_tensors_have_the_shape_of_the_result() -> None:
    assert ops.bind(LARGE.to("meta"), LARGE.to("meta")).shape == LARGE.shape


def test_gpu_kernel_binds_single_numbers_only_if_a_gradient_is_needed() -> None:
    a = torch.ones(1 << 15, 1, 1, dtype=torch.complex64)
    assert not operations._bind_pays_off_on_gpu(a, a, False, False)
    assert operations._bind_pays_off_on_gpu(a.clone().requires_grad_(), a, False, False)
    assert not operations._bind_pays_off_on_gpu(a[:10].clone().requires_grad_(), a[:10], False, False)
