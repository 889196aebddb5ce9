"""Small graphs whose answers are known."""

from __future__ import annotations

import itertools
from pathlib import Path

import torch
from torch import Tensor

from ghrr.relations import KnowledgeGraph, RelationConfig, RelationModel

SPLITS = ("train", "valid", "test")
PEOPLE, CITIES = 30, 5
LIVES_IN, BORN_IN = 0, 1


def permutation_graph() -> KnowledgeGraph:
    """Permutations of four things. Relations multiply by a generator a or b from the right, or by a product of both.

    The order matters: ab and ba are different relations. A fifth of the triples is held out.
    """
    elements = list(itertools.permutations(range(4)))
    indices = {element: index for index, element in enumerate(elements)}
    a, b = (1, 0, 2, 3), (1, 2, 3, 0)
    generators = {"a": a, "b": b, "ab": multiply(a, b), "ba": multiply(b, a)}
    triples = torch.tensor(
        [
            (indices[element], number, indices[multiply(element, generator)])
            for number, generator in enumerate(generators.values())
            for element in elements
        ]
    )
    order = torch.randperm(len(triples), generator=torch.Generator().manual_seed(0))
    splits = torch.split(triples[order], [len(triples) - 20, 10, 10])
    names = tuple("".join(map(str, element)) for element in elements)
    return KnowledgeGraph("permutations", names, tuple(generators), *splits)


def multiply(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """Return the permutation that applies ``second`` to positions, then ``first``."""
    return tuple(first[i] for i in second)


def people_graph() -> KnowledgeGraph:
    """Thirty people live in five cities, most of them in the first. The last six people are not in training."""
    names = (*(f"person {i}" for i in range(PEOPLE)), *(f"city {i}" for i in range(CITIES)))
    lives_in = as_indices(*((i, LIVES_IN, PEOPLE + (0 if i % 2 else i % CITIES)) for i in range(PEOPLE)))
    born_in = as_indices(*((i, BORN_IN, PEOPLE + i % CITIES) for i in range(10)))
    splits = torch.cat([lives_in[:-6], born_in]), lives_in[-6:-3], lives_in[-3:]
    return KnowledgeGraph("people", names, ("lives in", "born in"), *splits)


def random_graph(entities: int = 12, relations: int = 3, triples: int = 60, seed: int = 0) -> KnowledgeGraph:
    """Return a graph with different random triples, a third of them in each split."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randperm(entities * relations * entities, generator=generator)[:triples]
    rows = torch.stack([numbers // (relations * entities), numbers // entities % relations, numbers % entities], dim=1)
    splits = torch.split(rows, triples // 3)
    names = tuple(f"e{i}" for i in range(entities)), tuple(f"r{i}" for i in range(relations))
    return KnowledgeGraph("random", *names, *splits)


def write_graph(folder: Path, graph: KnowledgeGraph) -> Path:
    """Write a graph as text files."""
    folder.mkdir(exist_ok=True)
    for split in SPLITS:
        lines = [
            f"{graph.entities[head]}\t{graph.relations[relation]}\t{graph.entities[tail]}\n"
            for head, relation, tail in graph.split(split).tolist()
        ]
        (folder / f"{split}.txt").write_text("".join(lines))
    return folder


def small_config(**changes: object) -> RelationConfig:
    settings = {"dim": 16, "m": 3, "batch": 50, "epochs": 30, "evaluate_every": 5, "regularizer_weight": 0.003}
    return RelationConfig(**{**settings, **changes})  # type: ignore[arg-type]


def as_indices(*rows: tuple[int, int, int]) -> Tensor:
    return torch.tensor(rows, dtype=torch.int64).reshape(-1, 3)


def random_model(m: int, dim: int = 5, relation_form: str = "relaxed", length_penalty: float = 0.0) -> RelationModel:
    graph = random_graph()
    return RelationModel(
        graph.entities,
        graph.relations,
        dim=dim,
        m=m,
        relation_form=relation_form,
        length_penalty=length_penalty,
        init_std=0.5,
        seed=1,
    )
