"""Base class of the transformers: samples to real features whose inner product is a similarity."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import _num_samples, check_is_fitted
from torch import Tensor

from ghrr.checks import check_device, describe, type_error, value_error
from ghrr.ops.threads import run_in_threads

# Numbers of features made at a time: 64 MiB in single precision.
_BATCH_NUMBERS = 1 << 24


def as_array(x: Any) -> Any:
    """Return a tensor as a NumPy array, and anything else as it is."""
    if not isinstance(x, Tensor):
        return x
    try:
        return x.numpy(force=True)
    except (RuntimeError, TypeError) as error:  # it is sparse, quantized or has no data
        raise type_error(f"needs a dense tensor or an array, got {describe(x)}") from error


@dataclass(frozen=True)
class Effects:
    """What the parts of samples contribute to an inner product of their features.

    Parameters
    ----------
    names
        Names of the parts, such as columns or n-grams.
    mean, magnitude
        Mean over samples of the contribution of each part and of its absolute value, ``(parts,)``.
    """

    names: Sequence[str]
    mean: Tensor
    magnitude: Tensor


class FeatureEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Transformer from samples to features in single precision, made in batches.

    A subclass has ``fit``, which sets ``n_features_out_``, and ``encode``, which returns the features of a batch as a
    tensor on the device of the encoder. Estimators call ``encode`` on one batch at a time, so the features of all
    samples are never stored together. ``effects`` is for :func:`ghrr.learn.explain`.
    """

    n_features_out_: int

    def check_samples(self, X: Any) -> Any:
        """Return samples in the form that ``encode`` takes; raise for wrong ones."""
        raise NotImplementedError

    def encode(self, samples: Any) -> Tensor:
        """Return the features of checked samples, ``(n, n_features_out)``."""
        raise NotImplementedError

    def effects(self, samples: Any, vector: Tensor, reference: Any) -> Effects:
        """Return what each part of checked samples contributes to the inner product of their features with a vector.

        Parameters
        ----------
        samples
            Checked samples, at least one.
        vector
            Vector of a class, ``(n_features_out,)``.
        reference
            Checked samples whose values replace the values of ``samples``, for encoders in which every sample has every
            part.
        """
        raise NotImplementedError(f"{type(self).__name__} has no explanations")

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return the features of all samples, ``(n, n_features_out)``."""
        check_is_fitted(self)
        samples = self.check_samples(X)
        out = np.empty((n_samples(samples), self.n_features_out_), dtype=np.float32)
        for rows in row_slices(n_samples(samples), self.n_features_out_):
            out[rows] = check_finite(self.encode(samples[rows])).numpy(force=True)
        return out

    def _validate_params(self) -> None:
        super()._validate_params()
        check_device(getattr(self, "device", None))

    @property
    def _n_features_out(self) -> int:
        return self.n_features_out_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # always single precision
        return tags


def n_samples(samples: Any) -> int:
    """Return the number of samples of an array, a sparse matrix or a list."""
    return int(_num_samples(samples))


def as_features(vectors: Tensor) -> Tensor:
    """Return hypervectors as real features: ``(n, slots, m, m)`` to ``(n, 2 * slots * m**2)``."""
    return torch.view_as_real(vectors).flatten(start_dim=1)


def row_slices(count: int, n_features: int) -> Iterator[slice]:
    """Yield slices of ``range(count)`` whose features fit in memory together."""
    step = max(1, _BATCH_NUMBERS // max(1, n_features))
    for start in range(0, count, step):
        yield slice(start, min(count, start + step))


def run_on_rows(work: Callable[[slice], None], count: int, device: torch.device) -> None:
    """Call ``work`` with slices that cover ``range(count)``, on a CPU with one slice per thread.

    Inside ``work`` PyTorch uses one thread. Encoders compute in chunks that stay in the cache. Dividing each operation
    on such a chunk between threads takes longer than the operation, above all on a busy machine.
    """
    if device.type != "cpu":
        work(slice(0, count))
        return
    is_inference = torch.is_inference_mode_enabled()  # a setting of the thread

    def run(rows: slice) -> None:
        with torch.inference_mode(is_inference):
            work(rows)

    run_in_threads(run, count, calls_torch=True)


def seed_of(random_state: Any) -> int:
    """Return a seed for a :class:`ghrr.Space` from the random state of an estimator."""
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def as_tensor(array: Any, device: torch.device | str | None = None, *, keep_double: bool = False) -> Tensor:
    """Return an array as a tensor on a device, in single precision, in which numbers that are too large are infinite.

    With ``keep_double``, numbers in double precision stay as they are.
    """
    dtype = np.float64 if keep_double and array.dtype == np.float64 else np.float32
    with np.errstate(over="ignore"):
        numbers = np.require(array, dtype=dtype, requirements=["C", "W"])
    return torch.from_numpy(numbers).to("cpu" if device is None else device)


def check_finite(features: Tensor) -> Tensor:
    """Return features as they are; raise if some are NaN or infinite in single precision."""
    single = torch.float32
    if not features.sum(dtype=single).isfinite() and not features.to(single).isfinite().all():  # the sum is faster
        raise value_error(
            "the features contain NaN or infinity, expected finite numbers; fill in missing values, and "
            "scale numbers that are too large for single precision"
        )
    return features


def class_signs(labels: NDArray[Any], n_classes: int) -> NDArray[np.float32]:
    """Return labels as targets of a regression, ``(n, n_classes)``: 1 for the own class, -1 for the others."""
    return np.where(labels[:, None] == np.arange(n_classes), np.float32(1), np.float32(-1))


def input_names(estimator: Any) -> list[str]:
    """Return the names of the columns that an estimator was fitted to: from a table, or x0, x1, …"""
    known = getattr(estimator, "feature_names_in_", None)
    return [f"x{i}" for i in range(estimator.n_features_in_)] if known is None else [str(name) for name in known]


def check_reference(reference: Any) -> None:
    """Raise if there are too few samples to compare with."""
    if n_samples(reference) < 2:
        raise value_error("got one sample to compare with, expected several; give the training data as reference")
