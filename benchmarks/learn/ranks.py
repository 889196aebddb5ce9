"""Compare methods over data sets: mean ranks, Friedman and Nemenyi tests, paired tests.

The procedure follows Demšar (2006), "Statistical Comparisons of Classifiers over Multiple Data Sets": ranks on every
data set, the Friedman test of equal ranks, and the critical difference of Nemenyi, by which two mean ranks must differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.stats

LEVEL = 0.05
Accuracies = Mapping[str, Mapping[str, float]]  # data set -> method -> accuracy


def mean_ranks(accuracies: Accuracies, methods: Sequence[str]) -> dict[str, float]:
    """Return the mean rank of every method, 1 is best; equal accuracies share the mean of their ranks.

    Parameters
    ----------
    accuracies
        Accuracy of every method on every data set.
    methods
        Methods to rank.
    """
    table = np.array([[row[method] for method in methods] for row in accuracies.values()])
    ranks = scipy.stats.rankdata(-table, axis=1).mean(axis=0)
    return dict(zip(methods, ranks.tolist(), strict=True))


def critical_difference(n_methods: int, n_sets: int, level: float = LEVEL) -> float:
    r"""Return the difference of mean ranks above which two methods differ, by the test of Nemenyi.

    .. math:: q_\alpha \sqrt{k (k + 1) / (6 n)}

    for k methods on n data sets; :math:`\sqrt 2\, q_\alpha` is the quantile of the studentized range.
    """
    quantile = float(scipy.stats.studentized_range.ppf(1 - level, n_methods, math.inf)) / math.sqrt(2)
    return quantile * math.sqrt(n_methods * (n_methods + 1) / (6 * n_sets))


def friedman(accuracies: Accuracies, methods: Sequence[str]) -> dict[str, float]:
    """Return statistic and p of the Friedman test that all methods have equal ranks."""
    columns = [[row[method] for row in accuracies.values()] for method in methods]
    statistic, p = scipy.stats.friedmanchisquare(*columns)
    return {"statistic": float(statistic), "p": float(p)}


def compare(accuracies: Accuracies, methods: Sequence[str]) -> dict[str, Any]:
    """Return ranks and tests over the data sets on which all methods have an accuracy.

    Tests need three methods and two data sets; without them only the data sets are returned.
    """
    complete = {name: row for name, row in accuracies.items() if all(method in row for method in methods)}
    result: dict[str, Any] = {"methods": list(methods), "sets": list(complete)}
    if len(complete) < 2 or len(methods) < 3:
        return result
    return result | {
        "mean_ranks": mean_ranks(complete, methods),
        "friedman": friedman(complete, methods),
        "critical_difference": critical_difference(len(methods), len(complete)),
    }


def wilcoxon(accuracies: Accuracies, ours: str, other: str) -> dict[str, Any] | None:
    """Return the signed-rank test of two methods over the data sets that both have; None if there are none."""
    pairs = [(row[ours], row[other]) for row in accuracies.values() if ours in row and other in row]
    if not pairs:
        return None
    differences = np.array([a - b for a, b in pairs])
    p = float(scipy.stats.wilcoxon(differences).pvalue) if differences.any() else 1.0
    return {
        "other": other,
        "sets": len(pairs),
        "wins": int((differences > 0).sum()),
        "losses": int((differences < 0).sum()),
        "mean_difference": float(differences.mean()),
        "p": p,
    }


def paired_test(ours: Sequence[float], other: Sequence[float]) -> dict[str, float]:
    """Return the mean difference over seeds or folds, and p of the paired t-test."""
    differences = np.array(ours) - np.array(other)
    mean = float(differences.mean())
    if np.ptp(differences) == 0:  # the test divides by the standard deviation
        return {"difference": mean, "p": 1.0 if mean == 0 else 0.0}
    return {"difference": mean, "p": float(scipy.stats.ttest_1samp(differences, 0.0).pvalue)}


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number, by the method of Holm."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    for place, index in enumerate(np.argsort(p_values, kind="stable")):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = largest
    return adjusted
