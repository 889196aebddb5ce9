"""Two tensors of one shape, the most common input, take a short way: it gives what the specification gives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr._checks import are_alike, check_finite, has_finite_sum
from ghrr.ops import choice, numba_backend, reference
from tests.helpers import gaussian, generator


def pair(m: int, *batch: int, dtype: torch.dtype = torch.complex128) -> tuple[Tensor, Tensor]:
    dim = numba_backend.FEW_NUMBERS // m**2 + 1
    a, b = (gaussian(*batch, dim, m, m, seed=seed).to(dtype) for seed in (0, 1))
    return a, b


@pytest.fixture
def flat_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operations that took the short way."""
    seen: list[str] = []
    run = choice.run

    def noted(kernels: object, operation: str, *arguments: object) -> Tensor:
        seen.append(operation)
        return run(kernels, operation, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(choice, "run", noted)
    return seen


@pytest.mark.parametrize("m", [1, 2, 3, 5])
@pytest.mark.parametrize("adjoint", [(False, False), (True, False), (False, True), (True, True)])
def test_bind_alike_equals_reference(m: int, adjoint: tuple[bool, bool], flat_calls: list[str]) -> None:
    a, b = pair(m, 2)
    torch.testing.assert_close(ghrr.ops.bind(a, b, *adjoint), reference.bind(a, b, *adjoint))
    assert flat_calls == (["bind_alike"] if m > 1 or any(adjoint) else [])


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
    monkeypatch.setattr(numba_backend, "_SHARED", 1)
    torch.testing.assert_close(ghrr.similarity(a, b), reference.similarity(a, b))
    assert flat_calls == ["similarity"]


@pytest.mark.parametrize("change", ["transposed", "conjugated", "negative", "strided", "differentiable", "parameter"])
def test_other_tensors_take_the_long_way_and_are_right(change: str, flat_calls: list[str]) -> None:
    a, b = pair(3, 4)
    changed = {
        "transposed": a.mT,
        "conjugated": a.conj(),
        "negative": torch._neg_view(a),
        "strided": torch.cat([a, a])[::2],
        "differentiable": a.clone().requires_grad_(),
        "parameter": torch.nn.Parameter(a.clone(), requires_grad=False),
    }[change]
    assert not choice.suit_flat_loops(changed, b)
    torch.testing.assert_close(ghrr.bind(changed, b).detach(), reference.bind(changed, b).detach())
    torch.testing.assert_close(ghrr.similarity(changed, b).detach(), reference.similarity(changed, b).detach())


@pytest.mark.parametrize("name", ["_flat_product", "_loops"])
def test_a_broken_loop_is_replaced_by_torch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_failed", {})

    def broken(*_: object) -> None:
        raise OSError("no compiler")

    a, b = pair(3)
    monkeypatch.setattr(numba_backend, name, broken)
    operation, want = (ghrr.bind, a @ b) if name == "_flat_product" else (ghrr.similarity, reference.similarity(a, b))
    with pytest.warns(RuntimeWarning, match="OSError: no compiler"):
        torch.testing.assert_close(operation(a, b), want)


def test_gradients_of_similarity_stay(flat_calls: list[str]) -> None:
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
def test_the_quick_test_turns_down_what_does_not_fit(a: Tensor, b: Tensor) -> None:
    assert not are_alike(a, b)
    with pytest.raises((TypeError, ValueError), match=r"bind\(a, b\)"):
        ghrr.bind(a, b)


def test_finite_terms_with_an_infinite_sum_pass() -> None:
    x = torch.full((4, 1, 1), 3e38, dtype=torch.complex64)
    assert not has_finite_sum(x)
    check_finite("f", "x", x)
    x[2] = torch.inf
    with pytest.raises(ValueError, match=r"slot \(2,\) of x is not finite"):
        check_finite("f", "x", x)


def test_opposite_infinities_do_not_cancel() -> None:
    x = torch.zeros(4, 1, 1, dtype=torch.complex64)
    x[0], x[1] = torch.inf, -torch.inf
    with pytest.raises(ValueError, match="is not finite"):
        check_finite("f", "x", x)


def test_quick_way_of_a_seeded_product_is_exact() -> None:
    space = ghrr.Space(1000, 2)
    a, b = space.random(2, generator=generator())
    torch.testing.assert_close(ghrr.unbind(ghrr.bind(a, b), a, side="left"), b)
