r"""Tree: labelled nodes with children in order, :math:`\sum_{\text{nodes}} P_{i_1} * \dots * P_{i_d} * X`.

A node is found by the places of its ancestors and itself among their siblings, outermost first. Places stand on the
left and are unbound from the left, in that order: child 1 of child 0 is not child 0 of child 1, unless m = 1. A tree of
n nodes answers with noise of about :math:`\sqrt{n/(2Dm^2)}`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ghrr._checks import check_integer
from ghrr.algebra import bind_bundle, similarity, unbind
from ghrr.hypervector import Hypervector
from ghrr.memory.match import LEVEL, Match
from ghrr.space import Space
from ghrr.structures.book import Book, as_tensor, check_name
from ghrr.structures.layout import MOST_DEPTH, Layout

Place = tuple[int, ...]


class Tree:
    """An ordered tree of names as one hypervector.

    A tree is written as a list of its label and its children, ``["S", ["NP", "she"], ["VP", "runs"]]``; a leaf may be
    the label alone.

    Parameters
    ----------
    space
        Where the hypervectors live.
    level
        From which probability on a match is confident.

    Shapes
    ------
    encode: a tree to ``(dim, m, m)``

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures import Tree
    >>> trees = Tree(ghrr.Space(dim=300, m=3))
    >>> h = trees.encode(["S", ["NP", "she"], ["VP", "runs", ["PP", "in", "circles"]]])
    >>> trees.label(h, 1, 0)
    Match('runs', score=1.035, margin=0.998, confident=True)
    >>> trees.decode(h)
    ['S', ['NP', 'she'], ['VP', 'runs', ['PP', 'in', 'circles']]]
    """

    def __init__(self, space: Space, *, level: float = LEVEL) -> None:
        self.space, self.level = space, level
        self.labels = Book(space, "tree label")
        self.layout = Layout(space, "tree place")

    def encode(self, tree: Any) -> Tensor:
        """The hypervector of a tree."""
        nodes = _nodes(tree)
        keys = self.layout.vectors([self.layout.insert(place) for place in nodes])
        return bind_bundle(keys, self.labels.vectors_of(nodes.values()))

    def label(self, h: Tensor | Hypervector, *path: int) -> Match:
        """The label of a node; the root has the empty path."""
        x = as_tensor("Tree.label", h, self.space)
        key = self.layout.path_vectors([_checked_path("Tree.label", path)])
        return self.labels.match(unbind(x, key, side="left"), energy=similarity(x, x), level=self.level)[0]

    def part(self, h: Tensor | Hypervector, *path: int) -> Tensor:
        """The tree under a node, its label included; the rest of the tree stays as noise."""
        x = as_tensor("Tree.part", h, self.space)
        return unbind(x, self.layout.path_vectors([_checked_path("Tree.part", path)])[0], side="left")

    def decode(self, h: Tensor | Hypervector) -> Any:
        """The tree again, read from the root down, or None if not even the root is known.

        Children are looked for until a place is empty. What is found is taken out before going on.
        """
        x = as_tensor("Tree.decode", h, self.space)
        root = self.label(x) if len(self.labels) else None
        if root is None or root.unknown:
            return None
        x = x - self.labels.vectors_of([root.guess])[0]
        built: dict[Place, list[Any]] = {(): [root.guess]}
        level: list[Place] = [()]
        while level:
            found: dict[Place, str] = {}
            asked = [(*place, 0) for place in level]
            while asked:  # the first children of all nodes of a level, then the second ones, and so on
                keys = self.layout.path_vectors(asked)
                matches = self.labels.match(unbind(x, keys, side="left"), energy=similarity(x, x), level=self.level)
                there = torch.tensor([not match.unknown for match in matches])
                sure = {place: match.guess for place, match in zip(asked, matches, strict=True) if not match.unknown}
                x = x - bind_bundle(keys[there], self.labels.vectors_of(sure.values()))
                found |= sure
                asked = [(*place[:-1], place[-1] + 1) for place in sure]
            for place, label in found.items():
                built[place] = [label]
                built[place[:-1]].append(built[place])
            level = [place for place in found if len(place) < MOST_DEPTH]
        return _plain(built[()])


def _nodes(tree: Any) -> dict[Place, str]:
    """The label of every node by its path."""
    found: dict[Place, str] = {}
    waiting: list[tuple[Place, Any]] = [((), tree)]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, (list, tuple)):
            if not node:
                raise ValueError(f"Tree.encode: the node at {list(path)} is an empty list; it needs a label")
            if len(path) >= MOST_DEPTH:
                raise ValueError(f"Tree.encode: nested deeper than {MOST_DEPTH} levels, or cyclic")
            waiting.extend(((*path, place), child) for place, child in enumerate(node[1:]))
            node = node[0]
        found[path] = check_name(f"Tree.encode: the label at {list(path)}", node)
    return found


def _plain(node: list[Any]) -> Any:
    """A leaf as its label alone; the tree below is at most ``MOST_DEPTH`` deep."""
    return [node[0], *map(_plain, node[1:])] if len(node) > 1 else node[0]


def _checked_path(operation: str, path: Sequence[Any]) -> Place:
    if len(path) > MOST_DEPTH:
        raise ValueError(f"{operation}: a path of {len(path)} steps; trees are at most {MOST_DEPTH} deep")
    return tuple(check_integer(operation, "a step of the path", step, least=0) for step in path)
