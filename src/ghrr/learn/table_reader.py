"""Tables as numbers, codes of categories and texts: the kinds of columns, and how their values are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from ghrr.checks import short_repr, value_error, warn
from ghrr.encoding.column_kinds import Guess
from ghrr.encoding.column_values import Notation, find_notation
from ghrr.encoding.number_scales import is_multiplicative, logarithms, smallest_exact
from ghrr.learn.base import FeatureEncoder, as_array
from ghrr.learn.table_columns import (
    KINDS,
    NUMERIC,
    TEXTUAL,
    category_codes,
    find_categories,
    guess_kind,
    read_numbers,
    read_texts,
)


class TableReader(FeatureEncoder):
    """Base class of :class:`TableFeatures`: finds the kinds of columns and reads their values."""

    columns: Mapping[Any, str] | None
    handle_unknown: str

    def _fit_columns(self, table: Any) -> None:
        """Find the kinds of columns, how they write their values, and their categories."""
        guesses = self._guess_kinds(table)
        self.columns_ = {column: guess.kind for column, guess in guesses.items()}
        self.doubts_ = {column: guess.doubt for column, guess in guesses.items() if guess.doubt}
        self._find_notations(table, guesses)
        self._warn_of_doubts()
        self.categories_ = {c: find_categories(table[c]) for c in self._columns_of("category")}
        self.logarithmic_: dict[Any, float] = {}
        for place, name in enumerate(self._columns_of(*NUMERIC)):
            if self.columns_[name] == "number":
                column = self._read_numbers(table, place, name)
                known = column[np.isfinite(column)]
                if is_multiplicative(known):
                    self.logarithmic_[name] = smallest_exact(known)

    def _columns_of(self, *kinds: str) -> list[Any]:
        return [column for column, kind in self.columns_.items() if kind in kinds]

    def _guess_kinds(self, table: Any) -> dict[Any, Guess]:
        """Return the kind of each column, as given or inferred."""
        given = dict(self.columns or {})
        is_array = isinstance(table, np.ndarray)
        names = list(range(table.shape[1])) if is_array else list(table.columns)
        unknown = [column for column in given if column not in names]
        if unknown:
            raise value_error(f"columns {unknown} are not in the table, which has {names}")
        wrong = sorted({str(kind) for kind in given.values()} - set(KINDS))
        if wrong:
            raise value_error(f"kinds of columns must be among {', '.join(KINDS)}; got {', '.join(wrong)}")
        if is_array:
            return {column: Guess("number") for column in names}
        guesses = {c: Guess(given[c]) if c in given else guess_kind(table[c]) for c in names}
        if all(guess.kind == "ignore" for guess in guesses.values()):  # an identifier is better than nothing
            for c, guess in guesses.items():
                if guess.is_identifier:
                    kind = "text" if read_numbers(table[c], "number")[1] else "number"
                    guesses[c] = Guess(kind, guess.notation, guess.doubt)
        return guesses

    def _find_notations(self, table: Any, guesses: Mapping[Any, Guess]) -> None:
        """Find how columns write numbers and dates, and which values of columns of an inferred kind are none."""
        self.notations_: dict[Any, tuple[str, bool, bool]] = {}
        self.unread_: dict[Any, list[str]] = {}
        for c in self._columns_of(*NUMERIC):
            if isinstance(table, np.ndarray) or table[c].dtype.kind in "fbmM":
                continue
            is_given = c in (self.columns or {})
            notation = find_notation(table[c].dropna()) if is_given else guesses[c].notation
            decimal, day_first, compact, _ = astuple(notation)
            self.notations_[c] = decimal, day_first, compact
            if is_given:
                continue
            unread = read_numbers(table[c], self.columns_[c], notation)[1]
            if unread:
                self.unread_[c] = sorted(set(map(str, unread)))
                self.doubts_[c] = (
                    f"{len(unread):,} values that cannot be read, such as {short_repr(unread[0])}, count as missing"
                )

    def _warn_of_doubts(self) -> None:
        doubts = [f"{c!r} as {self.columns_[c]} ({doubt})" for c, doubt in self.doubts_.items()]
        if doubts:
            warn(
                f"the kinds of some columns are unsure: {'; '.join(doubts)}; set columns= to the kinds that are correct"
            )

    def _read_table(self, X: Any, *, reset: bool) -> Any:
        """Return samples as an array of numbers if all columns are numbers, otherwise as a pandas table."""
        if hasattr(X, "to_pandas"):  # a table of polars or pyarrow
            X = X.to_pandas()
        if hasattr(X, "columns") and hasattr(X, "dtypes"):
            if not X.columns.is_unique:
                raise value_error(f"names of columns must differ, got {list(X.columns)}")
            validate_data(self, X, skip_check_array=True, reset=reset)
            for size, what in zip(X.shape, ("sample", "feature"), strict=True):
                if not size:
                    raise ValueError(
                        f"Found array with 0 {what}(s) (shape={X.shape}) while a minimum of 1 is required by "
                        f"TableFeatures."
                    )
            return X if reset else X.set_axis(list(self.columns_), axis=1)
        if isinstance(X, (list, tuple)):
            try:
                has_strings = np.asarray(X).dtype.kind == "U"
            except ValueError as error:
                raise value_error("rows must have one value for each column, all the same number") from error
            X = np.array(X, dtype=object) if has_strings else X  # numbers beside strings stay numbers
        array = validate_data(self, as_array(X), dtype=None, ensure_all_finite="allow-nan", reset=reset)
        only_numbers = not self.columns if reset else set(self.columns_.values()) == {"number"}
        if array.dtype.kind in "iuf" and only_numbers:
            return array.astype(np.float64)
        import pandas as pd  # noqa: PLC0415 (arrays of numbers do not need it)

        return pd.DataFrame(array, columns=None if reset else list(self.columns_)).infer_objects()

    def _read_rows(self, table: Any) -> NDArray[Any]:
        """Return a structured array with one entry per row: its numbers, codes of categories and texts."""
        columns = self._columns_of(*NUMERIC), list(self.categories_), self._columns_of(*TEXTUAL)
        types = (np.float64, np.int64, object)
        fields = zip(("numbers", "codes", "texts"), types, columns, strict=True)
        rows = np.empty(len(table), dtype=[(field, kind, (len(names),)) for field, kind, names in fields])
        ignore = self.handle_unknown == "ignore"
        for i, c in enumerate(columns[0]):
            rows["numbers"][:, i] = self._read_numbers(table, i, c)
        for i, (c, categories) in enumerate(self.categories_.items()):
            rows["codes"][:, i] = category_codes(table[c], categories, ignore_unknown=ignore)
        for i, c in enumerate(columns[2]):
            rows["texts"][:, i] = read_texts(table[c])
        return rows

    def _read_numbers(self, table: Any, place: int, name: Any) -> NDArray[np.float64]:
        """Return the column of numbers at a place among those, or its logarithms if its scale is multiplicative."""
        numbers = table[:, place] if isinstance(table, np.ndarray) else self._parse_numbers(table[name], name)
        smallest = getattr(self, "logarithmic_", {}).get(name)  # estimators of version 0.3 have none
        return numbers if smallest is None else logarithms(numbers, smallest)

    def notation_of(self, name: Any) -> Notation:
        """Return how a column writes numbers and dates; estimators of version 0.3 do not store this."""
        return Notation(*getattr(self, "notations_", {}).get(name, ()))

    def find_unread(self, column: Any, name: Any) -> list[Any]:
        """Return the values of a column of numbers, dates or booleans that are none, and did not occur in the fit."""
        return self._new_unread(read_numbers(column, self.columns_[name], self.notation_of(name))[1], name)

    def _new_unread(self, unread: list[Any], name: Any) -> list[Any]:
        known = set(getattr(self, "unread_", {}).get(name, ()))
        return [value for value in unread if str(value) not in known]

    def _parse_numbers(self, column: Any, name: Any) -> NDArray[np.float64]:
        """Return the values of a column of numbers, dates or booleans; errors name the column."""
        kind = self.columns_[name]
        try:
            numbers, unread = read_numbers(column, kind, self.notation_of(name))
        except ValueError as error:
            raise value_error(f"cannot read column {column.name!r} as {kind}s: {error}") from error
        wrong = self._new_unread(unread, name)
        if wrong and self.handle_unknown == "error":
            advice = "convert them, for example with pandas.to_datetime" if kind == "date" else "correct them"
            raise value_error(
                f"cannot read column {column.name!r} as {kind}s: got {short_repr(wrong[0])}; {advice}, "
                f'or set handle_unknown="ignore" to treat such values as missing'
            )
        return numbers

    def check_samples(self, X: Any) -> NDArray[Any]:
        """Return the rows of a table as a structured array: numbers, codes of categories and texts."""
        return self._read_rows(self._read_table(X, reset=False))
