"""The chart over bracketings: it finds what a search over all bracketings finds."""

from __future__ import annotations

import pytest
import torch

from ghrr.relations.chains import chart, compose_left_to_right, fill_chart
from ghrr.relations.chains.calibration import chart_features
from ghrr.relations.chains.chart import find_step
from tests.relations.chain_helpers import bracketings, random_table, scores_of


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_chart_equals_brute_force_over_all_bracketings(length: int) -> None:
    table = random_table(4, seed=length)
    chains = torch.randint(4, (6, length), generator=torch.Generator().manual_seed(0))
    found = fill_chart(chains, table).answers
    for chain, scores in zip(chains.tolist(), found, strict=True):
        every = torch.stack([scores_of(tree, table) for tree in bracketings(tuple(chain))])
        torch.testing.assert_close(scores, every.amax(dim=0))


@pytest.mark.parametrize("length", [2, 3, 5])
def test_chart_of_minima_finds_the_most_probable_weakest_step(length: int) -> None:
    table = random_table(4, seed=length)
    chains = torch.randint(4, (6, length), generator=torch.Generator().manual_seed(0))
    found = fill_chart(chains, table, combine=torch.minimum).answers
    for chain, weakest in zip(chains.tolist(), found, strict=True):
        every = torch.stack([scores_of(tree, table, torch.minimum) for tree in bracketings(tuple(chain))])
        torch.testing.assert_close(weakest, every.amax(dim=0))
        if length > 2:  # negative control: sums of several steps are lower than their minima
            assert (fill_chart(torch.tensor([chain]), table).answers[0] < weakest).all()


def test_single_bracketing_scores_lower_than_chart() -> None:
    """Negative control: the chart is more than its first bracketing."""
    table, chain = random_table(4, seed=0), (0, 1, 2, 3, 0)
    first = scores_of(next(bracketings(chain)), table)
    assert (fill_chart(torch.tensor([chain]), table).answers[0] > first + 1e-6).any()


def test_direct_scores_replace_worse_bracketings() -> None:
    table = random_table(3, seed=1)
    chains = torch.tensor([[0, 1, 2, 0]])
    plain = fill_chart(chains, table).answers
    direct = torch.full((1, 2, 3), -50.0, dtype=torch.float64)
    assert torch.equal(fill_chart(chains, table, {3: direct}).answers, plain)
    direct[0, 0, 1] = 0.0
    assert (fill_chart(chains, table, {3: direct}).answers > plain).any()


def test_chunks_do_not_change_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    chains = torch.arange(12).view(6, 2) % 3
    monkeypatch.setattr(chart, "_CHUNK_NUMBERS", 1)
    parts = list(chart.chunks(chains, 3))
    assert [len(part) for part in parts] == [1] * 6
    assert torch.equal(torch.cat(parts), chains)


def test_steps_add_up_to_the_score() -> None:
    table = random_table(4, seed=2)
    chains = torch.tensor([[0, 1, 2, 3, 1]])
    filled = fill_chart(chains, table)

    def total(start: int, width: int, relation: int) -> float:
        if width == 1:
            assert relation == chains[0, start]
            return 0.0
        step = find_step(filled, 0, (start, width), relation)
        (left, right), (a, b) = step.widths, step.relations
        return step.score + total(start, left, a) + total(start + left, right, b)

    for relation in range(4):
        assert total(0, 5, relation) == pytest.approx(float(filled.answers[0, relation]))


def test_features_of_calibration_are_the_lead_and_the_weakest_step_of_the_best_relation() -> None:
    scores = torch.tensor([[-3.0, -1.0, -9.0], [0.0, -50.0, -60.0]])
    weakest = torch.tensor([[-2.0, -0.5, -8.0], [-30.0, 0.0, 0.0]])
    assert chart_features(scores, weakest).tolist() == [[1.0, 2.0, -0.5], [1.0, 10.0, -10.0]]  # limited to 10


def test_left_to_right_takes_the_best_name_after_each_step() -> None:
    table = torch.full((3, 3, 3), -9.0)
    for a in range(3):
        for b in range(3):
            table[a, b, (a - b) % 3] = 0.0  # not associative: (1 - 2) - 2 = 0, 1 - (2 - 2) = 1
    chains = torch.tensor([[1, 2, 2]])
    assert compose_left_to_right(chains, table).tolist() == [0]
    assert fill_chart(chains, table).answers[0].tolist() == [0.0, 0.0, -9.0]


@pytest.mark.slow
def test_hundred_steps_fit_in_memory() -> None:
    chains = torch.randint(20, (2, 100), generator=torch.Generator().manual_seed(0))
    assert torch.isfinite(fill_chart(chains, random_table(20, seed=0).float()).answers).all()
