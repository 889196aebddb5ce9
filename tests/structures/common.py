"""Spaces and helpers shared by the tests of structures."""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch

from ghrr import Space
from ghrr.memory.match import Match
from ghrr.structures.permuted_paths import PermutedPaths

SPACE = Space(300, 3, seed=1)
COMMUTING = Space(2700, 1, seed=1)  # m = 1: binding commutes, and the order of keys is lost

# For tests that put more into a space than it can hold.
overloaded = pytest.mark.filterwarnings("ignore::ghrr.structures.CapacityWarning")


def found(answer: object) -> Match:
    assert isinstance(answer, Match)
    return answer


def noise(items: int, space: Space = SPACE) -> float:
    """Return the standard deviation of a score in a bundle of ``items`` items."""
    return math.sqrt(items) * space.noise_std


def skip_decorrelation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read every path with its own hypervector from now on, as if no permuted path had been encoded."""
    monkeypatch.setattr(PermutedPaths, "_queries", lambda *_, **__: iter(()))
    monkeypatch.setattr(PermutedPaths, "_ambiguous", lambda *_: [])
    monkeypatch.setattr("ghrr.structures.chain._odds_against", lambda *_: 0.0)


def counts_of(found: Mapping[Any, Match]) -> dict[Any, int]:
    """Counts of decoded members or n-grams, whose scores they are."""
    return {key: round(match.score) for key, match in found.items()}


def is_even(order: Sequence[str]) -> bool:
    """Whether this order of letters takes an even number of swaps."""
    return sum(a > b for a, b in itertools.combinations(order, 2)) % 2 == 0


def count_calls(monkeypatch: pytest.MonkeyPatch, *functions: str) -> list[int]:
    """How many hypervectors the second argument of these functions has, call by call, from now on."""
    sizes: list[int] = []

    def counted(function: Any) -> Any:
        def call(x: torch.Tensor, y: torch.Tensor, **options: Any) -> Any:
            sizes.append(len(y))
            return function(x, y, **options)

        return call

    for function in functions:
        module, name = function.rsplit(".", 1)
        monkeypatch.setattr(function, counted(getattr(importlib.import_module(module), name)))
    return sizes


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a, b, atol=1e-4)
