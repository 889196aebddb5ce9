"""The command line ``ghrr``: finds commands by name, and imports the module of the one that is called.

Each application has its commands in a module ``commands`` of its own. Other distributions add commands by an entry
point of the group ``ghrr.commands``: the name of the command, and the function or ``typer.Typer`` that is called. The
public functions print output and errors in the style of all commands.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Annotated, Any, cast

import typer
import typer.main

import ghrr
from ghrr.checks import install_hint
from ghrr.cli.output import (
    ERRORS,
    STREAM,
    CommandGroup,
    console,
    escaped,
    extra_of,
    fail,
    need,
    parse_settings,
    say,
    stop_training,
    warn,
)
from ghrr.cli.streams import safe_streams

__all__ = [
    "ERRORS",
    "STREAM",
    "app",
    "console",
    "escaped",
    "fail",
    "main",
    "need",
    "parse_settings",
    "say",
    "stop_training",
    "warn",
]

# Commands in the order of the help, and where they are: module:name.
COMMANDS = {
    "demo": "ghrr.cli.about:demo",
    "info": "ghrr.cli.about:info",
    "cite": "ghrr.cli.about:cite",
    "encode": "ghrr.structures.commands:encode",
    "query": "ghrr.structures.commands:query",
    "decode": "ghrr.structures.commands:decode",
    "index": "ghrr.search.commands:index",
    "add": "ghrr.search.change_commands:add",
    "remove": "ghrr.search.change_commands:remove",
    "search": "ghrr.search.commands:search",
    "dedupe": "ghrr.search.commands:dedupe",
    "learn": "ghrr.learn.commands:learn",
    "predict": "ghrr.learn.commands:predict",
    "relations": "ghrr.relations.commands:relations_app",
    "chains": "ghrr.relations.chains.commands:chains_app",
    "lm": "ghrr_lab.lm.commands:lm_app",
    "compare": "ghrr_lab.comparison.commands:compare",
    "paper": "ghrr_lab.paper.commands:paper_app",
    "play": "ghrr_lab.play.commands:play",
}
ENTRY_POINTS = "ghrr.commands"


class _Commands(Mapping[str, Any]):
    """The commands of the table and of entry points, by name. Looking one up imports its module.

    A command whose module cannot be imported is in the help as well, and says why when it is called.
    """

    def __init__(self) -> None:
        self._points = {point.name: point for point in importlib.metadata.entry_points(group=ENTRY_POINTS)}

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS and name not in self._points:
            raise KeyError(name)
        try:
            target = _load(COMMANDS[name]) if name in COMMANDS else self._points[name].load()
        except ImportError as error:
            extra = extra_of(error.name)
            hint = f"; {install_hint(extra)}" if extra else ""
            return _missing_command(name, f"ghrr {name} cannot be imported: {error}{hint}")
        return _command(name, target)

    def __iter__(self) -> Iterator[str]:
        return iter({**COMMANDS, **self._points})

    def __len__(self) -> int:
        return len({**COMMANDS, **self._points})


class _Group(CommandGroup):
    """A group that imports its commands when they are called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = cast(MutableMapping[str, Any], _Commands())


def _load(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def _command(name: str, target: Any) -> Any:
    """Return the command of a function, or the group of a ``typer.Typer``."""
    if isinstance(target, typer.Typer):
        group = typer.main.get_group(target)
        group.name = name
        return group
    single = typer.Typer(add_completion=False)
    single.command(name)(target)
    return typer.main.get_command(single)


def _missing_command(name: str, reason: str) -> Any:
    """Return a command that fails with this reason, whatever its arguments are."""

    def missing() -> None:
        fail(reason)

    command = _command(name, missing)
    command.help, command.add_help_option = "Not installed.", False
    command.context_settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    return command


app = typer.Typer(
    name="ghrr",
    cls=_Group,
    help="Generalized Holographic Reduced Representations: compute with structured high-dimensional vectors.",
    epilog="Exit status: 0 success, 1 nothing found, 2 error, 130 stopped by Ctrl-C, 141 the reader of the output has "
    "ended (as in | head -1). Output to a closed stream (>&-) is discarded.",
    no_args_is_help=True,
    add_completion=False,
)


def main() -> None:
    """Run the command line."""
    with safe_streams():
        app()


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(ghrr.__version__)
        raise typer.Exit
