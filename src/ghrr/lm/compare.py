"""Many runs of one plan, side by side, gathered in one file.

A plan is a JSON object::

    {"dataset": "ptb", "tokens": {}, "parameters": 5740000,
     "model": {"layers": 6}, "training": {"epochs": 30},
     "runs": [{"label": "vanilla", "model": {"attention": "vanilla"}, "seeds": [0, 1]},
              {"label": "ghrr-feature", "variant": "all fixed", "model": {"window": 3}, "seeds": [0, 1]}]}

What ``model`` and ``training`` hold at the top is common to all runs. With ``parameters`` the feed-forward width of
each model is chosen so that all have that many. ``tokens`` may hold ``limit`` (words) or ``bpe`` (size).
"""

from __future__ import annotations

import functools
import json
import math
import multiprocessing
import os
import shlex
import statistics
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ghrr.files import atomic_write
from ghrr.lm.corpora import load_corpus
from ghrr.lm.model import ModelConfig, config_from, match_parameters
from ghrr.lm.text import Text, encode_corpus
from ghrr.lm.train import TrainConfig, train

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
        """Its name on disk."""
        tokens = " ".join(f"{name} {size}" for name, size in self.tokens.items())
        words = f"{self.dataset} {tokens} {self.label} {self.variant} {self.training['seed']}"
        return "-".join("".join(c if c.isalnum() else " " for c in words).split())

    @property
    def command(self) -> str:
        """The command that does this run alone."""
        words = ["ghrr", "lm", "train", self.dataset, "--out", f"runs/{self.folder}"]
        words += [f"--{name}={size}" for name, size in self.tokens.items()]
        words += [f"--params={self.parameters}"] if self.parameters else []
        for settings in (self.model, self.training):
            words += [f"--set={name}={json.dumps(value)}" for name, value in settings.items()]
        return shlex.join(words)


def read_plan(path: str | os.PathLike[str]) -> list[PlannedRun]:
    """The runs of a plan, one seed after the other, so that what is compiled for one serves the next."""
    try:
        plan = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: this is not JSON: {error}") from error
    _check_keys(path, plan, _PLAN, needed={"dataset", "runs"})
    _check_keys(path, plan.get("tokens", {}), {"bpe", "limit"}, needed=set())
    if not isinstance(plan["runs"], list) or not plan["runs"]:
        raise ValueError(f"{path}: runs must be a list of at least one run")
    runs: list[PlannedRun] = []
    for run in plan["runs"]:
        _check_keys(path, run, _RUN, needed={"label", "seeds"})
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
    for run in runs:  # a plan with a mistake in its last run fails before the first
        try:
            TrainConfig(**run.training)
            config_from({"vocabulary": 1, **run.model})
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: {run.label}: {error}") from error
    names = [run.folder for run in runs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{path}: {twice[0]} is planned twice; give the runs different labels or variants")
    order: dict[str, int] = {}
    for run in runs:
        order.setdefault(f"{run.label} {run.variant}", len(order))
    return sorted(runs, key=lambda run: (run.training["seed"], order[f"{run.label} {run.variant}"]))


def compare(
    plan: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    summary: str | os.PathLike[str],
    data: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    device: str | None = None,
    on_result: Callable[[dict[str, Any], int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Do the runs of a plan in ``jobs`` processes and add each result to the JSON file ``summary`` as it comes.

    Runs that are in ``out`` already, finished or not, are taken up where they are.

    Parameters
    ----------
    plan
        A file, see the head of this module.
    out
        Folder for the runs.
    summary
        ``{"runs": [...]}``, one object per run.
    data
        Folder of the corpus.
    jobs
        Processes side by side; they share the device.
    device
        As in :func:`train`.
    on_result
        Called with each result, how many there are and how many there will be.
    """
    runs = read_plan(plan)
    results: list[dict[str, Any]] = []
    work = functools.partial(_do, Path(out), None if data is None else os.fspath(data), device)
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            for future in as_completed([pool.submit(work, run) for run in runs]):
                results.append(future.result())
                add_results(summary, results[-1:])
                if on_result is not None:
                    on_result(results[-1], len(results), len(runs))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return results


def add_results(path: str | os.PathLike[str], results: list[dict[str, Any]]) -> None:
    """Add results to a summary; those of the same run take the place of earlier ones."""
    target = Path(path)
    there = json.loads(target.read_text(encoding="utf-8"))["runs"] if target.exists() else []
    keyed = {_key(run): run for run in [*there, *results]}
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(target) as temporary:
        lines = ",\n".join(json.dumps(keyed[key]) for key in sorted(keyed))
        temporary.write_text(f'{{"runs": [\n{lines}\n]}}\n', encoding="utf-8")


def average(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per configuration: how many seeds, and mean and standard deviation of the perplexities.

    Examples
    --------
    >>> from ghrr.lm.compare import average
    >>> common = {"dataset": "ptb", "attention": "rope", "variant": "", "params": 5, "tokens_per_s": 7}
    >>> row, = average([{**common, "seed": seed, "valid_ppl": 1.0, "test_ppl": 2.0 + seed} for seed in range(3)])
    >>> row["seeds"], row["test_ppl"], row["test_std"]
    (3, 3.0, 1.0)
    """
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault(_key(run)[:3], []).append(run)
    rows = []
    for (dataset, attention, variant), members in groups.items():
        valid, test = ([run[name] for run in members] for name in ("valid_ppl", "test_ppl"))
        rows.append(
            {
                "dataset": dataset,
                "attention": attention,
                "variant": variant,
                "seeds": len(members),
                "params": members[0]["params"],
                "valid_ppl": statistics.mean(valid),
                "test_ppl": statistics.mean(test),
                "test_std": statistics.stdev(test) if len(test) > 1 else math.nan,
                "tokens_per_s": round(statistics.median(run["tokens_per_s"] or 0 for run in members)),
            }
        )
    return rows


def markdown_table(runs: list[dict[str, Any]]) -> str:
    """One line per configuration with all that :func:`average` says of it, and the command of its first seed.

    Examples
    --------
    >>> from ghrr.lm import markdown_table
    >>> run = {"dataset": "ptb", "attention": "rope", "variant": "", "seed": 0, "params": 5000, "tokens_per_s": 7000}
    >>> print(markdown_table([{**run, "valid_ppl": 9.0, "test_ppl": 8.0, "command": "ghrr lm train ptb"}]))
    | data | attention | variant | seeds | parameters | valid | test | tokens/s | command (first seed) |
    |---|---|---|---|---|---|---|---|---|
    | ptb | rope |  | 1 | 5,000 | 9.00 | 8.00 | 7,000 | `ghrr lm train ptb` |
    """
    names = ("data", "attention", "variant", "seeds", "parameters", "valid", "test", "tokens/s", "command (first seed)")
    lines = [names, ("---",) * len(names)]
    for row in average(runs):
        chosen = tuple(row[name] for name in ("dataset", "attention", "variant"))
        first = min((run for run in runs if _key(run)[:3] == chosen), key=lambda run: int(run["seed"]))
        test = f"{row['test_ppl']:.2f}" + (f" ± {row['test_std']:.2f}" if row["seeds"] > 1 else "")
        numbers = (f"{row['params']:,}", f"{row['valid_ppl']:.2f}", test, f"{row['tokens_per_s']:,}")
        lines.append((*chosen, str(row["seeds"]), *numbers, f"`{first['command']}`"))
    cells = [["---" if cell == "---" else f" {cell} ".replace("|", r"\|") for cell in line] for line in lines]
    return "\n".join(f"|{'|'.join(line)}|" for line in cells)


def _key(run: dict[str, Any]) -> tuple[str, str, str, int]:
    return (run["dataset"], run["attention"], run["variant"], run["seed"])


def _do(out: Path, data: str | None, device: str | None, run: PlannedRun) -> dict[str, Any]:
    text = _text(run.dataset, data, tuple(sorted(run.tokens.items())))
    config = config_from({"vocabulary": text.tokens.size, **run.model})
    if run.parameters is not None:
        config = match_parameters(config, run.parameters)
    training = TrainConfig(**run.training)
    result = train(config, training, text, out / run.folder, device=device, resume=True, command=run.command)
    return {**_described(run, config, training), **result}


def _described(run: PlannedRun, config: ModelConfig, training: TrainConfig) -> dict[str, Any]:
    ghrr = config.attention.startswith("ghrr")
    return {
        "attention": run.label,
        "variant": run.variant,
        "position_sharing": config.position_sharing if ghrr else None,
        "position_trainable": config.position_trainable if ghrr else None,
        "phases_trainable": config.phases_trainable if ghrr else None,
        "dropout": config.dropout,
        "learning_rate": training.learning_rate,
        "epochs": training.epochs,
    }


@functools.lru_cache(maxsize=1)
def _text(dataset: str, data: str | None, tokens: tuple[tuple[str, int], ...]) -> Text:
    sizes = dict(tokens)
    return encode_corpus(load_corpus(dataset, data), limit=sizes.get("limit"), bpe=sizes.get("bpe"))


def _check_keys(path: object, given: Any, known: set[str], *, needed: set[str]) -> None:
    if not isinstance(given, dict):
        raise ValueError(f"{path}: expected an object with {', '.join(sorted(known))}, got {given!r:.100}")
    if set(given) - known or needed - set(given):
        unknown, missing = sorted(set(given) - known), sorted(needed - set(given))
        raise ValueError(
            f"{path}: unknown {unknown or 'nothing'}, missing {missing or 'nothing'}; known are {sorted(known)}"
        )
