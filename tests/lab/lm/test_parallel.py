"""Data-parallel training: two processes give the same weights as one, and only one writes files."""

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

from ghrr_lab.lm import RunError, train
from ghrr_lab.lm.parallel import Workers
from ghrr_lab.lm.train_log import read_log
from tests.helpers import rounding
from tests.lab.lm.common import ROOT, counting_text, short_training, small_config

SETTINGS = {"epochs": 2, "batch": 4, "learning_rate": 0.003, "warmup": 2}

CHILD = """
import os, sys, time
from pathlib import Path

import torch

from ghrr_lab.lm import train
from tests.lab.lm.common import counting_text, short_training, small_config
from tests.lab.lm.test_parallel import SETTINGS

torch.set_num_threads(1)
folder, batch = Path(sys.argv[1]), int(sys.argv[2])
try:
    for name in ("rope", "feature"):
        time.sleep(0.2 * int(os.environ["RANK"]))  # the second process finds the folder of the first
        train(small_config(name), short_training(**{**SETTINGS, "batch": batch}), counting_text(), folder / name)
finally:
    torch.distributed.destroy_process_group()
"""


def in_two_processes(folder: Path, batch: int = 4) -> list[subprocess.CompletedProcess[str]]:
    """Start the processes of ``torchrun --nproc-per-node 2`` directly, which is faster."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {**os.environ, "OMP_NUM_THREADS": "1"}
    common |= {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    command = [sys.executable, "-c", CHILD, str(folder), str(batch)]
    processes = [
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
    completed = []
    for process in processes:
        output, errors = process.communicate()
        completed.append(subprocess.CompletedProcess(command, process.returncode, output, errors))
    return completed


def test_two_processes_give_the_weights_of_one(tmp_path: Path) -> None:
    completed = in_two_processes(tmp_path / "two")
    assert [process.returncode for process in completed] == [0, 0], completed[0].stderr + completed[1].stderr
    for name in ("rope", "feature"):
        one, two = tmp_path / "one" / name, tmp_path / "two" / name
        result = train(small_config(name), short_training(**SETTINGS), counting_text(), one)
        assert {path.name for path in two.iterdir()} == {path.name for path in one.iterdir()}
        other = json.loads((two / "result.json").read_text())
        assert other["test_ppl"] == pytest.approx(result["test_ppl"], rel=1e-4)
        assert [other[key] for key in ("params", "steps", "best_step")] == [
            result[key] for key in ("params", "steps", "best_step")
        ]
        lines = [(line["step"], "loss" in line) for line in read_log(two)]  # written by one process
        assert lines == [(line["step"], "loss" in line) for line in read_log(one)]
        first, second = load_file(one / "best.safetensors"), load_file(two / "best.safetensors")
        assert first.keys() == second.keys()
        steps = result["steps"]
        for key, tensor in first.items():
            tolerance = rounding(torch.float32, terms=steps, scale=max(1.0, tensor.abs().max().item()))
            torch.testing.assert_close(second[key], tensor, rtol=0, atol=tolerance, msg=key)


def test_half_a_batch_gives_another_result(tmp_path: Path) -> None:
    """Control for the test above: processes that do not share their gradients."""
    whole = train(small_config("rope"), short_training(**SETTINGS), counting_text(), tmp_path / "whole")
    half = train(small_config("rope"), short_training(**{**SETTINGS, "batch": 2}), counting_text(), tmp_path / "half")
    assert half["test_ppl"] != pytest.approx(whole["test_ppl"], rel=1e-3)


def test_batch_must_be_a_multiple_of_the_number_of_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Workers, "count", 3)
    with pytest.raises(RunError, match=r"batch must be a multiple of the number of processes \(3\), got 4"):
        train(small_config(), short_training(**SETTINGS), counting_text(), tmp_path / "run")


def test_only_several_processes_need_accelerate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "accelerate", None)
    workers = Workers()
    assert (workers.count, workers.rank, workers.is_main, workers.device) == (1, 0, True, None)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ImportError, match=r"several processes need accelerate; pip install 'ghrr\[lm\]'"):
        Workers()
