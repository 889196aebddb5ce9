"""Checkpoints: loading restores every bit, and damaged or other files are rejected."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from ghrr.files import container
from ghrr.training import restore_module, restore_optimizer
from ghrr_lab.lm import Model
from ghrr_lab.lm import checkpoint as module
from ghrr_lab.lm.checkpoint import load_checkpoint, save_checkpoint
from ghrr_lab.lm.train_step import make_optimizer
from tests.lab.lm.common import new_model, random_tokens, small_config

INFO = {"step": 7, "best_valid": 1.5, "best_step": 7, "seconds": 2, "model": {"embed_dim": 4}, "vocabulary": "abc"}


def trained(name: str = "feature", seed: int = 0, **settings: Any) -> tuple[Model, torch.optim.Optimizer]:
    """Make a model and train it for two steps, so that its optimizer has a state."""
    model = new_model(name, weight_seed=seed, **settings)
    optimizer = make_optimizer(model, learning_rate=0.01, weight_decay=0.1, betas=(0.9, 0.98))
    for _ in range(2):
        step(model, optimizer)
    return model, optimizer


def step(model: Model, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model.loss(random_tokens(4, 8), random_tokens(4, 8, seed=1)).backward()
    optimizer.step()


def tiny_checkpoint(folder: Path) -> Path:
    save_checkpoint(folder / "tiny.safetensors", torch.nn.Linear(3, 2), INFO)
    return folder / "tiny.safetensors"


@pytest.mark.parametrize("name", ["vanilla", "feature qkv trained", "feature unitary", "bundle"])
def test_restored_model_and_optimizer_continue_identically(tmp_path: Path, name: str) -> None:
    model, optimizer = trained(name)
    save_checkpoint(tmp_path / "c", model, INFO, optimizer)
    info, tensors = load_checkpoint(tmp_path / "c")
    assert info == {"format": module.FORMAT, "version": module.VERSION, **INFO}
    other, its_optimizer = trained(name, seed=1)
    restore_module(other, tensors, "model")
    without_state, its_new_optimizer = trained(name, seed=1)
    restore_module(without_state, tensors, "model")
    restore_optimizer(its_optimizer, tensors)
    step(model, optimizer)
    step(other, its_optimizer)
    step(without_state, its_new_optimizer)
    expected = model.state_dict()
    assert all(torch.equal(tensor, expected[key]) for key, tensor in other.state_dict().items())
    different = [key for key, tensor in without_state.state_dict().items() if not torch.equal(tensor, expected[key])]
    assert len(different) > 5  # control: another optimizer state


def test_checkpoint_without_optimizer_holds_only_weights(tmp_path: Path) -> None:
    model, _ = trained()
    save_checkpoint(tmp_path / "c", model, INFO)
    tensors = load_checkpoint(tmp_path / "c")[1]
    assert set(tensors) == {f"model.{name}" for name in model.state_dict()}


def test_old_checkpoint_is_kept_until_the_new_one_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tiny_checkpoint(tmp_path)
    before = path.read_bytes()

    def stop(tensor: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(container, "_bytes_of", stop)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(path, torch.nn.Linear(3, 2), INFO)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_changed_bytes_are_detected(tmp_path: Path) -> None:
    path = tiny_checkpoint(tmp_path)
    whole = path.read_bytes()
    load_checkpoint(path)
    for index in range(0, len(whole), 11):
        path.write_bytes(whole[:index] + bytes([whole[index] ^ 1]) + whole[index + 1 :])
        with pytest.raises(ValueError, match=re.escape(f"load_checkpoint({str(path)!r})")):
            load_checkpoint(path)
    assert len(whole) > 300


def test_any_truncated_file_is_detected(tmp_path: Path) -> None:
    path = tiny_checkpoint(tmp_path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 11):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=re.escape(f"load_checkpoint({str(path)!r}): not a readable")):
            load_checkpoint(path)


def test_errors_name_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c"
    with pytest.raises(FileNotFoundError, match=re.escape(f"{str(path)!r}): no such file")):
        load_checkpoint(path)
    save_file({"x": torch.zeros(2)}, path)
    with pytest.raises(ValueError, match="a safetensors file that was not written by ghrr"):
        load_checkpoint(path)
    save_file({"x": torch.zeros(2)}, path, metadata={"ghrr": json.dumps([1])})
    with pytest.raises(ValueError, match="a safetensors file of another kind, got format None"):
        load_checkpoint(path)
    save_file({"x": torch.zeros(2)}, path, metadata={"ghrr": "{"})
    with pytest.raises(ValueError, match="not valid JSON"):
        load_checkpoint(path)
    monkeypatch.setattr(module, "VERSION", 3)
    tiny_checkpoint(tmp_path)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="format version 3, expected at most 2; upgrade ghrr"):
        load_checkpoint(tmp_path / "tiny.safetensors")
    whole = tiny_checkpoint(tmp_path)
    bias = load_file(whole)["model.bias"].numpy().tobytes()
    whole.write_bytes(whole.read_bytes().replace(bias, bias[::-1]))
    with pytest.raises(ValueError, match="does not match its checksum"):
        load_checkpoint(whole)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vocab_size": 21}, r"embedding.weight is (20, 16) in the checkpoint and (21, 16) in the model (2 such"),
        ({"num_layers": 1}, "layers.1.attention.form.bias is (6, 8) in the checkpoint and missing in the model"),
        ({"num_layers": 3}, "layers.2.attention.form.bias is missing in the checkpoint and (6, 8) in the model"),
    ],
)
def test_restore_model_rejects_weights_of_another_model(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    save_checkpoint(tmp_path / "c", trained()[0], INFO)
    other = Model(small_config("feature", **settings))
    before = {name: tensor.clone() for name, tensor in other.state_dict().items()}
    with pytest.raises(ValueError, match=re.escape(f"the checkpoint does not fit this model: {message}")):
        restore_module(other, load_checkpoint(tmp_path / "c")[1], "model")
    assert all(torch.equal(tensor, before[name]) for name, tensor in other.state_dict().items())
