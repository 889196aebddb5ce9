"""The encodings of the experiment on kernel shapes, and their kernels in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

import ghrr
from ghrr_lab.paper.theory.rotations import mean_exponential

Array = np.ndarray[Any, Any]

M, DTYPE = 3, torch.complex128
KERNELS: dict[str, Callable[[Array], Array]] = {
    "rbf": lambda d: np.exp(-(d**2) / 2),
    "laplace": lambda d: np.exp(-np.abs(d)),
    "sinc": lambda d: np.asarray(np.sinc(d)),
}
PAIR_BANDWIDTHS, PAIR_SIGNS = (0.5, 1.0, 2.0), (1.0, 1.0, -1.0)
ADAPTIVE_BANDWIDTHS, ADAPTIVE_ANGLE = (2.0, 2.0, 0.5), 1.5
WEIGHTS = SIGNED, PRODUCT, SIZE = "Re E Q_kk", "E r · E cos θ", "E r"  # possible weights of the kernels of a pair


def _rbf(bandwidths: tuple[float, ...], d: Array) -> Array:
    return np.stack([KERNELS["rbf"](d / bandwidth) for bandwidth in bandwidths])


def mixture(d: Array) -> Array:
    """Kernel of one encoding whose diagonal entries have different kernels: their mean."""
    return np.asarray(np.mean([kernel(d) for kernel in KERNELS.values()], axis=0))


def pair_rotations(slots: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw rotations Q₁, Q₂ of a pair of encodings.

    Q₂†Q₁ is diag(s) in half of the slots, chosen at random, and diag(s) U with a Haar matrix U in the others.
    """
    second, random = ghrr.unitary.haar(2, slots, m=M, generator=generator, dtype=DTYPE)
    same = torch.rand(slots, 1, 1, generator=generator) < 0.5
    relative = torch.where(same, torch.eye(M, dtype=DTYPE), random) * torch.tensor(PAIR_SIGNS)[:, None]
    return second @ relative, second


def pair(d: Array, weights: str = SIGNED) -> Array:
    """Kernel of the pair with the given weights; ``SIGNED`` is correct.

    E Q_kk = s_k/2. The size r of Q_kk is 1 or |U_kk|. Since |U_kk|² has the distribution Beta(1, m - 1), E|U_kk| =
    Γ(3/2)Γ(m)/Γ(m + 1/2). θ is the angle of s_k or uniform, so E cos θ = s_k/2. But r and θ are dependent, and
    E r · E cos θ is too small.
    """
    size = (1 + math.gamma(1.5) * math.gamma(M) / math.gamma(M + 0.5)) / 2
    signed = np.divide(PAIR_SIGNS, 2)
    values: dict[str, Array] = {SIGNED: signed, PRODUCT: size * signed, SIZE: np.full(M, size)}
    return np.asarray(values[weights] @ _rbf(PAIR_BANDWIDTHS, d) / M)


def pair_std(slots: int) -> float:
    """Standard deviation of the similarity of a pair at d = 0 if Q is drawn for this many slots.

    In each slot, Re tr Q / m is the mean of s or, for a Haar matrix, has mean 0 and variance 1/(2m²).
    """
    return math.sqrt((np.mean(PAIR_SIGNS) ** 2 + 1 / M**2) / 4 / slots)


def _angle(x: Any) -> Any:
    return ADAPTIVE_ANGLE * x.clip(-1, 1)


def adaptive_rotations(x: Tensor, dim: int, generator: torch.Generator) -> Tensor:
    """Draw input-dependent rotations Q(x) = A exp(i u(x) G).

    A is a Haar matrix, and G is Gaussian in the first two coordinates and zero in the third. The angle u(x) is
    proportional to x between -1 and 1, and constant outside.
    """
    gaussian = torch.complex(*torch.randn(2, dim, 2, 2, generator=generator, dtype=torch.float64))
    angles, indices = torch.unique(_angle(x), return_inverse=True)
    rotations = torch.eye(M, dtype=DTYPE).repeat(len(angles), dim, 1, 1)
    rotations[..., :2, :2] = ghrr.unitary.exp_hermitian(angles[:, None, None, None] * gaussian)
    return ghrr.bind(ghrr.unitary.haar(dim, m=M, generator=generator, dtype=DTYPE), rotations)[indices]


def adaptive(x: Array, y: float, *, as_printed: bool = False) -> Array:
    """Kernel of the encoding with input-dependent rotations.

    Its weights are the mean diagonal of Q(y)†Q(x) = exp(i(u(x) - u(y)) G). As printed in the paper, they are that of
    Q(x)Q(y)† = A exp(…) A†, whose diagonal entries all have the same mean, the trace divided by m.
    """
    weight = [mean_exponential(2, float(t)) for t in _angle(x) - _angle(np.asarray(y))]
    weights = np.stack([weight, weight, np.ones(len(x))])
    if as_printed:
        weights = np.broadcast_to(weights.mean(axis=0), weights.shape)
    return np.asarray((weights * _rbf(ADAPTIVE_BANDWIDTHS, x - y)).mean(axis=0))
