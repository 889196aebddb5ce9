"""Means over random rotations in closed form."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor


def mean_commutativity(first: Tensor, second: Tensor) -> Tensor:
    """Compute the mean degree of commutativity over uniform phases, for given rotations Q and R.

    In tr(QΛRM (RMQΛ)†) = Σ Q_ab λ_b R_bc μ_c conj(R_ae μ_e Q_ec λ_c), the mean over λ leaves the terms with c = b, and
    the mean over μ those with e = b. The result is the real part of Σ_b R_bb conj(Q_bb) Σ_a Q_ab conj(R_ab) / m.

    Shapes
    ------
    ``first``, ``second``: ``(*, m, m)``. Result: ``(*)``.
    """
    diagonals = [torch.diagonal(q, dim1=-2, dim2=-1) for q in (first, second)]
    relative = (second.conj() * first).sum(dim=-2)
    return (diagonals[0].conj() * diagonals[1] * relative).real.mean(dim=-1)


def _hermite_elements(m: int, t: float) -> np.ndarray[Any, Any]:
    """Compute the absolute matrix elements of exp(itx) between the first m Hermite functions.

    The eigenvalues of a Hermitian Gaussian matrix H with E|H_jk|² = 1 form a determinantal process of these functions.
    The elements are |M_jk| = e^{-t²/2} (j!/k!)^½ t^{k-j} |L_j^{(k-j)}(t²)| for j ≤ k, with Laguerre polynomials L. The
    diagonal elements keep their sign.
    """
    elements = np.zeros((m, m))
    for j, k in itertools.combinations_with_replacement(range(m), 2):
        laguerre = sum((-(t**2)) ** i * math.comb(k, j - i) / math.factorial(i) for i in range(j + 1))
        elements[j, k] = elements[k, j] = t ** (k - j) * laguerre / math.sqrt(math.perm(k, k - j))
    return math.exp(-(t**2) / 2) * elements


def mean_exponential(m: int, t: float = 1.0) -> float:
    """Compute the number a in E exp(itH) = a·1, for a Hermitian Gaussian m x m matrix H with E|H_jk|² = 1."""
    return float(np.trace(_hermite_elements(m, t))) / m


def mean_square_diagonal(m: int, t: float = 1.0) -> float:
    """Compute E|Q_bb|² for Q = exp(itH), with H as in :func:`mean_exponential`.

    Invariance under H → UHU† gives (m + E|tr Q|²)/(m(m + 1)). The determinantal process gives E|tr Q|² = m + (Σ_j
    M_jj)² - Σ_jk |M_jk|². The mean commutativity of two such rotations is the square of E|Q_bb|², because other
    elements of a column have independent phases. The same holds for Haar rotations, for which E|Q_bb|² = 1/m.
    """
    elements = _hermite_elements(m, t)
    trace_square = m + np.trace(elements) ** 2 - np.square(elements).sum()
    return float(trace_square + m) / (m * (m + 1))
