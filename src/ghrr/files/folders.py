"""Folders: replace one by another in one step, and remove only named files."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Iterable
from pathlib import Path

from ghrr.files.filesystem import sync_folder

_AT_FDCWD = -100  # of Linux: paths are relative to the working directory
_RENAME_EXCHANGE = 2
_NO_EXCHANGE = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV}


def exchange_folders(first: Path, second: Path) -> None:
    """Exchange the names of two folders on one file system.

    On Linux this is one step. Elsewhere, and on file systems that cannot do it, it takes three renames; a process that
    is killed in between leaves ``second`` with the name that :func:`aside_name` returns, and :func:`recover_folder`
    gives it back.
    """
    if not _exchange(first, second):
        aside = aside_name(second)
        os.rename(second, aside)
        try:
            os.rename(first, second)
        except BaseException:
            os.rename(aside, second)
            raise
        os.rename(aside, first)
    sync_folder(first.parent)
    sync_folder(second.parent)


def aside_name(folder: Path) -> Path:
    """Return the name that a folder has for a moment while another one takes its place."""
    return folder.with_name(f".{folder.name}.aside")


def recover_folder(folder: Path) -> None:
    """Give a folder its name back if a process was killed while it was exchanged."""
    with contextlib.suppress(FileNotFoundError):
        if not os.path.lexists(folder):
            os.rename(aside_name(folder), folder)


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two names in one step; return False where the system cannot do it."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # not Linux, or an old C library
        return False
    paths = os.fsencode(first), os.fsencode(second)
    if rename(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], ctypes.c_uint(_RENAME_EXCHANGE)) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NO_EXCHANGE:
        return False
    raise OSError(code, os.strerror(code), os.fspath(second))


def list_files(folder: Path) -> list[Path]:
    """Return all files below a folder, sorted; links are files, and an empty folder inside it is one too.

    Raises
    ------
    OSError
        A folder cannot be listed.
    """
    found: list[Path] = []
    for path in sorted(folder.iterdir()):
        inside = list_files(path) if path.is_dir() and not path.is_symlink() else []
        found += inside or [path]
    return found


def remove_files(folder: Path, files: Iterable[Path]) -> None:
    """Remove files below a folder, and the folders that are empty then. Other files stay."""
    folders = {folder}
    for path in files:
        folders.update(parent for parent in path.parents if parent.is_relative_to(folder))
        if path.is_dir() and not path.is_symlink():
            folders.add(path)
        else:
            path.unlink(missing_ok=True)
    for path in sorted(folders, key=lambda one: len(one.parts), reverse=True):
        with contextlib.suppress(OSError):  # it holds other files
            path.rmdir()
