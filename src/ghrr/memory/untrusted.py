"""Checks of files that may be damaged or crafted, beyond those of :mod:`ghrr.files`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ghrr._checks import describe

# What parsing a file can raise that is damaged, or was made to do harm.
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError, RuntimeError, OverflowError, MemoryError)
_END = 1 << 62


def check_inside(path: Path) -> None:
    """Raise if a path is a link that leads out of its folder."""
    target = os.path.realpath(path)
    if os.path.dirname(target) != os.path.realpath(path.parent):
        raise ValueError(
            f"ItemMemory: {str(path)!r}: it is a link to {target!r}, outside of its folder; put the file itself there"
        )


def check_count(name: str, value: Any) -> None:
    """Raise unless a value is a whole number from 0 to below 2**62."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _END:
        raise ValueError(f"{name} must be a whole number from 0 to below 2**62, got {describe(value)}")


def reason_of(error: BaseException) -> str:
    """Say in a few words why a file could not be parsed."""
    reason = str(error) if isinstance(error, ValueError) else f"inconsistent content ({error!r})"
    return reason[:500]
