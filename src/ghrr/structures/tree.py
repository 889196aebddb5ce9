r"""Tree: labelled nodes with ordered children, :math:`\sum_{\text{nodes}} P_{i_1} * \dots * P_{i_d} * X`.

A node is addressed by its path: the indices of its ancestors and of itself among their siblings, outermost first.
Indices are bound on the left and unbound from the left, in this order: child 1 of child 0 is not child 0 of child 1. A
tree of n nodes answers with noise of about :math:`\sqrt{n/(2Dm^2)}`. Paths of the same indices in another order are
similar; a node is read without the contribution of such paths that were encoded
(:mod:`ghrr.structures.permuted_paths`). For m = 1, where binding commutes, the factor at depth d is shifted by d slots.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from ghrr.algebra import similarity
from ghrr.checks import add_place, check_integer, describe, names_errors, type_error, value_error
from ghrr.documents import MAX_DEPTH, Path
from ghrr.hypervector import Hypervector
from ghrr.memory.decorrelation import DecorrelatedKeys
from ghrr.memory.match import Match, answer_noise
from ghrr.structures.base import Structure
from ghrr.structures.certainty import is_settled
from ghrr.structures.inputs import chunks
from ghrr.structures.path_tree import PathTree
from ghrr.structures.peel import peel
from ghrr.structures.reading import MISSING, Reading
from ghrr.structures.vocabulary import Name

NodePath = tuple[int, ...]


@names_errors
class Tree(Structure):
    """Ordered tree of labels as one hypervector.

    A tree is a list of its label and its children, ``["S", ["NP", "she"], ["VP", "runs"]]``, or the same in brackets,
    ``"(S (NP she) (VP runs))"``. A leaf can be given by its label alone. Labels are names or given hypervectors.

    Every method takes the path of a node as one argument: a list of child indices from the root, ``[]`` for the root,
    or a single index.

    Parameters
    ----------
    space, confidence, permute, device
        See :class:`ghrr.structures.base.Structure`. ``permute`` shifts the factor at depth d by d slots.

    Shapes
    ------
    encode: a tree to ``(dim, m, m)``

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures import Tree
    >>> trees = Tree(ghrr.Space(dim=300, m=3))
    >>> h = trees.encode("(S (NP she) (VP runs (PP in circles)))")
    >>> trees.label(h, [1, 0])
    Match('runs', score=1.011, margin=0.985, confident=True)
    >>> trees.decode(h).value
    ['S', ['NP', 'she'], ['VP', 'runs', ['PP', 'in', 'circles']]]
    """

    _SIZES = ("nodes", "labels")

    def _create_tables(self) -> None:
        self.labels = self._vocabulary("tree label")
        self.paths = PathTree(self.space, "tree place", permute=self.permute, device=self.device)

    def encode(self, tree: Any) -> Tensor:
        """Return the hypervector of a tree."""
        nodes = self._check_tree(parse_brackets(tree) if isinstance(tree, str) else tree)
        h = self._bundle(nodes)
        for path in nodes:
            self.paths.mark_leaf(self.paths.insert(path))
        self._warn_if_full(len(nodes), len(self.labels))
        return h

    def label(self, h: Tensor | Hypervector, path: int | Sequence[int]) -> Match:
        """Return the label of the node at a path."""
        x = self._constant(h)
        return self._labels(x, [_check_path(path)])[0]

    def part(self, h: Tensor | Hypervector, path: int | Sequence[int]) -> Tensor:
        """Return the subtree at a path, with the rest of the tree as noise. Differentiable with respect to ``h``.

        Shapes
        ------
        h: ``(*batch, dim, m, m)``; output: the same
        """
        x = self._vectors(h)
        checked = _check_path(path)
        rows = x.reshape(-1, *self.space.shape)
        keys = self.paths.vectors([checked]).expand_as(rows)
        return self.paths.unbind(rows, keys, [checked] * len(rows)).reshape(x.shape)

    def add_leaf(self, h: Tensor | Hypervector, path: Sequence[int], label: Name) -> Tensor:
        """Return the tree with one more node, which has no children. Differentiable with respect to ``h``.

        Parameters
        ----------
        h
            A tree, ``(dim, m, m)``.
        path
            Path of the new node, which must be the next child of an existing node.
        label
            Its label.

        Raises
        ------
        ValueError
            If the path has a label already, if its parent or the sibling before it does not exist, or if this is not
            certain.

        Examples
        --------
        >>> import ghrr
        >>> from ghrr.structures import Tree
        >>> trees = Tree(ghrr.Space(dim=300, m=3))
        >>> h = trees.add_leaf(trees.encode("(S she)"), [1], "runs")
        >>> trees.decode(h).value
        ['S', 'she', 'runs']
        """
        x = self._vector(h)
        new = _check_path(path)
        name = self.labels.resolve(label)
        self._check_next_child(x.detach(), new)
        h = x + self._bundle({new: name})
        self.paths.mark_leaf(self.paths.insert(new))
        self._warn_if_full(self._items(h), len(self.labels))
        return h

    def _check_next_child(self, x: Tensor, path: NodePath) -> None:
        """Raise unless the node at a path certainly does not exist, but its parent and its left sibling do."""
        parent = [path[:-1]] if path else []
        before = [(*path[:-1], path[-1] - 1)] if path and path[-1] else []
        if not len(self.labels):
            if parent:
                raise value_error(f"the parent of {list(path)} does not exist; encode a tree first")
            return
        for node in [path, *parent, *before]:
            [match] = self._labels(x, [node])
            if not is_settled(match):
                raise value_error(
                    f"it is not certain whether there is a node at {list(node)}, got {match}; use a larger space"
                )
            if node == path and match.confident:
                raise value_error(f"{list(path)} already has the label {match.guess!r}; use a free path")
            if node != path and not match.confident:
                raise value_error(
                    f"{list(path)} is not the next child of a node, because there is no node at "
                    f"{list(node)}; add that one first"
                )

    def _bundle(self, labels: Mapping[NodePath, str]) -> Tensor:
        """Return the bundle of labels at paths."""
        return self.paths.bundle(list(labels), self.labels.encode(labels.values()))

    def decode(self, h: Tensor | Hypervector, limit: int | None = None) -> Reading:
        """Return the tree, with a match for every node by its path; the value is ``MISSING`` without a confident root.

        The tree is read from the root down. Confident nodes are subtracted; the others are read again when there is
        less noise. Children and right siblings of a node are read only if the node is confident.

        Parameters
        ----------
        h
            A tree, ``(dim, m, m)``.
        limit
            Maximum number of nodes to read. By default 1000, with a warning if the limit is reached.
        """
        x = self._constant(h)
        maximum = self._limit(limit)
        frontier: list[NodePath] = [()] if x.any() else []
        doubtful: list[NodePath] = []  # read, but not confident
        has_less_noise = False  # since they were read

        def read(rest: Tensor, found: Mapping[NodePath, Match]) -> dict[NodePath, Match]:
            nonlocal frontier, doubtful, has_less_noise
            new: dict[NodePath, Match] = {}
            while frontier and len(found) < maximum and not new:
                new = self._confident_labels(rest, frontier, maximum - len(found), found)
                doubtful += [path for path in frontier if path not in new]
                siblings = [(*path[:-1], path[-1] + 1) for path in new if path]
                frontier = siblings + [(*path, 0) for path in new if len(path) < MAX_DEPTH]
                has_less_noise = has_less_noise or bool(new)
                if not frontier and has_less_noise:
                    frontier, doubtful, has_less_noise = doubtful, [], False
            return new

        found, residual = peel(x, read, lambda rest, new: rest - self._bundle(_guesses(new)))
        self._warn_if_cut(len(found), limit)
        matches: dict[Path, Match] = {path: found[path] for path in sorted(found)}
        return Reading(_nest(matches), matches, x, residual)

    def _confident_labels(
        self, x: Tensor, paths: list[NodePath], count: int, removed: Mapping[NodePath, Match]
    ) -> dict[NodePath, Match]:
        """Return the confident labels of paths, at most ``count``; ``removed`` were subtracted from x before."""
        confident: list[tuple[NodePath, Match]] = []
        for chunk in chunks(len(paths), self.space):
            keys = self.paths.permuted.decorrelated_keys(paths[chunk], all_present=True, removed=removed)
            matches = self._labels(x, paths[chunk], keys)
            confident += [(path, one) for path, one in zip(paths[chunk], matches, strict=True) if one.confident]
        return dict(confident[:count])

    def _labels(self, x: Tensor, paths: Sequence[NodePath], keys: DecorrelatedKeys | None = None) -> list[Match]:
        """Return the best label at every path."""
        if keys is None:
            keys = self.paths.permuted.decorrelated_keys(paths)
        noise = keys.noise(answer_noise(self.space, similarity(x, x)))
        answers = self.paths.unbind(x, keys.vectors, paths)
        return self.labels.match(answers, noise=noise, confidence=self.confidence)

    def _check_tree(self, tree: Any) -> dict[NodePath, str]:
        """Return the label of every node by its path."""
        found: dict[NodePath, str] = {}
        stack: list[tuple[NodePath, Any]] = [((), tree)]
        while stack:
            path, node = stack.pop()
            if isinstance(node, (list, tuple)):
                if not node:
                    raise value_error(f"the node at {list(path)} is an empty list; it needs a label")
                if len(path) >= MAX_DEPTH:
                    raise value_error(f"the tree is deeper than {MAX_DEPTH} levels, or cyclic")
                stack.extend(((*path, index), child) for index, child in enumerate(node[1:]))
                node = node[0]
            try:
                found[path] = self.labels.resolve(node)
            except (TypeError, ValueError) as error:
                raise add_place(error, f"the label at {list(path)}") from None
        return found

    def _seen(self) -> list[list[int]]:
        return [[index for index in path if isinstance(index, int)] for path in self.paths.leaves()]

    def _restore(self, seen: Any) -> None:
        for path in seen:
            self.paths.mark_leaf(self.paths.insert(_check_path(path)))


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
    for symbol in re.findall(r"[()]|[^\s()]+", text):
        if symbol == "(":
            if len(opened) > MAX_DEPTH:
                raise value_error(f"the tree is deeper than {MAX_DEPTH} levels")
            opened[-1].append([])
            opened.append(opened[-1][-1])
        elif symbol != ")":
            opened[-1].append(symbol)
        elif len(opened) == 1:
            break
        else:
            opened.pop()
    if len(opened) != 1 or len(root) != 1 or text.count("(") != text.count(")"):
        raise value_error(
            f"the brackets do not form one tree, got {text!r:.80}, expected a form like '(S (NP she) (VP "
            f"runs))'; give a label that contains brackets as a list, [label]"
        )
    return root[0]


def _guesses(matches: Mapping[NodePath, Match]) -> dict[NodePath, str]:
    return {path: match.guess for path, match in matches.items()}


def _nest(matches: Mapping[Path, Match]) -> Any:
    """Return nested lists of the labels at paths, parents before their children; a leaf is its label alone."""
    nodes: dict[Path, list[Any]] = {}
    for path, match in matches.items():
        nodes[path] = [match.guess]
        if path:
            nodes[path[:-1]].append(nodes[path])
    return _unwrap_leaves(nodes[()]) if nodes else MISSING


def _unwrap_leaves(node: list[Any]) -> Any:
    return [node[0], *map(_unwrap_leaves, node[1:])] if len(node) > 1 else node[0]


def _check_path(path: Any) -> NodePath:
    indices = (path,) if isinstance(path, int) else path
    if isinstance(indices, str) or not isinstance(indices, Sequence):
        raise type_error(f"path must be a list of child indices, such as [0, 1]; got {describe(path)}")
    if len(indices) > MAX_DEPTH:
        raise value_error(f"path has {len(indices)} indices, expected at most {MAX_DEPTH}")
    return tuple(check_integer("an index of path", index, least=0) for index in indices)
