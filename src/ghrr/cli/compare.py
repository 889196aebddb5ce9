"""``ghrr compare``: compare vector symbolic architectures at equal size."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated

import typer

from ghrr import models
from ghrr.cli.paper import run_with_progress
from ghrr.cli.shared import fail, need


def compare(  # noqa: PLR0917 (typer reads options from a signature)
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[MODELS]...", help="Names of models.  [default: all]")
    ] = None,
    experiment: Annotated[
        list[str] | None, typer.Option("--experiment", "-e", help="Run this experiment only; can be repeated.")
    ] = None,
    full: Annotated[bool, typer.Option("--full/--quick", help="Use many repetitions (full) or few (quick).")] = False,
    out: Annotated[Path, typer.Option(help="Folder for trials, tables, figures and the report.")] = Path("comparison"),
    seed: Annotated[int, typer.Option(min=0, help="Random seed. The same seed gives the same numbers.")] = 0,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Number of processes.  [default: number of cores]")
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Compute on the dask cluster at this address: tcp://host:port."),
    ] = None,
) -> None:
    """Compare models on bundles, records, sequences, trees, order, damage and time, and write a report.

    An interrupted run resumes from its finished trials. A later run with more models computes the new ones only.
    """
    need("paper")
    if dask is not None:
        need("cluster")
    from ghrr import paper

    for name in names or []:
        if name not in models.MODELS:
            similar = difflib.get_close_matches(name, models.MODELS, n=1)
            hint = f"did you mean {similar[0]!r}? " if similar else ""
            fail(f"unknown model {name!r}; {hint}Models: {', '.join(models.MODELS)}")
    for name in experiment or []:
        if name not in paper.COMPARISONS:
            similar = difflib.get_close_matches(name, paper.COMPARISONS, n=1, cutoff=0.3)
            hint = f"did you mean {similar[0]!r}? " if similar else ""
            fail(f"unknown experiment {name!r}; {hint}Experiments: {', '.join(paper.COMPARISONS)}")
    size, chosen = "full" if full else "quick", set(names or models.MODELS)
    experiments = paper.select(experiment or list(paper.COMPARISONS))
    experiments = [e for e in experiments if any(t["model"] in chosen for t in e.trials(e.settings[size]))]
    if not experiments:
        fail(f"none of these experiments has a trial of {', '.join(sorted(chosen))}; choose other models")
    options = [f"--experiment {name}" for name in experiment or []]
    command = " ".join(["ghrr compare", *(names or []), *options, f"--{size}", f"--seed {seed}"])
    run_with_progress(
        experiments,
        out,
        size=size,
        seed=seed,
        jobs=jobs,
        dask=dask,
        command=command,
        keep=lambda params: params["model"] in chosen,
    )
