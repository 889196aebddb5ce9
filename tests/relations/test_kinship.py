"""Generated chains: their answers hold in an explicit family, and long chains keep them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from ghrr.relations.chains import Example, generate_kinship_chains, kinship_rules, lengthen_chains
from ghrr.relations.chains.kinship import KINSHIP_NAMES, KINSHIPS, RULES, possible_kinships


@dataclass(eq=False)
class Person:
    gender: int
    parents: tuple[Person, ...] = ()
    spouse: Person | None = None

    @property
    def grandparents(self) -> list[Person]:
        return [person for parent in self.parents for person in parent.parents]


def couple(left: tuple[Person, ...] = (), right: tuple[Person, ...] = ()) -> tuple[Person, Person]:
    him, her = Person(0, left), Person(1, right)
    him.spouse, her.spouse = her, him
    return him, her


def family() -> list[Person]:
    """Return three generations: two old couples, their children, three of them married, and grandchildren."""
    old, others = couple(), couple()
    middle = [couple(old, others), couple(old), tuple(reversed(couple((), old)))]
    single = [Person(0, old), Person(1, old), Person(0, others), Person(1, others)]
    young = [Person(gender, pair) for pair in middle for gender in (0, 1, 0, 1)]
    return [*old, *others, *(person for pair in middle for person in pair), *single, *young]


def kinds(one: Person, other: Person) -> set[str]:
    """Return all kinds of relations from one person to another."""

    def are_siblings(a: Person, b: Person) -> bool:
        return a is not b and bool(a.parents) and a.parents == b.parents

    spouse = [one.spouse] if one.spouse else []
    rules = {
        "parent": other in one.parents,
        "child": one in other.parents,
        "sibling": are_siblings(one, other)
        or any(are_siblings(person, other) for person in spouse)
        or (other.spouse is not None and are_siblings(one, other.spouse)),
        "grandparent": other in one.grandparents,
        "grandchild": one in other.grandparents,
        "parent's sibling": any(are_siblings(parent, other) for parent in one.parents),
        "sibling's child": any(are_siblings(one, parent) for parent in other.parents)
        or any(are_siblings(person, parent) for person in spouse for parent in other.parents),
        "spouse": other in spouse,
        "spouse's parent": any(other in person.parents for person in spouse),
        "child's spouse": other.spouse is not None and one in other.spouse.parents,
    }
    return {kind for kind, holds in rules.items() if holds}


@pytest.mark.parametrize("rule", RULES.items(), ids=lambda rule: " of ".join(rule[0]))
def test_every_rule_holds_in_a_family(rule: tuple[tuple[str, str], str]) -> None:
    (first, second), result = rule
    people = family()
    found = [
        kinds(a, c)
        for a in people
        for b in people
        for c in people
        if a is not c and first in kinds(a, b) and second in kinds(b, c)
    ]
    assert any(result in answers for answers in found)


def test_wrong_rule_does_not_hold_in_the_family() -> None:
    """Negative control: a parent's parent is never a sibling."""
    people = family()
    assert not any(
        "sibling" in kinds(a, c)
        for a in people
        for b in people
        for c in people
        if "parent" in kinds(a, b) and "parent" in kinds(b, c)
    )


def test_gender_of_a_composition_is_that_of_its_last_step() -> None:
    women = {names[1] for names in KINSHIP_NAMES.values()}
    assert all((chain[-1] in women) == (target in women) for chain, target in kinship_rules())


@pytest.mark.parametrize("length", [2, 5, 12])
def test_generated_chains_have_exactly_their_answer(length: int) -> None:
    examples = generate_kinship_chains(20, length, seed=length)
    index = {name: position for position, name in enumerate(KINSHIPS)}
    answers = possible_kinships(torch.tensor([[index[name] for name in chain] for chain, _ in examples]))
    assert all(len(chain) == length for chain, _ in examples)
    assert [row.nonzero().flatten().tolist() for row in answers] == [[index[target]] for _, target in examples]


def test_rules_contradict_each_other_in_some_chains() -> None:
    """Negative control: the wife's sister's mother is the mother-in-law, and by another bracketing the mother."""
    chain = torch.tensor([[KINSHIPS.index(name) for name in ("wife", "sister", "mother")]])
    found = {KINSHIPS[i] for i in possible_kinships(chain)[0].nonzero().flatten().tolist()}
    assert found == {"mother", "mother-in-law"}


def test_spouses_have_different_genders() -> None:
    women = {names[1] for names in KINSHIP_NAMES.values()}
    for chain, _ in generate_kinship_chains(50, 12, seed=1):
        for before, after in itertools.pairwise(chain):
            assert after not in ("husband", "wife") or (before in women) == (after == "husband")


def test_seed_determines_chains() -> None:
    assert generate_kinship_chains(5, 6, seed=3) == generate_kinship_chains(5, 6, seed=3)
    assert generate_kinship_chains(5, 6, seed=3) != generate_kinship_chains(5, 6, seed=4)


def test_lengthened_chain_contracts_to_the_original() -> None:
    rules = torch.tensor([[0, 1, 2], [1, 1, 0]])
    longer = lengthen_chains(torch.tensor([[2]]), rules, 3, generator=torch.Generator().manual_seed(0))
    assert longer.tolist() == [[1, 1, 1]]


@pytest.mark.parametrize("wrong", [{"count": 0, "length": 2}, {"count": 1, "length": 1}, {"count": 1, "length": 2.5}])
def test_wrong_sizes_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError), match=r"generate_kinship_chains: (count|length)"):
        generate_kinship_chains(**wrong)


def test_rules_are_examples() -> None:
    assert Example(("father", "sister"), "aunt") in kinship_rules()


def test_chains_cannot_grow_without_rules_or_shrink() -> None:
    chains, rules = torch.tensor([[2, 1], [0, 1]]), torch.empty(0, 3, dtype=torch.int64)
    generator = torch.Generator().manual_seed(0)
    assert lengthen_chains(chains, rules, 4, generator=generator).tolist() == 2 * [4 * [-1]]
    assert torch.equal(lengthen_chains(chains, rules, 2, generator=generator), chains)
    with pytest.raises(ValueError, match=r"length must be at least the length of the chains \(2\), got 1"):
        lengthen_chains(chains, torch.tensor([[0, 1, 2]]), 1, generator=generator)
