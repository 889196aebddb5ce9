"""Writers replace regular files only, keep permissions, and remove temporary files of killed processes."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

import ghrr
from ghrr import Hypervector, Space
from ghrr.files import atomic_write, filesystem, lock_folder, open_to_append, write_json
from tests.processes import start

ATOM = Space(10, 2).atoms("a")[0]


def write(path: Path) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text("new")


def test_fifo_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="it is a FIFO; name a regular file"):
        ghrr.save(tmp_path / "fifo", ATOM)
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)
    assert os.listdir(tmp_path) == ["fifo"]


def test_device_is_not_replaced() -> None:
    with pytest.raises(OSError, match="it is a character device; name a regular file"):
        write(Path("/dev/null"))
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_socket_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with pytest.raises(OSError, match="it is a socket"):
            write(tmp_path / "socket")


def test_link_to_device_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/null")
    with pytest.raises(OSError, match="it is a character device"):
        write(tmp_path / "link")


def test_link_is_rejected_without_follow_links(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match="it is a symbolic link"):
        write_json(tmp_path / "link", {}, follow_links=False)
    with pytest.raises(OSError, match="it is a symbolic link"), open_to_append(tmp_path / "link"):
        pass
    assert (tmp_path / "mine").read_text() == "mine"
    write(tmp_path / "link")  # negative control
    assert (tmp_path / "mine").read_text() == "new"


def test_temporary_file_of_private_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("old")
    path.chmod(0o600)
    with atomic_write(path) as temporary:
        temporary.write_text("new")
        assert stat.S_IMODE(temporary.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_read_only_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("old")
    path.chmod(0o440)
    write(path)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o440)


def test_longest_file_name_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 255)
    ghrr.save(path, ATOM)
    assert isinstance(ghrr.load(path), Hypervector)


def test_tensors_that_share_memory_can_be_saved(tmp_path: Path) -> None:
    pair = Space(10, 2).wrap(Space(10, 2).vectors(["p", "q"]), "pair")
    first = Space(10, 2).wrap(pair.tensor[0], "p")
    ghrr.save(tmp_path / "x", {"one": pair, "same": pair, "part": first})
    loaded = ghrr.load(tmp_path / "x")
    assert isinstance(loaded, dict)
    assert torch.equal(loaded["same"].tensor, pair.tensor)
    assert torch.equal(loaded["part"].tensor, first.tensor)


def test_system_errors_name_the_target_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        write(tmp_path / "no" / "x")
    assert caught.value.filename == str(tmp_path / "no" / "x")
    with pytest.raises(OSError, match=r"No space left.*: '.*/x'"), atomic_write(tmp_path / "x"):
        raise OSError(28, "No space left on device")
    assert not list(tmp_path.iterdir())


KILLED = """
import sys
from ghrr.files import atomic_write
with atomic_write(sys.argv[1]) as temporary:
    temporary.write_text("half")
    (temporary.parent / "another").write_text("what a library writes beside it")
    print("writing", flush=True)
    sys.stdin.read()  # until the test ends this process
"""


def test_temporary_folders_of_dead_processes_only_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".ghrr-notes.tmp").mkdir()  # not ours: no such name is ever made
    elsewhere = f".ghrr-{'0' * 12}-999999999-1-00000000.tmp"  # of a process on another machine
    (tmp_path / elsewhere).mkdir()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with start([sys.executable, "-c", KILLED, str(tmp_path / "x")], **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        filesystem._cleaned.clear()
        write(tmp_path / "y")
        (temporary,) = set(os.listdir(tmp_path)) - {".ghrr-notes.tmp", elsewhere, "y"}  # it lives
        assert str(process.pid) in temporary
        process.send_signal(signal.SIGKILL)
    filesystem._cleaned.clear()
    write(tmp_path / "y")
    assert set(os.listdir(tmp_path)) == {".ghrr-notes.tmp", elsewhere, "y"}


def test_a_reused_process_id_is_another_process(tmp_path: Path) -> None:
    start = filesystem._start_time(os.getpid())
    if start is None:
        pytest.skip("this system does not say when a process started")
    ours, earlier = (f".ghrr-{filesystem._machine()}-{os.getpid()}-{time}-00000000.tmp" for time in (start, start - 1))
    (tmp_path / ours).mkdir()
    (tmp_path / earlier).mkdir()
    filesystem._cleaned.clear()
    write(tmp_path / "x")
    assert set(os.listdir(tmp_path)) == {ours, "x"}


def test_link_named_like_temporary_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis").write_text("mine")
    link = tmp_path / f".ghrr-{filesystem._machine()}-999999999-1-00000000.tmp"
    link.symlink_to(tmp_path / "mine")
    filesystem._cleaned.clear()
    write(tmp_path / "x")
    assert (tmp_path / "mine" / "thesis").read_text() == "mine"


# ----------------------------------------------------------------------------------------------------------------- lock


def test_lock_excludes_others_and_names_its_owner(tmp_path: Path) -> None:
    with (
        lock_folder(tmp_path),
        pytest.raises(BlockingIOError, match=f"process {os.getpid()} on .* is using"),
        lock_folder(tmp_path),
    ):
        pass
    assert not list(tmp_path.iterdir())
    with lock_folder(tmp_path):  # negative control: it was released
        pass


def test_lock_file_of_dead_process_is_ignored(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("12345 on a machine")
    with lock_folder(tmp_path):
        assert (tmp_path / ".lock").read_text().startswith(f"{os.getpid()} on ")


def test_lock_does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / ".lock").symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match="symbolic link"), lock_folder(tmp_path):
        pass
    assert (tmp_path / "mine").read_text() == "mine"


def test_only_one_of_many_threads_gets_the_lock_at_a_time(tmp_path: Path) -> None:
    inside, most, got = [0], [0], [0]

    def work() -> None:
        for _ in range(200):
            try:
                with lock_folder(tmp_path):
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                    got[0] += 1
                    inside[0] -= 1
            except BlockingIOError:
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 1
    assert got[0] > 10
