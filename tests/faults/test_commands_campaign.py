"""Commands with hostile arguments and files: each ends with 0, 1 or 2 and a message, never with a traceback."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ghrr.cli import app

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
        "keys.json": b'{"[/x]\\u001b": "\\u202e"}',
        "zero.safetensors": b"\0" * 64,
        "huge.safetensors": (1 << 62).to_bytes(8, "little") + b"{}",
        "log.jsonl": b"[]\n",
        "plan.json": b'{"runs": 3}',
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "folder").mkdir()
    os.mkfifo(folder / "fifo")
    (folder / "link").symlink_to(folder / "nowhere")
    return [str(folder / name) for name in [*contents, "folder", "fifo", "link", "missing"]]


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
    ["index", "SOURCE", "-o", "OUT", "--id", "WORD", "--skip-errors"],
    ["index", "SOURCE", "-o", "OUT", "--backend", "WORD", "--uri", "WORD"],
    ["search", "SOURCE", "WORD"],
    ["search", "SOURCE", "WORD", "--must", "WORD"],
    ["dedupe", "SOURCE", "--kind", "WORD"],
    ["dedupe", "SOURCE", "-o", "OUT", "--threshold", "WORD"],
    ["WORD"],
    ["WORD", "WORD"],
]


def attack(folder: Path, count: int, seed: int) -> list[str]:
    """Run ``count`` commands; return those that ended in a wrong way."""
    rng, runner = random.Random(seed), CliRunner()
    sources, wrong = hostile_files(folder), []
    for number in range(count):
        parts = list(rng.choice(COMMANDS))
        for place, part in enumerate(parts):
            if part == "WORD":
                parts[place] = rng.choice(WORDS)
            elif part == "SOURCE":
                parts[place] = rng.choice(sources)
            elif part == "OUT":
                parts[place] = rng.choice([str(folder / f"out{number}"), *sources])
        if rng.random() < 0.3:
            parts.insert(rng.randrange(1, len(parts) + 1), rng.choice(WORDS))
        before = (folder / "good.json").read_bytes()
        result = runner.invoke(app, parts)
        ended = result.exception is None or isinstance(result.exception, SystemExit)
        controls = any(c in result.output for c in "\x1b\u202e")
        if not ended or result.exit_code not in (0, 1, 2) or "Traceback" in result.output or controls:
            wrong.append(f"{parts}: {result.exit_code} {result.exception!r:.200}")
        if not (folder / "fifo").is_fifo():
            wrong.append(f"{parts}: replaced the FIFO")
            os.mkfifo(folder / "fifo")
        if (folder / "good.json").read_bytes() != before and "--force" not in parts:
            wrong.append(f"{parts}: wrote over a file")
    return wrong


def test_hostile_commands_end_with_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert attack(tmp_path, 40, seed=0) == []


@pytest.mark.fuzz
def test_many_hostile_commands_end_with_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert attack(tmp_path, 400, seed=1) == []
