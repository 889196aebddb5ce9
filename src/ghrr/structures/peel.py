"""Peeling: read a bundle in rounds, and remove what is certain before the next round, which then has less noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from torch import Tensor

Key = TypeVar("Key")
Found = TypeVar("Found")


def peel(
    x: Tensor,
    read: Callable[[Tensor, Mapping[Key, Found]], Mapping[Key, Found]],
    remove: Callable[[Tensor, Mapping[Key, Found]], Tensor],
) -> tuple[dict[Key, Found], Tensor]:
    """Read a bundle in rounds until a round finds nothing new.

    Every ``decode`` of a structure calls this function.

    Parameters
    ----------
    x
        The bundle, ``(dim, m, m)``.
    read
        ``read(rest, found)`` returns what this round accepts, usually the confident matches, in the rest of the bundle.
        ``found`` holds the results of earlier rounds. A key that is returned again replaces the earlier result.
    remove
        ``remove(rest, new)`` returns the rest without the results of this round.

    Returns
    -------
    found, rest
        The results of all rounds in the order in which they were found, and what is left of the bundle.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures.peel import peel
    >>> space = ghrr.Space(dim=100, m=2)
    >>> atoms = dict(zip("abc", space.vectors(list("abc")), strict=True))
    >>> def read(rest, found):  # the most similar atom, if its similarity is at least 1/2
    ...     scores = {name: float(ghrr.similarity(rest, atom)) for name, atom in atoms.items() if name not in found}
    ...     return {name: score for name, score in scores.items() if score == max(scores.values()) > 0.5}
    >>> def remove(rest, new):
    ...     return rest - sum(atoms[name] for name in new)
    >>> found, rest = peel(atoms["a"] + atoms["c"], read, remove)
    >>> sorted(found), float(ghrr.similarity(rest, rest)) < 0.01
    (['a', 'c'], True)
    """
    found: dict[Key, Found] = {}
    while new := read(x, found):
        found.update(new)
        x = remove(x, new)
    return found, x
