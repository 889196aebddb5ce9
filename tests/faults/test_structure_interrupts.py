"""After an interrupted encoding a structure encodes as before and can be saved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ghrr import Space
from ghrr.structures import Graph, Record, Tree, Vocabulary
from tests.faults.interrupts import in_another_thread, interrupt_every_line

SPACE = Space(4, 2)
TRIPLES = [("a", "knows", "b"), ("b", "knows", "c")]
STRUCTURES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "Graph": (lambda: Graph(SPACE), lambda graph: graph.encode(TRIPLES)),
    "Record": (lambda: Record(SPACE), lambda record: record.encode({"name": "Ada", "tags": ["x", 3]})),
    "Tree": (lambda: Tree(SPACE), lambda tree: tree.encode(("a", "b"))),
    "Vocabulary": (lambda: Vocabulary(SPACE, "word", ["a", "b"]), lambda words: words.indices(["a", "d", "e"])),
}


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.fuzz)])
@pytest.mark.parametrize("name", STRUCTURES)
def test_interrupted_encoding_leaves_a_working_structure(name: str, step: int, tmp_path: Path) -> None:
    """After an interrupt the same encoding gives the same result, and the structure can be saved and loaded."""
    make, encode = STRUCTURES[name]
    fresh = make()
    wanted, state = encode(fresh), fresh.state()

    def check(structure: Any) -> None:
        def again() -> None:
            found = encode(structure)
            assert torch.equal(found, wanted) if isinstance(wanted, torch.Tensor) else found == wanted
            assert structure.state() == state

        in_another_thread(again)
        if not isinstance(structure, Vocabulary):
            path = tmp_path / "file"
            structure.save(path, wanted)
            assert type(structure).load(path)[0].state() == state

    lines = interrupt_every_line(make, encode, check, step=step)
    assert lines * step > 10
