"""Documents: the records of an index as JSON text, in memory until they are saved, and then in a database."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ghrr.checks import describe, type_error, value_error
from ghrr.files import check_fields, parse_json
from ghrr.search.database import NAME, read_texts
from ghrr.search.labels import id_of
from ghrr.search.values import is_missing, plain


class DocumentStore:
    """Documents by label: those that were added since the last save, and those in the folder of the index.

    Only one thread may add and discard at a time; others may read meanwhile.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._new: dict[str, str] = {}

    @property
    def new_labels(self) -> list[str]:
        """Labels of the documents that are in memory."""
        return list(self._new)

    def add(self, labels: Iterable[str], texts: Iterable[str]) -> None:
        """Add documents in the form of JSON text."""
        self._new.update(zip(labels, texts, strict=True))

    def discard(self, labels: Iterable[str]) -> None:
        """Forget documents that are in memory."""
        for label in labels:
            self._new.pop(label, None)

    def texts(self, labels: Sequence[str]) -> list[str]:
        """Return the documents of labels as JSON text, in their order."""
        found = {label: self._new.get(label) for label in labels}
        missing = [label for label, text in found.items() if text is None]
        if missing and self.folder is not None:
            found.update(read_texts(self.folder, missing))
        texts = []
        for label in labels:
            text = found[label]
            if text is None:
                raise value_error(
                    f"the document of {id_of(label)!r} is missing from {NAME}: another program "
                    f"saved to the folder since this index was opened, or changed the file; open the index again"
                )
            texts.append(text)
        return texts

    def get(self, labels: Sequence[str]) -> list[Any]:
        """Return the documents of labels, in their order."""
        return [check_fields(NAME, parse_json(text, NAME), {}) for text in self.texts(labels)]


def as_json(documents: Sequence[Mapping[str, Any]], noun: str = "document") -> list[str]:
    """Return documents as JSON; NaN becomes null, and dates become text. Raise TypeError for other values.

    Errors call a document by the ``noun`` and its number.
    """
    return [_as_json(document, f"{noun} {row}") for row, document in enumerate(documents)]


def _as_json(document: Mapping[str, Any], where: str) -> str:
    try:
        try:
            return json.dumps(document, allow_nan=False, default=_default)
        except ValueError:  # NaN, or an object that contains itself
            return json.dumps(_without_nan(document), default=_default)
    except RecursionError:
        raise value_error(f"{where} is nested too deeply, or contains itself; flatten it first") from None
    except (TypeError, ValueError) as error:
        raise type_error(f"{where} must be JSON: {error}; convert its values first") from None


def _default(value: Any) -> Any:
    changed = plain(value)
    if changed is not value:
        return changed
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"cannot store {describe(value)}")


def _without_nan(value: Any) -> Any:
    value = plain(value)
    if isinstance(value, Mapping):
        return {key: _without_nan(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(child) for child in value]
    return None if isinstance(value, float) and is_missing(value) else value
