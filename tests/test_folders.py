"""Folders: exchanged in one step or three, recovered after a kill, and only named files are removed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ghrr.files import aside_name, exchange_folders, folders, list_files, recover_folder, remove_files


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("new", "old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    return tmp_path / "new", tmp_path / "old"


@pytest.fixture(params=[True, False], ids=["one step", "three steps"])
def one_step(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if not request.param:
        monkeypatch.setattr(folders, "_exchange", lambda first, second: False)
    return bool(request.param)


@pytest.mark.usefixtures("one_step")
def test_exchange_gives_each_folder_the_name_of_the_other(pair: tuple[Path, Path]) -> None:
    new, old = pair
    exchange_folders(new, old)
    assert ((old / "file").read_text(), (new / "file").read_text()) == ("new", "old")
    assert not aside_name(old).exists()


@pytest.mark.usefixtures("one_step")
def test_failed_exchange_changes_nothing(pair: tuple[Path, Path]) -> None:
    new, old = pair
    with pytest.raises(OSError, match="No such file"):
        exchange_folders(new.with_name("missing"), old)
    assert (old / "file").read_text() == "old"


def test_killed_exchange_is_recovered(pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    new, old = pair
    monkeypatch.setattr(folders, "_exchange", lambda first, second: False)
    rename, calls = os.rename, 0

    def kill_after_the_first(first: Path, second: Path) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise OSError(errno.EIO, "killed")
        rename(first, second)

    monkeypatch.setattr(os, "rename", kill_after_the_first)
    with pytest.raises(OSError, match="killed"):
        exchange_folders(new, old)
    monkeypatch.undo()
    assert not old.exists()
    recover_folder(old)
    assert (old / "file").read_text() == "old"
    recover_folder(old)  # nothing to do
    assert (old / "file").read_text() == "old"


def test_only_named_files_and_empty_folders_are_removed(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    for name in ("a", "sub/b", "kept/c", "kept/d"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    outside.mkdir()
    (outside / "e").write_text("e")
    (folder / "link").symlink_to(outside)
    (folder / "empty").mkdir()
    files = list_files(folder)
    assert [str(path.relative_to(folder)) for path in files] == ["a", "empty", "kept/c", "kept/d", "link", "sub/b"]
    remove_files(folder, [path for path in files if path.name != "d"])
    assert [str(path.relative_to(folder)) for path in list_files(folder)] == ["kept/d"]
    assert (outside / "e").exists()
    remove_files(folder, list_files(folder))
    assert not folder.exists()
