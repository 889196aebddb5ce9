"""Run folders: one run per folder, nothing is overwritten, and damaged files are named."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ghrr_lab.lm import RunError, load_run, train
from ghrr_lab.lm.run_folder import read_description
from tests.helpers import wrong
from tests.lab.lm.common import (
    Stop,
    counting_text,
    file_contents,
    random_text,
    random_tokens,
    short_run,
    short_training,
    small_config,
    stop_at,
)


@pytest.fixture(scope="module")
def stopped_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that was interrupted at step 30. Tests change only copies of it."""
    folder = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.raises(Stop):
        short_run(folder, stop_at(30))
    return folder


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a finished run of ``random_text``. Tests change only copies of it."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    train(small_config(), short_training(), random_text(), folder)
    return folder


@pytest.mark.parametrize("stopped_at", [3, 20])
def test_train_without_resume_does_not_overwrite_a_run(tmp_path: Path, stopped_at: int) -> None:
    with pytest.raises(Stop):
        short_run(tmp_path / "run", stop_at(stopped_at))
    before = file_contents(tmp_path / "run")
    with pytest.raises(RunError, match=r"run holds a run already; resume it, or choose another folder"):
        train(small_config(), short_training(), counting_text(), tmp_path / "run")
    assert file_contents(tmp_path / "run") == before


@pytest.mark.parametrize("damaged", [None, b"{", b"\xff", b'{"kind": "words", "words": []}'])
def test_resume_rewrites_missing_or_damaged_vocabulary(
    tmp_path: Path, stopped_run: Path, damaged: bytes | None
) -> None:
    path = Path(shutil.copytree(stopped_run, tmp_path / "run")) / "vocabulary.json"
    before = path.read_bytes()
    path.unlink()
    if damaged is not None:
        path.write_bytes(damaged)
    with pytest.raises(Stop):
        short_run(tmp_path / "run", stop_at(31))
    assert path.read_bytes() == before
    load_run(tmp_path / "run")


@pytest.mark.parametrize(
    ("part", "name", "other"), [("model", "split_inputs", True), ("training", "betas", [0.5, 0.9])]
)
def test_resume_gives_new_settings_their_defaults(
    tmp_path: Path, stopped_run: Path, part: str, name: str, other: object
) -> None:
    path = Path(shutil.copytree(stopped_run, tmp_path / "run")) / "run.json"
    stored = read_description(path.parent)  # without a checksum, as earlier versions wrote it
    del stored[part][name]
    path.write_text(json.dumps(stored))
    with pytest.raises(Stop):
        short_run(tmp_path / "run", stop_at(31))
    stored[part][name] = other  # control: another value
    path.write_text(json.dumps(stored))
    with pytest.raises(RunError, match=re.escape(f"holds another run: its {part} is {name} {other!r}, not")):
        short_run(tmp_path / "run")


@pytest.mark.parametrize(
    ("model", "training", "text", "message"),
    [
        ({"embed_dim": 32}, {}, {}, "holds another run: its model is embed_dim 16, not 32"),
        (
            {"attention": "rope", "num_heads": 1},
            {},
            {},
            "num_heads 2, not 1, attention 'vanilla', not 'rope'",
        ),
        ({}, {"learning_rate": 0.5}, {}, "its training is learning_rate 0.01, not 0.5"),
        ({}, {"betas": (0.9, 0.99)}, {}, "its training is betas [0.9, 0.98], not [0.9, 0.99]"),
        ({}, {}, {"name": "other"}, "its corpus is 'random', not 'other'"),
        ({"vocab_size": 21}, {}, {"vocab_size": 21}, "its model is vocab_size 20, not 21"),
    ],
)
def test_resume_rejects_a_folder_with_another_run(
    finished_run: Path, model: dict[str, Any], training: dict[str, Any], text: dict[str, Any], message: str
) -> None:
    before = file_contents(finished_run)
    config = small_config(**model)
    with pytest.raises(RunError, match=re.escape(message)):
        train(config, short_training(**training), random_text(**text), finished_run, resume=True)
    assert file_contents(finished_run) == before


def test_resume_rejects_another_vocabulary_of_the_same_size(finished_run: Path) -> None:
    text = random_text()
    words = text.tokenizer.state()["words"]
    other = dataclasses.replace(text, tokenizer=type(wrong(text.tokenizer))([*words[:-1], "other"]))
    with pytest.raises(
        RunError, match=f"its vocabulary is '{text.tokenizer.fingerprint}', not '{other.tokenizer.fingerprint}'"
    ):
        train(small_config(), short_training(), other, finished_run, resume=True)


@pytest.mark.parametrize("resume", [False, True])
def test_train_rejects_a_folder_with_other_files(tmp_path: Path, resume: bool) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(RunError, match=f"{tmp_path} is not empty and holds no run; choose another folder$"):
        train(small_config(), short_training(), random_text(), tmp_path, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_train_accepts_an_empty_folder(tmp_path: Path) -> None:
    train(small_config(), short_training(), random_text(), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("run.json", "vocabulary.json", "checkpoint.safetensors", "best.safetensors", "log.jsonl", "result.json")
    }


@pytest.mark.parametrize("name", ["run.json", "checkpoint.safetensors"])
def test_resume_names_a_damaged_file_and_changes_nothing(tmp_path: Path, stopped_run: Path, name: str) -> None:
    folder = Path(shutil.copytree(stopped_run, tmp_path / "run"))
    path = folder / name
    path.write_bytes(path.read_bytes()[:-10])
    before = file_contents(folder)
    with pytest.raises(ValueError, match=re.escape(str(path))):
        short_run(folder)
    assert file_contents(folder) == before


def test_load_run_rejects_folders_without_weights(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"holds no run, expected a folder with run\.json"):
        load_run(tmp_path)
    with pytest.raises(Stop):
        short_run(tmp_path / "run", stop_at(3))
    with pytest.raises(RunError, match="has no weights yet; resume its training"):
        load_run(tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("best.safetensors", lambda data: data[:-1], "not a readable safetensors file; it is truncated"),
        ("best.safetensors", lambda data: data[:-1] + bytes([data[-1] ^ 1]), "does not match its checksum"),
        (
            "vocabulary.json",
            lambda data: data.replace(b"w7", b"w77"),
            "vocabulary.json is not the vocabulary that the model was trained with",
        ),
        ("vocabulary.json", lambda data: data.replace(b"words", b"birds"), "state must come from Tokenizer.state()"),
        ("vocabulary.json", lambda data: data[:-10], "load_run: "),
        ("vocabulary.json", None, "vocabulary.json"),
    ],
)
def test_load_run_names_damaged_files(
    tmp_path: Path, finished_run: Path, name: str, change: Callable[[bytes], bytes] | None, message: str
) -> None:
    load_run(finished_run)
    path = Path(shutil.copytree(finished_run, tmp_path / "run")) / name
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes()))
    with pytest.raises(RunError, match=re.escape(message)) as error:
        load_run(tmp_path / "run")
    assert str(tmp_path / "run") in str(error.value)


def test_resume_after_a_kill_before_the_first_file(tmp_path: Path) -> None:
    text, folder = random_text(), tmp_path / "run"
    (folder / ".ghrr-0123456789ab-1-1-01234567.tmp").mkdir(parents=True)
    (folder / ".lock").write_text("1 on a machine")
    (folder / "vocabulary.json").write_text(json.dumps(text.tokenizer.state()))
    train(small_config(), short_training(), text, folder, resume=True)


def test_train_rejects_a_file_as_folder(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(RunError, match="is a file"):
        train(small_config(), short_training(), random_text(), tmp_path / "run")


def test_resume_rejects_another_text_of_the_same_name(finished_run: Path) -> None:
    other = dataclasses.replace(random_text(), train=random_tokens(400, seed=9))
    with pytest.raises(RunError, match="holds another run"):
        train(small_config(), short_training(), other, finished_run, resume=True)
