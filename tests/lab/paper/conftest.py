"""Two small experiments for the tests of running and reporting."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from ghrr_lab import paper
from ghrr_lab.paper import registry
from ghrr_lab.paper.experiment import Settings
from ghrr_lab.paper.experiments import fixed_vs_varying, quasi_orthogonality

SMALL = {"dim": 50, "m": 2, "pairs": 40, "blocks": 5}
MODULES = {"quasi-orthogonality": quasi_orthogonality, "fixed-vs-varying": fixed_vs_varying}
NAMES = list(MODULES)


def draw_nothing(data: pd.DataFrame, settings: Settings) -> Figure:
    return Figure(figsize=(1, 1))


@contextmanager
def small_registry() -> Iterator[None]:
    """Reduce the registry to two experiments of a small size, with empty figures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_NAMES", tuple(NAMES))
        for module in MODULES.values():
            changes: dict[str, Any] = {"settings": {"quick": SMALL, "full": SMALL}, "draw": draw_nothing}
            patch.setattr(module, "EXPERIMENT", dataclasses.replace(module.EXPERIMENT, **changes))
        yield


@pytest.fixture
def small() -> Iterator[None]:
    with small_registry():
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[paper.Outcome]]:
    """The folder and the outcomes of a finished run of both small experiments. Tests must not change the folder."""
    out = tmp_path_factory.mktemp("finished")
    with small_registry():
        _, outcomes = paper.run([], out, command="ghrr paper run <all>")
    return out, outcomes
