"""Estimates with standard errors, and checks that compare them with predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from ghrr_lab.paper.experiment import Check

STANDARD_ERRORS = 4.0  # tolerance of a check; a true prediction fails by chance once in 16,000 times

Measured = tuple[float, float]  # value and standard error


def rows_where(data: pd.DataFrame, /, **columns: object) -> pd.DataFrame:
    """Return the rows in which every named column has the given value.

    Examples
    --------
    >>> data = pd.DataFrame({"m": [1, 1, 2], "kind": ["a", "b", "a"]})
    >>> rows_where(data, m=1, kind="a").index.to_list()
    [0]
    """
    chosen = pd.Series(True, index=data.index)
    for name, value in columns.items():
        chosen &= data[name] == value
    return data[chosen]


def mean_with_error(values: pd.Series[float]) -> Measured:
    """Return the mean and its standard error."""
    return float(values.mean()), float(values.std()) / math.sqrt(len(values))


def std_with_error(values: pd.Series[float]) -> Measured:
    """Return the standard deviation about zero and its standard error.

    The error is computed from the fourth moment, so it is also valid for heavy tails.
    """
    squares = np.square(values.to_numpy())
    std = math.sqrt(squares.mean())
    return std, float(squares.std()) / math.sqrt(len(squares)) / (2 * std)


def share_with_error(successes: int, total: int) -> Measured:
    """Return the share of successes and its standard error.

    The error is computed with one additional success and failure, so it is positive even if all trials agree.
    """
    smoothed = (successes + 1) / (total + 2)
    return successes / total, math.sqrt(smoothed * (1 - smoothed) / total)


def ratio_with_error(numerator: Measured, denominator: Measured) -> Measured:
    """Return the ratio of two independent measurements and its standard error."""
    ratio = numerator[0] / denominator[0]
    return ratio, ratio * math.hypot(numerator[1] / numerator[0], denominator[1] / denominator[0])


def difference_with_error(first: Measured, second: Measured) -> Measured:
    """Return the difference of two independent measurements and its standard error."""
    return first[0] - second[0], math.hypot(first[1], second[1])


def equals(what: str, measured: float, error: float, expected: float, *, within: float = STANDARD_ERRORS) -> Check:
    """Check that a measurement equals a number within this many standard errors."""
    return Check(what, measured, error, f"{expected:.4g}", abs(measured - expected) <= within * error)


def is_close(what: str, measured: float, expected: float, *, tolerance: float) -> Check:
    """Check that an exact number equals another within a tolerance."""
    return Check(what, measured, 0.0, f"{expected:.4g} ± {tolerance:.2g}", abs(measured - expected) <= tolerance)


def is_rounding_error(what: str, rows: pd.DataFrame) -> Check:
    """Check that the values of rows are zero up to the rounding of a sum of m terms of size 1 in double precision."""
    tolerance = 20 * float(rows["m"].max()) * torch.finfo(torch.float64).eps
    return is_close(what, float(rows["value"].max()), 0.0, tolerance=tolerance)


def exceeds(what: str, measured: float, error: float, bound: float) -> Check:
    """Check that a measurement is significantly above a number."""
    return Check(what, measured, error, f"> {bound:.4g}", measured - bound > STANDARD_ERRORS * error)


def falls_below(what: str, measured: float, error: float, bound: float) -> Check:
    """Check that a measurement is significantly below a number."""
    return Check(what, measured, error, f"< {bound:.4g}", bound - measured > STANDARD_ERRORS * error)


def all_equal(what: str, measured: Sequence[float], errors: Sequence[float], expected: Sequence[float]) -> Check:
    """Check that many measurements together equal their predictions.

    The check compares the largest deviation, in standard errors, with a bound that grows with the number of
    measurements, so a true prediction fails as rarely as in :func:`equals`.
    """
    deviations = np.abs(np.asarray(measured) - np.asarray(expected)) / np.asarray(errors)
    chance = math.erfc(STANDARD_ERRORS / math.sqrt(2))
    bound = -float(torch.special.ndtri(torch.tensor(chance / (2 * len(deviations)), dtype=torch.float64)))
    largest = float(deviations.max())
    return Check(
        f"{what}: largest of {len(deviations)} deviations, in standard errors",
        largest,
        0.0,
        f"≤ {bound:.2f}",
        largest <= bound,
    )
