"""Models of tables: from a table and a target column to a fitted model, and from a model and a table to predictions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ghrr._similar import similar_names
from ghrr.checks import check_choice, check_device, names_errors, short_repr, value_error
from ghrr.encoding.column_kinds import Guess
from ghrr.encoding.column_values import find_notation
from ghrr.learn.auto_encoder import table_encoder
from ghrr.learn.classifier import TRAINING, HDClassifier
from ghrr.learn.regressor import HDRegressor
from ghrr.learn.table_columns import TEXTUAL, category_codes, guess_kind, read_numbers
from ghrr.learn.table_features import TableFeatures

TASKS = ("classification", "regression")
_MOST_CLASSES = 20  # a target with more different integers is a number
_MOST_NAMED_CLASSES = 100  # a target with more strings, most of them different, has no classes
_STORED = (str, int, float, np.bool_, np.integer, np.floating)  # categories that a saved model can have
_UNNAMED = re.compile(r"\s*|Unnamed: \d.*")  # names that pandas gives to columns with an empty header
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True)
class LearningTask:
    """Rows and targets to learn from.

    Attributes
    ----------
    kind
        ``"classification"`` or ``"regression"``.
    X, y
        Columns to learn from, and the target of each row.
    columns
        Kind of each column. Those of all rows count, because a part of the rows can lack all values of a column.
    notes
        What was left out, and what in the table looks like a mistake, in sentences.
    """

    kind: str
    X: pd.DataFrame
    y: NDArray[Any]
    columns: dict[str, str]
    notes: list[str] = field(default_factory=list)

    @names_errors("learn")
    def model(
        self, *, dim: int = 1024, training: str | None = None, seed: int = 0, device: str | None = None
    ) -> HDClassifier | HDRegressor:
        """Return a model for this task, not fitted. ``training`` is as in :class:`HDClassifier`."""
        if device is not None:
            check_device(device)
        if training is not None:
            check_choice("training", training, TRAINING)
        settings: dict[str, Any] = {"random_state": seed, "device": device}
        encoder = table_encoder(dim, columns=self.columns, **settings)
        if self.kind == "classification":
            return HDClassifier(encoder, training=training or "ridge", **settings)
        if training is not None:
            raise value_error(
                f"training applies to classification only, got {training!r} for a regression; leave it out"
            )
        return HDRegressor(encoder, **settings)


@names_errors("learn")
def make_task(
    table: pd.DataFrame,
    target: str,
    *,
    kind: str | None = None,
    text: Collection[str] = (),
    drop: Collection[str] = (),
) -> LearningTask:
    """Separate the target column from the others, and decide between classification and regression.

    Strings, booleans and at most 20 different integers are classes; other numbers are targets of a regression. Rows
    without a target and columns without any value are left out.

    Parameters
    ----------
    table
        All columns.
    target
        Column to predict.
    kind
        ``"classification"`` or ``"regression"``, instead of the inferred one.
    text
        Columns to encode by their character trigrams.
    drop
        Columns to leave out.

    Examples
    --------
    >>> import pandas as pd
    >>> from ghrr.learn.table_models import make_task
    >>> table = pd.DataFrame({"age": [31, 50, 42], "sick": ["no", "yes", None], "id": [1, 2, 3]})
    >>> task = make_task(table, "sick", drop=["id"])
    >>> task.kind, task.y.tolist(), task.notes
    ('classification', ['no', 'yes'], ['1 row without a value of sick is left out'])
    """
    if kind is not None:
        check_choice("task", kind, TASKS)
    check_columns(table, [target], "target")
    check_columns(table, text, "text")
    check_columns(table, drop, "drop")
    if target in (*text, *drop):
        raise value_error(f"{target!r} is the target, expected another column for text and drop; leave it out")
    both = [column for column in text if column in drop]
    if both:
        raise value_error(
            f"the column {both[0]!r} is both in text and in drop, expected one of them; remove "
            f"--text {both[0]!r} or --drop {both[0]!r}"
        )
    known = table[target].notna().to_numpy()
    if not known.any():
        raise value_error(f"the target {target!r} has no value in any row, expected one in at least two rows")
    notes = []
    if not known.all():
        count = int((~known).sum())
        without = "1 row without a value" if count == 1 else f"{count:,} rows without a value"
        notes.append(f"{without} of {target} {'is' if count == 1 else 'are'} left out")
    rows = table.loc[known].reset_index(drop=True)
    kept = rows.drop(columns=list({target, *drop}))
    if not kept.shape[1]:
        raise value_error(f"there is no column beside the target {target!r}, expected at least one to learn from")
    _check_finite(kept)
    empty = [column for column in kept.columns if not kept[column].notna().any()]
    if len(empty) == kept.shape[1]:
        raise value_error(f"no column beside the target {target!r} has any value, expected at least one with values")
    notes += [f"the column {column} has no values and is ignored" for column in empty]
    columns = {**dict.fromkeys(text, "text"), **dict.fromkeys(empty, "ignore")}
    inferred = kept.drop(columns=list(columns))
    guesses = {column: guess_kind(inferred[column]) for column in inferred.columns}
    _check_stored(inferred[[column for column, guess in guesses.items() if guess.kind == "category"]])
    notes += [
        f"the column {column!r} has the kind {guess.kind}{reason}"
        for column, guess in guesses.items()
        if (reason := _reason_of_doubt(inferred[column], guess))
    ]
    if misfits := _describe_misfits(rows[target], _target_kind(rows[target])):
        notes.append(f"the values of {target!r} are taken as classes, because {misfits}")
    notes += [
        f"the column {column!r} has no name in the file, and the model learns from it; if it numbers the rows, leave "
        f"it out with --drop {column!r}"
        for column in inferred.columns
        if _UNNAMED.fullmatch(str(column)) and guesses[column].kind != "ignore"
    ]
    columns |= {column: guess.kind for column, guess in guesses.items()}
    chosen, y = _read_target(rows[target], kind)
    return LearningTask(chosen, kept, y, columns, notes)


def check_columns(table: pd.DataFrame, names: Iterable[str], what: str) -> None:
    """Raise for the first name that is not a column, with the most similar names."""
    for name in names:
        if name not in table.columns:
            near = similar_names(name, table.columns, n=3)
            listed = ", ".join(map(repr, near or list(table.columns)[:10]))
            hint = f"did you mean {listed}?" if near else f"the columns are {listed}"
            raise value_error(f"there is no column {name!r}, expected a column of the table as {what}; {hint}")


def _check_stored(table: pd.DataFrame) -> None:
    """Raise if columns of categories have values that cannot be written to the file of a model."""
    wrong = {}
    for name, column in table.items():
        declared = isinstance(column.dtype, pd.CategoricalDtype)
        values = column.cat.categories.to_series() if declared else column.dropna()
        wrong[name] = sorted({t.__name__ for t in values.astype(object).map(type) if not issubclass(t, _STORED)})
    got = [f"{name!r} ({', '.join(types)})" for name, types in wrong.items() if types]
    if got:
        options = " ".join(f"--drop {name!r}" for name, types in wrong.items() if types)
        raise value_error(
            f"columns must have numbers, strings, booleans or dates, got {', '.join(got)}; convert them, or "
            f"leave them out with {options}"
        )


def _find_misfits(column: pd.Series, kind: str) -> list[Any]:
    """Return the values of a column that are not of the kind ``"number"`` or ``"date"``."""
    values = column.dropna()
    return read_numbers(values, kind, find_notation(values))[1]


def _reason_of_doubt(column: pd.Series, guess: Guess) -> str:
    """Return the end of a sentence that says why the kind of a column may be wrong; ``""`` if there is no doubt."""
    misfits = "" if isinstance(column.dtype, pd.CategoricalDtype) else _describe_misfits(column, guess.kind)
    if misfits and guess.kind in ("text", "category"):
        return f", because {misfits}"
    if misfits:
        return f", but {misfits}"
    return f" ({guess.doubt})" if guess.doubt else ""


def _describe_misfits(column: pd.Series, kind: str) -> str:
    """Return which values of a column of this kind are no numbers or dates, if most are; otherwise ``""``."""
    count = column.notna().sum()
    ordered = ("number", "date")
    for other in ordered if kind in ("text", "category") else {kind}.intersection(ordered):
        misfits = _find_misfits(column, other)
        if 0 < len(misfits) < count / 2:
            example = short_repr(misfits[0])
            if len(misfits) == 1:
                return (
                    f"1 of its {count:,} values is not a {other}: {example}; correct it, or leave it empty if it is "
                    f"unknown"
                )
            return (
                f"{len(misfits):,} of its {count:,} values are not {other}s, such as {example}; correct them, or leave "
                f"them empty if they are unknown"
            )
    return ""


def _read_target(column: pd.Series, kind: str | None) -> tuple[str, NDArray[Any]]:
    """Return the kind of task and the targets of all rows."""
    form = _target_kind(column)
    misfits = _describe_misfits(column, form)
    if form == "date" or (form == "text" and kind != "classification"):
        raise value_error(
            f"the target {column.name!r} has {column.nunique():,} different values of kind {form}, expected "
            f"classes or numbers; {misfits or 'choose another column'}"
        )
    if column.dtype.kind == "f" and np.isinf(column.to_numpy(dtype=np.float64, na_value=np.nan)).any():
        raise value_error(f"the target {column.name!r} has an infinite value, expected finite numbers; remove it")
    numbers = read_numbers(column, "number", find_notation(column))[0] if form == "number" else np.empty(0)
    is_integer = form == "number" and bool((numbers % 1 == 0).all())
    if kind is None:
        few = is_integer and column.nunique() <= _MOST_CLASSES
        kind = "classification" if form == "category" or few else "regression"
    if kind == "regression":
        if form != "number":
            example = next(iter(_find_misfits(column, "number")), column.iloc[0])
            raise value_error(
                f"the target {column.name!r} has values such as {example!r}, expected numbers for a regression; "
                f"{misfits or 'use classification'}"
            )
        return kind, numbers
    if is_integer and column.dtype.kind != "O":
        labels = column.to_numpy(dtype=np.int64)
    elif pd.api.types.is_bool_dtype(column):
        labels = column.to_numpy(dtype=bool)
    else:
        labels = column.astype(object).astype(str).to_numpy(dtype=object)
    if len(np.unique(labels)) < 2:
        raise value_error(f"the target {column.name!r} has only one class, {labels[0]!r}, expected at least two")
    return kind, labels


def _target_kind(column: pd.Series) -> str:
    """Return ``"number"``, ``"category"``, ``"text"`` or ``"date"``; a number of each row is a number here."""
    if column.dtype.kind in "iuf":
        return "number"
    if column.nunique() < 2:
        return "category"
    guess = guess_kind(column)
    if guess.kind == "number" and _find_misfits(column, "number"):
        return "text"
    if guess.kind in ("number", "date"):
        return guess.kind
    return "text" if column.nunique() > max(_MOST_NAMED_CLASSES, column.notna().sum() // 2) else "category"


# --------------------------------------------------------------------------------------------------------- predictions


def columns_read_as_text(model: Any) -> list[str]:
    """Return the columns of a model of tables whose values are strings, though a file may show them as numbers."""
    encoder = encoder_of(model)
    strings = [c for c, values in encoder.categories_.items() if any(isinstance(value, str) for value in values)]
    commas = [column for column in encoder.columns_ if encoder.notation_of(column).decimal == ","]
    return strings + commas + [column for column, kind in encoder.columns_.items() if kind in TEXTUAL]


def _select_columns(encoder: TableFeatures, table: pd.DataFrame) -> pd.DataFrame:
    """Return the columns that a model was fitted on. Booleans that were read as strings become booleans again."""
    rows = table.reindex(columns=list(encoder.columns_))
    for column, categories in encoder.categories_.items():
        if all(isinstance(value, bool) for value in categories):
            rows[column] = rows[column].map(lambda value: _BOOLEANS.get(str(value).lower(), value))
    return rows


def describe_unknown(model: Any, table: pd.DataFrame) -> list[str]:
    """Return a sentence for each column with categories that did not occur when the model was fitted."""
    encoder = encoder_of(model)
    rows = _select_columns(encoder, table)
    sentences = []
    for column, kind in encoder.columns_.items():
        unknown = encoder.find_unread(rows[column], column) if kind == "boolean" else []
        if kind == "category":
            codes = category_codes(rows[column], encoder.categories_[column], ignore_unknown=True)
            unknown = rows[column][codes < 0].dropna().tolist()
        if unknown:
            count = "1 row has an unknown value" if len(unknown) == 1 else f"{len(unknown):,} rows have unknown values"
            sentences.append(f"{count} in {column!r}, such as {short_repr(unknown[0])}; treated as missing")
    return sentences


def _check_finite(table: pd.DataFrame) -> None:
    """Raise if a column of numbers has an infinite value."""
    for column in table.select_dtypes("number").columns:
        infinite = np.flatnonzero(np.isinf(table[column].to_numpy(dtype=float, na_value=np.nan)))
        if len(infinite):
            raise value_error(
                f"the column {column!r} has an infinite value in row {infinite[0] + 1}, expected finite "
                f"numbers; correct it, or leave it empty if it is unknown"
            )


@names_errors("predict")
def predict_table(model: Any, table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return predictions for the rows of a table, and the columns that the model does not use.

    Columns can be in any order. Predictions have the column ``prediction`` and, for a classifier, a column
    ``probability CLASS`` per class.

    Raises
    ------
    ValueError
        Columns are missing, or have values of another kind.
    """
    encoder = encoder_of(model)
    used = [column for column, kind in encoder.columns_.items() if kind != "ignore"]
    missing = [column for column in used if column not in table.columns]
    if missing:
        raise value_error(
            f"the table lacks the columns {', '.join(map(repr, missing))}, expected all of "
            f"{', '.join(map(repr, used))}; add them, with empty values if they are unknown"
        )
    extra = [column for column in table.columns if column not in used]
    rows = _select_columns(encoder, table)
    _check_finite(rows[used])
    for column in used:
        kind, values = encoder.columns_[column], rows[column].dropna()
        wrong = encoder.find_unread(values, column) if kind in ("number", "date") else []
        if wrong:
            raise value_error(
                f"the column {column!r} must have values of the kind {kind}, got {wrong[0]!r}; correct it, or "
                f"leave it empty if it is unknown"
            )
    if not isinstance(model, HDClassifier):
        return pd.DataFrame({"prediction": model.predict(rows)}), extra
    probabilities = model.predict_proba(rows)
    result = pd.DataFrame({"prediction": model.classes_[probabilities.argmax(axis=1)]})
    for label, values in zip(model.classes_, probabilities.T, strict=True):
        result[f"probability {label}"] = values.round(6)
    return result, extra


@names_errors("predict")
def encoder_of(model: Any) -> TableFeatures:
    """Return the fitted encoder of a model of tables; raise for other models."""
    encoder = getattr(model, "encoder_", None)
    if not isinstance(encoder, TableFeatures):
        found = type(model).__name__ + (f" with {type(encoder).__name__}" if encoder is not None else "")
        raise value_error(
            f"the model is a {found}, expected a classifier or regressor of tables; use one that "
            f"`ghrr learn` has written"
        )
    return encoder


def forget_device(model: HDClassifier | HDRegressor) -> None:
    """Let a saved copy of a model predict on the CPU, wherever the model was trained."""
    fitted = encoder_of(model)
    for part in (model, model.encoder, fitted, *fitted.text_encoders_):
        part.device = None
