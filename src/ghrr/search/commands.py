"""``ghrr index``, ``ghrr search`` and ``ghrr dedupe``: records in files, found by example."""

from __future__ import annotations

import csv
import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from ghrr.cli.output import ERRORS, STREAM, check_output, console, escaped, fail, say, shown_warnings, warn
from ghrr.files import atomic_write
from ghrr.memory.backends.milvus_connection import hide_credentials
from ghrr.search import RecordIndex, index_folder
from ghrr.search.condition_options import FORMS, read_conditions, read_object
from ghrr.search.index_folder import Named
from ghrr.search.tables import batches, id_of_document, read_documents
from ghrr.space import Space

_SAVED = 8  # batches between two saves: an interrupt loses no more
Source = Annotated[
    str,
    typer.Argument(help="Documents: *.jsonl, *.json, *.csv, *.tsv or *.parquet; - reads JSON lines or CSV."),
]
Identifier = Annotated[
    str | None, typer.Option("--id", metavar="FIELD", help="Field that holds the id; by default the row number.")
]
Kinds = Annotated[list[str] | None, typer.Option("--kind", metavar="FIELD=KIND", help="Kind of a field. Repeatable.")]
Skip = Annotated[bool, typer.Option("--skip-errors", help="Skip broken lines instead of stopping.")]
Dim = Annotated[int, typer.Option(min=1, help="Slots of the hypervectors.")]
M = Annotated[int, typer.Option(min=1, help="Size of each slot's matrix.")]
Uri = Annotated[
    str | None, typer.Option(help="Where Milvus or LanceDB is: http://user:password@host:19530, or a path.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output.")]


def index(  # noqa: PLR0917 (typer reads options from a signature)
    source: Source,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write the index to.")],
    identifier: Identifier = None,
    kind: Kinds = None,
    skip_errors: Skip = False,
    dim: Dim = 256,
    m: M = 2,
    backend: Annotated[
        str, typer.Option(help="Engine that stores and searches vectors: torch, faiss, milvus or lancedb.")
    ] = "torch",
    uri: Uri = None,
    approximate: Annotated[
        bool, typer.Option("--approximate", help="Search faster and miss some records; the recall is measured.")
    ] = False,
    force: Force = False,
) -> None:
    """Index documents for `ghrr search`. Run the same command again to continue after an interrupt."""
    engine = {"backend": backend, "uri": uri, "approximate": approximate}
    public = {**engine, "uri": uri and hide_credentials(uri, uri)}
    settings = {"source": source, "id": identifier, "kinds": kind or [], "dim": dim, "m": m, **public}
    try:
        # The first document is read before anything is written: a mistake in the name of the source changes nothing.
        documents = read_named(source, identifier, skip_errors=skip_errors)
        records = _make_index(settings, engine, documents, out, force=force)
    except ERRORS as error:
        fail(error)
    _show_fields(records)
    say(f"{len(records):,} records in ", escaped(out), _recall(records))


def _make_index(settings: dict[str, Any], engine: dict[str, Any], documents: Named, out: Path, *, force: bool) -> Any:
    """Build an index from the documents that an interrupted command has not added yet. Save from time to time."""
    build = index_folder.start(out, settings, force=force)
    records = None
    if build.is_resumed:
        try:
            records = RecordIndex.open(build.folder, uri=engine["uri"])
            say(f"Going on after {len(records):,} records.")
        except ValueError:
            if build.folder == build.out:
                raise
            index_folder.discard(build)
            build = index_folder.start(out, settings, force=force)
    if records is None:
        try:
            records = _new_index(settings["kinds"], settings["dim"], settings["m"], **engine)
        except BaseException:
            index_folder.remove_own(build.folder)
            raise
        index_folder.save(build, records)  # so that a later run knows that the vectors of an engine are its own
    try:
        for number, _ in enumerate(_add(records, index_folder.checked(build, documents))):
            if number % _SAVED == 0:
                index_folder.save(build, records)
        _ = records.recall  # measured now, so that the folder has it
    except KeyboardInterrupt:
        if len(records):
            index_folder.save(build, records)
            warn(f"interrupted; {len(records):,} records are saved. Run the same command to continue")
        raise
    except index_folder.SourceChangedError:
        index_folder.discard(build)
        raise
    index_folder.finish(build, records)
    return records


def _new_index(kinds: list[str], dim: int, m: int, **engine: Any) -> Any:
    wrong = next((text for text in kinds if "=" not in text), None)
    if wrong is not None:
        raise ValueError(f"--kind needs FIELD=KIND, got {wrong!r}")
    return RecordIndex(Space(dim=dim, m=m, seed=0), kinds=dict(text.rsplit("=", 1) for text in kinds), **engine)


def _add(records: Any, batches: Iterable[list[tuple[str, dict[str, Any]]]]) -> Iterator[int]:
    """Add the documents that the index does not have, and yield the number of documents after each batch."""
    before, row = set(records.ids), 0
    with progress_of_records() as progress:
        task = progress.add_task("records", total=None)
        for batch in batches:
            new = [(name, document) for name, document in batch if name not in before]
            with shown_warnings():  # of kinds for fields that do not exist
                records.add([document for _, document in new], ids=[name for name, _ in new])
            row += len(batch)
            progress.update(task, completed=row)
            yield row


def progress_of_records() -> Progress:
    """Return a progress bar on standard error."""
    columns = (SpinnerColumn(), TextColumn("{task.completed:,} {task.description}"), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def read_named(source: str, identifier: str | None, *, skip_errors: bool) -> Named:
    """Return the documents of a source with their ids. The first one is read at once; raise ValueError for none."""
    documents = read_documents(source, on_error="skip" if skip_errors else "stop", report=warn)
    named = _with_ids(documents, source, identifier, skip_errors=skip_errors)
    first = next(named, None)
    if first is None:
        raise ValueError(f"{source}: contains no documents, expected at least one")
    return itertools.chain([first], named)


def _with_ids(documents: Iterable[dict[str, Any]], source: str, identifier: str | None, *, skip_errors: bool) -> Named:
    """Yield documents with their ids. Missing and repeated ids stop, or are skipped with a warning."""
    seen: set[str] = set()
    for row, document in enumerate(documents):
        try:
            name = str(row) if identifier is None else id_of_document(document, identifier, row)
            if name in seen:
                raise ValueError(f"row {row + 1} has the id {name!r} of an earlier row; ids must be different")
        except ValueError as error:
            if not skip_errors:
                raise ValueError(f"{source}: {error}") from None
            warn(f"{source}: {error}")
            continue
        seen.add(name)
        yield name, document


def _recall(records: Any) -> str:
    if not records.is_approximate:
        return ""
    return (
        f"\nApproximate search finds {records.recall:.1%} of the ten best records for examples with errors; the "
        f"noisier an example, the fewer."
    )


def _show_fields(records: Any) -> None:
    table = Table("field", "kind", "weight", box=box.SIMPLE_HEAD)
    for field in records.fields:
        table.add_row(escaped(field.name), field.kind, f"{field.weight:.2f}")
    console.print(table)


def search(  # noqa: PLR0917
    folder: Annotated[Path, typer.Argument(help="Folder written by `ghrr index`.")],
    example: Annotated[str, typer.Argument(help="Part of a document, as JSON; - reads JSON lines from stdin.")],
    k: Annotated[int, typer.Option("-k", min=1, help="Number of records.")] = 10,
    threshold: Annotated[float, typer.Option(min=0, max=1, help="Minimum score of a hit.")] = 0.0,
    must: Annotated[
        list[str] | None,
        typer.Option(help=f"What hits have exactly: {FORMS}. Repeatable; of the values of a field one."),
    ] = None,
    must_not: Annotated[list[str] | None, typer.Option(help="What hits do not have, in the same forms.")] = None,
    near: Annotated[
        list[str] | None,
        typer.Option(help="What hits are similar to: FIELD=VALUE, FIELD=LOW..HIGH or JSON. Repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per hit.")] = False,
    uri: Uri = None,
) -> None:
    """Find the records that are most similar to an example. The exit status is 1 if there is none."""
    found = False
    try:
        records = RecordIndex.open(folder, uri=uri)
        paths = {field.name: field.path for field in records.fields}
        given = {"must": must, "must_not": must_not, "near": near}
        conditions = {
            name: read_conditions(texts, f"--{name.replace('_', '-')}", paths) for name, texts in given.items()
        }
        for one in _examples(example):
            hits = records.search(one, k, threshold=threshold, **conditions)
            found = found or bool(hits)
            _print_hits(hits, as_json=as_json)
    except KeyError as error:
        fail(error.args[0])
    except ERRORS as error:
        fail(error)
    if not found:
        raise typer.Exit(1)


def _examples(example: str) -> Iterator[dict[str, Any]]:
    if example == STREAM:
        yield from read_documents(STREAM)
    else:
        yield read_object(example, "the example")


def _print_hits(hits: list[Any], *, as_json: bool) -> None:
    if as_json:
        for hit in hits:
            shown = {"id": hit.guess, "score": round(hit.score, 6), "probability": round(hit.probability, 6)}
            note = {"note": hit.note} if hit.note else {}
            print(json.dumps({**shown, **note, "fields": hit.fields, "document": hit.document}))
        return
    if not hits:
        say("Nothing found.")
        return
    table = Table("id", "score", "probability", "fields", "document", box=box.SIMPLE_HEAD)
    for hit in hits:
        fields = ", ".join([*(f"{name} {score:.2f}" for name, score in hit.fields.items()), *filter(None, [hit.note])])
        text = json.dumps(hit.document, ensure_ascii=False)
        cut = text if len(text) <= 200 else text[:199] + "…"
        table.add_row(escaped(hit.guess), f"{hit.score:.3f}", f"{hit.probability:.3f}", escaped(fields), escaped(cut))
    console.print(table)


def dedupe(  # noqa: PLR0917
    source: Source,
    out: Annotated[str, typer.Option("--out", "-o", help="File of pairs to write; - is standard output.")] = STREAM,
    identifier: Identifier = None,
    threshold: Annotated[
        float | None, typer.Option(min=0, max=1, help="Minimum probability of a pair, 0.5 by default.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0, help="Expected number of pairs per record, instead of a threshold.")
    ] = None,
    kind: Kinds = None,
    skip_errors: Skip = False,
    dim: Dim = 256,
    m: M = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object per pair instead of CSV.")] = False,
    force: Force = False,
) -> None:
    """Find duplicates in a table: pairs of ids with their score, which is a probability, and their group.

    The exit status is 1 if there are none.
    """
    check_output(Path(out), source, force=force)
    try:
        records = _new_index(kind or [], dim, m)
        documents = read_named(source, identifier, skip_errors=skip_errors)
        for _ in _add(records, batches(documents, index_folder.BATCH)):
            pass
        with progress_of_records() as progress:
            progress.add_task("records compared", completed=len(records), total=None)
            clusters = records.duplicates(threshold, rate=rate)
        if out == STREAM:
            _write_pairs(sys.stdout, clusters, as_json=as_json)
        else:
            with atomic_write(out) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
                _write_pairs(file, clusters, as_json=as_json)
    except ERRORS as error:
        fail(error)
    if out != STREAM:
        pairs = sum(len(cluster.pairs) for cluster in clusters)
        say(f"{pairs:,} pairs in {len(clusters):,} groups of {len(records):,} records in ", escaped(out))
    if not clusters:
        raise typer.Exit(1)


def _write_pairs(file: Any, clusters: list[Any], *, as_json: bool) -> None:
    pairs = ((*pair, group) for group, cluster in enumerate(clusters) for pair in cluster.pairs)
    names = ("first", "second", "score", "group")
    if as_json:
        file.writelines(
            json.dumps(dict(zip(names, (first, second, round(score, 6), group), strict=True))) + "\n"
            for first, second, score, group in pairs
        )
        return
    writer = csv.writer(file)
    writer.writerow(names)
    writer.writerows([first, second, f"{score:.6f}", group] for first, second, score, group in pairs)
