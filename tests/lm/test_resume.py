"""Runs: one that was killed ends like one that never was, and a folder holds one run that nothing overwrites."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ghrr.lm import Progress, RunError, load_run, train
from ghrr.lm.checkpoint import load_checkpoint
from ghrr.lm.logs import read_log
from tests.lm.common import (
    ROOT,
    STEPS,
    Stop,
    assert_same_tensors,
    counting_text,
    interruptible_run,
    random_text,
    short_training,
    small_config,
    wrong,
)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was never stopped."""
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    interruptible_run(folder, lambda progress: None)
    return folder


def assert_same_run(folder: Path, expected: Path) -> None:
    for name in ("best.safetensors", "checkpoint.safetensors"):
        assert_same_tensors(folder / name, expected / name)
    assert (folder / "log.jsonl").read_text() == (expected / "log.jsonl").read_text()
    one, other = (json.loads((path / "result.json").read_text()) for path in (folder, expected))
    assert {**one, "tokens_per_s": None} == {**other, "tokens_per_s": None}


CHILD = """
import os, signal, sys
from pathlib import Path

import torch

from tests.lm.common import interruptible_run

torch.set_num_threads(1)
last, after, left = map(int, sys.argv[2:])
step, replace = 0, os.replace


def replace_or_die(*arguments):
    global left
    left -= step >= after
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*arguments)


def show(progress):
    global step
    step = progress.step
    print(step, flush=True)
    if step == last:
        signal.pause()


os.replace = replace_or_die
interruptible_run(Path(sys.argv[1]), show)
"""


def run_until(
    folder: Path, *, step: int = STEPS + 1, last: int = 0, delay: float = 0.0, after: int = 0, writes: int = 0
) -> int:
    """Go on in a process that is killed.

    It is killed some seconds after ``step``, but waits at the step ``last``, or else it could be done before that; or
    it kills itself after the step ``after``, when as many files as ``writes`` are about to be put in their places.
    """
    command = [sys.executable, "-c", CHILD, str(folder), str(last), str(after), str(writes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) >= step:
                time.sleep(delay)
                process.kill()
                break
    return process.returncode


def test_a_killed_run_ends_like_one_that_was_never_stopped(tmp_path: Path, undisturbed: Path) -> None:
    folder, chance = tmp_path / "run", random.Random(0)
    assert run_until(folder, step=2, last=5) == -signal.SIGKILL
    assert not (folder / "checkpoint.safetensors").exists()
    for step in (chance.randrange(20, 34), chance.randrange(36, 48)):
        delay = chance.uniform(0, 0.02)
        assert run_until(folder, step=step, last=step + 11, delay=delay) == -signal.SIGKILL
        reached = load_checkpoint(folder / "checkpoint.safetensors")[0]["step"]
        assert step - 6 <= reached <= step + 11
    best = json.loads((undisturbed / "result.json").read_text())["best_step"]
    assert best > reached
    assert run_until(folder, after=best - 1, writes=2) == -signal.SIGKILL  # between the best weights and the state
    assert load_checkpoint(folder / "checkpoint.safetensors")[0]["step"] == best - 6
    assert not (folder / "result.json").exists()
    assert run_until(folder) == 0
    assert_same_run(folder, undisturbed)


def stop_at(step: int) -> Callable[[Progress], None]:
    def stop(progress: Progress) -> None:
        if progress.step == step:
            raise Stop

    return stop


def test_a_run_may_be_stopped_at_any_step(tmp_path: Path, undisturbed: Path) -> None:
    for step in (1, 6, 7, 13, 23, 29, 36, 47, 59, 66, 71, STEPS):
        with pytest.raises(Stop):
            interruptible_run(tmp_path / "run", stop_at(step))
        with contextlib.suppress(OSError), open(tmp_path / "run" / "log.jsonl", "a") as file:
            file.write('{"step": 99, "lo')  # a line that was cut short
    steps: list[Progress] = []
    interruptible_run(tmp_path / "run", steps.append)
    assert steps == []  # all steps were done
    assert_same_run(tmp_path / "run", undisturbed)


def test_other_dropout_would_show(tmp_path: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a run that forgets which step it is at."""
    monkeypatch.setattr(sys.modules["ghrr.lm.train"], "_step_seed", lambda *_: 0)
    interruptible_run(tmp_path / "run", lambda progress: None)
    with pytest.raises(AssertionError):
        assert_same_run(tmp_path / "run", undisturbed)


def test_events_for_tensorboard(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with pytest.raises(Stop):
        interruptible_run(tmp_path / "run", stop_at(41), tensorboard=True)  # step 40 is done again
    interruptible_run(tmp_path / "run", lambda progress: None, tensorboard=True)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    lines = read_log(tmp_path / "run")
    for name in ("loss", "valid_ppl", "learning_rate"):
        found = [(event.step, event.value) for event in events.Scalars(name)]
        expected = [(line["step"], line[name]) for line in lines if name in line]
        assert [step for step, _ in found] == [step for step, _ in expected]
        assert [value for _, value in found] == pytest.approx([value for _, value in expected], rel=1e-6)
    assert not (tmp_path / "run" / "runs").exists()


def test_lines_of_the_log_are_json_and_there_once(undisturbed: Path) -> None:
    lines = [json.loads(line) for line in (undisturbed / "log.jsonl").read_text().splitlines()]
    assert lines == read_log(undisturbed)
    kinds = Counter((line["step"], "loss" in line) for line in lines)
    assert set(kinds.values()) == {1}
    assert [line["step"] for line in lines] == sorted(line["step"] for line in lines)
    assert {tuple(line) for line in lines} == {
        ("step", "epoch", "loss", "learning_rate"),
        ("step", "epoch", "valid_ppl"),
    }
    assert not (undisturbed / "tensorboard").exists()


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir() if path.is_file()}


def test_a_finished_run_is_read_not_done_again(undisturbed: Path) -> None:
    before = contents(undisturbed)
    steps: list[Progress] = []
    assert interruptible_run(undisturbed, steps.append) == json.loads((undisturbed / "result.json").read_text())
    assert steps == []
    assert contents(undisturbed) == before


@pytest.mark.parametrize("stopped_at", [3, 20])
def test_a_run_is_never_overwritten_silently(tmp_path: Path, stopped_at: int) -> None:
    with pytest.raises(Stop):
        interruptible_run(tmp_path / "run", stop_at(stopped_at))
    before = contents(tmp_path / "run")
    with pytest.raises(RunError, match=r"run holds a run already; resume it, or name another folder"):
        train(small_config(), short_training(), counting_text(), tmp_path / "run")
    assert contents(tmp_path / "run") == before


@pytest.mark.parametrize("damaged", [None, b"{", b"\xff", b'{"kind": "words", "words": []}'])
def test_a_run_that_goes_on_gets_its_vocabulary_back(tmp_path: Path, damaged: bytes | None) -> None:
    with pytest.raises(Stop):
        interruptible_run(tmp_path / "run", stop_at(30))
    path = tmp_path / "run" / "vocabulary.json"
    before = path.read_bytes()
    path.unlink()
    if damaged is not None:
        path.write_bytes(damaged)
    interruptible_run(tmp_path / "run", lambda _: None)
    assert path.read_bytes() == before
    load_run(tmp_path / "run")


@pytest.mark.parametrize(("part", "name"), [("model", "split_inputs"), ("training", "betas")])
def test_a_run_from_before_a_setting_existed_goes_on(tmp_path: Path, part: str, name: str) -> None:
    with pytest.raises(Stop):
        interruptible_run(tmp_path / "run", stop_at(30))
    path = tmp_path / "run" / "run.json"
    stored = json.loads(path.read_text())
    del stored[part][name]
    path.write_text(json.dumps(stored))
    interruptible_run(tmp_path / "run", lambda _: None)
    stored[part][name] = "other"  # the control: a value is what it is
    path.write_text(json.dumps(stored))
    with pytest.raises(RunError, match=f"{name}.* 'other'"):
        interruptible_run(tmp_path / "run", lambda _: None)


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
        ({"vocab_size": 21}, {}, {"vocabulary": 21}, "its model is vocab_size 20, not 21"),
    ],
)
def test_another_run_in_the_same_folder(
    tmp_path: Path, model: dict[str, Any], training: dict[str, Any], text: dict[str, Any], message: str
) -> None:
    train(small_config(), short_training(), random_text(), tmp_path / "run")
    before = contents(tmp_path / "run")
    config = small_config(**model)
    with pytest.raises(RunError, match=re.escape(message)):
        train(config, short_training(**training), random_text(**text), tmp_path / "run", resume=True)
    assert contents(tmp_path / "run") == before


def test_another_vocabulary_of_the_same_size(tmp_path: Path) -> None:
    text = random_text()
    train(small_config(), short_training(), text, tmp_path / "run")
    words = text.tokens.state()["words"]
    other = dataclasses.replace(text, tokens=type(wrong(text.tokens))([*words[:-1], "other"]))
    with pytest.raises(
        RunError, match=f"its vocabulary is '{text.tokens.fingerprint}', not '{other.tokens.fingerprint}'"
    ):
        train(small_config(), short_training(), other, tmp_path / "run", resume=True)


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_with_other_things(tmp_path: Path, resume: bool) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(RunError, match=f"^{tmp_path} is not empty and holds no run; name another folder$"):
        train(small_config(), short_training(), random_text(), tmp_path, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_empty_folder_is_as_good_as_a_new_one(tmp_path: Path) -> None:
    train(small_config(), short_training(), random_text(), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("run.json", "vocabulary.json", "checkpoint.safetensors", "best.safetensors", "log.jsonl", "result.json")
    }


@pytest.mark.parametrize("name", ["run.json", "checkpoint.safetensors"])
def test_a_damaged_file_is_named_before_anything_is_done(tmp_path: Path, name: str) -> None:
    with pytest.raises(Stop):
        interruptible_run(tmp_path, stop_at(20))
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-10])
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=re.escape(str(path))):
        interruptible_run(tmp_path, lambda progress: None)
    assert contents(tmp_path) == before


def test_loading_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"holds no run: there is no run\.json in it"):
        load_run(tmp_path)
    with pytest.raises(Stop):
        interruptible_run(tmp_path / "run", stop_at(3))
    with pytest.raises(RunError, match="holds a run that has no weights yet; go on with its training"):
        load_run(tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("best.safetensors", lambda data: data[:-1], "not a readable safetensors file; it was cut short"),
        ("best.safetensors", lambda data: data[:-1] + bytes([data[-1] ^ 1]), "was changed since it was written"),
        ("vocabulary.json", lambda data: data.replace(b"w7", b"w77"), "the vocabulary is not the one that the weights"),
        ("vocabulary.json", lambda data: data.replace(b"words", b"birds"), "tokens_from_state"),
        ("vocabulary.json", lambda data: data[:-10], "run: "),
        ("vocabulary.json", None, "vocabulary.json"),
    ],
)
def test_loading_a_damaged_run(
    tmp_path: Path, name: str, change: Callable[[bytes], bytes] | None, message: str
) -> None:
    train(small_config(), short_training(), random_text(), tmp_path / "run")
    load_run(tmp_path / "run")
    path = tmp_path / "run" / name
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes()))
    with pytest.raises(RunError, match=re.escape(message)) as error:
        load_run(tmp_path / "run")
    assert str(tmp_path / "run") in str(error.value)
