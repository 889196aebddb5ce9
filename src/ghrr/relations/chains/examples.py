"""Examples to learn from: chains of relations and the relation that each of them composes to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ghrr.checks import add_place, describe, type_error, value_error


class Example(NamedTuple):
    """A chain of relations and their composition: the father's sister is the aunt.

    Examples
    --------
    >>> from ghrr.relations.chains import Example
    >>> Example(("father", "sister"), "aunt")
    Example(chain=('father', 'sister'), target='aunt')
    """

    chain: tuple[str, ...]
    target: str


class LengthGroup(NamedTuple):
    """Chains of one length as indices of relations.

    Shapes
    ------
    chains: ``(n, length)``; targets, positions: ``(n,)``, where positions are those in the whole list
    """

    chains: Tensor
    targets: Tensor
    positions: Tensor


def check_examples(examples: Iterable[Any], noun: str = "example") -> list[Example]:
    """Return ``(chain, target)`` pairs as examples; raise for anything else, with the position of the pair."""
    checked = []
    for position, pair in enumerate(examples):
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise type_error(
                f"{noun} {position} must be a pair (chain, target) such as (['father', 'sister'], "
                f"'aunt'), got {describe(pair)}"
            )
        chain, target = pair
        if not isinstance(target, str) or not target:
            raise type_error(f"the target of {noun} {position} must be a name, got {describe(target)}")
        try:
            checked.append(Example(check_chain(chain), target))
        except (TypeError, ValueError) as error:
            raise add_place(error, f"{noun} {position}") from None
    if not checked:
        raise value_error(f"there are no {noun}s, expected at least one (chain, target) pair")
    return checked


def check_chain(chain: Any) -> tuple[str, ...]:
    """Return a chain as a tuple of names; raise if it is empty or not a list of strings."""
    if isinstance(chain, str) or not isinstance(chain, Sequence) or not all(isinstance(r, str) and r for r in chain):
        raise type_error(f"a chain must be a list of names of relations, got {describe(chain)}")
    if not chain:
        raise value_error("the chain is empty, expected at least one relation")
    return tuple(chain)


def to_indices(chains: Sequence[tuple[str, ...]], index: Mapping[str, int]) -> list[list[int]]:
    """Return chains as indices of relations; raise for an unknown relation."""
    try:
        return [[index[name] for name in chain] for chain in chains]
    except KeyError as error:
        raise value_error(f"unknown relation {error.args[0]!r}, expected one of {', '.join(sorted(index))}") from None


def group_by_length(chains: Sequence[Sequence[int]], targets: Sequence[int] | None = None) -> list[LengthGroup]:
    """Group chains by length, so that each group is one tensor; without targets these are zeros."""
    positions: dict[int, list[int]] = {}
    for position, chain in enumerate(chains):
        positions.setdefault(len(chain), []).append(position)
    return [
        LengthGroup(
            torch.tensor([chains[i] for i in chosen]),
            torch.tensor([0 if targets is None else targets[i] for i in chosen]),
            torch.tensor(chosen),
        )
        for _, chosen in sorted(positions.items())
    ]
