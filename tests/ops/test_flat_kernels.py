"""Plain contiguous tensors of one shape, the most common input, use kernels with less overhead."""

from __future__ import annotations

import traceback

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr.checks import are_alike, check_finite, has_finite_sum
from ghrr.ops import backends, operations, reference
from ghrr.ops.cpu import products as cpu_products
from ghrr.ops.dispatch import OPERATIONS, Kernel
from tests.helpers import gaussian, generator


def pair(m: int, *batch: int, dtype: torch.dtype = torch.complex128) -> tuple[Tensor, Tensor]:
    dim = operations._MIN_NUMBERS_CPU // m**2 + 1
    a, b = (gaussian(*batch, dim, m, m, seed=seed).to(dtype) for seed in (0, 1))
    return a, b


@pytest.fixture
def flat_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operations that used a flat kernel."""
    seen: list[str] = []

    def record(name: str, kernel: Kernel) -> None:
        function = kernel.function or kernel.load()

        def recorded(*arguments: object) -> Tensor:
            seen.append(name)
            result: Tensor = function(*arguments)
            return result

        monkeypatch.setattr(kernel, "function", recorded)

    for name in ("bind", "similarity"):
        record(name, OPERATIONS[name].flat_kernels[0])
    return seen


@pytest.mark.parametrize("m", [1, 2, 3, 5])
@pytest.mark.parametrize("adjoint", [(False, False), (True, False), (False, True), (True, True)])
def test_flat_bind_equals_reference(m: int, adjoint: tuple[bool, bool], flat_calls: list[str]) -> None:
    a, b = pair(m, 2)
    torch.testing.assert_close(ghrr.ops.bind(a, b, *adjoint), reference.bind(a, b, *adjoint))
    assert flat_calls == (["bind"] if m > 1 or any(adjoint) else [])


def test_public_call_reaches_the_kernel_in_three_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    def record(a: Tensor, b: Tensor, *_: bool) -> Tensor:
        names.extend(frame.name for frame in traceback.extract_stack())
        return a

    monkeypatch.setattr(OPERATIONS["bind"].flat_kernels[0], "function", record)
    ghrr.bind(*pair(3))
    assert names[-3:] == ["bind", "__call__", "record"]


@pytest.mark.parametrize("batch", [(), (1,), (3, 2), (0,)])
@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_similarity_of_equal_shapes_equals_reference(dtype: torch.dtype, m: int, batch: tuple[int, ...]) -> None:
    a, b = pair(m, *batch, dtype=dtype)
    got = ghrr.similarity(a, b)
    assert got.dtype == dtype.to_real()
    torch.testing.assert_close(got, reference.similarity(a, b))


def test_similarity_in_threads_equals_reference(monkeypatch: pytest.MonkeyPatch, flat_calls: list[str]) -> None:
    a, b = pair(3, 5)
    monkeypatch.setattr(cpu_products, "MIN_THREADED", 1)
    torch.testing.assert_close(ghrr.similarity(a, b), reference.similarity(a, b))
    assert flat_calls == ["similarity"]


@pytest.mark.parametrize("change", ["transposed", "conjugated", "negative", "strided", "differentiable", "parameter"])
def test_other_tensors_use_other_kernels(change: str, flat_calls: list[str]) -> None:
    a, b = pair(3, 4)
    changed = {
        "transposed": a.mT,
        "conjugated": a.conj(),
        "negative": torch._neg_view(a),
        "strided": torch.cat([a, a])[::2],
        "differentiable": a.clone().requires_grad_(),
        "parameter": torch.nn.Parameter(a.clone(), requires_grad=False),
    }[change]
    torch.testing.assert_close(ghrr.bind(changed, b).detach(), reference.bind(changed, b).detach())
    torch.testing.assert_close(ghrr.similarity(changed, b).detach(), reference.similarity(changed, b).detach())
    assert flat_calls == []


def test_flat_kernel_that_fails_is_replaced_by_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "_failures", {})

    def broken(*_: object) -> None:
        raise OSError("no compiler")

    a, b = pair(3)
    monkeypatch.setattr(OPERATIONS["similarity"].flat_kernels[0], "function", broken)
    with pytest.warns(RuntimeWarning, match="OSError: no compiler"):
        torch.testing.assert_close(ghrr.similarity(a, b), reference.similarity(a, b))


def test_similarity_has_gradients(flat_calls: list[str]) -> None:
    a, b = pair(2)
    a.requires_grad_()
    (grad,) = torch.autograd.grad(ghrr.similarity(a, b), a)
    torch.testing.assert_close(grad, b / (2 * len(b)))
    assert flat_calls == []


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (torch.zeros(4, 2, 2), torch.zeros(4, 2, 2)),
        (torch.zeros(4, 2, 3, dtype=torch.complex64), torch.zeros(4, 2, 3, dtype=torch.complex64)),
        (torch.zeros(2, 2, dtype=torch.complex64), torch.zeros(2, 2, dtype=torch.complex64)),
        (torch.zeros(0, 2, 2, dtype=torch.complex64), torch.zeros(0, 2, 2, dtype=torch.complex64)),
        (torch.zeros(4, 2, 2, dtype=torch.complex64), torch.zeros(4, 2, 2, dtype=torch.complex128)),
        (torch.zeros(4, 2, 2, dtype=torch.complex64), torch.zeros(5, 2, 2, dtype=torch.complex64)),
        (torch.zeros(4, 2, 2, dtype=torch.complex64), torch.zeros(4, 2, 2, dtype=torch.complex64, device="meta")),
    ],
)
def test_mismatched_tensors_are_refused(a: Tensor, b: Tensor) -> None:
    assert not are_alike(a, b)
    with pytest.raises((TypeError, ValueError), match=r"bind\(a, b\)"):
        ghrr.bind(a, b)


def test_finite_numbers_with_an_infinite_sum_pass_the_check() -> None:
    x = torch.full((4, 1, 1), 3e38, dtype=torch.complex64)
    assert not has_finite_sum(x)
    check_finite("x", x)
    x[2] = torch.inf
    with pytest.raises(ValueError, match=r"slot \(2,\) of x is not finite"):
        check_finite("x", x)


def test_opposite_infinities_do_not_cancel() -> None:
    x = torch.zeros(4, 1, 1, dtype=torch.complex64)
    x[0], x[1] = torch.inf, -torch.inf
    with pytest.raises(ValueError, match="is not finite"):
        check_finite("x", x)


def test_unbind_recovers_a_value_bound_by_a_flat_kernel() -> None:
    space = ghrr.Space(1000, 2)
    a, b = space.random(2, generator=generator())
    torch.testing.assert_close(ghrr.unbind(ghrr.bind(a, b), a, side="left"), b)
