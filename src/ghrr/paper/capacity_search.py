"""The paper's capacity of bound hypervectors: how it is searched for, and what theory says the search finds.

A set S of strings over an alphabet of base hypervectors is split into two halves X and X'. X is memorised when each of
its members is more similar to the bundle of X than to that of X'. The capacity is the largest size at which this holds.
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
    """Number of base hypervectors from which about 15,000 strings of this length can be made."""
    return round(math.pow(POSSIBLE_STRINGS, 1 / components))


@functools.lru_cache(maxsize=8)
def possible_strings(letters: int, components: int, ordered: bool) -> Tensor:
    """All strings of this length as rows of letters; without ``ordered``, only those whose letters are sorted."""
    if not ordered:
        return torch.combinations(torch.arange(letters), components, with_replacement=True)
    return torch.cartesian_prod(*[torch.arange(letters)] * components).reshape(-1, components)


def bisect(holds: Callable[[int], bool], bound: int) -> int:
    """The largest size below ``bound`` found to hold by halving the interval; where chance decides, so does it here."""
    low, high = 0, bound
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def search_bound(total_dim: int) -> int:
    """Upper end of the search for |X|: half the total dimension, where a member is lost in 1 of 13 cases."""
    return total_dim // 2


def is_memorised(members: Tensor, *, both: bool = False) -> bool:
    """Whether each of the first half of hypervectors is nearer to the bundle of that half than to the bundle of the
    rest; a tie does not count. With ``both``, also each of the rest to its own.
    """
    size = len(members) // 2
    difference = ghrr.bundle(members[:size]) - ghrr.bundle(members[size:])  # δ is linear: one bundle tells all
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
    """Search for the size of X up to which X is memorised.

    Parameters
    ----------
    space
        Where the alphabet is drawn.
    components
        Length of the strings: how many base hypervectors are bound.
    ordered
        Whether strings that are permutations of each other may both occur.
    both
        Whether the members of X' must be nearer to their bundle, too.
    nested
        Whether smaller sets are parts of larger ones, instead of new strings for each size that is tried.
    generator
        Draws the alphabet and the strings.
    """
    # Of 15,000 letters bound to nothing a few hundred are used at a time: so many more would be drawn in vain.
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
    r"""Similarities of a string with its permutations as (value, how many), and the share of strings with these values.

    They are means over many slots, rounded to multiples of :math:`1/(4m^2)`. Averaging over a Haar matrix A turns
    :math:`A X A^\dagger` into :math:`\mathrm{tr} X / m`, so :math:`\delta(AB, BA)` and most others have mean
    :math:`1/m^2`, but for example :math:`\delta(AAB, BAA)` has :math:`2/m^2`. For m = 1 all are 1.
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
        orders = sorted(set(itertools.permutations(string)))
        members = ghrr.multibind([alphabet[list(column)] for column in zip(*orders, strict=True)])
        for k, row in enumerate(ghrr.pairwise_similarity(members, members)):
            others = torch.cat([row[:k], row[k + 1 :]]).tolist()
            values = Counter(round(similarity * 4 * m**2) / (4 * m**2) for similarity in others)
            shares[tuple(sorted(values.items()))] += count
    return {values: share / letters**components for values, share in shares.items()}


def chance_memorised(size: int, space: ghrr.Space, components: int, *, ordered: bool = True) -> float:
    r"""Chance that X is memorised, by theory.

    The margin of a member is 1, plus noise of variance :math:`\sigma^2 = (2N - 1) s^2` with :math:`N = |X|` and s the
    noise of the space, plus or minus the similarity :math:`\mu` of each permutation of it that is in X or in X', which
    it is with chance q each. The chance of a negative margin follows from its characteristic function (Gil-Pelaez):

    .. math:: \frac12 - \frac1\pi \int_0^\infty \frac{\sin t}{t}\, e^{-\sigma^2 t^2 / 2}
              \prod_\mu \big(1 - 2q(1 - \cos \mu t)\big)\, dt .
    """
    sigma = space.noise_std * math.sqrt(2 * size - 1)
    step = 0.02
    u = (torch.arange(450, dtype=torch.float64) + 0.5) * step  # t times σ; beyond 9 nothing is left of the Gaussian
    t = u / sigma
    met = size / alphabet_size(components) ** components
    factor = torch.zeros_like(t)
    for values, share in (permuted_similarities(components, space.m) if ordered else {(): 1.0}).items():
        product = torch.full_like(t, share)
        for similarity, count in values:
            product *= (1 - 2 * met * (1 - torch.cos(similarity * t))) ** count
        factor += product
    integral = (torch.sin(t) / u * torch.exp(-u.square() / 2) * factor).sum() * step
    lost = max(0.0, 0.5 - float(integral) / math.pi)
    return (1 - lost) ** size


@functools.lru_cache(maxsize=512)
def expected_size(space: ghrr.Space, components: int, *, ordered: bool = True) -> tuple[float, float]:
    """Mean and standard deviation of the |X| that the search finds, by theory: all its ways, weighted by chance."""
    mean = square = 0.0
    ways = [(0, search_bound(space.total_dim), 1.0)]
    while ways:
        low, high, weight = ways.pop()
        if high - low <= 1:
            mean, square = mean + weight * low, square + weight * low**2
            continue
        middle = (low + high) // 2
        chance = chance_memorised(middle, space, components, ordered=ordered)
        branches = ((middle, high, weight * chance), (low, middle, weight * (1 - chance)))
        ways += [way for way in branches if way[2] > 1e-7]
    return mean, math.sqrt(square - mean**2)
