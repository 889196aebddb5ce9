"""Base class of the classifier and the regressor: features in batches, ridge regression, device and progress."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags, _safe_indexing
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, has_fit_parameter, validate_data
from torch import Tensor

from ghrr._checks import check_device
from ghrr.learn.base import FeatureEncoder, as_tensor, check_finite, n_samples, row_slices, seed_of
from ghrr.learn.gradient_training import GoalBatch, GradientTraining, train_with_early_stopping
from ghrr.learn.kernel_features import KernelFeatures
from ghrr.learn.ridge import Batch, NormalEquations, RidgeSolution, solve_dual

Array = NDArray[Any]
FeatureSource = Callable[[Array], Tensor]  # from indices of samples to their features
_STORED_NUMBERS = 1 << 27  # features kept for all epochs: 512 MiB


class LinearOnFeatures(BaseEstimator):  # type: ignore[misc]
    """Base of estimators that are linear in the features of an encoder.

    Subclasses have the parameters below, and a list of penalties to choose from, in units of the mean squared length of
    the centred features.
    """

    _sums: NormalEquations | None = None  # of a stream
    _penalties: ClassVar[tuple[float, ...]]
    _dtype: ClassVar[torch.dtype] = torch.float32  # of the sums of products; small penalties need double precision

    encoder: Any
    alpha: Any
    alpha_: float
    max_epochs: int
    learning_rate: Any
    batch_size: int
    early_stopping: bool
    validation_fraction: float
    patience: int
    random_state: Any
    device: Any
    verbose: Any
    encoder_: Any
    n_iter_: int

    # ---------------------------------------------------------------------------------------------------- features

    def _fit_encoder(self, X: Any, y: Any, weights: Array) -> Any:
        """Fit a copy of the encoder and return the samples that it takes."""
        check_device(type(self).__name__, self.device or "cpu")
        if isinstance(self.encoder, str):  # "passthrough"
            self.encoder_ = None
            return validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32])
        if self.encoder is None:
            chosen = KernelFeatures(random_state=self.random_state, device=self.device)
        else:
            chosen = clone(self.encoder)
        takes_weights = has_fit_parameter(chosen, "sample_weight")
        self.encoder_ = chosen.fit(X, y, sample_weight=weights) if takes_weights else chosen.fit(X, y)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.encoder_, name):
                setattr(self, name, getattr(self.encoder_, name))
        return self._check_samples(X)

    def _check_samples(self, X: Any) -> Any:
        if self.encoder_ is None:
            return validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        if not isinstance(self.encoder_, FeatureEncoder):
            return X
        return self.encoder_.check_samples(X)

    def _features(self, samples: Any) -> Tensor:
        """Return the features of one batch of checked samples."""
        encoder = self if self.encoder_ is None else self.encoder_
        if isinstance(encoder, FeatureEncoder):
            features = encoder.encode(samples).to(self.device or "cpu")
        else:
            made = samples if self.encoder_ is None else encoder.transform(samples)
            features = as_tensor(made.toarray() if hasattr(made, "toarray") else made, self.device)
        return check_finite(features, type(encoder).__name__)

    def _width(self, samples: Any) -> int:
        """Return the number of features."""
        if isinstance(self.encoder_, FeatureEncoder):
            return int(self.encoder_.n_features_out_)
        return int(self._features(samples[:1]).shape[1])

    def _batches(self, samples: Any, *columns: Array, width: int) -> Iterator[tuple[Tensor, ...]]:
        """Yield the features of each batch and the rows of the columns that belong to it."""
        count = n_samples(samples)
        for done, rows in enumerate(row_slices(count, width)):
            yield self._features(samples[rows]), *(torch.as_tensor(c[rows]).to(self.device or "cpu") for c in columns)
            self._report(f"{min(rows.stop, count):,} of {count:,} samples", level=2 if done else 3)

    def _report(self, message: str, level: int = 1) -> None:
        if int(self.verbose) >= level:
            print(f"[{type(self).__name__}] {message}", file=sys.stderr, flush=True)  # noqa: T201 (asked for by verbose)

    # ------------------------------------------------------------------------------------------------------- ridge

    def _solve_ridge(self, samples: Any, targets: Array, weights: Array) -> RidgeSolution:
        """Fit a ridge regression of the targets ``(n, outputs)`` on the features."""
        width = self._width(samples)
        alphas = self._penalties if isinstance(self.alpha, str) else [float(self.alpha)]
        batches: Iterator[Batch] = self._batches(samples, targets, weights, width=width)  # type: ignore[assignment]
        if n_samples(samples) <= width:
            return solve_dual(batches, alphas)
        sums = NormalEquations(width, targets.shape[1], self.device)
        for features, goals, shares in batches:
            sums.add(features.to(self._dtype), goals, shares)
        return sums.solve(alphas)

    def _add_to_sums(self, samples: Any, targets: Array, weights: Array) -> RidgeSolution:
        """Add a batch to the sums of a stream and solve again.

        The penalty is chosen again whenever the number of samples has doubled.
        """
        width = self._width(samples)
        if self._sums is None:
            if hasattr(self, "n_iter_"):
                warnings.warn(
                    f"{type(self).__name__}.partial_fit: forgets what fit learned, because fit keeps no sums of its "
                    f"samples; train a stream with partial_fit from its first batch",
                    stacklevel=3,
                )
            self._sums, self._chosen_at = NormalEquations(width, targets.shape[1], self.device), 0.0
        for features, goals, shares in self._batches(samples, targets, weights, width=width):
            self._sums.add(features.to(self._dtype), goals, shares)
        count = float(self._sums.count)
        if not isinstance(self.alpha, str):
            return self._sums.solve([float(self.alpha)])
        if count < 2 * self._chosen_at:
            return self._sums.solve([self.alpha_])
        self._chosen_at = count
        return self._sums.solve(self._penalties)

    # ------------------------------------------------------------------------------------------------------ epochs

    def _feature_source(self, samples: Any) -> FeatureSource:
        """Return a function from indices of samples to their features, which are stored if they fit in memory."""
        width = self._width(samples)
        if n_samples(samples) * width > _STORED_NUMBERS:
            return lambda rows: self._features(take(samples, rows))
        stored = torch.empty(n_samples(samples), width, device=self.device or "cpu")
        batches = self._batches(samples, np.arange(len(stored)), width=width)
        for features, rows in batches:
            stored[rows] = features
        return lambda rows: stored[torch.as_tensor(rows, device=stored.device)]

    def _shuffled(
        self, features_of: FeatureSource, columns: tuple[Array, Array], order: np.random.Generator
    ) -> Iterator[GoalBatch]:
        """Yield batches of ``batch_size`` samples in random order."""
        goals, weights = (torch.as_tensor(column).to(self.device or "cpu") for column in columns)
        shuffled = order.permutation(len(goals))
        for start in range(0, len(shuffled), self.batch_size):
            rows = shuffled[start : start + self.batch_size]
            index = torch.as_tensor(rows, device=goals.device)
            yield features_of(rows), goals[index], weights[index]

    def _split(self, goals: Array) -> tuple[Array, Array | None]:
        """Return the indices of the samples to train on and, with early stopping, of those to hold out."""
        if not self.early_stopping:
            return np.arange(len(goals)), None
        order = np.random.default_rng(seed_of(self.random_state)).permutation(len(goals))
        # Evenly spaced samples in the order of classes or targets: each class is held out in its proportion.
        ranked = order[np.argsort(goals[order], kind="stable")]
        count = min(max(1, round(self.validation_fraction * len(goals))), len(goals) - 1)
        held_out = ranked[((np.arange(count) + 0.5) * len(goals) / max(1, count)).astype(int)]
        return np.setdiff1d(np.arange(len(goals)), held_out), np.sort(held_out)

    def _train(
        self,
        training: GradientTraining,
        samples: Any,
        columns: tuple[Array, Array],
        train: Array,
        held_out: Array | None,
    ) -> None:
        """Train in epochs on some samples. Columns are the goals and the weights of all samples."""
        order = np.random.default_rng(seed_of(self.random_state))
        features_of = self._feature_source(take(samples, train))
        goals, weights = (column[train] for column in columns)
        validation = None
        if held_out is not None:
            aside, others = take(samples, held_out), [column[held_out] for column in columns]
            validation = lambda: self._batches(aside, *others, width=self._width(aside))  # noqa: E731
        batches = lambda: self._shuffled(features_of, (goals, weights), order)  # noqa: E731
        settings = {"epochs": self.max_epochs, "patience": self.patience}
        for epoch, loss, judged in train_with_early_stopping(training, batches, validation, **settings):  # type: ignore[arg-type]
            self.n_iter_ = epoch
            self._report(f"epoch {epoch}: loss {loss:.4f}" + ("" if judged is None else f", held out {judged:.4f}"))

    # -------------------------------------------------------------------------------------------------- prediction

    def _apply(self, X: Any, function: Callable[[Tensor], Tensor]) -> Array:
        """Return a function of the features of all samples, batch by batch."""
        check_is_fitted(self)
        samples = self._check_samples(X)
        width = self._width(samples)
        parts = [function(features).numpy(force=True) for (features,) in self._batches(samples, width=width)]
        result: Array = np.concatenate(parts)
        return result

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def checked_weights(sample_weight: Any, X: Any, y: Array) -> Array:
    """Return one weight per sample, in double precision; 1 by default."""
    if sample_weight is None:
        return np.ones(len(y))
    weights: Array = _check_sample_weight(sample_weight, y, dtype=np.float64, ensure_non_negative=True)
    if not weights.any():
        raise ValueError("sample_weight: all weights are 0, expected at least one positive weight")
    return weights


def take(samples: Any, rows: Array) -> Any:
    """Return some rows of an array, a sparse matrix, a table or a list."""
    return samples if len(rows) == n_samples(samples) and (np.diff(rows) == 1).all() else _safe_indexing(samples, rows)
