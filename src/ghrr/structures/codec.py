"""What :class:`ghrr.structures.Record` is made of: bundles of bound leaves, and the matches of leaves at paths."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr import ops
from ghrr._checks import check_real
from ghrr.algebra import bind_bundle, similarity, unbind
from ghrr.memory.match import LEVEL, Match, answer_noise
from ghrr.memory.orders import Apart
from ghrr.space import Space
from ghrr.structures.batch import Batch
from ghrr.structures.layout import Layout, Path, show
from ghrr.structures.leaf_book import LeafBook
from ghrr.structures.leaves import Scale
from ghrr.structures.reading import MISSING, Reading, build
from ghrr.structures.vocabulary import chunks, sparse_odds

_MOST_PATHS = 1 << 12  # tried by decoding where known paths do not explain a record


class Codec:
    """Paths and leaves that are known, how they are written, and how they are read."""

    def __init__(self, space: Space, *, numbers: Scale | None = None, level: float = LEVEL) -> None:
        self.space = space
        self.level = check_real("Record", "level", level, low=0.5, high=1.0, open_ends=True)
        self.layout = Layout(space)
        self.leaves = LeafBook(space, numbers)

    def _bundle(self, documents: Sequence[Any], path: Path = ()) -> Tensor:
        """The bundles of the leaves of documents that stand at a path: ``(len(documents), dim, m, m)``."""
        batch = Batch(self.layout, documents, self.layout.insert(path))
        named = self.leaves.named(batch.values, batch.where)
        nodes, values, starts = batch.leaves()

        def bundled(places: NDArray[np.int64], table: Tensor) -> Tensor:
            at = places[values]
            here = at >= 0
            before = np.concatenate([[0], np.cumsum(here)])
            bags = map(torch.from_numpy, (nodes[here], at[here], before[starts]))
            return ops.bind_bags(self.layout.table(), table, *bags)

        sums = functools.reduce(Tensor.add_, itertools.starmap(bundled, self.leaves.tables(named)))
        for node in batch.nodes:
            self.layout.mark_leaf(node)
        return sums

    def _match(self, rows: Tensor, keys: Apart, *, odds: float = 1.0) -> list[Match]:
        """The best match in every row under every key, ``(n, dim, m, m)`` and p keys to n · p matches."""
        energy, count = similarity(rows, rows), len(keys.vectors)
        found = []
        for run in chunks(len(rows) * count, self.space):
            pair = torch.arange(run.start, run.stop)
            row, key = pair // count, pair % count
            answers = unbind(rows[row], keys.vectors[key], side="left")
            noise = keys[key].noise(answer_noise(self.space, energy[row]))
            found += self.leaves.match(answers, noise=noise, level=self.level, odds=odds)
        return found

    def _cancel(
        self, x: Tensor, paths: list[Path], *, odds: float = 1.0, taken: Iterable[Path] = ()
    ) -> tuple[dict[Path, Match], Tensor]:
        """Matches at paths, and what is left of x without those that are confident; found round by round.

        ``taken`` are paths whose leaves were taken out of x before.
        """
        found: dict[Path, Match] = {}
        gone, waiting = set(taken), paths
        while waiting:
            keys = self.layout.orders.apart(waiting, together=True, without=gone)
            matches = dict(zip(waiting, self._match(x[None], keys, odds=odds), strict=True))
            found |= matches
            sure = [path for path in waiting if matches[path].confident]
            if not sure:
                break
            where = list(map(show, sure))
            named = self.leaves.named([matches[path].guess for path in sure], where.__getitem__)
            x = x - bind_bundle(self.layout.path_vectors(sure), self.leaves.vectors(named))
            gone.update(sure)
            waiting = [path for path in waiting if not matches[path].confident]
        return {path: found[path] for path in paths}, x

    def _explore(self, x: Tensor) -> Reading:
        """Read all that is certain at known paths and, if more than half a leaf is left over, at new ones."""
        reading = self._read(x, self.layout.leaves(), sparse=True)
        for paths in self.layout.new_paths(_MOST_PATHS):
            if reading.unexplained < 0.5:
                break
            more = self._read(reading.residual, paths, sparse=True, taken=reading.matches)
            found = reading.matches | more.matches
            reading = Reading(build({path: found[path].guess for path in found}), found, x, more.residual)
        return reading

    def _read(self, x: Tensor, paths: list[Path], *, sparse: bool, taken: Iterable[Path] = ()) -> Reading:
        """Read leaves; with ``sparse`` most of the paths may be empty, and only what is certain is kept."""
        odds = sparse_odds(len(paths), x) if sparse else 1.0
        found, residual = self._cancel(x, paths, odds=odds, taken=taken)
        if sparse:
            found = {path: match for path, match in found.items() if match.confident}
        value = build({path: MISSING if match.unknown else match.guess for path, match in found.items()})
        return Reading(value, found, x, residual)

    def _read_below(self, x: Tensor, top: Path) -> Reading:
        """What is certain under a path, told by what comes after it; it is read by whole paths, which x is made of."""
        below = [leaf for leaf in self.layout.leaves(top) if leaf != top]
        whole = self._read(x, below, sparse=True)
        matches = {path[len(top) :]: match for path, match in whole.matches.items()}
        [key] = self.layout.path_vectors([top])
        vector, residual = unbind(torch.stack([x, whole.residual]), key, side="left")
        return Reading(build({path: match.guess for path, match in matches.items()}), matches, vector, residual)
