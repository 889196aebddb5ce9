r"""Tree: labelled nodes with children in order, :math:`\sum_{\text{nodes}} P_{i_1} * \dots * P_{i_d} * X`.

A node is found by its path: the indices of its ancestors and of itself among their siblings, outermost first. Indices
are bound on the left and unbound from the left, in that order: child 1 of child 0 is not child 0 of child 1. A tree of
n nodes answers with noise of about :math:`\sqrt{n/(2Dm^2)}`. Paths of the same indices in another order share a part of
each other; a node is read without the contribution of such paths that were encoded (:mod:`ghrr.memory.decorrelation`).
For m = 1, where binding commutes, the factor at depth d is shifted by d slots.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from torch import Tensor

from ghrr._checks import check_integer, describe
from ghrr.algebra import bind_bundle, similarity, unbind
from ghrr.hypervector import Hypervector
from ghrr.memory.decorrelation import DecorrelatedKeys
from ghrr.memory.match import CONFIDENCE, Match, answer_noise
from ghrr.space import Space
from ghrr.structures.base import Structure
from ghrr.structures.layout import MOST_DEPTH, Layout, Path, shift_each
from ghrr.structures.planning import answer_rate, smallest_space
from ghrr.structures.reading import MISSING, Reading
from ghrr.structures.vocabulary import Name, Vocabulary, as_tensor, chunks, is_settled, one_of

Place = tuple[int, ...]


class Tree(Structure):
    """An ordered tree of labels as one hypervector.

    A tree is a list of its label and its children, ``["S", ["NP", "she"], ["VP", "runs"]]``, or the same in brackets,
    ``"(S (NP she) (VP runs))"``. A leaf may be the label alone. Labels are names or hypervectors of your own.

    Parameters
    ----------
    space
        Space of the hypervectors.
    confidence
        Probability from which on a match is confident.
    permute
        Shift the factor at depth d by d slots before binding; by default only for m = 1
        (:class:`ghrr.structures.base.Structure`).

    Shapes
    ------
    encode: a tree to ``(dim, m, m)``

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures import Tree
    >>> trees = Tree(ghrr.Space(dim=300, m=3))
    >>> h = trees.encode("(S (NP she) (VP runs (PP in circles)))")
    >>> trees.label(h, 1, 0)
    Match('runs', score=1.035, margin=0.998, confident=True)
    >>> trees.decode(h).value
    ['S', ['NP', 'she'], ['VP', 'runs', ['PP', 'in', 'circles']]]
    """

    def __init__(self, space: Space, *, confidence: float = CONFIDENCE, permute: bool | None = None) -> None:
        super().__init__(space, confidence=confidence, permute=permute)
        self.labels = Vocabulary(space, "tree label")
        self.layout = Layout(space, "tree place", permute=self.permute)

    @classmethod
    def suggest(cls, nodes: int, *, labels: int, m: int = 3, error: float = 0.01, **settings: Any) -> Space:
        """Return the smallest space in which a tree answers with confidence and right.

        Parameters
        ----------
        nodes
            Number of nodes.
        labels
            Number of different labels.
        m
            Size of the slots' matrices.
        error
            Share of labels that may be wrong or not confident.
        **settings
            Further arguments of :class:`ghrr.Space`.

        Examples
        --------
        >>> from ghrr.structures import Tree
        >>> Tree.suggest(50, labels=100, m=3)
        Space(dim=165, m=3, seed=0)
        """
        nodes = check_integer("Tree.suggest", "nodes", nodes, least=1)
        labels = check_integer("Tree.suggest", "labels", labels, least=1)

        def rate(space: Space) -> float:
            return answer_rate(space, items=nodes, candidates=labels)

        return smallest_space("Tree.suggest", rate, m=m, error=error, settings=settings)

    def encode(self, tree: Any) -> Tensor:
        """Return the hypervector of a tree."""
        nodes = self._nodes(parse_brackets(tree) if isinstance(tree, str) else tree)
        h = self._bound(list(nodes), list(nodes.values()))
        for place in nodes:
            self.layout.mark_leaf(self.layout.insert(place))
        return h

    def label(self, h: Tensor | Hypervector, *path: int) -> Match:
        """Return the label of a node; the root has the empty path."""
        x = one_of("Tree.label", h, self.space)
        place = _checked_path("Tree.label", path)
        return self._match(x, [place], self.layout.orders.apart([place]))[0]

    def part(self, h: Tensor | Hypervector, *path: int) -> Tensor:
        """Return the tree under a node, with the rest of the tree as noise."""
        x = as_tensor("Tree.part", h, self.space)
        place = _checked_path("Tree.part", path)
        return self._shift(unbind(x, self.layout.path_vectors([place])[0], side="left"), -len(place))

    def add_leaf(self, h: Tensor | Hypervector, path: Sequence[int], label: Name) -> Tensor:
        """Return the tree with one more node, which has no children.

        Parameters
        ----------
        h
            A tree, ``(dim, m, m)``.
        path
            Path of the new node. It must be free; to be decoded, it must be the next child of a node that is there.
        label
            Its label.

        Examples
        --------
        >>> import ghrr
        >>> from ghrr.structures import Tree
        >>> trees = Tree(ghrr.Space(dim=300, m=3))
        >>> h = trees.add_leaf(trees.encode("(S she)"), [1], "runs")
        >>> trees.decode(h).value
        ['S', 'she', 'runs']
        """
        operation = "Tree.add_leaf"
        x = one_of(operation, h, self.space)
        place = _checked_path(operation, path)
        name = self.labels.resolve(operation, label)
        if len(self.labels):
            there = self._match(x, [place], self.layout.orders.apart([place]))[0]
            if not is_settled(there):
                raise ValueError(
                    f"{operation}: it is not certain whether {list(place)} is free ({there}); use a larger space"
                )
            if there.confident:
                raise ValueError(f"{operation}: {list(place)} has the label {there.guess!r} already; name a free path")
        h = x + self._bound([place], [name])
        self.layout.mark_leaf(self.layout.insert(place))
        return h

    def _bound(self, places: list[Place], labels: list[str]) -> Tensor:
        """The bundle of labels at places."""
        vectors = self.labels.encode(labels)
        if self.permute:
            vectors = shift_each(vectors, list(map(len, places)))
        return bind_bundle(self.layout.path_vectors(list(places)), vectors)

    def decode(self, h: Tensor | Hypervector, most: int = 1000) -> Reading:
        """Return the tree, with a match for every node by its path; the value is ``MISSING`` without a certain root.

        The tree is read from the root down. Nodes that are certain, at most ``most`` of them, are subtracted; a node
        that was not certain is read again when there is less noise. Nothing is looked for below it, nor after it among
        its siblings.
        """
        x = one_of("Tree.decode", h, self.space)
        most = check_integer("Tree.decode", "most", most, least=0)
        rest, found = x, dict[Place, Match]()
        asked: list[Place] = [()] if x.any() else []
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
        """The matches of places that are certain, at most ``most``, and x without them.

        ``taken`` are places that were subtracted from x before.
        """
        sure: dict[Place, Match] = {}
        for chunk in chunks(len(places), self.space):
            keys = self.layout.orders.apart(places[chunk], together=True, without={*taken, *sure})
            matches = zip(places[chunk], self._match(x, places[chunk], keys), strict=True)
            certain = dict([(place, match) for place, match in matches if match.confident][: most - len(sure)])
            x = x - self._bound(list(certain), [match.guess for match in certain.values()])
            sure |= certain
        return sure, x

    def _match(self, x: Tensor, places: Sequence[Place], keys: DecorrelatedKeys) -> list[Match]:
        """The best label at every place."""
        noise = keys.noise(answer_noise(self.space, similarity(x, x)))
        answers = unbind(x, keys.vectors, side="left")
        if self.permute:
            answers = shift_each(answers, [-len(place) for place in places])
        return self.labels.match(answers, noise=noise, confidence=self.confidence)

    def _nodes(self, tree: Any) -> dict[Place, str]:
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
            found[path] = self.labels.resolve(f"Tree.encode: the label at {list(path)}", node)
        return found

    def _seen(self) -> list[list[int]]:
        return [[step for step in path if isinstance(step, int)] for path in self.layout.leaves()]

    def _restore(self, seen: Any) -> None:
        for path in seen:
            self.layout.mark_leaf(self.layout.insert(_checked_path("Tree", path)))


def parse_brackets(text: str) -> Any:
    """Parse a tree in brackets, ``"(S (NP she) (VP runs))"``, to nested lists; text without brackets is one label.

    Examples
    --------
    >>> from ghrr.structures.tree import parse_brackets
    >>> parse_brackets("(S (NP she) (VP runs))")
    ['S', ['NP', 'she'], ['VP', 'runs']]
    """
    if not re.search(r"[()]", text):
        return text
    root: list[Any] = []
    opened = [root]
    for part in re.findall(r"[()]|[^\s()]+", text):
        if part == "(":
            if len(opened) > MOST_DEPTH:
                raise ValueError(f"Tree.encode: nested deeper than {MOST_DEPTH} levels")
            opened[-1].append([])
            opened.append(opened[-1][-1])
        elif part != ")":
            opened[-1].append(part)
        elif len(opened) == 1:
            break
        else:
            opened.pop()
    if len(opened) != 1 or len(root) != 1 or text.count("(") != text.count(")"):
        raise ValueError(
            f"Tree.encode: the brackets do not form one tree, got {text!r:.80}, expected a form like '(S (NP she) (VP "
            f"runs))'; for a label that contains brackets give a list, [label]"
        )
    return root[0]


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


def _checked_path(operation: str, path: Any) -> Place:
    if isinstance(path, str) or not isinstance(path, Sequence):
        raise TypeError(f"{operation}: a path is a list of indices, as in [0, 1]; got {describe(path)}")
    if len(path) > MOST_DEPTH:
        raise ValueError(f"{operation}: a path of {len(path)} steps; trees are at most {MOST_DEPTH} deep")
    return tuple(check_integer(operation, "a step of the path", step, least=0) for step in path)
