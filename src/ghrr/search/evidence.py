r"""Agreement of the fields of two records, and how often different records agree like this.

The agreement of two values has one of five levels, from equal to different. For equal values, the frequency among
different records is that of the value, and for near numbers the share of records that are at least as near: the same
city counts less than the same telephone number, and a common name less than a rare one. A value that only the two
records have may be common, seen twice by chance, or belong to one thing, such as a telephone number. Dates of the same
day of another year are similar. ``match_model`` makes a probability of this.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ghrr.search.bags import Bags
from ghrr.search.encoder import Prepared, RecordEncoder
from ghrr.search.kernel_fields import Coordinates
from ghrr.search.paths import WHOLE

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_SIMILARITIES = (0.75, 0.5, 0.25)  # least similarity of the levels close, similar and weak
_SHARES = (0.01, 0.05, 0.2)  # the same for numbers: the largest share of records that are at least as near
LEVELS = 5
_SAME_DAY = 2  # level of dates that have it in different years
MISSING = -1


@dataclass(frozen=True)
class FieldValues:
    """The values of one field in all records, as far as their evidence needs them.

    Parameters
    ----------
    place
        Number of the field among the active fields of the encoder.
    codes
        Equal values have equal codes, ``(n,)``; -1 where the value is missing.
    shares
        Share of the other records that have the same value, ``(n,)``.
    is_pair
        Whether exactly one other record has the same value, ``(n,)``.
    pair_rate
        Number of values that exactly two records have, and of pairs of a record that could have such a value and any
        other one.
    numbers
        Values of a number or a date, ``(n,)``, NaN where missing; None for other kinds.
    ascending
        The same values in ascending order, without missing ones.
    days
        Day of the year of dates, as codes with their shares; None for other kinds.
    """

    place: int
    codes: Integers
    shares: Floats
    is_pair: NDArray[np.bool_]
    pair_rate: tuple[float, float]
    numbers: Floats | None = None
    ascending: Floats | None = None
    days: tuple[Integers, Floats] | None = None


def field_values(encoder: RecordEncoder, batches: Iterable[Prepared]) -> list[FieldValues]:
    """Return the values of each compared field from prepared documents; the text of all fields is left out."""
    places = [place for place, field in enumerate(encoder.active) if field.path != WHOLE and field.weight > 0]
    codes: list[list[Any]] = [[] for _ in places]
    numbers: list[list[Floats]] = [[] for _ in places]
    for batch in batches:
        for number, place in enumerate(places):
            rows, values = batch.rows[place], batch.values[place]
            codes[number].append(_spread(_codes(values), rows, MISSING))
            if encoder.active[place].kind in ("number", "date"):
                numbers[number].append(_spread(values.low[:, 0], rows, np.nan))
    found = []
    for number, place in enumerate(places):
        coded, counts = _counted(np.concatenate(codes[number]))
        one = _field_values(place, coded, counts)
        if numbers[number]:
            own = np.concatenate(numbers[number])
            one = replace(one, numbers=own, ascending=np.sort(own[np.isfinite(own)]))
            if encoder.active[place].kind == "date":
                days, counts = _counted(_days_of_years(own))
                one = replace(one, days=(days, _shares(days, counts)))
        found.append(one)
    return found


def _field_values(place: int, codes: Integers, counts: Integers) -> FieldValues:
    is_pair = (codes != MISSING) & (counts[codes] == 2)
    pairs = float((counts == 2).sum()), float(counts[counts <= 2].sum()) * max(1, counts.sum() - 1) / 2
    return FieldValues(place, codes, _shares(codes, counts), is_pair, pairs)


def _counted(values: Integers) -> tuple[Integers, Integers]:
    """Return codes from 0 on for values, -1 where one is missing, and how often each code occurs."""
    present = values != MISSING
    codes = np.full(len(values), MISSING, dtype=np.int64)
    _, codes[present], counts = np.unique(values[present], return_inverse=True, return_counts=True)
    return codes, np.append(counts, 0)  # of missing values, which have the last place


def _shares(codes: Integers, counts: Integers) -> Floats:
    """Return the share of the other records that have the same value; 0 where it is missing."""
    return np.asarray(np.maximum(counts[codes] - 1, 0) / max(1, counts.sum() - 1))


def _days_of_years(days: Floats) -> Integers:
    """Return the month and the day of dates in days since 1970, as one number; -1 where one is missing."""
    is_date = np.isfinite(days)
    dates = np.floor(np.where(is_date, days, 0)).astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    of_month = (dates - months).astype(np.int64)
    return np.where(is_date, months.astype(np.int64) % 12 * 31 + of_month, MISSING)


def _codes(values: Bags | Coordinates) -> Integers:
    """Return a number for each prepared value that equal values share; different ones differ almost surely."""
    if isinstance(values, Coordinates):
        low = (values.low + 0.0).tobytes()  # + 0.0: -0.0 equals 0.0
        places = np.arange(values.low.shape[1], dtype=np.uint64)
        bits = np.frombuffer(low, dtype=np.uint64).reshape(values.low.shape) + places
        codes = _mix(bits).sum(axis=1, dtype=np.uint64) + _sums(values.other)
    else:
        codes = _sums(values)
    positive: Integers = (codes >> np.uint64(1)).astype(np.int64)
    return positive


def _sums(bags: Bags) -> NDArray[np.uint64]:
    """Return the sum of the hashes of the features of each value, times their weights, modulo 2^64."""
    parts = _mix(bags.keys.astype(np.uint64))[bags.features] * np.rint(bags.weights * 2**20).astype(np.uint64)
    sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(parts)])
    return np.asarray(sums[bags.offsets[1:]] - sums[bags.offsets[:-1]])


def _mix(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the hashes of numbers: the finaliser of splitmix64."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return numbers ^ (numbers >> np.uint64(31))


def _spread(values: NDArray[Any], rows: Integers, missing: float) -> NDArray[Any]:
    """Return the value of each document, from the values of the documents that have one."""
    out = np.full(len(rows), missing, dtype=values.dtype)
    out[rows >= 0] = values[rows[rows >= 0]]
    return out


# ------------------------------------------------------------------------------------------------------------ agreement


@dataclass(frozen=True)
class Agreement:
    """Levels of agreement of pairs, and how often two different records agree like this.

    Shapes
    ------
    levels: ``(pairs, fields)``, -1 where a field is missing; shares: ``(pairs, fields)``, NaN where it depends on the
    level alone; is_own: ``(pairs, fields)``, whether both have a value that no third record has
    """

    levels: NDArray[np.int8]
    shares: Floats
    is_own: NDArray[np.bool_]

    @classmethod
    def joined(cls, parts: Sequence[Agreement]) -> Agreement:
        """Return the agreement of the pairs of all parts."""
        return cls(
            np.concatenate([one.levels for one in parts]),
            np.concatenate([one.shares for one in parts]),
            np.concatenate([one.is_own for one in parts]),
        )


def agreement(values: Sequence[FieldValues], pairs: Integers, scores: Floats) -> Agreement:
    """Return the agreement of pairs of rows, from the similarities of all active fields.

    Shapes
    ------
    pairs: ``(pairs, 2)``; scores: ``(pairs, active fields)``, NaN where a field is missing
    """
    levels = np.full((len(pairs), len(values)), MISSING, dtype=np.int8)
    shares = np.full((len(pairs), len(values)), np.nan)
    is_own = np.zeros((len(pairs), len(values)), dtype=bool)
    left, right = pairs.T
    for number, one in enumerate(values):
        score = scores[:, one.place]
        present = np.isfinite(score) & (one.codes[left] != MISSING) & (one.codes[right] != MISSING)
        is_equal = one.codes[left] == one.codes[right]
        level = 1 + sum((score < least).astype(np.int8) for least in _SIMILARITIES)
        if one.numbers is not None and one.ascending is not None:
            nearer = _share_nearer(one.ascending, one.numbers[left], one.numbers[right])
            is_number = np.isfinite(nearer)
            level = np.where(is_number, 1 + sum((nearer > most).astype(np.int8) for most in _SHARES), level)
            shares[:, number] = np.where(is_number & (level == 1), nearer, np.nan)
        if one.days is not None:
            days, day_shares = one.days
            is_day = (days[left] == days[right]) & (days[left] != MISSING) & (level > _SAME_DAY)
            level = np.where(is_day, _SAME_DAY, level)
            shares[:, number] = np.where(is_day, day_shares[left], shares[:, number])
        levels[:, number] = np.where(present, np.where(is_equal, 0, level), MISSING)
        shares[is_equal, number] = one.shares[left[is_equal]]
        is_own[:, number] = present & is_equal & one.is_pair[left]
    return Agreement(levels, shares, is_own)


def _share_nearer(ascending: Floats, left: Floats, right: Floats) -> Floats:
    """Return the share of records at least as near to one of two numbers as they are to each other: the larger one.

    It is NaN where one of the two is no number.
    """
    gap = np.abs(left - right)
    counts = [
        np.searchsorted(ascending, one + gap, "right") - np.searchsorted(ascending, one - gap, "left") - 1
        for one in (left, right)
    ]
    return np.where(np.isfinite(gap), np.maximum(*counts) / max(1, len(ascending) - 1), np.nan)


def logistic(log_odds: Floats) -> Floats:
    """Return the probability of log odds."""
    return np.asarray(1 / (1 + np.exp(-np.clip(log_odds, -50, 50))))
