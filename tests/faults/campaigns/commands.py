"""Commands: hostile arguments and files, ``--force``, and standard output that is closed, full or not read to its end.

Right is: a command ends with the status 0, 1 or 2 and a message, never with a traceback or with control characters. It
changes no file but its output, and this only with ``--force``, and only if it succeeds; it never removes files that
are not its own. A reader that closes the output early is no error; output that cannot be written is one.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.campaigns.outcome import LOST, RAW, WRONG, Outcome, ensure, must_work
from tests.faults.campaigns.records import check_records, copy_template, kept_folder, make_documents
from typer.main import get_command
from typer.testing import CliRunner

from ghrr.cli import app
from ghrr.search import RecordIndex

OLD = make_documents(range(24))
NEW = make_documents(range(100, 112))

WORDS = [
    "",
    "-1",
    "0",
    "2",
    "1e309",
    "nan",
    "ü",
    "[red]x[/]",
    "\x1b[2J",
    "a.b",
    "a[0]",
    '["a", 1]',
    "--json",
    "--force",
    "--help",
    "cuda:99",
    "nope",
    "9" * 40,
    "../..",
    "/dev/null",
    "/proc/self/mem",
    "{}",
    "--nope",
    "0,1,nan",
    "0,10,1",
    "x" * 300,
]


# In a folder of other programs, with names that commands write in theirs.
OTHERS = ["fields.safetensors", "incomplete.json", "index.html", "manifest.json", "run.json", "vectors/manifest.json"]


_NAMES = b'{"[/x]\\u001b": "\\u202e"}'  # of a record, with markup and control characters


@functools.cache
def _encoded_names() -> bytes:
    folder = kept_folder("names")
    (folder / "keys.json").write_bytes(_NAMES)
    CliRunner().invoke(app, ["encode", str(folder / "keys.json"), "-o", str(folder / "x.safetensors")])
    return (folder / "x.safetensors").read_bytes()


def hostile_files(folder: Path) -> list[str]:
    """Write files and folders that no command expects; return their paths."""
    contents = {
        "empty.json": b"",
        "text.json": b"hello",
        "deep.json": b"[" * 100_000,
        "twice.json": b'{"a": 1, "a": 2}',
        "nan.json": b'{"a": NaN}',
        "number.json": b"3",
        "list.json": json.dumps([{"a": n} for n in range(30)]).encode(),
        "good.json": b'{"a": {"b": "x"}, "c": [1, 2]}',
        "good.jsonl": b'{"a": 1}\n{"a": 2}\n',
        "bad.jsonl": b'{"a": 1}\n{',
        "latin.json": "ü".encode("latin-1"),
        "keys.json": _NAMES,
        "zero.safetensors": b"\0" * 64,
        "huge.safetensors": (1 << 62).to_bytes(8, "little") + b"{}",
        "names.safetensors": _encoded_names(),
        "log.jsonl": b"[]\n",
        "plan.json": b'{"runs": 3}',
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "folder").mkdir()
    for name in OTHERS:
        (folder / "papers" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "papers" / name).write_bytes(b"keep")
    os.mkfifo(folder / "fifo")
    (folder / "link").symlink_to(folder / "nowhere")
    return [str(folder / name) for name in [*contents, "folder", "papers", "fifo", "link", "missing"]]


COMMANDS = [
    ["info"],
    ["cite"],
    ["encode"],
    ["query"],
    ["decode"],
    ["paper", "list"],
    ["paper", "plot"],
    ["lm", "eval"],
    ["lm", "generate"],
    ["lm", "data"],
    ["lm", "compare"],
    ["encode", "SOURCE", "-o", "OUT"],
    ["encode", "SOURCE", "-o", "OUT", "--dim", "WORD"],
    ["encode", "SOURCE", "-o", "OUT", "--m", "WORD"],
    ["encode", "SOURCE", "-o", "OUT", "--numbers", "WORD"],
    ["encode", "SOURCE", "-o", "OUT", "--label", "WORD"],
    ["query", "SOURCE", "WORD"],
    ["query", "SOURCE", "WORD", "--record", "WORD"],
    ["decode", "NAMES"],
    ["query", "NAMES", "WORD"],
    ["decode", "SOURCE", "--record", "WORD"],
    ["lm", "eval", "SOURCE"],
    ["lm", "generate", "SOURCE", "--prompt", "WORD"],
    ["lm", "data", "WORD"],
    ["lm", "train", "SOURCE", "--out", "OUT", "--epochs", "WORD"],
    ["lm", "train", "grammar", "--out", "SOURCE", "--device", "nope"],
    ["lm", "train", "grammar", "--out", "OUT", "--device", "nope", "--set", "WORD"],
    ["lm", "compare", "SOURCE", "--out", "OUT"],
    ["paper", "run", "WORD", "--out", "OUT"],
    ["paper", "plot", "SOURCE"],
    ["index", "SOURCE", "-o", "OUT"],
    ["index", "SOURCE", "-o", "OUT", "--force"],
    ["encode", "SOURCE", "-o", "OUT", "--force"],
    ["dedupe", "SOURCE", "-o", "OUT", "--force"],
    ["learn", "SOURCE", "--target", "a", "-o", "OUT", "--force"],
    ["chains", "train", "SOURCE", "--out", "OUT", "--force"],
    ["relations", "train", "SOURCE", "--out", "OUT", "--resume"],
    ["paper", "run", "fixed-vs-varying", "--out", "SOURCE", "-j", "1"],
    ["index", "SOURCE", "-o", "OUT", "--id", "WORD", "--skip-errors"],
    ["index", "SOURCE", "-o", "OUT", "--backend", "WORD", "--uri", "WORD"],
    ["search", "SOURCE", "WORD"],
    ["search", "SOURCE", "WORD", "--must", "WORD"],
    ["dedupe", "SOURCE", "--kind", "WORD"],
    ["dedupe", "SOURCE", "-o", "OUT", "--threshold", "WORD"],
    ["WORD"],
    ["WORD", "WORD"],
]


# These start a server, a download, or what takes minutes with its defaults.
_LONG = {("play",), ("paper", "run"), ("compare",), ("lm", "data"), ("lm", "train"), ("lm", "compare")}


@functools.cache
def _commands() -> list[tuple[tuple[str, ...], Any]]:
    """Return all commands of ghrr with their words."""

    def below(words: tuple[str, ...], command: Any) -> list[tuple[tuple[str, ...], Any]]:
        if hasattr(command, "commands"):
            return [one for name, child in sorted(command.commands.items()) for one in below((*words, name), child)]
        return [] if words in _LONG else [(words, command)]

    return below((), get_command(app))


def any_command(rng: random.Random) -> list[str]:
    """Return a random command with random arguments and options, in words to be replaced."""
    words, command = rng.choice(_commands())
    parts = list(words)
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            parts += rng.choices([[rng.choice(["SOURCE", "WORD"])], []], [9, 1])[0]
        elif parameter.required or rng.random() < 0.25:
            parts.append(rng.choice([one for one in parameter.opts if one.startswith("-")]))
            is_output = parameter.name in ("out", "output")
            parts += [] if parameter.is_flag else ["OUT" if is_output else rng.choice(["SOURCE", "WORD", "WORD"])]
    return parts


def attack(rng: random.Random, folder: Path) -> Outcome:
    kinds: list[Callable[[random.Random, Path], Outcome]] = [_hostile, _forced, _forced_index, _closed_output]
    with contextlib.chdir(folder):
        return rng.choices(kinds, [83, 9, 6, 2])[0](rng, folder)


def _run(arguments: list[str]) -> tuple[int, str]:
    """Run a command in this process; return its status and its output."""
    case = " ".join(arguments)[:400]
    result = CliRunner().invoke(app, arguments)
    ended = result.exception is None or isinstance(result.exception, SystemExit)
    ensure(ended and "Traceback" not in result.output, RAW, f"{result.exception!r:.300}", case)
    ensure(result.exit_code in (0, 1, 2), RAW, f"the status is {result.exit_code}", case)
    controls = [one for one in "\x1b\u202e" if one in result.output]
    ensure(not controls, RAW, f"the output has the control characters {controls}", case)
    return result.exit_code, result.output


def _contents(folder: Path) -> dict[str, Any]:
    """Return the contents of all files below a folder; links and FIFOs by their kind."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            found[name] = "link" if path.is_symlink() else "FIFO"
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


def _hostile(rng: random.Random, folder: Path) -> Outcome:
    files = folder / "files"
    files.mkdir()
    sources, parts = hostile_files(files), list(rng.choice(COMMANDS) if rng.random() < 0.6 else any_command(rng))
    out = rng.choice([str(folder / "out"), *sources])
    for place, part in enumerate(parts):
        if part == "WORD":
            parts[place] = rng.choice(WORDS)
        elif part == "NAMES":
            parts[place] = str(files / "names.safetensors")
        elif part == "SOURCE":
            parts[place] = rng.choice(sources)
        elif part == "OUT":
            parts[place] = out
    if rng.random() < 0.3:
        parts.insert(rng.randrange(1, len(parts) + 1), rng.choice(WORDS))
    before = _contents(files)
    status, _ = _run(parts)
    after = _contents(files)
    changed = [name for name, content in before.items() if after.get(name) != content]
    is_output = "--force" in parts and status in (0, 1) and changed == [Path(out).name]
    ensure(not changed or is_output, LOST, f"the status is {status}, changed {changed}", " ".join(parts)[:400])
    return Outcome(f"status {status}")


def _forced(rng: random.Random, folder: Path) -> Outcome:
    """Write over a file: it is replaced if the command succeeds, and stays if not."""
    files = folder / "files"
    files.mkdir()
    source, out = rng.choice(hostile_files(files)), folder / "out.safetensors"
    kind = rng.choice(["file", "folder"])
    if kind == "file":
        out.write_bytes(b"precious")
    else:
        out.mkdir()
        (out / "precious.txt").write_text("precious")
    command = rng.choice([["encode", source, "-o", str(out)], ["dedupe", source, "-o", str(out)]])
    before = _contents(files)
    status, _ = _run([*command, "--force"])
    ensure(_contents(files) == before, LOST, f"the status is {status}, sources are changed", " ".join(command))
    kept = out.read_bytes() == b"precious" if out.is_file() else (out / "precious.txt").exists()
    is_allowed = kept or (kind == "file" and status in (0, 1) and out.is_file())
    ensure(is_allowed, LOST, f"the status is {status}, and {kind} {out.name} is gone", " ".join(command))
    return Outcome(f"forced over a {kind}: status {status}")


def _forced_index(rng: random.Random, folder: Path) -> Outcome:
    """`ghrr index --force` over an index, a folder of others' files, or both."""
    out, source = folder / "papers", folder / "source.jsonl"
    has_index, has_files = rng.choice([(True, False), (True, True), (False, True)])
    if has_index:
        copy_template("torch", OLD, out)
    out.mkdir(exist_ok=True)
    if has_files:
        names = rng.sample(["thesis.txt", "data/numbers.csv", "notes.md", "vectors.txt"], 2)
        names += [] if has_index else rng.sample(["fields.safetensors", "documents.sqlite", "incomplete.json"], 1)
        for name in names:
            (out / name).parent.mkdir(exist_ok=True)
            (out / name).write_bytes(rng.randbytes(50))
    lines = [json.dumps(document) for document in NEW.values()]
    kind = rng.choice(["good", "good", "missing", "broken", "empty", "wrong option"])
    if kind != "missing":
        content = {"broken": [*lines, "{"], "empty": []}.get(kind, lines)
        source.write_text("".join(line + "\n" for line in content))
    own = set(_contents(copy_template("torch", OLD, folder / "own"))) if has_index else set()
    foreign = {name: content for name, content in _contents(out).items() if name not in own}
    extra = ["--kind", "name=nope"] if kind == "wrong option" else []
    arguments = [
        "index",
        str(source),
        "-o",
        str(out),
        "--dim",
        "32",
        *rng.choice([["--force"], ["--force"], []]),
        *extra,
    ]
    status, output = _run(arguments)
    case = f"ghrr index {' '.join(arguments[4:])}, {kind} source, over index {has_index}, files {has_files}"
    now = _contents(out)
    gone = [name for name, content in foreign.items() if now.get(name) != content]
    ensure(not gone, LOST, f"the status is {status}, and files of others are changed or gone: {gone}", case)
    expected = {str(row): document for row, document in enumerate(NEW.values())} if status == 0 else OLD
    ensure(status != 0 or kind == "good", WRONG, f"the status is 0 with a source that is {kind}", case)
    if status == 0 or has_index:
        with must_work(case, LOST):
            index = RecordIndex.open(out)
        check_records(index, expected, f"{case}, status {status}: {output[-200:]}")
    return Outcome(f"ghrr index over what is there: status {status}")


@functools.cache
def _large_index() -> Path:
    return copy_template("torch", make_documents(range(800)), kept_folder("large") / "index")


def _closed_output(rng: random.Random, folder: Path) -> Outcome:
    """Run a command in a process whose output is closed, not read to its end, or full."""
    source = folder / "source.jsonl"
    source.write_text("".join(json.dumps(one) + "\n" for one in [*NEW.values(), *NEW.values()]))
    command = rng.choice(
        [
            ["search", str(_large_index()), '{"name": "Ada"}', "-k", "700", "--json"],
            ["search", str(_large_index()), '{"name": "Ada"}', "-k", "700"],
            ["dedupe", str(source)],
            ["dedupe", str(source), "--json"],
            ["index", str(source), "-o", str(folder / "out"), "--dim", "32"],
            ["info"],
            ["cite"],
            ["paper", "list"],
            ["--help"],
            ["search", "--help"],
        ]
    )
    how = rng.choice(["closed", "errors closed", "early", "early", "full"])
    program = [sys.executable, "-m", "ghrr", *command]
    case = f"ghrr {' '.join(command)[:80]}, output {how}"
    if how == "early":
        with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.read(1)
            process.stdout.close()
            errors = process.stderr.read().decode(errors="replace")
            status = process.wait()
    else:
        redirect = {"closed": ">&-", "errors closed": "2>&-", "full": ">/dev/full"}[how]
        shell = ["sh", "-c", f'exec "$@" {redirect}', "sh", *program]
        done = subprocess.run(shell, capture_output=True, text=True, cwd=folder, check=False)
        status, errors = done.returncode, done.stderr
    words = ("Traceback", "Exception ignored", "BrokenPipe")
    ensure(not any(word in errors for word in words), RAW, f"status {status}: {errors[-300:]}", case)
    if how == "full":
        ensure(status != 0, WRONG, "the status is 0 although the output is lost", case)
    else:
        ensure(status in (0, 1, -13, 141), RAW, f"the status is {status}: {errors[-200:]}", case)
    if command[0] == "index" and status == 0:
        with must_work(case, LOST):
            index = RecordIndex.open(folder / "out")
        ensure(len(index) == 2 * len(NEW), LOST, f"{len(index)} records", case)
    return Outcome(f"output {how}: status {status}")
