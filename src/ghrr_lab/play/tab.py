"""The interface of a tab: controls with their ranges, and a function that draws their values.

Values come from a browser or from any program that posts to the server, so :meth:`Tab.check` checks every one of them
before :attr:`Tab.draw` sees it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ghrr.checks import check_choice, describe, names_errors

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Slider:
    """A number in a range; a whole number if ``step`` is one."""

    name: str
    label: str
    low: float
    high: float
    default: float
    step: float = 1

    def check(self, value: Any) -> float:
        """Return a number of this slider; raise for anything else. Text that is a number comes from an address."""
        number = _as_number(value)
        if number is None or not self.low <= number <= self.high:
            raise ValueError(
                f"play: {self.label} must be a number from {self.low} to {self.high}, got {describe(value)}"
            )
        if not isinstance(self.step, int):
            return number
        if number != round(number):
            raise ValueError(f"play: {self.label} must be a whole number, got {describe(value)}")
        return round(number)


@dataclass(frozen=True)
class Choice:
    """One of several options. With ``open_ended`` they depend on other controls, and ``draw`` checks the value."""

    name: str
    label: str
    options: Sequence[str]
    default: str
    open_ended: bool = False

    @names_errors("play")
    def check(self, value: Any) -> str:
        """Return an option; raise for anything else."""
        if not isinstance(value, str) or len(value) > MAX_CHARACTERS:
            raise ValueError(f"play: {self.label} must be text, got {describe(value)}")
        if not self.open_ended:
            check_choice(self.label, value, tuple(self.options))
        return value


MAX_CHARACTERS = 20_000  # of a text


@dataclass(frozen=True)
class Text:
    """Text of one or several lines."""

    name: str
    label: str
    default: str
    lines: int = 1

    def check(self, value: Any) -> str:
        """Return the text; raise for anything else and for a text that is too long."""
        if not isinstance(value, str):
            raise ValueError(f"play: {self.label} must be text, got {describe(value)}")
        if len(value) > MAX_CHARACTERS:
            raise ValueError(
                f"play: {self.label} must have at most {MAX_CHARACTERS:,} characters, got {len(value):,}; shorten it"
            )
        return value


@dataclass(frozen=True)
class Drawing:
    """A black and white drawing of 32 × 32 pixels, as 256 hexadecimal digits; ``examples`` are drawings by name."""

    name: str
    label: str
    default: str
    examples: Mapping[str, str]

    def check(self, value: Any) -> str:
        """Return the drawing; raise for anything else."""
        if not isinstance(value, str) or not _BITMAP.fullmatch(value):
            raise ValueError(
                f"play: {self.label} must be {BITMAP_DIGITS} hexadecimal digits, a bitmap of 32 × 32 pixels, "
                f"got {describe(value)}"
            )
        return value


BITMAP_DIGITS = 32 * 32 // 4
_BITMAP = re.compile(f"[0-9a-f]{{{BITMAP_DIGITS}}}")


@dataclass(frozen=True)
class Steps:
    """Sequence of names from a list of options, which may repeat, as text with a space between names."""

    name: str
    label: str
    options: Sequence[str]
    default: str
    most: int

    @names_errors("play")
    def check(self, value: Any) -> str:
        """Return the names; raise for anything else."""
        if not isinstance(value, str) or len(value) > MAX_CHARACTERS:
            raise ValueError(f"play: {self.label} must be text, got {describe(value)}")
        names = value.split(" ") if value else []
        for name in names:
            check_choice(self.label, name, tuple(self.options))
        if not 1 <= len(names) <= self.most:
            raise ValueError(f"play: {self.label} must be 1 to {self.most} names, got {len(names)}; add or remove some")
        return value


@dataclass(frozen=True)
class File:
    """A table of the user: the name of a file, a line break and the text of the file; ``""`` without a file.

    The browser reads the file. ``resets`` are the names of controls that get their defaults when the file changes,
    because their values belong to the old one.
    """

    name: str
    label: str
    max_bytes: int
    max_rows: int
    resets: Sequence[str] = ()
    default: str = ""

    def check(self, value: Any) -> str:
        """Return the file; raise for anything else and for a file that is too large."""
        if not isinstance(value, str):
            raise ValueError(f"play: {self.label} must be the name and the text of a file, got {describe(value)}")
        size = len(value.encode("utf-8", "surrogatepass"))
        if size > self.max_bytes:
            raise ValueError(
                f"play: the file must have at most {self.max_bytes:,} bytes, got {size:,}; keep fewer rows or columns"
            )
        return value


Control = Slider | Choice | Text | Drawing | Steps | File


@dataclass(frozen=True)
class View:
    """What a tab shows for some values.

    Attributes
    ----------
    picture
        HTML. Everything in it that comes from a user is escaped.
    code
        A short program that computes what the picture shows.
    updates
        New properties of controls, by name: ``{"path": {"choices": ["a", "b"]}, "bandwidth": {"visible": False}}``.
    """

    picture: str
    code: str
    updates: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """Values for which the method fails, and the label of the button that sets them."""

    label: str
    values: Values


@dataclass(frozen=True)
class Preparation:
    """Work that takes seconds and whose result is kept for one user, for a button with a label.

    ``run`` gets the values and a function to report progress with: a share of the work, and what is being done.
    """

    label: str
    run: Callable[[Values, Callable[[float, str], None]], Any]


@dataclass(frozen=True)
class Tab:
    """A tab of the playground.

    Attributes
    ----------
    name, title
        Name in addresses, and title on the page.
    notice
        One sentence without terms of the field: what to notice.
    terms
        The same in the terms of the field, or how it works; shown below the picture.
    controls
        Controls, in order.
    draw
        Function of the checked values, and of the result of the preparation if there is one. It returns what is shown.
    failure
        Values that show where the method fails.
    preparation
        Slow work that a button starts, or None.
    """

    name: str
    title: str
    notice: str
    controls: Sequence[Control]
    draw: Callable[[Values, Any], View]
    failure: Failure
    terms: str
    preparation: Preparation | None = None

    @property
    def defaults(self) -> dict[str, Any]:
        """The initial values."""
        return {control.name: control.default for control in self.controls}

    def check(self, given: Values) -> dict[str, Any]:
        """Return the values of all controls; raise ``ValueError`` for the first that is not valid."""
        return {control.name: control.check(given[control.name]) for control in self.controls}


def _as_number(value: Any) -> float | None:
    """Return a finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float | str) or len(str(value)[:41]) > 40:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
