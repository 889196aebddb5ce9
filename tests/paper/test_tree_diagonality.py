"""Trees with rotations of a given diagonality: verdicts follow from data, theory meets FHRR at diagonality 1."""

from __future__ import annotations

import dataclasses
from typing import Any

import pandas as pd
import pytest

from ghrr.paper import tree_diagonality, trees
from ghrr.paper.experiment import judge
from tests.helpers import generator

SMALL: dict[str, Any] = {
    "total_dim": 150,
    "ms": [3, 5],
    "diagonalities": [0.0, 1 / 3, 2 / 3, 1.0],
    "depth": 5,
    "trees": 10,
    "blocks": 2,
}
EXPERIMENT = dataclasses.replace(tree_diagonality.EXPERIMENT, settings={"quick": SMALL, "full": SMALL})


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    parts = [EXPERIMENT.run_trial(SMALL, params, generator(i)) for i, params in enumerate(EXPERIMENT.trials(SMALL))]
    return pd.concat(parts, ignore_index=True)


def verdicts(data: pd.DataFrame) -> list[str]:
    return [judge(claim, data, SMALL).verdict for claim in tree_diagonality.CLAIMS]


def test_every_curve_is_measured(data: pd.DataFrame) -> None:
    curves = data.groupby(["m", "diagonality", "kind", "depth"])["tree"].nunique()
    assert len(curves) == (2 + 2 * 4) * SMALL["depth"]
    assert set(curves) == {20}


def test_verdicts(data: pd.DataFrame) -> None:
    assert verdicts(data) == ["reproduced", "erratum", "erratum"]


def as_claimed(data: pd.DataFrame) -> pd.DataFrame:
    """Data as the paper describes them: FHRR at 1, permutation at 0, and in between what lies in between."""
    depths = range(1, SMALL["depth"] + 1)
    top, bottom = (data["depth"].map({d: trees.theory(d, 150, 1, permuted=p) for d in depths}) for p in (True, False))
    between = top + (bottom - top) * data["diagonality"]
    return data.assign(accuracy=data["accuracy"].where(data["m"] == 1, between))


def test_verdicts_follow_from_the_data(data: pd.DataFrame) -> None:
    """The control: data as claimed are found to agree, and the corrections fail on data that contradict them."""
    assert verdicts(as_claimed(data))[1:] == ["reproduced"] * 2
    for table, holds in ((data, False), (as_claimed(data), True)):  # FHRR of total dimension Dm²
        (checks,) = judge(tree_diagonality.CLAIMS[0], table, SMALL).rejected.values()
        assert all(check.holds for check in checks) is holds
    lower = verdicts(data.assign(accuracy=0.8 * data["accuracy"]))
    assert lower[:2] == ["not reproduced", "not reproduced"]
    turned = data["diagonality"].replace(dict(zip(SMALL["diagonalities"], SMALL["diagonalities"][::-1], strict=True)))
    assert verdicts(data.assign(diagonality=turned))[2] in ("partly", "not reproduced")


@pytest.mark.parametrize("m", [2, 3, 5])
def test_theory_at_one_is_that_of_fhrr_with_as_many_phases(m: int) -> None:
    assert trees.theory(4, 20, m, diagonality=1.0) == pytest.approx(trees.theory(4, 20 * m, 1), abs=1e-4)


def test_rotations_by_descent_confuse_paths_as_much_as_those_of_the_closed_form() -> None:
    """The paper's way to rotations of diagonality 0 gives the same products that coincide."""
    from ghrr import bind, similarity
    from ghrr.unitary import with_diagonality

    k1, k2 = with_diagonality(0.0, 2, 10, m=2, generator=generator(), method="descent")
    assert similarity(bind(k1, bind(k1, k2)), bind(k2, bind(k1, k1))) > 0.999


def test_figure(data: pd.DataFrame) -> None:
    figure = EXPERIMENT.draw(data, SMALL)
    assert figure.get_supxlabel()
    assert figure.get_supylabel()
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["m = 1, permuted", "m = 1 (FHRR)", "m = 3", "m = 5"]
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == ["A. diagonality 0", "B. diagonality 1/3", "C. diagonality 2/3", "D. diagonality 1"]
