"""What :class:`ghrr.structures.Record` is made of: bundles of bound leaves, and the matches of leaves at paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ghrr._checks import check_real
from ghrr.algebra import bind, bind_bundle, pairwise_similarity, similarity, unbind
from ghrr.memory.match import LEVEL, Match, answer_noise
from ghrr.space import Space
from ghrr.structures.batch import Batch
from ghrr.structures.book import runs, sparse_odds
from ghrr.structures.layout import Layout, Path, show
from ghrr.structures.leaf_book import LeafBook
from ghrr.structures.leaves import Scale
from ghrr.structures.reading import MISSING, Reading, build

_PAIR_NUMBERS = 1 << 24  # complex numbers in the pairs that exist at a time: 128 MiB in complex64
_MOST_PATHS = 1 << 12  # tried by decoding where known paths do not explain a record
_CACHE_NUMBERS = 1 << 16  # so many are bound at a time: they stay in cache


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
        few = max(1, _CACHE_NUMBERS // self.space.total_dim)

        def make_pairs(run: slice) -> Tensor:
            pairs = torch.empty((run.stop - run.start, *self.space.shape), dtype=self.space.dtype)
            for start in range(run.start, run.stop, few):
                part = slice(start, min(start + few, run.stop))
                keys, values = self.layout.vectors(batch.nodes[part]), self.leaves.vectors(named[part])
                pairs[part.start - run.start : part.stop - run.start] = bind(keys, values)
            return pairs

        sums = batch.bundle(make_pairs, max(1, _PAIR_NUMBERS // self.space.total_dim), like=self.space.empty())
        for node in batch.nodes:
            self.layout.is_leaf[node] = True
        return sums

    def _match(self, rows: Tensor, keys: Tensor, *, odds: float = 1.0) -> list[Match]:
        """The best match in every row under every key: ``(n, dim, m, m)``, ``(p, dim, m, m)`` to n · p matches."""
        energy = similarity(rows, rows)
        shares = self._shares(keys)
        found = []
        for run in runs(len(rows) * len(keys), self.space):
            pair = torch.arange(run.start, run.stop)
            row, key = pair // len(keys), pair % len(keys)
            answers = unbind(rows[row], keys[key], side="left")
            noise = answer_noise(self.space, energy[row])
            found += self.leaves.match(answers, noise=noise, level=self.level, odds=odds, share=shares[key])
        return found

    def _shares(self, keys: Tensor) -> Tensor:
        """What leaves at other known paths may add to a score at each key, ``(p,)``: their keys' similarities, summed.

        The same steps in another order are not independent: "a, a, b" and "b, a, a" have a similarity of one half for
        m = 2, whatever the dimension. A similarity of 1 is the path itself, or for m = 1 what cannot be told from it.
        """
        known = self.layout.leaf_vectors()
        shares = torch.zeros(len(keys), dtype=torch.float64)
        for run in runs(len(keys), self.space):
            overlap = pairwise_similarity(keys[run], known).double()
            related = (overlap > 6 * self.space.noise_std) & (overlap < 0.99)
            shares[run] = torch.where(related, overlap, 0.0).sum(dim=-1)
        return shares

    def _cancel(self, x: Tensor, paths: list[Path], *, odds: float = 1.0) -> tuple[dict[Path, Match], Tensor]:
        """Matches at paths, and what is left of x without those that are confident; found round by round."""
        keys = self.layout.path_vectors(paths)
        found: dict[int, Match] = {}
        waiting = list(range(len(paths)))
        while waiting:
            matches = dict(zip(waiting, self._match(x[None], keys[waiting], odds=odds), strict=True))
            found |= matches
            sure = [place for place in waiting if matches[place].confident]
            if not sure:
                break
            named = self.leaves.named([matches[place].guess for place in sure], lambda n: show(paths[n]))
            x = x - bind_bundle(keys[sure], self.leaves.vectors(named))
            waiting = [place for place in waiting if not matches[place].confident]
        return {path: found[place] for place, path in enumerate(paths)}, x

    def _explore(self, x: Tensor) -> Reading:
        """Read all that is certain at known paths and, if more than half a leaf is left over, at new ones."""
        reading = self._read(x, self.layout.leaves(), sparse=True)
        for paths in self.layout.new_paths(_MOST_PATHS):
            if reading.unexplained < 0.5:
                break
            more = self._read(reading.residual, paths, sparse=True)
            found = reading.matches | more.matches
            reading = Reading(build({path: found[path].guess for path in found}), found, x, more.residual)
        return reading

    def _read(self, x: Tensor, paths: list[Path], *, sparse: bool) -> Reading:
        """Read leaves; with ``sparse`` most of the paths may be empty, and only what is certain is kept."""
        odds = sparse_odds(len(paths), x) if sparse else 1.0
        found, residual = self._cancel(x, paths, odds=odds)
        if sparse:
            found = {path: match for path, match in found.items() if match.confident}
        value = build({path: MISSING if match.unknown else match.guess for path, match in found.items()})
        return Reading(value, found, x, residual)
