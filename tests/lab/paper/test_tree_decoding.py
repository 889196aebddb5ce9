"""Trees: encoded as in the paper, theory is correct at limits, and verdicts follow from data."""

from __future__ import annotations

import math

import pandas as pd
import pytest
import torch

import ghrr
from ghrr_lab.paper.experiment import judge
from ghrr_lab.paper.experiments import tree_decoding
from ghrr_lab.paper.theory import trees
from ghrr_lab.paper.theory.trees import PERMUTED, PLAIN
from tests.helpers import assert_mean, generator
from tests.lab.paper import tables

SMALL = {"total_dim": 150, "ms": [1, 2, 4], "depth": 6, "trees": 35, "blocks": 2}
EXPERIMENT = tree_decoding.EXPERIMENT
EXPECTED = [
    "reproduced",  # larger m sustains accuracy for deeper trees
    "reproduced",  # larger m then drops faster
    "partly",  # permutation adds levels, but too few to measure at m = 4
    "partly",  # the decay is gentler for small m, not for larger
    "erratum",  # permutation does not saturate faster
    "reproduced",  # larger m is more similar to permutation
    "reproduced",  # FHRR confuses permuted paths
    "reproduced",  # GHRR is better than FHRR
]


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return tables.run(EXPERIMENT, SMALL, seed=10)


def verdicts(data: pd.DataFrame) -> list[str]:
    return tables.verdicts(EXPERIMENT.claims, data, SMALL)


def test_verdicts_of_a_small_run(data: pd.DataFrame) -> None:
    assert verdicts(data) == EXPECTED
    for claim in tree_decoding.CLAIMS:
        for checks in judge(claim, data, SMALL).rejected.values():
            assert checks
            assert not any(check.holds for check in checks)


def test_verdicts_change_with_altered_data(data: pd.DataFrame) -> None:
    other_m = verdicts(data.assign(m=data["m"].replace({1: 4, 4: 1})))
    assert all(other_m[i] in ("partly", "not reproduced") for i in (0, 1, 5, 6, 7))
    other_kind = verdicts(data.assign(kind=data["kind"].replace({PLAIN: PERMUTED, PERMUTED: PLAIN})))
    assert other_kind[3:5] == ["not reproduced", "partly"]
    worse = (data["m"] == 4) & (data["kind"] == PLAIN)
    assert verdicts(data.assign(accuracy=data["accuracy"].where(~worse, 0.9 * data["accuracy"])))[2] == "reproduced"
    assert verdicts(data.assign(accuracy=0.9 * data["accuracy"]))[6] == "not reproduced"


def test_same_generator_gives_same_numbers() -> None:
    settings = {**SMALL, "trees": 1, "depth": 5}
    tables = [tree_decoding.run_trial(settings, {"m": 2, "block": 3}, generator(seed)) for seed in (1, 1, 2)]
    pd.testing.assert_frame_equal(tables[0], tables[1])
    assert not tables[0].equals(tables[2])
    assert set(tables[0]["tree"]) == {3}


@pytest.mark.parametrize("m", [1, 3])
def test_encode_tree_follows_the_paper(m: int) -> None:
    space = ghrr.Space(20, m, dtype=torch.complex128)
    keys, values = space.random(2, generator=generator()), space.random(4, generator=generator(1))
    (k1, k2), (v1, v2, v3, v4) = keys, values
    bind, rho = ghrr.bind, ghrr.shift
    plain = bind(k1, bind(k1, v1) + bind(k2, v2)) + bind(k2, bind(k1, v3) + bind(k2, v4))
    torch.testing.assert_close(trees.encode_tree(keys, values, permuted=False), plain)
    left, right = bind(k1, rho(v1)) + bind(k2, rho(v2)), bind(k1, rho(v3)) + bind(k2, rho(v4))
    permuted = bind(k1, rho(left)) + bind(k2, rho(right))
    torch.testing.assert_close(trees.encode_tree(keys, values, permuted=True), permuted)


@pytest.mark.parametrize("permuted", [False, True])
def test_single_value_is_decoded_exactly_on_its_path(permuted: bool) -> None:
    space = ghrr.Space(20, 2, dtype=torch.complex128)
    keys, value = space.random(2, generator=generator()), space.random(generator=generator(1))
    for path in range(8):
        values = space.zeros(8)
        values[path] = value
        tree = trees.encode_tree(keys, values, permuted=permuted)
        torch.testing.assert_close(trees.decode_tree(keys, tree, 3, permuted=permuted)[path], value)


def test_tie_is_not_decoded() -> None:
    space = ghrr.Space(20, 2)
    keys, value = space.random(2, generator=generator()), space.random(1, generator=generator(1))
    assert trees.share_decoded(keys, value.repeat(2, 1, 1, 1), permuted=False) == 0


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_theory_without_noise_counts_distinguishable_paths(depth: int) -> None:
    leaves, plenty = 2**depth, 10**5
    assert trees.theory(depth, plenty, 1) == pytest.approx((depth + 1) / leaves, abs=1e-4)
    assert trees.theory(depth, plenty, 1, permuted=True) == pytest.approx(1, abs=1e-4)
    assert trees.theory(depth, plenty, 3) == pytest.approx(1, abs=1e-4)
    pairs = (depth // 2 + 1) * ((depth + 1) // 2 + 1)  # numbers of second keys at even and odd positions
    assert trees.theory(depth, plenty, 2, diagonality=0.0) == pytest.approx(pairs / leaves, abs=1e-4)


def test_theory_of_two_leaves_is_gaussian_tail() -> None:
    sigma = math.sqrt(1 / (2 * 3 * 4))
    expected = torch.special.ndtr(torch.tensor(1 / (sigma * math.sqrt(2)), dtype=torch.float64)).item()
    assert trees.theory(1, 3, 2, permuted=True) == pytest.approx(expected, abs=1e-6)
    assert trees.theory(1, 3, 2) == pytest.approx(expected, abs=1e-6)


def test_theory_agrees_with_recall_error() -> None:
    for depth in (5, 6, 7, 8):
        error = ghrr.capacity.recall_error(2**depth, 2**depth, 1 / math.sqrt(1200), 1 / math.sqrt(1200))
        assert trees.theory(depth, 600, 1, permuted=True) == pytest.approx(1 - error, abs=0.005)


@pytest.mark.parametrize(("m", "k"), [(2, 1), (2, 3), (3, 2)])
def test_similarity_of_key_moved_past_power_of_another(m: int, k: int) -> None:
    k1, k2 = ghrr.Space(1, m).random(2, 20_000, generator=generator())
    other = ghrr.power(k2, k)
    assert_mean(ghrr.similarity(ghrr.bind(k1, other), ghrr.bind(other, k1)), min(k, m) / m**2)


def test_sustained_depth_and_steepest_drop() -> None:
    curve = pd.DataFrame({1: [1.0, 1.0], 2: [0.9, 1.0], 3: [0.5, 0.4]})
    depth, error = trees.sustained_depth(curve, 0.7)
    assert depth == pytest.approx(2.5)
    assert error == pytest.approx(0.0)  # the two trees agree to first order
    assert trees.sustained_depth(curve, 0.1) == (3.0, 0.0)
    assert trees.sustained_depth(curve - 0.5, 0.75)[0] == pytest.approx(0.5)  # depth 0 is always decoded
    assert trees.steepest_drop(curve) == pytest.approx((0.5, 0.1))


def test_accuracy_has_positive_error_if_all_trees_agree() -> None:
    assert trees.accuracy_at(pd.DataFrame({3: [1.0] * 10}), 3) == (1.0, 2 / 80)


def test_figure_is_complete(data: pd.DataFrame) -> None:
    figure = EXPERIMENT.draw(data, SMALL)
    assert figure.get_supylabel()
    assert figure.axes[-1].get_xlabel()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["m = 1", "m = 2", "m = 4"]
    assert all(axis.get_title(loc="left") for axis in figure.axes)
