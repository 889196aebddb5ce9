"""The command line: it parses, calls the library, and shows what comes back."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
from collections import Counter
from collections.abc import Sequence
from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import numpy as np
import torch
import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import ghrr

if TYPE_CHECKING:
    from ghrr import paper

app = typer.Typer(
    name="ghrr",
    help="Generalized Holographic Reduced Representations: compute with structured high-dimensional vectors.",
    no_args_is_help=True,
    add_completion=False,
)
paper_app = typer.Typer(help="Re-make the paper: figures, claims, verdicts.", no_args_is_help=True)
app.add_typer(paper_app, name="paper")
console = Console()

EXTRAS = {
    "cluster": ("dask", "distributed"),
    "fast": ("numba",),
    "paper": ("matplotlib", "pandas", "jinja2", "joblib"),
    "learn": ("sklearn",),
    "lm": ("tokenizers", "accelerate"),
    "index": ("faiss", "pymilvus"),
    "web": ("gradio",),
}

BIBTEX = """\
@article{yeung2024ghrr,
  title   = {Generalized Holographic Reduced Representations},
  author  = {Yeung, Calvin and Zou, Zhuowen and Jeong, SungHeon and Huang, Wenjun
             and Bastian, Nathaniel D. and Imani, Mohsen},
  journal = {arXiv preprint arXiv:2405.09689},
  year    = {2024}
}"""


def main() -> None:
    """Run the command line."""
    app()


def _fail(message: str) -> NoReturn:
    Console(stderr=True).print(f"[bold red]Error:[/] {escape(message)}", highlight=False, soft_wrap=True)
    raise typer.Exit(2)


def _need(extra: str) -> None:
    missing = [name for name in EXTRAS[extra] if importlib.util.find_spec(name) is None]
    if missing:
        _fail(f"this needs {', '.join(missing)}: pip install 'ghrr[{extra}]'")


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(ghrr.__version__)
        raise typer.Exit


# ---------------------------------------------------------------------------------------------------------------- demo


@app.command()
def demo() -> None:
    """A nested dictionary in one vector: read right, read from the wrong side, and read by FHRR."""
    story = {"home": {"home": "tea", "work": "coffee"}, "work": {"home": "laptop", "work": "desk"}}
    values = [value for inner in story.values() for value in inner.values()]
    console.print("\n[bold]One vector for a nested dictionary[/]\n")
    console.print_json(data=story)
    console.print(
        "\nEach pair is bound, key * value, and the pairs are bundled, level by level:\n"
        "  H = home * (home * tea + work * coffee) + work * (home * laptop + work * desk)\n"
        "A path is read by unbinding its keys from the left, outermost first. Same total dimension for both.\n",
        highlight=False,
    )
    ghrr_space, fhrr_space = ghrr.Space.from_total(3600, m=3), ghrr.Space.from_total(3600, m=1)
    for title, space, side in (
        ("GHRR, m = 3, read from the left", ghrr_space, "left"),
        ("FHRR, m = 1: the paths home.work and work.home look the same", fhrr_space, "left"),
        ("GHRR, m = 3, read from the wrong side", ghrr_space, "right"),
    ):
        console.print(_readings(title, story, values, space, side))
    console.print(
        f"A right answer scores about 1 and noise 0 ± {ghrr_space.noise_std:.3f} per item. A swapped path is left with "
        "about 1/m² = 0.11 in GHRR, but with 1 in FHRR.\n",
        highlight=False,
    )


def _readings(title: str, story: dict[str, dict[str, str]], values: list[str], space: ghrr.Space, side: str) -> Table:
    """Every path of the story read from one side, with the similarity to each value."""
    keys = dict(zip(story, space.atoms(*story), strict=True))
    atoms = dict(zip(values, space.atoms(*values), strict=True))
    inner = {key: reduce(add, [keys[k] * atoms[v] for k, v in pairs.items()]) for key, pairs in story.items()}
    whole = reduce(add, [keys[key] * inner[key] for key in story])
    table = Table(title=title, title_justify="left", title_style="bold", min_width=60)
    table.add_column("path")
    for value in values:
        table.add_column(value, justify="right")
    table.add_column("answer")
    for outer, pairs in story.items():
        for key, right in pairs.items():
            found = whole.unbind(keys[outer], side=side).unbind(keys[key], side=side)
            scores = {value: float(found.similarity(atom)) for value, atom in atoms.items()}
            answers = [value for value, score in scores.items() if score > 0.5]
            mark = "[green]✓[/]" if answers == [right] else "[red]✗[/]"
            answer = f"{mark} {' or '.join(answers) or 'nothing near 1'}"
            table.add_row(f"{outer}.{key}", *(f"{score:.2f}" for score in scores.values()), answer)
    return table


# ---------------------------------------------------------------------------------------------------------- info, cite


@app.command()
def info() -> None:
    """Versions, device, linear algebra and which extras are installed."""
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in _facts():
        table.add_row(f"[bold]{name}[/]", value)
    console.print(table, highlight=False)


def _facts() -> list[tuple[str, str]]:
    device = "CPU"
    if torch.cuda.is_available():
        device = f"{torch.cuda.get_device_name()} (CUDA {torch.version.cuda})"
    elif torch.mps.is_available():
        device = "Apple GPU"
    extras = []
    for extra, modules in EXTRAS.items():
        there = all(importlib.util.find_spec(module) for module in modules)
        extras.append(f"{extra} [green]yes[/]" if there else f"{extra} [dim]no[/]")
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("safetensors", "typer", "rich")]
    return [
        ("ghrr", ghrr.__version__),
        ("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        ("torch", f"{torch.__version__}, {torch.get_num_threads()} threads of {os.cpu_count()} cores"),
        ("NumPy", np.__version__),
        ("others", ", ".join(versions)),
        ("device", device),
        ("BLAS", "MKL" if torch.backends.mkl.is_available() else "not MKL"),  # type: ignore[no-untyped-call]
        ("extras", ", ".join(extras)),
    ]


@app.command()
def cite() -> None:
    """How to cite the paper, as BibTeX."""
    print(BIBTEX)


# --------------------------------------------------------------------------------------------------------------- paper


@paper_app.command("list")
def paper_list() -> None:
    """The experiments there are."""
    _need("paper")
    from ghrr import paper

    table = Table("name", "what it shows", "claims", box=box.SIMPLE_HEAD)
    table.columns[0].no_wrap = True
    table.columns[0].min_width = max(map(len, paper.EXPERIMENTS))
    for experiment in paper.EXPERIMENTS.values():
        count = sum(claim.experiment == experiment.name for claim in paper.CLAIMS)
        table.add_row(experiment.name, experiment.title, str(count))
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
    _need("paper")
    if dask is not None:
        _need("cluster")
    from ghrr import paper

    size = "full" if full else "quick"
    try:
        experiments = paper.choose(names or [])
    except ValueError as error:
        _fail(str(error))
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
                on_notice=lambda notice: progress.console.print(f"[yellow]Note:[/] {escape(notice)}.", soft_wrap=True),
            )
        except KeyboardInterrupt:
            console.print(f"Interrupted. {what_is_kept()}", soft_wrap=True, highlight=False, markup=False)
            raise typer.Exit(130) from None
        except (paper.ComputeError, ValueError) as error:
            _fail(f"{error}. {what_is_kept()}")
        except OSError as error:
            _fail(f"cannot write to {out}: {error.strerror or error}. {what_is_kept()}")
    _show_verdicts([outcome for outcome in outcomes if outcome.experiment.name in totals], report)


@paper_app.command("plot")
def paper_plot(
    out: Annotated[Path, typer.Option(help="Folder of an earlier run.")] = Path("report"),
) -> None:
    """Draw the figures and the report of an earlier run again, from its tables; nothing is computed."""
    _need("paper")
    from ghrr import paper

    try:
        report, outcomes = paper.plot(out)
    except ValueError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"cannot write to {out}: {error.strerror or error}")
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
                verdict = f"[{_COLOURS.get(finding.verdict, 'dim')}]{finding.verdict}[/]"
                table.add_row(outcome.experiment.name, finding.claim.says, verdict)
    else:
        counts = [Counter(finding.verdict for finding in outcome.findings) for outcome in outcomes]
        known = [verdict for verdict in (*_COLOURS, "not measured") if any(verdict in count for count in counts)]
        table = Table(
            "experiment",
            *(f"[{_COLOURS.get(verdict, 'dim')}]{verdict}[/]" for verdict in known),
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            collapse_padding=True,
        )
        for outcome, count in zip(outcomes, counts, strict=True):
            table.add_row(outcome.experiment.name, *(str(count[verdict] or "") for verdict in known))
        table.add_section()
        table.add_row("all", *(str(sum(count[verdict] for count in counts)) for verdict in known))
    table.columns[0].no_wrap = True
    table.columns[0].min_width = max(len(outcome.experiment.name) for outcome in outcomes)
    console.print(table)
    console.print(f"Report: {report.resolve()}", soft_wrap=True, highlight=False, markup=False)


if __name__ == "__main__":
    main()
