"""The registry lists all experiments, and each experiment is complete."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ghrr_lab import paper
from ghrr_lab.paper import experiments
from ghrr_lab.paper.manifest import read_manifest
from ghrr_lab.paper.report import VERDICTS
from ghrr_lab.paper.source_code import claim_source, source_file, trial_source


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


def test_code_of_every_trial_and_claim_is_found() -> None:
    for name, experiment in paper.EXPERIMENTS.items():
        assert (Path(__file__).parents[3] / source_file(name)).is_file()
        assert "def run_trial(" in trial_source(name)
        for claim in experiment.claims:
            assert "-> list[Check]:" in claim_source(name, claim.says) or "-> Check:" in claim_source(name, claim.says)
        assert claim_source(name, "no such claim") == ""


def test_code_of_claim_contains_the_functions_it_uses_and_no_others() -> None:
    source = claim_source("fixed-vs-varying", paper.EXPERIMENTS["fixed-vs-varying"].claims[0].says)
    assert [line.partition("(")[0] for line in source.splitlines() if line.startswith("def ")] == [
        "def _theory",
        "def _varying_is_narrower",
    ]


def test_select_returns_each_experiment_once() -> None:
    assert [e.name for e in paper.select(["fixed-vs-varying", "fixed-vs-varying"])] == ["fixed-vs-varying"]
    assert [e.name for e in paper.select([])] == list(paper.EXPERIMENTS)


def test_select_suggests_similar_name() -> None:
    with pytest.raises(ValueError, match="did you mean 'fixed-vs-varying'"):
        paper.select(["fixed"])
    with pytest.raises(ValueError, match="paper: unknown experiment 'zzz', expected one of algebraic-properties, "):
        paper.select(["zzz"])


def test_stored_results_are_readable() -> None:
    """The stored full run has the experiments, settings and claims of this version."""
    manifest = read_manifest(Path(__file__).parents[3] / "results" / "paper")
    assert [entry["name"] for entry in manifest["experiments"]] == list(paper.EXPERIMENTS)
    for entry in manifest["experiments"]:
        experiment = paper.EXPERIMENTS[entry["name"]]
        assert entry["settings"] == experiment.settings["full"]
        assert len(entry["claims"]) == len(experiment.claims)
        assert {claim["verdict"] for claim in entry["claims"]} <= VERDICTS.keys()
