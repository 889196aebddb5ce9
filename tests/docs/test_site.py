"""The documentation site: its checks find what is wrong, formulas are converted, and all commands have an entry."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
from docutils.utils.math import MathError
from sphinx.util.inventory import InventoryFile

import ghrr
from ghrr import cli

DOCS = Path(__file__).parents[2] / "docs"

sys.path[:0] = [str(DOCS), str(DOCS / "_extensions")]
check_site = importlib.import_module("check_site")
command_line = importlib.import_module("command_line")
mathml = importlib.import_module("mathml")
public_names = importlib.import_module("public_names")
thumbnails = importlib.import_module("thumbnails")
del sys.path[:2]

GOOD = '<h1 id="top">Top</h1><img src="a.svg" alt="A line"><a href="#top">up</a><a href="page.html#top">page</a>'


def problems(folder: Path, body: str) -> list[str]:
    """Return the problems of a site of two pages, the second with this body."""
    (folder / "index.html").write_text('<h1 id="top">Start</h1>')
    (folder / "page.html").write_text(body)
    site = check_site.pages(folder)
    checks = (check_site.images_without_text, check_site.broken_links, check_site.other_hosts)
    return [problem for check in checks for problem in check(site)]


def test_good_page_has_no_problems(tmp_path: Path) -> None:
    assert problems(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<img src="a.svg">', "page.html: no alternative text: a.svg"),
        ('<img src="a.svg" alt=" ">', "page.html: no alternative text: a.svg"),
        ('<a href="missing.html">x</a>', "page.html: no such page: missing.html"),
        ('<a href="index.html#missing">x</a>', "page.html: no such anchor: index.html#missing"),
        ('<a href="#missing">x</a>', "page.html: no such anchor: #missing"),
        ('<script src="https://example.org/x.js"></script>', "page.html: loads https://example.org/x.js"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "page.html: loads //example.org/x.css"),
    ],
)
def test_problem_is_found(body: str, problem: str, tmp_path: Path) -> None:
    assert problems(tmp_path, GOOD + body) == [problem]


def test_name_without_entry_is_found(tmp_path: Path) -> None:
    entries = dict.fromkeys(public_names.public_names())
    del entries["ghrr.bind"], entries["ghrr.Record"]  # the second has an entry as ghrr.structures.Record
    header = b"# Sphinx inventory version 1\n# Project: x\n# Version: 1\n"
    path = tmp_path / "objects.inv"
    path.write_bytes(header + "".join(f"{name} class x.html\n" for name in entries).encode())
    assert InventoryFile.loads(path.read_bytes(), uri="").data
    assert list(check_site.missing_names(path)) == ["no entry for ghrr.bind"]


def test_every_public_module_has_names_to_check() -> None:
    modules = {name for name in ghrr.__all__ if f"ghrr.{name}" in sys.modules}
    assert {f"ghrr.{name}" for name in modules} <= set(public_names.MODULES)


@pytest.mark.parametrize(
    "name", ["ghrr.ItemMemory.match", "ghrr.memory.item_memory.ItemMemory.match", "ghrr.memory.ItemMemory.match"]
)
def test_all_names_of_an_object_lead_to_its_entry(name: str) -> None:
    entry = "ghrr.memory.ItemMemory.match"
    assert public_names.documented_name(name, {entry}) == entry


@pytest.mark.parametrize("name", ["ghrr.ItemMemory.missing", "ghrr.missing", "torch.Tensor", "missing"])
def test_unknown_name_has_no_entry(name: str) -> None:
    assert public_names.documented_name(name, {"ghrr.memory.ItemMemory.match"}) is None


@pytest.mark.parametrize(
    ("formula", "same"),
    [
        (r"\frac12 x", r"\frac{1}{2} x"),
        (r"\tfrac1m", r"\tfrac{1}{m}"),
        (r"\frac1\pi", r"\frac{1}{\pi}"),
        (r"a \dots b", r"a \ldots b"),
        (r"\big( x \big)", r"\bigl( x \bigl)"),
    ],
)
def test_formula_is_read_as_latex_reads_it(formula: str, same: str) -> None:
    assert mathml.convert(formula) == mathml.convert(same)


def test_unknown_command_in_a_formula_is_an_error() -> None:
    with pytest.raises(MathError):
        mathml.convert(r"\missing x")


def commands(command: Any, name: str) -> list[str]:
    """Return the names of a command and all commands below it."""
    below = getattr(command, "commands", {})
    return [name, *(found for key, value in below.items() for found in commands(value, f"{name} {key}"))]


def test_every_command_has_a_section() -> None:
    page = command_line.page()
    for name in commands(typer.main.get_command(cli.app), "ghrr")[1:]:
        assert f"# `{name}`\n" in page
    assert "[`train`](#ghrr-lm-train): " in page


@pytest.mark.parametrize(
    ("signature", "shown"),
    [
        ("(x: int, *, _depth: int = 0)", "(x: int)"),
        ("(x: int, *, y: int = 0, _depth: int = 0)", "(x: int, *, y: int = 0)"),
        ("(x: int = _DEFAULT)", "(x: int = _DEFAULT)"),
    ],
)
def test_private_parameters_are_hidden(signature: str, shown: str) -> None:
    assert public_names.hide_private_parameters(signature) == shown


def test_thumbnail_gets_the_title_as_alternative_text() -> None:
    source = (
        "  .. image:: /x.png\n    :alt:\n\n  :doc:`/x`\n\n.. raw:: html\n\n"
        '      <div class="sphx-glr-thumbnail-title">A tree</div>\n'
    )
    assert ":alt: A tree\n" in thumbnails.describe(source)
