import pytest
import torch
from benchmarks.reasoning.data import generate, read_raven_x
from benchmarks.reasoning.exact import exact_answers, exact_numbers

from ghrr.reasoning import Prior, Reasoner, Rule, read_raven
from ghrr.reasoning.raven import SLOTS
from ghrr.reasoning.rules import expressions
from tests.reasoning.common import number_matrix, raven_problem

RULES = {
    "constant": ([[3, 3, 3], [7, 7, 7], [5, 5]], 5),
    "progression +2": ([[3, 5, 7], [1, 3, 5], [8, 10]], 12),
    "arithmetic x1 + x2": ([[3, 5, 8], [1, 6, 7], [8, 4]], 12),
    "arithmetic x1 − x2": ([[9, 5, 4], [8, 6, 2], [8, 4]], 4),
    "distribute three, left": ([[9, 5, 4], [5, 4, 9], [4, 9]], 5),
    "distribute three, right": ([[9, 5, 4], [4, 9, 5], [5, 4]], 9),
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("m", [1, 2])
def test_given_rule_finds_the_answer_and_its_name(name: str, m: int) -> None:
    rows, right = RULES[name]
    answers = [right, *(x for x in range(14) if x != right)][:8]
    matrices = number_matrix(rows, answers)
    reasoner = Reasoner(m=m, max_dim=1024)
    assert int(reasoner.solve(matrices).guesses) == 0
    (explanation,) = reasoner.explain(matrices)[0]
    assert (str(explanation.rule), explanation.predicted) == (name, right)


def test_no_rule_is_an_answer() -> None:
    found = Reasoner().explain(number_matrix([[3, 11, 6], [17, 2, 9], [5, 14]], list(range(8))))
    assert str(found[0][0].rule) == "no rule"
    assert found[0][0].predicted is None


def test_answers_that_no_rule_tells_apart_are_equally_probable() -> None:
    solutions = Reasoner().solve(number_matrix([[3, 11, 6], [17, 2, 9], [5, 14]], list(range(8))))
    assert not bool(solutions.confident())
    assert torch.allclose(solutions.probabilities, solutions.probabilities[:, :1].expand(1, 8))


def test_all_answers_wrong_means_none_is_right() -> None:
    rows, right = RULES["progression +2"]
    solutions = Reasoner().solve(number_matrix(rows, [x for x in range(14) if x != right][:8]))
    assert float(solutions.none) > 0.5
    assert not bool(solutions.confident())
    assert float(Reasoner().solve(number_matrix(rows, [right, 1, 2, 3, 4, 5, 6, 7])).none) < 0.01


def test_duplicate_answers_share_their_probability() -> None:
    rows, right = RULES["progression +2"]
    solutions = Reasoner().solve(number_matrix(rows, [right, right, 1, 2, 3, 4, 5, 6]))
    assert torch.allclose(solutions.probabilities[0, :2], torch.full((2,), 0.5), atol=0.01)
    assert not bool(solutions.confident())


def test_uncertain_panels_lower_the_probability_of_the_rule_only_a_little() -> None:
    rows, right = RULES["constant"]
    answers = [right, 9, 12, 15, 18, 1]  # further apart than the smoothing reaches
    certain, soft = (Reasoner().solve(number_matrix(rows, answers, weight)) for weight in (1.0, 0.6))
    assert int(soft.guesses) == 0
    assert float(certain.probabilities[0, 0]) > float(soft.probabilities[0, 0]) > 0.9


def test_certain_panels_give_the_probabilities_of_exact_inference() -> None:
    rows = [[[2, 1, 5], [3, 1, 3], [4, 1, 8]], [[1, 4, 2], [2, 4, 1], [3, 4, 3]], [[3, 2, 4], [4, 2, 2]]]
    answers = [[5, 2, 6], [5, 2, 7], [5, 3, 6], [4, 2, 6], [4, 3, 6], [4, 2, 7], [5, 3, 7], [4, 3, 7]]
    problem = raven_problem(rows, answers)
    probabilities, none = exact_answers(problem, SLOTS)
    matrices, _ = read_raven([problem])
    found = Reasoner().solve(matrices)
    assert torch.allclose(found.probabilities[0], torch.tensor(probabilities, dtype=torch.float32), atol=1e-4)
    assert float(found.none) == pytest.approx(none, abs=1e-4)


def test_rows_of_ten_with_confounders_match_exact_inference() -> None:
    problems = generate(20, 10, 100, 5, seed=3)
    matrices, targets = read_raven_x(problems)
    found = Reasoner(max_dim=1024).solve(matrices)
    assert bool((found.guesses == targets).all())
    exact = torch.tensor([exact_numbers(problem, 101)[0][t] for problem, t in zip(problems, targets, strict=True)])
    assert torch.allclose(found.probabilities[range(20), targets].double(), exact, atol=1e-3)


def test_rules_are_learnt_from_answers_alone() -> None:
    train, answers = read_raven_x(generate(150, 3, 10, 0, seed=0))
    reasoner = Reasoner().fit([train], [answers])
    assert reasoner.prior is not None
    names = {str(rule) for rule in reasoner.prior.most_probable("value", 0.02)}
    assert {"constant", *(f"progression {c}" for c in ("+1", "+2", "−1", "−2"))} <= names
    assert {"distribute three, left", "distribute three, right", "arithmetic x1 + x2"} <= names
    matrices, targets = read_raven_x(generate(100, 10, 1000, 2, seed=1))  # longer rows, a larger range
    assert float((reasoner.solve(matrices).guesses == targets).float().mean()) > 0.95


def test_wrong_answers_teach_other_rules() -> None:
    """Negative control: with answers drawn at random, learning finds less that predicts the last panel."""
    train, answers = read_raven_x(generate(150, 3, 10, 0, seed=0))
    right, wrong = (Reasoner().fit([train], [t]).prior for t in (answers, (answers + 3) % 8))
    assert right is not None
    assert wrong is not None
    predicting = [float(prior.rules["value"].exp()[:, :, 1:].sum()) for prior in (right, wrong)]
    assert predicting[0] > predicting[1] + 0.1


def test_probabilities_are_calibrated() -> None:
    matrices, targets = read_raven_x(generate(300, 3, 10, 0, seed=7))
    found = Reasoner().solve(matrices)
    confident = found.confident()
    right = (found.guesses == targets)[confident]
    # At most 1 % of the confident answers may be wrong: a binomial with four standard deviations.
    assert int((~right).sum()) <= 0.01 * len(right) + 4 * (0.01 * len(right)) ** 0.5
    assert int(confident.sum()) > 250


def test_names_of_priors_are_rules() -> None:
    best = next(iter(Prior.short().most_probable("collection")))
    assert isinstance(best, Rule)
    assert best.last in expressions("collection")[2]
