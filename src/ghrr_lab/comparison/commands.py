"""``ghrr compare``: compare vector symbolic architectures at equal size."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from ghrr import models
from ghrr.checks import check_known, names_errors
from ghrr.cli import fail, need
from ghrr_lab.paper.commands import Dask, Jobs, Out, Seed, run_with_progress


def compare(  # noqa: PLR0917 (typer reads options from a signature)
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[MODELS]...", help="Names of models.  [default: all]")
    ] = None,
    experiment: Annotated[
        list[str] | None, typer.Option("--experiment", "-e", help="Run this experiment only; can be repeated.")
    ] = None,
    full: Annotated[bool, typer.Option("--full/--quick", help="Use many repetitions (full) or few (quick).")] = False,
    out: Out = Path("comparison"),
    seed: Seed = 0,
    jobs: Jobs = None,
    dask: Dask = None,
) -> None:
    """Compare models on bundles, records, sequences, trees, order, damage and time, and write a report.

    An interrupted run resumes from its finished trials. A later run with more models computes the new ones only.
    """
    need("paper")
    if dask is not None:
        need("cluster")
    from ghrr_lab import paper

    try:
        _check_names("model", names or [], models.MODELS)
        _check_names("experiment", experiment or [], paper.COMPARISONS)
    except ValueError as error:
        fail(error)
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


@names_errors("compare")
def _check_names(kind: str, names: list[str], known: Iterable[str]) -> None:
    for name in names:
        check_known(kind, name, known)
