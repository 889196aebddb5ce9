"""Call the command line in this process."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from ghrr import cli


def invoke(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(
        cli.app, list(arguments), input=stdin, env={"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    )
