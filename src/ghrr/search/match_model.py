r"""Probability that two records describe the same thing, from the agreement of their fields.

This is the model of Fellegi and Sunter (1969) with a third class of pairs. For a pair of records with the levels of
agreement :math:`l_f`,

.. math:: \frac{p}{1 - p} = \frac{\lambda \prod_f m_f(l_f)^{w_f}}
    {\rho \prod_f r_f(l_f)^{w_f} + (1 - \lambda - \rho) \prod_f u_f(l_f)^{w_f}} ,

where :math:`m_f` is how often two records of the same thing have that level, :math:`u_f` how often records of two
different things have it, and λ the share of all pairs that are of the same thing. A field that one of the two lacks
does not count.

**Related pairs** are of two things of one group, such as people of one household, or countries of one region: they
agree in many fields at once, with the frequencies :math:`r_f`, and are a share ρ of all pairs. Without them, groups are
the best explanation of the agreement, and every group would be one thing. They count only as long as they have another
value in some field that pairs of the same thing share.

**Weights** :math:`w_f = 1 / \sum_g \max(0, \kappa_{fg})` count fields that repeat each other once, such as a name
in fifty languages, where κ is the correlation of the evidence of two fields over pairs of different things.

:math:`u_f` is counted on random pairs, or known from the value; for values that only two records have, from the share
of such values that different records have. :math:`m_f`, :math:`r_f`, λ and ρ are found by expectation maximisation,
without labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ghrr.search.evidence import LEVELS, MISSING, Agreement, FieldValues, logistic

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_FIRST_M = np.array([0.75, 0.12, 0.04, 0.03, 0.06])  # of records with a few typing errors
_FIRST_U = np.array([0.005, 0.002, 0.005, 0.02, 0.968])  # of text
_FIRST_U_NUMBERS = np.array([0.01, 0.01, 0.04, 0.15, 0.79])
_FIRST_COUNT = 10.0  # pairs of the same thing that the first guess counts for
_FIRST_CHANCE = 10.0, 250.0, 0.1  # the same for different records: at least, at most, and share of all pairs
_OWN_COUNT = 0.5  # chance agreements that are assumed before any is seen
_FIRST_MATCHES = 0.01, 0.5  # pairs of the same thing: per record, and in small tables
_LEAST_MATCHES = 0.001, 0.05
_FIRST_RELATED = 0.05  # share of the near pairs
_LEAST_RELATED = 0.01  # pairs
_RELATED_COUNT = 10.0  # pairs that agree by chance, by which the frequencies of related pairs are smoothed
_AGREES, _RARELY_EQUAL = 0.5, 0.1  # share of equal values in a field that identifies a thing, and between things
_ITERATIONS = 10
_INDEPENDENT = 0.2  # correlation of ordinary fields, such as a city and its zip code
_STANDARD_ERRORS = 2.0  # of a correlation, by which it has to be larger
_RANDOM_ROWS, _RANDOM_PAIRS, _CORRELATED_PAIRS = 2_000, 200_000, 20_000


def random_pairs(count: int) -> Integers:
    """Return pairs of different rows for the statistics of chance: all pairs of a sample, or some of them.

    Shapes
    ------
    output: ``(pairs, 2)``
    """
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(count)[:_RANDOM_ROWS])
    first, second = np.triu_indices(len(rows), k=1)
    chosen = rng.permutation(len(first))[:_RANDOM_PAIRS]
    pairs: Integers = np.stack([rows[first[chosen]], rows[second[chosen]]], axis=1)
    return pairs


@dataclass(frozen=True)
class _Classes:
    """Frequencies of the levels in pairs of the same thing and in related pairs, and the shares of both."""

    m: Floats
    related: Floats
    share: float
    related_share: float


def match_log_odds(found: Agreement, chance: Agreement, values: Sequence[FieldValues], count: int) -> Floats:
    """Return ln(p / (1 - p)) of each pair, where p is the probability that both records are of the same thing.

    Parameters
    ----------
    found
        Agreement of the pairs, which should include all pairs of the same thing.
    chance
        Agreement of random pairs.
    values
        Values of each field.
    count
        Number of records.
    """
    every = count * (count - 1) / 2
    share, least = (min(0.5, max(own[0] * count, own[1]) / every) for own in (_FIRST_MATCHES, _LEAST_MATCHES))
    is_in_chance = float(len(chance.levels) == every)
    is_different, is_match = np.ones(len(chance.levels)), np.zeros(len(found.levels))
    classes = None
    for last in (False,) * (_ITERATIONS - 1) + (True,):
        u = _Chance(chance, is_different, values)
        own = _own_by_chance(found, values, is_match)
        by_chance = u.without(is_different, chance)
        chances = u.without((1 - is_match) * is_in_chance, found)
        if classes is None:
            classes = _first_classes(found, u, share, _FIRST_RELATED * len(found.levels) / every)
        weights = _field_weights(chance, by_chance, own, is_different)
        log_odds, is_related = _log_odds(found, classes, weights, chances, own)
        if last:
            break
        is_match = logistic(log_odds)
        of_chance, _ = _log_odds(chance, classes, weights, by_chance, own)
        m = _normalised(_frequencies(found, is_match) + _FIRST_COUNT * _FIRST_M)
        related = _normalised(_frequencies(found, is_related) + _RELATED_COUNT * u.frequencies)
        pairs_related = float(is_related.sum())
        if not _are_different(related, m, u.frequencies):
            related, pairs_related = u.frequencies, 0.0
        share = min(0.5, max(float(is_match.sum()) / every, least))
        classes = _Classes(m, related, share, min(0.49, max(pairs_related, _LEAST_RELATED) / every))
        is_different = 1 - logistic(of_chance)
    return log_odds


def _first_classes(found: Agreement, u: _Chance, share: float, related_share: float) -> _Classes:
    """Return the first guess: a few errors in pairs of the same thing, and related pairs that agree as near ones."""
    frequencies = _frequencies(found, np.ones(len(found.levels)))
    m = np.tile(_FIRST_M, (len(frequencies), 1))
    return _Classes(m, _normalised(frequencies + _RELATED_COUNT * u.frequencies), share, min(0.49, related_share))


def _are_different(related: Floats, m: Floats, u: Floats) -> bool:
    """Whether related pairs are of different things: a field in which the same thing agrees tells them apart.

    Otherwise they are of the same thing with more errors: all fields agree in part.
    """
    tells = (m[:, 0] > _AGREES) & (u[:, 0] < _RARELY_EQUAL)
    return bool((related[tells, 0] < _RARELY_EQUAL).any())


class _Chance:
    """How often two different records have each level of agreement."""

    def __init__(self, pairs: Agreement, is_different: Floats, values: Sequence[FieldValues]) -> None:
        first = [_FIRST_U if one.numbers is None else _FIRST_U_NUMBERS for one in values]
        least, most, share = _FIRST_CHANCE
        known = np.clip(share * len(pairs.levels), least, most)
        self._counts = _frequencies(pairs, is_different) + known * np.array(first).reshape(-1, LEVELS)
        self._totals = _present(pairs, is_different) + known

    @property
    def frequencies(self) -> Floats:
        """Frequency of each level, ``(fields, levels)``."""
        return np.asarray(self._counts / self._totals)

    def without(self, weights: Floats, pairs: Agreement) -> Floats:
        """Return the frequency of the levels of pairs among all others, ``(pairs, fields)``."""
        fields = np.arange(len(self._counts))
        counts, totals = self._counts[fields, pairs.levels], self._totals[fields, 0]
        rest = np.maximum(counts - weights[:, None], 0.01)
        return np.asarray(rest / (totals - weights[:, None]))


def _own_by_chance(found: Agreement, values: Sequence[FieldValues], is_match: Floats) -> Floats:
    """Return how often a different record has the value of a record, and no third one, in each field: ``(fields,)``."""
    seen, trials = np.array([one.pair_rate for one in values]).reshape(-1, 2).T
    of_matches = found.is_own.T @ is_match
    return np.asarray((np.maximum(seen - of_matches, 0) + _OWN_COUNT) / (trials + 2 * _OWN_COUNT))


def _log_odds(
    pairs: Agreement, classes: _Classes, weights: Floats, chances: Floats, own: Floats
) -> tuple[Floats, Floats]:
    """Return the log odds that pairs are of the same thing, and the probability that they are related."""
    size = len(pairs.levels)
    same = np.log(classes.share) + _total(_log_frequencies(pairs, classes.m), weights, size)
    related = np.log(classes.related_share) + _total(_log_frequencies(pairs, classes.related), weights, size)
    unrelated = np.log(1 - classes.share - classes.related_share) + _total(
        _log_chances(pairs, chances, own), weights, size
    )
    different = np.logaddexp(related, unrelated)
    return same - different, np.exp(related - np.logaddexp(different, same))


def _total(logarithms: Iterable[Floats], weights: Floats, size: int) -> Floats:
    total = np.zeros(size)
    for weight, one in zip(weights, logarithms, strict=True):
        total += weight * one
    return total


def _log_frequencies(pairs: Agreement, table: Floats) -> Iterator[Floats]:
    """Yield the logarithm of the frequency of the level of each pair, field by field; 0 where the field is missing."""
    for level, frequencies in zip(pairs.levels.T, table, strict=True):
        yield np.where(level == MISSING, 0, np.log(frequencies)[level])


def _log_chances(pairs: Agreement, chances: Floats, own: Floats) -> Iterator[Floats]:
    """Yield the same for pairs that agree by chance, where some values are known to be rarer than their level."""
    for number, level in enumerate(pairs.levels.T):
        share = pairs.shares[:, number]
        chance = np.where(np.isnan(share), chances[:, number], np.maximum(share, 1e-9))
        chance = np.where(pairs.is_own[:, number], np.minimum(chance, own[number]), chance)
        yield np.where(level == MISSING, 0, np.log(chance))


def _field_weights(chance: Agreement, chances: Floats, own: Floats, is_different: Floats) -> Floats:
    """Return the weight of the evidence of each field: one over the number of fields that say the same.

    Shapes
    ------
    output: ``(fields,)``
    """
    part = slice(None, None, -(-len(chance.levels) // _CORRELATED_PAIRS) or None)
    some = Agreement(chance.levels[part], chance.shares[part], chance.is_own[part])
    evidence = np.zeros(some.levels.shape, order="F")
    m = np.tile(_FIRST_M, (some.levels.shape[1], 1))  # what is learned later depends on the weights
    for number, (same, by_chance) in enumerate(
        zip(_log_frequencies(some, m), _log_chances(some, chances[part], own), strict=True)
    ):
        evidence[:, number] = same - by_chance
    count = max(float(is_different[part].sum()), 1e-12)
    shares = is_different[part] / count
    evidence = (evidence - shares @ evidence) * np.sqrt(shares)[:, None]
    lengths = np.maximum(np.sqrt((evidence**2).sum(axis=0)), 1e-12)
    correlations = (evidence / lengths).T @ (evidence / lengths)
    correlations[correlations < _INDEPENDENT + _STANDARD_ERRORS / np.sqrt(count)] = 0
    np.fill_diagonal(correlations, 1)
    return np.asarray(1 / correlations.sum(axis=1))


def _normalised(frequencies: Floats) -> Floats:
    return np.asarray(frequencies / frequencies.sum(axis=1, keepdims=True))


def _frequencies(pairs: Agreement, weights: Floats) -> Floats:
    """Return how often each field has each level, ``(fields, levels)``."""
    counts = [np.bincount(level + 1, weights, minlength=LEVELS + 1)[1:] for level in pairs.levels.T]
    return np.array(counts, dtype=np.float64).reshape(-1, LEVELS)


def _present(pairs: Agreement, weights: Floats) -> Floats:
    return np.asarray((pairs.levels != MISSING).T @ weights)[:, None]
