"""Sequences, stacks and hash tables say how certain they are: of what is confident at least 98 % is right.

Spaces range from too small to large enough. In the control the noise is taken for a quarter of what it is.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest
import torch

from ghrr import Space
from ghrr.memory.match import Match, answer_noise
from ghrr.structures import Chain, HashTable, Sequence, Stack

NAMES = [f"n{number}" for number in range(30)]

Answer = tuple[bool, bool, bool]  # confident, right, there


def judge(match: Match, want: object) -> Answer:
    """An answer, where None stands for nothing."""
    return match.confident, match.guess == want, want is not None


def ask_sequence(space: Space, rng: random.Random) -> list[Answer]:
    model = Sequence(space)
    model.names.indices(NAMES)
    items = rng.choices(NAMES, k=rng.randint(5, 20))
    h = model.encode(items)
    found = model.read(h, 0, 2 * len(items))
    answers = [judge(match, want) for match, want in itertools.zip_longest(found, items)]
    for name in NAMES:
        count = items.count(name)
        match = model.index(h, name)
        answers.append((match.confident, count == 1 and match.guess == items.index(name), count == 1))
    return answers


def ask_stack(space: Space, rng: random.Random) -> list[Answer]:
    model = Stack(space)
    model.names.indices(NAMES)
    answers = []
    for _ in range(10):
        items = rng.choices(NAMES, k=rng.randint(1, 20))
        h = model.encode(items)
        answers.append(judge(model.peek(h), items[-1]))
        answers.append(judge(model.peek(model.encode(items[:-1]) @ model.step), None))  # R on the wrong side
        answers.append(judge(model.peek(model.push(h, items[0]) - model.encode([items[0]])), None))  # no top
    return answers


def ask_hash_table(space: Space, rng: random.Random) -> list[Answer]:
    table = HashTable(space)
    table.keys.indices(NAMES)
    table.values.indices(NAMES)
    return ask_entries(table, rng)


def ask_hash_table_of_given_hypervectors(space: Space, rng: random.Random) -> list[Answer]:
    """Keys and values are the same hypervectors, so an entry and its reversal differ by the shift alone."""
    table = HashTable(space, permute=True)
    for name, vector in zip(NAMES, space.vectors(NAMES), strict=True):
        table.keys.define(name, vector)
        table.values.define(name, vector)
    return ask_entries(table, rng)


def ask_entries(table: HashTable, rng: random.Random) -> list[Answer]:
    entries = dict(zip(rng.sample(NAMES, 15), rng.choices(NAMES, k=15), strict=True))
    h = table.encode(entries)
    answers = [judge(match, entries.get(key)) for key, match in zip(NAMES, table.get_many(h, NAMES), strict=True)]
    backwards = {value: key for key, value in entries.items()}
    for value in NAMES:
        count = list(entries.values()).count(value)
        match = table.key(h, value)
        answers.append((match.confident, count == 1 and match.guess == backwards[value], count == 1))
    return answers


def ask_chain(space: Space, rng: random.Random) -> list[Answer]:
    model, chain = Chain(space), rng.choices("ab", k=8)
    follows = {tuple(chain[:place]): chain[place] for place in range(2, 7)}
    h = model.encode(chain)
    asked = sorted({order for beginning in follows for order in itertools.permutations(beginning)})
    return [judge(model.next(h, beginning), follows.get(beginning)) for beginning in asked]


ASK: dict[str, Callable[[Space, random.Random], list[Answer]]] = {
    "sequence": ask_sequence,
    "stack": ask_stack,
    "hash_table": ask_hash_table,
    "hash_table_of_given_hypervectors": ask_hash_table_of_given_hypervectors,
    "chain": ask_chain,
}


def answers(structure: str, m: int, count: int) -> torch.Tensor:
    """At least so many answers, from spaces that are too small to spaces that are large: ``(count, 3)``."""
    found: list[Answer] = []
    for seed in itertools.count():
        rotation = ("varying", "fixed")[seed % 2]
        space = Space.from_total((200, 500, 1200)[seed % 3], m, rotation=rotation, seed=seed)
        found += ASK[structure](space, random.Random(seed))
        if len(found) >= count:
            break
    return torch.tensor(found)


@pytest.mark.parametrize("m", [1, 2, 3, 4])
@pytest.mark.parametrize("structure", ASK)
def test_confident_answers_are_right(structure: str, m: int) -> None:
    confident, right, there = answers(structure, m, 800).T
    assert right[confident].double().mean() >= 0.98
    # A likelihood ratio has mean 1 if nothing is there: it reaches 99 with a probability of 1/99 at most.
    assert (confident & ~there).sum() <= 0.01 * (~there).sum()
    assert (~there).sum() > 200
    assert confident[there].double().mean() > 0.3


@pytest.mark.parametrize("structure", ["sequence", "stack", "hash_table"])
def test_with_a_quarter_of_the_noise_they_are_not(structure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("structures.vocabulary", "structures.sequence"):
        monkeypatch.setattr(f"ghrr.{module}.answer_noise", lambda *given, **how: answer_noise(*given, **how) / 4)
    confident, right, _ = answers(structure, 1, 600).T
    assert right[confident].double().mean() < 0.98
