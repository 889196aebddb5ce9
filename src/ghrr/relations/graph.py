"""KnowledgeGraph: entities, relations and triples as indices, split into training, validation and test triples."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ghrr.checks import check_choice, describe, names_errors, short_repr, type_error, value_error

SPLITS = ("train", "valid", "test")
INVERSE = "~"  # prefix of the name of a reciprocal relation


@names_errors
@dataclass(frozen=True, repr=False, eq=False)
class KnowledgeGraph:
    """Triples (head, relation, tail) in three splits.

    :func:`ghrr.relations.load_graph` reads one from files.

    Parameters
    ----------
    name
        Name of the graph.
    entities, relations
        Names. The position of a name is its index.
    train, valid, test
        Triples as indices of head, relation and tail.

    Shapes
    ------
    train, valid, test: ``(n, 3)``, int64

    Examples
    --------
    >>> import torch
    >>> from ghrr.relations import KnowledgeGraph
    >>> triples = torch.tensor([[0, 0, 1], [1, 0, 2], [0, 1, 2]])
    >>> KnowledgeGraph("family", ("Ada", "Byron", "John"), ("parent", "grandparent"), *triples.split(1))
    <KnowledgeGraph 'family', 3 entities, 2 relations, triples in train: 1, valid: 1, test: 1>
    """

    name: str
    entities: tuple[str, ...]
    relations: tuple[str, ...]
    train: Tensor
    valid: Tensor
    test: Tensor

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise type_error(f"name must be a string, got {describe(self.name)}")
        for kind in ("entities", "relations"):
            object.__setattr__(self, kind, check_names(kind, getattr(self, kind)))
        sizes = torch.tensor([len(self.entities), len(self.relations), len(self.entities)])
        for split in SPLITS:
            triples = self.split(split)
            if not isinstance(triples, Tensor) or triples.dtype != torch.int64 or triples.shape[1:] != (3,):
                raise type_error(f"{split} must be an int64 tensor of shape (n, 3), got {describe(triples)}")
            if ((triples < 0) | (triples >= sizes)).any():
                raise value_error(
                    f"{split} has an index outside of {len(self.entities)} entities and "
                    f"{len(self.relations)} relations, got indices from {triples.amin(0).tolist()} to "
                    f"{triples.amax(0).tolist()}; number the names from 0"
                )

    def split(self, name: str) -> Tensor:
        """Return the triples of a split: ``"train"``, ``"valid"`` or ``"test"``."""
        check_choice("name", name, SPLITS)
        triples: Tensor = getattr(self, name)
        return triples

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of names and triples."""
        digest = hashlib.sha256(json.dumps([self.entities, self.relations]).encode())
        for split in SPLITS:
            digest.update(self.split(split).numpy().tobytes())
        return digest.hexdigest()

    def __repr__(self) -> str:
        sizes = ", ".join(f"{split}: {len(self.split(split)):,}" for split in SPLITS)
        return (
            f"<KnowledgeGraph {self.name!r}, {len(self.entities):,} entities, {len(self.relations):,} relations, "
            f"triples in {sizes}>"
        )


def check_names(kind: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names; raise unless they are different strings, none of them the reciprocal of another."""
    if isinstance(names, str | Tensor) or not isinstance(names, Iterable):
        raise type_error(f"{kind} must be a list of names, got {describe(names)}")
    names = tuple(names)
    if not names:
        raise value_error(f"{kind} is empty, expected at least one name")
    if not all(isinstance(name, str) for name in names):
        raise type_error(f"{kind} must be strings, got {short_repr(names)}")
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise value_error(f"{kind} must be different, got {short_repr(name)} {count} times")
    known = set(names)
    ambiguous = next((name for name in names if kind == "relations" and INVERSE + name in known), None)
    if ambiguous is not None:
        raise value_error(
            f"relations {ambiguous!r} and {INVERSE + ambiguous!r} are both given, but {INVERSE!r} before "
            f"a name means its reciprocal relation; rename one of them"
        )
    return names


def with_reciprocals(triples: Tensor, relations: int) -> Tensor:
    r"""Append (t, r + R, h) for each triple (h, r, t): the question for the head becomes one for the tail.

    Shapes
    ------
    triples: ``(n, 3)``; output: ``(2n, 3)``

    Examples
    --------
    >>> import torch
    >>> from ghrr.relations.graph import with_reciprocals
    >>> with_reciprocals(torch.tensor([[4, 1, 7]]), relations=2)
    tensor([[4, 1, 7],
            [7, 3, 4]])
    """
    heads, kinds, tails = triples.unbind(1)
    return torch.cat([triples, torch.stack([tails, kinds + relations, heads], dim=1)])
