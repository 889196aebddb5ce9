"""RecordMatch: a record that a search found, with its document and a score for each field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ghrr.checks import names_errors
from ghrr.memory import Answer


@names_errors
@dataclass(frozen=True, repr=False, kw_only=True)
class RecordMatch(Answer):
    """Record that is similar to an example. ``guess`` is its id, and the score is between 0 and 1.

    A record with score 0 has nothing in common with the example; it is a hit only where fewer than ``k`` records have,
    and its ``note`` says so.

    Parameters
    ----------
    guess, score, runner_up, margin, candidates, probability, required_confidence, note
        See :class:`ghrr.memory.Answer`.
    probability_unknown
        Probability that no record is what the example describes.
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

    probability_unknown: float
    document: Any
    fields: dict[str, float]

    @property
    def unknown(self) -> bool:
        """Whether it is more probable than not that no record is what the example describes."""
        return self.probability_unknown > 0.5
