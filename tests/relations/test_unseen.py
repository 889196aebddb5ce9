"""Questions about entities without a training triple: answered by the frequencies of tails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ghrr.files import read_tensors, write_tensors
from ghrr.relations import KnowledgeGraph, RelationModel, evaluate, load_model, predict, save_model, train
from ghrr.relations.unseen import count_tails
from tests.relations.common import (
    CITIES,
    LIVES_IN,
    PEOPLE,
    people_graph,
    permutation_graph,
    random_graph,
    small_config,
)


def expected_scores(graph: KnowledgeGraph, relation: int) -> Tensor:
    """Return the log-probabilities of tails by counting triple by triple."""
    seen = graph.train[:, [0, 2]].flatten().tolist()
    weights = torch.full((len(graph.entities),), 1 / len(graph.entities), dtype=torch.float64)
    count = len(graph.relations)
    for head, own, tail in graph.train.tolist():
        start, answer = (head, tail) if relation < count else (tail, head)
        if own == relation % count:
            weights[answer] += 0.01 + (seen.count(start) == 1)
    return (weights / weights.sum()).log()


@pytest.fixture
def model() -> RelationModel:
    graph = people_graph()
    model = RelationModel(graph.entities, graph.relations, dim=4, m=2, init_std=0.5, seed=0)
    model.unseen = count_tails(graph)
    return model


@pytest.mark.parametrize("relation", range(4))
def test_scores_of_unseen_heads_are_log_probabilities(model: RelationModel, relation: int) -> None:
    scores = model.scores(torch.tensor([PEOPLE - 1]), torch.tensor([relation]))[0].detach() * (model.m * model.dim)
    torch.testing.assert_close(scores, expected_scores(people_graph(), relation).float(), atol=1e-5, rtol=1e-5)
    assert float(scores.exp().sum()) == pytest.approx(1.0, abs=1e-5)


def test_scores_of_seen_heads_and_of_paths_come_from_the_vectors(model: RelationModel) -> None:
    heads, steps = torch.tensor([0, PEOPLE - 1]), torch.tensor([0, 0])
    scores, path = model.scores(heads, steps), model.scores(heads, steps, steps)
    model.unseen = None
    vectors = model.scores(heads, steps)
    assert torch.equal(scores[0], vectors[0])
    assert not torch.allclose(scores[1], vectors[1])  # negative control
    assert torch.equal(path, model.scores(heads, steps, steps))


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_probabilities_of_predictions_are_the_frequencies(model: RelationModel, temperature: float) -> None:
    model.temperature = temperature
    matches = predict(model, f"person {PEOPLE - 1}", "lives in", k=3)
    assert matches[0].guess == "city 0"
    expected = expected_scores(people_graph(), LIVES_IN).exp().max()
    assert matches[0].probability == pytest.approx(float(expected), rel=1e-4)


def test_graphs_that_show_all_entities_need_no_counts() -> None:
    graph = permutation_graph()
    assert count_tails(graph) is None
    assert count_tails(people_graph()) is not None


def test_trained_model_answers_for_unseen_people_and_is_stored(tmp_path: Path) -> None:
    graph = people_graph()
    result = train(graph, small_config(epochs=5), tmp_path / "run", device="cpu")
    model = load_model(tmp_path / "run")
    unseen = torch.tensor([PEOPLE - 1])
    scores = model.scores(unseen, torch.tensor([LIVES_IN]))[0] * (model.m * model.dim / model.temperature)
    torch.testing.assert_close(scores, expected_scores(graph, LIVES_IN).float(), atol=1e-5, rtol=1e-5)
    assert evaluate(model, graph).summary() == result["test"]
    tails = evaluate(model, graph).ranks[:, 0]
    model.unseen = None  # negative control
    assert not torch.equal(evaluate(model, graph).ranks[:, 0], tails)


def test_counts_are_in_single_precision_whatever_the_default() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        unseen = count_tails(people_graph())
    finally:
        torch.set_default_dtype(torch.float32)
    assert unseen is not None
    assert unseen.counts.dtype == torch.float32


def test_files_of_models_without_counts_load(tmp_path: Path) -> None:
    graph = random_graph()
    save_model(tmp_path / "model", RelationModel(graph.entities, graph.relations, dim=4, m=2))
    assert load_model(tmp_path / "model").unseen is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("unseen", torch.zeros(3, dtype=torch.bool)),
        ("unseen", torch.zeros(PEOPLE + CITIES)),
        ("unseen.indices", torch.full((2, 4), 99)),
        ("unseen.values", torch.full((4,), -1.0)),
        ("unseen.values", torch.full((4,), torch.nan)),
        ("unseen.values", None),
    ],
)
def test_counts_that_do_not_fit_are_refused(model: RelationModel, tmp_path: Path, name: str, value: Any) -> None:
    path = tmp_path / "model"
    save_model(path, model)
    header, tensors = read_tensors(path, kind="ghrr-relation-model", version=1)
    tensors = {key: tensor for key, tensor in tensors.items() if key != name or value is not None}
    changed = tensors if value is None else tensors | {name: value}
    write_tensors(path, header, changed, kind="ghrr-relation-model", version=1)
    with pytest.raises(ValueError, match=r"load_model\('.*'\): "):
        load_model(path)
