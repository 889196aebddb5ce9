r"""Conditions of a search: exact filters, and fields that must be similar enough (``near``).

A field is near if its score is at least 1/2; for numbers and dates 1/4, the half of the wider term of their kernel.
This is an interval: :math:`e^{-\Delta^2 / 2b^2}` is at least 1/2 up to the distance :math:`b \sqrt{2 \ln 2}`. For
categories and booleans it is equality, of the hashes by which they are compared. These four kinds have a column in
engines that filter (:mod:`ghrr.search.engine_columns`). All conditions are tested on the documents in the end, so every
engine gives the same answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ghrr.checks import describe, value_error
from ghrr.memory import Bound
from ghrr.search.encoder import Prepared, RecordEncoder
from ghrr.search.engine_columns import EQUALITY_KINDS, INTERVAL_KINDS, ROUNDING, column_name, limited, numbers_of
from ghrr.search.fields import Field
from ghrr.search.filters import Filters, check_object, no_field
from ghrr.search.kernel_fields import KernelField
from ghrr.search.paths import STAR, WHOLE, Path, columns, show

ENOUGH = 0.5  # from this score on a field is near


class Conditions:
    """Parts of documents that records must have, must not have, and must be near to.

    Parameters
    ----------
    encoder
        Encoder of the index.
    must, must_not
        Exact conditions; see :mod:`ghrr.search.filters`.
    near
        Part of a document that records must be similar to in every field.
    """

    def __init__(
        self,
        encoder: RecordEncoder,
        must: Mapping[str, Any] | None,
        must_not: Mapping[str, Any] | None,
        near: Mapping[str, Any] | None,
    ) -> None:
        self._encoder = encoder
        self._filters = Filters(encoder, must, must_not)
        self._near: Prepared | None = None
        if near is not None:
            check_object("near", near)
        if near:
            self._near = encoder.prepare([near], noun="near: document")
            _check_usable(encoder, near, self._near)

    def __bool__(self) -> bool:
        return bool(self._filters) or self._near is not None

    def bounds(self) -> list[Bound]:
        """Return bounds that every record which fulfils the conditions is within, if it has one number."""
        result = self._filters.bounds()
        if self._near is None:
            return result
        for number, field in self._fields(self._near):
            if field.kind not in INTERVAL_KINDS + EQUALITY_KINDS:
                continue
            ends = numbers_of(field, self._near.values[number], self._near.rows[number, :1])
            low, high = (float(end[0]) for end in ends)
            if math.isnan(low):  # a value of another type, compared as text
                continue
            if isinstance(field.encoder, KernelField):
                reach = field.encoder.bandwidth * math.sqrt(-2 * math.log(ENOUGH))
                reach += ROUNDING * (1 + abs(low) + abs(high) + reach)
                low, high = limited(low - reach), limited(high + reach)
            result.append(Bound(column_name(field), low, high))
        return result

    def fulfilled(self, documents: Sequence[Any]) -> NDArray[np.bool_]:
        """Return which of the documents fulfil all conditions."""
        found = columns(documents)
        keep = self._filters.fulfilled(found, len(documents))
        if self._near is None:
            return keep
        rows = np.arange(len(documents))
        stored = self._encoder.prepare_columns(found, len(documents))
        scores = self._encoder.field_scores(self._near, np.zeros_like(rows), stored, rows)
        for number, field in self._fields(self._near):
            is_sharp = isinstance(field.encoder, KernelField) and field.encoder.is_sharp
            keep &= np.nan_to_num(scores[:, number]) >= (ENOUGH / 2 if is_sharp else ENOUGH)
        return keep

    def _fields(self, part: Prepared) -> list[tuple[int, Field]]:
        """Return the fields that a condition has. The text of all fields is one if it is given under its own name."""
        compared = _compared(self._encoder)
        active = enumerate(self._encoder.active)
        return [
            (number, field)
            for number, field in active
            if part.rows[number, 0] >= 0
            and (field.path != WHOLE or (bool(part.has_whole[0]) and compared[STAR] == number))
        ]


def _compared(encoder: RecordEncoder) -> dict[Path, int]:
    """Return the active field of each path of a condition. ``"*"`` is the text of all fields, unless a field has it."""
    own = {field.path: number for number, field in enumerate(encoder.active)}
    return {STAR if path == WHOLE else path: own[path] for path in sorted(own, key=len)}


def _check_usable(encoder: RecordEncoder, given: Mapping[str, Any], part: Prepared) -> None:
    """Raise ValueError for a value that no record could be compared with: it would have no effect."""
    compared, found = _compared(encoder), columns([given])
    if not found:
        raise value_error(f"near: needs a value that is not missing, got {describe(given)}; leave the condition out")
    for given_path, column in found.items():
        path = given_path if given_path in compared else encoder.aliases.get(given_path, given_path)
        if path not in compared:
            raise no_field("near", path, encoder.active)
        if part.rows[compared[path], 0] < 0:
            kind = encoder.active[compared[path]].kind
            raise value_error(f"near: {show(path)!r} must be a {kind}, got {column.values[0]!r:.80}")
