r"""Decorrelation: read a hypervector that is similar to other stored hypervectors without their contribution.

Products of the same factors in another order are not independent. The similarity of :math:`a * b` and :math:`b * a` is
about :math:`1/m^2` for any dimension, and the one of :math:`a * a * b` and :math:`b * a * a` is one half for m = 2. If
hypervectors with the Gram matrix G (their mutual similarities) are bundled, :math:`n_j` copies of each, their scores
are :math:`s = G n + e`, where the noise e has the covariance :math:`\sigma^2 G`. The counts are estimated as

.. math:: \hat n_k = \sum_j c_{kj} s_j, \qquad c_k = A_k / (A G)_{kk}, \qquad A = (G + \lambda I)^{-1} .

For small :math:`\lambda` this solves s = G n. It stays finite if the hypervectors are linearly dependent, as the 24
permutations of four factors are for m = 2. Scores are linear, so :math:`\hat n_k` is itself a similarity: that with
the hypervector :math:`\sum_j c_{kj} x_j`, the decorrelated key of :math:`x_k`. It has the similarity 1 with
:math:`x_k` and about 0 with the others. For linearly dependent hypervectors some similarity :math:`(cG)_{kj}` with the
others remains, and :math:`\hat n_k` is wrong by the sum of these similarities times the counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_CHUNK_NUMBERS = 1 << 21  # complex numbers converted to double precision at a time: 32 MiB
IDENTICAL = 0.9999  # hypervectors with a higher similarity are equal up to rounding, as all permutations are for m = 1


@dataclass(frozen=True)
class DecorrelatedKeys:
    """Keys corrected for their mutual similarity.

    Reading with a corrected key removes the contribution of correlated keys, such as the same path in another order,
    at the cost of ``variance_gain`` times more noise.

    Parameters
    ----------
    vectors
        The corrected keys, ``(*batch, n, dim, m, m)``. Compare with them, or unbind them, instead of the original keys.
    variance_gain
        Factor by which each key raises the variance of the noise, ``(*batch, n)``. It is 1 for an uncorrelated key.
    leakage
        Variance that the other keys add if each of them is present once, ``(*batch, n)``. It is 0 unless the keys are
        linearly dependent.

    Examples
    --------
    >>> import torch, ghrr
    >>> from ghrr.memory.decorrelation import DecorrelatedKeys, decorrelate, gram_matrix, weighted_sums
    >>> space = ghrr.Space(dim=400, m=2, seed=0)
    >>> a, b = space.vectors(["a", "b"])
    >>> products = torch.stack([ghrr.multibind(torch.stack(factors)) for factors in ([a, a, b], [a, b, a], [b, a, a])])
    >>> solution = decorrelate(gram_matrix(products, products), noise=space.noise_std)
    >>> vectors = weighted_sums(solution.coefficients, products)
    >>> keys = DecorrelatedKeys(vectors, solution.variance_gain, solution.leakage)
    >>> bundled = ghrr.bundle(products[:2])  # the third product is absent
    >>> f"{ghrr.similarity(bundled, products[2]):.2f} {abs(ghrr.similarity(bundled, keys.vectors[2])):.2f}"
    '0.72 0.00'
    >>> f"{keys.variance_gain[2]:.2f} {keys.leakage[2]:.2f}"
    '1.33 0.00'
    """

    vectors: Tensor
    variance_gain: Tensor
    leakage: Tensor

    def __getitem__(self, indices: Tensor) -> DecorrelatedKeys:
        """Select keys along the first axis."""
        return DecorrelatedKeys(self.vectors[indices], self.variance_gain[indices], self.leakage[indices])

    def noise(self, sigma: Tensor) -> Tensor:
        """Return the standard deviation of scores, where scores of uncorrelated keys have the deviation ``sigma``."""
        return torch.sqrt(self.variance_gain * sigma.square() + self.leakage)


@dataclass(frozen=True)
class Decorrelation:
    r"""Linear map from the scores of correlated hypervectors to estimates of their counts.

    Parameters
    ----------
    coefficients
        The matrix :math:`c`, ``(*batch, n, n)``: ``coefficients @ scores`` are the estimated counts.
    mixing
        The matrix :math:`c G`, ``(*batch, n, n)``: ``mixing @ counts`` are the expected estimates. It is the identity
        unless the hypervectors are linearly dependent.
    """

    coefficients: Tensor
    mixing: Tensor

    @property
    def variance_gain(self) -> Tensor:
        """Variance of the noise of each estimate, in units of the variance of a plain score, ``(*batch, n)``."""
        return (self.mixing * self.coefficients).sum(dim=-1)

    @property
    def leakage(self) -> Tensor:
        """Variance that the other hypervectors add if each is present once with a random sign, ``(*batch, n)``."""
        return (self.mixing.square().sum(dim=-1) - 1).clamp(min=0)

    def bias(self, counts: Tensor) -> Tensor:
        r"""Return a bound on the error caused by linear dependence, :math:`\sum_{j \ne k} |(cG)_{kj} n_j|`.

        Unlike :attr:`leakage` it holds for counts of any size and any sign.
        """
        return ((self.mixing.abs() @ counts.abs()[..., None])[..., 0] - counts.abs()).clamp(min=0)


def gram_matrix(x: Tensor, y: Tensor) -> Tensor:
    """Return the similarities of all hypervectors of x with all of y, in double precision.

    Converts a limited number of slots to double precision at a time.

    Shapes
    ------
    x: ``(*batch, n, dim, m, m)``; y: ``(*batch, k, dim, m, m)``; output: ``(*batch, n, k)``
    """
    numbers_per_slot = x.shape[-1] ** 2 * max(x.shape[:-3].numel(), y.shape[:-3].numel())
    chunk = max(1, _CHUNK_NUMBERS // max(1, numbers_per_slot))
    total = torch.zeros((), dtype=torch.float64, device=x.device)
    for start in range(0, x.shape[-3], chunk):
        slots = (z[..., start : start + chunk, :, :].to(torch.complex128).resolve_conj() for z in (x, y))
        a, b = (torch.view_as_real(z).flatten(start_dim=-4) for z in slots)
        total = total + a @ b.mT
    return total / (x.shape[-3] * x.shape[-1])


def decorrelate(gram: Tensor, *, noise: float) -> Decorrelation:
    r"""Compute the coefficients that estimate counts from the scores of correlated hypervectors.

    Hypervectors that are equal up to rounding cannot be distinguished. Each of them gets the count of all together,
    and its leakage and bias report this.

    Parameters
    ----------
    gram
        Similarities of the hypervectors, from :func:`gram_matrix`.
    noise
        ``Space.noise_std``. Its square is the regularisation :math:`\lambda`.

    Shapes
    ------
    gram: ``(*batch, n, n)``; see :class:`Decorrelation` for the output
    """
    # Only the first of several equal hypervectors is solved for; the others copy its row.
    first = (gram > IDENTICAL).int().argmax(dim=-1)
    identity = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    is_first = first == torch.arange(len(identity), device=first.device)
    g = torch.where(is_first[..., :, None] & is_first[..., None, :], gram, identity)
    a = torch.linalg.inv(g + noise**2 * identity)
    c = a / (a @ g).diagonal(dim1=-2, dim2=-1)[..., None]
    c = c.gather(-2, first[..., None].expand_as(c))
    return Decorrelation(c, c @ gram)


def weighted_sums(coefficients: Tensor, vectors: Tensor) -> Tensor:
    """Return sums of hypervectors with real coefficients.

    Shapes
    ------
    coefficients: ``(*batch, k, n)``; vectors: ``(*batch, n, dim, m, m)``; output: ``(*batch, k, dim, m, m)``
    """
    rows = torch.view_as_real(vectors.resolve_conj()).flatten(start_dim=-4)
    sums = coefficients.to(rows.dtype) @ rows
    return torch.view_as_complex(sums.reshape(*coefficients.shape[:-1], *vectors.shape[-3:], 2))
