"""Files that version 0.1 wrote still load. ``tests/data/version_0_1`` was written with that version."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

import ghrr
from ghrr import Hypervector, ItemMemory, Space
from ghrr_lab.lm import load_run
from ghrr_lab.lm.checkpoint import load_checkpoint
from ghrr_lab.lm.run_folder import read_description, read_result

DATA = Path(__file__).parent / "data" / "version_0_1"
SPACE = Space(5, 2, seed=3, atom_version=1)
ROTATION = torch.linalg.qr(torch.tensor([[1, 2j], [3, 4]], dtype=torch.complex128))[0].to(torch.complex64)


def test_a_hypervector_loads() -> None:
    loaded = ghrr.load(DATA / "single.safetensors")
    assert isinstance(loaded, Hypervector)
    a, b = SPACE.atoms("a", "b")
    assert loaded.space == SPACE
    assert loaded.expression == "a * b"
    torch.testing.assert_close(loaded.tensor, (a * b).tensor)


def test_named_hypervectors_with_a_given_rotation_load() -> None:
    loaded = ghrr.load(DATA / "several.safetensors")
    assert isinstance(loaded, dict)
    assert list(loaded) == ["bound", "bundled"]
    space = loaded["bound"].space
    assert isinstance(space.rotation, torch.Tensor)
    torch.testing.assert_close(space.rotation, ROTATION)
    c, d = space.atoms("c", "d")
    torch.testing.assert_close(loaded["bound"].tensor, (c * d).tensor)


@pytest.mark.parametrize(("storage", "tolerance"), [("float32", 1e-6), ("bfloat16", 4e-3), ("int8", 6e-3)])
def test_item_memories_load(storage: str, tolerance: float) -> None:
    for read in (ItemMemory.load, ItemMemory.open):
        memory = read(DATA / f"items_{storage}.safetensors", space=SPACE)
        memory.verify()
        assert memory.storage == storage
        assert memory.labels == ["a", "b", "c"]
        assert memory.about == ({"made": "0.1"} if storage == "float32" else None)
        torch.testing.assert_close(memory.vectors(), SPACE.vectors(list("abc")), rtol=0, atol=tolerance)


def test_an_item_memory_with_a_given_rotation_loads() -> None:
    memory = ItemMemory.open(DATA / "items_rotated.safetensors")
    torch.testing.assert_close(memory.vectors(), memory.space.vectors(["a", "b"]))


def test_a_folder_of_items_loads_and_takes_commits(tmp_path: Path) -> None:
    shutil.copytree(DATA / "folder", tmp_path / "folder")
    memory = ItemMemory.open(tmp_path / "folder")
    memory.verify()
    assert memory.labels == ["a", "c", "d", "e"]
    memory.add("f")
    memory.commit()
    again = ItemMemory.load(tmp_path / "folder", space=SPACE)
    assert again.labels == ["a", "c", "d", "e", "f"]
    torch.testing.assert_close(again.vectors(), SPACE.vectors(list("acdef")))


def test_checkpoints_and_runs_load() -> None:
    info, tensors = load_checkpoint(DATA / "run" / "checkpoint.safetensors")
    assert info["version"] == 1
    assert info["step"] == 3
    assert tensors["model.embedding.weight"].shape == (6, 4)
    assert tensors["optimizer.0.step"] == 3
    model, tokens = load_run(DATA / "run")
    assert tokens.fingerprint == read_description(DATA / "run")["vocabulary"]
    assert torch.isfinite(model(torch.zeros(1, 4, dtype=torch.long))).all()
    assert read_description(DATA / "run")["corpus"] == "random"
    assert read_result(DATA / "run")["steps"] == json.loads((DATA / "run" / "result.json").read_text())["steps"]


@pytest.mark.parametrize("name", ["single", "several", "items_float32", "items_int8", "run/checkpoint"])
def test_damage_is_noticed(name: str, tmp_path: Path) -> None:
    path = DATA / f"{name}.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    damaged = tmp_path / "x.safetensors"
    damaged.write_bytes(content)
    read = ItemMemory.load if "items" in name else load_checkpoint if "run" in name else ghrr.load
    read(path)  # negative control
    with pytest.raises(ValueError, match=r"checksum|JSON"):
        read(damaged)
