"""Diagonality and commutativity: verdicts follow from data, and means over random rotations are correct."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import ghrr
from ghrr_lab.paper.experiment import judge
from ghrr_lab.paper.experiments import diagonality_commutativity as diagonality
from ghrr_lab.paper.statistics import mean_with_error
from ghrr_lab.paper.theory.rotations import mean_commutativity, mean_exponential, mean_square_diagonal
from tests.helpers import assert_mean, generator, unitary
from tests.lab.paper import tables

SMALL: dict[str, Any] = {"ms": [2, 4], "dim": 40, "pairs": 120, "free": 200, "steps": 150, "plain_m": 2, "blocks": 1}
EXPERIMENT = diagonality.EXPERIMENT


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return tables.run(EXPERIMENT, SMALL)


def verdicts(data: pd.DataFrame) -> list[str]:
    return tables.verdicts(EXPERIMENT.claims, data, SMALL)


def test_verdicts_of_a_small_run(data: pd.DataFrame) -> None:
    findings = [judge(claim, data, SMALL) for claim in diagonality.CLAIMS]
    assert [finding.verdict for finding in findings] == ["reproduced"] * 5
    rejected = {name: checks for finding in findings for name, checks in finding.rejected.items()}
    assert len(rejected) == 3
    assert not any(check.holds for checks in rejected.values() for check in checks)


def test_verdicts_change_with_altered_data(data: pd.DataFrame) -> None:
    shuffled = data.assign(commutativity=data["commutativity"].sample(frac=1, random_state=0).to_numpy())
    assert verdicts(shuffled)[0] == "not reproduced"
    assert verdicts(shuffled)[2] == "not reproduced"
    assert verdicts(data.assign(missed=data["missed"] + 0.1))[1] == "not reproduced"
    assert verdicts(data.assign(m=data["m"].replace({2: 4, 4: 2})))[3] == "not reproduced"
    assert verdicts(data.assign(commutativity=data["commutativity"] + 0.3))[4] == "not reproduced"


def test_every_block_contains_all_m() -> None:
    trials = EXPERIMENT.trials({**SMALL, "blocks": 3})
    assert [params["m"] for params in trials] == [2, 4] * 3


@pytest.mark.parametrize("m", [2, 3])
def test_mean_commutativity_is_mean_over_phases(m: int) -> None:
    """Averaging over third roots of unity is exact, because each phase occurs at most twice in a product."""
    first, second = unitary(2, m=m, seed=m)
    roots = torch.exp(2j * math.pi * torch.arange(3, dtype=torch.float64) / 3)
    phases = torch.cartesian_prod(*[roots] * (2 * m))
    a, b = first * phases[:, None, :m], second * phases[:, None, m:]
    mean = ghrr.commutativity(a[:, None], b[:, None]).mean()
    assert abs(mean - mean_commutativity(first, second)) < 1e-12


def test_mean_commutativity_at_limits() -> None:
    q, r = unitary(2, m=3)
    assert mean_commutativity(torch.eye(3) + 0j, torch.diag(torch.tensor([1j, -1, 1]))) == 1
    assert abs(mean_commutativity(torch.roll(torch.eye(3), 1, 0) + 0j, r)) < 1e-15
    assert abs(mean_commutativity(q, r) - mean_commutativity(r, q)) < 1e-15
    sixty, c, s = math.pi / 3, math.cos, math.sin
    rotation, inverse = (torch.tensor([[c(a), s(a)], [-s(a), c(a)]]) + 0j for a in (sixty, -sixty))
    assert abs(mean_commutativity(rotation, inverse) + 1 / 8) < 1e-6


@pytest.mark.parametrize(("m", "t"), [(1, 0.7), (2, 0.0), (2, 1.0), (6, 0.7)])
def test_means_of_exponentials_of_gaussian_matrices(m: int, t: float) -> None:
    x = torch.randn(10_000, m, m, dtype=torch.complex128, generator=generator(m)) * 2**0.5
    q = torch.linalg.matrix_exp(1j * t * (x + x.mH) / 2)
    assert_mean(q[:, 0, 0].real + 1e-9 * x.real[:, 0, 0], mean_exponential(m, t))
    assert_mean(q[:, 0, 0].abs().square() + 1e-9 * x.real[:, 0, 0], mean_square_diagonal(m, t))


def test_means_of_exponentials_for_small_m() -> None:
    assert mean_square_diagonal(1) == pytest.approx(1)
    assert mean_exponential(1, 0.5) == pytest.approx(math.exp(-1 / 8))
    assert mean_exponential(2, 0.5) == pytest.approx(math.exp(-1 / 8) * (1 - 1 / 8))


def test_descent_reaches_targets() -> None:
    targets = torch.linspace(0.05, 0.95, 10, dtype=torch.float64)
    q = diagonality.descend(targets, 3, generator(), 300)
    assert ghrr.unitary.is_unitary(q)
    assert (ghrr.unitary.diagonality(q) - targets).abs().max() < 0.01


def test_error_of_correlation_is_std_over_repetitions() -> None:
    source = np.random.default_rng(0)
    results = []
    for _ in range(300):
        x = source.exponential(size=400)
        rows = pd.DataFrame({"sum": x, "commutativity": x + source.exponential(size=400)})
        results.append(mean_with_error(diagonality.correlation(rows, "sum")))
        assert results[-1][0] == pytest.approx(rows["sum"].corr(rows["commutativity"]))
    values, errors = np.transpose(results)
    assert errors.mean() == pytest.approx(values.std(), rel=0.2)


def test_figure_is_complete(data: pd.DataFrame) -> None:
    figure = diagonality.draw(data, SMALL)
    assert figure.get_supylabel()
    drawn = [axis for axis in figure.axes if axis.has_data()]
    assert len(drawn) == len(SMALL["ms"]) + 1
    for axis in drawn:
        assert axis.get_xlabel()
        assert axis.get_title(loc="left")
        assert axis.get_legend() is not None
