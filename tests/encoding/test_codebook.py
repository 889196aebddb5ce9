"""Codebook: atoms of names, added names, and names that were not added."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

import ghrr
from ghrr import Space
from ghrr.encoding import Codebook, FractionalPower, Level, PowerPositions, Thermometer
from tests.encoding.common import wrong
from tests.helpers import assert_mean, assert_std

SPACE = Space(30, 3)


def test_codebook_returns_the_atoms_of_the_space() -> None:
    book = Codebook(SPACE, ["red", "green"])
    assert torch.equal(book(["green", "red"]), SPACE.vectors(["green", "red"]))
    assert torch.equal(book("red"), SPACE.vectors(["red"])[0])
    assert not torch.allclose(book("red"), book("green"), atol=0.1)


def test_atoms_do_not_depend_on_the_order_of_names() -> None:
    one, two = Codebook(SPACE, ["a", "b", "c"]), Codebook(SPACE, ["c", "a"])
    two.add(["b", "a"])
    assert two.names == ["c", "a", "b"]
    for name in "abc":
        assert torch.equal(one(name), two(name))
    assert not torch.equal(one("a"), Codebook(Space(30, 3, seed=1), ["a"])("a"))


def test_codebook_takes_nested_lists_indices_and_arrays() -> None:
    book = Codebook(SPACE, ["a", "b", "c"])
    want = SPACE.vectors(["c", "a", "b", "b"]).reshape(2, 2, 30, 3, 3)
    inputs: list[Any] = [
        [["c", "a"], ["b", "b"]],
        (("c", "a"), ("b", "b")),
        np.array([["c", "a"], ["b", "b"]]),
        np.array([["c", "a"], ["b", "b"]], dtype=object),
        np.array([[2, 0], [1, 1]]),
        np.array([[2, 0], [1, 1]], dtype=np.uint8),
        *(torch.tensor([[2, 0], [1, 1]], dtype=d) for d in (torch.long, torch.int32, torch.int16, torch.uint8)),
    ]
    for x in inputs:
        assert torch.equal(book(x), want), x
    assert torch.equal(book.indices([["c", "a"], ["b", "b"]]), torch.tensor([[2, 0], [1, 1]]))


def test_empty_batches_have_empty_results() -> None:
    book = Codebook(SPACE, ["a"])
    assert book([]).shape == (0, 30, 3, 3)
    assert book([[], []]).shape == (2, 0, 30, 3, 3)
    assert book(torch.empty(0, dtype=torch.long)).shape == (0, 30, 3, 3)
    assert Codebook(SPACE)([]).shape == (0, 30, 3, 3)
    assert len(Codebook(SPACE)) == 0


def test_codebooks_of_different_namespaces_are_independent() -> None:
    names = [str(i) for i in range(60)]
    one, two = Codebook(SPACE, names), Codebook(SPACE, names, namespace="other")
    cross = ghrr.pairwise_similarity(one.vectors(), two.vectors())
    assert_mean(cross.flatten(), 0.0)
    assert_std(cross.flatten(), SPACE.noise_std)
    same = ghrr.pairwise_similarity(one.vectors(), Codebook(SPACE, names).vectors())
    torch.testing.assert_close(torch.diagonal(same), torch.ones(60))
    assert two.names == names
    assert torch.equal(two("7"), SPACE.vectors(["7"], namespace="other")[0])
    assert not torch.allclose(two("7"), Codebook(SPACE, ["other7"])("other7"), atol=0.1)


# --------------------------------------------------------------------------------------------------------- unseen names


def test_unseen_names_raise_by_default() -> None:
    book = Codebook(SPACE, ["a", "b"])
    with pytest.raises(KeyError, match="is not among the 2 names; add it with") as caught:
        book(["a", "c"])
    assert caught.value.args[0].startswith("Codebook: 'c' is not")
    assert 'unseen="add"' in caught.value.args[0]
    assert book.names == ["a", "b"]
    book.add(["c"])
    assert torch.equal(book("c"), SPACE.vectors(["c"])[0])


def test_unseen_names_can_be_added() -> None:
    book = Codebook(SPACE, ["a"], unseen="add")
    assert torch.equal(book(["b", "a", "b"]), SPACE.vectors(["b", "a", "b"]))
    assert book.names == ["a", "b"]
    assert len(book) == len(book.vectors()) == 2


def test_unseen_names_can_share_one_unknown_atom() -> None:
    book = Codebook(SPACE, ["a"], unseen="unknown")
    found = book(["x", "a", "y"])
    assert torch.equal(found[0], found[2])
    assert torch.equal(found[1], SPACE.vectors(["a"])[0])
    assert abs(ghrr.similarity(found[0], found[1])) < 5 * SPACE.noise_std
    assert "x" not in book.names
    assert torch.equal(book("x"), Codebook(SPACE, unseen="unknown")("z"))


# ------------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize("name", [3, None, "", ["a"], b"a", 1.5])
def test_names_must_be_strings(name: Any) -> None:
    book = Codebook(SPACE, ["a"])
    with pytest.raises(TypeError, match=r"Codebook\.add: a name must be a string that is not empty, got"):
        book.add([name])
    assert book.names == ["a"]


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        (3, TypeError, "needs a name, a list of names or a tensor of whole numbers, got int 3"),
        (["a", 3], TypeError, "needs a name, a list of names or a tensor of whole numbers, got int 3"),
        (None, TypeError, "needs a name, a list of names or a tensor of whole numbers, got NoneType None"),
        ([["a"], ["a", "b"]], ValueError, "must have equal lengths"),
        (["a", ["b"]], ValueError, "must have equal lengths"),
        (torch.tensor([0.0]), TypeError, "needs names or whole numbers, got a float32 tensor of shape (1,)"),
        (torch.tensor([True]), TypeError, "needs names or whole numbers, got a bool tensor"),
        (np.array([0.5]), TypeError, "needs a name, a list of names or a tensor of whole numbers, got float 0.5"),
        (torch.tensor([0, 2]), IndexError, "indices must be from 0 to 1, got 0 to 2"),
        (torch.tensor([-1]), IndexError, "indices must be from 0 to 1, got -1 to -1"),
    ],
)
def test_invalid_inputs_raise_and_are_named(names: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match="Codebook: .*" + re.escape(message)):
        Codebook(SPACE, ["a", "b"])(names)


def test_invalid_settings_raise() -> None:
    with pytest.raises(ValueError, match="unseen must be one of 'error', 'add', 'unknown'; got 'skip'"):
        Codebook(SPACE, unseen="skip")
    with pytest.raises(TypeError, match=r"Codebook: give a list of names, .*; got str 'ab'"):
        Codebook(SPACE, "ab")
    with pytest.raises(TypeError, match=r"Codebook: a name must be a string"):
        Codebook(SPACE, wrong([1, 2]))


# ---------------------------------------------------------------------------------------------------------------- state


def test_state_dict_restores_names() -> None:
    book = Codebook(SPACE, ["a"], unseen="add")
    book(["b", "c"])
    state = book.state_dict()
    book.add(["d"])  # does not change the saved state
    fresh = Codebook(SPACE, ["z"])
    fresh.load_state_dict(state)
    assert fresh.names == ["a", "b", "c"]
    assert torch.equal(fresh.vectors(), SPACE.vectors(["a", "b", "c"]))
    with pytest.raises(KeyError):
        fresh("z")


def test_atoms_are_independent_of_hypervectors_inside_encoders() -> None:
    """Even if the names are those that the encoders use internally."""
    book = Codebook(SPACE, ["sequence", "position", "thermometer", "level low", "x"])
    inside = [
        PowerPositions(SPACE, name="sequence")(1),
        PowerPositions(SPACE)(1),
        Thermometer(SPACE, 0, 1)(1),
        Level(SPACE, 0, 1)(0),
        FractionalPower(SPACE, 1)([0]),
    ]
    assert ghrr.pairwise_similarity(torch.stack(inside), book.vectors()).abs().max() < 5 * SPACE.noise_std
