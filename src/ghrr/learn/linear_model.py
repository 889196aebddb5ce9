"""What the classifier and the regressor share: features in batches, ridge regression, device and progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags, _safe_indexing
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, has_fit_parameter, validate_data
from torch import Tensor

from ghrr.learn.base import FeatureEncoder, as_tensor, n_samples, row_slices
from ghrr.learn.kernel_features import KernelFeatures
from ghrr.learn.ridge import Batch, NormalEquations, RidgeSolution, solve_dual

Array = NDArray[Any]


class LinearOnFeatures(BaseEstimator):  # type: ignore[misc]
    """Base of estimators that are linear in the features of an encoder.

    Subclasses have the parameters ``encoder``, ``alpha``, ``random_state``, ``device`` and ``verbose``, and a list of
    penalties to choose from, in units of the mean squared length of the centred features.
    """

    _penalties: ClassVar[tuple[float, ...]]
    _dtype: ClassVar[torch.dtype] = torch.float32  # of the sums of products; small penalties need double precision

    encoder: Any
    alpha: Any
    random_state: Any
    device: Any
    verbose: Any
    encoder_: Any

    # ---------------------------------------------------------------------------------------------------- features

    def _fit_encoder(self, X: Any, y: Any, weights: Array) -> Any:
        """Fit a copy of the encoder and return the samples that it takes."""
        if isinstance(self.encoder, str):  # "passthrough"
            self.encoder_ = None
            return validate_data(self, X, accept_sparse=True, dtype=[np.float64, np.float32])
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
            return validate_data(self, X, accept_sparse=True, dtype=[np.float64, np.float32], reset=False)
        if not isinstance(self.encoder_, FeatureEncoder):
            return X
        return self.encoder_.check_samples(X)

    def _features(self, samples: Any) -> Tensor:
        """Return the features of one batch of checked samples."""
        if isinstance(self.encoder_, FeatureEncoder):
            return self.encoder_.encode(samples).to(self.device or "cpu")
        made = samples if self.encoder_ is None else self.encoder_.transform(samples)
        return as_tensor(made.toarray() if hasattr(made, "toarray") else made, self.device)

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
