"""Regressor: one hypervector per target."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.utils import Tags, check_array
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_consistent_length
from torch import Tensor

from ghrr.checks import check_device, names_errors, value_error
from ghrr.learn.base import as_array
from ghrr.learn.gradient_training import GradientTraining, squared_error
from ghrr.learn.linear_model import Array, LinearOnFeatures, checked_weights, take
from ghrr.learn.ridge import NUMBER_PENALTIES, RidgeSolution


@names_errors
class HDRegressor(RegressorMixin, LinearOnFeatures):  # type: ignore[misc]
    r"""Predict numbers by one hypervector per target: a linear regression on the features of an encoder.

    ``training`` is the method that finds the vectors:

    - ``"ridge"`` (default): least squares in closed form, with the penalty chosen by generalised cross-validation. With
      :class:`KernelFeatures` this approximates kernel ridge regression, at a cost linear in the number of samples.
    - ``"online"``: least squares by Adam, in batches. It needs no matrix of the size of the features squared, so it is
      for very large dimensions. Early stopping takes the place of the penalty.

    Parameters
    ----------
    encoder
        ``"auto"`` (default) chooses an encoder that fits the samples: arrays, tables, texts, images, series or graphs
        (see :func:`ghrr.learn.auto_encoder.choose_encoder`). Otherwise a transformer to features, for example
        :class:`KernelFeatures`, or ``"passthrough"`` if the input is already encoded. None is a
        :class:`KernelFeatures` with 1,024 slots.
    training
        ``"ridge"`` or ``"online"``.
    alpha
        Penalty of the ridge regression, in units of the mean squared length of the centred features, or ``"gcv"`` to
        choose it by generalised cross-validation.
    max_epochs, learning_rate, batch_size
        Most passes over the data, size of the updates and samples per update, for ``"online"``.
    early_stopping
        For ``"online"``: hold out ``validation_fraction`` of the samples and stop when ``patience`` epochs bring no
        improvement.
    validation_fraction, patience
        Settings of early stopping.
    random_state
        Seed of the default encoder and of the order of samples.
    device
        Device that trains and predicts.
    verbose
        1 reports epochs, 2 also batches, on standard error.

    Attributes
    ----------
    target_vectors_
        One vector per target, ``(targets, features)``.
    intercept_
        Constants, ``(targets,)``.
    encoder_
        The fitted encoder, None for ``"passthrough"``.
    alpha_
        Penalty that was chosen, for ``"ridge"``.
    n_iter_
        Passes over the data.

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
        "encoder": [StrOptions({"auto", "passthrough"}), None, HasMethods(["fit", "transform"])],
        "training": [StrOptions({"ridge", "online"})],
        "alpha": [StrOptions({"gcv"}), Interval(Real, 0, None, closed="neither")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "patience": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "device": [str, torch.device, None],
        "verbose": ["verbose"],
    }

    _descent: GradientTraining | None
    _dtype = torch.float64
    _penalties = NUMBER_PENALTIES

    def __init__(
        self,
        encoder: Any = "auto",
        *,
        training: str = "ridge",
        alpha: Any = "gcv",
        max_epochs: int = 100,
        learning_rate: float = 0.05,
        batch_size: int = 256,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 5,
        random_state: Any = None,
        device: Any = None,
        verbose: int = 0,
    ) -> None:
        self.encoder = encoder
        self.training = training
        self.alpha = alpha
        self.max_epochs = max_epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the vectors of the targets: ``y`` is ``(n,)`` or ``(n, targets)``.

        Weights of samples are counts, as in :class:`HDClassifier`.
        """
        self._validate_params()
        y, targets = self._check_targets(X, y)
        weights = checked_weights(sample_weight, X, y)
        kept = np.flatnonzero(weights > 0)
        samples = self._fit_encoder(take(X, kept), y[kept], weights[kept])
        self._one_target = y.ndim == 1
        targets, weights = targets[kept], weights[kept]
        self._sums = self._descent = None
        if self.training == "ridge":
            self._use_ridge(self._solve_ridge(samples, targets, weights))
            return self
        self._start_at_mean(samples, targets, weights)
        descent = self._descend(samples, weights)
        self._train(
            descent, samples, (self._standardize(targets), weights), *self._split(samples, targets[:, 0], weights)
        )
        self._use_descent(descent)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from one more batch of samples; the encoder is fitted on the first one.

        Ridge regression gives the same result as one fit on all batches, up to the encoder and the penalty, which is
        chosen again whenever the number of samples has doubled. After :meth:`fit`, which keeps no sums of its samples,
        it starts anew with a warning. Online training makes one pass over the batch. Copies in other batches count as
        new samples.
        """
        self._validate_params()
        y, targets = self._check_targets(X, y)
        weights = checked_weights(sample_weight, X, y)
        first = not hasattr(self, "encoder_")
        if not first and targets.shape[1] != len(self.target_vectors_):
            raise value_error(
                f"y must have {len(self.target_vectors_)} targets as in the first batch, got {targets.shape[1]}"
            )
        samples = self._fit_encoder(X, y, weights) if first else self._check_samples(X)
        self._one_target = y.ndim == 1
        passes = getattr(self, "n_iter_", 0) + 1
        if self.training == "ridge":
            self._use_ridge(self._add_to_sums(samples, targets, weights))
        else:
            self._add_to_online(samples, targets, weights, passes)
        self.n_iter_ = passes
        return self

    def _add_to_online(self, samples: Any, targets: Array, weights: Array, passes: int) -> None:
        if not hasattr(self, "_scale"):
            self._start_at_mean(samples, targets, weights)
        descent = self._descent = getattr(self, "_descent", None) or self._descend(samples, weights)
        goals = self._standardize(targets)
        descent.epoch(self._shuffled(self._feature_source(samples), (goals, weights), self._order(passes)))
        self._use_descent(descent)

    def _use_ridge(self, solution: RidgeSolution) -> None:
        self.alpha_, self.n_iter_ = solution.alpha, 1
        self._set_vectors(solution.weights, solution.intercept)

    def _start_at_mean(self, samples: Any, targets: Array, weights: Array) -> None:
        """Set vectors that predict the mean of the targets, and find the scale of the targets."""
        center = np.average(targets, axis=0, weights=weights)
        deviations = np.sqrt(np.average(np.square(targets - center), axis=0, weights=weights))
        self._center, self._scale = center, np.where(deviations > 0, deviations, 1.0)
        device = check_device(self.device)
        zeros = torch.zeros(self._width(samples), targets.shape[1], dtype=torch.float64, device=device)
        self._set_vectors(zeros, torch.as_tensor(center).to(device))

    def _standardize(self, targets: Array) -> Array:
        standard: Array = (targets - self._center) / self._scale
        return standard

    def _descend(self, samples: Any, weights: Array) -> GradientTraining:
        """Return training on standardised targets that starts at the present vectors."""
        center, scale = (torch.as_tensor(part).to(self.intercept_) for part in (self._center, self._scale))
        start = self.target_vectors_.mT / scale, (self.intercept_ - center) / scale
        features_center = self._feature_center(samples, weights)
        return GradientTraining(*start, squared_error, rate=self.learning_rate, center=features_center)

    def _use_descent(self, training: GradientTraining) -> None:
        weights, intercept = training.solution()
        center, scale = (torch.as_tensor(part).to(intercept) for part in (self._center, self._scale))
        self._set_vectors(weights * scale, intercept * scale + center)

    def _check_targets(self, X: Any, y: Any) -> tuple[Array, Array]:
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        y = check_array(as_array(y), ensure_2d=False, dtype=np.float64, input_name="y")
        check_consistent_length(X, y)
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
