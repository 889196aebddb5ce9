"""Calls with hostile arguments: each gives a result, or an error that explains, never an internal error.

A call that works is changed in one or two arguments, or in an element of a list. Silently wrong is: a number that is
replaced by NaN or by a text is accepted; a name of an option that does not exist is accepted; a call of an index or a
memory that raises has changed it; an index is inconsistent afterwards.
"""

from __future__ import annotations

import functools
import math
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.faults.campaigns.outcome import RAW, WRONG, Fault, Outcome, describe, ensure, is_explained
from tests.faults.campaigns.records import check_records, copy_template, make_documents, make_index, open_index

import ghrr
from ghrr import encoding, learn, models, nn, relations, structures, unitary
from ghrr.memory import ItemMemory
from ghrr.search import Range, RecordIndex

SPACE = ghrr.Space(12, 2, seed=1)
OLD = make_documents(range(6))
A, B, C = SPACE.random(3, generator=torch.Generator().manual_seed(0))
BATCH = SPACE.random(4, generator=torch.Generator().manual_seed(1))

Call = tuple[Callable[..., Any], list[Any], dict[str, Any]]


@functools.cache
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


@functools.cache
def calls() -> dict[str, Call]:
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
    plain: dict[str, Call] = {
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
        "ItemMemory": (ItemMemory, [SPACE, ["a"], A[None]], {"storage": "float32", "device": "cpu"}),
        "ItemMemory.cleanup": (memory.cleanup, [A], {"k": 2}),
        "ItemMemory.match": (memory.match, [A], {"confidence": 0.9}),
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
    return plain | _models() | _learners() | _relations() | _attention()


def _models() -> dict[str, Call]:
    result: dict[str, Call] = {"models.make": (models.make, ["ghrr-3"], {"reals": 1800, "order": 1})}
    for name in models.MODELS:
        try:
            model = models.make(name, reals=72)
            keys, values = (model.random(2, generator=torch.Generator().manual_seed(i)) for i in range(2))
            bound = model.bind(keys, values)
            own: dict[str, Call] = {
                "random": (model.random, [2], {"generator": torch.Generator()}),
                "bind": (model.bind, [keys, values], {}),
                "unbind": (model.unbind, [bound, keys], {"side": model.facts.sides[0]}),
                "bundle": (model.bundle, [values], {}),
                "similarity": (model.similarity, [values, values], {}),
                "pairwise_similarity": (model.pairwise_similarity, [values, values], {}),
                "shift": (model.shift, [values, 1], {}),
                "normalize": (model.normalize, [values], {}),
            }
        except (ValueError, TypeError, NotImplementedError):  # this model needs other settings
            continue
        result |= {f"{name}.{operation}": call for operation, call in own.items()}
    return result


def _learners() -> dict[str, Call]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    y = np.array(["a", "b"] * 10)
    result: dict[str, Call] = {}
    for training in ("ridge", "centroid"):
        estimator = learn.HDClassifier(training=training)
        result[f"HDClassifier {training}"] = (_fit_and_predict(estimator), [X, y], {})
    result["HDRegressor"] = (_fit_and_predict(learn.HDRegressor()), [X, X[:, 0]], {})
    result["TextFeatures"] = (_transform(learn.TextFeatures()), [["a text", "another", "and more"]], {})
    result["TableFeatures"] = (_transform(learn.TableFeatures()), [X], {})
    return result


def _fit_and_predict(estimator: Any) -> Callable[..., Any]:
    return lambda X, y: estimator.fit(X, y).predict(X)


def _transform(encoder: Any) -> Callable[..., Any]:
    return lambda X: encoder.fit(X).transform(X)


def _relations() -> dict[str, Call]:
    model = relations.RelationModel(("a", "b", "c"), ("to", "of"), dim=4, m=2, seed=1)
    return {
        "RelationModel": (
            relations.RelationModel,
            [("a", "b"), ("to",)],
            {"dim": 4, "m": 2, "relation_form": "relaxed", "init_std": 0.1, "length_penalty": 0.0, "seed": 0},
        ),
        "relations.predict": (relations.predict, [model, "a", ["to"]], {}),
        "RelationConfig": (
            relations.RelationConfig,
            [],
            {"dim": 4, "m": 2, "learning_rate": 0.1, "batch": 10, "epochs": 1, "regularizer": "dura"},
        ),
    }


def _attention() -> dict[str, Call]:
    x = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(2))
    layer = nn.Attention(embed_dim=12, num_heads=2, max_len=5)
    q = torch.randn(2, 5, 4, dtype=torch.complex64, generator=torch.Generator().manual_seed(3))
    return {
        "Attention": (nn.Attention, [], {"embed_dim": 12, "num_heads": 2, "max_len": 5, "m": 2, "dropout": 0.0}),
        "Attention()": (layer, [x, x, x], {}),
        "ghrr_attention": (nn.functional.ghrr_attention, [q, q, q], {"scale": 0.5}),
        "attention_weights": (nn.functional.attention_weights, [q, q], {"scale": 0.5}),
    }


def _index_calls(index: RecordIndex) -> dict[str, Call]:
    """Return calls of an index that work once each."""
    document = OLD["id 1"]
    return {
        "RecordIndex": (
            RecordIndex,
            [SPACE],
            {"kinds": {"name": "text"}, "weights": {"name": 2.0}, "whole": True, "storage": "int8", "backend": "torch"},
        ),
        "RecordIndex.add": (index.add, [[{"name": "x"}, {"name": "y"}]], {"ids": ["x", "y"]}),
        "RecordIndex.update": (index.update, [[{"name": "x"}]], {"ids": ["id 2"]}),
        "RecordIndex.remove": (index.remove, [["id 1", "id 3"]], {}),
        "RecordIndex.learn_weights": (index.learn_weights, [[document]], {"ids": ["id 1"]}),
        "RecordIndex.search": (
            index.search,
            [document],
            {
                "k": 3, "threshold": 0.1, "must": {"name": "Ada"}, "must_not": {"year": 1}, "near": {"name": "Ada"},
                "candidates": 5, "weights": {"name": 2.0}, "confidence": 0.9,
            },
        ),
        "RecordIndex.search_many": (index.search_many, [[document, document]], {"k": 3, "confidence": 0.9}),
        "RecordIndex.explain": (index.explain, ["id 1", document], {"weights": {"name": 2.0}}),
        "RecordIndex.duplicates": (index.duplicates, [0.5], {"neighbours": 3}),
        "RecordIndex.duplicates by rate": (index.duplicates, [], {"rate": 0.5, "neighbours": 3}),
        "RecordIndex.save": (index.save, ["index"], {}),
        "RecordIndex.open": (RecordIndex.open, ["index"], {}),
        "Range": (Range, [1, 5], {}),
    }  # fmt: skip


_LIKELY = range(2, 14)  # of the hostile values: numbers and short texts
# Parameters whose values are names of options; any other text or object must be refused.
_OPTIONS = {"side", "to", "rotation", "phases", "storage", "backend", "device", "relation_form", "regularizer"}
_INDEX_CALLS = tuple(_index_calls(make_index("torch", Path("x"), {})))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _must_be_refused(name: str, place: Any, before: Any, after: Any) -> bool:
    if _is_number(before) and name != "Range":  # its ends may be dates
        return isinstance(after, str) or (isinstance(after, float) and math.isnan(after))
    return place in _OPTIONS and isinstance(after, str) and after not in ("cpu", "left")


def _shown(value: Any) -> str:
    try:
        return repr(value)[:40]
    except RecursionError:
        return f"a deep {type(value).__name__}"


def _an_index(rng: random.Random, folder: Path) -> RecordIndex:
    if rng.random() < 0.2:
        return make_index("torch", folder, OLD)
    return open_index(copy_template("torch", OLD, folder / "opened"), "torch")


def attack(rng: random.Random, folder: Path) -> Outcome:
    name = rng.choice([*calls(), *_INDEX_CALLS])
    index = _an_index(rng, folder) if name in _INDEX_CALLS else None
    if name == "RecordIndex.open":
        assert index is not None
        index.save(folder / "index")
    function, given, named = (_index_calls(index) if index is not None else calls())[name]
    arguments, keywords = (
        [folder / one if isinstance(one, str) and one == "index" else one for one in given],
        dict(named),
    )
    changed, is_wrong = [], False
    places = [*range(len(arguments)), *keywords] or [0]
    for place in rng.sample(places, min(len(places), rng.choice([1, 1, 2]))):
        before = named[place] if isinstance(place, str) else next(iter(given[place:]), None)
        likely = _LIKELY if isinstance(before, int | float | str) and rng.random() < 0.4 else range(len(hostile()))
        at = rng.choice(likely)
        value = hostile()[at]
        if isinstance(before, list) and before and rng.random() < 0.5:  # one element
            row = rng.randrange(len(before))
            value = [*before[:row], value, *before[row + 1 :]]
        is_wrong |= _must_be_refused(name, place, before, value)
        if isinstance(place, str):
            keywords[place] = value
        else:
            arguments[place : place + 1] = [value]
        changed.append(f"{place} = value {at}, {_shown(value)}")
    case = f"{name}({'; '.join(changed)})"
    error: BaseException | None = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(*arguments, **keywords)
    except Exception as raised:
        error = raised
    if error is not None and not is_explained(error):
        raise Fault(RAW, describe(error), case) from error
    ensure(error is not None or not is_wrong, WRONG, "a value that means nothing is accepted", case)
    if index is not None:
        expected = OLD if error is not None else {one: index[one] for one in index.ids}
        check_records(index, expected, case + " raised" * (error is not None))
    return Outcome("refused" if error is not None else "accepted")
