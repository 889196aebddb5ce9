"""Binding as attention: it equals dot-product attention, and the bound on its weights is attained."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest
import torch

import ghrr
from ghrr_lab.paper.experiments import binding_as_attention as attention
from ghrr_lab.paper.theory.attention import attend, influence
from tests.helpers import gaussian, generator, unitary
from tests.lab.paper.tables import assert_survives_files, findings, run, scaled, verdicts

SMALL: dict[str, Any] = {"ms": [4, 5], "drawn_m": 5, "dim": 2, "blocks": 6}


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return run(attention.EXPERIMENT, SMALL)


def test_verdicts_of_a_small_run(data: pd.DataFrame) -> None:
    assert verdicts(attention.CLAIMS, data, SMALL) == ["reproduced", "reproduced", "erratum", "partly"]
    assert_survives_files(attention.CLAIMS, data, SMALL)


def test_each_entry_of_a_literal_query_depends_on_one_phase(data: pd.DataFrame) -> None:
    finding = findings(attention.CLAIMS, data, SMALL)[2]
    assert [check.holds for check in finding.checks] == [True, False, False, False]
    assert finding.checks[-1].measured == pytest.approx(1 / 5)
    assert finding.corrected[-1].measured == 1


@pytest.mark.parametrize(
    ("claim", "where", "verdict"),
    [
        (0, {"what": attention.FORM}, "partly"),
        (0, {"what": attention.TORCH}, "partly"),
        (1, {"what": attention.UNITARY}, "partly"),
        (2, {"what": attention.TOKENS}, "not reproduced"),
        (2, {"what": attention.PLAIN, "kind": attention.RIGHT}, "partly"),
        (2, {"what": attention.MOVED, "kind": attention.RIGHT}, "partly"),
        (3, {"what": attention.TRIVIAL}, "not reproduced"),
    ],
)
def test_verdicts_change_with_altered_data(data: pd.DataFrame, claim: int, where: dict[str, str], verdict: str) -> None:
    assert verdicts(attention.CLAIMS, scaled(data, 1.0, 0.5, **where), SMALL)[claim] == verdict


def test_claims_hold_on_data_that_agree_with_them(data: pd.DataFrame) -> None:
    literal = data.loc[data["kind"] != attention.LITERAL]
    as_written = pd.concat([literal, literal.replace({"kind": {attention.RIGHT: attention.LITERAL}})])
    assert verdicts(attention.CLAIMS, as_written, SMALL)[2] == "reproduced"
    assert verdicts(attention.CLAIMS, scaled(data, 0, what=attention.ALONE), SMALL)[3] == "reproduced"
    assert verdicts(attention.CLAIMS, scaled(data, 0.1, what=attention.FREE), SMALL)[1] == "partly"


def test_attend_equals_softmax_of_dot_products() -> None:
    query, key, value = gaussian(3, 2, 4, 4)
    out = attend(query, key, value)
    for d in range(2):
        for i in range(4):
            scores = [float((query[d, i] * key[d, j].conj()).sum().real) for j in range(4)]
            weights = [math.exp(score - max(scores)) for score in scores]
            row = sum((w / sum(weights) * value[d, j] for j, w in enumerate(weights)), torch.tensor(0.0))
            assert torch.allclose(out[d, i], row)
    assert torch.allclose(out, attention.attend_by_torch(query, key, value))


@pytest.mark.parametrize("m", [2, 3, 12])
def test_sharpest_weight_is_attained_and_never_exceeded(m: int) -> None:
    bound = attention.sharpest_weight(m)
    product = unitary(2000, m=m)
    assert float(product.real.softmax(dim=-1).max()) <= bound
    row = torch.full((m,), -1 / math.sqrt(m * (m - 1)), dtype=torch.float64)
    row[0] = math.sqrt((m - 1) / m)
    basis = torch.linalg.qr(torch.cat([row[:, None], torch.eye(m, dtype=torch.float64)[:, 1:]], dim=1)).Q.mT
    basis[0] = row
    assert ghrr.unitary.is_unitary(basis.to(torch.complex128)[None])
    assert float(basis.softmax(dim=-1)[0, 0]) == pytest.approx(bound)


def test_influence_is_norm_of_derivative() -> None:
    x = torch.randn(3, 2, generator=generator(), dtype=torch.float64)
    scale = torch.tensor([2.0, 3.0], dtype=torch.float64)

    def first_and_last(tokens: torch.Tensor) -> torch.Tensor:
        rows = torch.stack([tokens[0], tokens[2]]) * scale
        return torch.complex(rows, torch.zeros_like(rows))[None]

    length = math.hypot(2, 3)
    expected = torch.tensor([[length, 0, 0], [0, 0, length]], dtype=torch.float64)
    assert torch.allclose(influence(first_and_last, x), expected)


def test_figure_is_complete(data: pd.DataFrame) -> None:
    figure = attention.EXPERIMENT.draw(data, SMALL)
    panels = [axis for part in figure.subfigs for axis in part.axes if axis.get_title(loc="left")]
    assert len(panels) == 5
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in panels)
