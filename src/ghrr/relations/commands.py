"""``ghrr relations``: train, evaluate and query models of knowledge graphs."""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ghrr import relations
from ghrr.cli.output import ERRORS, console, escaped, fail, parse_settings, say, stop_training
from ghrr.relations import RelationConfig, RelationProgress

relations_app = typer.Typer(help="Train, evaluate and query models of knowledge graphs.", no_args_is_help=True)

Data = Annotated[Path, typer.Argument(help="Folder with train.txt, valid.txt, test.txt: head<TAB>relation<TAB>tail.")]
Run = Annotated[Path, typer.Argument(help="Folder of a trained run, or a file of a model.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@relations_app.command("train")
def relations_train(  # noqa: PLR0917 (typer reads options from a signature)
    data: Data,
    out: Annotated[Path, typer.Option(help="New folder for the run.")],
    m: Annotated[int | None, typer.Option(help="Size of the matrix in each slot; 1 is ComplEx.")] = None,
    dim: Annotated[int | None, typer.Option(help="Number of slots. An entity has dim * m * m complex numbers.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training triples.")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed of the run.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Setting of RelationConfig. Repeatable."),
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda. Default: the GPU if there is one.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in the folder from its last checkpoint.")
    ] = False,
) -> None:
    """Train a model on a knowledge graph. To continue an interrupted run, add --resume; the result is the same."""
    shortcuts = {"m": m, "dim": dim, "epochs": epochs, "seed": seed}
    columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[shown]}"))
    try:
        config = _config(settings or [], {name: value for name, value in shortcuts.items() if value is not None})
        graph = relations.load_graph(data)
        with Progress(*columns, TimeRemainingColumn(), console=console) as bar:
            task = bar.add_task("training", total=None, shown="", visible=False)
            shown = {"loss": "", "valid": ""}

            def show(progress: relations.RelationProgress) -> None:
                if not console.is_terminal:
                    _log(progress, config.epochs)
                    return
                if progress.loss is not None:
                    shown["loss"] = f"loss {progress.loss:.3f}"
                if progress.valid_mrr is not None:
                    shown["valid"] = f"valid MRR {progress.valid_mrr:.3f}"
                trial = "" if progress.trial is None else f"trial of regularizer_weight={progress.trial:.2g} "
                text = trial + " ".join(shown.values())
                bar.update(task, completed=progress.step, total=progress.total_steps, shown=text, visible=True)

            result = relations.train(
                graph,
                config,
                out,
                device=device,
                resume=resume,
                on_progress=show,
                command=shlex.join(["ghrr", *sys.argv[1:]]),
            )
    except KeyboardInterrupt:
        stop_training(out)
    except ERRORS as error:
        fail(error)
    _show({"graph": result["name"], "split": "test", **result["test"]})


@relations_app.command("eval")
def relations_eval(
    run: Run,
    data: Data,
    split: Annotated[str, typer.Option(help="train, valid or test.")] = "test",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    as_json: Json = False,
) -> None:
    """Compute filtered MRR and hits at 1, 3 and 10 of a trained model."""
    try:
        model = relations.load_model(run, device=device)
        graph = relations.load_graph(data, like=model)
        metrics = relations.evaluate(model, graph, split)
    except ERRORS as error:
        fail(error)
    row = {"graph": graph.name, "split": split, "triples": len(metrics.ranks), **metrics.summary()}
    if as_json:
        print(json.dumps(row))
    else:
        _show(row)


@relations_app.command("predict")
def relations_predict(  # noqa: PLR0917
    run: Run,
    head: Annotated[str, typer.Argument(help="Name of an entity.")],
    path: Annotated[
        list[str],
        typer.Argument(help="A relation, or a path of relations. ~NAME is the reciprocal of NAME."),
    ],
    k: Annotated[int, typer.Option("--top", min=1, help="Number of answers.")] = 5,
    data: Annotated[
        Path | None, typer.Option(help="Leave out answers that are triples of this folder; not for a path.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Predict the tails of a head and a relation, with their probabilities, or the tails of a path of relations.

    Probabilities are calibrated for questions whose known answers are left out with --data, and not for paths.
    """
    try:
        model = relations.load_model(run)
        known = None if data is None else relations.load_graph(data, like=model)
        matches = relations.predict(model, head, path, k=k, known=known)
    except ERRORS as error:
        fail(error)
    rows = [
        {"answer": match.guess, "score": match.score, "probability": match.probability, "confident": match.confident}
        for match in matches
    ]
    if as_json:
        print(json.dumps(rows))
        return
    table = Table("answer", "score", "probability", box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(escaped(row["answer"]), f"{row['score']:.4f}", f"{row['probability']:.3f}")
    console.print(table)


def _log(progress: RelationProgress, epochs: int) -> None:
    """Print a line for each trial and each epoch, for logs."""
    if progress.trial is not None:
        if progress.valid_mrr is not None:
            say(f"trial: regularizer_weight {progress.trial:.2g}, valid MRR {progress.valid_mrr:.4f}")
        return
    steps = progress.total_steps // epochs
    if progress.step % steps == 0 and progress.loss is not None:
        valid = "" if progress.valid_mrr is None else f", valid MRR {progress.valid_mrr:.4f}"
        say(f"epoch {progress.step // steps} of {epochs}: loss {progress.loss:.4f}{valid}")


def _config(given: list[str], shortcuts: dict[str, Any]) -> RelationConfig:
    names = [field.name for field in dataclasses.fields(RelationConfig)]
    settings = parse_settings("relations train", given, names)
    for name in sorted(shortcuts.keys() & settings.keys()):
        raise ValueError(f"relations train: both --{name} and --set {name} are given; give one of them")
    return RelationConfig(**shortcuts, **settings)


def _show(row: dict[str, Any]) -> None:
    table = Table(*(name.replace("_", " ") for name in row), box=box.SIMPLE_HEAD)
    table.add_row(*(f"{cell:.4f}" if isinstance(cell, float) else escaped(cell) for cell in row.values()))
    console.print(table)
