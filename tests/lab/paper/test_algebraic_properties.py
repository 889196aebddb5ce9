"""Binding with unitary hypervectors preserves similarity; similarities vanish if the phases have zero mean."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ghrr_lab.paper.experiments import algebraic_properties as properties
from tests.lab.paper.tables import assert_survives_files, findings, run, scaled, verdicts

SMALL: dict[str, Any] = {
    "dim": 20,
    "m": 3,
    "pairs": 100,
    "parts": 4,
    "half_widths": [1.0, math.pi],
    "blocks": 2,
}


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return run(properties.EXPERIMENT, SMALL)


def test_verdicts_of_a_small_run(data: pd.DataFrame) -> None:
    assert verdicts(properties.CLAIMS, data, SMALL) == ["reproduced", "erratum", "reproduced"]
    assert_survives_files(properties.CLAIMS, data, SMALL)


def test_similarity_vanishes_without_zero_mean_phases_only_for_haar_rotations(data: pd.DataFrame) -> None:
    (checks,) = findings(properties.CLAIMS, data, SMALL)[2].rejected.values()
    assert [check.holds for check in checks] == [True, False, False, False]


def test_verdicts_change_with_altered_data(data: pd.DataFrame) -> None:
    claims = properties.CLAIMS
    assert verdicts(claims, scaled(data, 1.01, kind=properties.BASE), SMALL)[0] == "not reproduced"
    assert verdicts(claims, scaled(data, 1.3, kind=properties.BUNDLE), SMALL)[1] == "not reproduced"
    noise = np.random.default_rng(0).normal(size=len(data))
    kept = data.assign(value=data["value"].where(data["kind"] != properties.BUNDLE, data["x"] + noise))
    assert verdicts(claims, kept, SMALL)[1] == "reproduced"
    assert verdicts(claims, scaled(data, 1.0, 0.5, what=properties.PHASES), SMALL)[2] == "not reproduced"
    vanishing = data.assign(value=data["value"].where(data["what"] != properties.PHASES, noise))
    (checks,) = findings(claims, vanishing, SMALL)[2].rejected.values()
    assert all(check.holds for check in checks)


def test_similarities_follow_theory(data: pd.DataFrame) -> None:
    for half_width in SMALL["half_widths"]:
        for kind in (properties.OWN, properties.SHARED, properties.FHRR, properties.FACTOR):
            rows = data[(data["what"] == properties.PHASES) & (data["kind"] == kind)]
            values = rows.loc[np.isclose(rows["x"], half_width), "value"].to_numpy()
            error = values.std() / math.sqrt(len(values))
            assert abs(values.mean() - properties.expected(kind, half_width)) < 5 * error


@pytest.mark.parametrize("half_width", [0.3, 1.0, 2.5, math.pi])
def test_mean_phase_is_mean_over_angles(half_width: float) -> None:
    angles = (np.arange(20_000) + 0.5) / 10_000 * half_width - half_width
    assert properties.mean_phase(half_width) == pytest.approx(np.exp(1j * angles).mean(), abs=1e-8)


def test_expected_similarity_in_closed_form() -> None:
    assert properties.expected(properties.OWN, 1.0) == 0
    assert properties.expected(properties.SHARED, 1.0) == properties.expected(properties.FHRR, 1.0)
    assert properties.expected(properties.FHRR, 1.0) == pytest.approx(math.sin(1) ** 2)
    assert properties.expected(properties.FACTOR, 1.0) == pytest.approx(math.sin(1))
    assert properties.expected(properties.FACTOR, math.pi) == pytest.approx(0, abs=1e-15)


def test_figure_is_complete(data: pd.DataFrame) -> None:
    figure = properties.EXPERIMENT.draw(data, SMALL)
    assert len(figure.axes) == 2
    for axis in figure.axes:
        assert axis.get_xlabel()
        assert axis.get_ylabel()
        assert axis.get_title(loc="left")
        assert axis.get_legend() is not None
