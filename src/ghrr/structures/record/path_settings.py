"""Settings of a record that can differ between paths: scales of numbers, and the encoding of lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from ghrr._checks import describe
from ghrr.structures.path_tree import MAX_DEPTH, Path, show_path

T = TypeVar("T")


class PathSettings(Generic[T]):
    """One setting for all paths, or one for each pattern of paths.

    A pattern is a path in which None matches any key or list index. If several patterns match a path, the one with the
    fewest None applies, and among these the first in the mapping. Other paths have the default.

    Parameters
    ----------
    operation, name
        Names for error messages.
    given
        One value for all paths, or a mapping of patterns to values; a string is a pattern of one key.
    check
        Function that returns a valid value and raises for others.
    default
        The setting of paths that no pattern matches.

    Examples
    --------
    >>> from ghrr.structures.record.path_settings import PathSettings
    >>> lists = PathSettings("Record", "lists", {("people", None, "tags"): "set"}, str, "positions")
    >>> lists.at(("people", 3, "tags")), lists.at(("tags",))
    ('set', 'positions')
    """

    def __init__(self, operation: str, name: str, given: Any, check: Callable[[Any], T], default: T) -> None:
        self.default = default
        self.patterns: list[tuple[Path, T]] = []
        if not isinstance(given, Mapping):
            self.default = check(given)
            return
        for key, value in given.items():
            pattern = (key,) if isinstance(key, str) else key
            if not isinstance(pattern, tuple) or len(pattern) > MAX_DEPTH or not all(map(_is_key, pattern)):
                raise TypeError(
                    f"{operation}: {name}: a path must be a string or a tuple of keys, list indices and None for any "
                    f'of these, such as ("scores", None); got {describe(key)}'
                )
            if isinstance(key, str) and "." in key:
                raise ValueError(
                    f"{operation}: {name}: the string {key!r} names one key that contains a dot, not a nested path; "
                    f"use {tuple(key.split('.'))!r} for the nested path, or {(key,)!r} for the key"
                )
            self.patterns.append((pattern, check(value)))
        self.patterns.sort(key=lambda entry: sum(key is None for key in entry[0]))  # stable: ties keep their order

    def at(self, path: Path) -> T:
        """Return the setting of a path."""
        for pattern, value in self.patterns:
            if len(pattern) == len(path) and all(map(_matches, pattern, path)):
                return value
        return self.default

    def state(self, as_json: Callable[[T], Any]) -> list[Any]:
        """Return the settings as JSON: pairs of a pattern, None for all paths, and a value."""
        if not self.patterns:
            return [[None, as_json(self.default)]]
        return [[list(pattern), as_json(value)] for pattern, value in self.patterns]

    def __repr__(self) -> str:
        return repr({show_path(pattern): value for pattern, value in self.patterns} or self.default)


def from_pairs(pairs: Iterable[Any], parse: Callable[[Any], T]) -> T | dict[Path, T]:
    """Return the argument ``given`` of :class:`PathSettings` from the pairs of :meth:`PathSettings.state`."""
    parsed = [(pattern, parse(value)) for pattern, value in pairs]
    if len(parsed) == 1 and parsed[0][0] is None:
        return parsed[0][1]
    return {tuple(pattern): value for pattern, value in parsed}


def _is_key(key: object) -> bool:
    return key is None or isinstance(key, str) or (isinstance(key, int) and not isinstance(key, bool) and key >= 0)


def _matches(key: object, actual: object) -> bool:
    return key is None or (key == actual and isinstance(key, str) == isinstance(actual, str))
