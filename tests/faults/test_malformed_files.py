"""Readers reject FIFOs, devices and malformed files at once, with an error that names the file."""

from __future__ import annotations

import json
import os
import struct
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import ghrr
from ghrr.files import check_regular, parse_json, read_json
from ghrr.files.json_files import MAX_DEPTH
from ghrr.structures import Graph
from ghrr_lab import paper
from ghrr_lab.lm.checkpoint import load_checkpoint
from ghrr_lab.lm.corpora import load_corpus
from ghrr_lab.lm.plan import read_plan
from ghrr_lab.lm.run_folder import read_description, read_result
from ghrr_lab.lm.summary import stored_runs
from ghrr_lab.lm.train_log import read_log
from ghrr_lab.paper import journal as journals
from ghrr_lab.paper.language_model_runs import read_runs
from tests.processes import HANG

DEEP = "[" * 100_000
READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "load": ("x.safetensors", ghrr.load),
    "Graph.load": ("x.safetensors", Graph.load),
    "load_checkpoint": ("x.safetensors", load_checkpoint),
    "load_corpus": ("train.txt", lambda path: load_corpus(path.parent)),
    "read_json": ("x.json", read_json),
    "read_plan": ("plan.json", read_plan),
    "read_log": ("log.jsonl", lambda path: read_log(path.parent)),
    "read_description": ("run.json", lambda path: read_description(path.parent)),
    "read_result": ("result.json", lambda path: read_result(path.parent)),
    "stored_runs": ("summary.json", stored_runs),
    "read_runs": ("summary.json", read_runs),
    "plot": ("manifest.json", lambda path: paper.plot(path.parent)),
}
JSON_READERS = [name for name in READERS if READERS[name][0].endswith("json")]


def error_of(work: Callable[[], Any]) -> BaseException | None:
    """Return what the work raises; fail if it never ends, like a reader that waits for a FIFO."""
    raised: list[BaseException | None] = []

    def run() -> None:
        try:
            work()
            raised.append(None)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(HANG)
    assert raised, "the reader blocks"
    return raised[0]


@pytest.mark.parametrize("name", READERS)
def test_fifo_is_rejected_without_blocking(tmp_path: Path, name: str) -> None:
    file, read = READERS[name]
    os.mkfifo(tmp_path / file)
    error = error_of(lambda: read(tmp_path / file))
    assert isinstance(error, (OSError, ValueError))
    assert "it is a FIFO, expected a regular file" in str(error)
    assert str(tmp_path) in str(error)


def test_check_regular_accepts_files_and_links(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    for name in ("file", "link"):
        check_regular(tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"^'.*none': no such file"):
        check_regular(tmp_path / "none")
    with pytest.raises(IsADirectoryError, match="it is a folder, expected a regular file"):
        check_regular(tmp_path)
    with pytest.raises(OSError, match="it is a character device, expected a regular file"):
        check_regular("/dev/zero")


@pytest.mark.parametrize(
    "content", [DEEP, '{"runs": ' + DEEP, "null", "7", "[]", '"x"', "{}", "{", "\ufeff", "NaN"], ids=range(10)
)
@pytest.mark.parametrize("name", [name for name in JSON_READERS if name != "read_json"])
def test_json_of_wrong_structure_is_rejected(tmp_path: Path, name: str, content: str) -> None:
    file, read = READERS[name]
    (tmp_path / file).write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r".+") as caught:
        read(tmp_path / file)
    assert str(tmp_path / file) in str(caught.value)


def test_json_beyond_limits_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH, "x")
    for depth in (MAX_DEPTH + 1, 900, 100_000):
        with pytest.raises(ValueError, match="nested too deeply"):
            parse_json("[" * depth + "]" * depth, "x")
    with pytest.raises(ValueError, match="the key 'a' more than once"):
        parse_json('{"b": [{"a": 1, "a": 2}]}', "x")
    with pytest.raises(ValueError, match="not valid JSON"):
        parse_json("1" * 5000, "x")
    (tmp_path / "x.json").write_text("[1, 2, 3]")
    monkeypatch.setattr("ghrr.files.json_files.MAX_BYTES", 8)
    with pytest.raises(ValueError, match=r"it has 9 bytes, expected at most 8"):
        read_json(tmp_path / "x.json")


# ----------------------------------------------------------------------------------------------------------------- logs


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("7", "expected an object with step"),
        ("{}", "step is missing"),
        ('{"step": "1"}', "step must be a whole number"),
        ('{"step": true}', "step must be a whole number"),
        ('{"step": 1, "loss": "low"}', "loss must be a number"),
        (f'{{"step": {10**30}}}', "step must be a whole number"),
    ],
)
def test_log_lines_without_required_fields_are_rejected(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "log.jsonl").write_text('{"step": 1, "loss": 2}\n' + line + "\n")
    with pytest.raises(ValueError, match=rf"log\.jsonl, line 2: {message}"):
        read_log(tmp_path)


def test_truncated_log_line_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"step": 1, "loss": 2}\n{"step": 2, "lo')
    assert read_log(tmp_path) == [{"step": 1, "loss": 2}]


# ------------------------------------------------------------------------------------------------------------- journals


@pytest.mark.parametrize(
    "record", [{}, 7, [], None, {"format": 1}, {"format": "1"}, {"format": 1, "settings": []}, {"a": {"b": 3}}]
)
def test_journal_with_other_header_is_renamed(tmp_path: Path, record: Any) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(journals._format_line(record))
    journal = journals.Journal(path, paper.EXPERIMENTS["fixed-vs-varying"], {"m": 2}, 0)
    assert "x.aside-1.jsonl" in journal.open()
    assert journal.trials() == {}


@pytest.mark.parametrize(
    "record",
    [
        *({}, 7, None, {"trial": 1}, {"trial": "1", "seconds": 1, "columns": {}}),
        *({"trial": 1, "seconds": 1, "columns": {"a": 3}}, {"trial": 1, "seconds": 1, "columns": {"a": [1], "b": []}}),
        {"trial": 1, "seconds": 1, "columns": {"a": ["\ud800"]}},
    ],
)
def test_trial_without_required_fields_is_skipped(tmp_path: Path, record: Any) -> None:
    path = tmp_path / "x.jsonl"
    journal = journals.Journal(path, paper.EXPERIMENTS["fixed-vs-varying"], {"m": 2}, 0)
    journal.open()
    whole = {"trial": 3, "seconds": 0.5, "columns": {"a": [1, 2]}}
    with open(path, "ab") as file:
        for text in (json.dumps(record), json.dumps(whole), DEEP):
            file.write(f"{zlib.crc32(text.encode()):08x} {text}\n".encode())
    assert list(journal.trials()) == [3]


def test_journal_does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine, without an end of line")
    (tmp_path / "x.jsonl").symlink_to(tmp_path / "mine")
    journal = journals.Journal(tmp_path / "x.jsonl", paper.EXPERIMENTS["fixed-vs-varying"], {"m": 2}, 0)
    with pytest.raises(OSError, match="symbolic link"):
        journal.open()
    assert (tmp_path / "mine").read_text() == "mine, without an end of line"


# ---------------------------------------------------------------------------------------------------------- wrong sizes


@pytest.mark.parametrize("read", [ghrr.load, Graph.load, load_checkpoint])
def test_header_larger_than_file_is_rejected(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    path = tmp_path / "x"
    for claimed, dtype in ((1 << 40, "F32"), (1 << 60, "F64"), (10**30, "F32"), (-8, "F32")):
        size = {"F32": 4, "F64": 8}[dtype]
        entry = {"dtype": dtype, "shape": [claimed], "data_offsets": [0, claimed * size]}
        header = json.dumps({"__metadata__": {"ghrr": "{}"}, "x": entry}).encode()
        path.write_bytes(struct.pack("<Q", len(header)) + header)
        with pytest.raises(ValueError, match="not a readable safetensors file") as caught:
            read(path)
        assert str(path) in str(caught.value)
    path.write_bytes(struct.pack("<Q", 1 << 62) + b"{}")
    with pytest.raises(ValueError, match="header of"):
        read(path)


def test_sparse_file_of_four_tebibytes_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "x"
    numbers = 1 << 40
    entry = {"dtype": "F32", "shape": [numbers], "data_offsets": [0, 4 * numbers]}
    about = json.dumps({"format": "ghrr-hypervectors", "version": 2})
    header = json.dumps({"__metadata__": {"ghrr": about}, "x": entry}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        try:
            file.truncate(8 + len(header) + 4 * numbers)
        except OSError:
            pytest.skip("this file system has no files of that size")
    with pytest.raises(ValueError, match="4,398,046,511,104 bytes, which do not fit into memory"):
        ghrr.load(path)


def test_nan_token_is_rejected() -> None:
    from ghrr_lab.lm import generate
    from tests.lab.lm.common import new_model

    model = new_model()
    generator = torch.Generator().manual_seed(0)
    assert generate(model, torch.tensor([[1]]), 2, temperature=0.0, generator=generator).shape == (1, 3)
    with torch.no_grad():
        model.norm.weight.fill_(torch.nan)
    for temperature in (0.0, 1.0):
        with pytest.raises(ValueError, match="logits are not finite"):
            generate(model, torch.tensor([[1]]), 2, temperature=temperature, generator=generator)
