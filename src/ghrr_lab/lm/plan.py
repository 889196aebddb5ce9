"""Plans of several runs, read and checked before the first run starts.

A plan is a JSON object::

    {"dataset": "ptb", "tokens": {}, "parameters": 5740000,
     "model": {"num_layers": 6}, "training": {"epochs": 30},
     "runs": [{"label": "vanilla", "model": {"attention": "vanilla"}, "seeds": [0, 1]},
              {"label": "ghrr-feature", "variant": "all fixed", "model": {"window": 3}, "seeds": [0, 1]}]}

``model`` and ``training`` at the top level apply to all runs. ``parameters`` sets ``ffn_dim`` of each model so that
all models have about that many parameters. ``tokens`` can hold ``limit`` (size of the vocabulary of words) or ``bpe``
(size of a BPE vocabulary). Plans of ghrr 0.1, with its names of settings, are still read.
"""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass
from typing import Any

from ghrr.checks import describe, names_errors, without_name
from ghrr.files import read_json
from ghrr_lab.lm.config import ModelConfig
from ghrr_lab.lm.model import check_memory
from ghrr_lab.lm.train_config import TrainConfig

_PLAN_KEYS = {"dataset", "tokens", "parameters", "model", "training", "runs"}
_RUN_KEYS = {"label", "variant", "model", "training", "seeds"}


@dataclass(frozen=True)
class PlannedRun:
    """One run of a plan."""

    label: str
    variant: str
    dataset: str
    tokens: dict[str, int]
    parameters: int | None
    model: dict[str, Any]
    training: dict[str, Any]

    @property
    def folder(self) -> str:
        """Name of the run folder."""
        tokens = " ".join(f"{name} {size}" for name, size in self.tokens.items())
        words = f"{self.dataset} {tokens} {self.label} {self.variant} {self.training['seed']}"
        return "-".join("".join(c if c.isalnum() else " " for c in words).split())

    @property
    def command(self) -> str:
        """Command line that does this run alone."""
        words = ["ghrr", "lm", "train", self.dataset, "--out", f"runs/{self.folder}"]
        words += [f"--{name}={size}" for name, size in self.tokens.items()]
        words += [f"--params={self.parameters}"] if self.parameters else []
        model = {"model.seed" if name == "seed" else name: value for name, value in self.model.items()}
        for settings in (model, self.training):
            words += [f"--set={name}={json.dumps(value)}" for name, value in settings.items()]
        return shlex.join(words)


@names_errors
def read_plan(path: str | os.PathLike[str]) -> list[PlannedRun]:
    """Read the runs of a plan, sorted by seed.

    Raises
    ------
    ValueError
        The plan is not valid, has settings that are not valid, or has two runs with the same folder.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from ghrr_lab.lm.plan import read_plan
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "plan.json"
    ...     _ = path.write_text('{"dataset": "grammar", "runs": [{"label": "ghrr", "seeds": [0, 1]}]}')
    ...     [run.folder for run in read_plan(path)]
    ['grammar-ghrr-0', 'grammar-ghrr-1']
    """
    plan = read_json(path)
    _check_keys(path, plan, _PLAN_KEYS, needed={"dataset", "runs"})
    _check_keys(path, plan.get("tokens", {}), {"bpe", "limit"}, needed=set())
    if not isinstance(plan["dataset"], str):
        raise ValueError(f"{path}: dataset must be a string, got {describe(plan['dataset'])}")
    if not isinstance(plan["runs"], list) or not plan["runs"]:
        raise ValueError(f"{path}: runs must be a list of at least one run, got {describe(plan['runs'])}")
    _check_settings(path, plan)
    runs: list[PlannedRun] = []
    for run in plan["runs"]:
        _check_keys(path, run, _RUN_KEYS, needed={"label", "seeds"})
        _check_run(path, run)
        _check_settings(path, run)
        runs += [
            PlannedRun(
                label=run["label"],
                variant=run.get("variant", ""),
                dataset=plan["dataset"],
                tokens=plan.get("tokens", {}),
                parameters=plan.get("parameters"),
                model={**plan.get("model", {}), **run.get("model", {})},
                training={**plan.get("training", {}), **run.get("training", {}), "seed": seed},
            )
            for seed in run["seeds"]
        ]
    for run in runs:  # report an error in the last run before the first run starts
        try:
            TrainConfig(**run.training)
            check_memory(ModelConfig.from_dict({"vocab_size": 1, **run.model}))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: {run.label}: {without_name(error)}") from error
    names = [run.folder for run in runs]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(
            f"{path}: runs must have different folders, got {repeated[0]} twice; change a label, variant or seed"
        )
    return sorted(runs, key=lambda run: int(run.training["seed"]))


def _check_run(path: object, run: dict[str, Any]) -> None:
    """Raise unless the label, variant and seeds of a run have the correct types."""
    label, variant, seeds = run["label"], run.get("variant", ""), run["seeds"]
    if not isinstance(label, str) or not isinstance(variant, str):
        raise ValueError(f"{path}: label and variant must be strings, got {label!r:.100} and {variant!r:.100}")
    if not isinstance(seeds, list) or not seeds:
        raise ValueError(f"{path}: {label}: seeds must be a list of at least one number, got {seeds!r:.100}")


def _check_settings(path: object, given: dict[str, Any]) -> None:
    """Raise unless ``model`` and ``training`` of a plan or run are objects without a vocabulary size."""
    for name in ("model", "training"):
        if not isinstance(given.get(name, {}), dict):
            raise ValueError(f"{path}: {name} must be an object of settings, got {given[name]!r:.100}")
    if {"vocab_size", "vocabulary"} & given.get("model", {}).keys():
        raise ValueError(f"{path}: model must not set vocab_size, it follows from the text; limit it with tokens")


def _check_keys(path: object, given: Any, known: set[str], *, needed: set[str]) -> None:
    """Raise unless ``given`` is a dict with only known keys and all needed ones."""
    if not isinstance(given, dict):
        raise ValueError(f"{path}: expected an object with {', '.join(sorted(known))}, got {given!r:.100}")
    unknown, missing = sorted(set(given) - known), sorted(needed - set(given))
    if unknown:
        raise ValueError(f"{path}: unknown keys {unknown}, expected only {sorted(known)}")
    if missing:
        raise ValueError(f"{path}: missing keys {missing}")
