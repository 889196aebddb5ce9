"""The registry lists all experiments, and each experiment is complete."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ghrr import paper
from ghrr.paper import experiments
from ghrr.paper.manifest import read_manifest
from ghrr.paper.report import VERDICTS


def test_registry_contains_every_module_of_experiments() -> None:
    files = {path.stem for path in Path(str(experiments.__file__)).parent.glob("*.py")} - {"__init__"}
    assert {name.replace("-", "_") for name in paper.EXPERIMENTS} == files


def test_every_experiment_has_claims_and_two_sizes() -> None:
    statements = []
    for name, experiment in paper.EXPERIMENTS.items():
        assert experiment.name == name
        assert experiment.claims
        assert all(claim.where and claim.says for claim in experiment.claims)
        assert all((claim.corrected is None) == (claim.correction == "") for claim in experiment.claims)
        assert experiment.caption.endswith(".")
        for size in ("quick", "full"):
            assert json.loads(json.dumps(experiment.settings[size])) == experiment.settings[size]
            assert experiment.trials(experiment.settings[size])
        statements += [claim.says for claim in experiment.claims]
    assert len(set(statements)) == len(statements)


def test_select_returns_each_experiment_once() -> None:
    assert [e.name for e in paper.select(["fixed-vs-varying", "fixed-vs-varying"])] == ["fixed-vs-varying"]
    assert [e.name for e in paper.select([])] == list(paper.EXPERIMENTS)


def test_select_suggests_similar_name() -> None:
    with pytest.raises(ValueError, match="did you mean 'fixed-vs-varying'"):
        paper.select(["fixed"])
    with pytest.raises(ValueError, match="unknown experiment 'zzz'; Experiments: algebraic-properties, "):
        paper.select(["zzz"])


def test_stored_results_are_readable() -> None:
    """The stored full run is that of this version or of 0.1."""
    manifest = read_manifest(Path(__file__).parents[2] / "results" / "paper")
    assert [entry["name"] for entry in manifest["experiments"]] == list(paper.EXPERIMENTS)
    for entry in manifest["experiments"]:
        experiment = paper.EXPERIMENTS[entry["name"]]
        assert entry["settings"] == experiment.settings["full"]
        assert len(entry["claims"]) == len(experiment.claims)
        assert {claim["verdict"] for claim in entry["claims"]} <= VERDICTS.keys()
