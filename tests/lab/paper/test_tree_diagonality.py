"""Trees with rotations of a given diagonality: verdicts follow from data; diagonality 1 is equivalent to FHRR."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from ghrr_lab.paper.experiment import judge
from ghrr_lab.paper.experiments import tree_diagonality
from ghrr_lab.paper.theory import trees
from tests.helpers import generator
from tests.lab.paper import tables

SMALL: dict[str, Any] = {
    "total_dim": 150,
    "ms": [3, 5],
    "diagonalities": [0.0, 1 / 3, 2 / 3, 1.0],
    "depth": 5,
    "trees": 10,
    "blocks": 2,
}
EXPERIMENT = tree_diagonality.EXPERIMENT


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return tables.run(EXPERIMENT, SMALL)


def verdicts(data: pd.DataFrame) -> list[str]:
    return tables.verdicts(EXPERIMENT.claims, data, SMALL)


def test_every_curve_is_measured(data: pd.DataFrame) -> None:
    curves = data.groupby(["m", "diagonality", "kind", "depth"])["tree"].nunique()
    assert len(curves) == (2 + 2 * 4) * SMALL["depth"]
    assert set(curves) == {20}


def test_verdicts_of_a_small_run(data: pd.DataFrame) -> None:
    assert verdicts(data) == ["reproduced", "erratum", "erratum"]


def as_claimed(data: pd.DataFrame) -> pd.DataFrame:
    """Make data that agree with the paper: FHRR at 1, permutation at 0, and linear interpolation between them."""
    depths = range(1, SMALL["depth"] + 1)
    top, bottom = (data["depth"].map({d: trees.theory(d, 150, 1, permuted=p) for d in depths}) for p in (True, False))
    between = top + (bottom - top) * data["diagonality"]
    return data.assign(accuracy=data["accuracy"].where(data["m"] == 1, between))


def test_verdicts_change_with_altered_data(data: pd.DataFrame) -> None:
    assert verdicts(as_claimed(data))[1:] == ["reproduced"] * 2
    for table, holds in ((data, False), (as_claimed(data), True)):  # FHRR of total dimension Dm²
        (checks,) = judge(tree_diagonality.CLAIMS[0], table, SMALL).rejected.values()
        assert all(check.holds for check in checks) is holds
    lower = verdicts(data.assign(accuracy=0.8 * data["accuracy"]))
    assert lower[:2] == ["not reproduced", "not reproduced"]
    reversed_ = data["diagonality"].replace(
        dict(zip(SMALL["diagonalities"], SMALL["diagonalities"][::-1], strict=True))
    )
    assert verdicts(data.assign(diagonality=reversed_))[2] in ("partly", "not reproduced")


@pytest.mark.parametrize("m", [2, 3, 5])
def test_theory_at_diagonality_one_is_fhrr_with_equally_many_phases(m: int) -> None:
    assert trees.theory(4, 20, m, diagonality=1.0) == pytest.approx(trees.theory(4, 20 * m, 1), abs=1e-4)


def test_rotations_by_descent_have_coinciding_products_at_diagonality_zero() -> None:
    from ghrr import bind, similarity
    from ghrr.unitary import with_diagonality

    k1, k2 = with_diagonality(0.0, 2, 10, m=2, generator=generator(), method="descent")
    assert similarity(bind(k1, bind(k1, k2)), bind(k2, bind(k1, k1))) > 0.999


def test_figure_is_complete(data: pd.DataFrame) -> None:
    figure = EXPERIMENT.draw(data, SMALL)
    assert figure.get_supxlabel()
    assert figure.get_supylabel()
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["m = 1, permuted", "m = 1 (FHRR)", "m = 3", "m = 5"]
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == ["A. diagonality 0", "B. diagonality 1/3", "C. diagonality 2/3", "D. diagonality 1"]
