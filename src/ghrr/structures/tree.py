r"""Tree: labelled nodes with children in order, :math:`\sum_{\text{nodes}} P_{i_1} * \dots * P_{i_d} * X`.

A node is found by the places of its ancestors and itself among their siblings, outermost first. Places stand on the
left and are unbound from the left, in that order: child 1 of child 0 is not child 0 of child 1, unless m = 1. A tree of
n nodes answers with noise of about :math:`\sqrt{n/(2Dm^2)}`. Paths of the same places in another order share a part of
each other; a node is read without what such paths that were met may add (:mod:`ghrr.memory.orders`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from torch import Tensor

from ghrr._checks import check_integer
from ghrr.algebra import bind_bundle, similarity, unbind
from ghrr.hypervector import Hypervector
from ghrr.memory.match import LEVEL, Match, answer_noise
from ghrr.memory.orders import Apart
from ghrr.space import Space
from ghrr.structures.layout import MOST_DEPTH, Layout, Path
from ghrr.structures.reading import MISSING, Reading
from ghrr.structures.vocabulary import Vocabulary, as_tensor, check_name, chunks, one_of

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
    >>> trees.decode(h).value
    ['S', ['NP', 'she'], ['VP', 'runs', ['PP', 'in', 'circles']]]
    """

    def __init__(self, space: Space, *, level: float = LEVEL) -> None:
        self.space, self.level = space, level
        self.labels = Vocabulary(space, "tree label")
        self.layout = Layout(space, "tree place")

    def encode(self, tree: Any) -> Tensor:
        """The hypervector of a tree."""
        nodes = _nodes(tree)
        places = [self.layout.insert(place) for place in nodes]
        for place in places:
            self.layout.mark_leaf(place)
        return bind_bundle(self.layout.vectors(places), self.labels.encode(nodes.values()))

    def label(self, h: Tensor | Hypervector, *path: int) -> Match:
        """The label of a node; the root has the empty path."""
        x = one_of("Tree.label", h, self.space)
        return self._match(x, self.layout.orders.apart([_checked_path("Tree.label", path)]))[0]

    def part(self, h: Tensor | Hypervector, *path: int) -> Tensor:
        """The tree under a node, its label included; the rest of the tree stays as noise."""
        x = as_tensor("Tree.part", h, self.space)
        return unbind(x, self.layout.path_vectors([_checked_path("Tree.part", path)])[0], side="left")

    def decode(self, h: Tensor | Hypervector, most: int = 1000) -> Reading:
        """The tree again, with a match for every node by its path; the value is ``MISSING`` without a certain root.

        Read from the root down. Only nodes that are certain are kept, at most ``most`` of them, and taken out of the
        tree; where one was not certain, it is asked for again when there is less noise. Below it and after it among
        its siblings nothing is looked for.
        """
        x = one_of("Tree.decode", h, self.space)
        most = check_integer("Tree.decode", "most", most, least=0)
        rest, found = x, dict[Place, Match]()
        asked: list[Place] = [()] if len(self.labels) else []
        waiting: list[Place] = []
        less_noise = False
        while asked and len(found) < most:
            sure, rest = self._take(rest, asked, most - len(found), found)
            waiting += [place for place in asked if place not in sure]
            found |= sure
            beside = [(*place[:-1], place[-1] + 1) for place in sure if place]
            asked = beside + [(*place, 0) for place in sure if len(place) < MOST_DEPTH]
            less_noise = less_noise or bool(sure)
            if not asked and less_noise:
                asked, waiting, less_noise = waiting, [], False
        matches: dict[Path, Match] = {place: found[place] for place in sorted(found)}
        return Reading(_built(matches), matches, x, rest)

    def _take(
        self, x: Tensor, places: list[Place], most: int, taken: Collection[Place]
    ) -> tuple[dict[Place, Match], Tensor]:
        """The matches of places that are certain, no more than ``most``, and what is left of x without them.

        ``taken`` are places that were taken out of x before.
        """
        sure: dict[Place, Match] = {}
        for run in chunks(len(places), self.space):
            keys = self.layout.orders.apart(places[run], together=True, without={*taken, *sure})
            matches = zip(places[run], self._match(x, keys), strict=True)
            certain = dict([(place, match) for place, match in matches if match.confident][: most - len(sure)])
            labels = self.labels.encode(match.guess for match in certain.values())
            x = x - bind_bundle(self.layout.path_vectors(list(certain)), labels)
            sure |= certain
        return sure, x

    def _match(self, x: Tensor, keys: Apart) -> list[Match]:
        """The best label under every key."""
        noise = keys.noise(answer_noise(self.space, similarity(x, x)))
        return self.labels.match(unbind(x, keys.vectors, side="left"), noise=noise, level=self.level)


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


def _built(matches: Mapping[Path, Match]) -> Any:
    """Nested lists of the labels at paths, parents before their children; a leaf is its label alone."""
    nodes: dict[Path, list[Any]] = {}
    for place, match in matches.items():
        nodes[place] = [match.guess]
        if place:
            nodes[place[:-1]].append(nodes[place])
    return _plain(nodes[()]) if nodes else MISSING


def _plain(node: list[Any]) -> Any:
    """A leaf as its label alone; the tree below is at most ``MOST_DEPTH`` deep."""
    return [node[0], *map(_plain, node[1:])] if len(node) > 1 else node[0]


def _checked_path(operation: str, path: Sequence[Any]) -> Place:
    if len(path) > MOST_DEPTH:
        raise ValueError(f"{operation}: a path of {len(path)} steps; trees are at most {MOST_DEPTH} deep")
    return tuple(check_integer(operation, "a step of the path", step, least=0) for step in path)
