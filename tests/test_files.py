"""``ghrr.save`` and ``ghrr.load``: round trips, inconsistent files, and atomic writes."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import ghrr
from ghrr import Hypervector, Space
from ghrr.files import read_bytes, read_tensors, write_tensors
from ghrr.files.hypervectors import FORMAT, VERSION
from tests.containers import reseal
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
def test_a_saved_hypervector_is_loaded_with_its_space(settings: dict[str, Any], tmp_path: Path) -> None:
    space = Space(10, 3, **settings)
    a, b = space.atoms("a", "b")
    path = tmp_path / "x.safetensors"
    for saved in (a * b, space.wrap(space.vectors(["p", "q"]), "pair"), space.wrap(space.zeros(0))):
        ghrr.save(path, saved)
        loaded = ghrr.load(path)
        assert isinstance(loaded, Hypervector)
        assert loaded.space == space
        assert loaded.expression == saved.expression
        assert torch.equal(loaded.tensor, saved.tensor)
        assert torch.equal(loaded.space.vectors(["a"])[0], a.tensor)


def test_named_hypervectors_are_loaded_in_order(tmp_path: Path) -> None:
    a, b = Space(10, 3).atoms("a", "b")
    ghrr.save(tmp_path / "x", {"bound": a * b, "κ/../ö": ~a})
    loaded = ghrr.load(tmp_path / "x")
    assert isinstance(loaded, dict)
    assert list(loaded) == ["bound", "κ/../ö"]
    assert torch.equal(loaded["κ/../ö"].tensor, (~a).tensor)
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_views_and_gradients_are_saved_as_plain_numbers(tmp_path: Path) -> None:
    space = Space(10, 3)
    x = space.random(4, generator=space.generator("x")).requires_grad_()
    lazy = space.wrap(x[::2].mH, "lazy")  # conjugated, strided, with a gradient
    ghrr.save(tmp_path / "x", lazy)
    loaded = ghrr.load(tmp_path / "x")
    assert isinstance(loaded, Hypervector)
    assert torch.equal(loaded.tensor, lazy.tensor.detach())
    assert not loaded.tensor.requires_grad


def test_save_rejects_bad_input(tmp_path: Path) -> None:
    a = Space(10, 3).atoms("a")[0]
    d = Space(10, 3, seed=1).atoms("d")[0]
    with pytest.raises(ValueError, match=r"must be of one space, got Space.*seed=0.*, Space.*seed=1"):
        ghrr.save(tmp_path / "x", {"a": a, "d": d})
    with pytest.raises(ValueError, match="no hypervectors"):
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


def test_load_of_a_missing_file_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such file"):
        ghrr.load(tmp_path / "x")


def test_load_of_a_folder_raises(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="it is a folder, expected a regular file"):
        ghrr.load(tmp_path)


def set_fields(changes: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    """Return a function that changes fields of a header, nested objects included."""

    def change(header: dict[str, Any]) -> None:
        for key, value in changes.items():
            header[key] = {**header[key], **value} if isinstance(value, dict) else value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"space": {"dim": 11}}, "does not fit Space(dim=11"),
        ({"space": {"m": -1}}, "m must be a whole number of at least 1"),
        ({"space": {"dtype": "float16"}}, "inconsistent content (KeyError('float16'))"),
        ({"space": {"surprise": 1}}, "inconsistent content (TypeError("),
        ({"space": "x"}, "dictionary update sequence"),
        ({"space": {"diagonality": 2}}, "a rotation tensor has its own diagonality"),
        ({"expressions": {"y": "y"}}, "the header names ['item.x', 'item.y'], but the file holds"),
        ({"expressions": ["x"]}, "inconsistent content (AttributeError"),
        ({"expressions": {"x": ["a"]}}, "the header names"),
        ({"space": {"rotation": "spinning"}}, "rotation (or a unitary tensor) must be one of"),
        ({"space": {"rotation": "fixed"}}, "the header names ['item.x'], but the file holds"),
    ],
)
def test_headers_that_contradict_the_content_are_refused(saved: Path, change: dict[str, Any], message: str) -> None:
    reseal(saved)
    ghrr.load(saved)  # negative control: sealing again alone is not noticed
    reseal(saved, set_fields(change))
    assert_refused(saved, message)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int64, torch.bool])
def test_tensors_of_another_dtype_are_refused(saved: Path, dtype: torch.dtype) -> None:
    header, tensors = read_tensors(saved, kind=FORMAT, version=VERSION)
    converted = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    write_tensors(saved, header, converted, kind=FORMAT, version=VERSION)
    assert_refused(saved, "holds tensors of a dtype that ghrr does not write")


# ------------------------------------------------------------------------------------------------------- atomic writes


@pytest.mark.slow
def test_a_killed_save_leaves_a_complete_file(saved: Path) -> None:
    """A process that saves in a loop is stopped at ten moments; the file is always complete."""
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
        # Stopped instead of killed, so that Python starts once; until the process has saved something.
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


def test_a_new_file_gets_the_default_permissions(saved: Path) -> None:
    plain = saved.with_name("plain")
    plain.touch()
    assert saved.stat().st_mode == plain.stat().st_mode


def test_a_replaced_file_keeps_its_permissions(saved: Path) -> None:
    saved.chmod(0o600)
    ghrr.save(saved, Space(10, 3).atoms("z")[0])
    assert saved.stat().st_mode & 0o777 == 0o600


def test_a_symbolic_link_stays_and_its_target_is_replaced(saved: Path) -> None:
    link = saved.with_name("link")
    link.symlink_to(saved)
    ghrr.save(link, Space(10, 3).atoms("z")[0])
    assert link.is_symlink()
    loaded = ghrr.load(saved)
    assert isinstance(loaded, Hypervector)
    assert loaded.expression == "z"


def test_save_without_write_permission_raises(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        target = Path("/proc/x.safetensors")  # root cannot write there either
    else:
        tmp_path.chmod(0o500)
        target = tmp_path / "x.safetensors"
    with pytest.raises(OSError, match=r".+"):
        ghrr.save(target, Space(10, 3).atoms("a")[0])


# -------------------------------------------------------------------------------------------------------- limited reads


def test_read_bytes_refuses_more_than_the_limit(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"12345")
    assert read_bytes(tmp_path / "x", limit=5) == b"12345"
    with pytest.raises(ValueError, match="it has 5 bytes, expected at most 4"):
        read_bytes(tmp_path / "x", limit=4)


def test_read_bytes_of_a_small_file_allocates_little(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"12345")
    tracemalloc.start()
    try:
        read_bytes(tmp_path / "x", limit=1 << 30)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize("version", [1, 2])
def test_files_store_the_version_of_atoms(version: int, tmp_path: Path) -> None:
    path, space = tmp_path / "x.safetensors", Space(5, 2, atom_version=version)
    ghrr.save(path, space.atoms("a")[0])
    loaded = ghrr.load(path)
    assert isinstance(loaded, Hypervector)
    assert loaded.space == space
    assert torch.equal(loaded.space.vectors(["a"])[0], loaded.tensor)
    reseal(path, lambda header: header["space"].pop("atom_version"))  # as files of ghrr 0.1 are
    old = ghrr.load(path)
    assert isinstance(old, Hypervector)
    assert old.space.atom_version == 1
