"""Positions in attention: attention is causal for one-hot and lower positions, but not for dense ones."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
import torch

import ghrr
from ghrr_lab.paper.experiments import positions_in_attention as positions
from ghrr_lab.paper.theory.attention import attend
from tests.helpers import gaussian, generator
from tests.lab.paper.tables import assert_survives_files, findings, run, scaled, verdicts

SMALL: dict[str, Any] = {"m": 4, "dim": 2, "features": 2, "blocks": 2}


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return run(positions.EXPERIMENT, SMALL)


def test_verdicts_of_a_small_run(data: pd.DataFrame) -> None:
    assert verdicts(positions.CLAIMS, data, SMALL) == ["reproduced", "reproduced", "erratum"]
    assert_survives_files(positions.CLAIMS, data, SMALL)


def test_verdicts_change_with_altered_data(data: pd.DataFrame) -> None:
    claims = positions.CLAIMS
    mixed = scaled(data, 1.0, 1e-12, what=positions.QUERY)
    assert verdicts(claims, mixed, SMALL)[:2] == ["partly", "not reproduced"]
    assert verdicts(claims, scaled(data, 0.0, what=positions.QUERY), SMALL)[:2] == ["partly", "not reproduced"]
    leaking = scaled(data, 1.0, 1e-12, kind=positions.LOWER)
    assert verdicts(claims, leaking, SMALL)[2] == "partly"
    future = (data["kind"] == positions.DENSE) & (data["token"] > data["row"])
    assert verdicts(claims, data.assign(value=data["value"].where(~future, 0.0)), SMALL)[2] == "reproduced"


def test_only_dense_positions_are_not_causal(data: pd.DataFrame) -> None:
    finding = findings(positions.CLAIMS, data, SMALL)[2]
    assert finding.checks[0].measured > 0.01
    assert {check.measured for check in finding.corrected if "later" in check.what} == {0.0}


def test_causal_attention_ignores_later_rows() -> None:
    query, key, value = gaussian(3, 2, 4, 4)
    out = attend(query, key, value, causal=True)
    assert torch.allclose(out[:, 0], value[:, 0])
    changed = value.clone()
    changed[:, 3] += 1
    assert torch.equal(attend(query, key, changed, causal=True)[:, :3], out[:, :3])


def test_positions_have_nonzero_rows_of_their_kind() -> None:
    space = ghrr.Space(dim=2, m=4, dtype=torch.complex128)
    kinds = positions.positions(space, generator())
    for j in range(4):
        assert torch.equal(kinds[positions.ONE_HOT][j].sum(dim=0).real, 2 * torch.diag(torch.eye(4)[j]).double())
        assert torch.equal(kinds[positions.LOWER][j][:, :j], torch.zeros(2, j, 4, dtype=space.dtype))
        assert torch.equal(kinds[positions.LOWER][j][:, j:], kinds[positions.DENSE][j][:, j:])
        assert int((kinds[positions.ROW][j].abs().sum(dim=(0, 2)) > 0).nonzero()) == j
    assert torch.equal(kinds[positions.TWICE][5], kinds[positions.ONE_HOT][1])


def test_figure_is_complete(data: pd.DataFrame) -> None:
    figure = positions.EXPERIMENT.draw(data, SMALL)
    panels = [axis for axis in figure.axes if axis.get_title(loc="left")]
    assert len(panels) == 6
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in panels)
