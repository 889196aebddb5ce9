"""JSON files with limits on size and depth, and checks of their fields."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ghrr.checks import current_call, describe, value_error
from ghrr.files.filesystem import PathLike, atomic_write, read_bytes

MAX_BYTES = 64 << 20
MAX_DEPTH = 200
_VERSION_NAME, _VERSION, _CHECKSUM = "format_version", 2, "sha256"  # of files with a checksum
_MAX_INTEGER = 1 << 62
_NAMES: dict[type, str] = {
    str: "text",
    int: "a whole number below 2**62",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def read_json(path: PathLike) -> Any:
    """Read a JSON file of at most ``MAX_BYTES``, nested at most ``MAX_DEPTH`` deep.

    Raises
    ------
    OSError
        There is no such file, or it is not a regular file.
    ValueError
        It is too large, not JSON in UTF-8, or an object in it has a key twice.
    """
    return parse_json(read_bytes(path, limit=MAX_BYTES), current_call(path))


def parse_json(text: str | bytes, where: str, *, strict: bool = False) -> Any:
    """Parse JSON that may be malformed; errors begin with ``where``. ``strict`` refuses NaN and infinity."""
    if not isinstance(text, str | bytes | bytearray):
        raise TypeError(f"{where}: needs a JSON text, str or bytes, got {describe(text)}")
    try:
        text = text if isinstance(text, str) else text.decode()  # json would take UTF-16 too
        constant = _refuse_constant if strict else None
        value = json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=constant)
    except RecursionError:
        raise ValueError(f"{where}: the JSON is nested too deeply, expected at most {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise ValueError(f"{where}: not valid JSON ({error!s:.200})") from error
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for parent in level
            if isinstance(parent, (dict, list))
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return value
    raise ValueError(f"{where}: the JSON is nested too deeply, expected at most {MAX_DEPTH} levels")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"an object has the key {twice!r:.80} more than once")
    return found


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")


def write_json(path: PathLike, content: Any, *, follow_links: bool = True) -> None:
    """Write a JSON file atomically; raise ValueError for content that :func:`read_json` would refuse as too large."""
    text = json.dumps(content, indent=1).encode() + b"\n"
    if len(text) > MAX_BYTES:
        raise ValueError(f"cannot write {str(path)!r}: {len(text):,} bytes of JSON, expected at most {MAX_BYTES:,}")
    with atomic_write(path, follow_links=follow_links) as temporary:
        temporary.write_bytes(text)


def write_checked_json(path: PathLike, content: Mapping[str, Any], *, follow_links: bool = True) -> None:
    """Write an object as :func:`write_json` does, with a checksum.

    Two fields are added, ``format_version`` and ``sha256``: if damage changes the name of one, the other shows it.
    """
    stored = {_VERSION_NAME: _VERSION, **json.loads(json.dumps(content))}
    write_json(path, {**stored, _CHECKSUM: _checksum(stored)}, follow_links=follow_links)


def read_checked_json(path: PathLike) -> Any:
    """Read what :func:`write_checked_json` wrote, without the two fields; a file that has neither is not checked.

    Raises
    ------
    OSError, ValueError
        As :func:`read_json`, or the content does not match its checksum.
    """
    content = read_json(path)
    if not isinstance(content, dict) or not {_VERSION_NAME, _CHECKSUM} & content.keys():
        return content
    expected = content.pop(_CHECKSUM, None)
    if expected != _checksum(content) or content.pop(_VERSION_NAME, None) != _VERSION:
        raise value_error("the content does not match its checksum; the file was damaged or changed", path=path)
    return content


def _checksum(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def check_fields(where: str, value: Any, fields: Mapping[str, type | tuple[type, ...]]) -> dict[str, Any]:
    """Return ``value``; raise unless it is an object with at least these fields, of these types.

    ``float`` stands for any number, ``int`` for whole numbers below 2**62 in size, ``bool`` for neither.

    Raises
    ------
    ValueError
        The message names ``where`` and the field.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected an object with {', '.join(fields)}; got {describe(value)}")
    for name, given in fields.items():
        kinds = given if isinstance(given, tuple) else (given,)
        if name not in value:
            raise ValueError(f"{where}: {name} is missing")
        if not any(_is_of(value[name], kind) for kind in kinds):
            expected = " or ".join(_NAMES[kind] for kind in kinds)
            raise ValueError(f"{where}: {name} must be {expected}, got {describe(value[name])}")
    return value


def check_count(name: str, value: Any) -> None:
    """Raise ValueError unless a value is a whole number from 0 to below 2**62."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MAX_INTEGER:
        raise ValueError(f"{name} must be a whole number from 0 to below 2**62, got {describe(value)}")


def _is_of(value: Any, kind: type) -> bool:
    if isinstance(value, bool):
        return kind is bool
    if isinstance(value, int):
        return kind in (int, float) and abs(value) < _MAX_INTEGER
    return isinstance(value, kind)
