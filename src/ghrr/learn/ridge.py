r"""Ridge regression from sums over batches, with the penalty chosen by generalised cross-validation.

Minimises :math:`\sum_i w_i \|y_i - W^\top z_i - b\|^2 + \alpha \|W\|^2`. Everything follows from the sums of
:math:`w_i z_i z_i^\top`, :math:`w_i z_i y_i^\top` and their means, so features are made in batches and never stored
together, and more samples can be added later. With fewer samples than features the same solution comes from the Gram
matrix of the samples, which is smaller.

A weight of 2 gives exactly the result of a duplicated sample; the choice of the penalty keeps this law.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Batch = tuple[Tensor, Tensor, Tensor]  # features (n, f), targets (n, outputs), sample weights (n,)

# Penalties to choose from, in units of the mean squared length of the centred features.
CLASS_PENALTIES = (1e-2, 1e-1, 1.0, 1e1, 1e2)
NUMBER_PENALTIES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
# Share of the squares of the features that rounding may leave after subtraction of the mean, in single precision.
_ROUNDING = 1e-6
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
        Effective number of parameters over the number of samples. A residual of the training data divided by
        ``1 - shrinkage`` estimates the residual of new data.
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
        self.gram = torch.zeros(n_features, n_features, **double)  # type: ignore[arg-type]
        self.cross = torch.zeros(n_features, n_outputs, **double)  # type: ignore[arg-type]
        self.feature_sum = torch.zeros(n_features, **double)  # type: ignore[arg-type]
        self.target_sum = torch.zeros(n_outputs, **double)  # type: ignore[arg-type]
        self.target_squares = torch.zeros((), **double)  # type: ignore[arg-type]
        self.count = torch.zeros((), **double)  # type: ignore[arg-type]

    def add(self, features: Tensor, targets: Tensor, weights: Tensor) -> None:
        """Add samples: features ``(n, f)``, targets ``(n, outputs)`` and their weights ``(n,)``."""
        weighted = features * weights[:, None].to(features.dtype)
        for start in range(0, features.shape[1], _BLOCK):
            stop = start + _BLOCK
            self.gram[start:stop, :stop] += weighted[:, start:stop].mT @ features[:, :stop]
        self.cross += weighted.mT @ targets.to(features.dtype)
        self.feature_sum += weighted.sum(dim=0, dtype=torch.float64)
        weights, targets = weights.double(), targets.double()
        self.target_sum += weights @ targets
        self.target_squares += (weights[:, None] * targets.square()).sum()
        self.count += weights.sum()

    def solve(self, alphas: Sequence[float]) -> RidgeSolution:
        """Solve for the penalty with the lowest generalised cross-validation error, of several.

        Penalties are in units of the mean squared length of the centred features.
        """
        feature_mean, target_mean = self.feature_sum / self.count, self.target_sum / self.count
        centred = self.gram.tril()  # large: changed in place
        centred += centred.tril(-1).mT
        centred.addr_(feature_mean, feature_mean, alpha=-float(self.count))
        cross = self.cross - self.count * torch.outer(feature_mean, target_mean)
        squares = self.target_squares - self.count * target_mean.square().sum()
        raw = float(self.gram.trace())
        best = _lowest_error(centred, cross, squares, float(self.count), alphas, dual=False, rounding=_ROUNDING * raw)
        return best.with_intercept(best.solution, feature_mean, target_mean)


def solve_dual(batches: Iterable[Batch], alphas: Sequence[float]) -> RidgeSolution:
    """Solve from the Gram matrix of the samples: the same solution, for fewer samples than features."""
    features, targets, weights = (torch.cat(columns) for columns in zip(*batches, strict=True))
    roots, count = weights.double().sqrt()[:, None], weights.double().sum()
    parts = torch.split(features, _BLOCK, dim=1)
    feature_mean = torch.cat([weights.double() @ part.double() for part in parts]) / count
    target_mean = weights.double() @ targets.double() / count
    goals = (targets.double() - target_mean) * roots
    gram = goals.new_zeros(len(features), len(features))
    # In blocks, so that the features are not stored in double precision.
    for part, mean in zip(parts, torch.split(feature_mean, _BLOCK), strict=True):
        rows = (part.double() - mean) * roots
        gram.addmm_(rows, rows.mT)
    best = _lowest_error(gram, goals, goals.square().sum(), float(count), alphas, dual=True)
    weighted = roots * best.solution
    total = weighted.sum(dim=0)
    solution = torch.cat(
        [
            part.double().mT @ weighted - torch.outer(mean, total)
            for part, mean in zip(parts, torch.split(feature_mean, _BLOCK), strict=True)
        ]
    )
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
    count: float,
    alphas: Sequence[float],
    *,
    dual: bool,
    rounding: float = 0.0,
) -> _Candidate:
    """Solve (gram + alpha I) x = right for each penalty, and return the one with the lowest error.

    Features whose squares add up to no more than ``rounding`` are taken as constant if there is no other solution.
    """
    spread = float(gram.trace())
    unit = spread / count or 1.0
    candidates = (_solve(gram, right, squares, count, alpha, unit, dual=dual) for alpha in alphas)
    best = min(candidates, key=lambda candidate: candidate.error)
    if best.error < float("inf"):
        return best
    if not spread <= rounding:  # also for NaN
        raise ValueError(f"ridge: the equations cannot be solved with a penalty of {best.alpha}; use a larger one")
    if count > 1:
        warnings.warn(
            "ridge: the features are constant within rounding, so the mean of the targets is predicted; if they should "
            "differ, scale the input first, for example with StandardScaler",
            stacklevel=2,
        )
    return _Candidate(torch.zeros_like(right), best.alpha, min(1 / count, 1 - 1e-6), float(squares) / count)


def _solve(  # noqa: PLR0917
    gram: Tensor, right: Tensor, squares: Tensor, count: float, alpha: float, unit: float, *, dual: bool
) -> _Candidate:
    r"""Solve for one penalty; the error is :math:`\frac{\mathrm{RSS}/N}{(1 - d/N)^2}` with d effective parameters.

    The eigenvalues s of the Gram matrix give :math:`d = 1 + \sum s/(s + \alpha)`, which is
    :math:`1 + n - \alpha\,\mathrm{tr}(K + \alpha I)^{-1}` for an n x n matrix in both forms.
    """
    penalty = alpha * unit
    shifted = gram.clone()
    shifted.diagonal().add_(penalty)
    factor, failed = torch.linalg.cholesky_ex(shifted)
    del shifted  # with thousands of features, each of these matrices takes hundreds of megabytes
    solution = torch.cholesky_solve(right, factor)
    parameters = 1 + len(gram) - penalty * float(torch.cholesky_inverse(factor).trace())
    if dual:
        residual = penalty**2 * solution.square().sum()
    else:
        residual = squares - 2 * (solution * right).sum() + (solution * (gram @ solution)).sum()
    shrinkage = min(parameters / count, 1 - 1e-6)
    error = max(float(residual), 0.0) / count / (1 - shrinkage) ** 2
    return _Candidate(solution, alpha, shrinkage, float("inf") if failed else error)
