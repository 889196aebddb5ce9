"""``ghrr learn`` and ``ghrr predict``: models of tables in CSV, TSV, JSON and Parquet files."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ghrr.cli.output import ERRORS, STREAM, check_output, console, escaped, fail, need, say, warn

if TYPE_CHECKING:
    from ghrr.learn.reports import Report
    from ghrr.learn.table_models import LearningTask

_MOST_WARNINGS = 10  # about unknown values, one per column
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]


def learn(  # noqa: PLR0917 (typer reads options from a signature)
    data: Annotated[
        str, typer.Argument(help="Table: *.csv, *.tsv, *.jsonl, *.json or *.parquet; - reads CSV from standard input.")
    ],
    target: Annotated[str, typer.Option(help="Column to predict.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write the model to, usually *.safetensors.")],
    task: Annotated[
        str | None, typer.Option(help="classification or regression; by default chosen by the values of the target.")
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column to encode by its character n-grams. Repeatable."),
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Column to leave out. Repeatable.")] = None,
    dim: Annotated[int, typer.Option(min=1, help="Number of slots of the hypervectors.")] = 1024,
    training: Annotated[
        str | None, typer.Option(help="Classification: ridge (default), refined, online or centroid.")
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 5,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the hypervectors and of the folds.")] = 0,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as one JSON object.")] = False,
    force: Force = False,
) -> None:
    """Learn to predict a column of a table: print a cross-validated report, and save a model fitted on all rows."""
    need("learn")
    from ghrr.learn import save
    from ghrr.learn.reports import check_folds, cross_validated_report
    from ghrr.learn.table_files import read_table
    from ghrr.learn.table_models import forget_device, make_task

    check_output(out, data, force=force)
    try:
        task_ = make_task(read_table(_source(data)), target, kind=task, text=text or (), drop=drop or ())
        for note in task_.notes:
            warn(note)
        model = task_.model(dim=dim, training=training, seed=seed, device=device)
        check_folds(task_.y, folds, classify=task_.kind == "classification")
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            row = progress.add_task("cross-validation", total=folds + 1)
            report = cross_validated_report(
                model,
                task_.X,
                task_.y,
                folds=folds,
                seed=seed,
                on_fold=lambda fold: progress.update(row, completed=fold),
            )
            progress.update(row, description="fitting all rows")
            model.fit(task_.X, task_.y)
        kinds = model.encoder_.columns_
        forget_device(model)
        save(out, model)
    except ERRORS as error:
        fail(error)
    if as_json:
        facts = {"task": task_.kind, "rows": len(task_.y), "columns": kinds, **dataclasses.asdict(report)}
        print(json.dumps({**facts, "notes": task_.notes, "model": str(out)}, allow_nan=False))
    else:
        _print_report(task_, kinds, report)
        say("The model is in ", escaped(out))


def predict(
    model: Annotated[Path, typer.Argument(help="File written by `ghrr learn`.")],
    data: Annotated[str, typer.Argument(help="Table, of the same formats as for `ghrr learn`.")],
    out: Annotated[str, typer.Option("--out", "-o", help="CSV file to write; - is standard output.")] = STREAM,
    force: Force = False,
) -> None:
    """Predict the target of each row of a table, with the probability of each class."""
    need("learn")
    from ghrr.learn import load
    from ghrr.learn.table_files import read_table, write_csv
    from ghrr.learn.table_models import columns_read_as_text, describe_unknown, predict_table

    check_output(Path(out), model, data, force=force)
    try:
        loaded = load(model)
        table = read_table(_source(data), texts=columns_read_as_text(loaded))
        predictions, unused = predict_table(loaded, table)
        if unused:
            warn(f"these columns are not used by the model: {', '.join(unused)}")
        unknown = describe_unknown(loaded, table)
        for sentence in unknown[:_MOST_WARNINGS]:
            warn(sentence)
        if len(unknown) > _MOST_WARNINGS:
            warn(f"{len(unknown) - _MOST_WARNINGS:,} more columns have unknown values")
        if out == STREAM:
            sys.stdout.write(predictions.to_csv(index=False))
        else:
            write_csv(out, predictions)
    except ERRORS as error:
        fail(error)
    if out != STREAM:
        say(f"{len(predictions):,} predictions in ", escaped(out))


def _source(data: str) -> str | BinaryIO:
    return sys.stdin.buffer if data == STREAM else data


def _print_report(task: LearningTask, kinds: dict[Any, str], report: Report) -> None:
    say(f"{task.kind.capitalize()} of {len(task.y):,} rows.")
    say("Encoder: ", escaped(report.encoder.split("(")[0]))
    columns = Table("column", "kind", "missing values", box=box.SIMPLE_HEAD)
    for column, kind in kinds.items():
        columns.add_row(escaped(column), kind, f"{task.X[column].isna().mean():.1%}")
    console.print(columns)
    scores = Table("score", "mean", "± std", f"baseline: {report.baseline}", box=box.SIMPLE_HEAD)
    for score in report.scores:
        scores.add_row(score.name, f"{score.mean:.4g}", f"{score.std:.2g}", f"{score.baseline:.4g}")
    say(f"Cross-validation with {report.folds} folds:")
    console.print(scores)
    if report.classes:
        classes = Table("class", "precision", "recall", "F1", "rows", box=box.SIMPLE_HEAD)
        for one in report.classes:
            values = (f"{value:.3f}" for value in (one.precision, one.recall, one.f1))
            classes.add_row(escaped(one.label), *values, f"{one.count:,}")
        console.print(classes)
