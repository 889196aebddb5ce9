"""Child processes of tests: they react to Ctrl-C, and no deadline decides a result on a busy machine."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork processes")
HANG = 600  # seconds after which a process that does nothing is given up


def start(command: Sequence[str], **settings: Any) -> subprocess.Popen[str]:
    """Start a command that SIGINT can stop.

    A child inherits an ignored SIGINT, and the parent of the tests may ignore it (background jobs, some CI runners).
    """
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return subprocess.Popen(command, text=True, **settings)
    finally:
        signal.signal(signal.SIGINT, before)


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str] | None = None) -> None:
    """Wait for an event; fail if the process ends first, or if nothing happens for a very long time."""
    end = time.monotonic() + HANG
    while not condition():
        if process is not None and process.poll() is not None and not condition():
            raise AssertionError(f"the process ended with status {process.returncode} before the event")
        assert time.monotonic() < end, "the event did not happen"
        time.sleep(0.01)
