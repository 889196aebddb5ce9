"""The encodings of the experiment on kernel shapes: how they turn, and their kernels exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

import ghrr
from ghrr.paper.rotation_theory import mean_exponential

Array = np.ndarray[Any, Any]

M, DTYPE = 3, torch.complex128
KERNELS: dict[str, Callable[[Array], Array]] = {
    "rbf": lambda d: np.exp(-(d**2) / 2),
    "laplace": lambda d: np.exp(-np.abs(d)),
    "sinc": lambda d: np.asarray(np.sinc(d)),
}
PAIR_WIDTHS, PAIR_SIGNS = (0.5, 1.0, 2.0), (1.0, 1.0, -1.0)
ADAPTIVE_WIDTHS, TURN = (2.0, 2.0, 0.5), 1.5
READINGS = SIGNED, PRODUCT, SIZE = "Re E Q_kk", "E r · E cos θ", "E r"  # ways to weight the kernels of a pair


def _rbf(widths: tuple[float, ...], d: Array) -> Array:
    return np.stack([KERNELS["rbf"](d / width) for width in widths])


def mixture(d: Array) -> Array:
    """One encoding, with one of the kernels for each entry of the diagonal: their mean."""
    return np.asarray(np.mean([kernel(d) for kernel in KERNELS.values()], axis=0))


def pair_rotations(slots: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Two encodings with Q₂†Q₁ = diag(s) in half of the slots, by chance, and diag(s) U, U Haar, in the others."""
    second, random = ghrr.unitary.haar(2, slots, m=M, generator=generator, dtype=DTYPE)
    same = torch.rand(slots, 1, 1, generator=generator) < 0.5
    relative = torch.where(same, torch.eye(M, dtype=DTYPE), random) * torch.tensor(PAIR_SIGNS)[:, None]
    return second @ relative, second


def pair(d: Array, weights: str = SIGNED) -> Array:
    """Kernel of this pair, which is SIGNED, and what other weights would make of it.

    E Q_kk = s_k/2. The size r of Q_kk is 1 or |U_kk|, and |U_kk|² is distributed as Beta(1, m - 1), so that E|U_kk| =
    Γ(3/2)Γ(m)/Γ(m + 1/2). The angle θ is that of s_k or uniform, so E cos θ = s_k/2 too; but r and θ depend on each
    other, and E r · E cos θ is too small.
    """
    size = (1 + math.gamma(1.5) * math.gamma(M) / math.gamma(M + 0.5)) / 2
    signed = np.divide(PAIR_SIGNS, 2)
    by_reading: dict[str, Array] = {SIGNED: signed, PRODUCT: size * signed, SIZE: np.full(M, size)}
    return np.asarray(by_reading[weights] @ _rbf(PAIR_WIDTHS, d) / M)


def pair_std(slots: int) -> float:
    """Deviation of the similarity of a pair at d = 0, when Q is drawn for this many slots.

    In each slot Re tr Q / m is the mean of s or, with U Haar, a number of mean 0 and variance 1/(2m²).
    """
    return math.sqrt((np.mean(PAIR_SIGNS) ** 2 + 1 / M**2) / 4 / slots)


def _turns(x: Any) -> Any:
    return TURN * x.clip(-1, 1)


def adaptive_rotations(x: Tensor, dim: int, generator: torch.Generator) -> Tensor:
    """Q(x) = A exp(i u(x) G), A Haar, G Gaussian in the first two coordinates, zero in the third; u stops at ±1."""
    gaussian = torch.complex(*torch.randn(2, dim, 2, 2, generator=generator, dtype=torch.float64))
    turns, places = torch.unique(_turns(x), return_inverse=True)  # beyond ±1 all are the same
    rotations = torch.eye(M, dtype=DTYPE).repeat(len(turns), dim, 1, 1)
    rotations[..., :2, :2] = ghrr.unitary.exp_hermitian(turns[:, None, None, None] * gaussian)
    return ghrr.bind(ghrr.unitary.haar(dim, m=M, generator=generator, dtype=DTYPE), rotations)[places]


def adaptive(x: Array, y: float, *, as_printed: bool = False) -> Array:
    """Kernel of this encoding: Q(y)†Q(x) = exp(i(u(x) - u(y)) G), of known mean.

    As printed in the paper it is Q(x)Q(y)† = A exp(…) A†, whose diagonal entries all have the same mean, the trace / m.
    """
    weight = [mean_exponential(2, float(t)) for t in _turns(x) - _turns(np.asarray(y))]
    weights = np.stack([weight, weight, np.ones(len(x))])
    if as_printed:
        weights = np.broadcast_to(weights.mean(axis=0), weights.shape)
    return np.asarray((weights * _rbf(ADAPTIVE_WIDTHS, x - y)).mean(axis=0))
