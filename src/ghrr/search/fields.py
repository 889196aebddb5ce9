"""Fields: what is compared at each path of the documents, and how. Inferred from data; you can override each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ghrr._similar import did_you_mean
from ghrr.checks import check_choice, check_real, describe, named, names_errors, type_error, warn
from ghrr.encoding import column_kinds
from ghrr.encoding.column_kinds import KINDS, Guess
from ghrr.search.bags import BAG_KINDS, BagField
from ghrr.search.kernel_fields import KernelField
from ghrr.search.paths import WHOLE, Column, Path, show
from ghrr.search.values import Range, normalize

_SHOWN = 10  # fields in a message
_HEAVIEST = 1e9  # weight of a field


@names_errors
@dataclass
class Field:
    """Values at one path: their kind, their weight in the similarity, and their encoder.

    Parameters
    ----------
    path
        Keys from the root of a document; ``()`` is the text of all fields.
    kind
        ``"text"``, ``"category"``, ``"boolean"``, ``"set"``, ``"sequence"``, ``"number"``, ``"date"``, ``"point"``,
        ``"embedding"`` or ``"ignore"``.
    encoder
        Encoder of this kind, fitted to data.
    weight
        Weight of the similarity of this field.
    doubt
        Why the inferred kind may be wrong; empty if there is no doubt.

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
    doubt: str = ""

    @property
    def name(self) -> str:
        r"""The path as text, ``"born.city"``, by which all settings name the field.

        A dot or a backslash in a key has a backslash before it: ``"born\\.city"`` is the key ``"born.city"``. The text
        of all fields is ``"*"``, and a field of that name is ``"\\*"``.
        """
        return show(self.path)


def make_field(path: Path, kind: str) -> Field:
    """Return a field of a kind, not yet fitted."""
    check_choice("kind", kind, KINDS)
    if kind == "ignore":
        return Field(path, kind, None, 0.0)
    return Field(path, kind, BagField(kind) if kind in BAG_KINDS else KernelField(kind))


def check_kinds(kinds: Mapping[str, str] | None) -> dict[str, str]:
    """Return kinds by name of a field; raise for an unknown kind."""
    found = _by_name("kinds", kinds)
    for name, kind in found.items():
        check_choice(f"kind of field {name!r}", kind, KINDS)
    return found


def check_weights(weights: Mapping[str, float] | None, names: Sequence[str] | None = None) -> dict[str, float]:
    """Return weights by name of a field; raise for a weight out of range or, if ``names`` are given, for others."""
    found = _by_name("weights", weights)
    for name, weight in found.items():
        if names is not None and name not in names:
            raise KeyError(
                named(f"there is no field {name!r}; the fields are {list_names(names)}{did_you_mean(name, names)}")
            )
        check_real(f"weight of field {name!r}", weight, low=0.0, high=_HEAVIEST)
    return {name: float(weight) for name, weight in found.items()}


def _by_name(what: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return settings by the normalized names of fields."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise type_error(f"{what} must be a dict by names of fields, got {describe(given)}")
    return {normalize(name): value for name, value in given.items()}


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


def infer_kind(path: Path, column: Column) -> Guess:
    """Return the kind of a column, from its values and its name.

    Examples
    --------
    >>> from ghrr.search.fields import infer_kind
    >>> from ghrr.search.paths import Column
    >>> columns = (["1.5", "20"], ["00123", "17"], ["3 May 2021"], [[1, 2]])
    >>> [infer_kind(("x",), Column([], values)).kind for values in columns]
    ['number', 'text', 'date', 'set']
    """
    return column_kinds.infer_kind(path[-1], [value for value in column.values if not isinstance(value, Range)])


def warn_of_doubts(fields: Sequence[Field]) -> None:
    """Warn about the new fields whose inferred kind may be wrong, once for all of them."""
    doubtful = [one for one in fields if one.doubt]
    if doubtful:
        names = list_names([f"{one.name!r} as {one.kind} ({one.doubt})" for one in doubtful])
        warn(
            f"the kinds of some fields are unsure: {names}; give the correct kinds, for example "
            f"kinds={{{doubtful[0].name!r}: {doubtful[0].kind!r}}}"
        )


def is_textual(field: Field) -> bool:
    """Whether the values of a field are part of the text of all fields."""
    return field.kind in ("text", "category", "set", "sequence") and field.path != WHOLE
