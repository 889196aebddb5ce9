"""Capacity of bound hypervectors, as the paper defines it: a search that measures it, and its expected result.

A set of strings over an alphabet of base hypervectors is split into two halves X and X'. X is memorised if each of its
members is more similar to the bundle of X than to the bundle of X'. The capacity is the largest size at which X is
memorised.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor

import ghrr

POSSIBLE_STRINGS = 15_000


def alphabet_size(components: int) -> int:
    """Return the number of base hypervectors with about 15,000 strings of this length."""
    return round(math.pow(POSSIBLE_STRINGS, 1 / components))


@functools.lru_cache(maxsize=8)
def possible_strings(letters: int, components: int, ordered: bool) -> Tensor:
    """Return all strings of this length as rows of letters; if not ``ordered``, only those with sorted letters."""
    if not ordered:
        return torch.combinations(torch.arange(letters), components, with_replacement=True)
    return torch.cartesian_prod(*[torch.arange(letters)] * components).reshape(-1, components)


def bisect(holds: Callable[[int], bool], bound: int) -> int:
    """Find the largest size below ``bound`` for which ``holds`` is true, by bisection.

    If ``holds`` is random, so is the result.
    """
    low, high = 0, bound
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def search_bound(total_dim: int) -> int:
    """Return the upper end of the search for |X|: half the total dimension, where 1 of 13 members is lost."""
    return total_dim // 2


def is_memorised(members: Tensor, *, both: bool = False) -> bool:
    """Whether every member of the first half is more similar to the first bundle than to the second.

    Ties do not count. With ``both``, every member of the second half must also be more similar to its own bundle.
    """
    size = len(members) // 2
    difference = ghrr.bundle(members[:size]) - ghrr.bundle(members[size:])  # similarity is linear
    margins = ghrr.pairwise_similarity(difference, members)
    return bool((margins[:size] > 0).all()) and not (both and bool((margins[size:] >= 0).any()))


def capacity(
    space: ghrr.Space,
    components: int,
    *,
    ordered: bool = True,
    both: bool = False,
    nested: bool = False,
    generator: torch.Generator,
) -> int:
    """Search for the largest size of X at which X is memorised.

    Parameters
    ----------
    space
        The space of the base hypervectors.
    components
        Length of the strings: the number of hypervectors that are bound.
    ordered
        Whether strings that are permutations of each other may both occur.
    both
        Whether the members of X' must be more similar to their own bundle, too.
    nested
        Whether smaller sets are subsets of larger ones. By default, each size uses new strings.
    generator
        Draws the alphabet and the strings.
    """
    # For one component the alphabet has 15,000 letters. Only a few hundred are used at a time, so draw no more.
    letters = min(alphabet_size(components), max(100, space.total_dim))
    alphabet = space.random(letters, generator=generator)
    strings = possible_strings(letters, components, ordered)

    bound = min(search_bound(space.total_dim), len(strings) // 2 + 1)
    order = torch.randperm(len(strings), generator=generator)

    def holds(size: int) -> bool:
        drawn = order if nested else torch.randperm(len(strings), generator=generator)
        chosen = strings[torch.cat([drawn[:size], drawn[-size:]])]
        return is_memorised(ghrr.multibind([alphabet[column] for column in chosen.mT]), both=both)

    return bisect(holds, bound)


@functools.lru_cache(maxsize=32)
def permuted_similarities(components: int, m: int) -> dict[tuple[tuple[float, int], ...], float]:
    r"""Return how similar strings are to their permutations.

    The keys are sorted (similarity, count) pairs over the permutations of a string, and the values are the shares of
    strings with these similarities. Similarities are means over many slots, rounded to multiples of :math:`1/(4m^2)`.
    The mean of :math:`A X A^\dagger` over a Haar matrix A is :math:`\mathrm{tr} X / m`, so :math:`\delta(AB, BA)` and
    most others have mean :math:`1/m^2`; but for example :math:`\delta(AAB, BAA)` has :math:`2/m^2`. For m = 1, all
    are 1.
    """
    letters = alphabet_size(components)
    shares: Counter[tuple[tuple[float, int], ...]] = Counter()
    patterns = Counter(
        tuple(sorted(Counter(string).values()))
        for string in itertools.combinations_with_replacement(range(letters), components)
    )
    alphabet = ghrr.Space(1 << 14, m).random(components, generator=torch.Generator().manual_seed(0))
    for pattern, count in patterns.items():
        string = [letter for letter, times in enumerate(pattern) for _ in range(times)]
        permutations = sorted(set(itertools.permutations(string)))
        members = ghrr.multibind([alphabet[list(column)] for column in zip(*permutations, strict=True)])
        for k, row in enumerate(ghrr.pairwise_similarity(members, members)):
            others = torch.cat([row[:k], row[k + 1 :]]).tolist()
            values = Counter(round(similarity * 4 * m**2) / (4 * m**2) for similarity in others)
            shares[tuple(sorted(values.items()))] += count
    return {values: share / letters**components for values, share in shares.items()}


def chance_memorised(size: int, space: ghrr.Space, components: int, *, ordered: bool = True) -> float:
    r"""Predict the probability that X is memorised.

    The margin of a member is 1, plus noise of variance :math:`\sigma^2 = (2N - 1) s^2` with :math:`N = |X|` and s the
    noise of the space, plus or minus the similarity :math:`\mu` with each of its permutations in X or X'. Each
    permutation is in X with probability q, and in X' with probability q. The probability of a negative margin follows
    from its characteristic function (Gil-Pelaez):

    .. math:: \frac12 - \frac1\pi \int_0^\infty \frac{\sin t}{t}\, e^{-\sigma^2 t^2 / 2}
              \prod_\mu \big(1 - 2q(1 - \cos \mu t)\big)\, dt .
    """
    sigma = space.noise_std * math.sqrt(2 * size - 1)
    step = 0.02
    u = (torch.arange(450, dtype=torch.float64) + 0.5) * step  # t times σ; the Gaussian is negligible beyond 9
    t = u / sigma
    q = size / alphabet_size(components) ** components
    factor = torch.zeros_like(t)
    for values, share in (permuted_similarities(components, space.m) if ordered else {(): 1.0}).items():
        product = torch.full_like(t, share)
        for similarity, count in values:
            product *= (1 - 2 * q * (1 - torch.cos(similarity * t))) ** count
        factor += product
    integral = (torch.sin(t) / u * torch.exp(-u.square() / 2) * factor).sum() * step
    lost = max(0.0, 0.5 - float(integral) / math.pi)
    return (1 - lost) ** size


@functools.lru_cache(maxsize=512)
def expected_size(space: ghrr.Space, components: int, *, ordered: bool = True) -> tuple[float, float]:
    """Predict the mean and standard deviation of the |X| that the search finds.

    Sums over all branches of the bisection, weighted by their probabilities.
    """
    mean = square = 0.0
    branches = [(0, search_bound(space.total_dim), 1.0)]
    while branches:
        low, high, weight = branches.pop()
        if high - low <= 1:
            mean, square = mean + weight * low, square + weight * low**2
            continue
        middle = (low + high) // 2
        chance = chance_memorised(middle, space, components, ordered=ordered)
        halves = ((middle, high, weight * chance), (low, middle, weight * (1 - chance)))
        branches += [half for half in halves if half[2] > 1e-7]
    return mean, math.sqrt(square - mean**2)
