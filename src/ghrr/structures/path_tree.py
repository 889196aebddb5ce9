r"""Paths into nested data: a tree of all paths that were seen, and a hypervector for each.

The hypervector of a path is the product of its keys, :math:`B = K_1 * \dots * K_d`, and a value V under this path is
:math:`B * V`. With ``permute`` each level is shifted by one more slot: a dict with values :math:`R_k` is
:math:`\sum_k K_k * \rho(R_k)`, so a value under a path of d keys is

.. math:: K_1 * \rho(K_2) * \dots * \rho^{d-1}(K_d) * \rho^d(V) = \rho^d(B * V), \qquad
   B_{\text{child}} = \rho^{-1}(B_{\text{parent}} * K) .

Paths of the same keys in another order are then independent, even for m = 1. Only B is stored. Reading unbinds B from
:math:`\rho^{-d}(x)`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr._locks import Lock
from ghrr._similar import did_you_mean
from ghrr.algebra import bind, bind_bundle, shift, unbind
from ghrr.checks import value_error
from ghrr.documents import Key, Path, show_path
from ghrr.encoding.growing_table import GrowingTable
from ghrr.space import Space
from ghrr.structures.inputs import chunks
from ghrr.structures.permuted_paths import PermutedPaths
from ghrr.structures.vocabulary import Vocabulary

_MAX_NUMBERS = 1 << 24  # complex numbers in the path hypervectors that are kept: 128 MiB in complex64
_MAX_NEW_KEYS = 8  # length of the longest combination of known keys that is tried
_KEY = "key:"  # start of the name of the atom of a key


@dataclass(slots=True)
class _Node:
    parent: int
    key: Key
    depth: int
    children: dict[Key, int] = field(default_factory=dict)
    is_leaf: bool = False


class PathTree:
    """Tree of all paths that a structure has seen.

    Node 0 is the root, and a parent has a smaller number than its children. A key is a string (the key of a dict), an
    integer (an index of a list) or None (any element of a list that is encoded as a set). Their atoms differ: the key
    "0" is not the index 0. Path hypervectors are computed once and kept as long as they fit in 128 MiB.

    Several threads may use one tree.

    Parameters
    ----------
    space
        Space of the hypervectors.
    namespace
        Trees of different namespaces have different keys.
    permute
        Shift each level of nesting by one more slot.
    device
        Device of the hypervectors, the CPU by default.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures.path_tree import PathTree
    >>> paths = PathTree(ghrr.Space(dim=100, m=2))
    >>> paths.mark_leaf(paths.insert(("born", "city")))
    >>> paths.leaves(), paths.node(("died",))
    ([('born', 'city')], None)
    """

    def __init__(
        self,
        space: Space,
        namespace: str = "record key",
        *,
        permute: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        self.space, self.permute = space, permute
        self.keys = Vocabulary(space, namespace, device=device)
        self.device = self.keys.device
        self.permuted = PermutedPaths(space, self.vectors, independent=permute, device=self.device)
        self._lock = Lock()
        self._nodes = [_Node(0, "", 0)]
        self._table = GrowingTable(space, device=self.device)
        self._table.append(space.identity(1))

    def __len__(self) -> int:
        return len(self._nodes)

    # The tree

    def child(self, node: int, key: Key) -> int:
        """Return the child of a node; it is added if it is new."""
        children = self._nodes[node].children
        found = children.get(key)
        if found is not None:
            return found
        with self._lock:
            found = children.get(key)
            if found is None:
                depth = self._nodes[node].depth + 1
                self.check_depth(depth)
                found = len(self._nodes)
                self._nodes.append(_Node(node, key, depth))
                children[key] = found  # last, because this makes the node visible
        return found

    def check_depth(self, depth: int) -> None:
        """Raise if a path of so many keys would be shifted by all slots of the space."""
        if self.permute and depth > self.space.dim:
            raise value_error(
                f"a path of {depth} keys does not fit in a space of {self.space.dim} slots, "
                f"because each level is shifted by one slot; use a larger dim, or permute=False"
            )

    def insert(self, path: Path) -> int:
        """Return the node of a path; it is added if it is new."""
        node = 0
        for key in path:
            node = self.child(node, key)
        return node

    def node(self, path: Path) -> int | None:
        """Return the node of a path, or None if it is not in the tree."""
        node: int | None = 0
        for key in path:
            node = self._nodes[node].children.get(key) if node is not None else None
        return node

    def path(self, node: int) -> Path:
        """Return the path from the root to a node."""
        keys: list[Key] = []
        while node:
            keys.append(self._nodes[node].key)
            node = self._nodes[node].parent
        return tuple(reversed(keys))

    def note(self, path: Path) -> str:
        """Return a note on the first key of a path that is in no known path, or nothing."""
        for key in path:
            if isinstance(key, str) and _atom_name(key) not in self.keys:
                known = (name.removeprefix(_KEY) for name in self.keys.names if name.startswith(_KEY))
                parts = key.split(".")  # of a path that was written with dots
                if _atom_name(parts[0]) in self.keys:
                    unknown = next((part for part in parts if _atom_name(part) not in self.keys), key)
                else:
                    unknown = key
                return f"unknown name {unknown!r}{did_you_mean(unknown, known)}"
        return ""

    def mark_leaf(self, node: int) -> None:
        """Store that a value was encoded at a node, so that reading tries it."""
        if not self._nodes[node].is_leaf:
            with self._lock:
                self.permuted.add([self.path(node)])
                self._nodes[node].is_leaf = True

    def is_leaf(self, node: int) -> bool:
        """Return whether a value was encoded at a node."""
        return self._nodes[node].is_leaf

    def leaves(self, below: Path = ()) -> list[Path]:
        """Return the paths of all encoded values at a path and below it, in the order in which they were added."""
        start = self.node(below)
        stack = [] if start is None else [start]
        found = []
        while stack:
            node = stack.pop()
            if self._nodes[node].is_leaf:
                found.append(node)
            stack.extend(self._nodes[node].children.values())
        return [self.path(node) for node in sorted(found)]

    def unseen_paths(self, most: int) -> Iterator[list[Path]]:
        """Yield combinations of known keys at which no value was encoded: all of length 1, then 2, up to 8.

        Stops before a length with which there would be more than ``most`` combinations in all.
        """
        keys = list(dict.fromkeys(key for path in self.leaves() for key in path if key is not None))
        for length in range(1, _MAX_NEW_KEYS + 1 if keys else 1):
            most -= len(keys) ** length
            if most < 0:
                return
            paths = itertools.product(keys, repeat=length)
            yield [path for path in paths if (node := self.node(path)) is None or not self._nodes[node].is_leaf]

    def check_indices(self) -> None:
        """Raise if a list has indices with gaps: a large index in a file would give a huge list."""
        for number, node in enumerate(self._nodes):
            indices = [key for key in node.children if isinstance(key, int)]
            if indices and max(indices) >= len(indices):
                raise ValueError(f"the list at {show_path(self.path(number))} has indices that are not consecutive")

    # The hypervectors

    def vectors(self, paths: Sequence[Path]) -> Tensor:
        """Return B of each path, seen or not, without adding any: ``(len(paths), dim, m, m)``."""
        nodes = [self.node(path) for path in paths]
        unseen = [n for n, node in enumerate(nodes) if node is None]
        found = self.node_vectors([node or 0 for node in nodes])
        if unseen:
            found[unseen] = self._products([paths[n] for n in unseen])
        return found

    def node_vectors(self, nodes: Sequence[int]) -> Tensor:
        """Return B of each node, ``(len(nodes), dim, m, m)``."""
        if self._is_small():
            return self._all_vectors()[torch.tensor(nodes, dtype=torch.long)]
        return self._products([self.path(node) for node in nodes])

    def tables(self, nodes: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64] | None, Tensor]]:
        """Yield B of all of these nodes in tables that fit in memory.

        Yields
        ------
        row_of, vectors
            The row of every node of the tree in the table, -1 for nodes in other tables; None if node n is in row n.
        """
        if self._is_small():
            yield None, self._all_vectors()
            return
        used = np.flatnonzero(np.bincount(nodes, minlength=1))
        for chunk in chunks(len(used), self.space):
            row_of = np.full(len(self), -1)
            row_of[used[chunk]] = np.arange(len(used[chunk]))
            yield row_of, self.node_vectors(used[chunk].tolist())

    def shift_of(self, node: int) -> int:
        """Return by how many slots the value at a node is shifted: its depth with ``permute``, else 0."""
        return self._nodes[node].depth if self.permute else 0

    def bundle(self, paths: Sequence[Path], values: Tensor) -> Tensor:
        """Return the sum of values ``(len(paths), dim, m, m)`` bound to paths, ``(dim, m, m)``."""
        keys = self.vectors(paths)
        if not self.permute:
            return bind_bundle(keys, values)
        by_depth: dict[int, list[int]] = {}
        for n, path in enumerate(paths):
            by_depth.setdefault(len(path), []).append(n)
        total = self.space.zeros().to(self.device)
        for depth, members in by_depth.items():
            total = total + shift(bind_bundle(keys[members], values[members]), depth)
        return total

    def unbind(self, x: Tensor, keys: Tensor, paths: Sequence[Path]) -> Tensor:
        """Return the values at paths: unbind keys, usually B, from hypervectors.

        Shapes
        ------
        x: ``(dim, m, m)`` or ``(len(paths), dim, m, m)``, keys: ``(len(paths), dim, m, m)``; output as keys
        """
        if self.permute:
            x = _shift_each(x.expand_as(keys), [-len(path) for path in paths])
        return unbind(x, keys, side="left")

    def _is_small(self) -> bool:
        return len(self._nodes) * self.space.total_dim <= _MAX_NUMBERS

    def _extend_path(self, vectors: Tensor, keys: Tensor) -> Tensor:
        longer = bind(vectors, keys)
        return shift(longer, -1) if self.permute else longer

    def _all_vectors(self) -> Tensor:
        """Return B of all nodes; new ones are computed from their parents, one depth after the other."""
        if len(self._table) < len(self._nodes):
            with self._table.lock:
                by_depth: dict[int, list[int]] = {}
                count = len(self._nodes)
                for node in range(len(self._table), count):
                    by_depth.setdefault(self._nodes[node].depth, []).append(node)

                def fill(table: Tensor) -> None:
                    for _, nodes in sorted(by_depth.items()):
                        keys = self.keys.encode(_atom_name(self._nodes[node].key) for node in nodes)
                        parents = torch.tensor([self._nodes[node].parent for node in nodes])
                        table[torch.tensor(nodes)] = self._extend_path(table[parents], keys)

                self._table.extend(count, fill)
        return self._table.rows

    def _products(self, paths: Sequence[Path]) -> Tensor:
        """Return B of paths, computed from their keys."""
        names = [[_atom_name(key) for key in path] for path in paths]
        distinct = list(dict.fromkeys(itertools.chain.from_iterable(names)))
        keys = self.keys.vectors(distinct) if self._is_small() else self._cached_keys(distinct)
        row = {name: n for n, name in enumerate(distinct)}
        products = self.space.identity(len(paths)).to(self.device)
        for depth in range(max(map(len, paths), default=0)):
            longer = torch.tensor([n for n, path in enumerate(paths) if len(path) > depth])
            chosen = torch.tensor([row[names[n][depth]] for n in longer.tolist()])
            products[longer] = self._extend_path(products[longer], keys[chosen])
        return products

    def _cached_keys(self, names: list[str]) -> Tensor:
        """Return key hypervectors of a large space; they are kept while they fit, because lists share their keys."""
        if (len(self.keys) + len(names)) * self.space.total_dim <= _MAX_NUMBERS:
            return self.keys.encode(names)
        return self.keys.vectors(names)


def _shift_each(x: Tensor, steps: Sequence[int]) -> Tensor:
    """Shift every hypervector of a batch ``(n, dim, m, m)`` by its own number of slots."""
    different = set(steps)
    if len(different) == 1:
        return shift(x, different.pop())
    given = torch.tensor(steps, dtype=torch.long)
    out = torch.empty_like(x)
    for step in different:
        rows = given == step
        out[rows] = shift(x[rows], step)
    return out


def _atom_name(key: Key) -> str:
    """Return the name of a key's atom. Files depend on these names."""
    if key is None:
        return "element"
    # Joined, because formatting an enum would give the name of its member.
    return _KEY + key if isinstance(key, str) else f"place:{key}"
