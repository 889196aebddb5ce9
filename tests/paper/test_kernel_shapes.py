"""Kernel shapes: verdicts follow from data, the kernels of the cases are right."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import ghrr
from ghrr.paper import kernel_cases as cases
from ghrr.paper import kernel_shapes as shapes
from ghrr.paper.experiment import judge
from tests.helpers import assert_mean, generator

SMALL: dict[str, Any] = {"dim": 150, "reach": 4.0, "points": 41, "dims": [50, 200], "blocks": 60}
EXPERIMENT = dataclasses.replace(shapes.EXPERIMENT, settings={"quick": SMALL, "full": SMALL})
EXPECTED = ["reproduced", "reproduced", "reproduced", "erratum", "erratum", "reproduced", "reproduced"]


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    trials = enumerate(EXPERIMENT.trials(SMALL))
    return pd.concat([EXPERIMENT.run_trial(SMALL, params, generator(i)).assign(trial=i) for i, params in trials])


def verdicts(data: pd.DataFrame) -> list[str]:
    return [judge(claim, data, SMALL).verdict for claim in shapes.CLAIMS]


def altered(data: pd.DataFrame, kind: str, factor: float) -> pd.DataFrame:
    return data.assign(similarity=data["similarity"].where(data["kind"] != kind, factor * data["similarity"]))


def test_verdicts(data: pd.DataFrame) -> None:
    findings = [judge(claim, data, SMALL) for claim in shapes.CLAIMS]
    assert [finding.verdict for finding in findings] == EXPECTED
    rejected = [check for finding in findings for checks in finding.rejected.values() for check in checks]
    assert len(rejected) == 1 + len(SMALL["dims"])
    assert not any(check.holds for check in rejected)


@pytest.mark.parametrize(
    ("kind", "factor", "claim", "verdict"),
    [
        (shapes.RBF, 1.2, 0, "partly"),
        (shapes.SHIFTED, 1.01, 0, "partly"),
        (shapes.MIXED, 1.2, 1, "partly"),
        (shapes.WEIGHTS, 0.9, 1, "partly"),
        (shapes.PAIR_WEIGHTS, -1, 2, "partly"),
        (shapes.PAIR, -1, 2, "partly"),
        (shapes.PAIR, -1, 3, "not reproduced"),
        (shapes.TURNING, 0.5, 4, "not reproduced"),
        (shapes.FLAT_WEIGHTS, 0.5, 4, "not reproduced"),
        (shapes.FLAT, 0.5, 5, "not reproduced"),
        (shapes.MIXED_FIXED, 1.01, 6, "partly"),
        (shapes.AT_0, 3, 6, "partly"),
    ],
)
def test_verdicts_follow_from_the_data(data: pd.DataFrame, kind: str, factor: float, claim: int, verdict: str) -> None:
    """The control: each verdict changes when the data it rests on are altered."""
    assert verdicts(altered(data, kind, factor))[claim] == verdict


def test_printed_weights_would_be_believed(data: pd.DataFrame) -> None:
    """The control of the errata: on data made with the printed weights the claims come out as reproduced."""
    noise = np.random.default_rng(0).normal(scale=0.01, size=len(data))
    x = data["x"].to_numpy()
    printed = data.copy()
    for kind, curve in {
        shapes.PAIR: cases.pair(x, cases.PRODUCT),
        **{kind: cases.adaptive(x, y, as_printed=True) for kind, y in shapes.PLACES.items()},
    }.items():
        printed["similarity"] = printed["similarity"].where(printed["kind"] != kind, curve + noise)
    assert verdicts(printed)[3:5] == ["reproduced", "reproduced"]


def test_mixture_is_the_kernel_of_its_encoder() -> None:
    encoder = ghrr.encoding.FractionalPower(ghrr.Space(1, cases.M), 1, kernel=list(cases.KERNELS))
    d = np.linspace(-3, 3, 13)
    np.testing.assert_allclose(cases.mixture(d), encoder.kernel(torch.tensor(d)[:, None], [0.0]).numpy(), atol=1e-6)


def test_relative_rotations_of_the_pair() -> None:
    one, two = cases.pair_rotations(40_000, generator())
    assert ghrr.unitary.is_unitary(one)
    entries = torch.diagonal(two.mH @ one, dim1=-2, dim2=-1)
    for k, sign in enumerate(cases.PAIR_SIGNS):
        assert_mean(entries[:, k].real, sign / 2)
        size = float(cases.pair(np.zeros(1), cases.SIZE)[0])  # at 0 all kernels are 1
        assert_mean(entries[:, k].abs(), size)
        assert_mean(torch.cos(entries[:, k].angle()), sign / 2)
    trace = entries.sum(dim=-1).real / cases.M
    assert_mean((trace - cases.pair(np.zeros(1))[0]).square(), cases.pair_std(1) ** 2)
    assert cases.pair_std(100) == pytest.approx(cases.pair_std(1) / 10)


def test_weights_of_the_adaptive_encoding() -> None:
    """Both products of rotations, against the closed form of their mean diagonals."""
    x = torch.tensor([-2.0, 0.3, 1.0, 5.0], dtype=torch.float64)
    q = cases.adaptive_rotations(x, 30_000, generator())
    right = torch.diagonal(q[0].mH @ q[1], dim1=-2, dim2=-1).real
    printed = torch.diagonal(q[1] @ q[0].mH, dim1=-2, dim2=-1).real
    angle = cases.TURN * (0.3 + 1)
    mean = np.exp(-(angle**2) / 2) * (1 - angle**2 / 2)
    assert_mean(right[:, 0], mean)
    assert_mean(right[:, 1], mean)
    assert (right[:, 2] - 1).abs().max() < 1e-12
    for k in range(cases.M):
        assert_mean(printed[:, k], (2 * mean + 1) / 3)
    assert (q[2] - q[3]).abs().max() == 0


def test_adaptive_kernel_at_its_limits() -> None:
    x = np.array([1.0, 2.0, 6.0])
    plain = (2 * np.exp(-((x - 3) ** 2) / 8) + np.exp(-2 * (x - 3) ** 2)) / 3
    np.testing.assert_allclose(cases.adaptive(x, 3.0), plain)
    np.testing.assert_allclose(cases.adaptive(x, 3.0, as_printed=True), plain)
    assert cases.adaptive(np.array([0.5]), 0.5) == pytest.approx(1)


def test_the_figure_says_what_it_shows(data: pd.DataFrame) -> None:
    figure = shapes.draw(data, SMALL)
    assert len(figure.axes) == 5
    for axis in figure.axes:
        assert axis.get_xlabel()
        assert axis.get_ylabel()
        assert axis.get_title(loc="left")
        assert axis.get_legend() is not None
