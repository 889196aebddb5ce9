"""Tables with numbers, categories, dates and texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import Tags, _safe_indexing
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight
from torch import Tensor

from ghrr import ops
from ghrr.checks import check_device, names_errors, value_error
from ghrr.encoding.kernels import SPECTRA, draw_frequencies
from ghrr.learn.bandwidth import evenly_spaced, median_bandwidth
from ghrr.learn.base import Effects, check_reference, seed_of
from ghrr.learn.kernel_features import phasors
from ghrr.learn.table_columns import NUMERIC, TEXTUAL
from ghrr.learn.table_reader import TableReader
from ghrr.learn.text_features import TextFeatures
from ghrr.seeding import labelled_uniform
from ghrr.space import Space

_MOST_PHASES = 1 << 28  # of categories: 2 GiB while they are drawn
# Of the indicators of categories, so that different ones have the distance sqrt(2) in the norm of the kernel.
_CATEGORY_SCALES = {"rbf": 1.0, "laplace": 0.5**0.5}
_MOST_INDICATORS = 100  # categories of a column that is in the linear part
_NO_TEXT = "\0"  # stands for the texts of a column that has none: no n-gram, so all texts are encoded as 0


@names_errors
class TableFeatures(TableReader):
    r"""Encode the rows of a table with numbers, categories, dates, texts and missing values.

    Numbers, or their logarithms if they are positive and skewed, are standardised and encoded by fractional powers,
    categories are atoms, and all columns of a row are bound: the similarity is a product of kernels,
    :math:`\prod_c e^{-d_c^2 / 2h^2}`. The squared distance :math:`d_c^2` of equal categories is 0 and of different
    ones 2, which is also its mean for two random values of a standardised column. Two rows are similar if they agree in
    all columns.

    A missing value is neutral: for numbers it is the mean of the column, and for categories it has the squared distance
    1 from each of them. Dates are numbers, in days, and booleans are 0 and 1. Numbers, dates and booleans may be
    written as text, as in ``"$1,200"``, ``"12 %"``, ``"3 May 2021"`` and ``"yes"``.

    With ``kernel="laplace"`` the similarity is :math:`\prod_c e^{-d_c / h}`: it has a corner instead of a flat top, and
    predicts targets that change abruptly, as decision trees do. With ``column_share`` below 1, each slot
    encodes a random part of the columns, and the similarity is a mean of products over such parts: two rows that agree
    in some columns are similar too, so columns without information do less harm. A slot with k of C columns has the
    length scale :math:`h k / C`, or :math:`h \sqrt{k / C}` for ``"rbf"``.

    Text columns are encoded by their character trigrams, as in :class:`TextFeatures`, bound to a key each and bundled
    with the rest of the row. The similarity is then the mean of the kernel above and the similarities of the texts.

    Parameters
    ----------
    dim
        Number of slots. The output has ``2 * dim`` columns, scaled to length 1.
    columns
        Kinds of columns that differ from the inferred ones: a dict from the name of a column, or its index in an array,
        to ``"number"``, ``"category"``, ``"boolean"``, ``"date"``, ``"text"``, ``"set"``, ``"sequence"`` or
        ``"ignore"``. Lists are encoded as the text of their elements.
    kernel
        ``"rbf"`` or ``"laplace"``.
    column_share
        Probability that a slot encodes a column, from 0 to 1. Every slot encodes at least one.
    linear
        Append the standardised numbers and the indicators of categories, of columns that have at most 100, divided by
        the root of the number of columns, to the features: a linear model of them has its share in the prediction.
    bandwidth
        Length scale h, or ``"median"``: the median distance between rows, in the norm of the kernel (1 for
        ``"laplace"``, otherwise 2), times ``bandwidth_scale``.
    bandwidth_scale
        Factor for the median distance. Tune it by cross-validation, for example over 0.3, 0.5 and 1.
    handle_unknown
        ``"error"`` raises for a category that did not occur in :meth:`fit`, as scikit-learn's ``OneHotEncoder`` does;
        ``"ignore"`` treats it as missing. The same holds for values that cannot be read as a number, date or boolean.
        Categories that a pandas ``category`` dtype declares are known.
    random_state
        Seed of frequencies, atoms and keys.
    device
        Device that computes the features.

    Attributes
    ----------
    columns_
        Kind of each column, inferred or as given. Strings are a category if they are short and a few make up nearly
        all values. Columns that only identify their row, such as order numbers, are ignored.
    doubts_
        Why the inferred kind of a column may be wrong. :meth:`fit` warns about these columns.
    categories_
        Categories of each column of categories.
    bandwidth_
        Length scale h.
    n_features_in_
        Number of columns.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from ghrr.learn import TableFeatures
    >>> table = pd.DataFrame({"size": [1.0, 1.1, 3.0, np.nan], "colour": ["red", "red", "blue", None]})
    >>> encoder = TableFeatures(dim=2000, bandwidth=1.0, random_state=0)
    >>> z = encoder.fit_transform(table)
    >>> encoder.columns_
    {'size': 'number', 'colour': 'category'}
    >>> bool(z[0] @ z[1] > 0.9 > 0.5 > z[0] @ z[3] > z[0] @ z[2])
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "dim": [Interval(Integral, 1, None, closed="left")],
        "columns": [dict, None],
        "kernel": [StrOptions(set(_CATEGORY_SCALES))],
        "column_share": [Interval(Real, 0, 1, closed="right")],
        "linear": ["boolean"],
        "bandwidth": [Interval(Real, 0, None, closed="neither"), StrOptions({"median"})],
        "bandwidth_scale": [Interval(Real, 0, None, closed="neither")],
        "handle_unknown": [StrOptions({"error", "ignore"})],
        "random_state": ["random_state"],
        "device": [str, torch.device, None],
    }

    def __init__(
        self,
        dim: int = 1024,
        *,
        columns: Mapping[Any, str] | None = None,
        kernel: str = "rbf",
        column_share: float = 1.0,
        linear: bool = False,
        bandwidth: Any = "median",
        bandwidth_scale: float = 1.0,
        handle_unknown: str = "error",
        random_state: Any = None,
        device: Any = None,
    ) -> None:
        self.dim = dim
        self.columns = columns
        self.kernel = kernel
        self.column_share = column_share
        self.linear = linear
        self.bandwidth = bandwidth
        self.bandwidth_scale = bandwidth_scale
        self.handle_unknown = handle_unknown
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: object = None, sample_weight: Any = None) -> Self:
        """Infer the kinds of columns, and find their means, categories, texts and the bandwidth.

        Parameters
        ----------
        X
            Table, or array ``(n, columns)``.
        y
            Not used.
        sample_weight
            Weights of the rows in means, deviations and the median distance.
        """
        self._validate_params()
        table = self._read_table(X, reset=True)
        weights = _check_sample_weight(sample_weight, table, dtype=np.float64, ensure_non_negative=True)
        used = np.flatnonzero(weights)  # rows of weight 0 do not count
        table, weights = _safe_indexing(table, used), weights[used]
        self._fit_columns(table)
        rows = self._read_rows(table)
        numbers = rows["numbers"]
        known = np.isfinite(numbers) * weights[:, None]
        count = np.maximum(known.sum(axis=0), np.finfo(float).tiny)
        self.means_ = (np.nan_to_num(numbers) * known).sum(axis=0) / count
        deviations = np.sqrt((np.nan_to_num(numbers - self.means_) ** 2 * known).sum(axis=0) / count)
        # A deviation within rounding of a constant column is 0.
        self.scales_ = np.where(deviations > 1e-14 * np.abs(self.means_), deviations, 1.0)
        seed = seed_of(self.random_state)
        self._fit_kernel(rows, weights, seed)
        self._fit_texts(rows, seed)
        self.n_features_out_ = 2 * int(self.dim) + self._n_linear()
        return self

    def _fit_kernel(self, rows: NDArray[Any], weights: NDArray[Any], seed: int) -> None:
        """Choose the bandwidth and draw the frequencies of numbers and the phases of categories."""
        used = evenly_spaced(len(rows)).numpy()
        norm, scale = SPECTRA[self.kernel].norm, _CATEGORY_SCALES[self.kernel]
        codes = [scale * (column[:, None] == np.unique(column[column >= 0])) for column in rows["codes"][used].T]
        distances_of = torch.from_numpy(np.concatenate([self._standardize(rows[used]), *codes], axis=1))
        chosen = self.bandwidth
        if isinstance(chosen, str):
            chosen = self.bandwidth_scale * median_bandwidth(distances_of, torch.as_tensor(weights[used]), norm=norm)
        self.bandwidth_ = float(chosen)
        n_numbers, dim = len(self.means_), int(self.dim)
        sizes = [len(categories) for categories in self.categories_.values()]
        width = n_numbers + sum(sizes)
        if sum(sizes) * dim > _MOST_PHASES:
            largest = max(self.categories_, key=lambda column: len(self.categories_[column]))
            raise value_error(
                f"column {largest!r} has {len(self.categories_[largest]):,} categories, expected at "
                f"most {_MOST_PHASES // dim:,} in all columns with dim={dim}; set columns={{{largest!r}: 'text'}}, or "
                f"'ignore'"
            )
        if not width:
            drawn = torch.zeros(dim, 0, dtype=torch.float64)
        else:
            # Orthogonal frequencies have the smaller error, but cost the cube of the width.
            sampling = "orthogonal" if width <= dim and SPECTRA[self.kernel].isotropic else "random"
            drawn = draw_frequencies(SPECTRA[self.kernel], dim, width, sampling=sampling, seed=seed, label="table")
            drawn[:, n_numbers:] *= scale
            drawn *= self._draw_parts(n_numbers + len(sizes), seed)[:, [*range(n_numbers), *self._columns_of_codes()]]
        drawn = (drawn / self.bandwidth_).to(check_device(self.device))
        self.frequencies_ = drawn[:, :n_numbers].contiguous()
        # The last row stands for missing values.
        self.category_phases_ = torch.nn.functional.pad(drawn[:, n_numbers:].mT, (0, 0, 0, 1)).contiguous()
        self._first_codes = np.cumsum([0, *sizes])[:-1]

    def _draw_parts(self, n_columns: int, seed: int) -> Tensor:
        """Draw the columns that each slot encodes: the factors of their frequencies, ``(dim, columns)``."""
        drawn = labelled_uniform(int(self.dim) * n_columns, seed, "columns", "table").reshape(-1, n_columns)
        seen = (drawn < self.column_share) | (drawn == drawn.amin(dim=1, keepdim=True))
        shares = seen.double().mean(dim=1, keepdim=True)
        return seen / shares ** (1 / SPECTRA[self.kernel].norm)

    def _columns_of_codes(self) -> list[int]:
        """Return the number of the column that each category belongs to, after the columns of numbers."""
        first = len(self.means_)
        return [first + i for i, own in enumerate(self.categories_.values()) for _ in own]

    def _fit_texts(self, rows: NDArray[Any], seed: int) -> None:
        """Collect the symbols of each text column and draw its key."""
        names = self._columns_of(*TEXTUAL)
        self.text_encoders_ = [
            TextFeatures(int(self.dim), n=3, random_state=seed, device=self.device).fit(
                texts if any(texts) else [_NO_TEXT]
            )
            for texts in rows["texts"].T
        ]
        space = Space(dim=int(self.dim), m=1, seed=seed)
        self.text_keys_ = space.vectors([str(name) for name in names], namespace="column", device=self.device)

    # ----------------------------------------------------------------------------------------------------- encoding

    def _standardize(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        standard: NDArray[np.float64] = np.nan_to_num((rows["numbers"] - self.means_) / self.scales_, nan=0.0)
        return standard

    def _phase_rows(self, samples: NDArray[Any]) -> NDArray[np.int64]:
        """Return the row of ``category_phases_`` of each category, ``(n, columns)``; the last row for missing ones."""
        missing = len(self.category_phases_) - 1
        rows: NDArray[np.int64] = np.where(samples["codes"] < 0, missing, samples["codes"] + self._first_codes)
        return rows

    def encode(self, samples: NDArray[Any]) -> Tensor:
        """Return the features of checked rows, ``(n, 2 * dim)``."""
        device = self.frequencies_.device
        # In double precision, so that rounding does not depend on the batch.
        angles = torch.from_numpy(self._standardize(samples)).to(device) @ self.frequencies_.mT
        if self.categories_:
            codes = torch.from_numpy(self._phase_rows(samples)).to(device)
            angles += torch.nn.functional.embedding_bag(codes, self.category_phases_, mode="sum")
        out = ops.cos_sin(angles.float()).mul_(angles.shape[1] ** -0.5)
        if self.text_encoders_:
            self._add_texts(samples["texts"], out)
        if self.linear:
            return torch.cat([out.flatten(start_dim=1), *self._linear_parts(samples)], dim=1)
        return out.flatten(start_dim=1)

    def _n_linear(self) -> int:
        """Return the number of features of the linear part."""
        return len(self.means_) + sum(map(self._n_indicators, self.categories_.values())) if self.linear else 0

    @staticmethod
    def _n_indicators(categories: list[Any]) -> int:
        return len(categories) if len(categories) <= _MOST_INDICATORS else 0

    def _linear_parts(self, samples: NDArray[Any]) -> list[Tensor]:
        """Return the features of the linear part of each column: numbers, then the indicators of categories."""
        parts = [self._standardize(samples)[:, [i]] for i in range(len(self.means_))]
        parts += [
            codes[:, None] == np.arange(self._n_indicators(own))
            for codes, own in zip(samples["codes"].T, self.categories_.values(), strict=True)
        ]
        scale = max(1, len(parts)) ** -0.5
        return [scale * torch.as_tensor(part).to(self.frequencies_.device, torch.float32) for part in parts]

    def _add_texts(self, texts: NDArray[Any], out: Tensor) -> None:
        """Add the bound features of each text column to ``(n, 2, dim)``, and scale rows to length 1."""
        if not self._has_kernel():
            out.zero_()
        for bound in self._bound_texts(texts):
            out[:, 0] += bound.real
            out[:, 1] += bound.imag
        out /= torch.linalg.vector_norm(out, dim=(1, 2), keepdim=True).clamp(min=1e-12)

    def _has_kernel(self) -> bool:
        """Return whether there is a column that is not text."""
        return bool(self.frequencies_.shape[1] or self.categories_)

    def _bound_texts(self, texts: NDArray[Any]) -> Iterator[Tensor]:
        """Yield the hypervectors of each text column, bound to its key: ``(n, dim)``."""
        for column, encoder, key in zip(texts.T, self.text_encoders_, self.text_keys_, strict=True):
            yield torch.view_as_complex(encoder.encode(column).reshape(len(texts), -1, 2)) * key.flatten()

    def effects(self, samples: NDArray[Any], vector: Tensor, reference: NDArray[Any]) -> Effects:
        """Return the mean change of the inner product if a column is replaced by its values in ``reference``.

        As in :class:`KernelFeatures`; phases of a category take the place of phases of a number. If there are text
        columns, the length by which a row is divided is kept.
        """
        check_reference(reference)
        own, other = (self._column_angles(rows) for rows in (samples, reference))
        vector = vector.to(self.frequencies_)
        linear = vector[2 * int(self.dim) :]
        real, imaginary = vector[: 2 * int(self.dim)].chunk(2)
        weights = torch.complex(real, -imaginary)
        texts = [list(self._bound_texts(rows["texts"])) for rows in (samples, reference)]
        kernel = torch.zeros(len(samples), int(self.dim), dtype=weights.dtype, device=weights.device)
        if own:
            kernel = int(self.dim) ** -0.5 * phasors(torch.stack(own).sum(dim=0))
        # What replaces a column: unbind its values and bind the mean of the others, or exchange a text for their mean.
        changed = [
            kernel * phasors(-mine) * phasors(theirs).mean(dim=0) for mine, theirs in zip(own, other, strict=True)
        ]
        changes = [kernel - replaced for replaced in changed]
        changes += [mine - theirs.mean(dim=0) for mine, theirs in zip(*texts, strict=True)]
        found = torch.stack([(change * weights).real.sum(dim=1) for change in changes])
        if texts[0]:
            found /= torch.linalg.vector_norm(kernel + torch.stack(texts[0]).sum(dim=0), dim=1).clamp(min=1e-12)
        if self.linear:
            pairs = list(zip(*(self._linear_parts(rows) for rows in (samples, reference)), strict=True))
            parts = torch.split(linear, [mine.shape[1] for mine, _ in pairs])
            for i, ((mine, theirs), part) in enumerate(zip(pairs, parts, strict=True)):
                found[i] += (mine - theirs.mean(dim=0)).to(part) @ part
        columns = [*self._columns_of(*NUMERIC), *self.categories_, *self._columns_of(*TEXTUAL)]
        names = [column if isinstance(column, str) else f"x{column}" for column in columns]
        return Effects(names, found.mean(dim=1), found.abs().mean(dim=1))

    def _column_angles(self, samples: NDArray[Any]) -> list[Tensor]:
        """Return the phases of each column of numbers, then of each column of categories: ``(n, dim)``."""
        device = self.frequencies_.device
        numbers = torch.from_numpy(self._standardize(samples)).to(device)
        angles = [torch.outer(x, w) for x, w in zip(numbers.mT, self.frequencies_.mT, strict=True)]
        codes = torch.from_numpy(self._phase_rows(samples)).to(device)
        return [*angles, *(self.category_phases_[column] for column in codes.mT)]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
