"""Tables with numbers, categories, dates and texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Integral, Number, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data
from torch import Tensor

from ghrr import ops
from ghrr.encoding.kernels import SPECTRA, draw_frequencies
from ghrr.learn.bandwidth import evenly_spaced, median_bandwidth
from ghrr.learn.base import Effects, FeatureEncoder, check_reference, seed_of
from ghrr.learn.kernel_features import phasors
from ghrr.learn.table_columns import KINDS, category_codes, find_categories, infer_kind, read_numbers, read_texts
from ghrr.learn.text_features import TextFeatures
from ghrr.space import Space

_NO_TEXT = "\0"  # stands for the texts of a column that has none: no n-gram, so all texts are encoded as 0


class TableFeatures(FeatureEncoder):
    r"""Encode the rows of a table with numbers, categories, dates, texts and missing values.

    Numbers are standardised and encoded by fractional powers, categories are atoms, and all columns of a row are bound:
    the similarity is a product of kernels, :math:`\prod_c e^{-d_c^2 / 2h^2}`. The squared distance :math:`d_c^2` of
    equal categories is 0 and of different ones 2, which is also its mean for two random values of a standardised
    column. Two rows are similar if they agree in all columns.

    A missing value is neutral: for numbers it is the mean of the column, and for categories it has the squared distance
    1 from each of them. Dates are numbers, in days.

    Text columns are encoded by their character trigrams, as in :class:`TextFeatures`, bound to a key each and bundled
    with the rest of the row. The similarity is then the mean of the kernel above and the similarities of the texts.

    Parameters
    ----------
    dim
        Number of slots. The output has ``2 * dim`` columns, scaled to length 1.
    columns
        Kinds of columns that differ from the inferred ones: a dict from the name of a column, or its index in an array,
        to ``"number"``, ``"category"``, ``"date"``, ``"text"`` or ``"ignore"``.
    bandwidth
        Length scale h, or ``"median"``: the median distance between rows, times ``bandwidth_scale``.
    bandwidth_scale
        Factor for the median distance. Tune it by cross-validation, for example over 0.3, 0.5 and 1.
    handle_unknown
        ``"error"`` raises for a category that did not occur in :meth:`fit`, as scikit-learn's ``OneHotEncoder`` does;
        ``"ignore"`` treats it as missing. Categories that a pandas ``category`` dtype declares are known.
    random_state
        Seed of frequencies, atoms and keys.
    device
        Device that computes the features.

    Attributes
    ----------
    columns_
        Kind of each column, inferred or as given. Strings, booleans and the dtype ``category`` are categories; strings
        are text if there are more than 100 different ones and more than half of the values differ.
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
        bandwidth: Any = "median",
        bandwidth_scale: float = 1.0,
        handle_unknown: str = "error",
        random_state: Any = None,
        device: Any = None,
    ) -> None:
        self.dim = dim
        self.columns = columns
        self.bandwidth = bandwidth
        self.bandwidth_scale = bandwidth_scale
        self.handle_unknown = handle_unknown
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: object = None) -> Self:
        """Infer the kinds of columns, and find their means, categories, texts and the bandwidth; y is not used."""
        self._validate_params()
        table = self._read_table(X, reset=True)
        self.columns_ = self._find_kinds(table)
        self.categories_ = {c: find_categories(table[c]) for c in self._columns_of("category")}
        rows = self._read_rows(table)
        numbers = rows["numbers"]
        known = np.isfinite(numbers)
        count = np.maximum(known.sum(axis=0), 1)
        self.means_ = np.where(known, numbers, 0.0).sum(axis=0) / count
        deviations = np.sqrt(np.square(np.where(known, numbers - self.means_, 0.0)).sum(axis=0) / count)
        # A deviation within rounding of a constant column is 0.
        self.scales_ = np.where(deviations > 1e-14 * np.abs(self.means_), deviations, 1.0)
        seed = seed_of(self.random_state)
        self._fit_kernel(rows, seed)
        self._fit_texts(rows, seed)
        self.n_features_out_ = 2 * int(self.dim)
        return self

    def _fit_kernel(self, rows: NDArray[Any], seed: int) -> None:
        """Choose the bandwidth and draw the frequencies of numbers and the phases of categories."""
        used = rows[evenly_spaced(len(rows)).numpy()]
        codes = [column[:, None] == np.unique(column[column >= 0]) for column in used["codes"].T]
        distances_of = torch.from_numpy(np.concatenate([self._standardize(used), *codes], axis=1))
        chosen = self.bandwidth
        if isinstance(chosen, str):
            chosen = self.bandwidth_scale * median_bandwidth(distances_of)
        self.bandwidth_ = float(chosen)
        n_numbers, dim = len(self.means_), int(self.dim)
        sizes = [len(categories) for categories in self.categories_.values()]
        width = n_numbers + sum(sizes)
        if not width:
            drawn = torch.zeros(dim, 0, dtype=torch.float64)
        else:
            # Orthogonal frequencies have the smaller error, but cost the cube of the width.
            sampling = "orthogonal" if width <= dim else "random"
            drawn = draw_frequencies(SPECTRA["rbf"], dim, width, sampling=sampling, seed=seed, label="table")
        drawn = (drawn / self.bandwidth_).to(self.device or "cpu")
        self.frequencies_ = drawn[:, :n_numbers].contiguous()
        # The last row is that of missing values.
        self.category_phases_ = torch.nn.functional.pad(drawn[:, n_numbers:].mT, (0, 0, 0, 1)).contiguous()
        self._first_codes = np.cumsum([0, *sizes])[:-1]

    def _fit_texts(self, rows: NDArray[Any], seed: int) -> None:
        """Collect the symbols of each text column and draw its key."""
        names = self._columns_of("text")
        self.text_encoders_ = [
            TextFeatures(int(self.dim), n=3, random_state=seed, device=self.device).fit(
                texts if any(texts) else [_NO_TEXT]
            )
            for texts in rows["texts"].T
        ]
        space = Space(dim=int(self.dim), m=1, seed=seed)
        self.text_keys_ = space.vectors([str(name) for name in names], namespace="column", device=self.device)

    # ------------------------------------------------------------------------------------------------------ reading

    def _columns_of(self, *kinds: str) -> list[Any]:
        return [column for column, kind in self.columns_.items() if kind in kinds]

    def _find_kinds(self, table: Any) -> dict[Any, str]:
        given = dict(self.columns or {})
        is_array = isinstance(table, np.ndarray)
        names = list(range(table.shape[1])) if is_array else list(table.columns)
        unknown = [column for column in given if column not in names]
        if unknown:
            raise ValueError(f"TableFeatures: columns {unknown} are not in the table, which has {names}")
        wrong = sorted({str(kind) for kind in given.values()} - set(KINDS))
        if wrong:
            raise ValueError(
                f"TableFeatures: kinds of columns must be among {', '.join(KINDS)}; got {', '.join(wrong)}"
            )
        return {c: given.get(c) or ("number" if is_array else infer_kind(table[c])) for c in names}

    def _read_table(self, X: Any, *, reset: bool) -> Any:
        """Return samples as an array of numbers if all columns are numbers, otherwise as a pandas table."""
        if hasattr(X, "to_pandas"):  # a table of polars or pyarrow
            X = X.to_pandas()
        if hasattr(X, "columns") and hasattr(X, "dtypes"):
            if not X.columns.is_unique:
                raise ValueError(f"TableFeatures: names of columns must differ, got {list(X.columns)}")
            validate_data(self, X, skip_check_array=True, reset=reset)
            for size, what in zip(X.shape, ("sample", "feature"), strict=True):
                if not size:
                    raise ValueError(
                        f"Found array with 0 {what}(s) (shape={X.shape}) while a minimum of 1 is required by "
                        f"TableFeatures."
                    )
            return X if reset else X.set_axis(list(self.columns_), axis=1)
        if isinstance(X, (list, tuple)) and np.asarray(X).dtype.kind == "U":
            X = np.array(X, dtype=object)  # numbers beside strings stay numbers
        array = validate_data(self, X, dtype=None, ensure_all_finite="allow-nan", reset=reset)
        only_numbers = not self.columns if reset else set(self.columns_.values()) == {"number"}
        if array.dtype.kind in "iuf" and only_numbers:
            return array.astype(np.float64)
        import pandas as pd  # noqa: PLC0415 (arrays of numbers do not need it)

        return pd.DataFrame(array, columns=None if reset else list(self.columns_)).infer_objects()

    def _read_rows(self, table: Any) -> NDArray[Any]:
        """Return a structured array with one entry per row: its numbers, codes of categories and texts."""
        columns = self._columns_of("number", "date"), list(self.categories_), self._columns_of("text")
        types = (np.float64, np.int64, object)
        fields = zip(("numbers", "codes", "texts"), types, columns, strict=True)
        rows = np.empty(len(table), dtype=[(field, kind, (len(names),)) for field, kind, names in fields])
        if isinstance(table, np.ndarray):
            rows["numbers"] = table
            return rows
        ignore = self.handle_unknown == "ignore"
        for i, c in enumerate(columns[0]):
            rows["numbers"][:, i] = _read_numbers(table[c], self.columns_[c])
        for i, (c, categories) in enumerate(self.categories_.items()):
            rows["codes"][:, i] = category_codes(table[c], categories, ignore_unknown=ignore)
        for i, c in enumerate(columns[2]):
            rows["texts"][:, i] = read_texts(table[c])
        return rows

    def check_samples(self, X: Any) -> NDArray[Any]:
        """Return the rows of a table as a structured array: numbers, codes of categories and texts."""
        return self._read_rows(self._read_table(X, reset=False))

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
        return out.flatten(start_dim=1)

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

        As in :class:`KernelFeatures`; the phases of a category take the place of those of a number. If there are text
        columns, the length by which a row is divided is kept.
        """
        check_reference(reference)
        own, other = (self._column_angles(rows) for rows in (samples, reference))
        real, imaginary = vector.to(self.frequencies_).chunk(2)
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
        columns = [*self._columns_of("number", "date"), *self.categories_, *self._columns_of("text")]
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


def _read_numbers(column: Any, kind: str) -> NDArray[np.float64]:
    """Return the values of a column of numbers or dates; errors name the column."""
    try:
        if kind == "date" and _has_numbers(column.dropna()):
            raise TypeError("got numbers, expected dates; convert them, for example with pandas.to_datetime")
        return read_numbers(column, kind)
    except (TypeError, ValueError) as error:
        raise ValueError(f"TableFeatures: cannot read column {column.name!r} as {kind}s: {error}") from error


def _has_numbers(values: Any) -> bool:
    if values.dtype == object:
        return any(isinstance(value, Number) for value in values)
    return len(values) > 0 and values.dtype.kind in "biufc"
