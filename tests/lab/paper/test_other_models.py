"""Other binding operations follow their definitions, and verdicts follow from data."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from ghrr_lab.paper.experiments import other_models as others
from tests.lab.paper.tables import assert_survives_files, run, scaled, verdicts

SMALL: dict[str, Any] = {"length": 144, "m": 3, "triples": 20, "blocks": 2}


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return run(others.EXPERIMENT, SMALL)


def test_verdicts_of_a_small_run(data: pd.DataFrame) -> None:
    assert verdicts(others.CLAIMS, data, SMALL) == ["erratum", "reproduced", "reproduced"]
    assert_survives_files(others.CLAIMS, data, SMALL)


def test_verdicts_change_with_altered_data(data: pd.DataFrame) -> None:
    renamed = {others.HRR: others.VTB, others.VTB: others.HRR}
    swapped = data.assign(model=data["model"].replace(renamed))
    assert verdicts(others.CLAIMS, swapped, SMALL) == ["reproduced", "partly", "reproduced"]
    assert verdicts(others.CLAIMS, scaled(data, 1, 0.1, model=others.HRR), SMALL)[0] == "reproduced"
    half = scaled(data, 1, 0.1, model=others.HRR, what=others.COMMUTES)
    assert verdicts(others.CLAIMS, half, SMALL)[0] == "partly"
    assert verdicts(others.CLAIMS, scaled(data, 0, model=others.MATRIX), SMALL)[1] == "partly"
    assert verdicts(others.CLAIMS, scaled(data, 1, 0.1, model=others.GHRR), SMALL)[2] == "partly"


def test_ghrr_violates_commutativity_as_predicted(data: pd.DataFrame) -> None:
    """|AB - BA|² / |AB|² = 2 - 2δ(AB, BA), and δ has the mean 1/m²."""
    rows = data.loc[(data["model"] == others.GHRR) & (data["what"] == others.COMMUTES), "value"]
    square = rows**2
    error = square.std() / math.sqrt(len(square))
    assert abs(square.mean() - 2 * (1 - 1 / 9)) < 5 * error


def test_figure_is_complete(data: pd.DataFrame) -> None:
    axis = others.EXPERIMENT.draw(data, SMALL).axes[0]
    assert axis.get_xlabel()
    assert axis.get_ylabel()
    assert axis.get_legend() is not None
    assert [label.get_text() for label in axis.get_yticklabels()] == list(others.MODELS)
