"""Shared by all commands: the console, how foreign text is printed, how to fail, and which extra a command needs."""

from __future__ import annotations

import importlib.util
import re
from typing import NoReturn

import typer
from rich.console import Console
from rich.text import Text

from ghrr._checks import install_hint

console = Console()

EXTRAS = {
    "cluster": ("dask", "distributed"),
    "fast": ("numba",),
    "gpu": ("triton",),
    "paper": ("matplotlib", "pandas", "jinja2", "joblib"),
    "lm": ("tokenizers", "accelerate", "tensorboard"),
    "hf": ("transformers",),
    "index": ("faiss", "pymilvus"),
}

# What the library raises for wrong input, and torch where a device fails or memory does not suffice.
ERRORS = (OSError, ValueError, TypeError, ImportError, RuntimeError, MemoryError, OverflowError)

# Control characters (C0, DEL, C1), direction controls, and surrogates, which stand for bytes that are not UTF-8.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSAFE_IN_LINES = re.compile(_UNSAFE.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))


def foreign(value: object, style: str = "", *, lines: bool = False) -> Text:
    r"""Return text from outside the program, such as a label, a path or an error message, ready to print.

    It is printed as it is: square brackets are not read as markup nor ``:words:`` as emoji. Characters that would
    control the terminal or change the direction of the text are shown as escapes.

    Parameters
    ----------
    value
        What to print.
    style
        How, for example ``"bold"``.
    lines
        Keep newlines and tabs instead of showing them as escapes, for texts of several lines.

    Examples
    --------
    >>> print(foreign("[red]\x1b[2J \u202e"))
    [red]\x1b[2J \u202e
    """
    unsafe = _UNSAFE_IN_LINES if lines else _UNSAFE
    return Text(unsafe.sub(_visible, str(value)), style=style)


def _visible(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def say(*parts: str | Text) -> None:
    """Print parts one after the other, foreign ones made by :func:`foreign`; the terminal wraps what is too long."""
    console.print(Text.assemble(*parts), soft_wrap=True)


def fail(message: object) -> NoReturn:
    """Print an error message on standard error and leave with status 2."""
    if isinstance(message, MemoryError) or "can't allocate memory" in str(message):
        message = f"there is not enough memory for these sizes ({message!r:.200}); choose smaller ones"
    text = Text.assemble(("Error:", "bold red"), " ", foreign(message, lines=True))
    Console(stderr=True).print(text, soft_wrap=True)
    raise typer.Exit(2)


def warn(message: object) -> None:
    """Print a warning on standard error."""
    text = Text.assemble(("Warning:", "bold yellow"), " ", foreign(message, lines=True))
    Console(stderr=True).print(text, soft_wrap=True)


def need(extra: str) -> None:
    """Fail with an installation hint unless all packages of an extra are installed."""
    missing = [name for name in EXTRAS[extra] if importlib.util.find_spec(name) is None]
    if missing:
        fail(f"this needs {', '.join(missing)}: {install_hint(extra)}")
