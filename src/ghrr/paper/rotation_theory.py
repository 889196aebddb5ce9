"""Means over random rotations in closed form, for the experiments on commutativity and on kernels."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor


def mean_commutativity(first: Tensor, second: Tensor) -> Tensor:
    """Mean degree of commutativity over uniform phases, for given rotations Q and R: ``(*, m, m)`` to ``(*)``.

    tr(QΛRM (RMQΛ)†) = Σ Q_ab λ_b R_bc μ_c conj(R_ae μ_e Q_ec λ_c): averaging over λ leaves c = b, over μ then e = b. So
    it is Σ_b R_bb conj(Q_bb) Σ_a Q_ab conj(R_ab), divided by m, and its real part.
    """
    diagonals = [torch.diagonal(q, dim1=-2, dim2=-1) for q in (first, second)]
    relative = (second.conj() * first).sum(dim=-2)
    return (diagonals[0].conj() * diagonals[1] * relative).real.mean(dim=-1)


def _hermite_elements(m: int, t: float) -> np.ndarray[Any, Any]:
    """Sizes of the elements of e^{itx} between the first m Hermite functions, by Laguerre polynomials at t².

    |M_jk| = e^{-t²/2} (j!/k!)^½ t^{k-j} |L_j^{(k-j)}(t²)| for j ≤ k; those with j = k keep their sign. The eigenvalues
    of a Hermitian Gaussian matrix H, E|H_jk|² = 1, are a determinantal process of these functions.
    """
    elements = np.zeros((m, m))
    for j, k in itertools.combinations_with_replacement(range(m), 2):
        laguerre = sum((-(t**2)) ** i * math.comb(k, j - i) / math.factorial(i) for i in range(j + 1))
        elements[j, k] = elements[k, j] = t ** (k - j) * laguerre / math.sqrt(math.perm(k, k - j))
    return math.exp(-(t**2) / 2) * elements


def mean_exponential(m: int, t: float = 1.0) -> float:
    """The number a in E exp(itH) = a·1, H a Hermitian Gaussian matrix of size m with E|H_jk|² = 1."""
    return float(np.trace(_hermite_elements(m, t))) / m


def mean_square_diagonal(m: int, t: float = 1.0) -> float:
    """E|Q_bb|² of Q = exp(itH), H as above.

    By invariance under H → UHU† it is (m + E|tr Q|²)/(m(m + 1)). For a determinantal process E|tr Q|² = m + (Σ_j M_jj)²
    - Σ_jk |M_jk|². The mean commutativity of two such rotations is its square, and so it is for Haar rotations, whose
    E|Q_bb|² is 1/m: other elements of a column have independent phases.
    """
    elements = _hermite_elements(m, t)
    trace_square = m + np.trace(elements) ** 2 - np.square(elements).sum()
    return float(trace_square + m) / (m * (m + 1))
