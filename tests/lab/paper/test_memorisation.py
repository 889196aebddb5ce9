"""Memorisation: verdicts follow from data, and theory agrees with simulations and limits."""

from __future__ import annotations

import math

import pandas as pd
import pytest
import torch

import ghrr
from ghrr_lab.paper.experiment import judge
from ghrr_lab.paper.experiments.memorisation import CLAIMS, EXPERIMENT, OTHER, OWN, chance_disjoint, noise_std, outcomes
from ghrr_lab.paper.theory.capacity import chance_memorised
from tests.helpers import STANDARD_ERRORS, generator

# A tenth of the paper's sizes. At the middle total dimension, all x can be correct although the histograms overlap.
SETTINGS = {"m": 2, "total_dims": [900, 200, 40], "bundled": [25, 300], "repetitions": 20, "repetitions_of_many": 2}
SMALL_SETS, LARGE_SETS, DISJOINT, MEANS = CLAIMS


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    trials = EXPERIMENT.trials(SETTINGS)
    assert len(trials) == 3 * 20 + 2 * 2 + 40
    return pd.concat([EXPERIMENT.run_trial(SETTINGS, p, generator(i)) for i, p in enumerate(trials)], ignore_index=True)


def test_verdicts_of_a_small_run(data: pd.DataFrame) -> None:
    findings = [judge(claim, data, SETTINGS) for claim in CLAIMS]
    assert [finding.verdict for finding in findings] == ["reproduced", "reproduced", "erratum", "reproduced"]
    for checks in findings[0].rejected.values():  # theory holds, the claim does not
        assert [check.holds for check in checks] == [False, True]


def test_verdicts_change_with_altered_data(data: pd.DataFrame) -> None:
    swapped = data.rename(columns={OWN: OTHER, OTHER: OWN})
    separated = data.assign(**{OWN: data[OWN] + 100})
    assert judge(SMALL_SETS, swapped, SETTINGS).verdict == "not reproduced"
    assert judge(LARGE_SETS, separated, SETTINGS).verdict == "not reproduced"
    assert judge(DISJOINT, separated, SETTINGS).verdict == "reproduced"
    assert judge(MEANS, separated, SETTINGS).verdict == "not reproduced"
    assert judge(MEANS, data.assign(**{OTHER: 1.2 * data[OTHER]}), SETTINGS).verdict == "partly"


def test_similarities_follow_definition_with_any_chunk_size(monkeypatch: pytest.MonkeyPatch) -> None:
    params = {"total_dim": 60, "bundled": 10, "repetition": 0}
    table = EXPERIMENT.run_trial({"m": 2}, params, generator(3))
    own, other = ghrr.Space(15, 2).random(2, 10, generator=generator(3))
    for name, members in ((OWN, own), (OTHER, other)):
        expected = [float(ghrr.similarity(x, ghrr.bundle(members))) for x in own]
        assert table[name].to_list() == pytest.approx(expected, abs=1e-5)
    monkeypatch.setattr("ghrr_lab.paper.experiments.memorisation._CHUNK_NUMBERS", 400)  # five slots at a time
    random = generator(3)
    parts = [ghrr.Space(5, 2).random(2, 10, generator=random) for _ in range(3)]
    own, other = torch.cat(parts, dim=2)
    table = EXPERIMENT.run_trial({"m": 2}, params, generator(3))
    expected = [float(ghrr.similarity(x, ghrr.bundle(other))) for x in own]
    assert table[OTHER].to_list() == pytest.approx(expected, abs=1e-5)


def test_outcomes_are_found_for_each_trial() -> None:
    case = {"total_dim": 4, "bundled": 2}
    rows = [(0, 1.0, 0.1), (0, 0.9, 0.2), (1, 1.0, 0.95), (1, 0.9, 0.2), (2, 1.0, 0.1), (2, 0.2, 0.2)]
    data = pd.DataFrame([{**case, "repetition": r, OWN: own, OTHER: other} for r, own, other in rows])
    found = outcomes(data)
    assert found["right"].to_list() == [True, True, False]
    assert found["disjoint"].to_list() == [True, False, False]


@pytest.mark.parametrize(("total_dim", "size"), [(200, 25), (3600, 250)])
def test_chance_disjoint_matches_gaussian_similarities(total_dim: int, size: int) -> None:
    own, other = torch.randn(2, 4000, size, generator=generator(1), dtype=torch.float64)
    least = 1 + noise_std(total_dim, size - 1) * own.amin(dim=1)
    share = float((least > noise_std(total_dim, size) * other.amax(dim=1)).double().mean())
    assert abs(share - chance_disjoint(total_dim, size)) < STANDARD_ERRORS * 0.5 / math.sqrt(4000)


def test_chance_disjoint_at_limits() -> None:
    assert chance_disjoint(10**6, 250) == pytest.approx(1, abs=1e-6)
    assert chance_disjoint(900, 1500) == pytest.approx(0, abs=1e-6)


def test_total_dimensions_in_comment_reproduce_both_panels() -> None:

    def chance(total: int) -> float:
        space = ghrr.Space(total, 1)
        return chance_memorised(250, space, 1) * (1 - chance_memorised(1500, space, 1))

    likely = [total for total in range(2000, 16001, 100) if chance(total) >= 0.95]
    assert (likely[0], likely[-1]) == (3200, 12400)
    assert likely == list(range(3200, 12401, 100))


def test_figure_is_complete(data: pd.DataFrame) -> None:
    figure = EXPERIMENT.draw(data, SETTINGS)
    assert len(figure.axes) == 4
    assert all(axis.get_title(loc="left") for axis in figure.axes)
    assert all(axis.get_xlabel() for axis in figure.axes[2:])
    assert figure.get_supylabel()
    legend = figure.axes[1].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["δ(x, C₂)", "δ(x, C₁)", "theory"]
