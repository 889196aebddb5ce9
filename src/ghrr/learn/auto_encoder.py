"""Choose an encoder that fits the samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import has_fit_parameter

from ghrr.learn.bandwidth import evenly_spaced
from ghrr.learn.base import FeatureEncoder, n_samples
from ghrr.learn.graph_features import GraphFeatures
from ghrr.learn.image_features import ImageFeatures
from ghrr.learn.kernel_features import KernelFeatures, check_goals
from ghrr.learn.ridge import solve_dual
from ghrr.learn.series_features import SeriesFeatures
from ghrr.learn.table_features import TableFeatures
from ghrr.learn.text_features import TextFeatures

_LEAST_PIXELS = 8  # of a side of an image
_TEXT_SLOTS = 2048  # as accurate as TF-IDF with logistic regression on sentences of 21 languages
_MOST_ROWS = 2048  # of a table that gets twice as many slots: solving takes no longer than for larger tables


def fit_encoder(encoder: Any, X: Any, y: NDArray[Any], weights: NDArray[Any]) -> Any:
    """Fit an encoder, with the weights of the samples if it takes them."""
    takes_weights = has_fit_parameter(encoder, "sample_weight")
    return encoder.fit(X, y, sample_weight=weights) if takes_weights else encoder.fit(X, y)


def fit_chosen_encoder(X: Any, y: NDArray[Any], weights: NDArray[Any], **settings: Any) -> Any:
    """Choose an encoder and fit it.

    In a table, columns of text often identify rows and say nothing about the target. They are ignored if the
    generalised cross-validation error of a ridge regression on at most 1,000 rows is lower without them.

    Parameters
    ----------
    X
        Samples.
    y
        Labels as integers, or numbers in floating point.
    weights
        Weights of the samples, all positive.
    settings
        Settings of the encoder, such as ``random_state`` and ``device``.
    """
    encoder = fit_encoder(choose_encoder(X, **settings), X, y, weights)
    if not isinstance(encoder, TableFeatures):
        return encoder
    texts = [column for column, kind in encoder.columns_.items() if kind == "text"]
    if not texts or set(encoder.columns_.values()) <= {"text", "ignore"}:
        return encoder
    other = TableFeatures(**encoder.get_params()).set_params(columns=dict.fromkeys(texts, "ignore"))
    fit_encoder(other, X, y, weights)
    return min((encoder, other), key=lambda one: _error(one, X, y, weights))


def _error(encoder: TableFeatures, X: Any, y: NDArray[Any], weights: NDArray[Any]) -> float:
    """Return the generalised cross-validation error of a ridge regression on some samples."""
    used = evenly_spaced(len(weights)).numpy()
    targets, alphas = check_goals(X, y, used)
    features = encoder.encode(encoder.check_samples(X)[used])
    goals, shares = (torch.as_tensor(column).to(features.device) for column in (targets, weights[used]))
    return solve_dual([(features, goals, shares)], alphas).error


def choose_encoder(X: Any, **settings: Any) -> FeatureEncoder:
    """Return an encoder for samples, not fitted.

    ======================================================  =========================================================
    samples                                                 encoder
    ======================================================  =========================================================
    table of pandas, polars or pyarrow                      :class:`TableFeatures`
    array ``(n, columns)``, or list of rows                 :class:`TableFeatures`
    sparse matrix                                           :class:`KernelFeatures`
    list, array or column of strings                        :class:`TextFeatures`
    list of lists of strings of different lengths           :class:`TextFeatures` with ``analyzer="token"``
    array or list of arrays ``(n, height, width)``          :class:`ImageFeatures`, if both sides have at least 8 pixels
                                                            and none is more than twice the other
    other array ``(n, channels, length)``                   :class:`SeriesFeatures`
    list of arrays or lists of numbers of different length  :class:`SeriesFeatures`
    list of graphs, as :class:`GraphFeatures` takes them    :class:`GraphFeatures`
    ======================================================  =========================================================

    The rows of an array ``(n, columns)`` can also be series or images, which cannot be seen in the numbers: use
    :class:`SeriesFeatures` or :class:`ImageFeatures` for those.

    Parameters
    ----------
    X
        Samples.
    settings
        Settings of the encoder, such as ``random_state`` and ``device``.

    Examples
    --------
    >>> from ghrr.learn.auto_encoder import choose_encoder
    >>> choose_encoder(["a text", "another text"])
    TextFeatures(dim=2048, weighting='idf')
    """
    if scipy.sparse.issparse(X):
        return KernelFeatures(**settings)
    if hasattr(X, "columns") or hasattr(X, "column_names"):
        return _table_encoder(X, **settings)
    if hasattr(X, "__array__") and not hasattr(X, "shape"):
        X = np.asarray(X)
    if isinstance(X, (str, bytes, Mapping)) or hasattr(X, "nodes") or not hasattr(X, "__len__"):
        raise ValueError(
            f'encoder="auto": needs an array, a table or a list of samples, got one {type(X).__name__}; put a single '
            f"sample into a list, and a dict of columns into a pandas.DataFrame"
        )
    if not hasattr(X, "shape"):
        chosen = _choose_for_list(X)
        if chosen is not None:
            chosen.set_params(**settings)
            return chosen
        X = _as_array(X)
    if len(X.shape) == 1 and len(X):
        chosen = _choose_for_column(X)
        chosen.set_params(**settings)
        return chosen
    if len(X.shape) > 3:
        raise ValueError(
            f'encoder="auto": needs an array of at most 3 axes, got shape {tuple(X.shape)}; turn colours into grey '
            f"values, for example by their mean"
        )
    if len(X.shape) == 3:
        low, high = sorted(X.shape[1:])
        is_image = low >= _LEAST_PIXELS and high <= 2 * low
        return ImageFeatures(**settings) if is_image else SeriesFeatures(**settings)
    return _table_encoder(X, **settings)


def table_encoder(dim: int = 1024, **settings: Any) -> TableFeatures:
    """Return the encoder of tables with the settings that are most accurate without tuning.

    Categories that did not occur in training are treated as missing.
    """
    fixed: dict[str, Any] = {"kernel": "laplace", "column_share": 0.5, "linear": True, "handle_unknown": "ignore"}
    return TableFeatures(dim, **fixed, **settings)


def _table_encoder(X: Any, **settings: Any) -> TableFeatures:
    return table_encoder(1024 * (2 if n_samples(X) <= _MOST_ROWS else 1), **settings)


def _choose_for_list(samples: Any) -> FeatureEncoder | None:
    """Return the encoder for a list of samples; None if the list is an array or a column."""
    first = samples[0] if len(samples) else None
    if _is_graph(first):
        return GraphFeatures()
    if isinstance(first, Mapping):
        raise ValueError(
            'encoder="auto": got a list of dicts, expected a table; convert it with pandas.DataFrame(samples)'
        )
    rows = [one for one in samples if hasattr(one, "__len__") and not isinstance(one, (str, bytes))]
    shapes = {len(one) if isinstance(one, (list, tuple)) else np.shape(one) for one in rows}
    if len(rows) < len(samples) or len(shapes) < 2:
        return None
    values = [value for one in rows for value in one]
    return TextFeatures(analyzer="token") if isinstance(values[0], str) else SeriesFeatures()


def _as_array(samples: Any) -> NDArray[Any]:
    try:
        return np.asarray(samples)
    except ValueError as error:
        raise ValueError(
            f'encoder="auto": cannot tell what the samples are, got a list of {type(samples[0]).__name__} of different '
            f"shapes; pass an encoder, for example encoder=SeriesFeatures()"
        ) from error


def _is_graph(sample: Any) -> bool:
    """Return whether a sample is a graph of networkx, or a pair or triple of nodes and edges."""
    if hasattr(sample, "nodes") and hasattr(sample, "edges"):
        return True
    if not isinstance(sample, tuple) or len(sample) not in (2, 3) or isinstance(sample[1], str):
        return False
    if isinstance(sample[0], str) or not hasattr(sample[1], "__len__"):
        return False
    edges = np.shape(sample[1])
    return edges == (0,) or (len(edges) == 2 and edges[1] == 2)


def _choose_for_column(column: Any) -> FeatureEncoder:
    """Return the encoder for an array or a column of strings or of samples."""
    first = column.iloc[0] if hasattr(column, "iloc") else column[0]
    if isinstance(first, str):
        return TextFeatures(_TEXT_SLOTS, weighting="idf")
    chosen = None if np.ndim(first) == 0 and not hasattr(first, "nodes") else _choose_for_list(list(column))
    if chosen is None:
        raise ValueError(
            f'encoder="auto": Expected 2D array, got 1D array of {type(first).__name__} instead; reshape one feature '
            f"to X.reshape(-1, 1)"
        )
    return chosen
