"""``ghrr paper``: re-make the paper's results."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from ghrr.cli.shared import console, fail, foreign, need, say

if TYPE_CHECKING:
    from ghrr import paper

paper_app = typer.Typer(help="Re-make the paper: figures, claims, verdicts.", no_args_is_help=True)


@paper_app.command("list")
def paper_list() -> None:
    """The experiments there are."""
    need("paper")
    from ghrr import paper

    table = Table("name", "what it shows", "claims", box=box.SIMPLE_HEAD)
    table.columns[0].no_wrap = True
    table.columns[0].min_width = max(map(len, paper.EXPERIMENTS))
    for experiment in paper.EXPERIMENTS.values():
        count = sum(claim.experiment == experiment.name for claim in paper.CLAIMS)
        table.add_row(foreign(experiment.name), foreign(experiment.title), str(count))
    console.print(table)


@paper_app.command("run")
def paper_run(  # noqa: PLR0917 (typer reads options from a signature)
    names: Annotated[list[str] | None, typer.Argument(help="Experiments to run; all when none is named.")] = None,
    full: Annotated[bool, typer.Option("--full/--quick", help="The paper's sizes, or smaller ones.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for trials, tables, figures and the report.")] = Path("report"),
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same numbers.")] = 0,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", min=1, help="Processes that share the work; else one per core."),
    ] = None,
    dask: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Use the workers of this dask scheduler, tcp://host:port.")
    ] = None,
) -> None:
    """Run experiments and write the report. A run that was stopped goes on where it was."""
    need("paper")
    if dask is not None:
        need("cluster")
    from ghrr import paper

    size = "full" if full else "quick"
    try:
        experiments = paper.choose(names or [])
    except ValueError as error:
        fail(error)
    command = " ".join(["ghrr paper run", *(names or []), f"--{size}", f"--seed {seed}"])
    stored: dict[str, int] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        totals = {e.name: len(e.trials(e.settings[size])) for e in experiments}
        rows = {name: progress.add_task(name, total=total) for name, total in totals.items()}
        rows[""] = progress.add_task("[bold]all[/]", total=sum(totals.values()))

        def show(step: paper.Progress) -> None:
            stored[step.experiment.name] = step.done
            progress.update(rows[step.experiment.name], completed=step.done)
            progress.update(rows[""], completed=sum(stored.values()))

        def what_is_kept() -> str:
            progress.stop()
            if not sum(stored.values()):
                return "Nothing was computed yet."
            return (
                f"{sum(stored.values())} of {sum(totals.values())} trials are stored in {out / 'trials'}; the same "
                "command goes on from there."
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
                on_progress=show,
                on_notice=lambda notice: say(Text("Note:", "yellow"), " ", foreign(notice), "."),
            )
        except KeyboardInterrupt:
            say("Interrupted. ", foreign(what_is_kept()))
            raise typer.Exit(130) from None
        except (paper.ComputeError, ValueError) as error:
            fail(f"{error}. {what_is_kept()}")
        except OSError as error:
            fail(f"cannot write to {out}: {error.strerror or error}. {what_is_kept()}")
    _show_verdicts([outcome for outcome in outcomes if outcome.experiment.name in totals], report)


@paper_app.command("plot")
def paper_plot(
    out: Annotated[Path, typer.Option(help="Folder of an earlier run.")] = Path("report"),
) -> None:
    """Draw the figures and the report of an earlier run again, from its tables; nothing is computed."""
    need("paper")
    from ghrr import paper

    try:
        report, outcomes = paper.plot(out)
    except ValueError as error:
        fail(error)
    except OSError as error:
        fail(f"cannot write to {out}: {error.strerror or error}")
    _show_verdicts(outcomes, report)


_COLOURS = {
    "reproduced": "green",
    "consistent": "cyan",
    "partly": "yellow",
    "erratum": "magenta",
    "not reproduced": "red",
}


def _show_verdicts(outcomes: Sequence[paper.Outcome], report: Path) -> None:
    """Claim by claim for a few experiments; for many, how often each verdict was given."""
    if len(outcomes) <= 3:
        table = Table("experiment", "claim", "verdict")
        for outcome in outcomes:
            for finding in outcome.findings:
                verdict = foreign(finding.verdict, _COLOURS.get(finding.verdict, "dim"))
                table.add_row(foreign(outcome.experiment.name), foreign(finding.claim.says), verdict)
    else:
        counts = [Counter(finding.verdict for finding in outcome.findings) for outcome in outcomes]
        known = [verdict for verdict in (*_COLOURS, "not measured") if any(verdict in count for count in counts)]
        table = Table(
            "experiment",
            *(Column(foreign(verdict, _COLOURS.get(verdict, "dim"))) for verdict in known),
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            collapse_padding=True,
        )
        for outcome, count in zip(outcomes, counts, strict=True):
            table.add_row(foreign(outcome.experiment.name), *(str(count[verdict] or "") for verdict in known))
        table.add_section()
        table.add_row("all", *(str(sum(count[verdict] for count in counts)) for verdict in known))
    table.columns[0].no_wrap = True
    table.columns[0].min_width = max(len(outcome.experiment.name) for outcome in outcomes)
    console.print(table)
    say("Report: ", foreign(report.resolve()))
