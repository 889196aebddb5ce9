"""``ghrr play``: the playground in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ghrr.cli import ERRORS, escaped, fail, need, say


def play(
    host: Annotated[str, typer.Option(help="Address to listen on. 0.0.0.0 lets other machines connect.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 7860,
    runs: Annotated[
        list[Path] | None,
        typer.Option("--run", help="Folder of `ghrr lm train` to show in the tab on attention. At most twice."),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    """Start the playground, a web page that shows the main ideas with sliders. Ctrl-C stops it."""
    need("play")
    from ghrr_lab.play.server import serve

    say("Starting the playground ...")
    try:
        serve(
            host,
            port,
            runs=runs or [],
            open_browser=browser,
            on_start=lambda address: say("The playground is at ", escaped(address), " (Ctrl-C stops it)"),
        )
    except KeyboardInterrupt:
        say("Stopped.")
    except ERRORS as error:
        fail(error)
