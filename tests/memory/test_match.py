"""Match: probabilities are calibrated, and answers without a right candidate are unknown."""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr import Space
from ghrr.memory.match import CONFIDENCE, Answer, Match, answer_noise, judge, make_matches
from ghrr.relations.chains import ComposedMatch
from ghrr.search import RecordMatch
from tests.helpers import STANDARD_ERRORS, assert_mean, assert_std, generator

SPACES = [Space.from_total(total, m, seed=m) for total in (72, 288, 900) for m in (1, 2, 3)]


def ask(space: Space, items: int, candidates: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Query a bundle of pairs with its own and as many other keys; return scores, right indices (or -1) and energy."""
    source = generator(seed)
    values, keys = space.random(candidates, generator=source), space.random(2 * items, generator=source)
    right = torch.randint(candidates, (items,), generator=source)
    x = ghrr.bind_bundle(keys[:items], values[right])
    scores = ghrr.pairwise_similarity(ghrr.unbind(x, keys, side="left"), values)
    return scores, torch.cat([right, torch.full_like(right, -1)]), ghrr.similarity(x, x)


@cache
def cases() -> tuple[Tensor, ...]:
    """Return best and second score, noise, candidates, is right and is known, for loads from 0.5 to 4 capacities."""
    rows = []
    for space in SPACES:
        for candidates in (20, 500):
            capacity = space.capacity(candidates=candidates)
            for load in (0.5, 1, 2, 4):
                items = max(1, int(load * capacity))
                for seed in range(math.ceil(100 / items)):
                    scores, right, energy = ask(space, items, candidates, seed)
                    top = scores.topk(2)
                    noise = answer_noise(space, energy).expand(2 * items)
                    many = torch.full_like(noise, candidates)
                    rows.append(
                        torch.stack([*top.values.double().T, noise, many, top.indices[:, 0] == right, right >= 0])
                    )
    return tuple(torch.cat(rows, dim=1))


def judged(scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """Return the probabilities for all cases, with the noise multiplied by ``scale``."""
    best, second, noise, many, *_ = cases()
    right, unknown = torch.zeros_like(best), torch.zeros_like(best)
    for candidates in (20, 500):
        at = many == candidates
        right[at], unknown[at] = judge(best[at], second[at], candidates=candidates, noise=scale * noise[at])
    return right, unknown


def share(condition: Tensor, among: Tensor) -> float:
    return float(condition[among].double().mean())


def test_confident_answers_are_right() -> None:
    """At these loads many of the best candidates are wrong, but few of the confident ones."""
    *_, is_correct, is_known = (part.bool() for part in cases())
    probability, _ = judged()
    confident = probability >= CONFIDENCE
    assert len(is_correct) > 10_000
    assert confident.sum() > 2000
    assert share(is_correct, confident) >= 0.98
    assert share(is_correct, is_known) < 0.9
    assert share(is_correct, ~confident) < 0.5


def test_wrong_noise_breaks_the_calibration() -> None:
    *_, is_correct, _ = (part.bool() for part in cases())
    too_small, _ = judged(scale=0.5)
    assert share(is_correct, too_small >= CONFIDENCE) < 0.98
    too_large, _ = judged(scale=2.0)
    confident, _ = judged()
    assert (too_large >= CONFIDENCE).sum() < (confident >= CONFIDENCE).sum() / 4


def overconfident(scale: float) -> list[float]:
    """Return the probability bins in which the fraction of right answers is significantly too low."""
    *_, is_correct, _ = (part.bool() for part in cases())
    probability, _ = judged(scale)
    found = []
    for low in torch.arange(0, 1, 0.1).tolist():
        inside = (probability >= low) & (probability < low + 0.1)
        expected = float(probability[inside].mean())
        error = math.sqrt(expected * (1 - expected) / int(inside.sum()))
        if share(is_correct, inside) < expected - STANDARD_ERRORS * error:
            found.append(low)
    return found


def test_no_probability_is_too_high() -> None:
    assert overconfident(1.0) == []
    assert overconfident(0.8)  # negative control: the noise is a fifth too small


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_answers_to_other_keys_are_unknown(space: Space) -> None:
    items = max(1, space.capacity(candidates=500) // 2)
    scores, right, energy = ask(space, items, 500, seed=5)
    top = scores.topk(2)
    labels = [[str(i) for i in row] for row in top.indices.tolist()]
    matches = make_matches(labels, top.values, candidates=500, noise=answer_noise(space, energy))
    known, foreign = matches[:items], matches[items:]
    assert sum(match.unknown for match in foreign) >= 0.98 * items - 1
    assert sum(match.unknown for match in known) <= 0.02 * items + 1
    assert not any(match.confident for match in foreign)
    for match, answer in zip(known, right.tolist(), strict=False):
        assert match.unknown or match.label == str(answer)


def test_answer_noise_is_the_deviation_of_wrong_candidates() -> None:
    for space in (Space(40, 3, seed=1), Space(120, 3, rotation="shared", seed=1), Space(300, 1, seed=1)):
        scores, _, energy = ask(space, 12, 400, seed=2)
        noise = answer_noise(space, energy)
        # With another key there is no right value: all of the energy is crosstalk.
        expected = float(energy * space.crosstalk_std**2 / noise.square())
        squares = (scores[12:].double() / noise).square().mean(dim=1)  # one per answer
        error = float(squares.std()) / math.sqrt(len(squares))
        assert abs(float(squares.mean()) - expected) < STANDARD_ERRORS * error
        assert abs(float(squares.mean()) - 2 * expected) > STANDARD_ERRORS * error


def test_answer_noise_of_a_set_is_that_of_unbound_items() -> None:
    space = Space(50, 4, rotation="shared", seed=3)
    bundle = ghrr.bundle(space.random(9, generator=generator(1)))
    scores = ghrr.similarity(bundle, space.random(4000, generator=generator(2)))
    energy = ghrr.similarity(bundle, bundle)
    assert_std(scores / answer_noise(space, energy, bound=False), 1.0)
    with pytest.raises(AssertionError):  # negative control: crosstalk through keys is smaller for shared rotations
        assert_std(scores / answer_noise(space, energy, bound=True), 1.0)
    assert answer_noise(space, 0.0) == answer_noise(space, 1.0) == space.noise_std


# ------------------------------------------------------------------------------------------------------ single answers


def one(*scores: float, candidates: int = 50, noise: float = 0.1, **settings: Any) -> Match:
    return make_matches(
        [[f"label {n}" for n in range(len(scores))]],
        torch.tensor([scores]),
        candidates=candidates,
        noise=torch.tensor(noise),
        **settings,
    )[0]


def test_fields_and_repr_of_a_confident_match() -> None:
    match = one(0.9, 0.2, 0.1)
    assert (match.label, match.guess, match.runner_up, match.candidates) == ("label 0", "label 0", "label 1", 50)
    assert match.score == pytest.approx(0.9)
    assert match.margin == pytest.approx(0.7)
    assert match.noise == pytest.approx(0.1)
    assert match.confident
    assert not match.unknown
    assert repr(match) == "Match('label 0', score=0.900, margin=0.700, confident=True)"


def test_a_score_that_noise_explains_is_unknown() -> None:
    match = one(0.3, 0.2)
    assert match.unknown
    assert match.label is None
    assert match.guess == "label 0"
    assert not match.confident
    assert repr(match) == "Match(unknown, score=0.300, margin=0.100, confident=False)"
    assert not one(0.9, 0.2).unknown  # negative control
    assert one(0.9, 0.2, noise=0.9).probability < 0.1


def test_two_values_under_one_key_are_not_confident() -> None:
    assert one(1.0, 0.1).confident
    both = one(1.0, 0.95)
    assert not both.confident
    assert not both.unknown
    assert both.probability_unknown < 1e-6


def test_a_single_candidate_has_no_runner_up() -> None:
    match = one(0.9, candidates=1)
    assert match.confident
    assert match.runner_up is None
    assert match.margin == match.score
    assert one(0.1, candidates=1).unknown


def test_more_candidates_and_longer_odds_need_a_higher_score() -> None:
    probabilities = [one(0.62, 0.2, candidates=n).probability for n in (2, 100, 10_000)]
    assert probabilities == sorted(probabilities, reverse=True)
    assert probabilities[0] > 0.99 > probabilities[2]
    assert one(0.62, 0.2, odds=1000.0).probability < one(0.62, 0.2).probability


def test_candidates_below_the_second_contribute_their_mean() -> None:
    sigma, second = 0.3, 0.8
    scores = sigma * torch.randn(400_000, generator=generator(), dtype=torch.float64)
    weights = torch.exp((scores[scores < second] - 0.5) / sigma**2)
    mean = math.exp(log_phi((second - 1) / sigma) - log_phi(second / sigma))
    assert_mean(weights, mean)
    with pytest.raises(AssertionError):  # negative control: the mean without the condition
        assert_mean(weights, 1.0)
    right, unknown = judge(torch.tensor(1.1), torch.tensor(second), candidates=300, noise=torch.tensor(sigma))
    first, runner_up = (math.exp((score - 0.5) / sigma**2) for score in (1.1, second))
    total = 300 + first + runner_up + first * runner_up / 300 + 298 * mean
    assert float(right) == pytest.approx(first / total, rel=1e-5)
    assert float(unknown) == pytest.approx(300 / total, rel=1e-5)


def log_phi(x: float) -> float:
    return math.log(0.5 * math.erfc(-x / math.sqrt(2)))


def test_extreme_scores_give_finite_probabilities() -> None:
    for scores in ((1.0, 0.0), (-3.0, -4.0), (1e6, 0.0), (0.0, 0.0)):
        for noise in (1e-30, 1e-3, 1e3):
            match = one(*scores, noise=noise)
            assert 0 <= match.probability <= 1
            assert 0 <= match.probability_unknown <= 1


def test_a_number_is_shown_with_its_error() -> None:
    [match] = make_matches(
        [[1815.0625, None]], torch.tensor([[1.0, 0.0]]), candidates=50, noise=torch.tensor(0.1), errors=[0.0512]
    )
    assert repr(match) == "Match(1815.06 ± 0.051, score=1.000, margin=1.000, confident=True)"


def test_bad_input_raises() -> None:
    with pytest.raises(ValueError, match=re.escape("make_matches: confidence must lie in (0.5, 1.0), got 1")):
        one(0.9, 0.1, confidence=1)
    with pytest.raises(ValueError, match="the 2 best of 50 candidates"):
        one(0.9)
    with pytest.raises(ValueError, match="got a float32 tensor of shape"):
        make_matches([], torch.zeros(1, 2), candidates=5, noise=torch.tensor(0.1))
    with pytest.raises(ValueError, match="scores must be finite"):
        one(math.nan, 0.1)
    with pytest.raises(ValueError, match="judge: candidates must be a whole number of at least 1"):
        judge(torch.tensor(0.9), torch.tensor(0.1), candidates=0, noise=torch.tensor(0.1))


def test_other_answers_have_no_noise_and_no_probability_of_unknown() -> None:
    answer = Answer(guess="a", score=0.9, runner_up=None, margin=0.9, candidates=1, probability=0.995, note="new")
    assert (answer.label, answer.unknown, answer.confident) == ("a", False, True)
    assert repr(answer) == "Answer('a', score=0.900, margin=0.900, confident=True, new)"
    assert not {"noise", "error", "probability_unknown"} & set(vars(answer))
    assert issubclass(Match, Answer)
    assert not any(issubclass(kind, Match) for kind in (RecordMatch, ComposedMatch))
