"""Settings of a record that may differ from path to path: scales of numbers, and how lists are encoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from ghrr._checks import describe
from ghrr.structures.layout import MOST_DEPTH, Path, show

T = TypeVar("T")


class ByPath(Generic[T]):
    """A setting for all paths, or for those that match a pattern.

    A pattern is a path in which None stands for any key or list index. If several patterns match, the one with the
    fewest None counts; paths without a match have the default.

    Parameters
    ----------
    operation, name
        Named in errors.
    given
        One value for all paths, or a mapping of patterns to values; a string is a pattern of one key.
    check
        Returns the value, or raises.
    default
        The setting of paths that no pattern matches.

    Examples
    --------
    >>> from ghrr.structures.record.by_path import ByPath
    >>> lists = ByPath("Record", "lists", {("people", None, "tags"): "set"}, str, "positions")
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
            if not isinstance(pattern, tuple) or len(pattern) > MOST_DEPTH or not all(map(_is_part, pattern)):
                raise TypeError(
                    f"{operation}: {name}: a key must be a string or a tuple of keys, list indices and None for any of "
                    f'these, as in ("scores", None); got {describe(key)}'
                )
            self.patterns.append((pattern, check(value)))
        self.patterns.sort(key=lambda entry: sum(part is None for part in entry[0]))

    @property
    def values(self) -> list[T]:
        """Return all values that a path may have, without the default if there are patterns."""
        return [value for _, value in self.patterns] if self.patterns else [self.default]

    def at(self, path: Path) -> T:
        """Return the setting of a path."""
        for pattern, value in self.patterns:
            if len(pattern) == len(path) and all(map(_fits, pattern, path)):
                return value
        return self.default

    def state(self, as_json: Callable[[T], Any]) -> list[Any]:
        """Return the setting as JSON: pairs of a pattern and a value, None for all paths."""
        if not self.patterns:
            return [[None, as_json(self.default)]]
        return [[list(pattern), as_json(value)] for pattern, value in self.patterns]

    def __repr__(self) -> str:
        return repr({show(pattern): value for pattern, value in self.patterns} or self.default)


def from_pairs(pairs: Iterable[Any], parse: Callable[[Any], T]) -> T | dict[Path, T]:
    """Return what :meth:`ByPath.state` was made from, in the form that its constructor takes."""
    parsed = [(pattern, parse(value)) for pattern, value in pairs]
    if len(parsed) == 1 and parsed[0][0] is None:
        return parsed[0][1]
    return {tuple(pattern): value for pattern, value in parsed}


def _is_part(part: object) -> bool:
    return part is None or isinstance(part, str) or (isinstance(part, int) and not isinstance(part, bool) and part >= 0)


def _fits(part: object, actual: object) -> bool:
    return part is None or (part == actual and isinstance(part, str) == isinstance(actual, str))
