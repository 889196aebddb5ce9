r"""Permuted paths: products of the same factors in another order, and how to read one without the others.

A path is a tuple of factors, such as the keys of a record path, the elements of an n-gram, or an edge. Its hypervector
is the ordered product of its factors. Without shifts, the product of a permuted path has a similarity of about
:math:`1/m^2`, so it contributes to the score. :class:`PermutedPaths` stores the paths that were encoded, grouped by
their factors, and removes these contributions (:mod:`ghrr.memory.decorrelation`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ghrr._locks import Lock
from ghrr.algebra import similarity
from ghrr.memory.decorrelation import DecorrelatedKeys, Decorrelation, decorrelate, gram_matrix, weighted_sums
from ghrr.memory.match import Match, make_matches
from ghrr.space import Space
from ghrr.structures.inputs import chunks

_MAX_DECORRELATED = 720  # paths decorrelated together: all permutations of six factors
_CACHED_NUMBERS = 1 << 24  # complex numbers in all cached groups: 128 MiB in complex64
_SAMPLE = 64  # number of paths that represent those beyond _MAX_DECORRELATED

Path = tuple[Any, ...]
FactorKey = tuple[int, ...]  # equal for paths of the same factors


@dataclass
class _Group:
    """Seen paths with the same factors, with their hypervectors and Gram matrix, up to a limit."""

    row_of: dict[Path, int]
    vectors: Tensor
    gram: Tensor
    excluded: int = 0  # number of seen paths that are not in the group
    sample: Tensor | None = None  # hypervectors of some excluded paths
    sample_gram: Tensor | None = None  # their similarities with the paths of the group
    decorrelation: Decorrelation | None = None

    def extended(self, paths: Sequence[Path], vectors: Tensor) -> _Group:
        """Return the group with more paths; known similarities are not computed again."""
        cross, new_gram = gram_matrix(self.vectors, vectors), gram_matrix(vectors, vectors)
        gram = torch.cat([torch.cat([self.gram, cross], dim=1), torch.cat([cross.mT, new_gram], dim=1)])
        row_of = self.row_of | {path: len(self.row_of) + n for n, path in enumerate(paths)}
        sample_gram = None
        if self.sample_gram is not None and self.sample is not None:
            sample_gram = torch.cat([self.sample_gram, gram_matrix(vectors, self.sample)])
        return _Group(row_of, torch.cat([self.vectors, vectors]), gram, self.excluded, self.sample, sample_gram)

    def without(self, removed: Collection[Path]) -> _Group:
        """Return the group without some paths."""
        kept = [path for path in self.row_of if path not in removed]
        rows = torch.tensor([self.row_of[path] for path in kept], dtype=torch.long)
        sample_gram = None if self.sample_gram is None else self.sample_gram[rows]
        row_of = {path: n for n, path in enumerate(kept)}
        return _Group(row_of, self.vectors[rows], self.gram[rows][:, rows], self.excluded, self.sample, sample_gram)

    def decorrelated(self, noise: float) -> Decorrelation:
        if self.decorrelation is None:
            self.decorrelation = decorrelate(self.gram, noise=noise)
        return self.decorrelation


@dataclass
class _Query:
    """Queried paths of one group: their indices among all queried paths, and their rows in the group."""

    group: _Group
    decorrelation: Decorrelation
    indices: list[int]
    rows: list[int]

    @property
    def sample_bias(self) -> Tensor:
        """Contribution of the excluded paths to each queried path, if each of them is present once, ``(n,)``."""
        if self.group.sample_gram is None:
            return self.group.gram.new_zeros(len(self.rows))
        similarities = self.decorrelation.coefficients[self.rows] @ self.group.sample_gram
        return self.group.excluded * similarities.abs().mean(dim=1)


class PermutedPaths:
    """Encoded paths, grouped by their factors, for reading one path without its permutations.

    Parameters
    ----------
    space
        Space of the hypervectors.
    vectors
        Function that returns the hypervectors of paths, seen or not: ``(n, dim, m, m)``.
    independent
        Whether permuted paths are independent because their factors are shifted. Then no path is stored, and each is
        read with its own hypervector.
    device
        Device of the hypervectors, the CPU by default.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures.permuted_paths import PermutedPaths
    >>> space = ghrr.Space(dim=400, m=2)
    >>> def vectors(paths):
    ...     return ghrr.bind(*(space.vectors(factors) for factors in zip(*paths, strict=True)))
    >>> pairs = PermutedPaths(space, vectors)
    >>> pairs.add([("a", "b"), ("c", "d")])
    >>> [f"{gain:.2f}" for gain in pairs.decorrelated_keys([("b", "a"), ("d", "a")]).variance_gain]
    ['1.06', '1.00']
    """

    def __init__(
        self,
        space: Space,
        vectors: Callable[[Sequence[Path]], Tensor],
        *,
        independent: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        self.space, self.vectors, self.independent, self.device = space, vectors, independent, device
        self._seen: dict[FactorKey, dict[Path, None]] = {}
        self._cache: dict[FactorKey, _Group] = {}
        self._cached_paths = 0
        self._lock = Lock()  # reading fills the cache, possibly from several threads
        self._most = max(2, min(_MAX_DECORRELATED, _CACHED_NUMBERS // space.total_dim))

    def add(self, paths: Iterable[Path]) -> None:
        """Store paths that were encoded and can therefore contribute to scores."""
        if self.independent:
            return
        with self._lock:
            for path in paths:
                self._seen.setdefault(_factor_key(path), {})[path] = None

    @property
    def seen(self) -> list[Path]:
        """All stored paths."""
        with self._lock:
            return [path for paths in self._seen.values() for path in paths]

    def decorrelated_keys(
        self, paths: Sequence[Path], *, all_present: bool = False, removed: Collection[Path] = ()
    ) -> DecorrelatedKeys:
        """Return keys for reading paths without the contributions of seen paths with the same factors.

        Parameters
        ----------
        paths
            The paths to read, seen or not.
        all_present
            Whether all of them can be in the bundle at once, including those that were never seen.
        removed
            Seen paths that are no longer in the bundle because they were subtracted.
        """
        vectors = self.vectors(paths)
        variance_gain = torch.ones(len(paths), dtype=torch.float64, device=vectors.device)
        leakage = torch.zeros_like(variance_gain)
        with self._lock:
            for query in self._queries(paths, all_present, removed):
                solution = query.decorrelation
                vectors[query.indices] = weighted_sums(solution.coefficients[query.rows], query.group.vectors)
                variance_gain[query.indices] = solution.variance_gain[query.rows]
                leakage[query.indices] = solution.leakage[query.rows] + query.sample_bias.square()
        leakage[self._ambiguous(paths)] += 1
        return DecorrelatedKeys(vectors, variance_gain, leakage)

    def counts(self, x: Tensor, paths: Sequence[Path], noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Estimate how often each path is in a bundle.

        Parameters
        ----------
        x
            The bundle, ``(dim, m, m)``.
        paths
            The paths to count, seen or not.
        noise
            Standard deviation of plain scores, ``()`` or ``(len(paths),)``.

        Returns
        -------
        counts, deviations, biases
            The estimates, their standard deviations, and the part of the deviation that comes from linearly dependent
            paths, each ``(len(paths),)``.
        """
        scores = torch.full((len(paths),), torch.nan, dtype=torch.float64, device=x.device)
        variance_gain, bias = torch.ones_like(scores), torch.zeros_like(scores)
        with self._lock:
            for query in self._queries(paths, all_present=False, removed=()):
                solution = query.decorrelation
                counts = solution.coefficients @ similarity(x, query.group.vectors).double()
                scores[query.indices] = counts[query.rows]
                variance_gain[query.indices] = solution.variance_gain[query.rows]
                largest = float(counts.abs().max().clamp(min=1))
                bias[query.indices] = solution.bias(counts)[query.rows] + query.sample_bias * largest
        bias[self._ambiguous(paths)] += 1
        plain = scores.isnan().nonzero()[:, 0].tolist()
        for chunk in chunks(len(plain), self.space):
            scores[plain[chunk]] = similarity(x, self.vectors([paths[n] for n in plain[chunk]])).double()
        return scores, torch.sqrt(variance_gain * noise.double().square() + bias.square()), bias

    def rejudge(self, x: Tensor, paths: Sequence[Path], matches: Sequence[Match], *, odds: float) -> list[Match]:
        """Return matches that were found by plain scores, with the contribution of permuted paths removed.

        Parameters
        ----------
        x
            The bundle, ``(dim, m, m)``.
        paths
            The whole path that each match completes.
        matches
            The matches. A runner-up keeps its plain score, which is an upper bound.
        odds
            Prior odds that the matches were made with (:func:`ghrr.memory.match.judge`).
        """
        results = list(matches)
        permuted = [n for n, path in enumerate(paths) if self._seen.get(_factor_key(path), {}).keys() - {path}]
        affected = sorted({*permuted, *self._ambiguous(paths)})
        if affected:
            noise = torch.tensor([results[n].noise for n in affected], dtype=torch.float64, device=x.device)
            best, deviations, _ = self.counts(x, [paths[n] for n in affected], noise)
            second = best.new_tensor([results[n].score - results[n].margin for n in affected])
            again = make_matches(
                [[results[n].guess, results[n].runner_up] for n in affected],
                torch.stack([best, torch.minimum(best, second)], dim=1),
                candidates=results[affected[0]].candidates,
                noise=deviations,
                confidence=results[affected[0]].required_confidence,
                odds=odds,
            )
            for n, match in zip(affected, again, strict=True):
                results[n] = match
        return results

    def rejudge_members(
        self, x: Tensor, found: Sequence[Sequence[Match]], path: Callable[[int, Any], Path], *, odds: float
    ) -> list[list[Match]]:
        """Apply :meth:`rejudge` to results of :meth:`Vocabulary.members`; drop unknown ones and sort, best first.

        ``path(n, name)`` is the path that a name completes in answer n.
        """
        paths = [path(row, match.guess) for row, matches in enumerate(found) for match in matches]
        results = iter(self.rejudge(x, paths, [match for matches in found for match in matches], odds=odds))
        rows = [[next(results) for _ in matches] for matches in found]
        return [sorted((match for match in row if not match.unknown), key=lambda match: -match.score) for row in rows]

    def _ambiguous(self, paths: Sequence[Path]) -> list[int]:
        """Return the indices of unseen paths that equal their permutations: for m = 1 without shifts."""
        if self.independent or self.space.m > 1:
            return []
        return [
            n
            for n, path in enumerate(paths)
            if len(set(path)) > 1 and path not in self._seen.get(_factor_key(path), {})
        ]

    def _queries(self, paths: Sequence[Path], all_present: bool, removed: Collection[Path]) -> Iterator[_Query]:
        """Yield the queried paths group by group, for groups of more than one path."""
        if self.independent:
            return
        by_factors: dict[FactorKey, list[int]] = {}
        for n, path in enumerate(paths):
            by_factors.setdefault(_factor_key(path), []).append(n)
        absent = set(removed)
        for factors, indices in by_factors.items():
            seen = self._seen.get(factors, {})
            if not (seen or all_present) or len(seen.keys() | {paths[n] for n in indices}) < 2:
                continue
            group = self._group(factors)
            if not absent.isdisjoint(group.row_of):
                group = group.without(absent)
            if all_present:
                new = dict.fromkeys(paths[n] for n in indices if paths[n] not in group.row_of)
                group = self._extended(group, list(new)[: max(0, self._most - len(group.row_of))])
            known = [n for n in indices if paths[n] in group.row_of]
            for together in [known, *([n] for n in indices if paths[n] not in group.row_of)]:
                extended = self._extended(group, [paths[n] for n in together if paths[n] not in group.row_of])
                if together and len(extended.row_of) > 1:
                    rows = [extended.row_of[paths[n]] for n in together]
                    yield _Query(extended, extended.decorrelated(self.space.noise_std), together, rows)

    def _group(self, factors: FactorKey) -> _Group:
        """Return the group of seen paths with these factors, from a cache of the groups that were used last."""
        seen = self._seen.get(factors, {})
        group = self._cache.pop(factors, None)
        if group is None:
            empty = torch.zeros(0, 0, dtype=torch.float64, device=self.device)
            group = _Group({}, self.space.zeros(0).to(empty.device), empty)
        self._cached_paths -= len(group.row_of)
        if len(group.row_of) + group.excluded < len(seen):
            paths = list(seen)
            group = self._extended(group, paths[len(group.row_of) : self._most])
            excluded = paths[self._most :]
            if excluded:
                group.excluded = len(excluded)
                group.sample = self._products([excluded[n * len(excluded) // _SAMPLE] for n in range(_SAMPLE)])
                group.sample_gram = gram_matrix(group.vectors, group.sample)
        if seen:
            self._cache[factors] = group
            self._cached_paths += len(group.row_of)
        while self._cached_paths * self.space.total_dim > _CACHED_NUMBERS and len(self._cache) > 1:
            self._cached_paths -= len(self._cache.pop(next(iter(self._cache))).row_of)
        return group

    def _extended(self, group: _Group, paths: Sequence[Path]) -> _Group:
        return group.extended(paths, self._products(paths)) if paths else group

    def _products(self, paths: Sequence[Path]) -> Tensor:
        """Return the hypervectors of paths, computed in chunks that fit in memory with their factors."""
        parts = chunks(len(paths), self.space, each=1 + len(paths[0]))
        return torch.cat([self.vectors(paths[part]) for part in parts])


def _factor_key(path: Path) -> FactorKey:
    # Hashes take little memory. A collision only adds a path that is not similar.
    return tuple(sorted(map(hash, path)))
