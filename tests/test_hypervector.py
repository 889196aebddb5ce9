"""The wrapper for people: operators, expressions, repr, HTML."""

from __future__ import annotations

import copy
import pickle
from typing import Any, cast

import pytest
import torch

import ghrr
from ghrr import Hypervector, Space
from tests.helpers import generator

SPACE = Space(20, 3, dtype=torch.complex128)
a, b, c = SPACE.atoms("a", "b", "c")


def test_operators_are_the_algebra() -> None:
    for got, want in (
        (a * b, ghrr.bind(a.tensor, b.tensor)),
        (a + b, a.tensor + b.tensor),
        (a - b, a.tensor - b.tensor),
        (-a, -a.tensor),
        (~a, ghrr.adjoint(a.tensor)),
        (a**2, ghrr.bind(a.tensor, a.tensor)),
        (a**0.5, ghrr.power(a.tensor, 0.5)),
        (2 * a, 2 * a.tensor),
        (a * 0.5, a.tensor / 2),
        (a / 2, a.tensor / 2),
        (cast("Hypervector", sum([a, b, c])), a.tensor + b.tensor + c.tensor),
        (a.to("cpu"), a.tensor),
        ((a * b).unbind(a, side="left"), b.tensor),
        ((a * b).unbind(b, side="right"), a.tensor),
        (((a + b) * c).unbind(a + b, side="left", exact=True), c.tensor),
        (a.shift(2), ghrr.shift(a.tensor, 2)),
        ((a + b).normalize(), ghrr.normalize(a.tensor + b.tensor)),
        ((a + b).normalize(to="unitary"), ghrr.normalize(a.tensor + b.tensor, to="unitary")),
    ):
        torch.testing.assert_close(got.tensor, want)
        assert got.space is SPACE
    torch.testing.assert_close(a.similarity(b), ghrr.similarity(a.tensor, b.tensor))


@pytest.mark.parametrize(
    ("hypervector", "expression"),
    [
        (a * b + c, "a * b + c"),
        (a * (b + c), "a * (b + c)"),
        ((a + b) * c, "(a + b) * c"),
        (a * b * c, "a * b * c"),
        (a * (b * c), "a * b * c"),  # binding is associative
        (a - (b - c), "a - (b - c)"),
        (a - b - c, "a - b - c"),
        (a + (b + c), "a + b + c"),
        (~a * b, "~a * b"),
        (~(a * b), "~(a * b)"),
        (~(~a), "~~a"),
        (-(a + b), "-(a + b)"),
        (a**2, "a ** 2"),
        ((~a) ** 2, "(~a) ** 2"),
        (~(a**2), "~a ** 2"),
        ((a * b) ** 0.5, "(a * b) ** 0.5"),
        ((a**2) ** 3, "(a ** 2) ** 3"),
        (2 * (a + b), "2 * (a + b)"),
        ((a + b) / 2, "(a + b) / 2"),
        (cast("Hypervector", sum([a, b, c])), "a + b + c"),
        ((a * b).unbind(a, side="left"), "~a * a * b"),
        ((a + b).unbind(a * b, side="right"), "(a + b) * ~(a * b)"),
        ((a + b).unbind(a, side="left", exact=True), "a ** -1 * (a + b)"),
        (a.shift(3), "shift(a, 3)"),
        ((a + b).normalize(), "normalize(a + b, to='norm')"),
    ],
)
def test_expressions_keep_their_meaning(hypervector: Hypervector, expression: str) -> None:
    assert hypervector.expression == expression
    # An expression of operators alone, read by Python, is the same hypervector again.
    if "shift" not in expression and "normalize" not in expression:
        again = eval(expression, {"a": a, "b": b, "c": c})
        torch.testing.assert_close(again.tensor, hypervector.tensor)


def test_repr_is_one_line() -> None:
    assert repr(a * b) == "Hypervector(a * b, dim=20, m=3, complex128)"
    batch = SPACE.wrap(SPACE.empty(4, 2), "many")
    assert repr(batch) == "Hypervector(many, batch=(4, 2), dim=20, m=3, complex128)"
    total = a
    for _ in range(500):
        total = total + b
    assert len(repr(total)) < 160
    assert "\n" not in repr(total)
    assert " … " in repr(total)


def test_names_that_are_not_identifiers_are_quoted() -> None:
    x, y = SPACE.atoms("New York", "a * b")
    assert (x * y).expression == "'New York' * 'a * b'"


def test_html_shows_and_escapes() -> None:
    evil = SPACE.wrap(a.tensor, "<script>alert(1)</script>")
    page = evil._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert page.count("<path") == 20 * 9
    assert "dim = 20, m = 3, total 180" in page
    assert Space(100, 2).atoms("x")[0]._repr_html_().count("<path") == 24 * 4
    assert "batch (2,)" in SPACE.wrap(SPACE.empty(2))._repr_html_()
    assert "nan" not in SPACE.wrap(a.tensor * torch.nan)._repr_html_().split("<svg")[1]


def test_batches_broadcast() -> None:
    many = SPACE.wrap(SPACE.random(5, generator=generator()), "many")
    assert (many * a).batch_shape == (5,)
    assert many.similarity(a).shape == (5,)
    assert a.batch_shape == ()
    assert torch.equal(many[1].tensor, many.tensor[1])
    assert [x.expression for x in many][:2] == ["many[0]", "many[1]"]
    assert (many[1:3] * a).batch_shape == (2,)
    with pytest.raises(TypeError, match="a is a single hypervector, not a batch"):
        a[0]


def test_different_spaces_do_not_mix() -> None:
    other = Space(20, 3, seed=1, dtype=torch.complex128).atoms("d")[0]
    for operation in (lambda: a * other, lambda: a + other, lambda: a - other, lambda: a.similarity(other)):
        with pytest.raises(ValueError, match=r"a and d live in different spaces: .*seed=0.* and .*seed=1"):
            operation()
    with pytest.raises(ValueError, match="unbind: a and d live in different spaces"):
        a.unbind(other, side="left")


def test_other_types_are_refused() -> None:
    x: Any = a
    for operation in (
        lambda: x + 1,
        lambda: 1 + x,
        lambda: x - 1,
        lambda: x * "x",
        lambda: "x" * x,
        lambda: x**x,
        lambda: x / x,
    ):
        with pytest.raises(TypeError):
            operation()
    with pytest.raises(TypeError, match=r"similarity: needs a Hypervector, got a complex128 tensor .* space.wrap"):
        a.similarity(b.tensor)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"Hypervector\(x\): .* does not fit Space"):
        SPACE.wrap(torch.zeros(21, 3, 3, dtype=torch.complex128))


def test_it_never_changes() -> None:
    with pytest.raises(AttributeError, match="does not change"):
        a.tensor = b.tensor
    with pytest.raises(AttributeError, match="does not change"):
        a.note = "hello"


def test_copies_are_equal() -> None:
    x = a * (b + c)
    for again in (copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x))):
        assert again.expression == x.expression
        assert (again * a).expression == (x * a).expression
        assert again.space == x.space
        assert torch.equal(again.tensor, x.tensor)


def test_gradients_flow_through() -> None:
    leaf = a.tensor.clone().requires_grad_()
    score = (SPACE.wrap(leaf) * b).similarity(c)
    score.backward()
    assert leaf.grad is not None
    assert leaf.grad.abs().max() > 0
