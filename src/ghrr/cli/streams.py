"""Standard streams of the command line: closed ones, pipes whose reader has gone, and full disks.

- A stream that is closed (``>&-``) works like ``/dev/null``.
- If the reader of standard output ends early (``| head -1``), the command ends without a message, with status 141, as
  a program does that the signal SIGPIPE ends.
- If standard output cannot be written for another reason, such as a full disk, the command ends with a message and
  status 2.
- Messages on standard error that cannot be written are lost; the command goes on.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import TextIO

BROKEN_PIPE = 141  # 128 + SIGPIPE, which shells report for a program that the signal ends


class _Output(io.FileIO):
    """Standard output. Ends the command if it cannot be written, by SystemExit, so that ``with`` blocks clean up."""

    def write(self, data: memoryview) -> int:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError as error:
            _discard(self)
            if isinstance(error, BrokenPipeError):
                raise SystemExit(BROKEN_PIPE) from None
            print(f"Error: cannot write to standard output: {error.strerror}", file=sys.stderr)
            raise SystemExit(2) from None


class _Errors(io.FileIO):
    """Standard error. Messages that cannot be written are lost."""

    def write(self, data: memoryview) -> int:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError:
            _discard(self)
            return len(data)


def _discard(file: io.FileIO) -> None:
    """Send what is written to a file from now on to ``/dev/null``."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, file.fileno())
    os.close(null)


@contextlib.contextmanager
def safe_streams() -> Iterator[None]:
    """Replace standard output and standard error inside a ``with`` block, and write all output at its end."""
    _open_closed_streams()
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _wrapped(sys.stdout, _Output), _wrapped(sys.stderr, _Errors)
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
        finally:
            sys.stderr.flush()
            sys.stdout, sys.stderr = before


def _open_closed_streams() -> None:
    """Open ``/dev/null`` as each stream that is closed, which Python shows as None.

    A free descriptor 0, 1 or 2 would be used by the next file that is opened, and a library that prints would write
    into that file.
    """
    names = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
    while names and (null := os.open(os.devnull, os.O_RDWR)) <= 2:  # the lowest free number
        pass
    for name in names:
        setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115
    if names:
        os.close(null)


def _wrapped(stream: TextIO, kind: type[io.FileIO]) -> TextIO:
    """Return a text stream of a descriptor with another class for its bytes."""
    try:
        number = stream.fileno()
    except (OSError, ValueError):  # not a file, for example in a test
        return stream
    stream.flush()
    buffer = io.BufferedWriter(kind(number, "w", closefd=False))
    # Standard error is written at once, and standard output on a terminal or without buffers at the end of a line.
    by_line = kind is _Errors or (
        isinstance(stream, io.TextIOWrapper) and (stream.line_buffering or stream.write_through)
    )
    return io.TextIOWrapper(buffer, encoding=stream.encoding, errors=stream.errors, line_buffering=by_line)
