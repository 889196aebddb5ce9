"""Interrupt an action at every line, as Ctrl-C can, and check the state afterwards."""

from __future__ import annotations

import itertools
import linecache
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import ghrr
from tests.processes import HANG

_SOURCES = str(Path(ghrr.__file__).parent)

T = TypeVar("T")


def interrupt_every_line(
    prepare: Callable[[], T], action: Callable[[T], object], check: Callable[[T], None], *, step: int = 1
) -> int:
    """Run an action once for each line of ghrr that it executes, interrupted before that line.

    Parameters
    ----------
    prepare
        Makes the object to act on; called once for each run.
    action
        What is interrupted.
    check
        Raises if the object is not as before or as after, or does not work any more.
    step
        Interrupt every step-th line only.

    Returns
    -------
    int
        Number of interrupted lines.
    """
    for lines in itertools.count():
        subject = prepare()
        place = _interrupt(action, subject, 1 + lines * step)
        try:
            check(subject)
        except BaseException as error:
            error.add_note(f"interrupted at line {1 + lines * step}: {place}")
            raise
        if place is None:  # the action has ended
            return lines
    raise AssertionError("unreachable")


def in_another_thread(work: Callable[[], object]) -> None:
    """Run work in a thread, and fail if it waits forever for a lock that was not released."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(HANG)
    assert not thread.is_alive(), "a lock is still held"
    if errors:
        raise errors[0]


def _interrupt(action: Callable[[T], object], subject: T, number: int) -> str | None:
    """Raise KeyboardInterrupt before the n-th line of ghrr; return its place, or None if there are fewer lines."""
    count = 0
    place: str | None = None
    entered: dict[int, set[int]] = {}

    def on_line(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count, place
        if event != "line" or place is not None or _takes_no_signal(frame, entered):
            return on_line
        count += 1
        if count == number:
            place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            raise KeyboardInterrupt
        return on_line

    def on_call(frame: FrameType, event: str, _: Any) -> Any:
        return on_line if frame.f_code.co_filename.startswith(_SOURCES) else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        action(subject)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return place


def _takes_no_signal(frame: FrameType, entered: dict[int, set[int]]) -> bool:
    """Return whether Python handles no signal at a line: at ``try:`` and at the end of a with block."""
    text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    if not text.startswith("with "):
        return text == "try:"
    seen = entered.setdefault(id(frame), set())
    leaves = frame.f_lineno in seen
    seen.add(frame.f_lineno)
    return leaves
