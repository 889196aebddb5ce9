"""``ghrr paper``: reproduce the results of the paper."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from ghrr.cli import console, escaped, fail, need, say

if TYPE_CHECKING:
    from ghrr_lab import paper
    from ghrr_lab.paper.experiment import Experiment, Verdict

paper_app = typer.Typer(help="Reproduce the figures and claims of the paper.", no_args_is_help=True)

Out = Annotated[Path, typer.Option(help="Folder for trials, tables, figures and the report.")]
Seed = Annotated[int, typer.Option(min=0, help="Random seed. The same seed gives the same numbers.")]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, help="Number of processes.  [default: number of cores]")
]
Dask = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Compute on the dask cluster at this address: tcp://host:port.")
]


@paper_app.command("list")
def paper_list() -> None:
    """List the experiments."""
    need("paper")
    from ghrr_lab import paper

    table = Table("name", "title", "claims", box=box.SIMPLE_HEAD)
    table.columns[0].no_wrap = True
    table.columns[0].min_width = max(map(len, paper.EXPERIMENTS))
    for experiment in paper.EXPERIMENTS.values():
        table.add_row(escaped(experiment.name), escaped(experiment.title), str(len(experiment.claims)))
    console.print(table)


@paper_app.command("run")
def paper_run(  # noqa: PLR0917 (typer reads options from a signature)
    names: Annotated[list[str] | None, typer.Argument(help="Names of experiments.  [default: all]")] = None,
    full: Annotated[
        bool, typer.Option("--full/--quick", help="Use the sizes of the paper (full) or smaller ones (quick).")
    ] = False,
    out: Out = Path("report"),
    seed: Seed = 0,
    jobs: Jobs = None,
    dask: Dask = None,
) -> None:
    """Run experiments and write the report. An interrupted run resumes from its finished trials."""
    need("paper")
    if dask is not None:
        need("cluster")
    from ghrr_lab import paper

    size = "full" if full else "quick"
    try:
        experiments = paper.select(names or [])
    except ValueError as error:
        fail(error)
    command = " ".join(["ghrr paper run", *(names or []), f"--{size}", f"--seed {seed}"])
    run_with_progress(experiments, out, size=size, seed=seed, jobs=jobs, dask=dask, command=command)


@paper_app.command("plot")
def paper_plot(
    out: Annotated[Path, typer.Option(help="Folder of an earlier run.")] = Path("report"),
) -> None:
    """Draw the figures and the report of an earlier run again from its tables, without computing trials."""
    need("paper")
    from ghrr_lab import paper

    try:
        report, outcomes = paper.plot(out)
    except ValueError as error:
        fail(error)
    except OSError as error:
        fail(f"cannot write to {out}: {error.strerror or error}")
    _show_verdicts(outcomes, report)


def run_with_progress(
    experiments: Sequence[Experiment],
    out: Path,
    *,
    size: str,
    seed: int,
    jobs: int | None,
    dask: str | None,
    command: str,
    keep: Callable[[Mapping[str, Any]], bool] = lambda _: True,
) -> None:
    """Run experiments, show their progress and their verdicts, and exit with a message if they are stopped."""
    from ghrr_lab import paper

    done: dict[str, int] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        totals = {e.name: sum(map(keep, e.trials(e.settings[size]))) for e in experiments}
        rows = {name: progress.add_task(name, total=total) for name, total in totals.items()}
        rows[""] = progress.add_task("[bold]all[/]", total=sum(totals.values()))

        def show(step: paper.RunProgress) -> None:
            done[step.experiment.name] = step.done
            progress.update(rows[step.experiment.name], completed=step.done)
            progress.update(rows[""], completed=sum(done.values()))

        def describe_stored() -> str:
            progress.stop()
            if not sum(done.values()):
                return "No trials were computed."
            return (
                f"{sum(done.values())} of {sum(totals.values())} trials are stored in {out / 'trials'}; run the same "
                "command again to continue."
            )

        try:
            report, outcomes = paper.run(
                list(totals),
                out,
                size=size,
                seed=seed,
                jobs=jobs or os.cpu_count() or 1,
                dask=dask,
                command=command,
                keep=keep,
                on_progress=show,
                on_notice=lambda notice: say(Text("Note:", "yellow"), " ", escaped(notice), "."),
            )
        except KeyboardInterrupt:
            say("Interrupted. ", escaped(describe_stored()))
            raise typer.Exit(130) from None
        except (paper.ComputeError, ValueError) as error:
            fail(f"{error}. {describe_stored()}")
        except OSError as error:
            fail(f"cannot write to {out}: {error.strerror or error}. {describe_stored()}")
    _show_verdicts(outcomes, report)


_COLOURS: dict[Verdict, str] = {
    "reproduced": "green",
    "consistent": "cyan",
    "partly": "yellow",
    "erratum": "magenta",
    "not reproduced": "red",
    "not measured": "dim",
}


def _show_verdicts(outcomes: Sequence[paper.Outcome], report: Path) -> None:
    """Show the verdict on each claim; for more than three experiments, only the number of each verdict."""
    if len(outcomes) <= 3:
        table = Table("experiment", "claim", "verdict")
        for outcome in outcomes:
            for finding in outcome.findings:
                verdict = escaped(finding.verdict, _COLOURS[finding.verdict])
                table.add_row(escaped(outcome.experiment.name), escaped(finding.claim.says), verdict)
    else:
        counts = [Counter(finding.verdict for finding in outcome.findings) for outcome in outcomes]
        verdicts = [verdict for verdict in _COLOURS if any(verdict in count for count in counts)]
        table = Table(
            "experiment",
            *(Column(escaped(verdict, _COLOURS[verdict])) for verdict in verdicts),
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            collapse_padding=True,
        )
        for outcome, count in zip(outcomes, counts, strict=True):
            table.add_row(escaped(outcome.experiment.name), *(str(count[verdict] or "") for verdict in verdicts))
        table.add_section()
        table.add_row("all", *(str(sum(count[verdict] for count in counts)) for verdict in verdicts))
    table.columns[0].no_wrap = True
    table.columns[0].min_width = max(len(outcome.experiment.name) for outcome in outcomes)
    console.print(table)
    say("Report: ", escaped(report.resolve()))
