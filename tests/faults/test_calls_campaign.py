"""Calls with hostile arguments: each gives a result or an error that explains, never an internal error.

A call that works is changed in one or two arguments. The normal run tries three hundred, ``make fuzz`` ten thousand.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import ghrr
from ghrr import encoding, structures, unitary
from ghrr.memory import ItemMemory

SPACE = ghrr.Space(12, 2, seed=1)
A, B, C = SPACE.random(3, generator=torch.Generator().manual_seed(0))
BATCH = SPACE.random(4, generator=torch.Generator().manual_seed(1))

EXPLAINED = (TypeError, ValueError, KeyError, IndexError, OverflowError, OSError)
# An error of ours names the operation, then says what is wrong; Python's own say which argument is missing or unknown.
OURS = re.compile(
    r"^'?\"?[\w .*\[\]\"'()#,=&-]{1,160}?: .|argument|positional|not iterable|unhashable|subscriptable", re.DOTALL
)


def hostile() -> list[Any]:
    deep: list[Any] = []
    for _ in range(2000):
        deep = [deep]
    circle: list[Any] = []
    circle.append(circle)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch will drop them
        quantized = torch.quantize_per_tensor(torch.rand(3), 0.1, 0, torch.quint8)
    return [
        None, True, -1, 0, 3, 2**70, -(2**70), 1.5, float("nan"), float("inf"), 1e308, 1j,
        "", "text", "left", "\ud800", "\x1b[2J", "a" * 10_000, b"bytes", (), [], {}, set(), [None], [[]], {"a": None},
        {1: 2}, object(), deep, circle, int, len, range(3), np.zeros(3), np.array(["a"]), np.float64("nan"),
        A, A[None], BATCH, A[:5], A[..., :1], A.real, A.real.long(), A.to(torch.complex128),
        A * float("nan"), A * float("inf"), torch.zeros(0, 12, 2, 2, dtype=torch.complex64), torch.tensor(1.0),
        torch.zeros(()), A.to_sparse(), A.to("meta"), A.mH, A.conj(), A.clone().requires_grad_(), A.abs() > 0,
        SPACE.wrap(A), ghrr.Space(5, 3).atoms("x")[0], SPACE, ghrr.Space(12, 2), torch.Generator(), "cuda",
        torch.float16, quantized,
    ]  # fmt: skip


def calls() -> dict[str, tuple[Callable[..., Any], list[Any], dict[str, Any]]]:
    """Calls that work, by name: what is called, its arguments and keywords."""
    record, graph, tree = structures.Record(SPACE), structures.Graph(SPACE), structures.Tree(SPACE)
    sequence, chain, stack = structures.Sequence(SPACE), structures.Chain(SPACE), structures.Stack(SPACE)
    table, collection = structures.HashTable(SPACE), structures.Set(SPACE)
    grams, machine = structures.NGrams(SPACE, 2), structures.Automaton(SPACE)
    in_record, in_graph = record.encode({"a": "x", "b": {"c": 1}}), graph.encode([("a", "to", "b")])
    in_tree, in_sequence, in_chain = tree.encode(["a", "b"]), sequence.encode(["a", "b"]), chain.encode(["a", "b"])
    in_stack, in_table, in_set = stack.encode(["a", "b"]), table.encode({"a": "b"}), collection.encode(["a", "b"])
    in_grams, in_machine = grams.encode(["a", "b"]), machine.encode({("s", "a"): "t"}, start="s", final=["t"])
    power, book = encoding.FractionalPower(SPACE, 1), encoding.Codebook(SPACE, ["a", "b"])
    memory = ItemMemory(SPACE, ["a", "b", "c", "d"], BATCH)
    plain: dict[str, tuple[Callable[..., Any], list[Any], dict[str, Any]]] = {
        "bind": (ghrr.bind, [A, B], {}),
        "unbind": (ghrr.unbind, [A, B], {"side": "left"}),
        "unbind exact": (ghrr.unbind, [A, B], {"side": "right", "exact": True}),
        "unbind_similarity": (ghrr.unbind_similarity, [A, B, C], {"side": "left"}),
        "multibind": (ghrr.multibind, [[A, B, C]], {}),
        "bundle": (ghrr.bundle, [BATCH], {}),
        "bind_bundle": (ghrr.bind_bundle, [BATCH, BATCH], {}),
        "adjoint": (ghrr.adjoint, [A], {}),
        "shift": (ghrr.shift, [A, 2], {}),
        "power": (ghrr.power, [A, 0.5], {}),
        "whole power": (ghrr.power, [A, 3], {}),
        "normalize": (ghrr.normalize, [A], {"to": "unitary"}),
        "similarity": (ghrr.similarity, [A, B], {}),
        "pairwise_similarity": (ghrr.pairwise_similarity, [A, BATCH], {}),
        "commutator": (ghrr.commutator, [A, B], {}),
        "commutativity": (ghrr.commutativity, [A, B], {}),
        "resonator": (ghrr.resonator, [ghrr.bind(BATCH[0], BATCH[1]), [BATCH, BATCH]], {"iterations": 3}),
        "Space": (ghrr.Space, [12, 2], {"seed": 0, "diagonality": None, "rotation": "varying", "phases": "uniform"}),
        "Space.from_total": (ghrr.Space.from_total, [48], {"m": 2}),
        "Space.suggest": (ghrr.Space.suggest, [3], {"m": 2, "candidates": 10, "error": 0.1}),
        "Space.capacity": (SPACE.capacity, [], {"candidates": 10, "error": 0.1}),
        "Space.vectors": (SPACE.vectors, [["a", "b"]], {"namespace": "n"}),
        "Space.atoms": (SPACE.atoms, ["a"], {}),
        "Space.random": (SPACE.random, [2], {"generator": torch.Generator()}),
        "Space.wrap": (SPACE.wrap, [A, "x"], {}),
        "Space.check": (SPACE.check, [A], {}),
        "polar": (unitary.polar, [A], {}),
        "diagonality": (unitary.diagonality, [A], {}),
        "is_unitary": (unitary.is_unitary, [A], {}),
        "FractionalPower": (encoding.FractionalPower, [SPACE, 1], {"bandwidth": 1.0}),
        "FractionalPower()": (power, [[[1.0], [2.0]]], {}),
        "FractionalPower.decode": (power.decode, [power([[1.0]])], {"low": 0.0, "high": 3.0}),
        "Codebook": (encoding.Codebook, [SPACE, ["a"]], {}),
        "Codebook()": (book, [["a", "b"]], {}),
        "encoding.NGramEncoder": (encoding.NGramEncoder(2), [BATCH], {}),
        "encoding.SequenceEncoder": (encoding.SequenceEncoder(SPACE), [BATCH], {}),
        "ItemMemory": (ItemMemory, [SPACE, ["a"], A[None]], {"storage": "float32"}),
        "ItemMemory.cleanup": (memory.cleanup, [A], {"k": 2}),
        "ItemMemory.match": (memory.match, [A], {}),
        "ItemMemory.vectors": (memory.vectors, ["a"], {}),
        "Record.encode": (structures.Record(SPACE).encode, [{"a": ["x", 1, None, {"b": True}]}], {}),
        "Record.encode_many": (structures.Record(SPACE).encode_many, [[{"a": 1}, {"a": 2}]], {}),
        "Record.query": (record.query, [in_record, "a"], {}),
        "Record.query_many": (record.query_many, [in_record, [["a"], ["b", "c"]]], {}),
        "Record.decode": (record.decode, [in_record], {}),
        "Record.update": (record.update, [in_record, ["a"], "y"], {"old": "x"}),
        "Record.delete": (record.delete, [in_record, ["a"]], {"old": "x"}),
        "Record.merge": (record.merge, [in_record, in_record], {}),
        "Record.suggest": (structures.Record.suggest, [4], {"values": 5, "m": 2}),
        "Scale": (structures.Scale, [0, 10, 1], {}),
        "parse_json": (structures.parse_json, ['{"a": 1}'], {}),
        "Graph.encode": (structures.Graph(SPACE).encode, [[("a", "to", "b")]], {}),
        "Graph.neighbours": (graph.neighbours, [in_graph, "a", "to"], {}),
        "Graph.predecessors": (graph.predecessors, [in_graph, "b", "to"], {}),
        "Graph.edge_labels": (graph.edge_labels, [in_graph, "a", "b"], {}),
        "Graph.walk": (graph.walk, [in_graph, "a", ["to"]], {}),
        "Graph.paths": (graph.paths, [in_graph, "a", "b", 2], {}),
        "Graph.decode": (graph.decode, [in_graph], {}),
        "Graph.suggest": (structures.Graph.suggest, [5], {"nodes": 5, "m": 2, "error": 0.1}),
        "Tree.encode": (structures.Tree(SPACE).encode, [["a", ["b", "c"]]], {}),
        "Tree.label": (tree.label, [in_tree, 0], {}),
        "Tree.part": (tree.part, [in_tree, 0], {}),
        "Tree.decode": (tree.decode, [in_tree], {}),
        "Tree.add_leaf": (tree.add_leaf, [in_tree, [1], "b"], {}),
        "Sequence.encode": (structures.Sequence(SPACE).encode, [["a", "b"]], {}),
        "Sequence.item": (sequence.item, [in_sequence, 0], {}),
        "Sequence.read": (sequence.read, [in_sequence, 0, 2], {}),
        "Sequence.index": (sequence.index, [in_sequence, "a"], {}),
        "Sequence.append": (sequence.append, [in_sequence, "a"], {"at": 2}),
        "Sequence.replace": (sequence.replace, [in_sequence, 0, "b"], {"old": "a"}),
        "Chain.encode": (structures.Chain(SPACE).encode, [["a", "b"]], {}),
        "Chain.next": (chain.next, [in_chain, ["a"]], {}),
        "Chain.item": (chain.item, [in_chain, 0], {}),
        "Stack.push": (stack.push, [in_stack, "a"], {}),
        "Stack.pop": (stack.pop, [in_stack], {}),
        "Stack.decode": (stack.decode, [in_stack], {"limit": 3}),
        "HashTable.encode": (structures.HashTable(SPACE).encode, [{"a": "b"}], {}),
        "HashTable.get": (table.get, [in_table, "a"], {}),
        "HashTable.put": (table.put, [in_table, "c", "b"], {}),
        "HashTable.key": (table.key, [in_table, "b"], {}),
        "Set.encode": (structures.Set(SPACE).encode, [{"a": 1, ("b", "c"): 2}], {}),
        "Set.contains": (collection.contains, [in_set, "a"], {}),
        "Set.count": (collection.count, [in_set, "a"], {}),
        "Set.add": (collection.add, [in_set, "c"], {"times": 2}),
        "NGrams.encode": (structures.NGrams(SPACE, 2).encode, [["a", "b", "c"]], {}),
        "NGrams.count": (grams.count, [in_grams, ["a", "b"]], {}),
        "NGrams.after": (grams.after, [in_grams, ["a"]], {}),
        "Automaton.encode": (structures.Automaton(SPACE).encode, [{("s", "a"): "t"}], {"start": "s", "final": ["t"]}),
        "Automaton.step": (machine.step, [in_machine, "s", "a"], {}),
        "Automaton.run": (machine.run, [in_machine, ["a"]], {}),
        "Automaton.add": (machine.add, [in_machine, {("t", "a"): "s"}], {}),
        "backend": (lambda name: ghrr.backend(name).__exit__(None, None, None), ["torch"], {}),
    }
    return plain


def attack(count: int, seed: int) -> list[str]:
    """Try ``count`` changed calls; return a description of each wrong outcome."""
    rng = random.Random(seed)
    working, values = calls(), hostile()
    found: list[str] = []
    for number in range(count):
        name = rng.choice(list(working))
        function, arguments, keywords = working[name]
        arguments, keywords = list(arguments), dict(keywords)
        changed = []
        for _ in range(rng.choice([1, 1, 2])):
            places = [*range(len(arguments)), *keywords]
            place = rng.choice(places) if places else None
            at = rng.randrange(len(values))
            if place is None:
                arguments.append(values[at])
            elif isinstance(place, int):
                arguments[place] = values[at]
            else:
                keywords[place] = values[at]
            changed.append(f"{place} = value {at}")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                function(*arguments, **keywords)
        except EXPLAINED as error:
            if not OURS.search(str(error)):
                found.append(f"{number}: {name} ({', '.join(changed)}): {type(error).__name__}: {str(error)[:200]}")
        except Exception as error:
            found.append(f"{number}: {name} ({', '.join(changed)}): {type(error).__name__}: {str(error)[:200]}")
    return found


def test_unchanged_calls_succeed() -> None:
    for name, (function, arguments, keywords) in calls().items():
        try:
            function(*arguments, **keywords)
        except (KeyError, ValueError, IndexError) as error:
            if "certain" not in str(error) and "empty" not in str(error):  # small spaces are noisy, and say so
                pytest.fail(f"{name}: {error}")


def test_hostile_arguments_give_errors_that_explain() -> None:
    assert attack(300, seed=0) == []


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(1, 6))
def test_many_hostile_arguments_give_errors_that_explain(seed: int) -> None:
    assert attack(2000, seed=seed) == []
