"""The documentation site: its checks find what is wrong, formulas are converted, and all commands have an entry."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import typer.main
from docutils import nodes
from docutils.utils.math import MathError
from sphinx import addnodes
from sphinx.util.inventory import InventoryFile

import ghrr
from ghrr import cli, learn

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = DOCS.parent / "examples"

sys.path[:0] = [str(DOCS), str(DOCS / "_extensions")]
check_site = importlib.import_module("check_site")
command_line = importlib.import_module("command_line")
member_order = importlib.import_module("member_order")
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


def test_page_without_icon_is_found(tmp_path: Path) -> None:
    (tmp_path / "good.html").write_text('<link rel="icon" href="icon.svg">')
    (tmp_path / "bad.html").write_text('<link rel="stylesheet" href="icon.svg">')
    assert list(check_site.pages_without_icon(check_site.pages(tmp_path))) == ["bad.html: no icon"]


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


@pytest.mark.parametrize(("accent", "sign"), [(r"\bar", "ˉ"), (r"\hat", "ˆ"), (r"\tilde", "~"), (r"\overline", "‾")])
def test_index_of_a_letter_with_an_accent_is_beside_it(accent: str, sign: str) -> None:
    (index,) = ET.fromstring(mathml.convert(rf"{accent}{{z}}_f"))
    letter, below = index
    assert [tag(index), tag(letter), tag(below)] == ["msub", "mover", "mi"]
    assert ["".join(part.itertext()).strip() for part in letter] == ["z", sign]
    assert tag(ET.fromstring(mathml.convert(r"\sum_f", block=True))[0]) == "munder"  # limits stay below


@pytest.mark.parametrize(
    ("formula", "parts"), [(r"\sum_i x", [1]), (r"\max_i x", [1]), (r"\sum_i^n x", [1, 2]), (r"\frac{1}{m}", [0, 1])]
)
def test_limits_and_denominators_keep_a_distance(formula: str, parts: list[int]) -> None:
    element = ET.fromstring(mathml.convert(formula, block=True))[0]
    for place, part in enumerate(element):
        strut = part.find(f"{{{mathml._NAMESPACE}}}mspace")
        assert (strut is not None) == (place in parts)
        assert strut is None or any(float(strut.attrib[side].removesuffix("em")) > 0.3 for side in ("height", "depth"))


def tag(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


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


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/plot_*.py")), ids=lambda path: path.stem)
def test_every_example_has_a_picture_for_its_card(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    chosen = re.findall(r'^# sphinx_gallery_thumbnail_path = "(.*)"$', source, flags=re.MULTILINE)
    assert bool(re.search(r"plt\.(show|subplots)\(", source)) != bool(chosen)  # its own figure, or a file
    for name in chosen:
        assert (DOCS / name).read_text(encoding="utf-8").startswith("<svg ")


class _Base:
    def zeta(self) -> None: ...

    def add(self) -> None: ...


class _Sample(_Base):
    def __init__(self) -> None:
        self.late = 1

    def second(self) -> None: ...

    @property
    def size(self) -> int:
        return 1

    def first(self) -> None: ...

    @classmethod
    def load(cls) -> _Sample:
        return cls()


def test_members_are_ordered_for_a_reader() -> None:
    names = ["add", "first", "late", "load", "second", "size", "zeta"]
    ordered = sorted(names, key=lambda name: member_order.member_key(_Sample, name))
    assert ordered == ["load", "add", "second", "first", "zeta", "size", "late"]


def test_page_on_learning_starts_with_the_estimators() -> None:
    ordered = sorted(learn.__all__, key=lambda name: member_order.module_key("ghrr.learn", name))
    assert ordered[:2] == ["HDClassifier", "HDRegressor"]
    assert ordered[-3:] == ["plot_explanation", "read_table", "save"]  # the others keep their order


def test_main_names_exist() -> None:
    for module, names in member_order.MAIN.items():
        assert set(names) <= set(importlib.import_module(module).__all__), module


def test_entries_move_with_their_index_and_other_nodes_stay() -> None:
    def entry(name: str) -> list[nodes.Node]:
        signature = addnodes.desc_signature(name, module="ghrr.learn", fullname=name)
        return [addnodes.index(entries=[name]), addnodes.desc("", signature, domain="py")]

    title, text = nodes.title(text="Learning"), nodes.paragraph(text="Estimators")
    section = nodes.section("", title, *entry("GraphFeatures"), text, *entry("HDClassifier"))
    member_order.sort_entries(section)
    assert section.children[0] is title
    assert section.children[3] is text
    indices = [node["entries"] for node in section.children if isinstance(node, addnodes.index)]
    assert indices == [["HDClassifier"], ["GraphFeatures"]]


def test_thumbnail_gets_the_title_as_alternative_text() -> None:
    source = (
        "  .. image:: /x.png\n    :alt:\n\n  :doc:`/x`\n\n.. raw:: html\n\n"
        '      <div class="sphx-glr-thumbnail-title">A tree</div>\n'
    )
    assert ":alt: A tree\n" in thumbnails.describe(source)
