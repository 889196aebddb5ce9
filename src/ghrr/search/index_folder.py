"""The folder that ``ghrr index`` writes: a new one, one that an interrupted command left, or one for an old index.

A new index is built in its folder, which has the file ``incomplete.json`` until it is finished. With ``--force``, it is
built in a hidden folder beside the old one, which stays as it is until both exchange their names at the end; then the
files of the old index are removed. Only files that an index writes are ever removed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ghrr.checks import value_error
from ghrr.files import (
    aside_name,
    check_fields,
    exchange_folders,
    list_files,
    lock_folder,
    read_json,
    recover_folder,
    remove_files,
    write_json,
)
from ghrr.search.documents import as_json
from ghrr.search.folder import has_index, is_index_file
from ghrr.search.tables import batches

MARK = "incomplete.json"
BATCH = 4096  # documents encoded at a time
_OPERATION = "ghrr index"
_FIELDS = {"settings": dict, "rows": int, "sha256": str}
Named = Iterator[tuple[str, dict[str, Any]]]


class SourceChangedError(ValueError):
    """Raised if the source of a resumed command does not begin with what the interrupted one read."""


@dataclass
class Build:
    """An index that is being written.

    Attributes
    ----------
    out
        Folder that has the index at the end.
    folder
        Folder that is written: ``out``, or one beside it that takes its place at the end.
    settings
        Options of the command.
    read
        Number of documents that were read from the source, and their checksum.
    is_resumed
        Whether ``folder`` has documents of an interrupted command.
    """

    out: Path
    folder: Path
    settings: dict[str, Any]
    read: tuple[int, str] = field(default=(0, ""))
    is_resumed: bool = False


def start(out: Path, settings: dict[str, Any], *, force: bool) -> Build:
    """Prepare the folder of an index; raise ValueError if it holds something else.

    Parameters
    ----------
    out
        Folder as the user gave it.
    settings
        Options that an interrupted command must have had to be continued. They are stored, so without passwords.
    force
        Replace an index.
    """
    out = Path(os.path.realpath(out))
    recover_folder(out)
    beside = out.with_name(f".{out.name}.new")
    if force and out.exists():
        _check_own(out)
        build = Build(out, beside, settings)
        if not _matches(build):
            discard(build)
        remove_own(aside_name(out))
    else:
        build = Build(out, out, settings)
        if (out / MARK).exists():
            if not _matches(build):
                raise ValueError(
                    f"{_OPERATION}: {out} was started with other options, or its {MARK} is damaged; repeat the same "
                    f"command, or start again with --force"
                )
        elif out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise ValueError(f"{out} already exists; choose another folder, or overwrite an index with --force")
    build.folder.mkdir(parents=True, exist_ok=True)
    if not build.is_resumed:
        _write_mark(build)
    return build


def _matches(build: Build) -> bool:
    """Whether the folder was begun with the same options; then set what was read."""
    try:
        mark = check_fields(MARK, read_json(build.folder / MARK), _FIELDS)
    except (OSError, ValueError):
        return False
    if mark["settings"] != build.settings:
        return False
    if has_index(build.folder):  # otherwise nothing of what was read is saved
        build.is_resumed, build.read = True, (mark["rows"], mark["sha256"])
    return True


def checked(build: Build, documents: Named) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """Yield batches of documents with their ids, and check that the source begins with what an earlier run read.

    A batch is counted in ``build.read`` before it is yielded.

    Raises
    ------
    SourceChangedError
        The source does not begin with the documents that an earlier run read. More documents at the end are fine.
    """
    source, (rows, expected) = build.settings["source"], build.read
    digest, seen = hashlib.sha256(), 0

    def count() -> Named:
        nonlocal seen
        for name, document in documents:
            text = as_json([document], f"{source}, row {seen + 1}")[0]
            digest.update(json.dumps([name, text]).encode())
            seen += 1
            if seen == rows and digest.hexdigest() != expected:
                raise _source_changed(build, rows)
            yield name, document

    for batch in batches(count(), BATCH):
        if seen > rows:
            build.read = seen, digest.hexdigest()
        yield batch
    if seen < rows:
        raise _source_changed(build, rows)


def _source_changed(build: Build, rows: int) -> SourceChangedError:
    how = "start again with --force" if build.folder == build.out else "repeat the command, which starts again"
    if build.settings["uri"] is not None:
        how += "; give another --uri, since the vectors stay"
    return SourceChangedError(
        f"{_OPERATION}: {build.settings['source']} changed since the command was interrupted: it must begin with the "
        f"same {rows:,} documents, got others; restore it, or {how}"
    )


def check_finished(folder: Path) -> None:
    """Raise ValueError if an interrupted ``ghrr index`` has to be continued before its index is changed."""
    if (folder / MARK).exists():
        raise value_error(f"{folder} is not finished; repeat the `ghrr index` command that began it first")


def save(build: Build, records: Any) -> None:
    """Save an index that is not finished."""
    _write_mark(build)  # first: a later run checks all that the index has
    records.save(build.folder)


def _write_mark(build: Build) -> None:
    rows, digest = build.read
    write_json(build.folder / MARK, {"settings": build.settings, "rows": rows, "sha256": digest})


def finish(build: Build, records: Any) -> None:
    """Save a finished index, and put it in the place of the old one."""
    save(build, records)
    if build.folder != build.out:
        with lock_folder(build.out):
            _check_own(build.out)
            exchange_folders(build.folder, build.out)
            remove_own(build.folder)
    (build.out / MARK).unlink(missing_ok=True)


def discard(build: Build) -> None:
    """Remove what was built beside an old index."""
    if build.folder != build.out:
        remove_own(build.folder)
        if build.folder.exists():
            raise ValueError(f"{_OPERATION}: {build.folder} holds files that are not of an index; move them away")


def remove_own(folder: Path) -> None:
    """Remove the files of an index from a folder, and the folder if it is empty then."""
    if folder.is_dir() and not folder.is_symlink():
        (folder / MARK).unlink(missing_ok=True)  # first: what is left must not be taken for an interrupted build
        remove_files(folder, [path for path in list_files(folder) if _is_own(path, folder)])


def _check_own(out: Path) -> None:
    """Raise ValueError unless a folder is empty, or holds an index and nothing else."""
    if not out.is_dir():
        raise ValueError(f"{_OPERATION}: {out} is not a folder; --force replaces only an index")
    files = list_files(out)
    other = next((path for path in files if not _is_own(path, out)), None)
    if other is not None:
        raise ValueError(
            f"{_OPERATION}: {out} holds {other.relative_to(out)}, which is not a file of an index; --force replaces "
            f"only an index; choose another folder, or move the file away"
        )
    try:
        is_index = has_index(out)
    except (OSError, ValueError):  # a file that has the name of one of ours
        is_index = False
    if files and not is_index and not (out / MARK).is_file():
        raise ValueError(f"{_OPERATION}: {out} is not an index; --force replaces only an index; choose another folder")


def _is_own(path: Path, folder: Path) -> bool:
    name = path.relative_to(folder)
    is_plain = not path.is_symlink() and (path.is_file() or path.is_dir())
    return is_plain and (name == Path(MARK) or is_index_file(name))
