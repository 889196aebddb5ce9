"""Kernel shapes: verdicts follow from data, and the closed forms of the kernels are correct."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import ghrr
from ghrr_lab.paper.experiment import judge
from ghrr_lab.paper.experiments import kernel_shapes as shapes
from ghrr_lab.paper.theory import kernels
from tests.helpers import assert_mean, generator
from tests.lab.paper import tables

SMALL: dict[str, Any] = {"dim": 100, "reach": 4.0, "points": 41, "dims": [50, 200], "blocks": 40}
EXPERIMENT = shapes.EXPERIMENT
EXPECTED = ["reproduced", "reproduced", "reproduced", "erratum", "erratum", "reproduced", "reproduced"]


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return tables.run(EXPERIMENT, SMALL)


def verdicts(data: pd.DataFrame) -> list[str]:
    return tables.verdicts(EXPERIMENT.claims, data, SMALL)


def altered(data: pd.DataFrame, kind: str, factor: float) -> pd.DataFrame:
    return data.assign(similarity=data["similarity"].where(data["kind"] != kind, factor * data["similarity"]))


def test_verdicts_of_a_small_run(data: pd.DataFrame) -> None:
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
        (shapes.CHANGING, 0.5, 4, "not reproduced"),
        (shapes.CONSTANT_WEIGHTS, 0.5, 4, "not reproduced"),
        (shapes.CONSTANT, 0.5, 5, "not reproduced"),
        (shapes.MIXED_FIXED, 1.01, 6, "partly"),
        (shapes.AT_0, 3, 6, "partly"),
    ],
)
def test_verdicts_change_with_altered_data(
    data: pd.DataFrame, kind: str, factor: float, claim: int, verdict: str
) -> None:
    assert verdicts(altered(data, kind, factor))[claim] == verdict


def test_claims_hold_on_data_with_printed_weights(data: pd.DataFrame) -> None:
    noise = np.random.default_rng(0).normal(scale=0.01, size=len(data))
    x = data["x"].to_numpy()
    printed = data.copy()
    for kind, curve in {
        shapes.PAIR: kernels.pair(x, kernels.PRODUCT),
        **{kind: kernels.adaptive(x, y, as_printed=True) for kind, y in shapes.REFERENCE_POINTS.items()},
    }.items():
        printed["similarity"] = printed["similarity"].where(printed["kind"] != kind, curve + noise)
    assert verdicts(printed)[3:5] == ["reproduced", "reproduced"]


def test_mixture_is_kernel_of_its_encoder() -> None:
    encoder = ghrr.encoding.FractionalPower(ghrr.Space(1, kernels.M), 1, kernel=list(kernels.KERNELS))
    d = np.linspace(-3, 3, 13)
    np.testing.assert_allclose(kernels.mixture(d), encoder.kernel(torch.tensor(d)[:, None], [0.0]).numpy(), atol=1e-6)


def test_pair_rotations_have_predicted_moments() -> None:
    one, two = kernels.pair_rotations(20_000, generator())
    assert ghrr.unitary.is_unitary(one)
    entries = torch.diagonal(two.mH @ one, dim1=-2, dim2=-1)
    for k, sign in enumerate(kernels.PAIR_SIGNS):
        assert_mean(entries[:, k].real, sign / 2)
        size = float(kernels.pair(np.zeros(1), kernels.SIZE)[0])  # at 0 all kernels are 1
        assert_mean(entries[:, k].abs(), size)
        assert_mean(torch.cos(entries[:, k].angle()), sign / 2)
    trace = entries.sum(dim=-1).real / kernels.M
    assert_mean((trace - kernels.pair(np.zeros(1))[0]).square(), kernels.pair_std(1) ** 2)
    assert kernels.pair_std(100) == pytest.approx(kernels.pair_std(1) / 10)


def test_adaptive_rotations_have_predicted_mean_diagonals() -> None:
    x = torch.tensor([-2.0, 0.3, 1.0, 5.0], dtype=torch.float64)
    q = kernels.adaptive_rotations(x, 10_000, generator())
    right = torch.diagonal(q[0].mH @ q[1], dim1=-2, dim2=-1).real
    printed = torch.diagonal(q[1] @ q[0].mH, dim1=-2, dim2=-1).real
    angle = kernels.ADAPTIVE_ANGLE * (0.3 + 1)
    mean = np.exp(-(angle**2) / 2) * (1 - angle**2 / 2)
    assert_mean(right[:, 0], mean)
    assert_mean(right[:, 1], mean)
    assert (right[:, 2] - 1).abs().max() < 1e-12
    for k in range(kernels.M):
        assert_mean(printed[:, k], (2 * mean + 1) / 3)
    assert (q[2] - q[3]).abs().max() == 0


def test_adaptive_kernel_is_plain_where_rotation_is_constant() -> None:
    x = np.array([1.0, 2.0, 6.0])
    plain = (2 * np.exp(-((x - 3) ** 2) / 8) + np.exp(-2 * (x - 3) ** 2)) / 3
    np.testing.assert_allclose(kernels.adaptive(x, 3.0), plain)
    np.testing.assert_allclose(kernels.adaptive(x, 3.0, as_printed=True), plain)
    assert kernels.adaptive(np.array([0.5]), 0.5) == pytest.approx(1)


def test_figure_is_complete(data: pd.DataFrame) -> None:
    figure = shapes.draw(data, SMALL)
    assert len(figure.axes) == 5
    for axis in figure.axes:
        assert axis.get_xlabel()
        assert axis.get_ylabel()
        assert axis.get_title(loc="left")
        assert axis.get_legend() is not None
