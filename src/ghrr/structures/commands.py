"""``ghrr encode``, ``query`` and ``decode``: JSON documents as hypervectors in a file."""

from __future__ import annotations

import json
import math
import os
import shlex
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.highlighter import JSONHighlighter
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ghrr.checks import describe, names_errors
from ghrr.cli.output import (
    ERRORS,
    STREAM,
    check_output,
    console,
    count_records,
    escaped,
    fail,
    input_file,
    output_file,
    say,
    warn,
)
from ghrr.documents import Column, Key, columns, parse_path
from ghrr.files import LINES, check_regular, parse_json, read_json_lines
from ghrr.memory import ItemMemory, Match
from ghrr.space import Space
from ghrr.structures import MISSING, CapacityWarning, Reading, Record, Scale, answer_rate
from ghrr.structures.path_tree import PathTree
from ghrr.structures.record.paths import known_paths

if TYPE_CHECKING:
    from torch import Tensor

RecordFile = Annotated[Path, typer.Argument(help="File written by `ghrr encode`; - reads it from standard input.")]
RecordLabel = Annotated[str | None, typer.Option("--record", help="Label of the record to read; by default all.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per record, one per line.")]
_BLOCK = 1000  # records at a time
_MIN_RATE = 0.9  # share of confident answers below which a warning is printed
_MAX_TOTAL_DIM = 1 << 15  # largest hypervector that is chosen without --dim: 256 KiB in complex64
_BASE_BYTES = 1 << 29  # memory of the command without its hypervectors
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # versions 2 and 1


def encode(  # noqa: PLR0917 (typer reads options from a signature)
    source: Annotated[
        Path,
        typer.Argument(help="JSON file, or JSON Lines (*.jsonl) with one record per line; - reads either from stdin."),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="File to write, usually *.safetensors; - is standard output.")
    ],
    dim: Annotated[int | None, typer.Option(min=1, help="Number of slots; by default chosen by record size.")] = None,
    m: Annotated[int, typer.Option(min=1, help="Size of each slot's matrix.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random hypervectors.")] = 0,
    numbers: Annotated[
        str | None,
        typer.Option(
            metavar="LOW,HIGH,BANDWIDTH",
            help="Encode numbers on a scale, so that near numbers are similar; by default all numbers are dissimilar.",
        ),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="JSON Lines: key whose value labels a record; by default the line number.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Encode a JSON document, or every line of a JSON Lines file, as one hypervector of fixed size."""
    check_output(out, source, force=force)
    try:
        scale = _parse_scale(numbers)
        with input_file(source) as path, output_file(out) as target:
            if path != source and _begins_with_object(path):
                path = path.rename(path.with_suffix(".jsonl"))  # noqa: PLW2901
            memory, space = _encode(path, target, scale=scale, dim=dim, m=m, seed=seed, label=label)
    except ERRORS as error:
        fail(error)
    if str(out) != STREAM:
        say(f"{count_records(len(memory))} of {space} in ", escaped(out))


def _encode(
    source: Path, out: Path, *, scale: Any, dim: int | None, m: int, seed: int, label: str | None
) -> tuple[ItemMemory, Space]:
    """Write the records of a file to another."""
    load = _survey(source, on_scale=scale is not None)
    space = Space(dim=dim if dim is not None else _sufficient_dim(load, m), m=m, seed=seed)
    _check_memory(load, space, source)
    _warn_of_load(load, space, source)
    codec = Record(space, numbers=scale)
    memory = ItemMemory(codec.space)
    with _progress(source) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", CapacityWarning)  # the whole source was counted before
        task = progress.add_task("encoding", total=source.stat().st_size)
        for labels, documents, read in _blocks(source, label):
            memory.add(labels, codec.encode_many(documents))
            progress.update(task, completed=read)
    if not len(memory):
        raise ValueError(f"{source} contains no record, expected at least one JSON document")
    memory.save(out, about=codec.state())
    return memory, codec.space


def _begins_with_object(path: Path) -> bool:
    """Return whether the first line is a JSON object, as in a file of JSON Lines."""
    with path.open("rb") as lines:
        first = next(filter(bytes.strip, lines), b"")
    try:
        return isinstance(parse_json(first, str(path)), dict)
    except ValueError:
        return False


def query(
    file: RecordFile,
    path: Annotated[
        str, typer.Argument(help='Keys and list indices, as in born.city or tags.0; or a JSON list, ["a.b", "c"].')
    ],
    record: RecordLabel = None,
    as_json: AsJson = False,
) -> None:
    """Read the value at a path of an encoded record, with its score and confidence."""
    table = Table("record", "answer", "score", "margin", "confident", box=box.SIMPLE_HEAD)
    try:
        with input_file(file) as stored:
            memory, codec = _open(stored)
            keys = _parse_path(path, codec.paths)
            for names, vectors in _records(memory, record):
                for name, [found] in zip(names, codec.query_many(vectors, [keys]), strict=True):
                    if as_json:
                        print(json.dumps({"record": name, "path": list(keys), **_as_json(found)}, allow_nan=False))
                    else:
                        table.add_row(escaped(name), *_answer_cells(found))
    except ERRORS as error:
        fail(error)
    if not as_json:
        console.print(table)


def decode(file: RecordFile, record: RecordLabel = None, as_json: AsJson = False) -> None:
    """Decode whole records to JSON, with a score for every value."""
    try:
        with input_file(file) as stored:
            memory, codec = _open(stored)
            for names, vectors in _records(memory, record):
                for name, vector in zip(names, vectors, strict=True):
                    reading = codec.decode(vector)
                    if as_json:
                        print(json.dumps({"record": name, **_as_json(reading)}, allow_nan=False))
                    else:
                        _print_reading(name, reading)
    except ERRORS as error:
        fail(error)


# ------------------------------------------------------------------------------------------------------------- reading


def _open(file: Path) -> tuple[ItemMemory, Record]:
    """Return the hypervectors of a file of ``ghrr encode`` or ``Record.save``, and the record that reads them."""
    try:
        memory = ItemMemory.open(file)
    except ValueError as error:
        try:
            codec, vectors = Record.load(file)
        except ValueError:
            raise error from None
        if vectors is None:
            raise ValueError(f"{file} contains a vocabulary but no record; save it with hypervectors") from None
        if not isinstance(vectors, dict):
            rows = vectors.reshape(-1, *codec.space.shape)
            vectors = {str(number): row for number, row in enumerate(rows, start=1)}
        memory = ItemMemory(codec.space)
        for name, vector in vectors.items():
            memory.add(name, vector)
        return memory, codec
    if memory.about is None:
        raise ValueError(f"{file} contains hypervectors without a vocabulary; it was not written by `ghrr encode`")
    memory.verify()
    return memory, Record.from_state(memory.space, memory.about)


def _records(memory: ItemMemory, label: str | None) -> Iterator[tuple[list[str], Tensor]]:
    """Yield blocks of labels and hypervectors."""
    if label is not None and label not in memory:
        some = ", ".join(memory.labels[:5])
        raise ValueError(f"no record has the label {label!r}; the {len(memory)} labels start with {some}")
    names = memory.labels if label is None else [label]
    for start in range(0, len(names), _BLOCK):
        yield names[start : start + _BLOCK], memory.vectors(names[start : start + _BLOCK])


def _parse_path(text: str, paths: PathTree) -> tuple[Any, ...]:
    """Parse keys between dots, integers as list indices; or a JSON list, in which keys can contain dots or digits.

    A text that ``decode`` prints for a known path is that path, even if its keys contain dots or digits.
    """
    if text.startswith("["):
        try:
            keys = json.loads(text)
        except ValueError as error:
            raise ValueError(f"the path {text} is not a JSON list: {error}") from error
        if not isinstance(keys, list) or not all(isinstance(key, (str, int)) for key in keys):
            raise ValueError(f"the path {text} must be a list of keys and list indices")
        return tuple(keys)
    known = known_paths(text, paths)
    if len(known) > 1:
        raise ValueError(f"the path {text} is ambiguous; use {' or '.join(json.dumps(path) for path in known)}")
    return known[0] if known else parse_path(text)


def _as_json(found: Match | Reading) -> dict[str, Any]:
    if isinstance(found, Match):
        keys = ("score", "margin", "noise", "probability", "confident", "unknown", "error")
        values = {key: getattr(found, key) for key in keys}
        if found.error is not None and not math.isfinite(found.error):
            values["error"] = None  # at the end of a scale; JSON has no infinity
        return {"answer": found.label, "runner_up": found.runner_up, **values}
    leaves = [{"path": list(path), **_as_json(match)} for path, match in found.matches.items()]
    return {"value": _without_missing(found.value), "leaves": leaves, "unexplained": found.unexplained}


def _without_missing(value: Any) -> Any:
    """Return data for JSON: missing values are null in a list and left out of a dict."""
    if isinstance(value, dict):
        return {key: _without_missing(item) for key, item in value.items() if item is not MISSING}
    if isinstance(value, list):
        return [_without_missing(item) for item in value]
    return None if value is MISSING else value


def _answer_cells(found: Match | Reading) -> tuple[Text | str, ...]:
    """Return the cells of a table row: answer, score, margin, confident."""
    if not isinstance(found, Match):
        return escaped(json.dumps(_without_missing(found.value))), "", "", _yes_or_no(found.confident)
    is_absent = found.probability_unknown >= found.required_confidence
    unknown = Text("no value" if is_absent else "not certain", "dim")
    answer = unknown if found.unknown else escaped(_show_label(found))
    return answer, f"{found.score:.3f}", f"{found.margin:.3f}", _yes_or_no(found.confident)


def _show_label(match: Match) -> str:
    return json.dumps(match.label) if match.error is None else f"{match.label:.6g} ± {match.error:.2g}"


def _yes_or_no(confident: bool) -> str:
    return "[green]yes[/]" if confident else "[red]no[/]"


def _print_reading(name: str, reading: Reading) -> None:
    say(escaped(name, "bold"))
    document = escaped(json.dumps(_without_missing(reading.value), indent=2, ensure_ascii=False), lines=True)
    JSONHighlighter().highlight(document)
    say(document)
    table = Table("path", "value", "score", "confident", box=box.SIMPLE_HEAD)
    for path, match in reading.matches.items():
        cells = escaped(".".join(map(str, path))), escaped(_show_label(match)), f"{match.score:.3f}"
        table.add_row(*cells, _yes_or_no(match.confident))
    console.print(table)
    if reading.unexplained > 0.5:
        console.print(f"About {reading.unexplained:.0f} values were not read.", highlight=False)


# ------------------------------------------------------------------------------------------------------------- writing


@names_errors("ghrr encode")
def _blocks(source: Path, key: str | None) -> Iterator[tuple[list[str], list[Any], int]]:
    """Yield blocks of labels and documents, and how many bytes of the file were read."""
    check_regular(source)  # it is read twice
    with open(source, "rb") as file:
        if source.suffix.lower() not in LINES:
            yield [source.stem], [parse_json(file.read(), str(source), strict=True)], file.tell()
            return
        documents = read_json_lines(file, str(source), strict=True)
        while block := list(islice(documents, _BLOCK)):
            labels = [_label(document, key, source, number) for number, document in block]
            yield labels, [document for _, document in block], file.tell()


def _label(document: Any, key: str | None, source: Path, number: int) -> str:
    if key is None:
        return str(number)
    if not isinstance(document, dict) or not isinstance(document.get(key), (str, int)):
        raise ValueError(
            f"{source}, line {number}: the label must be a string or an integer with the key {key!r}, got "
            f"{describe(document)}; leave --label out to use line numbers"
        )
    return str(document[key])


@dataclass
class _Load:
    """Contents of a file that determine the space and the memory."""

    records: int = 0
    leaves: int = 1  # values in the largest record
    objects: int = 0  # length of the largest array of objects that is a whole document
    values: set[str] = field(default_factory=set)
    keys: set[Key] = field(default_factory=set)


@names_errors("{source}")
def _columns(documents: list[Any], source: Path) -> list[Column]:
    return columns(documents)


def _survey(source: Path, *, on_scale: bool) -> _Load:
    """Count the contents of a file; numbers on a scale are not in the vocabulary."""
    load = _Load()
    for _, documents, _ in _blocks(source, None):
        load.records += len(documents)
        sizes = np.zeros(len(documents), dtype=np.int64)
        for column in _columns(documents, source):
            sizes[column.rows] += 1
            load.keys.update(column.path)
            if not (on_scale and column.kind in {int, float}):
                load.values.update(map(json.dumps, column.values))
        load.leaves = max(load.leaves, *sizes.tolist())
        lists = [document for document in documents if isinstance(document, list)]
        load.objects = max([load.objects, *(len(items) for items in lists if all(isinstance(x, dict) for x in items))])
    return load


def _sufficient_dim(load: _Load, m: int) -> int:
    """Return the number of slots with which 99.9 % of the values of the largest record are read confidently."""
    needed = Record.suggest(load.leaves, values=max(2, len(load.values)), m=m, error=0.001).dim
    return max(1, min(needed, _MAX_TOTAL_DIM // m**2))


def _warn_of_load(load: _Load, space: Space, source: Path) -> None:
    if load.objects > 1 and source.suffix.lower() not in LINES:
        warn(f"{source.name} is one array of {load.objects} objects, which becomes one record; {_split_hint(source)}")
    rate = answer_rate(space, items=load.leaves, candidates=max(2, len(load.values)))
    if rate < _MIN_RATE:
        advice = "split it" if load.objects > 1 else f"use a larger --dim than {space.dim}, or smaller records"
        warn(
            f"a record of {load.leaves:,} values is above the capacity of {space}: about {rate:.0%} of its answers "
            f"will be confident; {advice}"
        )


def _check_memory(load: _Load, space: Space, source: Path) -> None:
    """Raise if the hypervectors will not fit in memory."""
    vectors = 2 * (len(load.values) + len(load.keys)) + load.records
    needed = _BASE_BYTES + vectors * space.total_dim * space.dtype.itemsize
    limit = _memory_limit()
    if needed > limit:
        advice = _split_hint(source) if load.objects > 1 else "use a smaller --dim, or fewer records at a time"
        raise ValueError(
            f"{source}: {len(load.values):,} values, {len(load.keys):,} keys and {count_records(load.records)} in "
            f"{space} need about {needed / 2**30:.1f} GiB of memory, expected at most {limit / 2**30:.1f} GiB; {advice}"
        )


def _memory_limit() -> int:
    """Return three quarters of the memory in bytes: of the machine, or of the control group of a container."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        total = 16 << 30  # unknown
    for file in _CGROUP_LIMITS:
        try:
            total = min(total, int(Path(file).read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return total * 3 // 4


def _split_hint(source: Path) -> str:
    if source.name == "stdin":
        return "to encode each object as a record of its own, write it on one line: jq -c '.[]'"
    lines = source.with_suffix(".jsonl")
    command = f"jq -c '.[]' {shlex.quote(str(source))} > {shlex.quote(str(lines))}"
    return f"to encode each object as a record of its own, convert the file to JSON Lines: {command}"


def _parse_scale(text: str | None) -> Any:
    if text is None:
        return None
    try:
        low, high, bandwidth = map(float, text.split(","))
    except ValueError:
        raise ValueError(f"--numbers: needs three numbers, LOW,HIGH,BANDWIDTH, got {text}") from None
    return Scale(low, high, bandwidth)


def _progress(source: Path) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True, disable=source.suffix.lower() not in LINES)
