"""Two small experiments for the tests of running and reporting."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from ghrr import paper
from ghrr.paper import registry
from ghrr.paper.experiments import fixed_vs_varying, quasi_orthogonality

SMALL = {"dim": 50, "m": 2, "pairs": 40, "blocks": 5}
MODULES = {"quasi-orthogonality": quasi_orthogonality, "fixed-vs-varying": fixed_vs_varying}
NAMES = list(MODULES)


@pytest.fixture(scope="module")
def small() -> Iterator[None]:
    """Reduce the registry to two experiments of a small size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_NAMES", tuple(NAMES))
        for module in MODULES.values():
            experiment = dataclasses.replace(module.EXPERIMENT, settings={"quick": SMALL, "full": SMALL})
            patch.setattr(module, "EXPERIMENT", experiment)
        yield


@pytest.fixture(scope="module")
def finished(small: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[paper.Outcome]]:
    """The folder and the outcomes of a finished run of both small experiments. Tests must not change the folder."""
    out = tmp_path_factory.mktemp("finished")
    _, outcomes = paper.run([], out, command="ghrr paper run <all>")
    return out, outcomes
