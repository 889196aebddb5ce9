"""Capacity curves: verdicts on predicted data, on altered data, and agreement of a small run with theory."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

import ghrr
from ghrr_lab.paper.experiment import judge
from ghrr_lab.paper.experiments.capacity_curves import CLAIMS, COMPONENTS, EXPERIMENT, KEPT, REMOVED, SIZES
from ghrr_lab.paper.theory.capacity import chance_memorised, expected_size
from tests.helpers import STANDARD_ERRORS, generator

SETTINGS = {"total_dims": [144, 432, 864], "repetitions": 10, "blocks": 4}
Change = Callable[[pd.DataFrame], pd.DataFrame]


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    """Capacities with the predicted mean and standard deviation."""
    random = np.random.default_rng(0)
    tables = []
    for params in EXPERIMENT.trials(SETTINGS):
        space = ghrr.Space.from_total(params["total_dim"], params["m"])
        mean, std = expected_size(space, params["components"], ordered=params["panel"] == KEPT)
        found = 2 * random.normal(mean, std, 10).round()
        tables.append(pd.DataFrame({**params, "capacity": found}).drop(columns="block"))
    return pd.concat(tables, ignore_index=True)


def test_verdicts_on_predicted_data(data: pd.DataFrame) -> None:
    verdicts = [judge(claim, data, SETTINGS).verdict for claim in CLAIMS]
    assert verdicts == ["reproduced"] * 8


def scaled(factor: float, **where: list[object]) -> Change:
    """Capacities times a factor where the columns have one of these values."""

    def change(data: pd.DataFrame) -> pd.DataFrame:
        rows = np.logical_and.reduce([data[column].isin(values) for column, values in where.items()])
        return data.assign(capacity=data["capacity"].where(~rows, factor * data["capacity"]))

    return change


def fhrr_like_ghrr(data: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([data[data["m"] != 1], data[data["m"] == 4].assign(m=1)])


def fhrr_worse_without_permutations(data: pd.DataFrame) -> pd.DataFrame:
    bad = data[(data["m"] == 1) & (data["panel"] == KEPT) & (data["components"] > 1)].assign(panel=REMOVED)
    return pd.concat([data[(data["m"] != 1) | (data["panel"] == KEPT)], bad])


def oscillating(data: pd.DataFrame) -> pd.DataFrame:
    return data.assign(capacity=100 + 0.1 * data["capacity"] + 100 * (data["total_dim"] == 432))


@pytest.mark.parametrize(
    ("number", "change"),
    [
        (0, scaled(1.2, m=[2], components=[1])),
        (1, oscillating),
        (5, oscillating),
        (2, fhrr_like_ghrr),
        (3, scaled(0.5, m=[2, 3, 4], components=[4])),
        (4, scaled(1.2, m=[2, 3, 4], panel=[REMOVED])),
        (6, fhrr_worse_without_permutations),
        (7, scaled(0.85, m=[4])),
    ],
)
def test_verdicts_change_with_altered_data(data: pd.DataFrame, number: int, change: Change) -> None:
    assert judge(CLAIMS[number], data, SETTINGS).verdict == "reproduced"
    assert judge(CLAIMS[number], change(data), SETTINGS).verdict in ("partly", "not reproduced")


def test_proportional_growth_is_detected(data: pd.DataFrame) -> None:
    noise = np.random.default_rng(1).normal(1, 0.1, len(data))
    linear = data.assign(capacity=0.3 * data["total_dim"] * noise)
    for table, holds in ((linear, True), (data, False)):
        finding = judge(CLAIMS[5], table, SETTINGS)
        assert finding.verdict == "reproduced"
        (checks,) = finding.rejected.values()
        assert all(check.holds for check in checks) is holds


@pytest.mark.parametrize(("power", "straight"), [(0.3, False), (0.5, False), (0.76, True), (1.0, True), (2.0, False)])
def test_only_nearly_linear_powers_are_straight(power: float, straight: bool) -> None:
    settings = EXPERIMENT.settings["full"]
    cells = [{**params, "capacity": float(params["total_dim"]) ** power} for params in EXPERIMENT.trials(settings)]
    assert CLAIMS[5].test(pd.DataFrame(cells), settings)[0].holds is straight


def test_numbers_in_comments_follow_from_theory() -> None:
    """74 strings of four components for any space, the loss for m = 2, and the median."""
    for total in (900, 1296, 2500):
        assert 2 * expected_size(ghrr.Space.from_total(total, 1), 4)[0] == pytest.approx(74.5, abs=1)
    for total, loss in ((144, 0.01), (1296, 0.12)):
        space = ghrr.Space.from_total(total, 2)
        assert 1 - expected_size(space, 4)[0] / expected_size(space, 1)[0] == pytest.approx(loss, abs=0.005)
    for total in (144, 1296):
        space = ghrr.Space.from_total(total, 1)
        median = next(n for n in range(1, 400) if chance_memorised(n, space, 1) < 0.5)
        solution = next(n for n in range(1, 400) if n * math.erfc(math.sqrt(total / n / 2)) / 2 > math.log(2))
        assert abs(median - solution) <= 1


def test_small_run_follows_theory() -> None:
    settings = {"total_dims": [64], "repetitions": 15, "blocks": 1}
    trials = EXPERIMENT.trials(settings)
    assert len(trials) == 4 * 4 + 4 * 3
    for i, params in enumerate(trials):
        table = EXPERIMENT.run_trial(settings, params, generator(i))
        assert list(table.columns) == ["panel", "components", "total_dim", "m", "capacity"]
        space = ghrr.Space.from_total(params["total_dim"], params["m"])
        mean, std = expected_size(space, params["components"], ordered=params["panel"] == KEPT)
        assert abs(table["capacity"].mean() - 2 * mean) < STANDARD_ERRORS * 2 * std / math.sqrt(15) + 1


def test_same_generator_gives_same_numbers() -> None:
    params = {"panel": REMOVED, "components": 3, "total_dim": 80, "m": 2, "block": 0}
    first, second = (EXPERIMENT.run_trial({"repetitions": 3}, params, generator(7)) for _ in range(2))
    pd.testing.assert_frame_equal(first, second)


def test_figure_is_complete(data: pd.DataFrame) -> None:
    figure = EXPERIMENT.draw(data, SETTINGS)
    panels = [axis for axis in figure.axes if axis.axison]
    assert len(panels) == 2 * len(COMPONENTS) - 1
    assert all(axis.get_title(loc="left") for axis in panels)
    assert all(axis.get_xlabel() for axis in panels[-2:])
    assert figure.get_supylabel()
    legend = figure.axes[1].get_legend()
    assert legend is not None
    assert len(legend.get_texts()) == 2 * len(SIZES)
