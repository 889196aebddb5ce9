"""Console output, errors and optional dependencies, shared by all commands."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import typer
import typer.core
from rich.console import Console
from rich.text import Text

from ghrr._similar import did_you_mean
from ghrr.checks import install_hint
from ghrr.files import parse_json

console = Console()
ALIASES = {"delete": "remove", "dedup": "dedupe"}
STREAM = "-"  # standard input or output in place of a file

EXTRAS = {
    "cluster": ("dask", "distributed"),
    "fast": ("numba",),
    "gpu": ("triton",),
    "paper": ("matplotlib", "pandas", "jinja2", "joblib"),
    "lm": ("tokenizers", "accelerate", "tensorboard"),
    "hf": ("transformers",),
    "index": ("faiss", "pymilvus"),
    "ray": ("ray",),
    "relations": ("pykeen",),
    "search": ("lancedb", "lance", "pyarrow"),
    "learn": ("sklearn", "pandas", "pyarrow"),
    "play": ("gradio", "sklearn", "pyarrow", "matplotlib", "pandas", "jinja2", "joblib"),
}

# Raised by the library for invalid input, and by torch for failing devices and lack of memory.
ERRORS = (OSError, ValueError, TypeError, ImportError, RuntimeError, MemoryError, OverflowError)

# Control characters (C0, DEL, C1), text direction controls, and surrogates (bytes that are not UTF-8).
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSAFE_IN_LINES = re.compile(_UNSAFE.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))


def escaped(value: object, style: str = "", *, lines: bool = False) -> Text:
    r"""Make untrusted text, such as a label, a path or an error message, safe to print.

    The text is printed literally: rich interprets neither square brackets nor ``:emoji:``. Characters that would
    control the terminal or change the text direction are shown as escapes.

    Parameters
    ----------
    value
        Value to print.
    style
        A rich style, for example ``"bold"``.
    lines
        Keep newlines and tabs instead of escaping them.

    Examples
    --------
    >>> from ghrr.cli import escaped
    >>> print(escaped("[red]\x1b[2J \u202e"))
    [red]\x1b[2J \u202e
    """
    unsafe = _UNSAFE_IN_LINES if lines else _UNSAFE
    return Text(unsafe.sub(_escape, str(value)), style=style)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def say(*parts: str | Text) -> None:
    """Print the parts as one paragraph. Pass untrusted text through :func:`escaped`."""
    console.print(Text.assemble(*parts), soft_wrap=True)


def count_records(count: int) -> str:
    """Return ``"1 record"``, ``"2 records"`` and so on."""
    return "1 record" if count == 1 else f"{count:,} records"


def parse_settings(
    command: str, given: Iterable[str], names: Sequence[str], *, old: Iterable[str] = ()
) -> dict[str, Any]:
    """Parse the NAME=VALUE pairs of ``--set``. A value is JSON, ``True``, ``False``, or else text.

    Parameters
    ----------
    command
        Name of the command, for errors.
    given
        Pairs.
    names
        Valid names, which errors list.
    old
        Names of earlier versions, which are valid too.

    Examples
    --------
    >>> from ghrr.cli import parse_settings
    >>> parse_settings("lm train", ["epochs=3", "attention=rope", "tied=True"], ["attention", "epochs", "tied"])
    {'epochs': 3, 'attention': 'rope', 'tied': True}
    """
    values = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"{command}: --set must be NAME=VALUE, got {pair!r}; the names are {', '.join(names)}")
        if name not in (*names, *old):
            raise ValueError(
                f"{command}: --set has no setting {name!r}, expected one of {', '.join(sorted(names))}"
                f"{did_you_mean(name, names, n=3, cutoff=0.5)}"
            )
        try:
            values[name] = parse_json(value, "--set")
        except ValueError:
            values[name] = {"True": True, "False": False}.get(value, value)
    return values


def stop_training(out: Path) -> NoReturn:
    """Say how to continue an interrupted run, and exit with the status of an interrupt."""
    last = ("Stopped. Run the same command with --resume to continue from the last checkpoint in ", escaped(out))
    say(*last, ", or from the start if there is none.")
    raise typer.Exit(130) from None


def fail(message: object) -> NoReturn:
    """Print an error message to standard error and exit with status 2."""
    if isinstance(message, MemoryError) or "can't allocate memory" in str(message):
        message = f"not enough memory for these sizes ({message!r:.200}); reduce them"
    text = Text.assemble(("Error:", "bold red"), " ", escaped(message, lines=True))
    Console(stderr=True).print(text, soft_wrap=True)
    raise typer.Exit(2)


def warn(message: object) -> None:
    """Print a warning to standard error."""
    text = Text.assemble(("Warning:", "bold yellow"), " ", escaped(message, lines=True))
    Console(stderr=True).print(text, soft_wrap=True)


class CommandGroup(typer.core.TyperGroup):
    """Group of commands that are also found by names that other programs have for them."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a name, or None."""
        return super().get_command(ctx, ALIASES.get(cmd_name, cmd_name))


@contextlib.contextmanager
def input_file(source: Path) -> Iterator[Path]:
    """Give the path of a file that can be read more than once; for ``-``, the path of a copy of standard input."""
    if str(source) != STREAM:
        yield source
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "stdin")
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            yield path
        except ERRORS as error:
            raise ValueError(str(error).replace(str(path), "<stdin>")) from None


@contextlib.contextmanager
def output_file(out: Path) -> Iterator[Path]:
    """Give the path of a file to write; for ``-``, the file is copied to standard output at the end."""
    if str(out) != STREAM:
        yield out
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "stdout")
        yield path
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)


@contextlib.contextmanager
def shown_warnings() -> Iterator[None]:
    """Print the warnings of a block to standard error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        warn(warning.message)


def check_output(out: Path, *sources: Path | str, force: bool) -> None:
    """Exit with an error if a file cannot be written.

    Parameters
    ----------
    out
        File that the command writes at its end, in one step; ``-`` is standard output.
    sources
        Files that the command reads, which ``out`` must not replace.
    force
        Replace an existing file.
    """
    if str(out) == STREAM:
        return
    if out.exists() and not force:
        fail(f"{out} already exists; choose another file, or overwrite it with --force")
    if out.is_dir():
        fail(f"{out} is a folder; name a file in it")
    if out.exists() and not out.is_file():
        fail(f"{out} is not a regular file; choose another file")
    for source in map(Path, sources):
        if out.exists() and source.exists() and out.samefile(source):
            fail(f"{out} is the file that the command reads, and would be overwritten; choose another file")
    if not out.parent.is_dir():
        fail(f"the folder {out.parent} of {out.name} does not exist; create it first")


def extra_of(module: str | None) -> str | None:
    """Return the name of the extra that installs a module, or None."""
    return next((extra for extra, modules in EXTRAS.items() if str(module).split(".")[0] in modules), None)


def need(extra: str) -> None:
    """Exit with an installation hint unless all packages of an extra are installed."""
    missing = [name for name in EXTRAS[extra] if importlib.util.find_spec(name) is None]
    if missing:
        fail(f"this command needs {', '.join(missing)}; {install_hint(extra)}")
