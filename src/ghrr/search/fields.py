"""Fields: what is compared at each path of the documents, and how. Inferred from data; you can override each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ghrr._checks import check_choice, check_real
from ghrr.search.bags import BAG_KINDS, BagField
from ghrr.search.kernel_fields import KERNEL_KINDS, KernelField, Range, as_date, as_number
from ghrr.search.paths import WHOLE, Column, Path, show

KINDS = (*BAG_KINDS, *KERNEL_KINDS, "ignore")
_SAMPLE = 20_000  # values of a column that are looked at
_MOST_CATEGORIES = 64
_SHOWN = 10  # fields in a message
_POINT_NAMES = ("latlng", "latlon", "lonlat", "coordinates", "location", "geo", "position", "point")


@dataclass
class Field:
    """Values at one path: their kind, their weight in the similarity, and their encoder.

    Parameters
    ----------
    path
        Keys from the root of a document; ``("*",)`` is the text of all fields.
    kind
        ``"text"``, ``"category"``, ``"boolean"``, ``"set"``, ``"sequence"``, ``"number"``, ``"date"``, ``"point"``,
        ``"embedding"`` or ``"ignore"``.
    encoder
        Encoder of this kind, fitted to data.
    weight
        Weight of the similarity of this field.

    Examples
    --------
    >>> import ghrr
    >>> index = ghrr.search.RecordIndex()
    >>> index.add([{"name": "Ada", "born": 1815}, {"name": "Alan", "born": 1912}])
    >>> [(field.name, field.kind) for field in index.fields]
    [('name', 'text'), ('born', 'number')]
    """

    path: Path
    kind: str
    encoder: BagField | KernelField | None
    weight: float = 1.0

    @property
    def name(self) -> str:
        """The path as text, ``"born.city"``."""
        return show(self.path)


def make_field(path: Path, kind: str) -> Field:
    """Return a field of a kind, not yet fitted."""
    check_choice("Field", "kind", kind, KINDS)
    if kind == "ignore":
        return Field(path, kind, None, 0.0)
    return Field(path, kind, BagField(kind) if kind in BAG_KINDS else KernelField(kind))


def check_kinds(operation: str, kinds: Mapping[str, str] | None) -> dict[str, str]:
    """Return kinds by name of a field; raise for an unknown kind."""
    for name, kind in (kinds or {}).items():
        check_choice(operation, f"kind of field {name!r}", kind, KINDS)
    return dict(kinds or {})


def check_weights(operation: str, weights: Mapping[str, float] | None, names: Sequence[str]) -> dict[str, float]:
    """Return weights by name of a field; raise for an unknown field or a weight that is negative or not finite."""
    for name, weight in (weights or {}).items():
        if name not in names:
            raise KeyError(f"{operation}: there is no field {name!r}; the fields are {list_names(names)}")
        check_real(operation, f"weight of {name!r}", weight, low=0.0, high=math.inf)
    return {name: float(weight) for name, weight in (weights or {}).items()}


def list_names(names: Sequence[str]) -> str:
    """Return names of fields for a message, the first ten of many.

    Examples
    --------
    >>> from ghrr.search.fields import list_names
    >>> list_names(["a", "b"]), list_names([])
    ('a, b', 'none')
    """
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) or "none") + more


def infer_kind(path: Path, column: Column) -> str:
    """Return the kind of a column from its values.

    Values of several types are compared as text. Strings in the form of dates or numbers are dates and numbers, except
    numbers that look like identifiers: with leading zeros, or whole numbers of the same length, five digits or more.

    Examples
    --------
    >>> from ghrr.search.fields import infer_kind
    >>> from ghrr.search.paths import Column
    >>> columns = (["1.5", "20"], ["00123", "17"], ["2024-02-01"], [[1, 2]])
    >>> [infer_kind(("x",), Column([], values)) for values in columns]
    ['number', 'text', 'date', 'set']
    """
    values = [value for value in column.values[:_SAMPLE] if not isinstance(value, Range)]
    lists = [value for value in values if isinstance(value, list | tuple)]
    if lists:
        return _kind_of_lists(path, lists) if 2 * len(lists) > len(values) else "set"
    if all(isinstance(value, bool) for value in values):
        return "boolean"
    if any(isinstance(value, bool) for value in values):
        return "text"
    if _share(values, lambda value: as_date(value) is not None) > 0.95:
        return "date"
    if _share(values, lambda value: as_number(value) is not None) > 0.95:
        return "text" if _are_identifiers(values) else "number"
    texts = [str(value) for value in values]
    distinct = len(set(texts))
    is_short = sum(map(len, texts)) < 24 * len(texts)
    return "category" if distinct <= min(_MOST_CATEGORIES, len(texts) / 10) and is_short else "text"


def _share(values: Sequence[Any], test: Any) -> float:
    return float(sum(map(test, values))) / max(1, len(values))


def _kind_of_lists(path: Path, lists: Sequence[Any]) -> str:
    lengths = {len(value) for value in lists}
    numeric = all(isinstance(x, int | float) and not isinstance(x, bool) for value in lists for x in value)
    if numeric and lengths == {2} and (isinstance(lists[0], tuple) or path[-1].lower() in _POINT_NAMES):
        return "point"
    return "embedding" if numeric and len(lengths) == 1 and min(lengths) >= 8 else "set"


def _are_identifiers(values: Sequence[Any]) -> bool:
    texts = [str(value).strip() for value in values]
    digits = [text for text in texts if text.isdigit()]
    if any(len(text) > 1 and text.startswith("0") for text in digits):
        return True
    lengths = [len(text) for text in digits]
    common = max(set(lengths), key=lengths.count) if lengths else 0
    return common >= 5 and lengths.count(common) > 0.9 * len(texts)


def is_textual(field: Field) -> bool:
    """Whether the values of a field are part of the text of all fields."""
    return field.kind in ("text", "category", "set", "sequence") and field.path != WHOLE
