r"""Conditions: fields that must agree, or must not, tested on documents and, as far as possible, inside an engine.

A field agrees if its score is at least 1/2. For numbers and dates this is an interval: the kernel
:math:`e^{-\Delta^2 / 2b^2}` is at least 1/2 up to the distance :math:`b \sqrt{2 \ln 2}`. For categories and booleans it
is equality, of the hashes by which they are compared. So these four kinds are one number per record, which engines that
filter store in a column and compare with bounds. Other kinds are tested on the documents alone. All conditions are
tested on the documents in the end, so every engine gives the same answers.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ghrr.memory import Bound
from ghrr.search.encoder import Prepared, RecordEncoder
from ghrr.search.fields import Field, list_names
from ghrr.search.kernel_fields import KernelField
from ghrr.search.paths import WHOLE, columns, show

Floats = NDArray[np.float64]
AGREE = 0.5  # from this score on a field agrees
_INTERVAL_KINDS = ("number", "date")
_EQUALITY_KINDS = ("category", "boolean")
_HASH_BITS = 52  # of 63: a double represents them exactly
_ROUNDING = 1e-9


def column_name(field: Field) -> str:
    """Return the name of the column of a field: readable, valid in every engine, and different for each path.

    Examples
    --------
    >>> from ghrr.search.conditions import column_name
    >>> from ghrr.search.fields import make_field
    >>> column_name(make_field(("born", "year"), "number"))
    'f_born_year_2c09dc'
    """
    digest = hashlib.blake2b("\x1f".join(field.path).encode("utf-8", "surrogatepass"), digest_size=3).hexdigest()
    return f"f_{re.sub(r'[^a-z0-9]+', '_', field.name.lower())[:40]}_{digest}"


def filter_columns(encoder: RecordEncoder, prepared: Prepared) -> dict[str, Floats]:
    """Return the columns of documents that engines can filter by; NaN where a value is missing."""
    result = {}
    for number, field in enumerate(encoder.active):
        if field.kind in _INTERVAL_KINDS + _EQUALITY_KINDS:
            rows = prepared.rows[number]
            present = np.flatnonzero(rows >= 0)
            column = np.full(prepared.count, np.nan)
            column[present] = _numbers(field, prepared.values[number], rows[present])[0]
            result[column_name(field)] = column
    return result


def _numbers(field: Field, values: Any, rows: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return the lowest and the highest number of values, which differ for ranges."""
    if isinstance(field.encoder, KernelField):
        return values[0][rows, 0], values[1][rows, 0]
    hashes = (values.keys[values.features[values.offsets[rows]]] >> (63 - _HASH_BITS)).astype(np.float64)
    return hashes, hashes


class Conditions:
    """Parts of documents that records must agree with, and must not.

    Parameters
    ----------
    operation
        For errors.
    encoder
        Encoder of the index.
    must, must_not
        Parts of documents.
    """

    def __init__(
        self,
        operation: str,
        encoder: RecordEncoder,
        must: Mapping[str, Any] | None,
        must_not: Mapping[str, Any] | None,
    ) -> None:
        self._encoder = encoder
        self._parts = []
        for name, given, wanted in (("must", must, True), ("must_not", must_not, False)):
            if given:
                part = encoder.prepare([given], operation)
                _check_usable(f"{operation}: {name}", encoder, given, part)
                self._parts.append((part, wanted))

    def __bool__(self) -> bool:
        return bool(self._parts)

    def _fields(self, part: Prepared) -> list[tuple[int, Field]]:
        """Return the fields that a condition has, without the text of all fields."""
        active = enumerate(self._encoder.active)
        return [(number, field) for number, field in active if part.rows[number, 0] >= 0 and field.path != WHOLE]

    def bounds(self) -> list[Bound]:
        """Return bounds that every record which fulfils the conditions is within."""
        result = []
        for part, wanted in self._parts:
            for number, field in self._fields(part):
                if field.kind not in _INTERVAL_KINDS + _EQUALITY_KINDS:
                    continue
                low, high = (float(end[0]) for end in _numbers(field, part.values[number], part.rows[number, :1]))
                reach = 0.0
                if isinstance(field.encoder, KernelField):
                    reach = field.encoder.bandwidth * math.sqrt(-2 * math.log(AGREE))
                    # A wider interval finds, and a narrower one excludes, nothing wrong by rounding.
                    reach += (1 if wanted else -1) * _ROUNDING * (1 + abs(low) + abs(high) + reach)
                if low - reach <= high + reach:
                    result.append(Bound(column_name(field), low - reach, high + reach, wanted))
        return result

    def fulfilled(self, stored: Prepared, at: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of the records ``at`` have all fields of ``must`` and none of ``must_not``."""
        keep = np.ones(len(at), dtype=bool)
        for part, wanted in self._parts:
            scores = self._encoder.field_scores(part, np.zeros(len(at), dtype=np.int64), stored, at)
            own = [number for number, _ in self._fields(part)]
            agrees = np.nan_to_num(scores[:, own]) >= AGREE
            keep &= agrees.all(axis=1) if wanted else ~agrees.any(axis=1)
        return keep


def _check_usable(where: str, encoder: RecordEncoder, given: Mapping[str, Any], part: Prepared) -> None:
    """Raise ValueError for a value that no record could be compared with: it would have no effect."""
    compared = {field.path: number for number, field in enumerate(encoder.active) if field.path != WHOLE}
    for given_path, column in columns([given]).items():
        path = given_path if given_path in compared else encoder.aliases.get(given_path, given_path)
        if path not in compared:
            names = [show(one) for one in compared]
            raise ValueError(
                f"{where}: there is no field {show(path)!r} to compare, expected one of {list_names(names)}; leave it "
                f"out, or add documents with this field"
            )
        if part.rows[compared[path], 0] < 0:
            kind = encoder.active[compared[path]].kind
            raise ValueError(f"{where}: {show(path)!r} must be a {kind}, got {column.values[0]!r:.80}")
