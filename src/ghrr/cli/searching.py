"""``ghrr index``, ``ghrr search`` and ``ghrr dedupe``: records in files, found by example."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections.abc import Iterable, Iterator
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
    settings = {"source": source, "id": identifier, "kinds": kind or [], "dim": dim, "m": m, **engine}
    try:
        records = _start(out, settings, force=force)
        _fill(records, source, identifier, out, skip_errors=skip_errors)
    except ERRORS as error:
        fail(error)
    _show_fields(records)
    say(f"{len(records):,} records in ", escaped(out), _recall(records))


def _start(out: Path, settings: dict[str, Any], *, force: bool) -> Any:
    """Return the index to fill: a new one, or one that an interrupted command left."""
    from ghrr.files import read_json, write_json
    from ghrr.memory.backends.milvus_connection import hide_credentials
    from ghrr.search import RecordIndex
    from ghrr.search.folder import has_index

    mark, uri = out / _MARK, settings["uri"]
    public = settings | {"uri": uri and hide_credentials(uri, uri)}
    if out.exists() and force:
        _remove_index(out)
    if mark.exists():
        if read_json(mark, "ghrr index") != public:
            raise ValueError(f"{out} was started with other options; repeat them, or start again with --force")
        if has_index(out):
            records = RecordIndex.open(out, uri=settings["uri"])
            say(f"Going on after {len(records):,} records.")
            return records
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} already exists; choose another folder, or overwrite an index with --force")
    out.mkdir(parents=True, exist_ok=True)
    write_json(mark, public)
    engine = {name: settings[name] for name in ("backend", "uri", "approximate")}
    return _new_index(settings["kinds"], settings["dim"], settings["m"], **engine)


def _remove_index(out: Path) -> None:
    if out.is_dir() and any(out.iterdir()) and not any((out / name).exists() for name in ("fields.safetensors", _MARK)):
        raise ValueError(f"{out} is not an index; --force removes only an index")
    shutil.rmtree(out)


def _new_index(kinds: list[str], dim: int, m: int, **engine: Any) -> Any:
    from ghrr import Space
    from ghrr.search import RecordIndex

    wrong = next((text for text in kinds if "=" not in text), None)
    if wrong is not None:
        raise ValueError(f"--kind needs FIELD=KIND, got {wrong!r}")
    return RecordIndex(Space(dim=dim, m=m, seed=0), kinds=dict(text.rsplit("=", 1) for text in kinds), **engine)


def _fill(records: Any, source: str, identifier: str | None, out: Path | None, *, skip_errors: bool) -> None:
    """Add the documents of a file, except those that the index has from an earlier run. Save from time to time."""
    from ghrr.search.tables import batches, read_documents

    documents = read_documents(source, on_error="skip" if skip_errors else "stop", report=warn)
    named = _with_ids(documents, source, identifier, skip_errors=skip_errors)
    before = set(records.ids)
    with _progress() as progress:
        task = progress.add_task("records", total=None)
        try:
            row = 0
            for number, batch in enumerate(batches(named, _BATCH)):
                new = [(name, document) for name, document in batch if name not in before]
                records.add([document for _, document in new], ids=[name for name, _ in new])
                row += len(batch)
                progress.update(task, completed=row)
                if out is not None and number % _SAVED == 0:
                    records.save(out)
        except KeyboardInterrupt:
            if out is not None and len(records):
                records.save(out)
                warn(f"interrupted; {len(records):,} records are saved. Run the same command to continue")
            raise
    if not len(records):
        raise ValueError(f"{source}: contains no documents, expected at least one")
    if out is not None:
        _ = records.recall  # measured now, so that the folder has it
        records.save(out)
        (out / _MARK).unlink(missing_ok=True)


def _progress() -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.completed:,} {task.description}"), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _with_ids(
    documents: Iterable[dict[str, Any]], source: str, identifier: str | None, *, skip_errors: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield documents with their ids. Missing and repeated ids stop, or are skipped with a warning."""
    from ghrr.search.tables import id_of_document

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
    threshold: Annotated[float, typer.Option(min=0, max=1, help="Least score.")] = 0.0,
    must: Annotated[str | None, typer.Option(help="Part of a document that has to agree, as JSON.")] = None,
    must_not: Annotated[str | None, typer.Option(help="Part of a document that must not agree, as JSON.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per hit.")] = False,
    uri: Uri = None,
) -> None:
    """Find the records that are most similar to an example. The exit status is 1 if there is none."""
    from ghrr.search import RecordIndex

    found = False
    try:
        records = RecordIndex.open(folder, uri=uri)
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
    out: Annotated[str, typer.Option("--out", "-o", help="File of pairs to write; - is standard output.")] = _STREAM,
    identifier: Identifier = None,
    threshold: Annotated[
        float | None, typer.Option(min=0, max=1, help="Minimum score of a pair; by default chosen from the scores.")
    ] = None,
    rate: Annotated[float | None, typer.Option(min=0, help="Expected number of pairs per record.")] = None,
    kind: Kinds = None,
    skip_errors: Skip = False,
    dim: Dim = 256,
    m: M = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object per pair instead of CSV.")] = False,
    force: Force = False,
) -> None:
    """Find duplicates in a table: pairs of ids with their score and group. The exit status is 1 if there are none."""
    from ghrr.files import atomic_write

    if out != _STREAM:
        check_output(Path(out), force=force)
    try:
        records = _new_index(kind or [], dim, m)
        _fill(records, source, identifier, None, skip_errors=skip_errors)
        with _progress() as progress:
            progress.add_task("records compared", completed=len(records), total=None)
            clusters = records.duplicates(threshold, rate=rate)
        if out == _STREAM:
            _write_pairs(sys.stdout, clusters, as_json=as_json)
        else:
            with atomic_write(out) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
                _write_pairs(file, clusters, as_json=as_json)
    except ERRORS as error:
        fail(error)
    if out != _STREAM:
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
