"""Runs of language models: one process per folder, no files after a failed start, clear errors."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from ghrr_lab import lm
from ghrr_lab.lm import RunError, TrainProgress, load_run, train
from ghrr_lab.lm.checkpoint import load_checkpoint, save_checkpoint
from tests.cli.common import invoke
from tests.lab.lm.common import Stop, counting_text, random_text, short_training, small_config
from tests.processes import start

SMALL = ["embed_dim=16", "num_layers=1", "num_heads=2", "max_len=8", "ffn_dim=16", "batch=64"]
SETTINGS = [word for setting in SMALL for word in ("--set", setting)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lm") / "run"
    train(small_config(), short_training(), random_text(), folder)
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.fixture
def stopped(run: Path) -> Path:
    (run / "result.json").unlink()
    return run


def resume(folder: Path, **settings: Any) -> dict[str, Any]:
    return train(small_config(), short_training(), random_text(), folder, resume=True, **settings)


def fails(*arguments: str) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return " ".join(result.output.split())


# ---------------------------------------------------------------------------------------------------------------- links


@pytest.mark.parametrize("name", ["log.jsonl", "checkpoint.safetensors", "run.json", "tensorboard"])
def test_link_in_run_folder_is_rejected(stopped: Path, name: str) -> None:
    target = stopped.parent / "mine"
    if (stopped / name).exists():
        (stopped / name).rename(target)
    else:
        target.mkdir()
    (stopped / name).symlink_to(target)
    before = target.read_bytes() if target.is_file() else b""
    with pytest.raises(RunError, match=f"{name} is a symbolic link"):
        resume(stopped, tensorboard=name == "tensorboard")
    assert (target.read_bytes() if target.is_file() else b"") == before


def test_run_folder_may_be_a_link(stopped: Path) -> None:
    link = stopped.parent / "link"
    link.symlink_to(stopped)
    assert resume(link)["dataset"] == "random"


# ---------------------------------------------------------------------------------------------------------------- start


@pytest.mark.parametrize("error", [RuntimeError("the device failed"), MemoryError(), KeyboardInterrupt()])
@pytest.mark.parametrize(
    "where", ["ghrr_lab.lm.training.Model", "ghrr_lab.lm.training.make_step", "ghrr_lab.lm.training.TrainLog"]
)
def test_run_that_fails_before_first_step_leaves_no_files(
    tmp_path: Path, error: BaseException, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(sys.modules["ghrr_lab.lm.training"], where.rpartition(".")[2], refuse)
    with pytest.raises(type(error)):
        train(small_config(), short_training(), random_text(), tmp_path / "new" / "run")
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    train(small_config(), short_training(), random_text(), tmp_path / "new" / "run")  # negative control: without resume


def test_existing_folder_is_kept_after_failed_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("the device failed")

    monkeypatch.setattr(sys.modules["ghrr_lab.lm.training"], "make_step", refuse)
    with pytest.raises(RuntimeError, match="the device failed"):
        train(small_config(), short_training(), random_text(), tmp_path)
    assert tmp_path.exists()
    assert not list(tmp_path.iterdir())


def test_run_stopped_after_first_step_is_kept(tmp_path: Path) -> None:
    def stop(progress: TrainProgress) -> None:
        raise Stop

    with pytest.raises(Stop):
        train(small_config(), short_training(), random_text(), tmp_path / "run", on_progress=stop)
    assert (tmp_path / "run" / "run.json").exists()


def test_failed_resume_keeps_all_files(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("the device failed")

    before = sorted(os.listdir(stopped))
    monkeypatch.setattr(sys.modules["ghrr_lab.lm.training"], "Model", refuse)
    with pytest.raises(RuntimeError, match="the device failed"):
        resume(stopped)
    assert sorted(os.listdir(stopped)) == before


# ----------------------------------------------------------------------------------------------------------------- lock

WORKER = """
import sys
from ghrr_lab.lm import train
from tests.lab.lm.common import random_text, short_training, small_config

def wait(progress):
    print(progress.step, flush=True)
    sys.stdin.read()  # until the test ends this process

train(small_config(), short_training(), random_text(), sys.argv[1], on_progress=wait)
"""


def test_second_process_cannot_write_to_run_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with start([sys.executable, "-c", WORKER, str(folder)], **pipes) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "1\n"
            with pytest.raises(BlockingIOError, match=f"process {process.pid} on .* is using"):
                resume(folder)
            assert (folder / "run.json").exists()
        finally:
            process.send_signal(signal.SIGKILL)
    resume(folder)  # a lock dies with its process
    steps = [json.loads(line)["step"] for line in (folder / "log.jsonl").read_text().splitlines() if "loss" in line]
    assert steps == sorted(set(steps))
    assert ".lock" not in os.listdir(folder)


# ---------------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("field", ["step", "best_valid", "best_step", "seconds", "model", "vocabulary"])
@pytest.mark.parametrize("value", [None, "x", [1]])
def test_checkpoint_with_wrong_field_type_is_rejected(stopped: Path, field: str, value: Any) -> None:
    if (field, value) == ("vocabulary", "x"):
        value = 7
    for name in ("checkpoint.safetensors", "best.safetensors"):
        info, _ = load_checkpoint(stopped / name)
        model = torch.nn.Linear(1, 1)
        fields = {key: given for key, given in info.items() if key not in ("format", "version")}
        save_checkpoint(stopped / name, model, {**fields, field: value})
    for use in (resume, load_run):
        with pytest.raises(ValueError, match=f"{field} must be") as caught:
            use(stopped)
        assert str(stopped) in str(caught.value)


@pytest.mark.parametrize("setting", ["embed_dim", "num_layers", "ffn_dim", "max_len"])
def test_checkpoint_with_huge_settings_is_rejected(run: Path, setting: str) -> None:
    info, tensors = load_checkpoint(run / "best.safetensors")
    info["model"][setting] = 1 << 42

    class Weights(torch.nn.Module):
        def state_dict(self, *_: Any, **__: Any) -> dict[str, Any]:  # type: ignore[override]
            return {name.removeprefix("model."): tensor for name, tensor in tensors.items()}

    fields = {key: given for key, given in info.items() if key not in ("format", "version")}
    save_checkpoint(run / "best.safetensors", Weights(), fields)
    with pytest.raises(RunError, match=r"does not fit its settings|need at least"):
        load_run(run)


@pytest.mark.parametrize("name", ["optimizer.0.exp_avg", "optimizer.99.step", "optimizer.x.step", "optimizer.0.other"])
def test_checkpoint_with_wrong_optimizer_state_is_rejected(stopped: Path, name: str) -> None:
    info, tensors = load_checkpoint(stopped / "checkpoint.safetensors")
    tensors[name] = torch.zeros(3, 3, 3)

    class Weights(torch.nn.Module):
        def state_dict(self, *_: Any, **__: Any) -> dict[str, Any]:  # type: ignore[override]
            return {key.removeprefix("model."): t for key, t in tensors.items() if key.startswith("model.")}

    class State(torch.optim.SGD):
        def state_dict(self) -> dict[str, Any]:
            state: dict[str, dict[str, Any]] = {}
            for key, tensor in tensors.items():
                if key.startswith("optimizer."):
                    _, index, part = key.split(".")
                    state.setdefault(index, {})[part] = tensor
            return {"state": state}

    fields = {key: given for key, given in info.items() if key not in ("format", "version")}
    optimizer = State([torch.nn.Parameter(torch.zeros(1))])
    save_checkpoint(stopped / "checkpoint.safetensors", Weights(), fields, optimizer)
    with pytest.raises(RunError, match="does not fit this optimiser") as caught:
        resume(stopped)
    assert str(stopped / "checkpoint.safetensors") in str(caught.value)


@pytest.mark.parametrize(("name", "field"), [("result.json", "test_ppl"), ("run.json", "learning_rate")])
def test_changed_number_in_a_run_is_found(run: Path, name: str, field: str) -> None:
    text = (run / name).read_text()
    assert f'"{field}": ' in text
    (run / name).write_text(text.replace(f'"{field}": ', f'"{field}": 1'))
    with pytest.raises(RunError, match="does not match its checksum"):
        resume(run)


@pytest.mark.parametrize("content", ["{}", "7", "[" * 100_000, '{"dataset": "x"}'], ids=["{}", "7", "deep", "part"])
def test_result_without_required_fields_is_rejected(run: Path, content: str) -> None:
    (run / "result.json").write_text(content)
    with pytest.raises(RunError, match=r"result\.json cannot be read"):
        resume(run)


# --------------------------------------------------------------------------------------------------------- command line


@pytest.mark.parametrize(
    "setting",
    [
        *("embed_dim=1000000000000", "num_layers=1000000000000", "ffn_dim=1000000000000", "max_len=1000000000000"),
        *("batch=1000000000000", "num_heads=1000000000000", "embed_dim=" + "[" * 100_000, "embed_dim=" + "9" * 5000),
        *("m=1000000000000", "num_kv_heads=1000000000000"),
    ],
    ids=lambda setting: setting[:20],
)
def test_huge_settings_are_rejected(tmp_path: Path, setting: str) -> None:
    fails("lm", "train", "grammar", "--out", str(tmp_path / "run"), *SETTINGS, "--set", setting)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("sizes", [["--dim", "1000000000000"], ["--dim", "1000000000000000000"], ["--m", "1000000"]])
def test_huge_records_are_rejected(tmp_path: Path, sizes: list[str]) -> None:
    (tmp_path / "r.json").write_text('{"a": 1}')
    fails("encode", str(tmp_path / "r.json"), "--out", str(tmp_path / "x.safetensors"), *sizes)
    assert os.listdir(tmp_path) == ["r.json"]


@pytest.mark.parametrize("device", ["nope", "meta", "cuda:99"])
def test_missing_devices_are_rejected(tmp_path: Path, run: Path, device: str) -> None:
    command = ["lm", "train", "grammar", "--out", str(tmp_path / "other"), *SETTINGS, "--device", device]
    assert f"device '{device}'" in fails(*command)
    assert not (tmp_path / "other").exists()
    assert f"device '{device}'" in fails("lm", "eval", str(run), "--device", device)
    assert f"device '{device}'" in fails("lm", "generate", str(run), "--device", device)


def folder_of_text(path: Path, sentence: str) -> Path:
    path.mkdir()
    for split in ("train", "valid", "test"):
        (path / f"{split}.txt").write_text(f"{sentence}\n" * 400)
    return path


def test_full_disk_is_reported_and_run_can_be_resumed(tmp_path: Path) -> None:
    """A limit on file sizes acts like a full disk; then it is lifted."""
    corpus, folder = folder_of_text(tmp_path / "corpus", "one two three four five"), tmp_path / "run"
    command = ["lm", "train", str(corpus), "--out", str(folder), "--epochs", "1", *SETTINGS, "--device", "cpu"]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        message = fails(*command)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "File too large" in message
    assert "checkpoint" in message
    assert not [name for name in os.listdir(folder) if name.endswith(".tmp")]
    assert invoke(*command, "--resume").exit_code == 0


def test_evaluation_rejects_another_text_of_the_same_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = folder_of_text(tmp_path / "grammar", "one two three four five")
    monkeypatch.chdir(trained.parent)
    text = lm.encode_corpus(lm.load_corpus(trained))
    config = small_config(vocab_size=text.tokenizer.vocab_size)
    train(config, short_training(epochs=1), text, tmp_path / "run")
    assert text.name == "grammar"
    message = fails("lm", "eval", str(tmp_path / "run"))
    assert "trained on another text with the name 'grammar'" in message
    assert text.fingerprint in message
    right = json.loads(invoke("lm", "eval", str(tmp_path / "run"), str(trained), "--json").output)
    assert right["perplexity"] > 1


def test_run_stores_fingerprint_of_its_text(tmp_path: Path) -> None:
    text = counting_text()
    train(small_config(), short_training(epochs=1), text, tmp_path / "run")
    stored = json.loads((tmp_path / "run" / "run.json").read_text())
    assert stored["text"] == text.fingerprint
