"""Interrupt an action at every line, as Ctrl-C can, and check the state afterwards."""

from __future__ import annotations

import contextlib
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

SOURCES = str(Path(ghrr.__file__).parent)

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
        place = interrupt_line(action, subject, 1 + lines * step)
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


def interrupt_line(action: Callable[[T], object], subject: T, number: int) -> str | None:
    """Raise KeyboardInterrupt before the n-th line of ghrr; return its place, or None if there are fewer lines."""
    places: list[str] = []

    def on_line(place: str) -> None:
        places.append(place)
        if len(places) == number:
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        _trace(action, subject, on_line, last=number)
    return places[number - 1] if len(places) >= number else None


def lines_of(action: Callable[[T], object], subject: T) -> list[str]:
    """Run an action and return the places of the lines of ghrr before which it can be interrupted, in order."""
    places: list[str] = []
    _trace(action, subject, places.append)
    return places


def _trace(
    action: Callable[[T], object], subject: T, visit: Callable[[str], object], *, last: int | None = None
) -> None:
    """Run an action; call ``visit`` before each line of ghrr at which Python handles signals, up to the last-th one."""
    count = 0
    entered: dict[int, set[int]] = {}

    def on_line(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if event == "line" and count != last and not _takes_no_signal(frame, entered):
            count += 1
            visit(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        return on_line

    def on_call(frame: FrameType, event: str, _: Any) -> Any:
        return on_line if frame.f_code.co_filename.startswith(SOURCES) else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        action(subject)
    finally:
        sys.settrace(before)


def _takes_no_signal(frame: FrameType, entered: dict[int, set[int]]) -> bool:
    """Return whether Python handles no signal at a line: at ``try:`` and at the end of a with block."""
    text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    if not text.startswith("with "):
        return text == "try:"
    seen = entered.setdefault(id(frame), set())
    leaves = frame.f_lineno in seen
    seen.add(frame.f_lineno)
    return leaves
