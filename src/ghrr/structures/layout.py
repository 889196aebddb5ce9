r"""Paths into nested data: a tree of all paths seen, and the hypervector :math:`K_1 * K_2 * \dots * K_d` of each.

With ``permute`` key j is shifted by j - 1 slots, :math:`K_1 * \rho(K_2) * \dots * \rho^{d-1}(K_d)`, so that paths of
the same keys in another order are independent even for m = 1.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr._checks import describe
from ghrr._locks import Lock
from ghrr.algebra import bind, shift
from ghrr.space import Space
from ghrr.structures.orders import Orders
from ghrr.structures.vocabulary import Vocabulary, chunks

MOST_DEPTH = 100  # of nesting
_MOST_NUMBERS = 1 << 24  # complex numbers in the vectors of all paths that are kept: 128 MiB in complex64

Part = str | int | None
Path = tuple[Part, ...]


@dataclass(slots=True)
class _Node:
    parent: int
    part: Part
    depth: int
    children: dict[Part, int] = field(default_factory=dict)
    is_leaf: bool = False


@dataclass(frozen=True)
class PathTable:
    """Path vectors of some nodes of one depth, or of any depth where paths are not shifted.

    Parameters
    ----------
    row_of
        For every node its row in ``vectors``, or -1; None if node n is in row n.
    vectors
        ``(rows, dim, m, m)``.
    depth
        By how many slots a value under these paths is shifted.
    """

    row_of: NDArray[np.int64] | None
    vectors: Tensor
    depth: int


class Layout:
    """Tree of all paths that a structure has seen: node 0 is the root, a parent has a smaller number than its children.

    A part of a path is a string, the key of a dict; a whole number, the index in a list; or None, any element of a list
    that is encoded as a set. Their atoms are of different kinds: the key "0" is not the index 0.

    Several threads may use one layout. Path vectors are computed once and kept, as long as they fit in 128 MiB.

    Parameters
    ----------
    space
        Space of the hypervectors.
    namespace
        Layouts of different namespaces have different keys.
    permute
        Shift the key at depth j by j slots before binding.
    """

    def __init__(self, space: Space, namespace: str = "record key", *, permute: bool = False) -> None:
        self.space, self.permute = space, permute
        self.keys = Vocabulary(space, namespace)
        self.orders = Orders(space, self.path_vectors, independent=permute)
        self._lock = Lock()
        self._nodes = [_Node(0, "", 0)]
        self._rows: tuple[int, Tensor] = 1, space.identity(1)  # how many path vectors are ready, and where

    def __len__(self) -> int:
        return len(self._nodes)

    # The tree

    def child(self, node: int, part: Part) -> int:
        """Return the node one step below; it is added if it is new."""
        children = self._nodes[node].children
        found = children.get(part)
        if found is not None:
            return found
        with self._lock:
            found = children.get(part)
            if found is None:
                depth = self._nodes[node].depth
                if self.permute and depth >= self.space.dim:
                    raise ValueError(
                        f"{self.keys.namespace}: a path of {depth + 1} keys does not fit in a space of "
                        f"{self.space.dim} slots, since key j is shifted by j slots; use a larger dim, or permute=False"
                    )
                found = len(self._nodes)
                self._nodes.append(_Node(node, part, depth + 1))
                children[part] = found  # last: from here on it is seen
        return found

    def insert(self, path: Path) -> int:
        """Return the node of a path; it is added if it is new."""
        at = 0
        for part in path:
            at = self.child(at, part)
        return at

    def node(self, path: Path) -> int | None:
        """Return the node of a path, or None if it is not in the tree."""
        at: int | None = 0
        for part in path:
            at = self._nodes[at].children.get(part) if at is not None else None
        return at

    def path(self, node: int) -> Path:
        """Return the path from the root to a node."""
        parts: list[Part] = []
        while node:
            parts.append(self._nodes[node].part)
            node = self._nodes[node].parent
        return tuple(reversed(parts))

    def depth(self, node: int) -> int:
        """Return the number of parts in the path of a node."""
        return self._nodes[node].depth

    def mark_leaf(self, node: int) -> None:
        """Remember that there was a leaf at a node: from now on there may be one in what is read."""
        if not self._nodes[node].is_leaf:
            with self._lock:
                self.orders.add([self.path(node)])
                self._nodes[node].is_leaf = True

    def is_leaf(self, node: int) -> bool:
        """Return whether there was a leaf at a node."""
        return self._nodes[node].is_leaf

    def leaves(self, below: Path = ()) -> list[Path]:
        """Return the paths at which there was a leaf, at this path and under it."""
        start = self.node(below)
        waiting = [] if start is None else [start]
        found = []
        while waiting:
            node = waiting.pop()
            if self._nodes[node].is_leaf:
                found.append(node)
            waiting.extend(self._nodes[node].children.values())
        return [self.path(node) for node in sorted(found)]

    def new_paths(self, most: int) -> Iterator[list[Path]]:
        """Yield combinations of known parts at which there was no leaf yet: all of length 1, then of 2, up to 8.

        No more than ``most`` paths are made in all; the parts of a path cannot be read from a bundle but by trying.
        """
        parts = list(dict.fromkeys(part for path in self.leaves() for part in path if part is not None))
        for length in range(1, 9 if parts else 1):
            most -= len(parts) ** length
            if most < 0:
                return
            paths = itertools.product(parts, repeat=length)
            yield [path for path in paths if (node := self.node(path)) is None or not self._nodes[node].is_leaf]

    def check_indices(self) -> None:
        """Raise unless every list has indices without gaps, as real ones do: one far out would be a huge list."""
        for number, node in enumerate(self._nodes):
            indices = [part for part in node.children if isinstance(part, int)]
            if indices and max(indices) >= len(indices):
                raise ValueError(f"the list at {show(self.path(number))} has indices that do not follow one another")

    # The vectors

    def vectors(self, nodes: Sequence[int]) -> Tensor:
        """Return the path vectors of nodes, ``(len(nodes), dim, m, m)``."""
        if self._fits():
            return self._table()[torch.tensor(nodes, dtype=torch.long)]
        return self._products([self.path(node) for node in nodes])

    def path_vectors(self, paths: Sequence[Path]) -> Tensor:
        """Return the vectors of paths, seen or not; nothing is added."""
        nodes = [self.node(path) for path in paths]
        new = [place for place, node in enumerate(nodes) if node is None]
        found = self.vectors([node or 0 for node in nodes])
        if new:
            found[new] = self._products([paths[place] for place in new])
        return found

    def tables(self, nodes: NDArray[np.int64]) -> Iterator[PathTable]:
        r"""Yield the path vectors of all of these nodes, in tables that fit in memory, for :func:`ghrr.ops.bind_bags`.

        With ``permute`` a value V under a path P of depth d is bound as :math:`P * \rho^d(V) = \rho^d(\rho^{-d}(P) *
        V)`: the tables hold :math:`\rho^{-d}(P)`, and sums are shifted by d.
        """
        if self._fits() and not self.permute:
            yield PathTable(None, self._table(), 0)
            return
        used = np.flatnonzero(np.bincount(nodes, minlength=1))
        depths = np.array([self.depth(node) if self.permute else 0 for node in used.tolist()], dtype=np.int64)
        for depth in np.unique(depths).tolist():
            group = used[depths == depth]
            for run in chunks(len(group), self.space):
                row_of = np.full(len(self), -1)
                row_of[group[run]] = np.arange(len(group[run]))
                yield PathTable(row_of, self._shifted(self.vectors(group[run].tolist()), -depth), depth)

    def _fits(self) -> bool:
        return len(self._nodes) * self.space.total_dim <= _MOST_NUMBERS

    def _shifted(self, x: Tensor, steps: int) -> Tensor:
        return shift(x, steps) if self.permute and steps else x

    def _table(self) -> Tensor:
        """The vectors of all nodes; each is computed once, from that of its parent, all nodes of a depth together."""
        ready, room = self._rows
        if ready < len(self._nodes):
            with self._lock:
                ready, room = self._rows
                count = len(self._nodes)
                if count > len(room):
                    larger = self.space.zeros(max(count, 2 * len(room)))
                    larger[:ready] = room[:ready]
                    room = larger
                by_depth: dict[int, list[int]] = {}
                for node in range(ready, count):
                    by_depth.setdefault(self._nodes[node].depth, []).append(node)
                for depth, nodes in sorted(by_depth.items()):
                    keys = self.keys.encode(_key_name(self._nodes[node].part) for node in nodes)
                    parents = torch.tensor([self._nodes[node].parent for node in nodes])
                    room[torch.tensor(nodes)] = bind(room[parents], self._shifted(keys, depth - 1))
                ready = count
                self._rows = ready, room
        return room[:ready]

    def _products(self, paths: Sequence[Path]) -> Tensor:
        """The vectors of paths, from their keys."""
        names = [[_key_name(part) for part in path] for path in paths]
        distinct = list(dict.fromkeys(itertools.chain.from_iterable(names)))
        keys = self.keys.lookup(distinct) if self._fits() else self._some_keys(distinct)
        row = {name: at for at, name in enumerate(distinct)}
        products = self.space.identity(len(paths))
        for depth in range(max(map(len, paths), default=0)):
            longer = torch.tensor([at for at, path in enumerate(paths) if len(path) > depth])
            chosen = torch.tensor([row[names[at][depth]] for at in longer.tolist()])
            products[longer] = bind(products[longer], self._shifted(keys[chosen], depth))
        return products

    def _some_keys(self, names: list[str]) -> Tensor:
        """Key vectors in a large space: kept as far as they fit in memory, since lists share their keys."""
        if (len(self.keys) + len(names)) * self.space.total_dim <= _MOST_NUMBERS:
            return self.keys.encode(names)
        return self.keys.lookup(names)


def shift_each(x: Tensor, steps: Sequence[int]) -> Tensor:
    """Shift every hypervector of a batch by its own number of slots: ``(n, dim, m, m)`` and n steps."""
    given = torch.tensor(steps, dtype=torch.long)
    out = torch.empty_like(x)
    for step in set(steps):
        rows = given == step
        out[rows] = shift(x[rows], step)
    return out


def _key_name(part: Part) -> str:
    if part is None:
        return "element"
    # Joined, not formatted: an enum would show its name.
    return "key:" + part if isinstance(part, str) else f"place:{part}"


def check_path(operation: str, path: Any) -> Path:
    """Return a path as a tuple; raise unless its parts are strings, keys of dicts, or whole numbers, list indices."""
    if isinstance(path, str) or not isinstance(path, Sequence):
        raise TypeError(
            f"{operation}: a path is a list of keys and indices, as in ['born', 'city']; got {describe(path)}"
        )
    for part in path:
        if not isinstance(part, str) and (not isinstance(part, int) or isinstance(part, bool) or part < 0):
            raise TypeError(
                f"{operation}: a part of a path is a string or, in a list, a whole number from 0; got {describe(part)}"
            )
    if len(path) > MOST_DEPTH:
        raise ValueError(f"{operation}: a path of {len(path)} parts; data is nested at most {MOST_DEPTH} levels deep")
    return tuple(path)


def show(path: Path) -> str:
    """Return a path as people write it: born.city, tags[0], tags[*] for any element of a set; the root is $."""
    text = "".join(f".{part}" if isinstance(part, str) else "[*]" if part is None else f"[{part}]" for part in path)
    return text.removeprefix(".") or "$"
