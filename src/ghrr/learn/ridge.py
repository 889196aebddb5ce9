r"""Ridge regression from sums over batches, with the penalty chosen by generalised cross-validation.

Minimises :math:`\sum_i w_i \|y_i - W^\top z_i - b\|^2 + \alpha \|W\|^2`. Everything follows from the sums of
:math:`w_i z_i z_i^\top`, :math:`w_i z_i y_i^\top` and their means, so features are made in batches and never stored
together, and more samples can be added later. With fewer samples than features the same solution comes from the Gram
matrix of the samples, which is smaller.

A weight of 2 gives exactly the result of a duplicated sample; the choice of the penalty keeps this law.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ghrr.checks import value_error, warn
from ghrr.learn.repeats import directions, independent_count, sample_keys

Batch = tuple[Tensor, Tensor, Tensor]  # features (n, f), targets (n, outputs), sample weights (n,)

# Penalties to choose from, in units of the mean squared length of the centred features.
CLASS_PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2)
NUMBER_PENALTIES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
_BLOCK = 1024  # columns of the Gram matrix computed at a time, to use its symmetry


@dataclass(frozen=True)
class RidgeSolution:
    """Solution of a ridge regression.

    Parameters
    ----------
    weights
        Matrix W, ``(features, outputs)``, in double precision.
    intercept
        Vector b, ``(outputs,)``.
    alpha
        Penalty, in units of the mean squared length of the centred features.
    shrinkage
        Effective number of parameters over the number of independent samples. A residual of the training data divided
        by ``1 - shrinkage`` estimates the residual of new data.
    error
        Generalised cross-validation error: the estimated squared residual of new data.
    """

    weights: Tensor
    intercept: Tensor
    alpha: float
    shrinkage: float
    error: float

    def __call__(self, features: Tensor) -> Tensor:
        r"""Return :math:`W^\top z + b` for each row of features."""
        weights = self.weights.to(features.dtype)
        return torch.addmm(self.intercept.to(features.dtype), features, weights)


class NormalEquations:
    r"""Weighted sums over samples from which ridge regression follows, in double precision.

    Memory is quadratic in the number of features and does not depend on the number of samples.

    Parameters
    ----------
    n_features, n_outputs
        Width of features and targets.
    device
        Device of the sums.

    Notes
    -----
    ``independent`` is the number of independent samples, less than ``count`` if some are copies of others. The caller
    counts it, because copies can be in different batches; 0 stands for ``count``, the sum of the weights.

    The means of the first batch are subtracted from all samples. Otherwise the sums of features that are large against
    their differences would lose these differences.

    Examples
    --------
    >>> import torch
    >>> from ghrr.learn.ridge import NormalEquations
    >>> x = torch.tensor([[0.0], [1.0], [2.0]])
    >>> sums = NormalEquations(1, 1)
    >>> sums.add(x, 3 * x + 1, torch.ones(3))
    >>> solution = sums.solve([1e-9])
    >>> [round(value.item(), 3) for value in (solution.weights, solution.intercept)]
    [3.0, 1.0]
    """

    def __init__(self, n_features: int, n_outputs: int, device: torch.device | str | None = None) -> None:
        double = {"dtype": torch.float64, "device": device}
        self.rounding, self.independent = 0.0, 0.0
        self.feature_shift: Tensor | None = None
        self.target_shift: Tensor | None = None
        self.gram = torch.zeros(n_features, n_features, **double)  # type: ignore[arg-type]
        self.cross = torch.zeros(n_features, n_outputs, **double)  # type: ignore[arg-type]
        self.feature_sum = torch.zeros(n_features, **double)  # type: ignore[arg-type]
        self.target_sum = torch.zeros(n_outputs, **double)  # type: ignore[arg-type]
        self.target_squares = torch.zeros((), **double)  # type: ignore[arg-type]
        self.count = torch.zeros((), **double)  # type: ignore[arg-type]

    def add(self, features: Tensor, targets: Tensor, weights: Tensor, *, dtype: torch.dtype = torch.float64) -> None:
        """Add samples: features ``(n, f)``, targets ``(n, outputs)`` and their weights ``(n,)``.

        ``dtype`` is the precision of the products of these samples. Small penalties need double precision.
        """
        weights, targets = weights.double(), targets.double()
        if self.feature_shift is None or self.target_shift is None:
            # Rounded to the precision of the features, so that the subtraction of nearby numbers is exact.
            self.feature_shift = features.mean(dim=0, dtype=torch.float64).to(features.dtype).double()
            self.target_shift = targets.mean(dim=0)
        self.rounding = max(self.rounding, 4 * torch.finfo(features.dtype).eps)
        features = (features - self.feature_shift.to(features.dtype)).to(dtype)
        targets = targets - self.target_shift
        weighted = features * weights[:, None].to(features.dtype)
        for start in range(0, features.shape[1], _BLOCK):
            stop = start + _BLOCK
            self.gram[start:stop, :stop] += weighted[:, start:stop].mT @ features[:, :stop]
        self.cross += weighted.mT @ targets.to(features.dtype)
        self.feature_sum += weighted.sum(dim=0, dtype=torch.float64)
        self.target_sum += weights @ targets
        self.target_squares += (weights[:, None] * targets.square()).sum()
        self.count += weights.sum()

    def solve(self, alphas: Sequence[float]) -> RidgeSolution:
        """Solve for the penalty with the lowest generalised cross-validation error, of several.

        Penalties are in units of the mean squared length of the centred features.
        """
        if self.feature_shift is None or self.target_shift is None:
            raise value_error("there are no samples, expected at least one; call add first")
        feature_mean, target_mean = self.feature_sum / self.count, self.target_sum / self.count
        centred = self.gram.tril()  # large: changed in place
        centred += centred.tril(-1).mT
        centred.addr_(feature_mean, feature_mean, alpha=-float(self.count))
        cross = self.cross - self.count * torch.outer(feature_mean, target_mean)
        squares = self.target_squares - self.count * target_mean.square().sum()
        feature_mean, target_mean = feature_mean + self.feature_shift, target_mean + self.target_shift
        raw = float(centred.trace() + self.count * feature_mean.square().sum())
        counts = float(self.count), self.independent or float(self.count)
        best = _lowest_error(centred, cross, squares, counts, alphas, dual=False, rounding=self.rounding**2 * raw)
        return best.with_intercept(best.solution, feature_mean, target_mean)


def solve_dual(
    batches: Iterable[Batch], alphas: Sequence[float], *, dtype: torch.dtype = torch.float64
) -> RidgeSolution:
    """Solve from the Gram matrix of the samples: the same solution, for fewer samples than features.

    ``dtype`` is the precision of the products of features. Small penalties need double precision.
    """
    features, targets, weights = (torch.cat(columns) for columns in zip(*batches, strict=True))
    roots, count = weights.double().sqrt()[:, None], weights.double().sum()
    parts = torch.split(features, _BLOCK, dim=1)
    feature_mean = torch.cat([weights.double() @ part.double() for part in parts]) / count
    target_mean = weights.double() @ targets.double() / count
    goals = (targets.double() - target_mean) * roots
    gram = goals.new_zeros(len(features), len(features))
    # In blocks, so that the features are not stored in double precision. The upper triangle is not used.
    for part, mean in zip(parts, torch.split(feature_mean, _BLOCK), strict=True):
        rows = ((part.double() - mean) * roots).to(dtype)
        for start in range(0, len(rows), _BLOCK):
            stop = start + _BLOCK
            gram[start:stop, :stop] += rows[start:stop] @ rows[:stop].mT
    counts = float(count), independent_count(sample_keys(features), targets, weights)
    best = _lowest_error(gram, goals, goals.square().sum(), counts, alphas, dual=True)
    weighted = roots * best.solution
    total = weighted.sum(dim=0)
    solution = torch.cat(
        [
            part.double().mT @ weighted - torch.outer(mean, total)
            for part, mean in zip(parts, torch.split(feature_mean, _BLOCK), strict=True)
        ]
    )
    return best.with_intercept(solution, feature_mean, target_mean)


def solve_sparse(features: Any, targets: Tensor, weights: Tensor, alphas: Sequence[float]) -> RidgeSolution:
    """Solve as :func:`solve_dual` for a sparse matrix of SciPy, which stays sparse: only the Gram matrix is dense.

    Examples
    --------
    >>> import scipy.sparse, torch
    >>> from ghrr.learn.ridge import solve_dual, solve_sparse
    >>> x, y = torch.eye(3), torch.tensor([[0.0], [1.0], [2.0]])
    >>> sparse = solve_sparse(scipy.sparse.csr_matrix(x.numpy()), y, torch.ones(3), [1.0])
    >>> torch.allclose(sparse.weights, solve_dual([(x, y, torch.ones(3))], [1.0]).weights)
    True
    """
    features, device = features.astype(np.float64), targets.device
    weights, targets = weights.double(), targets.double()
    count = weights.sum()
    shares = weights / count
    feature_mean = torch.as_tensor(features.T @ shares.numpy(force=True)).to(device)
    target_mean = shares @ targets
    roots = weights.sqrt()[:, None]
    goals = (targets - target_mean) * roots
    gram = torch.as_tensor((features @ features.T).toarray()).to(device)
    means = gram @ shares
    gram += shares @ means - means - means[:, None]  # of the features less their means
    gram *= roots * roots.mT
    lengths = np.sqrt(np.asarray(features.multiply(features).sum(axis=1)).reshape(-1, 1))
    keys = torch.as_tensor(np.hstack([features @ directions(features.shape[1]).numpy(), lengths])).to(device)
    counts = float(count), independent_count(keys, targets, weights)
    best = _lowest_error(gram, goals, goals.square().sum(), counts, alphas, dual=True)
    weighted = roots * best.solution
    solution = torch.as_tensor(features.T @ weighted.numpy(force=True)).to(device)
    solution -= torch.outer(feature_mean, weighted.sum(dim=0))
    return best.with_intercept(solution, feature_mean, target_mean)


@dataclass(frozen=True)
class _Candidate:
    solution: Tensor
    alpha: float
    shrinkage: float
    error: float

    def with_intercept(self, weights: Tensor, feature_mean: Tensor, target_mean: Tensor) -> RidgeSolution:
        return RidgeSolution(weights, target_mean - feature_mean @ weights, self.alpha, self.shrinkage, self.error)


def _lowest_error(
    gram: Tensor,
    right: Tensor,
    squares: Tensor,
    counts: tuple[float, float],
    alphas: Sequence[float],
    *,
    dual: bool,
    rounding: float = -1.0,
) -> _Candidate:
    """Solve (gram + alpha I) x = right for several penalties, and return the one with the lowest error.

    ``counts`` are the sum of the weights and the number of independent samples. Features whose squares add up to no
    more than ``rounding`` are taken as constant.
    """
    spread = float(gram.trace())
    unit = spread / counts[0] or 1.0
    if spread <= rounding:
        if counts[0] > 1:
            warn(
                "the features are constant within rounding, so the mean of the targets is predicted; if they should "
                "differ, scale the input first, for example with StandardScaler"
            )
        shrinkage = min(1 / counts[1], 1 - 1e-6)
        return _Candidate(torch.zeros_like(right), min(alphas), shrinkage, float(squares) / counts[0])
    solve = functools.partial(_solve, gram, right, squares, counts, unit=unit, dual=dual)
    best = _descend(solve, sorted(alphas))
    if not best.error < float("inf"):
        raise value_error(f"the equations cannot be solved with a penalty of {best.alpha}; use a larger one")
    return best


def _descend(solve: Callable[[float], _Candidate], alphas: Sequence[float]) -> _Candidate:
    """Return the candidate of the penalty from which the error rises in both directions, starting in the middle.

    The error has one minimum in most cases, and this solves for half of the penalties or fewer.
    """
    place = len(alphas) // 2
    best = solve(alphas[place])
    for step in (1, -1):
        start = place
        while 0 <= place + step < len(alphas):
            candidate = solve(alphas[place + step])
            if not candidate.error < best.error:
                break
            best, place = candidate, place + step
        if place != start:
            break
    return best


def _solve(
    gram: Tensor, right: Tensor, squares: Tensor, counts: tuple[float, float], alpha: float, *, unit: float, dual: bool
) -> _Candidate:
    r"""Solve for one penalty; the error is :math:`\frac{\mathrm{RSS}/N}{(1 - d/n)^2}` with d effective parameters.

    N is the sum of the weights, and n the number of independent samples: leaving one out leaves out its copies.

    The eigenvalues s of the Gram matrix give :math:`d = 1 + \sum s/(s + \alpha)`, which is
    :math:`1 + k - \alpha\,\mathrm{tr}(K + \alpha I)^{-1}` for a k x k matrix in both forms.
    """
    penalty = alpha * unit
    shifted = gram.clone()
    shifted.diagonal().add_(penalty)
    factor, failed = torch.linalg.cholesky_ex(shifted)
    del shifted  # with thousands of features, each of these matrices takes hundreds of megabytes
    solution = torch.cholesky_solve(right, factor)
    parameters = 1 + len(gram) - penalty * _trace_of_inverse(factor)
    if dual:
        residual = penalty**2 * solution.square().sum()
    else:
        residual = squares - 2 * (solution * right).sum() + (solution * (gram @ solution)).sum()
    shrinkage = min(parameters / counts[1], 1 - 1e-6)
    error = max(float(residual), 0.0) / counts[0] / (1 - shrinkage) ** 2
    return _Candidate(solution, alpha, shrinkage, float("inf") if failed else error)


def _trace_of_inverse(factor: Tensor) -> float:
    r"""Return :math:`\mathrm{tr}(L L^\top)^{-1} = \|L^{-1}\|^2`.

    ``torch.cholesky_inverse`` takes ten times as long on a CPU.
    """
    total = 0.0
    for start in range(0, len(factor), _BLOCK):  # some columns of the inverse, which is 0 above the diagonal
        columns = factor.new_zeros(len(factor) - start, min(_BLOCK, len(factor) - start))
        columns.fill_diagonal_(1.0)
        total += float(torch.linalg.solve_triangular(factor[start:, start:], columns, upper=False).square().sum())
    return total
