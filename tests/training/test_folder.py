"""Folders of training runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ghrr.training import new_folder


def test_new_folders_that_stay_empty_are_removed(tmp_path: Path) -> None:
    with new_folder(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b").is_dir()
    assert list(tmp_path.iterdir()) == []


def test_folders_with_files_and_older_folders_stay(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    with new_folder(tmp_path / "old" / "new"):
        (tmp_path / "old" / "new" / "result").touch()
    with new_folder(tmp_path / "old"):
        pass
    assert (tmp_path / "old" / "new" / "result").exists()


def test_second_writer_is_refused(tmp_path: Path) -> None:
    first, second = new_folder(tmp_path / "run"), new_folder(tmp_path / "run")
    with first, pytest.raises(BlockingIOError, match=r"^process"), second:
        pass
    assert not (tmp_path / "run").exists()


def test_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    with pytest.raises(ValueError, match="is a file, expected a folder"), new_folder(tmp_path / "run"):
        pass
