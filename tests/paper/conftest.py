"""Small experiments for the tests of running and reporting."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from ghrr import paper

SMALL = {"dim": 50, "m": 2, "pairs": 40, "blocks": 5}
FIRST = ["quasi-orthogonality", "fixed-vs-varying"]


@pytest.fixture
def small() -> Iterator[None]:
    """Two experiments alone, at a small size; afterwards all of them again, in their order."""
    before = dict(paper.EXPERIMENTS)
    tiny = {name: dataclasses.replace(before[name], settings={"quick": SMALL, "full": SMALL}) for name in FIRST}
    paper.EXPERIMENTS.clear()
    paper.EXPERIMENTS.update(tiny)
    yield
    paper.EXPERIMENTS.clear()
    paper.EXPERIMENTS.update(before)
