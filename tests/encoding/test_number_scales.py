"""Scales of numbers: which are multiplicative, and their logarithms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ghrr.encoding.number_scales import is_multiplicative, logarithm, logarithms

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (RNG.lognormal(10, 0.5, 500), True),
        (1e300 * RNG.lognormal(0, 1, 500), True),
        (np.append(RNG.lognormal(3, 1, 500), [0.0, -1.0]), True),
        (RNG.normal(100, 10, 500), False),
        (RNG.uniform(1, 100, 500), False),
        (-RNG.lognormal(0, 1, 500), False),
        (RNG.poisson(1.5, 500).astype(float), False),  # counts with zeros
        (RNG.lognormal(0, 1, 10), False),  # too few
        (np.ones(100), False),
        (np.empty(0), False),
    ],
)
def test_skewed_positive_numbers_are_multiplicative(numbers: Any, expected: bool) -> None:
    assert is_multiplicative(numbers) == expected


def test_logarithms_keep_missing_values() -> None:
    np.testing.assert_array_equal(logarithms(np.array([2.0, np.nan, 0.0]), 1.0), [logarithm(2, 1), np.nan, -1.0])
