"""Saved hypervectors are loaded unchanged; damaged and foreign files raise clear errors."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

import ghrr
from ghrr import Hypervector, Space, files
from tests.helpers import unitary

SETTINGS: list[dict[str, Any]] = [
    {},
    {"rotation": "fixed", "seed": 2**40},
    {"rotation": "shared", "phases": 4, "dtype": torch.complex128},
    {"rotation": unitary(m=3)},
    {"rotation": unitary(10, m=3, dtype=torch.complex64)},
    {"diagonality": 0.25},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_saved_hypervector_is_loaded_unchanged(settings: dict[str, Any], tmp_path: Path) -> None:
    space = Space(10, 3, **settings)
    a, b = space.atoms("a", "b")
    path = tmp_path / "x.safetensors"
    for saved in (a * b, space.wrap(space.vectors(["p", "q"]), "pair"), space.wrap(space.empty(0))):
        ghrr.save(path, saved)
        loaded = ghrr.load(path)
        assert isinstance(loaded, Hypervector)
        assert loaded.space == space
        assert loaded.expression == saved.expression
        assert torch.equal(loaded.tensor, saved.tensor)
        assert torch.equal(loaded.space.vectors(["a"])[0], a.tensor)


def test_several_hypervectors_are_loaded_unchanged(tmp_path: Path) -> None:
    a, b = Space(10, 3).atoms("a", "b")
    ghrr.save(tmp_path / "x", {"bound": a * b, "κ/../ö": ~a})
    loaded = ghrr.load(tmp_path / "x")
    assert isinstance(loaded, dict)
    assert list(loaded) == ["bound", "κ/../ö"]
    assert torch.equal(loaded["κ/../ö"].tensor, (~a).tensor)
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_views_and_tensors_with_gradients_can_be_saved(tmp_path: Path) -> None:
    space = Space(10, 3)
    x = space.random(4, generator=space.generator("x")).requires_grad_()
    lazy = space.wrap(x[::2].mH, "lazy")  # conjugated, strided, with a gradient
    ghrr.save(tmp_path / "x", lazy)
    loaded = ghrr.load(tmp_path / "x")
    assert isinstance(loaded, Hypervector)
    assert torch.equal(loaded.tensor, lazy.tensor.detach())
    assert not loaded.tensor.requires_grad


def test_unsupported_values_are_not_saved(tmp_path: Path) -> None:
    a = Space(10, 3).atoms("a")[0]
    d = Space(10, 3, seed=1).atoms("d")[0]
    with pytest.raises(ValueError, match=r"holds the hypervectors of one space, got Space.*seed=0.*, Space.*seed=1"):
        ghrr.save(tmp_path / "x", {"a": a, "d": d})
    with pytest.raises(ValueError, match="no hypervector at all"):
        ghrr.save(tmp_path / "x", {})
    with pytest.raises(TypeError, match=r"x\['t'\] is a Tensor; space.wrap\(tensor\) makes a Hypervector"):
        ghrr.save(tmp_path / "x", {"t": a.tensor})  # type: ignore[dict-item]
    for wrong in (None, [a], a.tensor):
        with pytest.raises(TypeError, match="x must be a Hypervector or a mapping of names to them, got"):
            ghrr.save(tmp_path / "x", wrong)  # type: ignore[arg-type]
    for name in ("\ud800", "a\0b"):
        with pytest.raises(TypeError, match="printable names"):
            ghrr.save(tmp_path / "x", {name: a})
    with pytest.raises(FileNotFoundError):
        ghrr.save(tmp_path / "no" / "x", a)
    with pytest.raises(IsADirectoryError, match="it is a folder; name a file in it"):
        ghrr.save(tmp_path, a)
    assert not list(tmp_path.iterdir())


# ----------------------------------------------------------------------------------------------------------- bad files


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "x.safetensors"
    a, b = Space(10, 3, rotation=unitary(m=3)).atoms("a", "b")
    ghrr.save(path, a * b)
    return path


def assert_refused(path: Path, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        ghrr.load(path)
    assert str(path) in str(caught.value)


def test_missing_file_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such file"):
        ghrr.load(tmp_path / "x")


def test_folder_raises(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="it is a folder, expected a regular file"):
        ghrr.load(tmp_path)


def test_truncated_file_is_rejected(saved: Path) -> None:
    whole = saved.read_bytes()
    for length in {*range(0, len(whole), 97), len(whole) - 1}:
        saved.write_bytes(whole[:length])
        assert_refused(saved, "not a readable safetensors file; it was cut short or is of another kind")


def test_flipped_bit_is_detected(saved: Path) -> None:
    whole = saved.read_bytes()
    for position in range(8, len(whole), 41):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        saved.write_bytes(bytes(damaged))
        with pytest.raises(ValueError, match=r"load\("):
            ghrr.load(saved)
    saved.write_bytes(whole)
    ghrr.load(saved)  # the control: the whole file is fine


def test_files_of_other_programs_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for content in (b"", b"hello", b"\x80\x04K\x01.", json.dumps({"a": 1}).encode()):
        path.write_bytes(content)
        assert_refused(path, "not a readable safetensors file")
    save_file({"weight": torch.zeros(3)}, path)
    assert_refused(path, "a safetensors file, but not one that ghrr wrote")
    save_file({"weight": torch.zeros(3)}, path, metadata={"ghrr": "[1, 2]"})
    assert_refused(path, "a safetensors file of another kind")


def rewritten(path: Path, change: dict[str, Any]) -> None:
    """Change the header of a saved file, with a checksum that fits: the work of someone who knows the format."""
    tensors = load_file(path)
    (length,) = struct.unpack("<Q", path.read_bytes()[:8])
    header = json.loads(json.loads(path.read_bytes()[8 : 8 + length])["__metadata__"]["ghrr"])
    for key, value in change.items():
        header[key] = {**header[key], **value} if isinstance(value, dict) else value
    if header["single"] is None:
        header["single"] = False
    text = json.dumps(header, sort_keys=True)
    save_file(tensors, path, metadata={"ghrr": text, "sha256": files._checksum(text, tensors)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 99}, "format version 99, this ghrr reads 1"),
        ({"space": {"dim": 11}}, "does not fit Space(dim=11"),
        ({"space": {"m": -1}}, "m must be a whole number of at least 1"),
        ({"space": {"dtype": "float16"}}, "inconsistent content (KeyError('float16'))"),
        ({"space": {"surprise": 1}}, "inconsistent content (TypeError("),
        ({"space": "x"}, "dictionary update sequence"),
        ({"space": {"diagonality": 2}}, "leave out diagonality or the tensor"),
        ({"expressions": {"y": "y"}}, "the header names ['item.x', 'item.y'], but the file holds"),
        ({"expressions": ["x"]}, "inconsistent content (AttributeError"),
        ({"expressions": {"x": ["a"]}}, "the header names"),
        ({"space": {"rotation": "spinning"}}, "rotation (or a unitary tensor) must be one of"),
        ({"space": {"rotation": "fixed"}}, "the header names ['item.x'], but the file holds"),
        ({"single": None}, None),
        ({"format": "other"}, "a safetensors file of another kind, got format 'other'"),
    ],
)
def test_inconsistent_header_is_rejected(saved: Path, change: dict[str, Any], message: str | None) -> None:
    rewritten(saved, {})
    ghrr.load(saved)  # the control: rewriting alone is not noticed
    rewritten(saved, change)
    if message is None:
        assert isinstance(ghrr.load(saved), dict)
    else:
        assert_refused(saved, message)


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "null", '{"format": "ghrr-hypervectors", "version": 1}'])
def test_malicious_header_is_rejected(saved: Path, text: str) -> None:
    tensors = load_file(saved)
    save_file(tensors, saved, metadata={"ghrr": text, "sha256": files._checksum(text, tensors)})
    with pytest.raises(ValueError, match=r"load\("):
        ghrr.load(saved)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64, torch.bool])
def test_tensors_of_other_dtypes_are_rejected(saved: Path, dtype: torch.dtype) -> None:
    tensors = {name: tensor.to(dtype) for name, tensor in load_file(saved).items()}
    save_file(tensors, saved, metadata={"ghrr": "{}"})
    assert_refused(saved, "holds tensors of a kind that ghrr does not write")


def test_file_without_checksum_is_rejected(saved: Path) -> None:
    tensors = load_file(saved)
    (length,) = struct.unpack("<Q", saved.read_bytes()[:8])
    text = json.loads(saved.read_bytes()[8 : 8 + length])["__metadata__"]["ghrr"]
    save_file(tensors, saved, metadata={"ghrr": text})
    assert_refused(saved, "does not match its checksum")


# ------------------------------------------------------------------------------------------------------- atomic writes


@pytest.mark.parametrize("failure", [OSError("disk full"), SafetensorError("disk full"), KeyboardInterrupt()])
def test_interrupted_save_keeps_old_file_and_no_temporary_file(
    saved: Path, failure: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = saved.read_bytes()

    def half_written(tensors: object, path: Path, metadata: object) -> None:
        path.write_bytes(before[:100])
        raise failure

    monkeypatch.setattr(files, "save_file", half_written)
    with pytest.raises(KeyboardInterrupt if isinstance(failure, KeyboardInterrupt) else OSError):
        ghrr.save(saved, Space(10, 3).atoms("z")[0])
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_killed_save_leaves_a_complete_file(saved: Path) -> None:
    """A process that saves in a loop is stopped at ten moments or more; the file is complete each time."""
    code = (
        "import ghrr, sys\n"
        "a, b = ghrr.Space(4000, 3).atoms('a', 'b')\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    ghrr.save(sys.argv[1], a); ghrr.save(sys.argv[1], b)\n"
    )
    before = ghrr.load(saved)
    assert isinstance(before, Hypervector)
    want = {name: Space(4000, 3).atoms(name)[0].tensor for name in "ab"} | {before.expression: before.tensor}
    seen: list[str] = []
    with subprocess.Popen([sys.executable, "-c", code, str(saved)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        # Stopped, looked at, continued: as good as killed, without starting Python ten times.
        while len(seen) < 10 or not {"a", "b"} & set(seen):
            assert process.poll() is None
            process.send_signal(signal.SIGCONT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
            process.send_signal(signal.SIGSTOP)
            loaded = ghrr.load(saved)
            assert isinstance(loaded, Hypervector)
            assert torch.equal(loaded.tensor, want[loaded.expression])
            seen.append(loaded.expression)
        process.send_signal(signal.SIGKILL)
    assert isinstance(ghrr.load(saved), Hypervector)


def test_new_file_gets_default_permissions(saved: Path) -> None:
    plain = saved.with_name("plain")
    plain.touch()
    assert saved.stat().st_mode == plain.stat().st_mode


def test_replaced_file_keeps_its_permissions(saved: Path) -> None:
    saved.chmod(0o600)
    ghrr.save(saved, Space(10, 3).atoms("z")[0])
    assert saved.stat().st_mode & 0o777 == 0o600


def test_save_through_link_keeps_the_link(saved: Path) -> None:
    link = saved.with_name("link")
    link.symlink_to(saved)
    ghrr.save(link, Space(10, 3).atoms("z")[0])
    assert link.is_symlink()
    loaded = ghrr.load(saved)
    assert isinstance(loaded, Hypervector)
    assert loaded.expression == "z"


def test_missing_write_permission_raises(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        target = Path("/proc/x.safetensors")  # not even root may write there
    else:
        tmp_path.chmod(0o500)
        target = tmp_path / "x.safetensors"
    with pytest.raises(OSError, match=r".+"):
        ghrr.save(target, Space(10, 3).atoms("a")[0])
