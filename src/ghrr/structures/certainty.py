"""Prior odds for reading many keys, and when a reading is certain enough to change a structure."""

from __future__ import annotations

from torch import Tensor

from ghrr.algebra import similarity
from ghrr.memory.match import Match


def empty_odds(count: int, x: Tensor) -> float:
    """Return the prior odds that one of ``count`` keys is empty in x; the energy of x estimates how many are used."""
    return max(1.0, count / max(1.0, float(similarity(x, x))) - 1)


def is_settled(match: Match) -> bool:
    """Return whether a key certainly has one value, or certainly has none."""
    return match.confident or match.probability_unknown >= match.required_confidence
