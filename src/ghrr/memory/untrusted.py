"""Checks of files that may be damaged or crafted: the kind of file, and the fields of its JSON."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ghrr._checks import describe

# What parsing a file can raise that is damaged, or was made to do harm.
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError, RuntimeError, OverflowError, MemoryError)
MAX_INTEGER = 1 << 62
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}
_TYPES = {str: "text", int: "a whole number from 0 to 2**62", list: "a list", dict: "an object"}


def check_regular(path: str | os.PathLike[str]) -> None:
    """Raise unless a path is a regular file or a link to one. Does not open it: opening a FIFO can block forever."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise FileNotFoundError(f"ItemMemory: {str(path)!r}: no such file") from None
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "no file")
        raise ValueError(f"ItemMemory: {str(path)!r}: it is {kind}, expected a regular file")


def check_inside(path: Path) -> None:
    """Raise if a path is a link that leads out of its folder."""
    folder = os.path.realpath(path.parent)
    target = os.path.realpath(path)
    if os.path.dirname(target) != folder:
        raise ValueError(
            f"ItemMemory: {str(path)!r}: it is a link to {target!r}, outside of its folder; put the file itself there"
        )


def reason_of(error: BaseException) -> str:
    """Say in a few words why a file could not be parsed."""
    reason = str(error) if isinstance(error, ValueError) else f"inconsistent content ({error!r})"
    return reason[:500]


def parse_json(content: str | bytes | bytearray, name: str) -> Any:
    """Parse JSON; raise ValueError for what is none, or is nested too deeply to parse."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError(f"{name}: the JSON is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{name}: not JSON ({error})") from error


def check_fields(name: str, value: Any, fields: Mapping[str, type]) -> dict[str, Any]:
    """Return ``value``; raise unless it is an object with exactly these fields, of these types."""
    if not isinstance(value, dict) or value.keys() != fields.keys():
        given = sorted(value) if isinstance(value, dict) else describe(value)
        raise ValueError(f"{name}: expected an object with the fields {sorted(fields)}, got {given}")
    for field, kind in fields.items():
        check_type(f"{name}: {field}", value[field], kind)
    return value


def check_type(name: str, value: Any, kind: type) -> None:
    """Raise unless a value has a type; ``int`` stands for whole numbers from 0 to 2**62."""
    fits = isinstance(value, kind) and not isinstance(value, bool)
    if not fits or (kind is int and not 0 <= value <= MAX_INTEGER):
        raise ValueError(f"{name} must be {_TYPES[kind]}, got {describe(value)}")
