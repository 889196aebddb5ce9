r"""Whether a space can hold a structure, and the warning if it cannot.

A correct answer scores 1 on average. In a hypervector of n items its noise has the variance
:math:`\sigma^2 = s^2 + (n - 1) c^2` (:func:`ghrr.memory.match.answer_noise`). If the score that confidence requires
(:func:`ghrr.memory.match.required_score`) is above 1, most correct answers are not confident: the space is too small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from ghrr.checks import warn
from ghrr.memory.match import CONFIDENCE, answer_noise, required_score
from ghrr.space import Space


class CapacityWarning(UserWarning):
    """A structure holds more than its space can: most answers will be unknown.

    The message names a space that is large enough. Turn it into an error with
    ``warnings.simplefilter("error", ghrr.structures.CapacityWarning)``.

    Examples
    --------
    >>> import warnings, ghrr
    >>> from ghrr.structures import CapacityWarning, Stack
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = Stack(ghrr.Space(dim=4, m=2)).encode(list("abcdefghij"))
    >>> caught[0].category is CapacityWarning
    True
    >>> print(caught[0].message)
    Stack.encode: Space(dim=4, m=2, seed=0) cannot hold 10 items with 10 candidates for an answer, so most answers \
will be unknown; use Space(dim=63, m=2, seed=0)
    """


def is_full(space: Space, items: float, candidates: int, *, confidence: float = CONFIDENCE, bound: bool = True) -> bool:
    """Return whether most correct answers are not confident.

    Parameters
    ----------
    space
        Space of the hypervector.
    items
        Number of items in the hypervector, or its energy.
    candidates
        Number of candidates for an answer.
    confidence
        Probability from which an answer is confident.
    bound
        Whether the items are bound to different keys; see :func:`ghrr.memory.match.answer_noise`.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures.fullness import is_full
    >>> [is_full(ghrr.Space(dim=dim, m=3), items=50, candidates=100) for dim in (40, 80)]
    [True, False]
    """
    variance = float(answer_noise(space, float(items), bound=bound)) ** 2
    return required_score(variance, odds=max(1, candidates), confidence=confidence) > 1


def items_of_counts(counts: Iterable[int]) -> int:
    r"""Return the number of single items whose answers are as sure as the counts of a multiset.

    Counts bundle :math:`\sum n^2` items. An answer is the count n itself, so that most answers are confident if the
    required score is at most the median count, not 1.

    Examples
    --------
    >>> from ghrr.structures.fullness import items_of_counts
    >>> items_of_counts([1, 1, 1]), items_of_counts([100]), items_of_counts([3, 1, 1])
    (3, 51, 11)
    """
    ordered = sorted(count for count in counts if count)
    if not ordered:
        return 0
    median = ordered[len(ordered) // 2]
    return math.ceil(sum(count * count for count in ordered) * 0.5 / (median - 0.5))


def warn_of_full_space(space: Space, items: int, candidates: int, suggest: Callable[[], Space]) -> None:
    """Warn that a space cannot hold this many items, at the line that called the package."""
    choices = "1 candidate" if candidates == 1 else f"{candidates:,} candidates"
    warn(
        f"{space!r} cannot hold {items:,} items with {choices} for an answer, so most answers will be "
        f"unknown; use {suggest()!r}",
        CapacityWarning,
    )
