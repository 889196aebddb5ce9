"""Trees: labels by path, subtrees and decoding; permuted paths miss."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import ghrr
from ghrr import Space
from ghrr.structures import MISSING, Tree
from tests.helpers import wrong
from tests.structures.common import COMMUTING, SPACE, close, noise, overloaded

PARSED = ["S", ["NP", "she"], ["VP", "runs", ["PP", "in", "circles"]]]
NAMES = st.sampled_from(list("abcdefgh"))
TREES = st.recursive(
    NAMES,
    lambda child: st.builds(lambda name, kids: [name, *kids], NAMES, st.lists(child, min_size=1, max_size=3)),
    max_leaves=8,
)


def test_labels_are_found_by_path() -> None:
    model = Tree(SPACE)
    h = model.encode(PARSED)
    for path, label in [((), "S"), ((0,), "NP"), ((0, 0), "she"), ((1, 0), "runs"), ((1, 1, 1), "circles")]:
        match = model.label(h, path)
        assert match.label == label
        assert match.confident
        assert abs(match.score - 1) < 5 * noise(8)
    for path in ((2,), (0, 1), (1, 1, 2), (0, 0, 0)):
        assert model.label(h, path).unknown


def test_swapped_path_is_unknown() -> None:
    tree = ["a", ["b", "c", "d"], ["e", "f"]]  # "d" at 0, 1 and "f" at 1, 0
    model, control = Tree(SPACE), Tree(COMMUTING, permute=False)
    h, c = model.encode(tree), control.encode(tree)
    assert (model.label(h, [0, 1]).label, model.label(h, [1, 0]).label) == ("d", "f")
    assert not control.label(c, [0, 1]).confident  # m = 1: both are at both places
    assert not control.label(c, [1, 0]).confident
    lone = model.encode(["a", ["b", "c", "d"]])
    assert model.label(lone, [1, 0]).unknown
    assert model.label(lone, [1, 0]).score < 1 / 9 + 5 * noise(4)


def test_shifts_keep_the_order_of_a_path_for_m_equal_to_one() -> None:
    tree = ["a", ["b", "c", "d"], ["e", "f"]]
    for model in (Tree(COMMUTING), Tree(SPACE, permute=True)):
        h = model.encode(tree)
        assert (model.label(h, [0, 1]).label, model.label(h, [1, 0]).label) == ("d", "f")
        assert model.label(h, [0, 1]).confident
        assert model.decode(h).value == tree
        assert model.label(model.part(h, 0), 1).label == "d"
        lone = model.encode(["a", ["b", "c", "d"]])
        assert model.label(lone, [1, 0]).unknown


def test_an_unseen_path_is_not_confident_where_orders_are_the_same() -> None:
    h = Tree(COMMUTING, permute=False).encode(["a", ["b", "c", "d"]])  # "d" at 0, 1
    other = Tree(COMMUTING, permute=False)  # knows the labels, but not this path
    other.encode(["d", "b", "c", "a"])
    assert other.label(h, 0).confident  # negative control: one step has no other order
    assert other.label(h, [0, 1]).score > 0.8
    assert not other.label(h, [0, 1]).confident


def test_brackets_are_parsed() -> None:
    model = Tree(SPACE)
    h = model.encode("(S (NP she) (VP runs (PP in circles)))")
    assert model.decode(h).value == ["S", ["NP", "she"], ["VP", "runs", ["PP", "in", "circles"]]]
    assert model.decode(model.encode("she")).value == "she"
    assert model.decode(model.encode(["(she)"])).value == "(she)"


@pytest.mark.parametrize(
    "bad", ["(S (NP she)", "S (NP she))", "(S) (NP)", "she)", ")S(", "x (S she)", "(" * 200 + ")" * 200]
)
def test_bad_brackets_are_refused(bad: str) -> None:
    model = Tree(SPACE)
    with pytest.raises(ValueError, match=r"Tree.encode: (the brackets do not form one tree|the tree is deeper)"):
        model.encode(bad)
    assert len(model.labels) == 0


def test_an_empty_bracket_needs_a_label() -> None:
    with pytest.raises(ValueError, match="is an empty list; it needs a label"):
        Tree(SPACE).encode("(S ())")


@pytest.mark.parametrize("space", [SPACE, COMMUTING], ids=repr)
def test_add_leaf_adds_a_node(space: Space) -> None:
    model = Tree(space)
    h = model.encode("(S (NP she))")
    h = model.add_leaf(h, [1], "VP")
    h = model.add_leaf(h, [1, 0], "runs")
    assert close(h, model.encode("(S (NP she) (VP runs))"))
    assert model.decode(h).value == ["S", ["NP", "she"], ["VP", "runs"]]
    with pytest.raises(ValueError, match=r"Tree.add_leaf: \[0, 0\] already has the label 'she'"):
        model.add_leaf(h, [0, 0], "he")


def test_unbinding_on_the_wrong_side_misses() -> None:
    model = Tree(SPACE)
    h = model.encode(PARSED)
    [key] = model.paths.vectors([(0,)])
    [label] = model.labels.encode(["NP"])
    assert ghrr.similarity(ghrr.unbind(h, key, side="left"), label) > 1 - 5 * noise(8)
    assert ghrr.similarity(ghrr.unbind(h, key, side="right"), label) < 1 / 9 + 5 * noise(8)


@given(TREES)
def test_decode_returns_any_tree(tree: Any) -> None:
    model = Tree(Space(800, 2, seed=1))
    reading = model.decode(model.encode(tree))
    assert reading.value == tree
    assert reading.confident
    assert reading.unexplained < 1e-4


def test_part_is_a_tree() -> None:
    model = Tree(SPACE)
    h = model.encode(PARSED)
    part = model.part(h, 1)
    assert model.label(part, []).label == "VP"
    assert model.label(part, [1, 0]).label == "in"


def test_encode_equals_the_sum_of_nodes() -> None:
    space = Space(20, 2, dtype=torch.complex128)
    first, second = space.vectors(["place:0", "place:1"], namespace="tree place")
    a, b, c = space.vectors(["a", "b", "c"], namespace="tree label")
    torch.testing.assert_close(
        Tree(space).encode(["a", "b", ["c", "b"]]), a + first @ b + second @ c + second @ first @ b
    )


def test_trees_can_be_tuples_and_single_labels() -> None:
    model = Tree(SPACE)
    assert close(model.encode(("a", ("b",), "c")), model.encode(["a", "b", "c"]))
    assert model.decode(model.encode("a")).value == "a"
    assert model.decode(SPACE.zeros()).value is MISSING
    assert Tree(SPACE).decode(SPACE.zeros()).matches == {}


def test_every_node_has_a_match() -> None:
    model = Tree(SPACE)
    reading = model.decode(model.encode(PARSED))
    assert [(path, match.label) for path, match in reading.matches.items()] == [
        ((), "S"),
        ((0,), "NP"),
        ((0, 0), "she"),
        ((1,), "VP"),
        ((1, 0), "runs"),
        ((1, 1), "PP"),
        ((1, 1, 0), "in"),
        ((1, 1, 1), "circles"),
    ]
    first = model.decode(model.encode(PARSED), limit=3)
    assert first.value == ["S", "NP", "VP"]
    assert model.decode(model.encode(PARSED), limit=0).value is MISSING
    with pytest.raises(ValueError, match=re.escape("Tree.decode: limit must be a whole number of at least 0")):
        model.decode(model.encode(PARSED), limit=-1)


@overloaded
def test_decode_returns_confident_nodes_only() -> None:
    """Decoding of overloaded trees ends, and returns no label that was not encoded."""
    children = [f"n{n}" for n in range(300)]
    kept = 0
    for dim in (2, 20, 200, 2000):
        model = Tree(Space(dim, 2, seed=1))
        reading = model.decode(model.encode(["root", *children]))
        assert reading.confident
        kept += len(reading.matches)
        wanted: dict[Any, str] = {(): "root", **{(n,): name for n, name in enumerate(children)}}
        right = sum(match.label == wanted.get(path) for path, match in reading.matches.items())
        assert right >= 0.9 * len(reading.matches)
    assert kept


def test_decode_reads_doubtful_nodes_again() -> None:
    """Confident nodes are subtracted, which leaves less noise."""
    again = 0
    for seed in range(20):
        model = Tree(Space(40, 2, seed=seed))
        h = model.encode(["r", ["a", "b", "c"], ["d", "e", "f"]])
        read = model.decode(h).matches
        for path, match in read.items():
            place = [step for step in path if isinstance(step, int)]
            again += match.confident and not model.label(h, place).confident
    assert again


def test_bad_trees_are_refused() -> None:
    model = Tree(SPACE)
    with pytest.raises(ValueError, match=re.escape("Tree.encode: the node at [1] is an empty list; it needs a label")):
        model.encode(["a", "b", []])
    with pytest.raises(
        TypeError,
        match=re.escape("Tree.encode: the label at [0]: needs a non-empty string"),
    ):
        model.encode(["a", [1, "b"]])
    with pytest.raises(TypeError, match=re.escape("the label at []: needs a non-empty string")):
        model.encode({"a": "b"})
    loop: list[Any] = ["a"]
    loop.append(loop)
    with pytest.raises(ValueError, match="deeper than 100 levels, or cyclic"):
        model.encode(loop)
    h = model.encode(PARSED)
    for step in (-1, "0", 1.5):
        with pytest.raises(
            (TypeError, ValueError), match=r"Tree\.label: (path must be a list|an index of path must be a whole number)"
        ):
            model.label(h, wrong(step))
    with pytest.raises(ValueError, match="path has 101 indices"):
        model.label(h, [0] * 101)
    with pytest.raises(ValueError, match="does not fit Space"):
        model.label(Space(4, 2).zeros(), [])


def test_add_leaf_needs_a_parent_and_the_sibling_before_it() -> None:
    model = Tree(SPACE)
    h = model.encode("(S she)")
    for path, absent in (([2], r"\[1\]"), ([1, 0], r"\[1\]")):
        with pytest.raises(ValueError, match=f"is not the next child of a node, because there is no node at {absent}"):
            model.add_leaf(h, path, "x")
    with pytest.raises(ValueError, match="encode a tree first"):
        Tree(SPACE).add_leaf(SPACE.zeros(), [0], "x")
    assert model.decode(model.add_leaf(h, [0, 0], "x")).value == ["S", ["she", "x"]]  # negative control
