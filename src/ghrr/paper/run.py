"""Running experiments: block by block, with reproducible numbers, to a folder with tables, a manifest and a report."""

from __future__ import annotations

import datetime
import difflib
import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch

import ghrr
from ghrr.files import atomic_write
from ghrr.paper.claims import EXPERIMENTS, judge
from ghrr.paper.experiment import Experiment, Finding
from ghrr.paper.report import render


@dataclass(frozen=True)
class Outcome:
    """What one experiment gave."""

    experiment: Experiment
    settings: Mapping[str, int]
    data: pd.DataFrame
    findings: list[Finding]
    seconds: float


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
    command: str = "",
    on_block: Callable[[Experiment], None] = lambda _: None,
) -> tuple[Path, list[Outcome]]:
    """Run experiments and write the report.

    Parameters
    ----------
    names
        Which experiments; none means all.
    out
        Folder for the report, ``index.html``, a CSV table per experiment and ``manifest.json``.
    size
        ``"quick"`` or ``"full"``.
    seed
        The same seed gives the same numbers.
    command
        Noted in the report, so that a reader can run it again.
    on_block
        Called after each block of work.

    Returns
    -------
    The path of the report, and the outcomes.
    """
    experiments = choose(names)
    out.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for experiment in experiments:
        outcomes.append(_run_one(experiment, size, seed, on_block))
        with atomic_write(out / f"{experiment.name}.csv") as path:
            outcomes[-1].data.to_csv(path, index=False, float_format="%.9g")
    manifest = _manifest(outcomes, size, seed, command)
    with atomic_write(out / "manifest.json") as path:
        path.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    report = out / "index.html"
    with atomic_write(report) as path:
        path.write_text(render(outcomes, manifest), encoding="utf-8")
    return report, outcomes


def _run_one(experiment: Experiment, size: str, seed: int, on_block: Callable[[Experiment], None]) -> Outcome:
    settings = experiment.settings[size]
    start = time.perf_counter()
    blocks = []
    for block in range(settings["blocks"]):
        generator = ghrr.Space(1, 1, seed=seed).generator(f"{experiment.name} {block}")
        blocks.append(experiment.run_block(settings, generator).assign(block=block))
        on_block(experiment)
    data = pd.concat(blocks, ignore_index=True)
    return Outcome(experiment, settings, data, judge(experiment.name, data, settings), time.perf_counter() - start)


def _manifest(outcomes: list[Outcome], size: str, seed: int, command: str) -> dict[str, object]:
    return {
        "command": command,
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "size": size,
        "seed": seed,
        "versions": {
            "ghrr": ghrr.__version__,
            "torch": torch.__version__,
            "pandas": pd.__version__,
            "python": platform.python_version(),
        },
        "experiments": [
            {
                "name": outcome.experiment.name,
                "settings": dict(outcome.settings),
                "rows": len(outcome.data),
                "seconds": round(outcome.seconds, 2),
                "claims": [
                    {
                        "where": finding.claim.where,
                        "says": finding.claim.says,
                        "verdict": finding.verdict,
                        "checks": [vars(check) for check in finding.checks],
                    }
                    for finding in outcome.findings
                ],
            }
            for outcome in outcomes
        ],
    }
