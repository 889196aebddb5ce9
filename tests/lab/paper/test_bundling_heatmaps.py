"""Bundles of base hypervectors: verdicts follow from data, and theory agrees with a simulation of its model."""

from __future__ import annotations

import math

import pandas as pd
import pytest
import torch

import ghrr
from ghrr_lab.paper.experiment import judge
from ghrr_lab.paper.experiments import bundling_heatmaps as heatmaps
from tests.helpers import assert_mean, generator
from tests.lab.paper import tables

SMALL = {
    "items": 300,
    "ms": [1, 2, 4],
    "total_dims": [96, 192],
    "sizes": [5, 10, 20, 40],
    "cut": 192,
    "repetitions": 8,
    "blocks": 2,
}
EXPERIMENT = heatmaps.EXPERIMENT
CLAIM = heatmaps.CLAIMS[0]


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return tables.run(EXPERIMENT, SMALL)


def test_verdict_of_a_small_run(data: pd.DataFrame) -> None:
    finding = judge(CLAIM, data, SMALL)
    assert finding.verdict == "reproduced"
    assert len(finding.checks) == 4 + 6
    assert not any(check.holds for check in finding.rejected["all hypervectors share one Q"])


@pytest.mark.parametrize("rotation", ["fixed", "varying"])
def test_verdict_changes_with_altered_data(data: pd.DataFrame, rotation: str) -> None:
    worse = data["accuracy"].where((data["m"] != 4) | (data["rotation"] != rotation), 0.9 * data["accuracy"])
    assert judge(CLAIM, data.assign(accuracy=worse), SMALL).verdict == "partly"
    altered = judge(CLAIM, data.assign(accuracy=0.9 * data["accuracy"]), SMALL)
    assert not any(check.holds for check in altered.checks if "theory" in check.what)


def test_same_generator_gives_same_numbers() -> None:
    settings = {**SMALL, "repetitions": 1}
    params = {"m": 2, "rotation": "shared", "block": 0}
    tables = [heatmaps.run_trial(settings, params, generator(seed)) for seed in (1, 1, 2)]
    pd.testing.assert_frame_equal(tables[0], tables[1])
    assert not tables[0].equals(tables[2])


def test_find_members_is_exact_without_noise_and_random_without_signal() -> None:
    sizes = torch.tensor([1, 3, 10])
    items = ghrr.Space(5000, 1).random(20, generator=generator())
    assert heatmaps.find_members(items, sizes, generator(1)).tolist() == [1, 1, 1]
    alike = items[:1].repeat(20, 1, 1, 1)
    guesses = torch.stack([heatmaps.find_members(alike, sizes, generator(seed))[2] for seed in range(400)])
    assert_mean(guesses, 10 / 20)


@pytest.mark.parametrize(("items", "k", "noise"), [(1000, 50, 0.06), (300, 20, 0.05), (50, 3, 0.4)])
def test_theory_is_mean_of_simulated_scores(items: int, k: int, noise: float) -> None:
    inside, outside = (torch.randn(1000, n, generator=generator(n), dtype=torch.float64) for n in (k, items - k))
    scores = torch.cat([1 + math.sqrt(k - 2) * noise * inside, math.sqrt(k) * noise * outside], dim=1)
    found = (scores.topk(k).indices < k).double().mean(dim=1)
    assert_mean(found, heatmaps.theory(items, k, noise))


def test_theory_at_limits() -> None:
    assert heatmaps.theory(1000, 50, 1e-3) == pytest.approx(1)
    assert heatmaps.theory(1000, 50, 1e3) == pytest.approx(50 / 1000, rel=0.1)
    assert heatmaps.theory(1000, 50, 1 / math.sqrt(2 * 576)) == pytest.approx(0.97, abs=0.005)


def test_figure_is_complete(data: pd.DataFrame) -> None:
    figure = EXPERIMENT.draw(data, SMALL)
    *maps, bar, cut = figure.axes
    assert len(maps) == 6
    assert all(axis.get_title(loc="left") for axis in maps)
    assert maps[0].get_ylabel()
    assert maps[-1].get_xlabel()
    assert bar.get_ylabel()
    assert cut.get_xlabel()
    assert cut.get_ylabel()
    assert cut.get_legend() is not None
