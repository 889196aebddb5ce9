"""RecordMatch: a record that a search found, with its document and a score for each field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ghrr.memory import Match


@dataclass(frozen=True, repr=False, kw_only=True)
class RecordMatch(Match):
    """Record that is similar to an example. ``guess`` is its id.

    Parameters
    ----------
    document
        The stored document.
    fields
        Similarity of each field that both the example and the record have, between 0 and 1.

    Examples
    --------
    >>> import ghrr
    >>> index = ghrr.search.RecordIndex()
    >>> index.add([{"name": "Ada Lovelace", "born": 1815}, {"name": "Alan Turing", "born": 1912}], ids=["ada", "alan"])
    >>> best = index.search({"name": "Ada Lovelase", "born": 1815})[0]
    >>> best.guess, best.document["name"], sorted(best.fields)
    ('ada', 'Ada Lovelace', ['born', 'name'])
    """

    document: Any
    fields: dict[str, float]
