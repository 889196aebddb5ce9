"""README and docs: generated numbers are current, links lead somewhere, and commands exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from benchmarks.paper import tables as paper_tables

from benchmarks import documents as tables
from ghrr import cli
from ghrr_lab import paper

ROOT = Path(__file__).parents[2]

DOCUMENTS = tables.documents()
each_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


@each_document
def test_generated_numbers_are_current(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert tables.render(text) == text, "run python -m benchmarks documents"


def test_stored_run_of_the_paper_has_all_experiments() -> None:
    assert paper_tables.names() == list(paper.EXPERIMENTS)


def test_every_table_is_shown() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)
    assert {match["name"] for match in tables._BLOCK.finditer(text)} == set(tables.TABLES)


def test_outdated_numbers_are_replaced() -> None:
    text = "<!-- value: paper-claims -->1<!-- end of value -->\n<!-- table: lm-steps -->\nold\n<!-- end of table -->\n"
    new = tables.render(text)
    assert "-->1<!--" not in new
    assert "old" not in new
    assert tables.render(new) == new


@each_document
def test_values_are_inside_lines(path: Path) -> None:
    """A comment at the start of a line begins an HTML block, in which Markdown is not rendered."""
    assert not re.search(r"^\s*<!-- value", path.read_text(encoding="utf-8"), flags=re.MULTILINE)


@pytest.mark.parametrize(
    "path", [*DOCUMENTS, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"], ids=lambda path: str(path.relative_to(ROOT))
)
def test_links_lead_to_files(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), target


@pytest.mark.parametrize("target", ["reproduce", "test"])
def test_readme_and_makefile_have_the_command(target: str) -> None:
    blocks = re.findall(r"^```\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert re.search(rf"^make {target}(\s+#.*)?$", "".join(blocks), re.MULTILINE)
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def commands_in(path: Path) -> Iterator[list[str]]:
    """Yield the ``ghrr`` commands of the code blocks of a document."""
    for block in re.findall(r"^```\w*\n(.*?)^```", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", "").splitlines():
            if line.startswith("ghrr "):
                yield shlex.split(line, comments=True)[1:]


def check_command(words: list[str]) -> None:
    """Raise unless the command exists and has these options."""
    command: Any = typer.main.get_command(cli.app)
    arguments = list(words)
    while hasattr(command, "commands") and arguments and not arguments[0].startswith("-"):
        name = arguments.pop(0)
        assert name in command.commands, f"{shlex.join(words)}: no command {name!r}"
        command = command.commands[name]
    known = {option for parameter in command.params for option in parameter.opts + parameter.secondary_opts}
    for word in arguments:
        if word.startswith("-"):
            assert word.partition("=")[0] in known | {"--help"}, f"{shlex.join(words)}: no option {word}"


@each_document
def test_commands_and_their_options_exist(path: Path) -> None:
    for words in commands_in(path):
        check_command(words)


@pytest.mark.parametrize("words", [["lm", "tarin"], ["lm", "train", "ptb", "--epoch", "3"]])
def test_unknown_commands_and_options_are_found(words: list[str]) -> None:
    with pytest.raises(AssertionError, match=r"no command|no option"):
        check_command(words)
