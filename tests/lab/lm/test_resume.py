"""Interrupted runs: a resumed run gives the same files as an uninterrupted one."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from ghrr_lab.lm import TrainProgress
from ghrr_lab.lm.checkpoint import load_checkpoint
from ghrr_lab.lm.run_folder import read_result
from ghrr_lab.lm.train_log import read_log
from tests.lab.lm.common import ROOT, STEPS, Stop, assert_same_tensors, file_contents, short_run, stop_at


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that was never interrupted."""
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    short_run(folder)
    return folder


def assert_same_run(folder: Path, expected: Path) -> None:
    for name in ("best.safetensors", "checkpoint.safetensors"):
        assert_same_tensors(folder / name, expected / name)
    assert (folder / "log.jsonl").read_text() == (expected / "log.jsonl").read_text()
    one, other = map(read_result, (folder, expected))
    assert {**one, "tokens_per_s": None} == {**other, "tokens_per_s": None}


CHILD = """
import os, signal, sys
from pathlib import Path

import torch

from tests.lab.lm.common import short_run

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
short_run(Path(sys.argv[1]), show)
"""


def run_until(
    folder: Path, *, step: int = STEPS + 1, last: int = 0, delay: float = 0.0, after: int = 0, writes: int = 0
) -> int:
    """Start or resume the run in a process, kill it, and return its exit status.

    The process is killed ``delay`` seconds after ``step``. It pauses at step ``last`` so that it cannot finish before.
    With ``writes``, it kills itself instead, at its ``writes``-th file replacement after the step ``after``.
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


def test_killed_and_resumed_run_equals_uninterrupted_run(tmp_path: Path, uninterrupted: Path) -> None:
    folder = tmp_path / "run"
    best = json.loads((uninterrupted / "result.json").read_text())["best_step"]
    assert best > 35  # so that every kill below comes before it
    assert run_until(folder, step=2, last=5) == -signal.SIGKILL
    assert not (folder / "checkpoint.safetensors").exists()
    assert run_until(folder, step=20, last=31, delay=0.01) == -signal.SIGKILL
    assert 18 <= load_checkpoint(folder / "checkpoint.safetensors")[0]["step"] <= 31
    assert run_until(folder, after=best - 1, writes=2) == -signal.SIGKILL  # between writing best and checkpoint
    assert load_checkpoint(folder / "checkpoint.safetensors")[0]["step"] == best - 6
    assert not (folder / "result.json").exists()
    short_run(folder)
    assert_same_run(folder, uninterrupted)


def test_run_interrupted_at_many_steps_equals_uninterrupted_run(tmp_path: Path, uninterrupted: Path) -> None:
    for step in (1, 6, 7, 13, 23, 29, 36, 47, 59, 66, 71, STEPS):
        with pytest.raises(Stop):
            short_run(tmp_path / "run", stop_at(step))
        with contextlib.suppress(OSError), open(tmp_path / "run" / "log.jsonl", "a") as file:
            file.write('{"step": 99, "lo')  # an incomplete line
    steps: list[TrainProgress] = []
    short_run(tmp_path / "run", steps.append)
    assert steps == []  # the last interruption came after the last step
    assert_same_run(tmp_path / "run", uninterrupted)


def test_different_dropout_gives_different_files(
    tmp_path: Path, uninterrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control for the tests above: the same dropout mask at every step."""
    monkeypatch.setattr(sys.modules["ghrr_lab.lm.training"], "_step_seed", lambda *_: 0)
    short_run(tmp_path / "run")
    with pytest.raises(AssertionError):
        assert_same_run(tmp_path / "run", uninterrupted)


def test_tensorboard_events_equal_the_log(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with pytest.raises(Stop):
        short_run(tmp_path / "run", stop_at(41), tensorboard=True)  # step 40 is repeated
    short_run(tmp_path / "run", tensorboard=True)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    lines = read_log(tmp_path / "run")
    for name in ("loss", "valid_ppl", "learning_rate"):
        found = [(event.step, event.value) for event in events.Scalars(name)]
        expected = [(line["step"], line[name]) for line in lines if name in line]
        assert [step for step, _ in found] == [step for step, _ in expected]
        assert [value for _, value in found] == pytest.approx([value for _, value in expected], rel=1e-6)
    assert not (tmp_path / "run" / "runs").exists()


def test_log_has_each_event_once(uninterrupted: Path) -> None:
    lines = [json.loads(line) for line in (uninterrupted / "log.jsonl").read_text().splitlines()]
    assert lines == read_log(uninterrupted)
    kinds = Counter((line["step"], "loss" in line) for line in lines)
    assert set(kinds.values()) == {1}
    assert [line["step"] for line in lines] == sorted(line["step"] for line in lines)
    assert {tuple(line) for line in lines} == {
        ("step", "epoch", "loss", "learning_rate"),
        ("step", "epoch", "valid_ppl"),
    }
    assert not (uninterrupted / "tensorboard").exists()


def test_resuming_a_finished_run_returns_its_result(uninterrupted: Path) -> None:
    before = file_contents(uninterrupted)
    steps: list[TrainProgress] = []
    assert short_run(uninterrupted, steps.append) == read_result(uninterrupted)
    assert steps == []
    assert file_contents(uninterrupted) == before
