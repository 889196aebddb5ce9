"""``ghrr index``, ``ghrr search`` and ``ghrr dedupe``: records in files, found by example."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from ghrr.cli.shared import ERRORS, check_output, console, escaped, fail, say, warn

_BATCH = 4096  # documents encoded at a time
_SAVED = 8  # batches between two saves: an interrupt loses no more
_MARK = "incomplete.json"  # in the folder of an index that is being written
_STREAM = "-"
Source = Annotated[
    str, typer.Argument(help="Documents: *.jsonl, *.json, *.csv, *.tsv or *.parquet; - reads JSON lines from stdin.")
]
Identifier = Annotated[
    str | None, typer.Option("--id", metavar="FIELD", help="Field that holds the id; by default the row number.")
]
Kinds = Annotated[list[str] | None, typer.Option("--kind", metavar="FIELD=KIND", help="Kind of a field. Repeatable.")]
Skip = Annotated[bool, typer.Option("--skip-errors", help="Skip broken lines instead of stopping.")]
Dim = Annotated[int, typer.Option(min=1, help="Slots of the hypervectors.")]
M = Annotated[int, typer.Option(min=1, help="Size of each slot's matrix.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output.")]


def index(  # noqa: PLR0917 (typer reads options from a signature)
    source: Source,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write the index to.")],
    identifier: Identifier = None,
    kind: Kinds = None,
    skip_errors: Skip = False,
    dim: Dim = 256,
    m: M = 2,
    force: Force = False,
) -> None:
    """Index documents for `ghrr search`. Run the same command again to go on after an interrupt."""
    settings = {"source": source, "id": identifier, "kinds": kind or [], "dim": dim, "m": m}
    try:
        records = _start(out, settings, force=force)
        _fill(records, source, identifier, out, skip_errors=skip_errors)
    except ERRORS as error:
        fail(error)
    _show_fields(records)
    say(f"{len(records):,} records in ", escaped(out))


def _start(out: Path, settings: dict[str, Any], *, force: bool) -> Any:
    """Return the index to fill: a new one, or one that an interrupted command left."""
    from ghrr.search import RecordIndex

    mark = out / _MARK
    if out.exists() and force:
        _remove_index(out)
    if mark.exists():
        if json.loads(mark.read_text()) != settings:
            raise ValueError(f"{out} was begun with other options; repeat them, or start again with --force")
        if (out / "fields.safetensors").exists():
            records = RecordIndex.open(out)
            say(f"Going on after {len(records):,} records.")
            return records
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} already exists; choose another folder, or overwrite an index with --force")
    out.mkdir(parents=True, exist_ok=True)
    mark.write_text(json.dumps(settings))
    return _new_index(settings["kinds"], settings["dim"], settings["m"])


def _remove_index(out: Path) -> None:
    if out.is_dir() and any(out.iterdir()) and not any((out / name).exists() for name in ("fields.safetensors", _MARK)):
        raise ValueError(f"{out} is not an index; --force removes only an index")
    shutil.rmtree(out)


def _new_index(kinds: list[str], dim: int, m: int) -> Any:
    from ghrr import Space
    from ghrr.search import RecordIndex

    wrong = next((text for text in kinds if "=" not in text), None)
    if wrong is not None:
        raise ValueError(f"--kind needs FIELD=KIND, got {wrong!r}")
    return RecordIndex(Space(dim=dim, m=m, seed=0), kinds=dict(text.rsplit("=", 1) for text in kinds))


def _fill(records: Any, source: str, identifier: str | None, out: Path | None, *, skip_errors: bool) -> None:
    """Add the documents of a file, except those whose id is in the index. Save from time to time."""
    from ghrr.search.tables import batches, read_documents

    documents = read_documents(source, on_error="skip" if skip_errors else "stop", report=warn)
    columns = (SpinnerColumn(), TextColumn("{task.completed:,} records"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)
        try:
            row = 0
            for number, batch in enumerate(batches(documents, _BATCH)):
                ids = [_id_of(document, identifier, row + i) for i, document in enumerate(batch)]
                row += len(batch)
                new = [i for i, name in enumerate(ids) if name not in records]
                if out is None and len(new) < len(ids):
                    raise ValueError(f"{source}: the id {next(n for n in ids if n in records)!r} occurs twice")
                records.add([batch[i] for i in new], ids=[ids[i] for i in new])
                progress.update(task, completed=row)
                if out is not None and number % _SAVED == _SAVED - 1:
                    records.save(out)
        except KeyboardInterrupt:
            if out is not None and len(records):
                records.save(out)
                warn(f"interrupted; {len(records):,} records are saved. Run the same command to go on")
            raise
    if not len(records):
        raise ValueError(f"{source}: there are no documents")
    if out is not None:
        records.save(out)
        (out / _MARK).unlink(missing_ok=True)


def _id_of(document: dict[str, Any], identifier: str | None, row: int) -> str:
    if identifier is None:
        return str(row)
    value = document.get(identifier)
    if value is None or value == "":
        raise ValueError(f"row {row + 1} has no id in the field {identifier!r}; leave --id out, or add it")
    return str(value)


def _show_fields(records: Any) -> None:
    table = Table("field", "kind", "weight", box=box.SIMPLE_HEAD)
    for field in records.fields:
        table.add_row(escaped(field.name), field.kind, f"{field.weight:.2f}")
    console.print(table)


def search(  # noqa: PLR0917
    folder: Annotated[Path, typer.Argument(help="Folder written by `ghrr index`.")],
    example: Annotated[str, typer.Argument(help="Part of a document, as JSON; - reads JSON lines from stdin.")],
    k: Annotated[int, typer.Option("-k", min=1, help="Number of records.")] = 10,
    threshold: Annotated[float, typer.Option(min=0, max=1, help="Least score.")] = 0.0,
    must: Annotated[str | None, typer.Option(help="Part of a document that has to agree, as JSON.")] = None,
    must_not: Annotated[str | None, typer.Option(help="Part of a document that must not agree, as JSON.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per hit.")] = False,
) -> None:
    """Find the records that are most similar to an example. The exit status is 1 if there is none."""
    from ghrr.search import RecordIndex

    found = False
    try:
        records = RecordIndex.open(folder)
        wanted, unwanted = _parse(must, "--must"), _parse(must_not, "--must-not")
        for one in _examples(example):
            hits = records.search(one, k, threshold=threshold, must=wanted, must_not=unwanted)
            found = found or bool(hits)
            _print_hits(hits, as_json=as_json)
    except KeyError as error:
        fail(error.args[0])
    except ERRORS as error:
        fail(error)
    if not found:
        raise typer.Exit(1)


def _examples(example: str) -> Iterator[dict[str, Any]]:
    from ghrr.search.tables import read_documents

    if example == _STREAM:
        yield from read_documents(_STREAM)
    else:
        yield _parse(example, "the example") or {}


def _parse(text: str | None, where: str) -> dict[str, Any] | None:
    from ghrr.files import parse_json

    if text is None:
        return None
    value = parse_json(text, where)
    if not isinstance(value, dict):
        raise ValueError(f'{where} must be a JSON object such as \'{{"city": "London"}}\', got {text!r:.80}')
    return value


def _print_hits(hits: list[Any], *, as_json: bool) -> None:
    if as_json:
        for hit in hits:
            shown = {"id": hit.guess, "score": round(hit.score, 6), "probability": round(hit.probability, 6)}
            print(json.dumps({**shown, "fields": hit.fields, "document": hit.document}))
        return
    if not hits:
        say("Nothing found.")
        return
    table = Table("id", "score", "probability", "fields", "document", box=box.SIMPLE_HEAD)
    for hit in hits:
        fields = ", ".join(f"{name} {score:.2f}" for name, score in hit.fields.items())
        text = json.dumps(hit.document, ensure_ascii=False)
        cut = text if len(text) <= 200 else text[:199] + "…"
        table.add_row(escaped(hit.guess), f"{hit.score:.3f}", f"{hit.probability:.3f}", escaped(fields), escaped(cut))
    console.print(table)


def dedupe(  # noqa: PLR0917
    source: Source,
    out: Annotated[
        str, typer.Option("--out", "-o", help="CSV file of pairs to write; - is standard output.")
    ] = _STREAM,
    identifier: Identifier = None,
    threshold: Annotated[float | None, typer.Option(min=0, max=1, help="Least score of a pair.")] = None,
    rate: Annotated[float | None, typer.Option(min=0, help="Expected number of pairs per record.")] = None,
    kind: Kinds = None,
    skip_errors: Skip = False,
    dim: Dim = 256,
    m: M = 2,
    force: Force = False,
) -> None:
    """Find duplicates in a table: pairs of ids with their score and group. The exit status is 1 if there are none."""
    from ghrr.files import atomic_write

    if out != _STREAM:
        check_output(Path(out), force=force)
    try:
        records = _new_index(kind or [], dim, m)
        _fill(records, source, identifier, None, skip_errors=skip_errors)
        clusters = records.duplicates(threshold, rate=rate)
        if out == _STREAM:
            _write_pairs(sys.stdout, clusters)
        else:
            with atomic_write(out) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
                _write_pairs(file, clusters)
    except ERRORS as error:
        fail(error)
    if out != _STREAM:
        pairs = sum(len(cluster.pairs) for cluster in clusters)
        say(f"{pairs:,} pairs in {len(clusters):,} groups of {len(records):,} records in ", escaped(out))
    if not clusters:
        raise typer.Exit(1)


def _write_pairs(file: Any, clusters: list[Any]) -> None:
    writer = csv.writer(file)
    writer.writerow(["first", "second", "score", "group"])
    for number, cluster in enumerate(clusters):
        writer.writerows([first, second, f"{score:.6f}", number] for first, second, score in cluster.pairs)
