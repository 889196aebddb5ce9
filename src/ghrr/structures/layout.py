r"""Paths into nested data: a tree of all paths met, and the hypervector :math:`K_1 * K_2 * \dots * K_d` of each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from ghrr._checks import describe
from ghrr.algebra import bind, multibind, shift
from ghrr.space import Space
from ghrr.structures.orders import Orders
from ghrr.structures.vocabulary import Vocabulary

MOST_DEPTH = 100  # of nesting

Part = str | int
Path = tuple[Part, ...]


class Layout:
    r"""All paths that a codec has met, as a tree: node 0 is the root, a parent has a smaller number than its children.

    A part of a path is a string, the key of a dict, or a whole number, the place in a list. Their atoms are of
    different kinds: the key "0" is not the place 0.

    Parameters
    ----------
    space
        Where the keys live.
    namespace
        Layouts of different namespaces have different keys.
    permute
        Shift the key at depth d by d slots before binding, so that paths of the same keys in another order are
        independent: :math:`K_1 * \rho(K_2) * \dots * \rho^{d-1}(K_d)`.
    """

    def __init__(self, space: Space, namespace: str = "record key", *, permute: bool = False) -> None:
        self.space, self.permute = space, permute
        self.keys = Vocabulary(space, namespace)
        self.orders = Orders(space, self.path_vectors, independent=permute)
        self.children: list[dict[Part, int]] = [{}]
        self.is_leaf: list[bool] = [False]
        self._parents: list[int] = [0]
        self._parts: list[Part] = [""]
        self._room = space.identity(1)
        self._ready = 1

    def child(self, node: int, part: Any) -> int:
        """The node one step below, made if it is not there."""
        found = self.children[node].get(part)
        if found is None:
            found = len(self._parents)
            self.children[node][part] = found
            self.children.append({})
            self.is_leaf.append(False)
            self._parents.append(node)
            self._parts.append(part)
        return found

    def insert(self, path: Path) -> int:
        """The node of a path, made if it is not there."""
        at = 0
        for part in path:
            at = self.child(at, part)
        return at

    def node(self, path: Path) -> int | None:
        """The node of a path, or None if it was never met."""
        at: int | None = 0
        for part in path:
            at = self.children[at].get(part) if at is not None else None
        return at

    def path(self, node: int) -> Path:
        """The path from the root to a node."""
        parts: list[Part] = []
        while node:
            parts.append(self._parts[node])
            node = self._parents[node]
        return tuple(reversed(parts))

    def mark_leaf(self, node: int) -> None:
        """Remember that a leaf was met at a node: from now on there may be one in what is read."""
        if not self.is_leaf[node]:
            self.is_leaf[node] = True
            self.orders.add([self.path(node)])

    def leaves(self, below: Path = ()) -> list[Path]:
        """The paths at which a leaf was met, at this path and under it."""
        start = self.node(below)
        waiting = [] if start is None else [start]
        found = []
        while waiting:
            node = waiting.pop()
            if self.is_leaf[node]:
                found.append(node)
            waiting.extend(self.children[node].values())
        return [self.path(node) for node in sorted(found)]

    def new_paths(self, most: int) -> Iterator[list[Path]]:
        """Paths of known steps that were never met at a leaf: all of length 1, then of 2, and so on up to 8.

        No more than ``most`` paths are made in all; which steps are there cannot be told from a bundle but by trying.
        """
        steps = list(dict.fromkeys(self._parts[1:]))
        for length in range(1, 9 if steps else 1):
            most -= len(steps) ** length
            if most < 0:
                return
            paths = itertools.product(steps, repeat=length)
            yield [path for path in paths if (node := self.node(path)) is None or not self.is_leaf[node]]

    def check_places(self) -> None:
        """Raise unless every list has places without gaps, as real ones do: one far out would be a huge list."""
        for node, children in enumerate(self.children):
            places = [part for part in children if isinstance(part, int)]
            if places and max(places) >= len(places):
                raise ValueError(f"the list at {show(self.path(node))} has places that do not follow one another")

    def table(self) -> Tensor:
        """The hypervectors of all nodes, ``(n, dim, m, m)``; each is computed once, from that of its parent."""
        self._prepare()
        return self._room[: self._ready]

    def vectors(self, nodes: Sequence[int]) -> Tensor:
        """The hypervectors of nodes, ``(len(nodes), dim, m, m)``."""
        return self.table()[torch.tensor(nodes, dtype=torch.long)]

    def path_vectors(self, paths: Sequence[Path]) -> Tensor:
        """The hypervectors of paths, whether they were met or not; reading makes no path known."""
        nodes = [self.node(path) for path in paths]
        found = self.vectors([node or 0 for node in nodes])
        for place, (node, path) in enumerate(zip(nodes, paths, strict=True)):
            if node is None:
                keys = self.keys.lookup(map(_key_name, path))
                found[place] = multibind(shift_each(keys, range(len(path))) if self.permute else keys)
        return found

    def _prepare(self) -> None:
        """Compute the nodes that are new, a level of the tree at a time."""
        count = len(self._parents)
        if self._ready == count:
            return
        if count > len(self._room):
            room = self.space.empty(max(count, 2 * len(self._room)))
            room[: self._ready] = self._room[: self._ready]
            self._room = room
        new = range(self._ready, count)
        places = torch.tensor(self.keys.indices([_key_name(self._parts[node]) for node in new]))
        for level in self._levels(new):
            parents = torch.tensor([self._parents[node] for node in level])
            keys = self.keys.vectors[places[torch.tensor(level) - self._ready]]
            if self.permute:
                keys = shift_each(keys, [len(self.path(node)) - 1 for node in level])
            self._room[torch.tensor(level)] = bind(self._room[parents], keys)
        self._ready = count

    def _levels(self, new: range) -> list[list[int]]:
        """New nodes in groups: the parents of each group are in the groups before it."""
        group: dict[int, int] = {}
        levels: list[list[int]] = []
        for node in new:
            group[node] = group.get(self._parents[node], -1) + 1
            if group[node] == len(levels):
                levels.append([])
            levels[group[node]].append(node)
        return levels


def shift_each(x: Tensor, steps: Sequence[int]) -> Tensor:
    """Shift every hypervector of a batch by its own number of slots: ``(n, dim, m, m)`` and n steps."""
    if any(abs(step) >= x.shape[-3] for step in steps):
        raise ValueError(
            f"shift_each: a shift by {max(map(abs, steps))} slots repeats an earlier one in a space of {x.shape[-3]}; "
            f"use a larger dim, or permute=False"
        )
    given = torch.tensor(steps, dtype=torch.long)
    out = torch.empty_like(x)
    for step in sorted(set(steps)):
        rows = given == step
        out[rows] = shift(x[rows], step)
    return out


def _key_name(part: Part) -> str:
    # Joined, not formatted: an enum would show its name.
    return "key:" + part if isinstance(part, str) else f"place:{part}"


def check_path(operation: str, path: Any) -> Path:
    """Raise unless this is a path: strings for keys of dicts and whole numbers from 0 for places in lists."""
    if isinstance(path, str) or not isinstance(path, Sequence):
        raise TypeError(
            f"{operation}: a path is a list of keys and places, as in ['born', 'city']; got {describe(path)}"
        )
    for part in path:
        if not isinstance(part, str) and (not isinstance(part, int) or isinstance(part, bool) or part < 0):
            raise TypeError(
                f"{operation}: a step of a path is a string or, in a list, a whole number from 0; got {describe(part)}"
            )
    if len(path) > MOST_DEPTH:
        raise ValueError(f"{operation}: a path of {len(path)} steps; data is nested at most {MOST_DEPTH} levels deep")
    return tuple(path)


def show(path: Path) -> str:
    """A path as people write it: born.city, tags[0]; the root is $."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "$"


def check_key(layout: Layout, node: int, key: Any) -> None:
    """Raise unless a key of a dict at a node is a string."""
    if not isinstance(key, str):
        raise TypeError(
            f"Record: {show(layout.path(node))}: the key {describe(key)} is not a string; JSON has no other keys"
        )


def refuse_depth(document: Any, path: Path) -> NoReturn:
    """Raise for data that goes on at a path of ``MOST_DEPTH`` steps: because it contains itself, or is too deep."""
    seen: dict[int, Path] = {}
    at = document
    for step in range(len(path) + 1):
        if id(at) in seen:
            raise ValueError(f"Record: {show(path[:step])}: the data is cyclic: this is {show(seen[id(at)])} again")
        seen[id(at)] = path[:step]
        at = at[path[step]] if step < len(path) else None
    raise ValueError(f"Record: {show(path[:3])}...: nested deeper than {MOST_DEPTH} levels")
