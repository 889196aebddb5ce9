"""Predictions, paths and explanations of a model that has learned a group."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path

import pytest
import torch

from ghrr.relations import (
    Composition,
    KnowledgeGraph,
    RelationModel,
    explain,
    find_compositions,
    load_model,
    predict,
    train,
)
from tests.relations.common import multiply, permutation_graph, random_graph, small_config


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return permutation_graph()


@pytest.fixture(scope="module")
def model(graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> RelationModel:
    folder = tmp_path_factory.mktemp("relations") / "run"
    train(graph, small_config(), folder)
    return load_model(folder)


@pytest.fixture(scope="module")
def commutative(graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> RelationModel:
    folder = tmp_path_factory.mktemp("relations") / "run"
    train(graph, small_config(m=1, dim=144), folder)
    return load_model(folder)


def path_accuracy(model: RelationModel) -> float:
    """Return how often the path a, b leads to the product with both generators."""
    a, b = (1, 0, 2, 3), (1, 2, 3, 0)
    right = 0
    for element in itertools.permutations(range(4)):
        head, tail = ("".join(map(str, x)) for x in (element, multiply(multiply(element, a), b)))
        right += predict(model, head, ["a", "b"], k=1)[0].guess == tail
    return right / 24


def test_matches_are_ranked_with_their_scores(model: RelationModel) -> None:
    matches = predict(model, "0123", "a", k=24)
    scores = model.scores(torch.tensor([0]), torch.tensor([0]))[0]
    assert matches[0].guess == "1023"
    assert matches[0].confident
    assert [match.score for match in matches] == pytest.approx(sorted(scores.tolist(), reverse=True))
    assert sum(match.probability for match in matches) == pytest.approx(1.0)
    assert matches[0].runner_up == matches[1].guess
    assert matches[0].margin == pytest.approx(matches[0].score - matches[1].score)
    assert matches[-1].runner_up is None
    assert [match.guess for match in predict(model, "0123", ["a"], k=2)] == [match.guess for match in matches[:2]]


def test_reciprocal_relation_predicts_heads(model: RelationModel) -> None:
    assert predict(model, "1230", "~b", k=1)[0].guess == "0123"
    assert predict(model, "0123", "b", k=1)[0].guess == "1230"


def test_path_is_right_with_ordered_binding_only(model: RelationModel, commutative: RelationModel) -> None:
    assert path_accuracy(model) > 0.95
    assert path_accuracy(commutative) < 0.8
    one, other = (
        [match.score for match in predict(commutative, "0123", path, k=24)] for path in (["a", "b"], ["b", "a"])
    )
    assert one == pytest.approx(other, abs=1e-6)  # m = 1 cannot tell the orders
    assert predict(model, "0123", ["a", "b"])[0].guess != predict(model, "0123", ["b", "a"])[0].guess


def test_known_answers_are_left_out(model: RelationModel, graph: KnowledgeGraph) -> None:
    matches = predict(model, "0123", "a", k=24, known=graph)
    assert "1023" not in [match.guess for match in matches]
    assert len(matches) == matches[0].candidates == 23
    assert len(predict(model, "0123", ["a", "b"], k=24, known=graph)) == 24  # a path has no known answers
    with pytest.raises(ValueError, match="the graph must have the entities of the model"):
        predict(model, "0123", "a", known=random_graph())


def test_bad_questions_are_named(model: RelationModel) -> None:
    with pytest.raises(ValueError, match="unknown entity '9'"):
        predict(model, "9", "a")
    with pytest.raises(ValueError, match="unknown relation 'c'"):
        predict(model, "0123", ["a", "c"])
    with pytest.raises(ValueError, match="the path is empty"):
        predict(model, "0123", [])
    with pytest.raises(ValueError, match="k must be a whole number of at least 1"):
        predict(model, "0123", "a", k=0)
    with pytest.raises(TypeError, match="model must be a RelationModel"):
        predict(None, "0123", "a")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="relation must be a name or a list of names, got int 3"):
        predict(model, "0123", 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the graph must be a KnowledgeGraph, got str 'data'"):
        predict(model, "0123", "a", known="data")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"predict: .* must be float32 or float64, got torch\.bfloat16"):
        predict(copy.deepcopy(model).bfloat16(), "0123", "a")
    with pytest.raises(TypeError, match="find_compositions: model must be a RelationModel"):
        find_compositions(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="model must be a RelationModel"):
        explain(None, "a")  # type: ignore[arg-type]


def test_compositions_are_found_in_their_order(model: RelationModel, commutative: RelationModel) -> None:
    scores = {(c.first, c.second): c.score for c in find_compositions(model, k=64, result="ab")}
    assert scores["a", "b"] > 0.4
    assert scores["b", "a"] < 0.2
    first = find_compositions(model, k=3)
    assert [c.score for c in first] == sorted((c.score for c in first), reverse=True)
    same = {(c.first, c.second): c.score for c in find_compositions(commutative, k=64, result="ab")}
    assert same["a", "b"] == pytest.approx(same["b", "a"], abs=1e-5)


def test_explanation_knows_symmetry_inverse_and_order(model: RelationModel, commutative: RelationModel) -> None:
    a, b = explain(model, "a"), explain(model, "b")
    assert a.symmetry > 0.7  # a swap is its own inverse
    assert abs(b.symmetry) < 0.3  # a cycle of four is not
    assert b.inverses[0][0] == "~b"
    assert min(a.commutators.values()) > 0.3
    assert max(explain(commutative, "a").commutators.values()) < 1e-5
    assert isinstance(a.compositions[0], Composition)
    assert len(a.compositions) == 3


def test_explanation_in_double_precision(model: RelationModel) -> None:
    double = copy.deepcopy(model).double()
    assert explain(double, "b").symmetry == pytest.approx(explain(model, "b").symmetry, abs=1e-5)
    assert predict(double, "0123", "b", k=1)[0].guess == "1230"


def test_explanation_does_not_depend_on_slots_that_no_entity_uses(model: RelationModel, tmp_path: Path) -> None:
    def copy() -> RelationModel:
        other = RelationModel(model.entities, model.relations, dim=model.dim + 1, m=model.m)
        with torch.no_grad():
            for name in ("entity_table", "relation_table"):
                old, new = getattr(model, name), getattr(other, name)
                new.zero_()
                new[:, : old.shape[1]] = old
        return other

    larger = copy()
    with torch.no_grad():
        larger.relation_table[:, -18:] = 100 * torch.randn(8, 18, generator=torch.Generator().manual_seed(0))
    assert explain(larger, "b").symmetry == pytest.approx(explain(model, "b").symmetry, abs=1e-4)
    with torch.no_grad():
        larger.entity_table[:, -18:] = 1.0
    assert explain(larger, "b").symmetry != pytest.approx(explain(model, "b").symmetry, abs=1e-2)
