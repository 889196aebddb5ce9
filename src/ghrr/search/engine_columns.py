r"""Columns of engines: one number per record and field, by which an engine can filter while it searches.

For numbers and dates it is the coordinate that their kernel compares, and for categories and booleans the hash by which
they are compared. A record without a value has ``MISSING``. One with another value, such as a list, has NaN: engines
leave it to the documents.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ghrr.search.encoder import Prepared, RecordEncoder
from ghrr.search.fields import Field
from ghrr.search.kernel_fields import KernelField
from ghrr.search.paths import Column, Path

Floats = NDArray[np.float64]
INTERVAL_KINDS = ("number", "date")
EQUALITY_KINDS = ("category", "boolean")
MISSING = -1e300
FARTHEST = 1e299  # a bound that leaves records out does not reach MISSING
ROUNDING = 1e-9
_HASH_BITS = 52  # of 63: a double represents them exactly


def column_name(field: Field) -> str:
    """Return the name of the column of a field: readable, valid in every engine, and different for each path.

    Examples
    --------
    >>> from ghrr.search.engine_columns import column_name
    >>> from ghrr.search.fields import make_field
    >>> column_name(make_field(("born", "year"), "number"))
    'f_born_year_2c09dc'
    """
    digest = hashlib.blake2b("\x1f".join(field.path).encode("utf-8", "surrogatepass"), digest_size=3).hexdigest()
    return f"f_{re.sub(r'[^a-z0-9]+', '_', field.name.lower())[:40]}_{digest}"


def filter_columns(encoder: RecordEncoder, prepared: Prepared, found: Mapping[Path, Column]) -> dict[str, Floats]:
    """Return the columns of documents, which are given as prepared values and by path."""
    result = {}
    for number, field in enumerate(encoder.active):
        if field.kind in INTERVAL_KINDS + EQUALITY_KINDS:
            rows = prepared.rows[number]
            present = np.flatnonzero(rows >= 0)
            column = np.full(prepared.count, MISSING)
            column[present] = numbers_of(field, prepared.values[number], rows[present])[0]
            given = found.get(field.path, Column())
            pairs = zip(given.rows, given.values, strict=True)
            column[[row for row, value in pairs if isinstance(value, list)]] = np.nan
            result[column_name(field)] = column
    return result


def numbers_of(field: Field, values: Any, rows: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return the lowest and the highest number of values, which differ for ranges."""
    if isinstance(field.encoder, KernelField):
        return values.low[rows, 0], values.high[rows, 0]
    hashes = (values.keys[values.features[values.offsets[rows]]] >> (63 - _HASH_BITS)).astype(np.float64)
    return hashes, hashes


def limited(end: float) -> float:
    """Return an end of an interval as a finite number."""
    return float(np.clip(end, -sys.float_info.max, sys.float_info.max))
