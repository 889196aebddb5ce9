"""Small experiments for the tests of running and reporting."""

from __future__ import annotations

import dataclasses

import pytest

from ghrr import paper

SMALL = {"dim": 50, "m": 2, "pairs": 40, "blocks": 5}
FIRST = ["quasi-orthogonality", "fixed-vs-varying"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two experiments alone, at a small size."""
    for name in list(paper.EXPERIMENTS):
        if name in FIRST:
            tiny = dataclasses.replace(paper.EXPERIMENTS[name], settings={"quick": SMALL, "full": SMALL})
            monkeypatch.setitem(paper.EXPERIMENTS, name, tiny)
        else:
            monkeypatch.delitem(paper.EXPERIMENTS, name)
