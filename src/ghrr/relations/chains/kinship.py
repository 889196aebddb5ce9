"""Kinship: a small algebra of family relations, and chains of any length whose answer is known.

A relation has a kind (parent, sibling, ...) and the gender of the person it leads to. ``RULES`` says which kinds
compose to which; they are those that occur in the two-step stories of CLUTRR, where a brother-in-law is called brother.
The gender of a composition is the gender of its last step, and a spouse has the other gender.

A chain is made by starting from the answer and replacing a relation by two that compose to it, again and again, so its
answer is known by construction. The rules contradict each other in places: the wife's sister's mother is the wife's
mother, a mother-in-law, but the wife's sister is a "sister", and the sister's mother is the mother. Chains with
several answers in *some* bracketing are left out by default; :func:`possible_kinships` finds them with an exact chart.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from ghrr.checks import check_integer, names_errors
from ghrr.relations.chains.chart import IMPOSSIBLE, chunks, fill_chart
from ghrr.relations.chains.examples import Example
from ghrr.relations.chains.lengthening import lengthen_chains

KINSHIP_NAMES = {
    "parent": ("father", "mother"),
    "child": ("son", "daughter"),
    "sibling": ("brother", "sister"),
    "grandparent": ("grandfather", "grandmother"),
    "grandchild": ("grandson", "granddaughter"),
    "parent's sibling": ("uncle", "aunt"),
    "sibling's child": ("nephew", "niece"),
    "spouse": ("husband", "wife"),
    "spouse's parent": ("father-in-law", "mother-in-law"),
    "child's spouse": ("son-in-law", "daughter-in-law"),
}
RULES = {
    ("child", "child"): "grandchild",
    ("child", "grandparent"): "parent",
    ("child", "sibling"): "child",
    ("child", "spouse"): "child's spouse",
    ("child", "parent's sibling"): "sibling",
    ("grandchild", "sibling"): "grandchild",
    ("grandparent", "child"): "parent's sibling",
    ("parent", "child"): "sibling",
    ("parent", "parent"): "grandparent",
    ("parent", "sibling"): "parent's sibling",
    ("parent", "spouse"): "parent",
    ("sibling", "child"): "sibling's child",
    ("sibling", "grandparent"): "grandparent",
    ("sibling", "parent"): "parent",
    ("sibling", "sibling"): "sibling",
    ("sibling", "parent's sibling"): "parent's sibling",
    ("spouse", "child"): "child",
    ("spouse", "grandchild"): "grandchild",
    ("spouse", "parent"): "spouse's parent",
    ("spouse", "sibling"): "sibling",
    ("parent's sibling", "parent"): "grandparent",
    ("parent's sibling", "sibling"): "parent's sibling",
}
KINSHIPS = tuple(sorted(name for pair in KINSHIP_NAMES.values() for name in pair))
_INDEX = {name: position for position, name in enumerate(KINSHIPS)}
_GENDERS = {name: gender for pair in KINSHIP_NAMES.values() for gender, name in enumerate(pair)}


@names_errors
@functools.cache
def kinship_rules() -> tuple[Example, ...]:
    """Return all compositions of two relations, such as father, sister: aunt.

    Examples
    --------
    >>> from ghrr.relations.chains import kinship_rules
    >>> len(kinship_rules())
    84
    >>> dict(kinship_rules())["father", "sister"]
    'aunt'
    """
    found = []
    for (first, second), result in RULES.items():
        for left in KINSHIP_NAMES[first]:
            for gender, right in enumerate(KINSHIP_NAMES[second]):
                if second != "spouse" or _GENDERS[left] != gender:
                    found.append(Example((left, right), KINSHIP_NAMES[result][gender]))
    return tuple(found)


def _rule_rows() -> Tensor:
    return torch.tensor([[*(_INDEX[name] for name in chain), _INDEX[target]] for chain, target in kinship_rules()])


def _follows() -> Tensor:
    """Return which relation may follow which: a wife only a man, so no relation that leads to a woman."""
    genders = torch.tensor([_GENDERS[name] for name in KINSHIPS])
    is_spouse = torch.tensor([name in KINSHIP_NAMES["spouse"] for name in KINSHIPS])
    return ~is_spouse[None, :] | (genders[:, None] != genders[None, :])


@names_errors
def possible_kinships(chains: Tensor) -> Tensor:
    """Return which relations a chain can compose to by the rules, over all bracketings.

    Shapes
    ------
    chains: ``(n, length)``, indices of ``KINSHIPS``; output: ``(n, relations)``, of bool

    Examples
    --------
    >>> import torch
    >>> from ghrr.relations.chains import KINSHIPS, possible_kinships
    >>> chain = torch.tensor([[KINSHIPS.index("father"), KINSHIPS.index("sister")]])
    >>> [name for name, is_possible in zip(KINSHIPS, possible_kinships(chain)[0]) if is_possible]
    ['aunt']
    """
    first, second, made = _rule_rows().unbind(1)
    table = torch.full((len(KINSHIPS),) * 3, IMPOSSIBLE)
    table[first, second, made] = 0.0
    return torch.cat([fill_chart(part, table).answers for part in chunks(chains, len(KINSHIPS))]) > IMPOSSIBLE / 2


@names_errors
def generate_kinship_chains(count: int, length: int, *, seed: int = 0, consistent: bool = True) -> list[Example]:
    """Make random chains of family relations with known answers.

    Parameters
    ----------
    count
        Number of chains.
    length
        Number of steps of each.
    seed
        Seed of the random numbers.
    consistent
        Leave out chains to which the rules give several answers, depending on the bracketing.

    Examples
    --------
    >>> from ghrr.relations.chains import generate_kinship_chains
    >>> generate_kinship_chains(1, 4, seed=0)
    [Example(chain=('husband', 'brother', 'brother', 'grandmother'), target='grandmother')]
    """
    count = check_integer("count", count, least=1)
    length = check_integer("length", length, least=2)
    generator = torch.Generator().manual_seed(check_integer("seed", seed))
    rules = _rule_rows()
    answers = torch.unique(rules[:, 2])
    examples: list[Example] = []
    while len(examples) < count:
        targets = answers[torch.randint(len(answers), (count - len(examples),), generator=generator)]
        chains = lengthen_chains(targets[:, None], rules, length, generator=generator, follows=_follows())
        kept = chains[:, 0] >= 0
        if consistent:
            kept &= possible_kinships(chains.clamp(min=0)).sum(dim=1) == 1
        for chain, target in zip(chains[kept].tolist(), targets[kept].tolist(), strict=True):
            examples.append(Example(tuple(KINSHIPS[r] for r in chain), KINSHIPS[target]))
    return examples
