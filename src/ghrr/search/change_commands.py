"""``ghrr add`` and ``ghrr remove``: change an index of ``ghrr index``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ghrr.cli.output import ERRORS, STREAM, count_records, escaped, fail, say, shown_warnings
from ghrr.search.commands import Identifier, Skip, Source, Uri, progress_of_records, read_named
from ghrr.search.index import RecordIndex
from ghrr.search.index_folder import BATCH, check_finished
from ghrr.search.tables import batches

Folder = Annotated[Path, typer.Argument(help="Folder written by `ghrr index`.")]


def add(
    folder: Folder,
    source: Source,
    identifier: Identifier = None,
    skip_errors: Skip = False,
    uri: Uri = None,
) -> None:
    """Add documents to an index. If one cannot be added, none is."""
    try:
        check_finished(folder)
        documents = read_named(source, identifier, skip_errors=skip_errors)
        records = RecordIndex.open(folder, uri=uri)
        before = len(records)
        with progress_of_records() as progress:
            task = progress.add_task("records", total=None)
            for batch in batches(documents, BATCH):
                ids = None if identifier is None else [name for name, _ in batch]
                with shown_warnings():
                    records.add([document for _, document in batch], ids=ids)
                progress.update(task, completed=len(records) - before)
        records.save(folder)
    except ERRORS as error:
        fail(error)
    say(f"{count_records(len(records) - before)} added; {count_records(len(records))} in ", escaped(folder))


def remove(
    folder: Folder,
    ids: Annotated[list[str], typer.Argument(help="Ids of records; - reads them from standard input, one per line.")],
    uri: Uri = None,
) -> None:
    """Remove records from an index by their ids. If one does not exist, none is removed."""
    try:
        check_finished(folder)
        records = RecordIndex.open(folder, uri=uri)
        names = list(filter(None, sys.stdin.read().splitlines())) if ids == [STREAM] else ids
        records.remove(names)
        records.save(folder)
    except KeyError as error:
        fail(error.args[0])
    except ERRORS as error:
        fail(error)
    say(f"{count_records(len(names))} removed; {count_records(len(records))} in ", escaped(folder))
