"""Running experiments to a folder: stored trials, a table and a figure for each, a manifest and the report."""

from __future__ import annotations

import datetime
import difflib
import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch

import ghrr
from ghrr.files import atomic_write, check_fields, read_json
from ghrr.paper.claims import EXPERIMENTS, judge_all
from ghrr.paper.compute import Task, compute
from ghrr.paper.experiment import STANDARD_ERRORS, Experiment, Finding, Settings
from ghrr.paper.journal import Journal, Trial
from ghrr.paper.report import render
from ghrr.paper.style import to_png, to_svg


@dataclass(frozen=True)
class Outcome:
    """What one experiment gave."""

    experiment: Experiment
    settings: Settings
    data: pd.DataFrame
    findings: list[Finding]
    seconds: float


@dataclass(frozen=True)
class Progress:
    """Told after each trial: the experiment, how many of its trials are done, and how many there are."""

    experiment: Experiment
    done: int
    total: int


def choose(names: Sequence[str]) -> list[Experiment]:
    """The experiments of these names, all when there is none; an unknown name raises, with the nearest known one."""
    for name in names:
        if name not in EXPERIMENTS:
            near = difflib.get_close_matches(name, EXPERIMENTS, n=1, cutoff=0.3)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(f"no experiment is called {name!r}: {hint}there are {', '.join(EXPERIMENTS)}")
    return [EXPERIMENTS[name] for name in dict.fromkeys(names)] or list(EXPERIMENTS.values())


def run(
    names: Sequence[str],
    out: Path,
    *,
    size: str = "quick",
    seed: int = 0,
    jobs: int = 1,
    dask: str | None = None,
    command: str = "",
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_notice: Callable[[str], None] = lambda _: None,
) -> tuple[Path, list[Outcome]]:
    """Run experiments and write the report.

    Each trial is stored as soon as it is done, under ``out/trials``. When a run is stopped, by an interrupt or a kill,
    the next one goes on where it was. The report shows all experiments of this size and seed that are finished in the
    folder.

    Parameters
    ----------
    names
        Which experiments; none means all.
    out
        Folder for the report, ``index.html``, a CSV table and a figure per experiment, and ``manifest.json``.
    size
        ``"quick"`` or ``"full"``.
    seed
        The same seed gives the same numbers, whatever ``jobs`` and ``dask``.
    jobs
        How many processes share the work.
    dask
        The address of a dask scheduler that does the work instead.
    command
        Noted in the report, so that a reader can run it again.
    on_progress, on_notice
        Called after each trial, and with a sentence for the user.

    Returns
    -------
    The path of the report, and the outcomes.
    """
    chosen = choose(names)
    out.mkdir(parents=True, exist_ok=True)
    notices = [_other_report(out, size, seed)]
    journals = {e.name: _journal(e, out, size, seed) for e in EXPERIMENTS.values()}
    params = {e.name: e.trials(e.settings[size]) for e in EXPERIMENTS.values()}
    done: dict[str, dict[int, Trial]] = {}
    tasks: list[Task] = []
    for experiment in chosen:
        name, settings = experiment.name, experiment.settings[size]
        notices.append(journals[name].open())
        done[name] = journals[name].trials()
        on_progress(Progress(experiment, len(done[name]), len(params[name])))
        todo = [n for n in range(len(params[name])) if n not in done[name]]
        tasks += [Task(name, settings, seed, n, params[name][n]) for n in todo]
    for notice in filter(None, notices):
        on_notice(notice)

    def collect(some: Sequence[Task], **where: Any) -> None:
        for task, trial in compute(some, **where):
            name = task.experiment
            journals[name].append(trial)
            done[name][task.number] = trial
            on_progress(Progress(EXPERIMENTS[name], len(done[name]), len(params[name])))

    collect([task for task in tasks if not EXPERIMENTS[task.experiment].alone], jobs=jobs, dask=dask)
    collect([task for task in tasks if EXPERIMENTS[task.experiment].alone])

    outcomes = []
    for experiment in EXPERIMENTS.values():
        trials = done.get(experiment.name)
        if trials is None and journals[experiment.name].path.exists():
            trials = journals[experiment.name].trials()  # finished by an earlier run
        settings = experiment.settings[size]
        if trials and len(trials) == len(params[experiment.name]):
            data = pd.concat([trials[n].table.assign(trial=n) for n in sorted(trials)], ignore_index=True)
            seconds = round(sum(trial.seconds for trial in trials.values()), 2)
            outcomes.append(Outcome(experiment, settings, data, judge_all(experiment.name, data, settings), seconds))
    for outcome in outcomes:
        with atomic_write(out / f"{outcome.experiment.name}.csv") as path:
            outcome.data.to_csv(path, index=False)
    about = {"command": command, "size": size, "seed": seed}
    return _write_report(out, outcomes, about | _circumstances()), outcomes


def plot(out: Path) -> tuple[Path, list[Outcome]]:
    """Draw the figures and the report in a folder again, from its tables, and judge the claims again.

    Nothing is computed. Raises ``ValueError`` where the folder does not hold the results of a run.
    """
    manifest = _read_manifest(out)
    outcomes = []
    for entry in manifest["experiments"]:
        experiment, settings = EXPERIMENTS[entry["name"]], entry["settings"]
        table = out / f"{experiment.name}.csv"
        try:
            data = pd.read_csv(table, keep_default_na=False, na_values=[""])
            if len(data) != entry["rows"]:
                raise ValueError(f"{len(data)} rows instead of {entry['rows']}")
            findings = judge_all(experiment.name, data, settings)
        except FileNotFoundError as error:
            raise ValueError(f"{out} has no {experiment.name}.csv any more: run ghrr paper run again") from error
        except (ArithmeticError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{table} is damaged, or of another version ({error}): ghrr paper run writes it again from the trials"
            ) from error
        outcomes.append(Outcome(experiment, settings, data, findings, entry["seconds"]))
    about = {key: value for key, value in manifest.items() if key != "experiments"}
    return _write_report(out, outcomes, about), outcomes


def _other_report(out: Path, size: str, seed: int) -> str:
    """A sentence where the folder holds the report of another size or seed, which this run replaces."""
    try:
        manifest = _read_manifest(out)
    except ValueError:
        return ""
    if (manifest.get("size"), manifest.get("seed")) == (size, seed):
        return ""
    return (
        f"{out} holds a report of size {manifest.get('size')} and seed {manifest.get('seed')}; this run replaces it, "
        "and its stored trials stay"
    )


def _journal(experiment: Experiment, out: Path, size: str, seed: int) -> Journal:
    path = out / "trials" / f"{size}-seed-{seed}" / f"{experiment.name}.jsonl"
    return Journal(path, experiment, experiment.settings[size], seed)


def _write_report(out: Path, outcomes: list[Outcome], about: dict[str, Any]) -> Path:
    manifest = about | {"standard_errors": STANDARD_ERRORS, "experiments": [_entry(outcome) for outcome in outcomes]}
    with atomic_write(out / "manifest.json") as path:
        path.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / "figures").mkdir(exist_ok=True)
    pictures = []
    for outcome in outcomes:
        figure = outcome.experiment.draw(outcome.data, outcome.settings)
        pictures.append(to_svg(figure))
        with atomic_write(out / "figures" / f"{outcome.experiment.name}.png") as path:
            path.write_bytes(to_png(figure))
    report = out / "index.html"
    with atomic_write(report) as path:
        path.write_text(render(list(zip(outcomes, pictures, strict=True)), manifest), encoding="utf-8")
    return report


def _circumstances() -> dict[str, Any]:
    return {
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": {
            "ghrr": ghrr.__version__,
            "torch": torch.__version__,
            "pandas": pd.__version__,
            "python": platform.python_version(),
        },
    }


def _entry(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.experiment.name,
        "settings": dict(outcome.settings),
        "rows": len(outcome.data),
        "seconds": outcome.seconds,
        "claims": [
            {
                "where": finding.claim.where,
                "says": finding.claim.says,
                "verdict": finding.verdict,
                "correction": finding.claim.correction,
                "comment": finding.claim.comment,
                "checks": [asdict(check) for check in finding.checks],
                "corrected": [asdict(check) for check in finding.corrected],
                "rejected": {name: [asdict(check) for check in checks] for name, checks in finding.rejected.items()},
            }
            for finding in outcome.findings
        ],
    }


_MANIFEST = {"command": str, "size": str, "seed": int, "made": str, "versions": dict, "experiments": list}
_ENTRY = {"name": str, "settings": dict, "rows": int, "seconds": float}


def _read_manifest(out: Path) -> dict[str, Any]:
    path = out / "manifest.json"
    try:
        manifest = check_fields("manifest", read_json(path, "plot"), _MANIFEST)
        entries = [check_fields(f"experiment {i}", entry, _ENTRY) for i, entry in enumerate(manifest["experiments"])]
    except FileNotFoundError as error:
        raise ValueError(f"{out} holds no results: there is no manifest.json; make them with ghrr paper run") from error
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is not a manifest of this program, or is damaged: {error}") from error
    for entry in entries:
        experiment = EXPERIMENTS.get(entry["name"])
        if experiment is None or entry["settings"].keys() != experiment.settings["quick"].keys():
            raise ValueError(f"{path} names experiments that this version does not have: run ghrr paper run again")
    return manifest
