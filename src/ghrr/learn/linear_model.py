"""Base class of the classifier and the regressor: features in batches, ridge regression, device and progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags, _safe_indexing
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor

from ghrr.checks import check_device, value_error, warn
from ghrr.learn.auto_encoder import fit_chosen_encoder, fit_encoder
from ghrr.learn.base import FeatureEncoder, as_array, as_tensor, check_finite, n_samples, row_slices, seed_of
from ghrr.learn.gradient_training import GoalBatch, GradientTraining, train_with_early_stopping
from ghrr.learn.kernel_features import KernelFeatures
from ghrr.learn.repeats import first_copies, independent_count, sample_keys
from ghrr.learn.ridge import Batch, NormalEquations, RidgeSolution, solve_dual, solve_sparse

Array = NDArray[Any]
FeatureSource = Callable[[Array], Tensor]  # from indices of samples to their features
_FEW = 1000  # samples of a ridge regression whose products are in double precision
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
        check_device(self.device)
        if isinstance(self.encoder, str) and self.encoder == "passthrough":
            self.encoder_ = None
            return validate_data(self, as_array(X), accept_sparse="csr", dtype=[np.float64, np.float32])
        settings = {"random_state": self.random_state, "device": self.device}
        if isinstance(self.encoder, str):  # "auto"
            self.encoder_ = fit_chosen_encoder(X, y, weights, **settings)
        else:
            chosen = KernelFeatures(**settings) if self.encoder is None else clone(self.encoder)
            self.encoder_ = fit_encoder(chosen, X, y, weights)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.encoder_, name):
                setattr(self, name, getattr(self.encoder_, name))
        return self._check_samples(X)

    def _check_samples(self, X: Any) -> Any:
        if self.encoder_ is None:
            return validate_data(self, as_array(X), accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        if not isinstance(self.encoder_, FeatureEncoder):
            return X
        return self.encoder_.check_samples(X)

    def _features(self, samples: Any) -> Tensor:
        """Return the features of one batch of checked samples.

        Features that are given in double precision keep it until their mean is subtracted.
        """
        encoder = self if self.encoder_ is None else self.encoder_
        if isinstance(encoder, FeatureEncoder):
            features = encoder.encode(samples).to(check_device(self.device))
        else:
            made = samples if self.encoder_ is None else encoder.transform(samples)
            array = np.asarray(made.toarray() if hasattr(made, "toarray") else made)
            features = as_tensor(array, self.device, keep_double=True)
        return check_finite(features)

    def _width(self, samples: Any) -> int:
        """Return the number of features."""
        if isinstance(self.encoder_, FeatureEncoder):
            return int(self.encoder_.n_features_out_)
        return int(self._features(samples[:1]).shape[1])

    def _batches(self, samples: Any, *columns: Array, width: int) -> Iterator[tuple[Tensor, ...]]:
        """Yield the features of each batch and the rows of the columns that belong to it."""
        count = n_samples(samples)
        for done, rows in enumerate(row_slices(count, width)):
            yield self._features(samples[rows]), *self._on_device(*(column[rows] for column in columns))
            self._report(f"{min(rows.stop, count):,} of {count:,} samples", level=2 if done else 3)

    def _on_device(self, *columns: Array) -> tuple[Tensor, ...]:
        return tuple(torch.as_tensor(column).to(check_device(self.device)) for column in columns)

    def _report(self, message: str, level: int = 1) -> None:
        if int(self.verbose) >= level:
            print(f"[{type(self).__name__}] {message}", file=sys.stderr, flush=True)  # noqa: T201 (asked for by verbose)

    # ------------------------------------------------------------------------------------------------------- ridge

    def _solve_ridge(self, samples: Any, targets: Array, weights: Array) -> RidgeSolution:
        """Fit a ridge regression of the targets ``(n, outputs)`` on the features."""
        width = self._width(samples)
        alphas = self._penalties if isinstance(self.alpha, str) else [float(self.alpha)]
        if n_samples(samples) <= width and self.encoder_ is None and scipy.sparse.issparse(samples):
            goals, shares = self._on_device(targets, weights)
            return solve_sparse(samples, goals, shares, alphas)
        if n_samples(samples) <= width:
            batches: Iterator[Batch] = self._batches(samples, targets, weights, width=width)  # type: ignore[assignment]
            # Where it costs little time, a weight of 2 equals a repeated sample to the last digits.
            return solve_dual(batches, alphas, dtype=self._dtype if n_samples(samples) > _FEW else torch.float64)
        sums = NormalEquations(width, targets.shape[1], self.device)
        self._add_samples(sums, samples, targets, weights)
        return sums.solve(alphas)

    def _add_samples(self, sums: NormalEquations, samples: Any, targets: Array, weights: Array) -> None:
        """Add samples to sums; copies of a sample among them count once."""
        keys = []
        for features, goals, shares in self._batches(samples, targets, weights, width=len(sums.feature_sum)):
            sums.add(features, goals, shares, dtype=self._dtype)
            keys.append(sample_keys(features))
        sums.independent += independent_count(torch.cat(keys), *self._on_device(targets, weights))

    def _add_to_sums(self, samples: Any, targets: Array, weights: Array) -> RidgeSolution:
        """Add a batch to the sums of a stream and solve again.

        The penalty is chosen again whenever the number of samples has doubled.
        """
        width = self._width(samples)
        if self._sums is None:
            if hasattr(self, "n_iter_"):
                warn(
                    "forgets what fit learned, because fit keeps no sums of its samples; train a stream with "
                    "partial_fit from its first batch"
                )
            self._sums, self._chosen_at = NormalEquations(width, targets.shape[1], self.device), 0.0
        self._add_samples(self._sums, samples, targets, weights)
        count = float(self._sums.count)
        if not isinstance(self.alpha, str):
            return self._sums.solve([float(self.alpha)])
        if count < 2 * self._chosen_at:
            return self._sums.solve([self.alpha_])
        self._chosen_at = count
        return self._sums.solve(self._penalties)

    # ------------------------------------------------------------------------------------------------------ epochs

    def _order(self, passes: int) -> np.random.Generator:
        """Return the generator of the order of samples in a pass. Every pass has an order of its own."""
        return np.random.default_rng([seed_of(self.random_state), passes])

    def _feature_center(self, samples: Any, weights: Array) -> Tensor | None:
        """Return the mean of the features, which gradient descent subtracts, in double precision.

        None for encoders of this package, whose features are of the order of 1.
        """
        if isinstance(self.encoder_, FeatureEncoder):
            return None
        batches = self._batches(samples, weights, width=self._width(samples))
        sums = [shares.double() @ features.double() for features, shares in batches]
        return torch.stack(sums).sum(dim=0) / float(weights.sum())

    def _feature_source(self, samples: Any) -> FeatureSource:
        """Return a function from indices of samples to their features, which are stored if they fit in memory."""
        width = self._width(samples)
        if n_samples(samples) * width > _STORED_NUMBERS:
            return lambda rows: self._features(take(samples, rows))
        like = self._features(samples[:1])
        stored = like.new_empty(n_samples(samples), width)
        batches = self._batches(samples, np.arange(len(stored)), width=width)
        for features, rows in batches:
            stored[rows] = features
        return lambda rows: stored[torch.as_tensor(rows, device=stored.device)]

    def _shuffled(
        self, features_of: FeatureSource, columns: tuple[Array, Array], order: np.random.Generator
    ) -> Iterator[GoalBatch]:
        """Yield batches of ``batch_size`` samples in random order."""
        goals, weights = self._on_device(*columns)
        shuffled = order.permutation(len(goals))
        for start in range(0, len(shuffled), self.batch_size):
            rows = shuffled[start : start + self.batch_size]
            index = torch.as_tensor(rows, device=goals.device)
            yield features_of(rows), goals[index], weights[index]

    def _split(self, samples: Any, goals: Array, weights: Array) -> tuple[Array, Array | None]:
        """Return the indices of the samples to train on and, with early stopping, of those to hold out.

        Copies of a sample are held out together.
        """
        if not self.early_stopping:
            return np.arange(len(goals)), None
        keys = [sample_keys(features) for (features,) in self._batches(samples, width=self._width(samples))]
        copies = first_copies(torch.cat(keys), *self._on_device(goals, weights)).numpy(force=True)
        first = np.unique(copies)
        if len(first) == 1:
            first = copies = np.arange(len(goals))
        is_held_out = np.isin(copies, first[self._held_out(goals[first])])
        return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)

    def _held_out(self, goals: Array) -> Array:
        """Return the indices of the samples to hold out, all of which are different."""
        order = np.random.default_rng(seed_of(self.random_state)).permutation(len(goals))
        # Evenly spaced samples in the order of classes or targets: each class is held out in its proportion.
        ranked = order[np.argsort(goals[order], kind="stable")]
        count = min(max(1, round(self.validation_fraction * len(goals))), len(goals) - 1)
        held_out: Array = ranked[((np.arange(count) + 0.5) * len(goals) / max(1, count)).astype(int)]
        return held_out

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
        tags.input_tags.allow_nan = isinstance(self.encoder, str) and self.encoder == "auto"  # in tables
        return tags


def checked_weights(sample_weight: Any, X: Any, y: Array) -> Array:
    """Return one weight per sample, in double precision; 1 by default."""
    if sample_weight is None:
        return np.ones(len(y))
    weights: Array = _check_sample_weight(sample_weight, y, dtype=np.float64, ensure_non_negative=True)
    if not weights.any():
        raise value_error("sample_weight: all weights are 0, expected at least one positive weight")
    return weights


def take(samples: Any, rows: Array) -> Any:
    """Return some rows of an array, a sparse matrix, a table or a list."""
    return samples if len(rows) == n_samples(samples) and (np.diff(rows) == 1).all() else _safe_indexing(samples, rows)
