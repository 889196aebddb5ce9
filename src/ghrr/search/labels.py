"""Labels: names of vectors and documents. A label belongs to one version of one record."""

from __future__ import annotations

_SEPARATOR = ":"


def label_of(number: int, identifier: str) -> str:
    """Return the label of a record. Numbers are never used again, so the vector of a label never changes."""
    return f"{number:x}{_SEPARATOR}{identifier}"


def id_of(label: str) -> str:
    """Return the id of the record that has a label."""
    return label.partition(_SEPARATOR)[2]


def number_of(label: str) -> int:
    """Return the number of the record that has a label."""
    return int(label.partition(_SEPARATOR)[0], 16)
