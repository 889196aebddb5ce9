"""Nested dictionary: verdicts follow from data, and theory predicts its peaks and noise."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

import ghrr
from ghrr_lab.paper.experiment import judge
from ghrr_lab.paper.experiments import nested_dictionary as nested
from tests.helpers import assert_mean, generator
from tests.lab.paper import tables

SMALL = {**nested.EXPERIMENT.settings["quick"], "total_dim": 1296, "ms": [1, 2, 3], "structures": 6, "blocks": 25}
EXPERIMENT = nested.EXPERIMENT
EXPECTED = ["reproduced", "reproduced", "reproduced", "erratum"]


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return tables.run(EXPERIMENT, SMALL)


def verdicts(data: pd.DataFrame) -> list[str]:
    return tables.verdicts(EXPERIMENT.claims, data, SMALL)


def test_verdicts_of_a_small_run(data: pd.DataFrame) -> None:
    assert verdicts(data) == EXPECTED
    rejected = judge(nested.CLAIMS[0], data, SMALL).rejected
    assert not any(check.holds for checks in rejected.values() for check in checks)


def test_verdicts_change_with_altered_data(data: pd.DataFrame) -> None:
    assert verdicts(data.assign(similarity=data["similarity"] / 2))[0] == "partly"
    assert verdicts(data.assign(square=2 * data["square"]))[0] == "partly"
    assert verdicts(data.assign(gap=data["gap"] + 0.01))[1] == "partly"
    exchanged = data.assign(answer=data["answer"].replace({2: 3, 3: 2}))
    assert verdicts(exchanged)[2:] == ["partly", "partly"]
    wrong = (data["m"] == 3) & data["answer"].isin([2, 3]) & (data["x"].isin([1.8, -2.4])) & (data["similarity"] < 0.5)
    clean = data.assign(similarity=data["similarity"].where(~wrong, data["similarity"] - 1 / 9))
    assert verdicts(clean)[3] == "reproduced"
    higher = data.assign(similarity=data["similarity"].where(~wrong, 2 * data["similarity"]))
    assert verdicts(higher)[3] == "partly"


def test_same_generator_gives_same_numbers() -> None:
    tables = [nested.run_trial({**SMALL, "structures": 1}, {}, generator(seed)) for seed in (1, 1, 2)]
    pd.testing.assert_frame_equal(tables[0], tables[1])
    assert not tables[0].equals(tables[2])


def test_expected_peaks_of_fhrr_match_direct_computation() -> None:
    w = torch.randn(20_000, generator=generator(), dtype=torch.float64) / SMALL["bandwidth"]
    k1, k2 = torch.polar(
        torch.ones(2, 20_000, dtype=torch.float64),
        6.2831853 * torch.rand(2, 20_000, generator=generator(1), dtype=torch.float64),
    )
    v1, v2, v3, v4 = (torch.polar(torch.ones_like(w), w * value) for value in SMALL["values"])
    answer = (k1 * (k1 * v1 + k2 * v2) + k2 * (k1 * v3 + k2 * v4)) / (k1 * k2)
    for value, phi in zip(SMALL["values"], (v1, v2, v3, v4), strict=True):
        measured = (answer * phi.conj()).real.mean().item()
        assert abs(measured - nested.expected(SMALL, 1, 2, value)) < 5 * (3 / 2 / 20_000) ** 0.5


@pytest.mark.parametrize("m", [2, 3, 4])
def test_weights_match_haar_matrices(m: int) -> None:
    k1, k2, q = ghrr.unitary.haar(3, 15_000, m=m, generator=generator(m), dtype=torch.complex128)

    def share(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return torch.einsum("nij,njk,nkl,nil->n", left, q, right, q.conj()).real / m

    one = torch.eye(m, dtype=q.dtype).expand_as(q)
    assert_mean(share(k2.mH @ k1.mH @ k2 @ k1, one), nested.weights("left", m, 2)[1])
    assert_mean(share(k1 @ k1, k1.mH @ k1.mH), nested.weights("right", m, 1)[0])
    assert_mean(share(k1 @ k2, k1.mH @ k2.mH), nested.weights("right", m, 2)[0])
    assert_mean(share(k2 @ k1, k1.mH @ k2.mH), nested.weights("right", m, 2)[1])


def test_weights_of_commuting_keys() -> None:
    assert nested.weights("left", 1, 2) == nested.weights("right", 1, 2) == (1.0, 1.0)
    assert nested.weights("right", 1, 1) == (1.0, 0.0)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_noise_variance_matches_haar_matrices(m: int) -> None:
    """Simulate one slot. For x far from all numbers, the phases of φ(x) are independent of the phases of the values."""
    source = generator(m)
    k1, k2 = ghrr.unitary.haar(2, 30_000, m=m, generator=source, dtype=torch.complex128)
    angles = 2 * torch.pi * torch.rand(4, 30_000, m, generator=source, dtype=torch.float64)
    v1, v2, v3, v4 = torch.diag_embed(torch.polar(torch.ones_like(angles), angles))
    h = k1 @ (k1 @ v1 + k2 @ v2) + k2 @ (k1 @ v3 + k2 @ v4)
    answer = k1.mH @ k1.mH @ h
    trace = torch.diagonal(answer, dim1=-2, dim2=-1).sum(dim=-1).real / m
    assert_mean(trace.square(), nested.noise_variance(1, m))


def test_figure_is_complete(data: pd.DataFrame) -> None:
    figure = nested.draw(data, SMALL)
    assert len(figure.axes) == 3
    for axis in figure.axes:
        assert axis.get_xlabel()
        assert axis.get_ylabel()
        assert axis.get_title(loc="left")
        assert axis.get_legend() is not None
