"""File system: access regular files only, replace files atomically, and let one process at a time write to a folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ghrr.checks import named, value_error

PathLike = str | os.PathLike[str]

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFLNK: "a symbolic link",
}
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a FIFO without a reader must not block
_TEMPORARY = re.compile(r"\.ghrr-([0-9a-f]{12})-(\d+)-(\d+)-[0-9a-f]{8}\.tmp")
_LOCK = ".lock"
_cleaned: set[tuple[int, Path]] = set()  # (process id, folder) pairs that were searched; a fork copies this set


def check_regular(path: PathLike) -> None:
    """Raise unless ``path`` is a regular file or a link to one. Opening a FIFO or a device can block forever.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    IsADirectoryError, OSError
        It is a folder, a FIFO, a socket or a device.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise FileNotFoundError(named("no such file", path=path)) from None
    _check_mode(path, mode)


def _check_mode(path: PathLike, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    kind = _KINDS.get(stat.S_IFMT(mode), "an unknown kind of file")
    message = named(f"it is {kind}, expected a regular file", path=path)
    raise IsADirectoryError(message) if stat.S_ISDIR(mode) else OSError(message)


def read_bytes(path: PathLike, *, limit: int | None = None) -> bytes:
    """Return the content of a regular file; raise ValueError if it has more than ``limit`` bytes."""
    check_regular(path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if limit is None:
            return file.read()
        # Not read(limit + 1), which would allocate that many bytes for a small file too.
        content = file.read(min(size, limit) + 1)
    if len(content) > limit:
        raise value_error(f"it has {size:,} bytes, expected at most {limit:,}", path=path)
    return content


def check_inside(path: Path) -> None:
    """Raise ValueError if a path is a symbolic link to a file outside its folder."""
    target = os.path.realpath(path)
    if os.path.dirname(target) != os.path.realpath(path.parent):
        raise value_error(
            f"the file must be inside its folder, got a link to {target!r}; replace the link by the file", path=path
        )


@contextmanager
def open_to_append(path: PathLike) -> Iterator[BinaryIO]:
    """Open a regular file, not a link to one, to append bytes. Write errors name the file."""
    with _named_errors(path), open(_open_regular(path, os.O_WRONLY | os.O_APPEND), "ab") as file:
        yield file


def _open_regular(path: PathLike, flags: int) -> int:
    """Open or create a regular file that is not a link. A FIFO does not block."""
    with contextlib.suppress(FileNotFoundError):
        _check_mode(path, os.lstat(path).st_mode)
    handle = os.open(path, flags | os.O_CREAT | _NO_LINKS, 0o666)
    try:
        _check_mode(path, os.fstat(handle).st_mode)
    except BaseException:
        os.close(handle)
        raise
    return handle


# -------------------------------------------------------------------------------------------------------------- writing


@contextmanager
def atomic_write(path: PathLike, *, follow_links: bool = True) -> Iterator[Path]:
    """Write to a temporary file that replaces ``path`` in one step when the ``with`` block succeeds.

    If the block fails, for example by a keyboard interrupt, the temporary file is removed and the old file stays
    unchanged. The temporary file is in a separate folder that only this user can access, so no other user can read the
    new content before it has the permissions of the old file. The folder is next to ``path`` and its name contains the
    process id: the next process that writes there removes the temporary folders of killed processes.

    Parameters
    ----------
    path
        File to replace or to create.
    follow_links
        Replace the file that a symbolic link points to; otherwise raise for a link.

    Raises
    ------
    OSError
        ``path`` is a folder, a FIFO, a socket, a device, or a link that is not followed. Or writing failed.
    """
    target = Path(os.path.realpath(path) if follow_links else path)
    mode = _mode_to_keep(path, target)
    with _named_errors(path):
        _remove_leftovers(target.parent)
        folder = target.with_name(_temporary_name())
        folder.mkdir(mode=0o700)
        temporary = folder / "new"
        try:
            temporary.touch(mode=0o666)
            mode = stat.S_IMODE(temporary.stat().st_mode) if mode is None else mode
            yield temporary
            temporary.chmod(mode)  # some writers replace the file by one that others cannot read
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
            os.replace(temporary, target)
        finally:
            _remove_temporary(folder)


def _mode_to_keep(path: PathLike, target: Path) -> int | None:
    """Return the permissions of the file that is replaced, or None for a new file."""
    try:
        mode = os.lstat(target).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"cannot write to {str(path)!r}: it is a folder; name a file in it")
    if not stat.S_ISREG(mode):
        raise OSError(f"cannot write to {str(path)!r}: it is {_KINDS.get(stat.S_IFMT(mode))}; name a regular file")
    return stat.S_IMODE(mode)


@contextmanager
def _named_errors(path: PathLike) -> Iterator[None]:
    """Make system errors name ``path`` instead of a temporary file or no file."""
    try:
        yield
    except OSError as error:
        temporary = isinstance(error.filename, str) and _TEMPORARY.search(error.filename)
        if error.errno is None or not (error.filename is None or temporary):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def _temporary_name() -> str:
    pid = os.getpid()
    return f".ghrr-{_machine()}-{pid}-{_start_time(pid) or 0}-{secrets.token_hex(4)}.tmp"


def _machine() -> str:
    """Return an id of the host and process namespace, in which process ids are unique."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return hashlib.sha256(f"{socket.gethostname()} {namespace}".encode()).hexdigest()[:12]


def _start_time(pid: int) -> int | None:
    """Return the start time of a process in clock ticks, because ids are reused; None if it is unknown."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def _is_running(pid: int, start: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # it belongs to another user
    return not start or _start_time(pid) in (start, None)


def _remove_leftovers(folder: Path) -> None:
    """Remove temporary folders of processes on this machine that have ended, once per process and folder."""
    if (os.getpid(), folder) in _cleaned:
        return
    _cleaned.add((os.getpid(), folder))
    with contextlib.suppress(OSError):  # the folder does not exist or cannot be listed
        for name in os.listdir(folder):
            match = _TEMPORARY.fullmatch(name)
            if match and match[1] == _machine() and not _is_running(int(match[2]), int(match[3])):
                _remove_temporary(folder / name)


def _remove_temporary(folder: Path) -> None:
    """Remove a folder of temporary files, as far as possible."""
    with contextlib.suppress(OSError):
        if not folder.is_symlink():
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()


def sync_folder(folder: Path) -> None:
    """Wait until the file names in a folder are on disk, as ``fsync`` does for the content of a file."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# -------------------------------------------------------------------------------------------------------------- locking


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock on a folder inside a ``with`` block.

    The system releases the lock when the process ends or is killed. Systems without ``fcntl`` have no lock.

    Raises
    ------
    BlockingIOError
        Another process or thread has the lock. The message contains the process id.
    """
    try:
        import fcntl  # noqa: PLC0415 (not on all systems)
    except ImportError:
        yield
        return
    path = folder / _LOCK
    while True:
        handle = _open_regular(path, os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_same_file(handle, path):
                break
        except BlockingIOError:
            holder = os.pread(handle, 100, 0).decode(errors="replace").strip() or "of unknown id"
            os.close(handle)
            raise BlockingIOError(
                named(f"process {holder} is using {str(folder)!r}; wait until it ends, or stop it")
            ) from None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # the previous holder removed the file after it was opened here
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()} on {socket.gethostname()}".encode(), 0)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def _is_same_file(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False
