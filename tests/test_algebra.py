"""Laws of the algebra as properties, each with a control that must fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import ghrr
from ghrr import algebra, models, ops, testing
from tests.helpers import assert_mean, gaussian, generator, rounding, unitary

Triple = tuple[Tensor, Tensor, Tensor]
DTYPES = st.sampled_from([torch.complex64, torch.complex128])


@st.composite
def triples(draw: st.DrawFn, *, of: Callable[..., Tensor], least_m: int = 1) -> Triple:
    """Three hypervectors of one random shape and precision."""
    m, dim = draw(st.integers(least_m, 5)), draw(st.integers(1, 6))
    batch = draw(st.sampled_from([(), (1,), (3,), (2, 2)]))
    dtype, seed = draw(DTYPES), draw(st.integers(0, 10_000))
    x = of((3, *batch, dim), m, seed).to(dtype)
    return x[0], x[1], x[2]


def any_slots(shape: tuple[int, ...], m: int, seed: int) -> Tensor:
    return gaussian(*shape, m, m, seed=seed)


def unitary_slots(shape: tuple[int, ...], m: int, seed: int) -> Tensor:
    return unitary(*shape, m=m, seed=seed)


@given(triples(of=any_slots))
def test_laws_hold_for_all_hypervectors(abc: Triple) -> None:
    testing.check_laws(*abc, unitary=False)


@given(triples(of=unitary_slots))
def test_laws_hold_for_unitary_hypervectors(abc: Triple) -> None:
    testing.check_laws(*abc)


@given(triples(of=any_slots, least_m=2))
def test_laws_of_unitary_hypervectors_fail_for_others(abc: Triple) -> None:
    with pytest.raises(AssertionError) as caught:
        testing.check_laws(*abc)
    found = {message.partition(",")[0] for message in str(caught.value).split("; ")}
    assert found == {name for name in LAWS if models.LAWS[name].needs_unitary}


# The laws that hold for m > 1.
LAWS = [name for name, law in models.LAWS.items() if law.holds(models.GHRR(1, m=2).facts)]


def _bind(of: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def bind(a: Tensor, b: Tensor, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
        return of(a.mH if adjoint_a else a, b.mH if adjoint_b else b)

    return bind


# Negative controls of the law checker: each law, and an operation that breaks it.
SABOTAGE: dict[str, tuple[str, Callable[..., Tensor]]] = {
    "associative": ("bind", _bind(lambda a, b: (a @ b).mT)),
    "distributive": ("bind", _bind(lambda a, b: a @ (b * b.abs()))),
    "right distributive": ("bind", _bind(lambda a, b: (a * a.abs()) @ b)),
    "inverse of a product": ("adjoint", lambda a: a.conj().resolve_conj()),
    "left identity": ("bind", _bind(lambda a, b: 1.001 * (a @ b))),
    "right identity": ("bind", _bind(lambda a, b: 1.001 * (a @ b))),
    "similarity is symmetric": ("similarity", lambda a, b: (a * b.abs() * b.conj()).real.mean(dim=(-1, -2, -3))),
    "similarity is linear": ("similarity", lambda a, b: (a * b.conj()).real.mean(dim=(-1, -2, -3)) ** 3),
    "shift respects binding": ("shift", lambda a, steps: torch.roll(a, steps, dims=-2)),
    "left inverse": ("bind", lambda a, b, adjoint_a=False, **_: (a.mT if adjoint_a else a) @ b),
    "right inverse": ("bind", lambda a, b, adjoint_b=False, **_: a @ (b.conj() if adjoint_b else b)),
    "keeps similarity": ("bind", _bind(lambda a, b: a @ b + 0.1 * a)),
    "similar to itself": ("similarity", lambda a, b: (a * b.conj()).real.mean(dim=(-1, -2, -3))),
}


@pytest.mark.parametrize("law", LAWS)
def test_every_law_notices_a_broken_operation(law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = unitary(3, 4, m=3)
    testing.check_laws(a, b, c)
    monkeypatch.setattr(ops, *SABOTAGE[law])
    with pytest.raises(AssertionError, match=law):
        testing.check_laws(a, b, c)


@given(triples(of=unitary_slots, least_m=2))
def test_order_matters_when_m_is_above_one(abc: Triple) -> None:
    a, b, _ = abc
    assert not torch.allclose(ghrr.bind(a, b), ghrr.bind(b, a), atol=1e-3)
    assert ghrr.commutator(a, b).abs().max() > 1e-3


def test_order_does_not_matter_when_m_is_one() -> None:
    a, b = gaussian(2, 50, 1, 1)
    assert torch.equal(ghrr.bind(a, b), ghrr.bind(b, a))
    assert not ghrr.commutator(a, b).any()


def test_commutator_is_ab_minus_ba() -> None:
    a, b = gaussian(2, 4, 3, 3)
    torch.testing.assert_close(ghrr.commutator(a, b), a @ b - b @ a)


@pytest.mark.parametrize("m", [1, 3])
def test_unbind_on_wrong_side_does_not_recover_value(m: int) -> None:
    space = ghrr.Space(dim=200, m=m, dtype=torch.complex128)
    key, value = space.vectors(["key", "value"])
    bound = ghrr.bind(key, value)
    right = ghrr.similarity(ghrr.unbind(bound, key, side="left"), value)
    wrong = ghrr.similarity(ghrr.unbind(bound, key, side="right"), value)
    assert abs(right - 1) < 1e-12
    assert (abs(wrong - 1) < 1e-12) if m == 1 else wrong < 0.5


@pytest.mark.parametrize("m", [2, 3])
def test_unbind_on_wrong_side_leaves_one_over_m_squared(m: int) -> None:
    space = ghrr.Space(dim=50, m=m)
    key, value = space.random(2, 2000, generator=generator())
    wrong = ghrr.unbind(ghrr.bind(key, value), key, side="right")
    assert_mean(ghrr.similarity(wrong, value), 1 / m**2)


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("key", "value"), [((4,), (4,)), ((), ()), ((4,), (3, 4)), ((), (5, 1))], ids=str)
def test_unbind_similarity_is_unbinding_then_similarity(
    key: tuple[int, ...], value: tuple[int, ...], side: str, m: int
) -> None:
    x, keys, values = gaussian(400, m, m), gaussian(*key, 400, m, m, seed=1), gaussian(*value, 400, m, m, seed=2)
    want = ghrr.similarity(ghrr.unbind(x, keys, side=side), values)
    torch.testing.assert_close(ghrr.unbind_similarity(x, keys, values, side=side), want)
    other = {"left": "right", "right": "left"}[side]
    assert torch.allclose(ghrr.unbind_similarity(x, keys, values, side=other), want) == (m == 1)  # negative control


def test_unbind_similarity_rejects_mismatched_shapes() -> None:
    a, b = gaussian(2, 4, 5, 3, 3)
    with pytest.raises(ValueError, match=r"unbind_similarity\(x, key, value\): side must be one of 'left', 'right'"):
        ghrr.unbind_similarity(a, b, a, side="both")
    with pytest.raises(ValueError, match=r"unbind_similarity\(x, key, value\): x and value differ in m: 3 and 2"):
        ghrr.unbind_similarity(a, b, gaussian(5, 2, 2), side="left")
    with pytest.raises(ValueError, match=r"do not broadcast: x \(4,\), key \(4,\), value \(3,\)"):
        ghrr.unbind_similarity(a, b, gaussian(3, 5, 3, 3), side="left")


@pytest.mark.parametrize("side", ["left", "right"])
def test_exact_unbinding_inverts_keys_that_are_not_unitary(side: str) -> None:
    key, value = gaussian(2, 4, 6, 3, 3)
    bound = ghrr.bind(key, value) if side == "left" else ghrr.bind(value, key)
    torch.testing.assert_close(ghrr.unbind(bound, key, side=side, exact=True), value)
    assert not torch.allclose(ghrr.unbind(bound, key, side=side), value, atol=0.1)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    ("x", "key"), [((2, 2, 2), (2, 2, 2, 2)), ((3, 1, 3, 3, 3), (3, 3, 3, 3)), ((2, 3, 3, 3), (3, 3, 3))]
)
def test_exact_unbinding_broadcasts(x: tuple[int, ...], key: tuple[int, ...], side: str) -> None:
    """Also when batch, dim and m are equal, where a solver could take matrices for vectors."""
    bound, factor = gaussian(*x), gaussian(*key, seed=1)
    want = torch.linalg.inv(factor) @ bound if side == "left" else bound @ torch.linalg.inv(factor)
    torch.testing.assert_close(ghrr.unbind(bound, factor, side=side, exact=True), want)


@pytest.mark.parametrize("m", [1, 3])
def test_list_of_one_batch_keeps_its_batch_axis(m: int) -> None:
    batch = gaussian(3, 4, m, m)
    assert torch.equal(ghrr.bundle([batch]), batch)
    assert torch.equal(ghrr.multibind([batch]), batch)
    assert ghrr.bundle(batch).shape == (4, m, m)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_autocast_does_not_round_similarity(dtype: torch.dtype) -> None:
    a, b = unitary(2, 300, m=3, dtype=dtype)
    want = ghrr.similarity(a, b), ghrr.pairwise_similarity(a, b[None])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.ones(2, 2).matmul(torch.ones(2, 2)).dtype == torch.bfloat16  # negative control: it is on
        got = ghrr.similarity(a, b), ghrr.pairwise_similarity(a, b[None])
    assert all(torch.equal(x, y) for x, y in zip(got, want, strict=True))


def test_exponents_and_steps_may_be_numpy_numbers() -> None:
    a = unitary(5, m=2)
    two: Any = np.int64(2)
    half: Any = np.float32(0.5)
    seven: Any = np.int64(7)
    torch.testing.assert_close(ghrr.power(a, two), ghrr.power(a, 2))
    torch.testing.assert_close(ghrr.power(a, half), ghrr.power(a, 0.5))
    assert torch.equal(ghrr.shift(a, seven), ghrr.shift(a, 2))
    assert torch.equal(ghrr.shift(a, -(2**61)), ghrr.shift(a, -(2**61) % 5))


@pytest.mark.slow
def test_compiled_power_takes_any_exponent() -> None:
    torch.compiler.reset()
    a = unitary(5, m=2)
    compiled = torch.compile(ghrr.power, fullgraph=True, backend="aot_eager")
    for exponent in (0.1, 0.2, 0.7, 2, 3):
        torch.testing.assert_close(compiled(a, exponent), ghrr.power(a, exponent))


@pytest.mark.parametrize("m", [1, 3])
def test_bundle_and_multibind_take_a_list_or_a_stack(m: int) -> None:
    stack = gaussian(5, 4, m, m)
    torch.testing.assert_close(ghrr.bundle(list(stack)), stack.sum(0))
    torch.testing.assert_close(ghrr.bundle(stack), stack.sum(0))
    product = stack[0] @ stack[1] @ stack[2] @ stack[3] @ stack[4]
    torch.testing.assert_close(ghrr.multibind(tuple(stack)), product)
    torch.testing.assert_close(ghrr.multibind(stack), product)
    torch.testing.assert_close(ghrr.multibind(stack[:0]), torch.eye(m, dtype=stack.dtype).expand(4, m, m))
    if m > 1:  # negative control: another order is another product
        assert not torch.allclose(ghrr.multibind(stack.flip(0)), product)


@given(triples(of=unitary_slots), st.floats(-2, 2), st.floats(-2, 2))
def test_powers_with_one_base_add_exponents(abc: Triple, x: float, y: float) -> None:
    a = ghrr.normalize(abc[0].to(torch.complex128), to="unitary")
    gap = max(1e-3, float((torch.linalg.eigvals(a) + 1).abs().min()))  # accuracy is lost next to the jump at -1
    tolerance = rounding(a.dtype, terms=100 * a.shape[-1] ** 2) / gap
    both = ghrr.bind(ghrr.power(a, x), ghrr.power(a, y))
    torch.testing.assert_close(both, ghrr.power(a, x + y), atol=tolerance, rtol=0)
    torch.testing.assert_close(ghrr.power(a, -x), ghrr.adjoint(ghrr.power(a, x)), atol=tolerance, rtol=0)


def test_power_of_product_differs_from_product_of_powers() -> None:
    """Negative control: the power of a product is not the product of the powers, unless the factors commute."""
    a, b = unitary(2, 5, m=2)
    apart = ghrr.bind(ghrr.power(a, 0.5), ghrr.power(b, 0.5))
    assert not torch.allclose(ghrr.power(ghrr.bind(a, b), 0.5), apart, atol=1e-3)


@pytest.mark.parametrize("m", [1, 2, 4])
def test_whole_powers_are_repeated_binding(m: int) -> None:
    a = gaussian(6, m, m)
    torch.testing.assert_close(ghrr.power(a, 3), a @ a @ a)
    torch.testing.assert_close(ghrr.power(a, 3.0), a @ a @ a)
    torch.testing.assert_close(ghrr.power(a, -1), torch.linalg.inv(a))
    torch.testing.assert_close(ghrr.power(a, 0), torch.eye(m, dtype=a.dtype).expand_as(a))
    torch.testing.assert_close(ghrr.power(a, torch.tensor([2, 1])), torch.stack([a @ a, a]))


@given(triples(of=any_slots))
def test_normalize_to_unit_norm(abc: Triple) -> None:
    a = abc[0]
    y = ghrr.normalize(a)
    ones = torch.ones_like(ghrr.similarity(a, a))
    torch.testing.assert_close(ghrr.similarity(y, y), ones, atol=rounding(a.dtype), rtol=0)
    torch.testing.assert_close(y * (ghrr.similarity(a, a).sqrt()[..., None, None, None]), a)
    assert ((ghrr.similarity(a, a) - 1).abs() > 1e-6).any()  # negative control: it was not normalised before


def test_normalize_handles_zero_and_extreme_magnitudes() -> None:
    zero = torch.zeros(4, 2, 2, dtype=torch.complex64)
    assert torch.equal(ghrr.normalize(zero), zero)
    a = gaussian(4, 2, 2, dtype=torch.complex64)
    largest = a / torch.view_as_real(a).abs().max()
    for scale in (1e-30, 1e30, 2e-38, 3.4e38):
        torch.testing.assert_close(ghrr.normalize(scale * largest), ghrr.normalize(a))
    tiny = ghrr.normalize(1e-42 * a)  # below the normal range numbers have few digits, but a length
    assert abs(ghrr.similarity(tiny, tiny) - 1) < 1e-6


def test_normalize_to_unitary_is_the_nearest() -> None:
    a = gaussian(3, 7, 4, 4)
    nearest = ghrr.normalize(a, to="unitary")
    assert ghrr.unitary.is_unitary(nearest)
    others = unitary(200, 3, 7, m=4)
    distance = torch.linalg.matrix_norm(a - nearest)
    assert (torch.linalg.matrix_norm(a - others) > distance).all()
    torch.testing.assert_close(ghrr.normalize(nearest, to="unitary"), nearest)


def test_bundle_never_normalises() -> None:
    a = unitary(10, m=2)
    assert abs(ghrr.similarity(ghrr.bundle([a, a]), a) - 2) < 1e-12


@pytest.mark.parametrize("steps", [1, -3, 10, 0])
def test_shift_rolls_slots_and_can_be_undone(steps: int) -> None:
    a = gaussian(2, 10, 3, 3)
    assert torch.equal(ghrr.shift(ghrr.shift(a, steps), -steps), a)
    assert torch.equal(ghrr.shift(a, steps)[:, steps % 10], a[:, 0])
    assert torch.equal(ghrr.shift(a, steps), a) == (steps % 10 == 0)


def test_pairwise_similarity_is_similarity_of_all_pairs() -> None:
    queries, items = gaussian(2, 3, 4, 2, 2), gaussian(5, 4, 2, 2, seed=1)
    got = ghrr.pairwise_similarity(queries, items)
    torch.testing.assert_close(got, ghrr.similarity(queries[:, :, None], items))
    assert got.shape == (2, 3, 5)


DIFFERENTIABLE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "bind": algebra.bind,
    "unbind left": lambda a, b: algebra.unbind(a, b, side="left"),
    "unbind right": lambda a, b: algebra.unbind(a, b, side="right"),
    "unbind_similarity": lambda a, b: algebra.unbind_similarity(a, b, a * b, side="left"),
    "unbind exact": lambda a, b: algebra.unbind(a, b, side="left", exact=True),
    "multibind": lambda a, b: algebra.multibind([a, b, a]),
    "multibind stack": lambda a, b: algebra.multibind(torch.stack([a, b, a])),
    "bundle": lambda a, b: algebra.bundle([a, b]),
    "bundle stack": lambda a, b: algebra.bundle(torch.stack([a, b])),
    "bind_bundle": lambda a, b: algebra.bind_bundle(torch.stack([a, b]), torch.stack([b, b])),
    "adjoint": lambda a, b: algebra.adjoint(a) + b,
    "shift": lambda a, b: algebra.shift(a, 2) + b,
    "power int": lambda a, b: algebra.power(a, 2) + b,
    "power float": lambda a, b: algebra.power(a, 0.7) + b,
    "power tensor": lambda a, b: algebra.power(a, algebra.similarity(a, b)),
    "normalize norm": lambda a, b: algebra.normalize(a) + b,
    "normalize unitary": lambda a, b: algebra.normalize(a, to="unitary") + b,
    "similarity": algebra.similarity,
    "pairwise_similarity": lambda a, b: algebra.pairwise_similarity(a, b[None]),
    "commutator": algebra.commutator,
    "commutativity": algebra.commutativity,
}


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_equal_finite_differences(name: str, m: int) -> None:
    # Near to unitary, where hypervectors live and derivatives through svd or eig would be lost.
    a, b = (unitary(2, 3, m=m) + 0.05 * gaussian(2, 3, m, m, seed=5)).requires_grad_().unbind()
    assert torch.autograd.gradcheck(DIFFERENTIABLE[name], (a.detach().requires_grad_(), b.detach().requires_grad_()))


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_vmap_equals_loop_over_batch(name: str, m: int) -> None:
    a, b = unitary(2, 4, 5, m=m)
    function = DIFFERENTIABLE[name]
    looped = torch.stack([function(x, y) for x, y in zip(a, b, strict=True)])
    torch.testing.assert_close(torch.vmap(function)(a, b), looped)
    torch.testing.assert_close(torch.vmap(function, in_dims=(0, None))(a, b[0])[0], looped[0])

    def loss(x: Tensor, y: Tensor) -> Tensor:
        out = function(x, y)
        return (out.real if out.is_complex() else out).sum()

    per_sample = torch.vmap(torch.func.grad(loss))(a, b)
    torch.testing.assert_close(per_sample[1], torch.func.grad(loss)(a[1], b[1]))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "m"), [*((name, 3) for name in DIFFERENTIABLE), ("bind", 1), ("similarity", 1)])
def test_compiles_to_one_graph(name: str, m: int) -> None:
    torch.compiler.reset()
    a, b = unitary(2, 5, m=m)
    function = DIFFERENTIABLE[name]
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    inputs = [x.detach().clone().requires_grad_() for x in (a, b)]
    out, expected = compiled(*inputs), function(*inputs)
    torch.testing.assert_close(out, expected)
    weight = torch.ones_like(out)
    torch.testing.assert_close(torch.autograd.grad(out, inputs, weight), torch.autograd.grad(expected, inputs, weight))
