"""Paths of a record: settings that can differ between paths, such as scales of numbers, and paths written with dots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from ghrr.checks import describe, type_error, value_error
from ghrr.documents import MAX_DEPTH, Path, show_path
from ghrr.structures.path_tree import PathTree

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
    >>> from ghrr.structures.record.paths import PathSettings
    >>> lists = PathSettings("lists", {("people", None, "tags"): "set"}, str, "positions")
    >>> lists.at(("people", 3, "tags")), lists.at(("tags",))
    ('set', 'positions')
    """

    def __init__(self, name: str, given: Any, check: Callable[[Any], T], default: T) -> None:
        self.default = default
        self.patterns: list[tuple[Path, T]] = []
        if not isinstance(given, Mapping):
            self.default = check(given)
            return
        for key, value in given.items():
            pattern = (key,) if isinstance(key, str) else key
            if not isinstance(pattern, tuple) or len(pattern) > MAX_DEPTH or not all(map(_is_key, pattern)):
                raise type_error(
                    f"{name}: a path must be a string or a tuple of keys, list indices and None for any "
                    f'of these, such as ("scores", None); got {describe(key)}'
                )
            if isinstance(key, str) and "." in key:
                raise value_error(
                    f"{name}: the string {key!r} names one key that contains a dot, not a nested path; "
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


def is_set(path: Path) -> bool:
    """Return whether a path stands for the elements of a list that is encoded as a set."""
    return bool(path) and path[-1] is None


def known_paths(text: str, paths: PathTree) -> list[Path]:
    """Return the paths of a tree that a text can mean, the one with the fewest keys first; keys may contain dots.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures.record.paths import known_paths
    >>> record = ghrr.Record(ghrr.Space(dim=50, m=3))
    >>> _ = record.encode({"born": {"city": "London"}, "a.b": 1, "a": {"b": [2]}})
    >>> [known_paths(text, record.paths) for text in ("born.city", "a.b", "a.b.0", "b.a")]
    [[('born', 'city')], [('a.b',), ('a', 'b')], [('a', 'b', 0)], []]
    """
    parts = text.split(".")
    if len(parts) > MAX_DEPTH:
        return []
    found: list[list[Path]] = [[] for _ in range(len(parts) + 1)]  # by the number of parts that they use
    found[0].append(())
    for start in range(len(parts)):
        for end in range(start + 1, len(parts) + 1):
            key = ".".join(parts[start:end])
            for above in found[start]:
                keys: Path = (key, int(key)) if _is_index(key) else (key,)
                found[end] += [(*above, one) for one in keys if paths.node((*above, one)) is not None]
    return sorted(found[-1], key=len)


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10 and str(int(text)) == text


def resolve_path(text: str, paths: PathTree) -> Path:
    """Return the path that a string means: a key, or else the known path that is written so.

    Raises ValueError if several known paths are written so and none of them is a single key.
    """
    found = known_paths(text, paths) if "." in text else []
    if not found or len(found[0]) == 1:
        return (text,)
    if len(found) > 1:
        choices = " or ".join(str(list(path)) for path in found)
        raise value_error(f"the path {text!r} is ambiguous; use {choices}")
    return found[0]
