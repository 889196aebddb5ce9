r"""Aliases: fields of examples that records have under another name, found from examples and their records.

A path of the examples that is not a field of the index is compared with every field that no example has, on the
labelled pairs and on the same values in another order. The two means differ by z standard errors; the field of highest
z is its alias if z is at least 4, which is unlikely by chance for any of a hundred pairs of names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ghrr.search.fields import Field
from ghrr.search.paths import STAR, WHOLE, Column, Path, columns

_LEAST_Z = 4.0
_LEAST_PAIRS = 10


def find_aliases(
    fields: Sequence[Field], examples: Sequence[Mapping[str, Any]], documents: Sequence[Mapping[str, Any]]
) -> dict[Path, Path]:
    """Return the path of the field that each unknown path of the examples stands for.

    Parameters
    ----------
    fields
        Fields of the index.
    examples, documents
        Examples, and the document that each should find.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.search.aliases import find_aliases
    >>> documents = [{"name": f"film {i}", "release": 1950 + 3 * i} for i in range(20)]
    >>> index = ghrr.search.RecordIndex()
    >>> index.add(documents)
    >>> find_aliases(index.fields, [{"name": f"film {i}", "year": 1950 + 3 * i} for i in range(20)], documents)
    {('year',): ('release',)}
    """
    wanted, stored = columns(examples), columns(documents)
    known = {field.path for field in fields}
    free = [field for field in fields if field.path not in wanted and field.path in stored and field.path != WHOLE]
    aliases = {}
    for path, column in wanted.items():
        if path not in known and path != STAR:
            scores = {field.path: _agreement(field, column, stored[field.path]) for field in free}
            best = max(scores, key=lambda other: scores[other], default=None)
            if best is not None and scores[best] >= _LEAST_Z:
                aliases[path] = best
    return aliases


def _agreement(field: Field, examples: Column, documents: Column) -> float:
    """Return by how many standard errors the values of pairs are more alike than the values of other pairs."""
    rows, a, b = np.intersect1d(examples.rows, documents.rows, assume_unique=True, return_indices=True)
    if field.encoder is None or len(rows) < _LEAST_PAIRS:
        return 0.0
    left: Any = field.encoder.prepare(examples.values)
    right: Any = field.encoder.prepare(documents.values)
    matched = field.encoder.pair_scores(left, a, right, b)
    others = field.encoder.pair_scores(left, a, right, np.random.default_rng(0).permutation(b))
    usable = np.isfinite(matched) & np.isfinite(others)
    if usable.sum() < _LEAST_PAIRS:
        return 0.0
    difference = (matched - others)[usable]
    return float(difference.mean() / max(difference.std() / np.sqrt(len(difference)), 1e-6))
