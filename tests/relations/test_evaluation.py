"""Filtered ranks against a brute-force computation, ties included."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from ghrr.relations import KnowledgeGraph, RankMetrics, RelationModel, calibration, evaluate, evaluation, predict
from ghrr.relations.calibration import (
    expected_calibration_error,
    maximise_likelihood,
    probabilities,
    top_confidences,
)
from ghrr.relations.evaluation import filtered_scores, realistic_ranks
from ghrr.relations.graph import with_reciprocals
from ghrr.relations.known_answers import known_answers
from tests.relations.common import as_indices, random_graph


def brute_force_rank(scores: list[float], target: int, others: set[int]) -> float:
    """Return the mean rank over all orders of entities with equal scores."""
    rivals = [score for entity, score in enumerate(scores) if entity not in others | {target}]
    greater = sum(score > scores[target] for score in rivals)
    equal = sum(score == scores[target] for score in rivals)
    return 1 + greater + equal / 2


def rounded_model(graph: KnowledgeGraph, m: int) -> RelationModel:
    """Return a model of few small whole numbers, so that many scores are exactly equal."""
    model = RelationModel(graph.entities, graph.relations, dim=2, m=m, init_std=0.7, seed=0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.round_()
    return model


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_filtered_ranks_equal_brute_force(m: int, split: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "_MAX_SCORES", 30)  # two questions at a time, or one
    graph = random_graph(triples=90)
    model = rounded_model(graph, m)
    every = {tuple(row) for name in ("train", "valid", "test") for row in graph.split(name).tolist()}
    expected, ties = [], 0
    for head, relation, tail in graph.split(split).tolist():
        tails, heads = (
            model.scores(torch.tensor([entity]), torch.tensor([kind]))[0].tolist()
            for entity, kind in ((head, relation), (tail, relation + 3))
        )
        known_tails = {t for h, r, t in every if (h, r) == (head, relation)}
        known_heads = {h for h, r, t in every if (r, t) == (relation, tail)}
        expected.append(
            [brute_force_rank(tails, tail, known_tails - {tail}), brute_force_rank(heads, head, known_heads - {head})]
        )
        ties += sum(score == tails[tail] for score in tails) - 1
    metrics = evaluate(model, graph, split)
    assert ties > 0
    assert metrics.ranks.tolist() == expected
    flat = torch.tensor(expected, dtype=torch.float64).flatten()
    assert metrics.mrr == pytest.approx(float((1 / flat).mean()))
    assert metrics.summary()["hits_at_3"] == pytest.approx(float((flat <= 3).double().mean()))


@pytest.mark.parametrize(("dim", "rows"), [(1, 250 // 12), (25, 250 // 50)])
def test_scores_and_products_in_memory_are_bounded(dim: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With few entities of many numbers, the products of heads and relations are larger than the scores."""
    monkeypatch.setattr(evaluation, "_MAX_SCORES", 250)
    graph = random_graph(triples=90)
    model = RelationModel(graph.entities, graph.relations, dim=dim, m=1)
    chunks = filtered_scores(model, with_reciprocals(graph.test, 3), known_answers(graph))
    assert [len(targets) for _, targets in chunks][:-1] == [rows] * ((60 - 1) // rows)


def test_unfiltered_ranks_would_differ() -> None:
    graph = random_graph(triples=90)
    model = rounded_model(graph, 2)
    heads, relations, tails = graph.test.unbind(1)
    unfiltered = realistic_ranks(model.scores(heads, relations).detach(), tails)
    assert (unfiltered >= evaluate(model, graph).ranks[:, 0]).all()
    assert (unfiltered > evaluate(model, graph).ranks[:, 0]).any()


def test_constant_scores_have_the_mean_rank() -> None:
    scores = torch.zeros(1, 9)
    assert realistic_ranks(scores, torch.tensor([4])).item() == 5.0
    scores[0, 4] = 1.0
    assert realistic_ranks(scores, torch.tensor([4])).item() == 1.0
    scores[0, 4] = -1.0
    assert realistic_ranks(scores, torch.tensor([4])).item() == 9.0


def test_scores_that_are_not_numbers_have_no_rank() -> None:
    graph = random_graph()
    model = RelationModel(graph.entities, graph.relations, dim=2, m=1)
    for value in (torch.nan, 1e30):  # the square of 1e30 is infinite
        with torch.no_grad():
            model.entity_table[3] = value
            model.relation_table.fill_(value)
        with pytest.raises(ValueError, match="evaluate: the scores of the model are not numbers"):
            evaluate(model, graph)
        with pytest.raises(ValueError, match="predict: the scores of the model are not numbers"):
            predict(model, "e3", "r0")


def test_other_vocabularies_and_empty_splits_are_refused() -> None:
    graph = random_graph()
    model = RelationModel(graph.entities[::-1], graph.relations, dim=2, m=1)
    with pytest.raises(ValueError, match="the graph must have the entities of the model"):
        evaluate(model, graph)
    empty = KnowledgeGraph("g", graph.entities, graph.relations, graph.train, graph.valid, as_indices())
    with pytest.raises(ValueError, match="the test split is empty"):
        evaluate(RelationModel(graph.entities, graph.relations, dim=2, m=1), empty)
    with pytest.raises(TypeError, match="evaluate: model must be a RelationModel, got NoneType"):
        evaluate(None, graph)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="evaluate: the graph must be a KnowledgeGraph, got str 'data'"):
        evaluate(RelationModel(graph.entities, graph.relations, dim=2, m=1), "data")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="k must be a whole number of at least 1"):
        RankMetrics(torch.ones(1, 2)).hits(0)


def sampled_questions(temperature: float, background: float, count: int = 2000) -> tuple[Tensor, Tensor]:
    """Return logits, and targets drawn from the probabilities of a calibrated model with these settings."""
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(count, 50, generator=generator)
    logits[:, :5] = -torch.inf  # not candidates
    model = RelationModel(("a",), ("r",), dim=1, m=1)
    model.temperature, model.background = temperature, background
    return logits, torch.multinomial(probabilities(model, logits), 1, generator=generator)[:, 0]


def log_likelihood(questions: tuple[Tensor, Tensor], temperature: float, background: float) -> float:
    logits, targets = questions
    model = RelationModel(("a",), ("r",), dim=1, m=1)
    model.temperature, model.background = temperature, background
    return float(probabilities(model, logits.double()).gather(1, targets[:, None]).log().sum())


@pytest.mark.parametrize(("temperature", "background"), [(0.5, 0.3), (2.0, 0.0), (0.2, 0.8)])
def test_calibration_recovers_temperature_and_background(temperature: float, background: float) -> None:
    questions = sampled_questions(temperature, background)
    fitted = log_likelihood(questions, *maximise_likelihood([questions]))
    excess = 2 * (fitted - log_likelihood(questions, temperature, background))
    assert -1e-6 < excess < 13.8  # 99.9 % of a chi-squared distribution with two degrees of freedom
    halved = log_likelihood(questions, temperature / 2, background)
    assert 2 * (fitted - halved) > 13.8


def test_temperature_alone_does_not_fit_questions_without_an_answer() -> None:
    questions = sampled_questions(0.2, 0.3)
    temperature, background = maximise_likelihood([questions])
    assert log_likelihood(questions, temperature, background) > log_likelihood(questions, 0.2, 0.3) - 1e-6
    alone = max(log_likelihood(questions, 10 ** (power / 20), 0.0) for power in range(-40, 41))
    assert 2 * (log_likelihood(questions, temperature, background) - alone) > 13.8


def test_confidences_are_probabilities_of_the_best_entity() -> None:
    graph = random_graph()
    model = RelationModel(graph.entities, graph.relations, dim=4, m=2, init_std=0.5, seed=0)
    confidences, right = top_confidences(model, graph, "test")
    assert confidences.shape == right.shape == (40,)
    ranks = evaluate(model, graph).ranks.T.flatten()
    assert torch.equal(right, ranks == 1)
    model.temperature = 1e9
    flat, _ = top_confidences(model, graph, "test")
    assert (flat < 0.2).all()
    assert (flat <= confidences).all()


def test_calibration_error_is_zero_for_honest_confidences_only() -> None:
    right = torch.tensor([True, True, True, False])
    assert expected_calibration_error(torch.full((4,), 0.75), right) == 0.0
    assert expected_calibration_error(torch.full((4,), 0.95), right) == pytest.approx(0.2)


def test_calibration_in_blocks_equals_calibration_of_stored_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(entities=40, triples=90)
    model = RelationModel(graph.entities, graph.relations, dim=4, m=2, init_std=0.5, seed=0)
    stored = calibration.fit_calibration(model, graph)
    monkeypatch.setattr(calibration, "_STORED", 0)
    monkeypatch.setattr(calibration, "_SCORES", 300)
    monkeypatch.setattr(calibration, "_BLOCK", 90)
    assert calibration.fit_calibration(model, graph) == pytest.approx(stored, rel=1e-6)
    assert calibration.fit_calibration(model, graph, "test") != pytest.approx(stored, rel=1e-6)


def test_calibration_in_blocks_holds_one_block_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(entities=40, triples=90)
    model = RelationModel(graph.entities, graph.relations, dim=4, m=2, init_std=0.5, seed=0)
    blocks: list[weakref.ref[Tensor]] = []
    alive: list[int] = []

    def counted(*args: Any, **settings: Any) -> Iterator[tuple[Tensor, Tensor]]:
        for scores, targets in filtered_scores(*args, **settings):
            blocks.append(weakref.ref(scores))
            alive.append(sum(block() is not None for block in blocks))
            yield scores, targets

    monkeypatch.setattr(calibration, "filtered_scores", counted)
    monkeypatch.setattr(calibration, "_SCORES", 300)
    calibration.fit_calibration(model, graph)
    assert max(alive) == len(blocks) > 5  # all are kept if they fit in memory
    monkeypatch.setattr(calibration, "_STORED", 0)
    blocks.clear()
    alive.clear()
    calibration.fit_calibration(model, graph)
    assert max(alive) <= 2
    assert len(blocks) > 5
