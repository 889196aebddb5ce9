"""Time complexity: multiplications are counted correctly, and the verdict follows from the measured times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import ghrr
from ghrr_lab.paper.experiment import judge
from ghrr_lab.paper.experiments import time_complexity as cost
from tests.helpers import unitary
from tests.lab.paper.tables import assert_survives_files, run, verdicts

SMALL: dict[str, Any] = {
    "total_dim": 144,
    "ms": [1, 2, 3, 4],
    "batches": [2, 5],
    "numbers": 288,
    "rounds": 6,
    "blocks": 2,
}


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return run(cost.EXPERIMENT, SMALL)


def with_times(data: pd.DataFrame, exponent: float) -> pd.DataFrame:
    """Replace the times by a power law with little noise."""
    noise = 1 + 0.01 * np.random.default_rng(0).standard_normal(len(data))
    times = data["m"] ** exponent * noise
    return data.assign(value=data["value"].where(data["what"] != cost.BIND, times))


def test_every_round_measures_every_m_once(data: pd.DataFrame) -> None:
    rows = data.loc[data["what"] == cost.BIND]
    assert (rows.groupby(["batch", "block", "round"])["m"].apply(sorted).map(tuple) == (1, 2, 3, 4)).all()
    assert (data["value"] > 0).all()
    assert len(cost.EXPERIMENT.trials(SMALL)) == 4
    assert cost.EXPERIMENT.exclusive


def test_total_dimension_is_divisible_by_all_m() -> None:
    for settings in cost.EXPERIMENT.settings.values():
        assert all(settings["total_dim"] % m**2 == 0 for m in settings["ms"])


def test_verdicts_change_with_altered_data(data: pd.DataFrame) -> None:
    assert verdicts(cost.CLAIMS, data, SMALL) == ["reproduced"]
    for power, holds in ((1.0, True), (0.5, False), (1.5, False)):
        (seconds,) = judge(cost.CLAIMS[0], with_times(data, power), SMALL).rejected.values()
        assert {check.holds for check in seconds} == {holds}
    wrong = data.assign(value=data["value"] + (data["what"] == cost.COUNT))
    assert verdicts(cost.CLAIMS, wrong, SMALL)[0] == "not reproduced"
    assert_survives_files(cost.CLAIMS, data, SMALL)


@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_count_multiplications_is_dim_times_m_cubed(m: int) -> None:
    assert cost.count_multiplications(3, m) == 3 * m**3


def test_count_multiplications_agrees_with_torch() -> None:
    """torch counts one addition per multiplication."""
    a = unitary(7, m=4)
    with FlopCounterMode(display=False) as counter:
        ghrr.bind(a, a)
    assert counter.get_total_flops() == 2 * cost.count_multiplications(7, 4)


def test_exponents_of_power_laws() -> None:
    relative = pd.DataFrame({m: [m**0.7, m**1.2] for m in (1, 2, 5, 8)}, dtype=float)
    assert np.allclose(cost.exponents(relative), [0.7, 1.2])


def test_error_of_median_is_std_of_medians() -> None:
    draws = np.random.default_rng(0).normal(3.0, 2.0, size=(2000, 101))
    medians, errors = np.array([cost.median_with_error(pd.Series(row)) for row in draws]).T
    assert medians.std() == pytest.approx(errors.mean(), rel=0.1)
    outlier = cost.median_with_error(pd.Series([*draws[0], 1e9]))
    assert outlier[1] == pytest.approx(errors[0], rel=0.2)


def test_run_does_not_use_global_random_state() -> None:
    torch.manual_seed(0)
    before = torch.rand(1)
    torch.manual_seed(0)
    run(cost.EXPERIMENT, SMALL | {"rounds": 1, "blocks": 1})
    assert torch.equal(torch.rand(1), before)


def test_figure_is_complete(data: pd.DataFrame) -> None:
    figure = cost.EXPERIMENT.draw(data, SMALL)
    top, bottom = figure.axes
    assert top.get_ylabel()
    assert bottom.get_xlabel()
    assert bottom.get_ylabel()
    assert all(axis.get_legend() is not None for axis in figure.axes)
