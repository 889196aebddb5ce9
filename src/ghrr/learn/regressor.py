"""Regressor: one hypervector per target."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.utils import Tags, check_array
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_consistent_length
from torch import Tensor

from ghrr.learn.linear_model import Array, LinearOnFeatures, checked_weights, take
from ghrr.learn.ridge import NUMBER_PENALTIES, NormalEquations


class HDRegressor(RegressorMixin, LinearOnFeatures):  # type: ignore[misc]
    r"""Predict numbers by one hypervector per target: ridge regression on the features of an encoder.

    With :class:`KernelFeatures` this approximates kernel ridge regression, at a cost linear in the number of samples.

    Parameters
    ----------
    encoder
        Transformer to features, or ``"passthrough"``. By default a :class:`KernelFeatures` with 1,024 slots.
    alpha
        Penalty, in units of the mean squared length of the centred features, or ``"gcv"`` to choose it by generalised
        cross-validation.
    random_state
        Seed of the default encoder.
    device
        Device that trains and predicts.
    verbose
        2 reports batches on standard error.

    Attributes
    ----------
    target_vectors_
        One vector per target, ``(targets, features)``.
    intercept_
        Constants, ``(targets,)``.
    encoder_
        The fitted encoder.
    alpha_
        Penalty that was chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.learn import HDRegressor
    >>> x = np.linspace(0, 6, 200)[:, None]
    >>> model = HDRegressor(random_state=0).fit(x, np.sin(x[:, 0]))
    >>> f"{model.predict([[1.5]])[0]:.2f} {np.sin(1.5):.2f}"
    '1.00 1.00'
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "encoder": [StrOptions({"passthrough"}), None, object],
        "alpha": [StrOptions({"gcv"}), Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
        "device": [str, torch.device, None],
        "verbose": ["verbose"],
    }

    _sums: NormalEquations | None
    _dtype = torch.float64
    _penalties = NUMBER_PENALTIES

    def __init__(
        self,
        encoder: Any = None,
        *,
        alpha: Any = "gcv",
        random_state: Any = None,
        device: Any = None,
        verbose: int = 0,
    ) -> None:
        self.encoder = encoder
        self.alpha = alpha
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the vectors of the targets: ``y`` is ``(n,)`` or ``(n, targets)``."""
        self._validate_params()
        y, targets = self._check_targets(X, y)
        weights = checked_weights(sample_weight, X, y)
        kept = np.flatnonzero(weights > 0)
        samples = self._fit_encoder(take(X, kept), y[kept], weights[kept])
        targets, weights = targets[kept], weights[kept]
        self._sums = None
        solution = self._solve_ridge(samples, targets, weights)
        self.alpha_ = solution.alpha
        self._set_vectors(solution.weights, solution.intercept)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from one more batch; the encoder is fitted on the first one."""
        self._validate_params()
        y, targets = self._check_targets(X, y)
        weights = checked_weights(sample_weight, X, y)
        first = not hasattr(self, "encoder_")
        samples = self._fit_encoder(X, y, weights) if first else self._check_samples(X)
        width = self._width(samples)
        sums = getattr(self, "_sums", None) or NormalEquations(width, targets.shape[1], self.device)
        for features, goals, shares in self._batches(samples, targets, weights, width=width):
            sums.add(features.to(self._dtype), goals, shares)
        self._sums = sums
        solution = sums.solve(self._penalties if isinstance(self.alpha, str) else [float(self.alpha)])
        self.alpha_ = solution.alpha
        self._set_vectors(solution.weights, solution.intercept)
        return self

    def _check_targets(self, X: Any, y: Any) -> tuple[Array, Array]:
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        check_consistent_length(X, y)
        self._one_target = y.ndim == 1
        return y, y.reshape(len(y), -1)

    def _set_vectors(self, weights: Tensor, intercept: Tensor) -> None:
        self.target_vectors_ = weights.mT.contiguous()
        self.intercept_ = intercept

    def predict(self, X: Any) -> Array:
        """Return the targets of each sample, ``(n,)`` or ``(n, targets)`` like ``y`` in :meth:`fit`."""
        values = self._apply(X, lambda z: torch.addmm(self.intercept_, z.double(), self.target_vectors_.mT))
        return values[:, 0] if self._one_target else values

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
