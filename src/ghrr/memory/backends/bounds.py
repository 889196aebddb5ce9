"""Bounds: conditions on numbers that are stored with the rows, for backends that filter while they search."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ghrr.checks import describe, value_error

Columns = Mapping[str, NDArray[np.float64]]
_NAME = re.compile(r"(?!(id|label|row|vector)$)[A-Za-z]\w{0,99}", re.ASCII)  # the engines use four names themselves


class Bound(NamedTuple):
    """Interval of a column. A row without a number in the column is outside, unless ``or_missing``.

    Parameters
    ----------
    column
        Name of the column: letters, digits and ``_``.
    low, high
        Ends of the interval, which belong to it.
    inside
        Whether rows must be inside, or must not.
    or_missing
        Whether rows without a number count as inside.

    Examples
    --------
    >>> from ghrr.memory import Bound
    >>> Bound("year", 1900, 1999)
    Bound(column='year', low=1900, high=1999, inside=True, or_missing=False)
    """

    column: str
    low: float
    high: float
    inside: bool = True
    or_missing: bool = False


def check_bounds(where: Iterable[Bound]) -> list[Bound]:
    """Return bounds with names and finite numbers, which are safe in the expression of an engine."""
    bounds = [Bound(*bound) for bound in where]
    for bound in bounds:
        check_name(bound.column)
        if not (np.isfinite(bound.low) and np.isfinite(bound.high)):
            raise value_error(f"the ends of a bound must be finite, got {describe(bound)}")
    return [
        Bound(bound.column, float(bound.low), float(bound.high), bool(bound.inside), bool(bound.or_missing))
        for bound in bounds
    ]


def check_columns(columns: Columns | None, count: int) -> dict[str, NDArray[np.float64]]:
    """Return columns of float64, one number per item; NaN stands for a missing number."""
    checked = {}
    for name, values in (columns or {}).items():
        check_name(name)
        checked[name] = np.asarray(values, dtype=np.float64)
        if checked[name].shape != (count,) or np.isinf(checked[name]).any():
            raise value_error(f"column {name!r} must have {count} numbers, not infinite, got {describe(values)}")
    return checked


def check_name(name: Any) -> None:
    """Raise ValueError unless a name of a column consists of letters, digits and ``_``."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise value_error(
            f"a column must be named by letters, digits and _, and not id, label, row or vector, got {describe(name)}"
        )
