"""The table of commands: found by name, imported when called, extended by other distributions."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from typing import Any

import pytest
import typer

from ghrr import cli
from tests.cli.common import invoke


def greet(name: str) -> None:
    """Greet somebody."""
    typer.echo(f"hello {name}")


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help(name: str) -> None:
    assert invoke(name, "--help").exit_code == 0


@pytest.mark.slow
def test_a_command_imports_its_own_module_only() -> None:
    code = """
import sys
from typer.testing import CliRunner
from ghrr.cli import app
assert CliRunner().invoke(app, ["cite"]).exit_code == 0
print([name for name in sys.modules if name.endswith("commands") and name.startswith("ghrr")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_other_distributions_add_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    point = importlib.metadata.EntryPoint("greet", f"{__name__}:greet", cli.ENTRY_POINTS)

    def entry_points(**selected: str) -> list[importlib.metadata.EntryPoint]:
        return [point] if selected == {"group": cli.ENTRY_POINTS} else []

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    assert invoke("greet", "Ada").output == "hello Ada\n"
    assert "Greet somebody" in invoke("--help").output
    assert invoke("greeet").exit_code == 2


@pytest.mark.parametrize(
    ("module", "message"),
    [("sklearn.base", "pip install 'ghrr[learn]'"), ("unheard_of", "No module named 'unheard_of'")],
)
def test_command_that_cannot_be_imported_says_why(module: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(target: str) -> Any:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr(cli, "_load", fail)
    for arguments in ([], ["--help"], ["file", "--option", "3"]):
        result = invoke("cite", *arguments)
        assert result.exit_code == 2
        assert "ghrr cite cannot be imported" in result.output
        assert message in " ".join(result.output.split())
    assert all(name in invoke("--help").output for name in cli.COMMANDS)
