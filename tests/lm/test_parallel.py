"""Several processes at one model: the same weights as from one process, and files that one of them alone writes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ghrr.lm import RunError, train
from ghrr.lm.logs import read_log
from ghrr.lm.parallel import Workers
from tests.helpers import rounding
from tests.lm.common import ROOT, counting_text, short_training, small_config

SETTINGS = {"epochs": 2, "batch": 4, "learning_rate": 0.003, "warmup": 2}

CHILD = """
import os, sys, time
from pathlib import Path

import torch

from ghrr.lm import train
from tests.lm.common import counting_text, short_training, small_config
from tests.lm.test_parallel import SETTINGS

torch.set_num_threads(1)
folder, batch = Path(sys.argv[1]), int(sys.argv[2])
try:
    for name in ("rope", "feature"):
        time.sleep(0.2 * int(os.environ["RANK"]))  # the second comes late, and finds what the first has written
        train(small_config(name), short_training(**{**SETTINGS, "batch": batch}), counting_text(), folder / name)
finally:
    torch.distributed.destroy_process_group()
"""


def in_two_processes(folder: Path, batch: int = 4) -> list[subprocess.CompletedProcess[str]]:
    """What ``torchrun --nproc-per-node 2`` starts, without the time that it takes itself."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {**os.environ, "OMP_NUM_THREADS": "1"}
    common |= {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    command = [sys.executable, "-c", CHILD, str(folder), str(batch)]
    started = [
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(2)
    ]
    ended = []
    for process in started:
        output, errors = process.communicate()
        ended.append(subprocess.CompletedProcess(command, process.returncode, output, errors))
    return ended


def test_two_processes_train_what_one_does(tmp_path: Path) -> None:
    ended = in_two_processes(tmp_path / "two")
    assert [process.returncode for process in ended] == [0, 0], ended[0].stderr + ended[1].stderr
    for name in ("rope", "feature"):
        one, two = tmp_path / "one" / name, tmp_path / "two" / name
        result = train(small_config(name), short_training(**SETTINGS), counting_text(), one)
        assert {path.name for path in two.iterdir()} == {path.name for path in one.iterdir()}
        other = json.loads((two / "result.json").read_text())
        assert other["test_ppl"] == pytest.approx(result["test_ppl"], rel=1e-4)
        assert [other[key] for key in ("params", "steps", "best_step")] == [
            result[key] for key in ("params", "steps", "best_step")
        ]
        lines = [(line["step"], "loss" in line) for line in read_log(two)]  # by one process: none is there twice
        assert lines == [(line["step"], "loss" in line) for line in read_log(one)]
        first, second = load_file(one / "best.safetensors"), load_file(two / "best.safetensors")
        assert first.keys() == second.keys()
        steps = result["steps"]
        for key, tensor in first.items():
            tolerance = rounding(torch.float32, terms=steps, scale=max(1.0, tensor.abs().max().item()))
            torch.testing.assert_close(second[key], tensor, rtol=0, atol=tolerance, msg=key)


def test_half_a_batch_would_show(tmp_path: Path) -> None:
    """The control: what each of the two would train alone."""
    whole = train(small_config("rope"), short_training(**SETTINGS), counting_text(), tmp_path / "whole")
    half = train(small_config("rope"), short_training(**{**SETTINGS, "batch": 2}), counting_text(), tmp_path / "half")
    assert half["test_ppl"] != pytest.approx(whole["test_ppl"], rel=1e-3)


def test_a_batch_that_cannot_be_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Workers, "count", 3)
    with pytest.raises(RunError, match="a batch of 4 cannot be shared equally by 3 processes"):
        train(small_config(), short_training(**SETTINGS), counting_text(), tmp_path / "run")


def test_one_process_needs_nothing_of_accelerate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "accelerate", None)
    workers = Workers()
    assert (workers.count, workers.rank, workers.is_main, workers.device) == (1, 0, True, None)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ImportError, match=r"several processes need accelerate: pip install 'ghrr\[lm\]'"):
        Workers()
