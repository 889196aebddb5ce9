"""Comparisons of models: structures are read back, trials are complete, and verdicts follow from data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from ghrr import models
from ghrr_lab import paper
from ghrr_lab.comparison import dimensions, trees
from ghrr_lab.comparison import model_structures as structures
from ghrr_lab.comparison.contestants import contestants, sized
from ghrr_lab.comparison.model_figures import summarise
from ghrr_lab.paper.experiment import judge
from ghrr_lab.paper.runner import chosen_trials
from ghrr_lab.paper.source_code import claim_source, source_file, trial_source
from tests.helpers import generator
from tests.lab.paper.tables import assert_survives_files

SMALL: dict[str, dict[str, Any]] = {
    "compare-bundling": {"reals": 72, "candidates": 60, "items": [2, 8], "bundles": 4, "blocks": 2},
    "compare-dimensions": {
        **{"candidates": 50, "items": [3, 5, 7], "roots": [4, 6, 8, 10, 12, 14, 16], "threshold": 0.9, "iterations": 2},
        **{"reference_items": 5, "blocks": 2, "models": ["map", "bsc"]},
    },
    "compare-repeated-binding": {"reals": 72, "depth": 3, "vectors": 4, "blocks": 2},
    "compare-records": {"reals": 72, "candidates": 20, "pairs": [2, 8], "records": 4, "blocks": 2},
    "compare-nested-records": {
        **{"reals": 72, "candidates": 20, "fields": 2, "keys": 5, "depth": 2, "records": 6, "blocks": 2}
    },
    "compare-sequences": {"reals": 144, "candidates": 20, "lengths": [6, 8], "sequences": 4, "blocks": 2},
    "compare-trees": {"reals": 144, "candidates": 20, "depth": 3, "trees": 4, "blocks": 2},
    "compare-order": {"reals": 72, "pairs": 40, "pairs_of_matrices": 10, "blocks": 2},
    "compare-robustness": {
        **{"reals": 144, "candidates": 20, "pairs": 3, "records": 4, "blocks": 2},
        "levels": {"erased": [0.0, 0.5], "flipped": [0.2], "noise": [1.0]},
    },
    "compare-cost": {"reals": 72, "batch": 4, "candidates": 10, "repetitions": 2, "blocks": 2},
}
MODELS = ("fhrr", "hrr", "hrr-unitary", "map", "bsc", "sbc", "vtb", "mbat", "smr", "tpr", "ghrr-2", "ghrr-3")
names = pytest.mark.parametrize("name", SMALL)


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    return {}


def table_of(name: str, tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the table of all trials of an experiment at a small size, computed once."""
    if name not in tables:
        experiment, settings = paper.COMPARISONS[name], SMALL[name]
        chosen = [params for params in experiment.trials(settings) if params["model"] in MODELS]
        trials = [experiment.run_trial(settings, params, generator(n)) for n, params in enumerate(chosen)]
        tables[name] = pd.concat(trials, ignore_index=True)
    return tables[name]


def test_registry_contains_every_module_of_comparisons() -> None:
    paths = Path(str(trees.__file__)).parent.glob("*.py")
    files = {path.stem for path in paths if "EXPERIMENT = " in path.read_text(encoding="utf-8")}
    assert {name.removeprefix("compare-").replace("-", "_") for name in paper.COMPARISONS} == files
    assert list(SMALL) == list(paper.COMPARISONS)
    assert not set(paper.COMPARISONS) & set(paper.EXPERIMENTS)


@names
def test_comparison_is_complete(name: str) -> None:
    experiment = paper.COMPARISONS[name]
    assert experiment.name == name
    assert experiment.claims
    assert all(claim.where and claim.says for claim in experiment.claims)
    assert experiment.caption.endswith(".")
    for size in ("quick", "full"):
        settings = experiment.settings[size]
        assert json.loads(json.dumps(settings)) == settings
        assert settings.keys() == SMALL[name].keys()
        assert {params["model"] for params in experiment.trials(settings)} <= models.MODELS.keys()
    assert (Path(__file__).parents[3] / source_file(name)).is_file()
    assert "def run_trial(" in trial_source(name)
    for claim in experiment.claims:
        assert "-> list[Check]:" in claim_source(name, claim.says)


@names
def test_trials_have_finite_values_of_every_model(name: str, tables: dict[str, pd.DataFrame]) -> None:
    data = table_of(name, tables)
    assert {"task", "model", "budget", "x", "value", "block"} <= set(data.columns)
    assert data["value"].notna().all()
    expected = {params["model"] for params in paper.COMPARISONS[name].trials(SMALL[name])} & set(MODELS)
    assert set(data["model"]) == expected
    assert len(summarise(data)) == len(data.groupby(["task", "model", "budget", "x"]))


@names
def test_trials_draw_random_numbers_from_their_own_generator(name: str) -> None:
    """The global generator has another state in each process, so numbers from it would differ between runs."""
    experiment, settings = paper.COMPARISONS[name], SMALL[name]
    state = torch.get_rng_state()
    for params in experiment.trials(settings):
        if params["block"] == 0 and params["model"] in ("map", "bsc", "sbc"):  # models with random ties
            experiment.run_trial(settings, params, generator())
            assert torch.equal(torch.get_rng_state(), state), params


@names
def test_figure_names_its_axes_and_survives_missing_models(name: str, tables: dict[str, pd.DataFrame]) -> None:
    data = table_of(name, tables)
    first = data[data["model"] == data["model"].iloc[0]]
    for rows in (data, first):
        figure = paper.COMPARISONS[name].draw(rows, SMALL[name])
        assert figure.axes[-1].get_xlabel()


@names
def test_claims_are_judged_on_some_models_and_survive_files(name: str, tables: dict[str, pd.DataFrame]) -> None:
    data, settings = table_of(name, tables), SMALL[name]
    assert_survives_files(paper.COMPARISONS[name].claims, data, settings)
    none = data[data["model"] == "tpr"] if "tpr" in set(data["model"]) else data.iloc[:0]
    for claim in paper.COMPARISONS[name].claims:
        assert judge(claim, none, settings).verdict in ("not measured", "reproduced", "not reproduced", "partly")


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("compare-bundling", lambda data: data.assign(value=0.5 * data["value"])),
        ("compare-repeated-binding", lambda data: data.assign(value=data["value"] - 0.1)),
        ("compare-records", lambda data: data.assign(value=data["value"].where(data["model"] == "fhrr", 0.0))),
        ("compare-nested-records", lambda data: data.assign(value=1 - data["value"])),
        ("compare-sequences", lambda data: data.assign(value=1.0)),
        ("compare-trees", lambda data: data.assign(value=1.0)),
        ("compare-order", lambda data: data.assign(value=data["value"] + 0.5)),
        ("compare-robustness", lambda data: data.assign(value=0.1)),
        ("compare-cost", lambda data: data.assign(value=10.0)),
    ],
)
def test_verdict_changes_with_altered_data(name: str, broken: Any, tables: dict[str, pd.DataFrame]) -> None:
    data, settings = table_of(name, tables), SMALL[name]
    for claim in paper.COMPARISONS[name].claims:
        if name != "compare-cost":  # times of a small run say nothing
            assert judge(claim, data, settings).verdict == "reproduced", claim.says
        assert judge(claim, broken(data), settings).verdict in ("not reproduced", "partly"), claim.says


def test_needed_dimensions_are_those_of_the_line_through_the_smallest_sizes() -> None:
    settings = {"threshold": 0.99, "reference_items": 15}
    sizes, items = torch.arange(0, 1000, 10).numpy(), torch.tensor([5, 10, 20, 100]).numpy()
    accuracy = (sizes[:, None] >= 20 * items).astype(float)  # 100 items are reached by no size
    slope, needed = dimensions.needed_dimensions(accuracy, sizes, items, settings)
    assert slope == pytest.approx(20)
    assert needed == pytest.approx(300)


def test_published_numbers_decide_the_verdict() -> None:
    rows = [
        {"model": name, "task": task, "budget": "both", "block": block, "x": 15, "value": value + offset}
        for (name, task), (_, value) in dimensions.PUBLISHED.items()
        for block, offset in enumerate((-5.0, 5.0))
    ]
    data, settings = pd.DataFrame(rows), dimensions.EXPERIMENT.settings["full"]
    (claim,) = dimensions.CLAIMS
    assert judge(claim, data, settings).verdict == "reproduced"
    assert judge(claim, data.assign(value=data["value"] * 1.5), settings).verdict == "not reproduced"


def test_chosen_trials_keep_their_numbers() -> None:
    experiment = paper.COMPARISONS["compare-order"]
    everything = experiment.trials(experiment.settings["quick"])
    chosen = chosen_trials(experiment, "quick", lambda params: params["model"] == "ghrr-2")
    assert chosen
    assert all(everything[number] == params for number, params in chosen.items())
    assert all(params["model"] == "ghrr-2" for params in chosen.values())


def test_budgets_are_equal_up_to_the_sizes_that_a_model_can_have() -> None:
    for entry in contestants(models.MODELS):
        model = sized(entry, {"reals": 576})
        if entry["budget"] != "bytes":
            assert model.reals_per_vector == 576
        if entry["budget"] != "reals":
            assert model.bytes_per_vector == 4 * 576


@pytest.mark.parametrize("name", MODELS)
def test_structures_are_read_back(name: str) -> None:
    """Large vectors, so that the noise is far below the signal: every answer is correct."""
    order = 3 if name == "tpr" else 1
    model = models.make(name, reals=4096 if name != "mbat" else 400, order=order)
    codebook = model.random(20, generator=generator())
    keys = model.random_keys(3, generator=generator(1))
    chosen = torch.tensor([3, 5, 7])
    record = structures.encode_record(model, keys, codebook[chosen], generator())
    assert torch.equal(structures.best(model, structures.read(model, record, [keys]), codebook), chosen)
    shifted = structures.encode_by_shift(model, codebook[chosen], generator())
    back = torch.stack([model.shift(shifted, -i) for i in range(3)])
    assert torch.equal(structures.best(model, back, codebook), chosen)
    if name != "tpr":
        levels = [(keys[[0, 1]], codebook[[8]]), (keys[[2, 1]], codebook[[9]])]
        nested = structures.encode_nested(model, levels, codebook[3], generator())
        answer = structures.best(model, structures.read(model, nested, [keys[0], keys[2]]), codebook)
        assert int(answer) == 3
        missing = structures.best(model, structures.read(model, nested, [keys[0]]), codebook[[3, 8]])
        assert missing.shape == ()


@pytest.mark.parametrize("name", ["vtb", "smr", "mbat", "ghrr-4", "tpr"])
def test_trees_of_noncommutative_models_are_read_back(name: str) -> None:
    model = models.make(name, reals=4096 if name != "mbat" else 400, order=3 if name == "tpr" else 1)
    keys, codebook = model.random_keys(2, generator=generator(1)), model.random(20, generator=generator())
    leaves = torch.tensor([3, 5, 7, 9])
    tree = structures.encode_tree(model, keys, codebook[leaves], generator())
    found = structures.read_tree(model, tree, keys, 2)
    assert torch.equal(structures.best(model, found, codebook), leaves)
    left_right = structures.read(model, tree, [keys[0], keys[1]])
    assert int(structures.best(model, left_right, codebook)) == 5


def test_commutative_bound() -> None:
    assert [trees.commutative_bound(depth) for depth in (1, 2, 3)] == [1.0, 0.75, 0.5]
