"""Kill a process at a random moment: a forked one that writes version after version and acknowledges each."""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from tests.faults.campaigns.outcome import HANG, RAW, Fault, describe
from tests.faults.interrupts import SOURCES

_LIMIT = 40.0  # seconds without an acknowledgement
_SECONDS = 0.15  # longest time to wait before a kill
_LINES = 6000

MOMENTS = ("line", "start", "acknowledged")

Acknowledge = Callable[[int], object]


def kill_forked(
    rng: random.Random, write: Callable[[Acknowledge], object], case: str, moments: Sequence[str] = MOMENTS
) -> int:
    """Run ``write`` in a process that is killed, and return the last version that it acknowledged, or 0.

    One kill in three comes before a random line of ghrr, so that it can be repeated; the others come after a random
    time, from the start or from the first acknowledgement, so that they also reach what is not Python.
    """
    receive, send = os.pipe()
    how = rng.choice(moments)
    seconds, line = rng.uniform(0.001, _SECONDS), int(_LINES ** rng.random())
    sys.stdout.flush()
    child = os.fork()
    if child == 0:  # pragma: no cover (it is killed)
        os.close(receive)
        _run(write, send, line if how == "line" else None)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        try:
            start = _first_line(pipe, case) if how == "acknowledged" else b""
            if how != "line":
                time.sleep(seconds)
                os.kill(child, signal.SIGKILL)
            rest = _rest(pipe, case)
        finally:
            with _gone():
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    lines = (start + rest).decode(errors="replace").split("\n")[:-1]
    error = next((line for line in lines if line.startswith("error")), None)
    if error is not None:
        raise Fault(RAW, error, case)
    return int(lines[-1]) if lines else 0


def _run(write: Callable[[Acknowledge], object], send: int, line: int | None) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    try:
        with _killed_at(line):
            write(lambda version: os.write(send, b"%d\n" % version))
    except BaseException as error:
        os.write(send, f"error {describe(error)}".replace("\n", " ").encode() + b"\n")
    os._exit(0)


@contextmanager
def _killed_at(line: int | None) -> Iterator[None]:
    """Kill this process before a line of ghrr."""
    count = 0

    def on_line(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        if count == line:
            os.kill(os.getpid(), signal.SIGKILL)
        return on_line

    if line is not None:
        sys.settrace(lambda frame, event, _: on_line if frame.f_code.co_filename.startswith(SOURCES) else None)
    yield
    sys.settrace(None)


def _first_line(pipe: Any, case: str) -> bytes:
    content = b""
    while not content.endswith(b"\n"):
        part = _read(pipe, case)
        if not part:
            break
        content += part
    return content


def _rest(pipe: Any, case: str) -> bytes:
    content = b""
    while part := _read(pipe, case):
        content += part
    return content


def _read(pipe: Any, case: str) -> bytes:
    if not select.select([pipe], [], [], _LIMIT)[0]:
        raise Fault(HANG, f"a writer did nothing for {_LIMIT:.0f} s", case)
    return os.read(pipe.fileno(), 1 << 16)


@contextmanager
def _gone() -> Iterator[None]:
    try:
        yield
    except ProcessLookupError:
        return
