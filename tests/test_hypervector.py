"""Hypervector: operators, expressions, repr, HTML."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

import ghrr
from ghrr import Hypervector, Space
from tests.helpers import generator

SPACE = Space(20, 3, dtype=torch.complex128)
a, b, c = SPACE.atoms("a", "b", "c")


def test_operators_equal_algebra_functions() -> None:
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
def test_expressions_have_the_needed_brackets(hypervector: Hypervector, expression: str) -> None:
    assert hypervector.expression == expression
    # An expression of operators alone, read by Python, is the same hypervector again.
    if "shift" not in expression and "normalize" not in expression:
        again = eval(expression, {"a": a, "b": b, "c": c})
        torch.testing.assert_close(again.tensor, hypervector.tensor)


def test_repr_is_one_line() -> None:
    assert repr(a * b) == "Hypervector(a * b, dim=20, m=3, complex128)"
    batch = SPACE.wrap(SPACE.zeros(4, 2), "many")
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


def test_html_escapes_expression() -> None:
    evil = SPACE.wrap(a.tensor, "<script>alert(1)</script>")
    page = evil._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert page.count("<path") == 20 * 9
    assert "dim = 20, m = 3, total 180" in page
    assert Space(100, 2).atoms("x")[0]._repr_html_().count("<path") == 24 * 4
    assert "batch (2,)" in SPACE.wrap(SPACE.zeros(2))._repr_html_()
    assert "nan" not in SPACE.wrap(a.tensor * torch.nan)._repr_html_().split("<svg")[1]


def test_batches_broadcast() -> None:
    many = SPACE.wrap(SPACE.random(5, generator=generator()), "many")
    assert (many * a).batch_shape == (5,)
    assert many.similarity(a).shape == (5,)
    assert a.batch_shape == ()
    assert torch.equal(many[1].tensor, many.tensor[1])
    assert [x.expression for x in many][:2] == ["many[0]", "many[1]"]
    assert (many[1:3] * a).batch_shape == (2,)
    with pytest.raises(TypeError, match="a is one hypervector, not a batch"):
        a[0]


def test_operators_reject_different_spaces() -> None:
    other = Space(20, 3, seed=1, dtype=torch.complex128).atoms("d")[0]
    for operation in (lambda: a * other, lambda: a + other, lambda: a - other, lambda: a.similarity(other)):
        with pytest.raises(ValueError, match=r"a and d belong to different spaces: .*seed=0.* and .*seed=1"):
            operation()
    with pytest.raises(ValueError, match="unbind: a and d belong to different spaces"):
        a.unbind(other, side="left")


def test_operators_reject_other_types() -> None:
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
        Hypervector(torch.zeros(21, 3, 3, dtype=torch.complex128), SPACE, "x")
    with pytest.raises(ValueError, match=r"Space.wrap: .* does not fit Space"):
        SPACE.wrap(torch.zeros(21, 3, 3, dtype=torch.complex128))


def test_hypervector_is_immutable() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        a.tensor = b.tensor
    with pytest.raises(AttributeError, match="immutable"):
        a.note = "hello"


def test_copies_are_equal() -> None:
    x = a * (b + c)
    for again in (copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x))):
        assert again.expression == x.expression
        assert (again * a).expression == (x * a).expression
        assert again.space == x.space
        assert torch.equal(again.tensor, x.tensor)


def test_operators_are_differentiable() -> None:
    leaf = a.tensor.clone().requires_grad_()
    score = (SPACE.wrap(leaf) * b).similarity(c)
    score.backward()
    assert leaf.grad is not None
    assert leaf.grad.abs().max() > 0


BATCH = SPACE.wrap(torch.stack([a.tensor, b.tensor, c.tensor]), "batch")
FUNCTIONS: list[tuple[Callable[..., Tensor], tuple[Any, ...], dict[str, Any]]] = [
    (ghrr.bind, (a, b), {}),
    (ghrr.unbind, (a, b), {"side": "left"}),
    (ghrr.unbind, (a, b), {"side": "right", "exact": True}),
    (ghrr.unbind_similarity, (a, b, c), {"side": "left"}),
    (ghrr.multibind, ([a, b, c],), {}),
    (ghrr.multibind, (BATCH,), {}),
    (ghrr.bundle, ([a, b, c],), {}),
    (ghrr.bundle, (BATCH,), {}),
    (ghrr.bind_bundle, (BATCH, BATCH), {}),
    (ghrr.adjoint, (a,), {}),
    (ghrr.shift, (a, 2), {}),
    (ghrr.power, (a, 2), {}),
    (ghrr.power, (a, 0.5), {}),
    (ghrr.normalize, (a,), {"to": "unitary"}),
    (ghrr.normalize, (a,), {}),
    (ghrr.similarity, (a, b), {}),
    (ghrr.pairwise_similarity, (a, BATCH), {}),
    (ghrr.commutator, (a, b), {}),
    (ghrr.commutativity, (a, b), {}),
]


def test_all_algebra_functions_are_tested_here() -> None:
    assert {function.__name__ for function, _, _ in FUNCTIONS} == set(ghrr.algebra.__all__)


def unwrapped(x: Any) -> Any:
    return [unwrapped(one) for one in x] if isinstance(x, list) else x.tensor if isinstance(x, Hypervector) else x


@pytest.mark.parametrize(("function", "arguments", "options"), FUNCTIONS)
def test_functions_accept_hypervectors_and_return_tensors(
    function: Callable[..., Tensor], arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    plain = unwrapped(list(arguments))
    result = function(*arguments, **options)
    assert type(result) is Tensor
    assert torch.equal(result, function(*plain, **options))
    if len(arguments) > 1:  # a tensor has no space to differ in
        assert torch.equal(function(plain[0], *arguments[1:], **options), result)


def test_functions_reject_hypervectors_of_different_spaces() -> None:
    (other,) = Space(20, 3, seed=1, dtype=torch.complex128).atoms("a")
    for call in (
        lambda: ghrr.bind(a, other),
        lambda: ghrr.bundle([a, b, other]),
        lambda: ghrr.pairwise_similarity(other, BATCH),
        lambda: ghrr.memory.resonator(other, [BATCH, BATCH]),
    ):
        with pytest.raises(ValueError, match=r"belong to different spaces, .*seed=\d"):
            call()
    for check in (
        lambda: SPACE.check(other),
        lambda: ghrr.ItemMemory(SPACE, ["a"]).cleanup(other),
        lambda: ghrr.ItemMemory(SPACE, ["a"]).match(other),
        lambda: ghrr.ItemMemory(SPACE).add("a", other),
        lambda: ghrr.encoding.FractionalPower(SPACE, n_features=1).decode(other, low=0, high=1),
    ):
        with pytest.raises(ValueError, match=r"seed=1.* does not belong to Space"):
            check()


def test_memories_accept_hypervectors() -> None:
    memory = ghrr.ItemMemory(SPACE, ["a", "b", "c"], BATCH)
    memory.add("a * b", a * b)
    assert torch.equal(memory.vectors(["b", "a * b"]), torch.stack([b.tensor, (a * b).tensor]))
    assert memory.cleanup(b).labels == ["b"]
    assert memory.cleanup(BATCH).labels == [["a"], ["b"], ["c"]]
    found = memory.match(a * b)
    assert isinstance(found, ghrr.Match)
    assert found.guess == "a * b"


def test_resonator_accepts_hypervectors() -> None:
    space = Space(100, 2)
    first, second = (space.wrap(space.vectors(names)) for names in (["a", "b"], ["c", "d", "e"]))
    product = first[1] * second[2]
    assert ghrr.memory.resonator(product, [first, second]).indices.tolist() == [1, 2]
    assert ghrr.memory.resonator(product.tensor, [first, second.tensor]).indices.tolist() == [1, 2]


def test_encoders_accept_hypervectors() -> None:
    space = Space(200, 2)
    encoder = ghrr.encoding.FractionalPower(space, n_features=1)
    encoded = encoder([[0.5]])[0]
    found = encoder.decode(space.wrap(encoded), low=-1, high=1)
    assert torch.equal(found.value, encoder.decode(encoded, low=-1, high=1).value)
    items = space.vectors(["a", "b", "c"])
    sequence = ghrr.encoding.SequenceEncoder(space)
    assert torch.equal(sequence(space.wrap(items)), sequence(items))
    assert sequence.read(space.wrap(sequence(items)), 3, space.wrap(items)).tolist() == [0, 1, 2]
    assert torch.equal(ghrr.encoding.NGramEncoder(2)(space.wrap(items)), ghrr.encoding.NGramEncoder(2)(items))
    assert torch.equal(ghrr.encoding.GivenPositions(space.wrap(items))([1]), items[1:2])
    assert torch.equal(ghrr.encoding.PowerPositions(space, base=space.wrap(items[0])).base, items[0])


def test_checks_take_hypervectors() -> None:
    assert ghrr.unitary.is_unitary(a)
    ghrr.testing.check_laws(a, b, c)
    assert SPACE.check(a) is a.tensor


def test_hypervector_converts_to_numpy_array() -> None:
    view, copied, narrow = np.asarray(a), np.array(a), np.asarray(a, dtype=np.complex64)
    assert view.shape == (20, 3, 3)
    assert view.dtype == np.complex128
    assert np.shares_memory(view, a.tensor.numpy())
    assert not view.flags.writeable
    assert copied.flags.writeable
    assert not np.shares_memory(copied, a.tensor.numpy())
    assert narrow.dtype == np.complex64


def test_lazy_conjugate_converts_to_numpy_array() -> None:
    lazy = SPACE.wrap(a.tensor.conj())
    np.testing.assert_array_equal(np.asarray(lazy), np.asarray(a).conj())
    with pytest.raises(ValueError, match="conjugate"):
        lazy.__array__(copy=False)


def test_numpy_numbers_scale_from_both_sides() -> None:
    for doubled in (np.float64(2) * a, a * np.float64(2)):
        assert isinstance(doubled, Hypervector)
        assert torch.equal(doubled.tensor, 2 * a.tensor)
    with pytest.raises(TypeError):
        np.ones(3) * a


@pytest.mark.parametrize("convert", [torch.as_tensor, torch.asarray, torch.utils.dlpack.from_dlpack, torch.tensor])
def test_hypervector_converts_to_tensor_without_copy(convert: Callable[[object], Tensor]) -> None:
    assert torch.equal(convert(a), a.tensor)
    assert torch.equal(convert(BATCH), BATCH.tensor)
