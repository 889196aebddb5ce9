"""``ghrr encode``, ``query``, ``decode``: JSON in a file of hypervectors, asked by path, and back."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.highlighter import JSONHighlighter
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

import ghrr
from ghrr.cli.shared import ERRORS, console, fail, foreign, say, warn

if TYPE_CHECKING:
    from torch import Tensor

    from ghrr import Match
    from ghrr.structures import Reading, Record
    from ghrr.structures.layout import Layout, Part

RecordFile = Annotated[Path, typer.Argument(help="What `ghrr encode` wrote.")]
OfRecord = Annotated[str | None, typer.Option("--record", help="Only the record with this label.")]
AsJson = Annotated[bool, typer.Option("--json", help="For scripts: one JSON object per record and line.")]
_LINES = {".jsonl", ".ndjson"}
_BLOCK = 1000  # records at a time
_LEAST_RATE = 0.9  # of confident answers, below which a warning is due
_MOST_TOTAL_DIM = 1 << 15  # complex numbers per vector that are chosen without --dim: 256 KiB in complex64
_BASE_BYTES = 1 << 29  # memory of the command besides its vectors


def encode(  # noqa: PLR0917 (typer reads options from a signature)
    source: Annotated[Path, typer.Argument(help="A JSON file, or JSON Lines (*.jsonl): one record per line.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write, by custom *.safetensors.")],
    dim: Annotated[int | None, typer.Option(min=1, help="Slots; else as many as the largest record needs.")] = None,
    m: Annotated[int, typer.Option(min=1, help="Size of each slot's matrix.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same vectors.")] = 0,
    numbers: Annotated[
        str | None,
        typer.Option(
            metavar="LOW,HIGH,BANDWIDTH", help="Numbers on a scale, where near ones are alike; else as names."
        ),
    ] = None,
    label: Annotated[str | None, typer.Option(help="JSON Lines: the key that names a record; else its line.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Put a JSON document, or each of many, into one hypervector of fixed width."""
    from ghrr.structures import Record

    if out.exists() and not force:
        fail(f"{out} is there already; name another file, or write over it with --force")
    if not out.parent.is_dir():
        fail(f"there is no folder {out.parent} to write {out.name} to")
    try:
        scale = _scale(numbers)
        load = _survey(source, on_scale=scale is not None)
        space = ghrr.Space(dim=dim if dim is not None else _enough(load, m), m=m, seed=seed)
        _check_memory(load, space, source)
        _warn_of_load(load, space, source)
        codec = Record(space, numbers=scale)
        memory = ghrr.ItemMemory(codec.space)
        with _progress(source) as progress:
            task = progress.add_task("encoding", total=source.stat().st_size)
            for labels, documents, size in _blocks(source, label):
                memory.add(labels, codec.encode_many(documents))
                progress.update(task, advance=size)
        if not len(memory):
            raise ValueError(f"{source} holds no record")
        memory.save(out, about=codec.state())
    except ERRORS as error:
        fail(error)
    say(f"{_count(len(memory))} of {codec.space} in ", foreign(out))


def query(
    file: RecordFile,
    path: Annotated[str, typer.Argument(help='Keys and places, as in born.city or tags.0; or JSON, ["a.b", "c"].')],
    record: OfRecord = None,
    as_json: AsJson = False,
) -> None:
    """What is at a path of a record, with its score and whether it can be trusted."""
    try:
        memory, codec = _open(file)
        where = _path(path, codec.layout)
        table = Table("record", "answer", "score", "margin", "confident", box=box.SIMPLE_HEAD)
        for name, found in _answers(memory, codec, where, record):
            if as_json:
                print(json.dumps({"record": name, "path": list(where), **_as_json(found)}, allow_nan=False))
            elif isinstance(found, ghrr.Match):
                answer = Text(_absent(found), "dim") if found.unknown else foreign(_shown(found))
                table.add_row(
                    foreign(name), answer, f"{found.score:.3f}", f"{found.margin:.3f}", _tick(found.confident)
                )
            else:
                table.add_row(foreign(name), foreign(json.dumps(_plain(found.value))), "", "", _tick(found.confident))
    except ERRORS as error:
        fail(error)
    if not as_json:
        console.print(table)


def decode(file: RecordFile, record: OfRecord = None, as_json: AsJson = False) -> None:
    """The whole record as JSON again, with a score for every leaf."""
    try:
        memory, codec = _open(file)
        for names, vectors in _records(memory, record):
            for name, vector in zip(names, vectors, strict=True):
                reading = codec.decode(vector)
                if as_json:
                    print(json.dumps({"record": name, **_as_json(reading)}, allow_nan=False))
                else:
                    _show_reading(name, reading)
    except ERRORS as error:
        fail(error)


# ------------------------------------------------------------------------------------------------------------- reading


def _open(file: Path) -> tuple[ghrr.ItemMemory, Record]:
    from ghrr.structures import Record

    try:
        memory = ghrr.ItemMemory.open(file)
    except ValueError as error:
        try:
            codec, vectors = Record.load(file)  # a file of Record.save
        except ValueError:
            raise error from None
        if vectors is None:
            raise ValueError(f"{file} holds a vocabulary but no record") from None
        if not isinstance(vectors, dict):
            rows = vectors.reshape(-1, *codec.space.shape)
            vectors = {str(number): row for number, row in enumerate(rows, start=1)}
        memory = ghrr.ItemMemory(codec.space)
        for name, vector in vectors.items():
            memory.add(name, vector)
        return memory, codec
    if memory.about is None:
        raise ValueError(f"{file} holds hypervectors, but not how to read them: it is not of `ghrr encode`")
    memory.verify()
    return memory, Record.from_state(memory.space, memory.about)


def _records(memory: ghrr.ItemMemory, label: str | None) -> Iterator[tuple[list[str], Tensor]]:
    """Labels and hypervectors, some at a time."""
    if label is not None and label not in memory:
        some = ", ".join(memory.labels[:5])
        raise ValueError(f"there is no record {label!r}; the {len(memory)} labels begin with {some}")
    names = memory.labels if label is None else [label]
    for start in range(0, len(names), _BLOCK):
        yield names[start : start + _BLOCK], memory.vectors(names[start : start + _BLOCK])


def _answers(
    memory: ghrr.ItemMemory, codec: Record, path: tuple[Part, ...], label: str | None
) -> Iterator[tuple[str, Match | Reading]]:
    """What is at a path of each record: a leaf, read for many at once, or where there is none what is below."""
    node = codec.layout.node(path)
    for names, vectors in _records(memory, label):
        if node is None or codec.layout.is_leaf(node):
            for name, vector, [match] in zip(names, vectors, codec.query_many(vectors, [path]), strict=True):
                yield name, codec.query(vector, *path) if match.unknown and node is not None else match
        else:
            yield from ((name, codec.query(vector, *path)) for name, vector in zip(names, vectors, strict=True))


def _path(text: str, layout: Layout) -> tuple[Part, ...]:
    """Parts between dots, whole numbers as places; or a JSON list, where a key may hold dots or be a number.

    What is written like a path that is known is that path, so all that ``decode`` shows can be asked.
    """
    if text.startswith("["):
        try:
            parts = json.loads(text)
        except ValueError as error:
            raise ValueError(f"the path {text} is not a JSON list: {error}") from error
        if not isinstance(parts, list) or not all(isinstance(part, (str, int)) for part in parts):
            raise ValueError(f"the path {text} must be a list of keys and places")
        return tuple(parts)
    paths = [path for node in range(1, len(layout)) if None not in (path := layout.path(node))]
    known = [path for path in paths if _written(path) == text]
    if len(known) > 1:
        raise ValueError(f"the path {text} may mean {' or '.join(json.dumps(path) for path in known)}; write it so")
    if known:
        return known[0]
    plain = re.sub(r"\[(\d+)\]", r".\1", text)
    return tuple(int(part) if part.isdecimal() else part for part in plain.split(".")) if text else ()


def _written(path: tuple[Part, ...]) -> str:
    return ".".join(map(str, path))


def _as_json(found: Any) -> dict[str, Any]:
    if isinstance(found, ghrr.Match):
        keys = ("score", "margin", "noise", "probability", "confident", "unknown", "error")
        values = {key: getattr(found, key) for key in keys}
        if found.error is not None and not math.isfinite(found.error):
            values["error"] = None  # at the end of a scale; JSON has no infinity
        return {"answer": found.label, "runner_up": found.runner_up, **values}
    leaves = [{"path": list(path), **_as_json(match)} for path, match in found.matches.items()]
    return {"value": _plain(found.value), "leaves": leaves, "unexplained": found.unexplained}


def _plain(value: Any) -> Any:
    """Data for JSON: what is missing in a list is null, in a dict it is left out."""
    from ghrr.structures import MISSING

    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not MISSING}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if value is MISSING else value


def _shown(match: Any) -> str:
    return json.dumps(match.label) if match.error is None else f"{match.label:.6g} ± {match.error:.2g}"


def _absent(match: Match) -> str:
    return "nothing is there" if match.probability_unknown >= match.required_confidence else "cannot be told"


def _tick(confident: bool) -> str:
    return "[green]yes[/]" if confident else "[red]no[/]"


def _show_reading(name: str, reading: Reading) -> None:
    say(foreign(name, "bold"))
    document = foreign(json.dumps(_plain(reading.value), indent=2, ensure_ascii=False), lines=True)
    JSONHighlighter().highlight(document)
    say(document)
    table = Table("path", "value", "score", "confident", box=box.SIMPLE_HEAD)
    for path, match in reading.matches.items():
        where = _written(path)
        table.add_row(foreign(where), foreign(_shown(match)), f"{match.score:.3f}", _tick(match.confident))
    console.print(table)
    if reading.unexplained > 0.5:
        left = f"About {reading.unexplained:.0f} leaves' worth is left over that was not read."
        console.print(left, highlight=False)


# ------------------------------------------------------------------------------------------------------------- writing


def _blocks(source: Path, key: str | None) -> Iterator[tuple[list[str], list[Any], int]]:
    """Labels, documents and bytes, some at a time."""
    from ghrr.structures import parse_json

    if source.suffix.lower() not in _LINES:
        text = source.read_bytes()
        yield [source.stem], [_parsed(parse_json, text, str(source))], len(text)
        return
    labels: list[str] = []
    documents: list[Any] = []
    size = 0
    with open(source, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            size += len(line)
            if line.strip():
                document = _parsed(parse_json, line, f"{source}, line {number}")
                labels.append(_label(document, key, source, number))
                documents.append(document)
            if len(documents) == _BLOCK:
                yield labels, documents, size
                labels, documents, size = [], [], 0
    if documents:
        yield labels, documents, size


def _parsed(parse: Any, text: bytes, where: str) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _label(document: Any, key: str | None, source: Path, number: int) -> str:
    if key is None:
        return str(number)
    if not isinstance(document, dict) or not isinstance(document.get(key), (str, int)):
        raise ValueError(f"{source}, line {number}: no string or whole number under {key!r} to name the record by")
    return str(document[key])


@dataclass
class _Load:
    """What a file holds: sizes that decide about space and memory."""

    records: int = 0
    leaves: int = 1  # in the largest record
    objects: int = 0  # in the array that is the whole document, if it is one of objects
    values: set[str] = field(default_factory=set)
    keys: set[str | int] = field(default_factory=set)


def _survey(source: Path, *, on_scale: bool) -> _Load:
    """What a file holds; numbers on a scale are no values of the vocabulary."""
    load = _Load()
    for _, documents, _ in _blocks(source, None):
        load.records += len(documents)
        for document in documents:
            found = list(_leaves(document, load.keys))
            load.leaves = max(load.leaves, len(found))
            load.values.update(json.dumps(leaf) for leaf in found if not (on_scale and type(leaf) in (int, float)))
            if isinstance(document, list) and all(isinstance(item, dict) for item in document):
                load.objects = max(load.objects, len(document))
    return load


def _enough(load: _Load, m: int) -> int:
    """Slots so that 99.9 % of the leaves of the largest record are read with confidence."""
    needed = ghrr.Record.suggest(load.leaves, values=max(2, len(load.values)), m=m, error=0.001).dim
    return max(1, min(needed, _MOST_TOTAL_DIM // m**2))


def _warn_of_load(load: _Load, space: ghrr.Space, source: Path) -> None:
    from ghrr.structures.planning import answer_rate

    if load.objects > 1 and source.suffix.lower() not in _LINES:
        warn(f"{source} is one array of {load.objects} objects and becomes one record; {_split(source)}")
    rate = answer_rate(space, items=load.leaves, candidates=max(2, len(load.values)))
    if rate < _LEAST_RATE:
        advice = "split it" if load.objects > 1 else f"use a larger --dim than {space.dim}, or smaller records"
        warn(
            f"a record of {load.leaves:,} leaves is above the capacity of {space}: about {rate:.0%} of its answers "
            f"will be confident; {advice}"
        )


def _check_memory(load: _Load, space: ghrr.Space, source: Path) -> None:
    """Refuse what does not fit in memory, before it starts."""
    vectors = 2 * (len(load.values) + len(load.keys)) + load.records
    needed = _BASE_BYTES + vectors * space.total_dim * space.dtype.itemsize
    limit = _memory_limit()
    if needed > limit:
        advice = _split(source) if load.objects > 1 else "use a smaller --dim, or fewer records at a time"
        raise ValueError(
            f"{source}: {len(load.values):,} values, {len(load.keys):,} keys and {_count(load.records)} in {space} "
            f"need about {needed / 2**30:.1f} GiB of memory, expected at most {limit / 2**30:.1f} GiB; {advice}"
        )


def _memory_limit() -> int:
    """Bytes that may be used: three quarters of the memory, 4 GiB if its size is not known."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 4
    except (AttributeError, OSError, ValueError):
        return 4 << 30


def _split(source: Path) -> str:
    lines = source.with_suffix(".jsonl")
    command = f"jq -c '.[]' {shlex.quote(str(source))} > {shlex.quote(str(lines))}"
    return f"one record per line (JSON lines) gives each its own vector: {command}"


def _leaves(document: Any, keys: set[str | int]) -> Iterator[Any]:
    """Yield the leaves of a document, and add its keys and list indices to ``keys``."""
    stack = [document]
    while stack:
        at = stack.pop()
        if isinstance(at, (dict, list)) and at:
            keys.update(at if isinstance(at, dict) else range(len(at)))
            stack.extend(at.values() if isinstance(at, dict) else at)
        else:
            yield at


def _scale(text: str | None) -> Any:
    from ghrr.structures import Scale

    if text is None:
        return None
    try:
        low, high, bandwidth = map(float, text.split(","))
    except ValueError:
        raise ValueError(f"--numbers {text}: give three numbers, LOW,HIGH,BANDWIDTH") from None
    return Scale(low, high, bandwidth)


def _progress(source: Path) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=source.suffix.lower() not in _LINES)


def _count(records: int) -> str:
    return "1 record" if records == 1 else f"{records:,} records"
