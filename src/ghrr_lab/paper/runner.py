"""Run experiments: compute trials, test claims, and write tables, figures, a manifest and the report to a folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ghrr.checks import names_errors, value_error, without_name
from ghrr.files import atomic_write, read_bytes
from ghrr_lab.paper.execution import Task, run_tasks
from ghrr_lab.paper.experiment import Experiment, Outcome, Params, judge_all
from ghrr_lab.paper.journal import Journal, Trial
from ghrr_lab.paper.manifest import describe, describe_environment, read_manifest, reusable_entries
from ghrr_lab.paper.registry import ALL, select
from ghrr_lab.paper.report import render
from ghrr_lab.paper.statistics import STANDARD_ERRORS
from ghrr_lab.paper.style import to_png, to_svg


@dataclass(frozen=True)
class RunProgress:
    """Progress of one experiment: number of finished trials and of all trials.

    Examples
    --------
    >>> from ghrr_lab import paper
    >>> progress = paper.RunProgress(paper.EXPERIMENTS["fixed-vs-varying"], done=3, total=10)
    >>> f"{progress.experiment.name}: {progress.done} of {progress.total}"
    'fixed-vs-varying: 3 of 10'
    """

    experiment: Experiment
    done: int
    total: int


@names_errors("paper.run")
def run(
    names: Sequence[str],
    out: Path,
    *,
    size: str = "quick",
    seed: int = 0,
    jobs: int = 1,
    dask: str | None = None,
    command: str = "",
    keep: Callable[[Params], bool] = lambda _: True,
    on_progress: Callable[[RunProgress], None] = lambda _: None,
    on_notice: Callable[[str], None] = lambda _: None,
) -> tuple[Path, list[Outcome]]:
    """Run experiments and write the report.

    Each trial is stored under ``out/trials`` as soon as it is finished. A run that was interrupted or killed resumes
    from the stored trials. The report also shows the experiments that an earlier run with the same size, seed and code
    wrote to the folder; they are neither imported nor computed again.

    Parameters
    ----------
    names
        Names of the experiments. An empty sequence means all of the paper.
    out
        Folder for the report ``index.html``, for ``manifest.json``, and for a CSV table and a figure per experiment.
    size
        ``"quick"`` or ``"full"``.
    seed
        Results depend only on the seed, not on ``jobs`` or ``dask``.
    jobs
        Number of processes.
    dask
        Address of a dask scheduler whose workers compute the trials instead.
    command
        The command to show in the report.
    keep
        Which trials to compute, by their parameters: for example the trials of some models. The others are left out.
    on_progress, on_notice
        Callbacks, called after each trial, and with messages for the user.

    Returns
    -------
    The path of the report, and the outcomes of the experiments that were run.

    Raises
    ------
    ValueError
        If a name is unknown, or ``out`` has no earlier run and a file that the report would overwrite.
    ComputeError
        If worker processes die, or the dask cluster cannot be used. Finished trials remain stored.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from ghrr_lab import paper
    >>> report, outcomes = paper.run(["fixed-vs-varying"], Path(tempfile.mkdtemp()))
    >>> report.name, [finding.verdict for finding in outcomes[0].findings]
    ('index.html', ['reproduced'])
    """
    experiments = {experiment.name: experiment for experiment in select(names)}
    _check_folder(out, experiments)
    out.mkdir(parents=True, exist_ok=True)
    earlier, notices = reusable_entries(out, size, seed, except_for=experiments)
    earlier = {name: entry for name, entry in earlier.items() if _figure_path(out, name, "svg").is_file()}
    journals: dict[str, Journal] = {}
    # Trials keep their numbers even if others are left out, because their random numbers depend on them.
    params = {name: chosen_trials(experiment, size, keep) for name, experiment in experiments.items()}
    finished: dict[str, dict[int, Trial]] = {}
    tasks: list[Task] = []
    for name, experiment in experiments.items():
        settings = experiment.settings[size]
        journals[name] = Journal(out / "trials" / f"{size}-seed-{seed}" / f"{name}.jsonl", experiment, settings, seed)
        notices.append(journals[name].open())
        finished[name] = {n: trial for n, trial in journals[name].trials().items() if n in params[name]}
        on_progress(RunProgress(experiment, len(finished[name]), len(params[name])))
        missing = [number for number in params[name] if number not in finished[name]]
        tasks += [Task(name, settings, seed, number, params[name][number]) for number in missing]
    for notice in filter(None, notices):
        on_notice(notice)

    def compute(chosen: Sequence[Task], **where: Any) -> None:
        for task, trial in run_tasks(chosen, **where):
            name = task.experiment
            journals[name].append(trial)
            finished[name][task.number] = trial
            on_progress(RunProgress(experiments[name], len(finished[name]), len(params[name])))

    compute([task for task in tasks if not experiments[task.experiment].exclusive], jobs=jobs, dask=dask)
    compute([task for task in tasks if experiments[task.experiment].exclusive])

    outcomes = []
    for name, experiment in experiments.items():
        trials = [finished[name][number] for number in sorted(finished[name])]
        data = pd.concat([trial.table.assign(trial=trial.number) for trial in trials], ignore_index=True)
        with atomic_write(out / f"{name}.csv") as path:
            data.to_csv(path, index=False)
        seconds = round(sum(trial.seconds for trial in trials), 2)
        outcomes.append(judge_all(experiment, experiment.settings[size], data, seconds))
    entries = earlier | {outcome.experiment.name: describe(outcome) for outcome in outcomes}
    about = {"command": command, "size": size, "seed": seed} | describe_environment()
    return _write_report(out, outcomes, entries, about), outcomes


def _check_folder(out: Path, names: Iterable[str]) -> None:
    """Raise ValueError if a report would overwrite a file that no earlier run wrote."""
    if any(out.glob("trials/*/*.jsonl")):
        return
    figures = [_figure_path(out, name, suffix) for name in names for suffix in ("svg", "png")]
    files = [out / "index.html", out / "manifest.json", *(out / f"{name}.csv" for name in names), *figures]
    found = next((path for path in files if os.path.lexists(path)), None)
    if found is None:
        return
    try:
        read_manifest(out)
    except ValueError:
        raise value_error(
            f"{out} has no earlier run, and its file {found.relative_to(out)} would be overwritten; choose "
            f"another folder"
        ) from None


def chosen_trials(experiment: Experiment, size: str, keep: Callable[[Params], bool]) -> dict[int, Params]:
    """Return the parameters of the trials to compute, by number."""
    return {n: params for n, params in enumerate(experiment.trials(experiment.settings[size])) if keep(params)}


@names_errors("paper.plot")
def plot(out: Path) -> tuple[Path, list[Outcome]]:
    """Test the claims and draw the report in a folder again, from its tables, without computing trials.

    Raises
    ------
    ValueError
        If the folder does not contain the results of a run, or they are damaged.

    Examples
    --------
    >>> from pathlib import Path
    >>> from ghrr_lab import paper
    >>> paper.plot(Path("missing"))
    Traceback (most recent call last):
    ValueError: missing has no manifest.json with results; create them with ghrr paper run
    """
    manifest = read_manifest(out)
    outcomes, entries = [], {}
    for entry in manifest["experiments"]:
        experiment, settings = ALL[entry["name"]], entry["settings"]
        table = out / f"{experiment.name}.csv"
        try:
            if settings.keys() != experiment.settings["quick"].keys():
                raise ValueError(f"its settings are {', '.join(settings)}")
            data = pd.read_csv(table, keep_default_na=False, na_values=[""])
            if len(data) != entry["rows"]:
                raise ValueError(f"got {len(data)} rows, expected {entry['rows']}")
            outcome = judge_all(experiment, settings, data, entry["seconds"])
        except FileNotFoundError as error:
            raise ValueError(f"{out} has no {experiment.name}.csv; run ghrr paper run again") from error
        except (ArithmeticError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{table} is damaged or from another version ({without_name(error)}); ghrr paper run writes it again"
            ) from error
        outcomes.append(outcome)
        entries[experiment.name] = describe(outcome) | {"code": entry.get("code", "")}
    about = {key: value for key, value in manifest.items() if key != "experiments"}
    return _write_report(out, outcomes, entries, about), outcomes


def _figure_path(out: Path, name: str, suffix: str) -> Path:
    return out / "figures" / f"{name}.{suffix}"


def _write_report(out: Path, outcomes: list[Outcome], entries: dict[str, Any], about: dict[str, Any]) -> Path:
    """Draw the figures of the outcomes, then write the manifest and the report of all entries."""
    (out / "figures").mkdir(exist_ok=True)
    for outcome in outcomes:
        figure = outcome.experiment.draw(outcome.data, outcome.settings)
        for suffix, content in (("svg", to_svg(figure).encode()), ("png", to_png(figure))):
            with atomic_write(_figure_path(out, outcome.experiment.name, suffix)) as path:
                path.write_bytes(content)
    ordered = {name: entries[name] for name in ALL if name in entries}
    manifest = about | {"standard_errors": STANDARD_ERRORS, "experiments": list(ordered.values())}
    figures = {name: read_bytes(_figure_path(out, name, "svg")) for name in ordered}
    with atomic_write(out / "manifest.json") as path:
        path.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    report = out / "index.html"
    with atomic_write(report) as path:
        path.write_text(render(manifest, figures), encoding="utf-8")
    return report
