r"""Orders: hypervectors that are not independent, and what each of them has for itself.

The same steps in another order are another product, but not an independent one: ab and ba have a similarity of about
:math:`1/m^2`, aab and baa one half for m = 2, whatever the dimension. If words with the similarities G are bundled,
:math:`n_w` times each, their scores are :math:`s = G n + e`, with noise e of the covariance :math:`\sigma^2 G`. The
counts are found again with

.. math:: \hat n_k = \sum_w c_{kw} s_w, \qquad c_k = A_k / (A G)_{kk}, \qquad A = (G + \lambda)^{-1} .

For a small :math:`\lambda` this is the solution of s = G n, kept finite where words depend on each other, as the 24
orders of four steps do for m = 2. Since scores are linear, :math:`\hat n_k` is itself a score: that of the hypervector
:math:`\sum_w c_{kw} x_w`, which has a similarity of 1 with its own word and of about 0 with the others. Where words
depend on each other it keeps a share :math:`(cG)_{kw}` of the others, and :math:`\hat n_k` is off by the sum of these
shares times the counts.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ghrr._checks import check_hypervectors, check_items, check_real

_CHUNK_NUMBERS = 1 << 21  # complex numbers turned to double precision at a time: 32 MiB
_FEW = 5  # steps of which all orders are looked at
SAME = 0.9999  # from this similarity on words are one to rounding: for m = 1 all orders are


@dataclass(frozen=True)
class Apart:
    """Hypervectors to compare with instead of words, and the noise of such scores.

    Parameters
    ----------
    vectors
        What to compare with, or to unbind, ``(*batch, n, dim, m, m)``.
    gain
        By how much they raise the variance of the noise, ``(*batch, n)``: 1 for a word that shares nothing.
    leak
        The variance that is left of the others if each is there once, ``(*batch, n)``: 0 unless they depend on each
        other.
    """

    vectors: Tensor
    gain: Tensor
    leak: Tensor

    def __getitem__(self, places: Tensor) -> Apart:
        return Apart(self.vectors[places], self.gain[places], self.leak[places])

    def noise(self, sigma: Tensor) -> Tensor:
        r"""The deviation of the scores, :math:`\sqrt{g \sigma^2 + l}`, where that of plain words is :math:`\sigma`."""
        return torch.sqrt(self.gain * sigma.square() + self.leak)


@dataclass(frozen=True)
class Solution:
    r"""How counts follow from scores, for words of known similarities.

    Parameters
    ----------
    c
        The coefficients :math:`c_{kw}`, ``(*batch, n, n)``.
    shares
        What each count takes from each word, :math:`c G`, ``(*batch, n, n)``: the identity, unless words depend on each
        other.
    """

    c: Tensor
    shares: Tensor

    @property
    def gain(self) -> Tensor:
        """As of :class:`Apart`: the variance of the noise of a count."""
        return (self.shares * self.c).sum(dim=-1)

    @property
    def leak(self) -> Tensor:
        """As of :class:`Apart`: what is left of the others if each is there once, with either sign."""
        return (self.shares.square().sum(dim=-1) - 1).clamp(min=0)

    def bias(self, counts: Tensor) -> Tensor:
        r"""How far each count may be off since the words depend on each other: :math:`\sum_{w \ne k} |(cG)_{kw} n_w|`.

        Unlike the leak this holds for counts of any size and for the worst of their signs.
        """
        return ((self.shares.abs() @ counts.abs()[..., None])[..., 0] - counts.abs()).clamp(min=0)


def overlaps(x: Tensor, y: Tensor) -> Tensor:
    """Similarities of words in double precision, some slots at a time: ``(*batch, n, k)``."""
    size = x.shape[-1] ** 2
    step = max(1, _CHUNK_NUMBERS // max(1, size * max(x.shape[:-3].numel(), y.shape[:-3].numel())))
    total = torch.zeros((), dtype=torch.float64)
    for start in range(0, x.shape[-3], step):
        parts = (words[..., start : start + step, :, :].to(torch.complex128).resolve_conj() for words in (x, y))
        a, b = (torch.view_as_real(part).flatten(start_dim=-4) for part in parts)
        total = total + a @ b.mT
    return total / (x.shape[-3] * x.shape[-1])


def solve(overlap: Tensor, *, noise: float) -> Solution:
    """How to tell apart words of these similarities, ``(*batch, n, n)``.

    Words that are the same to rounding, as all orders are for m = 1, cannot be distinguished: each has the count of all
    of them together, and its leak and bias say so.
    """
    # Of words that are the same only the first is solved for; the others are read as that one.
    first = (overlap > SAME).int().argmax(dim=-1)
    own = torch.eye(overlap.shape[-1], dtype=overlap.dtype, device=overlap.device)
    counts = first == torch.arange(len(own), device=first.device)
    g = torch.where(counts[..., :, None] & counts[..., None, :], overlap, own)
    a = torch.linalg.inv(g + noise**2 * own)
    c = a / (a @ g).diagonal(dim1=-2, dim2=-1)[..., None]
    c = c.gather(-2, first[..., None].expand_as(c))
    return Solution(c, c @ overlap)


def combine(c: Tensor, words: Tensor) -> Tensor:
    """The sums of words with real coefficients, ``(*batch, k, n)`` and n words to ``(*batch, k, dim, m, m)``."""
    rows = torch.view_as_real(words.resolve_conj()).flatten(start_dim=-4)
    return torch.view_as_complex((c.to(rows.dtype) @ rows).reshape(*c.shape[:-1], *words.shape[-3:], 2))


def tell_apart(words: Tensor, *, noise: float) -> Apart:
    r"""For each of some words a hypervector that is similar to this one and not to the others.

    Parameters
    ----------
    words
        Unitary hypervectors that may be similar, such as the orders of the same steps. Those that are the same, to
        rounding, are taken as one: for m = 1 all orders are.
    noise
        ``Space.noise_std``: its square is :math:`\lambda`, since no word can be known better.

    Shapes
    ------
    words: ``(*batch, n, dim, m, m)``; see :class:`Apart` for the output; gain and leak are in double precision

    Examples
    --------
    >>> import torch, ghrr
    >>> from ghrr.memory.orders import tell_apart
    >>> space = ghrr.Space(dim=400, m=2, seed=0)
    >>> a, b = space.vectors(["a", "b"])
    >>> words = torch.stack([ghrr.multibind(torch.stack(word)) for word in ([a, a, b], [a, b, a], [b, a, a])])
    >>> apart = tell_apart(words, noise=space.noise_std)
    >>> absent = ghrr.bundle(words[:2])  # without the third
    >>> f"{ghrr.similarity(absent, words[2]):.2f} {abs(ghrr.similarity(absent, apart.vectors[2])):.2f}"
    '0.74 0.00'
    >>> f"{apart.gain[2]:.2f} {apart.leak[2]:.2f}"
    '1.35 0.00'
    """
    operation = "tell_apart(words)"
    (words,) = check_hypervectors(operation, words=words)
    check_items(operation, words=words)
    noise = check_real(operation, "noise", noise, low=0.0, high=math.inf, open_ends=True)
    solution = solve(overlaps(words, words), noise=noise)
    return Apart(combine(solution.c, words), solution.gain, solution.leak)


def other_orders(count: int) -> list[tuple[int, ...]]:
    r"""The other orders of so many steps: all of up to five, of more those in which two runs next to each other swap.

    These are the ones that share most: :math:`\delta(x * y, y * x)` is about :math:`1/m^2` whatever x and y.

    Examples
    --------
    >>> from ghrr.memory.orders import other_orders
    >>> other_orders(3)
    [(0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    >>> len(other_orders(5)), len(other_orders(6))
    (119, 35)
    """
    given = tuple(range(count))
    if count <= _FEW:
        return list(itertools.permutations(given))[1:]
    ends = itertools.combinations(range(count + 1), 3)
    return [(*given[:i], *given[j:k], *given[i:j], *given[k:]) for i, j, k in ends]
