"""Methods that read one hypervector refuse a batch, and name the operation."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ghrr.structures import Automaton, Chain, Graph, HashTable, NGrams, Record, Sequence, Set, Stack, Tree
from tests.structures.common import SPACE

MADE: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "Automaton": (Automaton(SPACE), ({("s", "a"): "t"},), {"start": "s"}),
    "Chain": (Chain(SPACE), (["a", "b"],), {}),
    "Graph": (Graph(SPACE), ([("a", "b")],), {}),
    "HashTable": (HashTable(SPACE), ({"a": "b"},), {}),
    "NGrams": (NGrams(SPACE, 2), ("abc",), {}),
    "Record": (Record(SPACE), ({"a": "b"},), {}),
    "Sequence": (Sequence(SPACE), (["a", "b"],), {}),
    "Set": (Set(SPACE), (["a"],), {}),
    "Stack": (Stack(SPACE), (["a", "b"],), {}),
    "Tree": (Tree(SPACE), (["a", "b"],), {}),
}
READ: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "Automaton.step": lambda model, h: model.step(h, "s", "a"),
    "Automaton.start": lambda model, h: model.start(h),
    "Automaton.final": lambda model, h: model.final(h),
    "Automaton.run": lambda model, h: model.run(h, "a"),
    "Automaton.decode": lambda model, h: model.decode(h),
    "Chain.next": lambda model, h: model.next(h, ["a"]),
    "Chain.item": lambda model, h: model.item(h, 0),
    "Chain.decode": lambda model, h: model.decode(h),
    "Graph.neighbours": lambda model, h: model.neighbours(h, "a"),
    "Graph.predecessors": lambda model, h: model.predecessors(h, "b"),
    "Graph.edge_labels": lambda model, h: model.edge_labels(h, "a", "b"),
    "Graph.walk": lambda model, h: model.walk(h, "a", ["edge"]),
    "Graph.paths": lambda model, h: model.paths(h, "a", "b", hops=1),
    "Graph.decode": lambda model, h: model.decode(h),
    "HashTable.key": lambda model, h: model.key(h, "b"),
    "HashTable.put": lambda model, h: model.put(h, "a", "b"),
    "HashTable.remove": lambda model, h: model.remove(h, "a"),
    "HashTable.decode": lambda model, h: model.decode(h),
    "NGrams.count": lambda model, h: model.count(h, "ab"),
    "NGrams.after": lambda model, h: model.after(h, "a"),
    "NGrams.before": lambda model, h: model.before(h, "b"),
    "NGrams.decode": lambda model, h: model.decode(h),
    "Record.query": lambda model, h: model.query(h, "a"),
    "Record.decode": lambda model, h: model.decode(h),
    "Sequence.item": lambda model, h: model.item(h, 0),
    "Sequence.read": lambda model, h: model.read(h, 0, 2),
    "Sequence.index": lambda model, h: model.index(h, "a"),
    "Sequence.append": lambda model, h: model.append(h, "a"),
    "Sequence.pop": lambda model, h: model.pop(h),
    "Sequence.replace": lambda model, h: model.replace(h, 0, "b"),
    "Sequence.decode": lambda model, h: model.decode(h),
    "Set.count": lambda model, h: model.count(h, "a"),
    "Set.contains": lambda model, h: model.contains(h, "a"),
    "Set.common": lambda model, h: model.common(h, h),
    "Set.remove": lambda model, h: model.remove(h, "a"),
    "Set.decode": lambda model, h: model.decode(h),
    "Stack.push": lambda model, h: model.push(h, "a"),
    "Stack.peek": lambda model, h: model.peek(h),
    "Stack.pop": lambda model, h: model.pop(h),
    "Stack.decode": lambda model, h: model.decode(h),
    "Tree.label": lambda model, h: model.label(h, 0),
    "Tree.decode": lambda model, h: model.decode(h),
}


@pytest.mark.parametrize("operation", READ)
def test_a_batch_is_refused(operation: str) -> None:
    model, arguments, options = MADE[operation.split(".", maxsplit=1)[0]]
    h = model.encode(*arguments, **options)
    READ[operation](model, h)  # negative control: one is read
    for count in (1, 2):
        message = (
            f"{operation}: needs one hypervector, (dim, m, m), not a batch; got a complex64 tensor of shape ({count},"
        )
        with pytest.raises(ValueError, match=re.escape(message)):
            READ[operation](model, torch.stack([h] * count))
