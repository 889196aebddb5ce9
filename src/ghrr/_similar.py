"""Names that are similar to an unknown one, for "did you mean" in errors, with bounded work for any number of names."""

from __future__ import annotations

import difflib
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from itertools import accumulate, islice

_FEW = 200  # names that are all compared
_MANY = 1 << 20  # names that are looked at
_LONGEST = 200  # characters of a name that are compared
_TEXT = 1 << 22  # characters of all names that are searched
_GRAMS = 10  # pieces of the name that are searched for
_HITS = 4000  # names with a piece, for each piece
_COMPARED = 50  # names with the most pieces


def similar_names(name: object, known: Iterable[object], *, n: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return up to ``n`` known names that are similar to a name, best first.

    The similarity is as in :func:`difflib.get_close_matches`. Among many names, only those that share the rarest
    pieces of two or three characters with the name are compared.

    Examples
    --------
    >>> from ghrr._similar import similar_names
    >>> similar_names("Lodnon", ["Paris", "London"])
    ['London']
    >>> similar_names("person 77213", [f"person {i}" for i in range(77_000)])
    ['person 7723']
    """
    wanted = str(name)[:_LONGEST]
    names = [other for other in islice(known, _MANY) if isinstance(other, str)]
    if len(names) > _FEW:
        names = _sharing_pieces(wanted, names)
    return difflib.get_close_matches(wanted, names, n=n, cutoff=cutoff)


def did_you_mean(name: object, known: Iterable[object], *, n: int = 1, cutoff: float = 0.6) -> str:
    """Return "; did you mean ...?" for the end of an error message, or nothing if no known name is similar.

    Examples
    --------
    >>> from ghrr._similar import did_you_mean
    >>> did_you_mean("Lodnon", ["Paris", "London"])
    "; did you mean 'London'?"
    >>> did_you_mean("x", ["Paris", "London"])
    ''
    """
    similar = similar_names(name, known, n=n, cutoff=cutoff)
    return f"; did you mean {', '.join(map(repr, similar))}?" if similar else ""


def _sharing_pieces(wanted: str, names: list[str]) -> list[str]:
    """Return the names that share most pieces with the wanted one, by searching one long text for the rarest pieces."""
    length = len(wanted)
    head = max(4, min(_LONGEST, _TEXT // len(names)) // 2)  # of a longer name, the first and the last characters
    cut = [name if len(name) <= 2 * head else name[:head] + name[-head:] for name in names]
    wanted = wanted if len(wanted) <= 2 * head else wanted[:head] + wanted[-head:]
    text = "".join(cut)
    lowered = text.lower()
    if len(lowered) == len(text):  # not for the few letters whose lower case has two characters
        text, wanted = lowered, wanted.lower()
    size = 3 if len(wanted) > 6 else 2
    pieces = list(dict.fromkeys(wanted[i : i + size] for i in range(max(1, len(wanted) - size + 1))))
    chosen = [pieces[i * len(pieces) // _GRAMS] for i in range(_GRAMS)] if len(pieces) > _GRAMS else pieces
    ends = list(accumulate(map(len, cut)))
    shared: defaultdict[int, float] = defaultdict(float)
    for piece in filter(None, chosen):
        count = text.count(piece)
        weight = math.log1p(max(0, len(names) - count) / (count + 1))  # 0 for a piece that all names have
        for index in _holders(piece, text, ends, step=len(text) // _HITS if count > _HITS else 0):
            shared[index] += weight
    best = sorted(shared, key=lambda i: (-shared[i], abs(len(names[i]) - length), i))
    return [names[i] for i in best[:_COMPARED]]


def _holders(piece: str, text: str, ends: list[int], *, step: int) -> set[int]:
    """Return the indices of names with a piece; with a step, only pieces at least this many characters apart."""
    found, start = set(), text.find(piece)
    while start >= 0:
        found.add(bisect_right(ends, start))
        start = text.find(piece, start + 1 + step)
    return found
