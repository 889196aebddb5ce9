"""Longer chains from short ones: replace a relation by two that compose to it."""

from __future__ import annotations

import torch
from torch import Tensor

from ghrr.checks import names_errors, value_error


@names_errors
def lengthen_chains(
    chains: Tensor, rules: Tensor, length: int, *, generator: torch.Generator, follows: Tensor | None = None
) -> Tensor:
    """Replace random relations by pairs that compose to them until all chains have a length.

    A father's sister is an aunt, so ``mother, aunt`` may become ``mother, father, sister``. The relation that the chain
    composes to is the same, so it is known for chains of any length. A chain without a relation that a rule makes
    cannot grow and is returned as rows of -1.

    Parameters
    ----------
    chains
        Relations as indices, all chains of one length.
    rules
        Rows ``a, b, c``: a and b compose to c.
    length
        Length of the result, at least the length of the chains.
    generator
        Source of randomness.
    follows
        Which relation may follow which; all by default.

    Shapes
    ------
    chains: ``(n, k)``; rules: ``(rules, 3)``; follows: ``(relations, relations)``; output: ``(n, length)``

    Examples
    --------
    >>> import torch
    >>> from ghrr.relations.chains import lengthen_chains
    >>> rules = torch.tensor([[0, 1, 2]])  # relations 0 and 1 compose to 2
    >>> lengthen_chains(torch.tensor([[2, 1], [1, 1]]), rules, 3, generator=torch.Generator().manual_seed(0))
    tensor([[ 0,  1,  1],
            [-1, -1, -1]])
    """
    if chains.shape[1] > length:
        raise value_error(
            f"length must be at least the length of the chains ({chains.shape[1]}), got {length}; "
            f"shorten the chains first"
        )
    if not len(rules):
        return chains.clone() if chains.shape[1] == length else chains.new_full((len(chains), length), -1)
    size = int(max(chains.max(), rules.max())) + 1 if follows is None else len(follows)
    allowed = torch.ones(size, size, dtype=torch.bool) if follows is None else follows
    first, second, made = rules.unbind(1)
    makes = torch.nn.functional.one_hot(made, size).T  # (relations, rules)
    can_grow = torch.ones(len(chains), dtype=torch.bool)
    while chains.shape[1] < length:
        before = torch.roll(chains, 1, dims=1)
        usable = allowed[before][..., first]
        usable[:, 0] = True  # nothing comes before the first relation
        weights = (makes[chains] * usable).flatten(1).double()  # (n, length * rules)
        can_grow &= weights.sum(dim=1) > 0
        weights[~can_grow] = 1.0
        chosen = torch.multinomial(weights, 1, generator=generator)
        position, rule = chosen // len(rules), chosen[:, 0] % len(rules)
        longer = torch.arange(chains.shape[1] + 1)
        source = torch.where(longer <= position, longer, longer - 1)
        chains = chains.gather(1, source)
        chains.scatter_(1, position, first[rule][:, None])
        chains.scatter_(1, position + 1, second[rule][:, None])
    return torch.where(can_grow[:, None], chains, -1)
