"""Plans of several runs, checked before the first run starts.

A plan is a JSON object::

    {"dataset": "ptb", "tokens": {}, "parameters": 5740000,
     "model": {"num_layers": 6}, "training": {"epochs": 30},
     "runs": [{"label": "vanilla", "model": {"attention": "vanilla"}, "seeds": [0, 1]},
              {"label": "ghrr-feature", "variant": "all fixed", "model": {"window": 3}, "seeds": [0, 1]}]}

``model`` and ``training`` at the top apply to all runs; those of a run override them. They hold settings of
:class:`ghrr.lm.ModelConfig`, also under their names of ghrr 0.1, and of :class:`ghrr.lm.TrainConfig`. With
``parameters`` the ``ffn_dim`` of each model is chosen so that all models have that many parameters. ``tokens`` can hold
``limit`` (number of words) or ``bpe`` (number of byte-pair tokens).
"""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass
from typing import Any

from ghrr._checks import describe
from ghrr.files import read_json
from ghrr.lm.config import ModelConfig
from ghrr.lm.model import check_memory
from ghrr.lm.train import TrainConfig

_PLAN = {"dataset", "tokens", "parameters", "model", "training", "runs"}
_RUN = {"label", "variant", "model", "training", "seeds"}


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
        """Name of its folder."""
        tokens = " ".join(f"{name} {size}" for name, size in self.tokens.items())
        words = f"{self.dataset} {tokens} {self.label} {self.variant} {self.training['seed']}"
        return "-".join("".join(c if c.isalnum() else " " for c in words).split())

    @property
    def command(self) -> str:
        """The command that does this run."""
        words = ["ghrr", "lm", "train", self.dataset, "--out", f"runs/{self.folder}"]
        words += [f"--{name}={size}" for name, size in self.tokens.items()]
        words += [f"--params={self.parameters}"] if self.parameters else []
        model = {"model.seed" if name == "seed" else name: value for name, value in self.model.items()}
        for settings in (model, self.training):
            words += [f"--set={name}={json.dumps(value)}" for name, value in settings.items()]
        return shlex.join(words)


def read_plan(path: str | os.PathLike[str]) -> list[PlannedRun]:
    """Read a plan, and return its runs ordered by seed.

    Raises
    ------
    ValueError
        Any of the runs is invalid; the message names the run and the setting.
    """
    plan = read_json(path, "read_plan")
    _check_keys(path, plan, _PLAN, needed={"dataset", "runs"})
    _check_keys(path, plan.get("tokens", {}), {"bpe", "limit"}, needed=set())
    if not isinstance(plan["dataset"], str):
        raise ValueError(f"{path}: dataset must be a string, got {describe(plan['dataset'])}")
    if not isinstance(plan["runs"], list) or not plan["runs"]:
        raise ValueError(f"{path}: runs must be a list of at least one run")
    _check_settings(path, plan)
    runs: list[PlannedRun] = []
    for run in plan["runs"]:
        _check_keys(path, run, _RUN, needed={"label", "seeds"})
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
    for run in runs:
        try:
            TrainConfig(**run.training)
            check_memory(ModelConfig.from_dict({"vocab_size": 1, **run.model}))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: {run.label}: {error}") from error
    names = [run.folder for run in runs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{path}: two runs are called {twice[0]}; give them different labels or variants")
    order: dict[str, int] = {}
    for run in runs:
        order.setdefault(f"{run.label} {run.variant}", len(order))
    return sorted(runs, key=lambda run: (run.training["seed"], order[f"{run.label} {run.variant}"]))


def _check_run(path: object, run: dict[str, Any]) -> None:
    """Raise unless label, variant and seeds of a run have the right types."""
    label, variant, seeds = run["label"], run.get("variant", ""), run["seeds"]
    if not isinstance(label, str) or not isinstance(variant, str):
        raise ValueError(f"{path}: label and variant must be strings, got {label!r:.100} and {variant!r:.100}")
    if not isinstance(seeds, list) or not seeds:
        raise ValueError(f"{path}: {label}: seeds must be a list of at least one number, got {seeds!r:.100}")


def _check_settings(path: object, given: dict[str, Any]) -> None:
    """Raise unless the settings of a plan or of a run are objects without a vocabulary size."""
    for name in ("model", "training"):
        if not isinstance(given.get(name, {}), dict):
            raise ValueError(f"{path}: {name} must be an object of settings, got {given[name]!r:.100}")
    if {"vocab_size", "vocabulary"} & given.get("model", {}).keys():
        raise ValueError(f"{path}: vocab_size follows from the text; use tokens to limit it")


def _check_keys(path: object, given: Any, known: set[str], *, needed: set[str]) -> None:
    if not isinstance(given, dict):
        raise ValueError(f"{path}: expected an object with {', '.join(sorted(known))}, got {given!r:.100}")
    if set(given) - known or needed - set(given):
        unknown, missing = sorted(set(given) - known), sorted(needed - set(given))
        raise ValueError(
            f"{path}: unknown {unknown or 'nothing'}, missing {missing or 'nothing'}; known are {sorted(known)}"
        )
