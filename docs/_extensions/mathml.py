"""Write formulas as MathML, which browsers show by themselves: no script, no fonts, nothing from another host.

docutils, which Sphinx needs anyway, has the converter. It reports commands that it does not know as warnings.
"""

from __future__ import annotations

import html
import re
from typing import Any
from xml.etree import ElementTree as ET

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

_LOG = logging.getLogger(__name__)
# LaTeX that the converter does not know, or reads differently: \frac12 is 1/2, and not 12 over what follows.
_REWRITES = (
    (re.compile(r"\\dots(?![a-zA-Z])"), r"\\ldots"),
    (re.compile(r"\\([bB]igg?)(?![a-zA-Z])"), r"\\\1l"),
    (re.compile(r"(\\[dt]?frac)\s*(\d)\s*(\w|\\[a-zA-Z]+)"), r"\1{\2}{\3}"),
)
_ENTITIES = re.compile(r"&(?!(lt|gt|amp|quot|apos);)\w+;")  # of HTML, which XML does not have
_NAMESPACE = "http://www.w3.org/1998/Math/MathML"
_MATHML = f"{{{_NAMESPACE}}}"
_ACCENTS = {"ˉ", "ˆ", "~", "˜", "→", "⃗", "˙", "‾"}
_ABOVE = {"height": "1em", "depth": "0em"}
# The parts of an element that get a strut, and on which side.
_STRUTS: dict[str, dict[int, dict[str, str]]] = {
    "munder": {1: _ABOVE},
    "munderover": {1: _ABOVE, 2: {"height": "0em", "depth": "0.6em"}},
    "mfrac": {0: {"height": "0em", "depth": "0.35em"}, 1: _ABOVE},
}
ET.register_namespace("", _NAMESPACE)


def convert(formula: str, *, block: bool = False) -> str:
    """Return the MathML of a LaTeX formula; raise MathError for one that cannot be converted."""
    for pattern, replacement in _REWRITES:
        formula = pattern.sub(replacement, formula)
    if block and "\\\\" in formula and "\\begin" not in formula:
        formula = rf"\begin{{aligned}}{formula}\end{{aligned}}"
    converted = _ENTITIES.sub(lambda name: html.unescape(name[0]), tex2mathml(formula, as_block=block))
    root = ET.fromstring(converted)  # noqa: S314 (written by docutils)
    for line in root.iter(f"{_MATHML}mo"):
        if line.text == "_":  # the converter's sign for \overline
            line.text = "‾"
            line.set("stretchy", "true")
    for parent in list(root.iter()):
        _attach_scripts_of_accents(parent)
        _keep_apart(parent)
    return ET.tostring(root, encoding="unicode")


def _attach_scripts_of_accents(parent: ET.Element) -> None:
    """Put the index of a letter with an accent beside it; the converter puts it below, where it touches the letter."""
    for place, child in enumerate(parent):
        if child.tag == f"{_MATHML}munderover" and (child[2].text or "").strip() in _ACCENTS:
            letter, index, accent = child
            fixed = ET.Element(f"{_MATHML}msub")
            ET.SubElement(fixed, f"{_MATHML}mover", accent="true").extend([letter, accent])
            fixed.append(index)
            fixed.tail = child.tail
            parent[place] = fixed


def _keep_apart(element: ET.Element) -> None:
    """Put struts into limits and denominators. Without a font for mathematics, browsers leave no space around them."""
    tag = element.tag.removeprefix(_MATHML)
    for child, side in _STRUTS.get(tag, {}).items():
        strut = ET.Element(f"{_MATHML}mspace", {"width": "0em", **side})
        row = ET.Element(f"{_MATHML}mrow")
        row.extend([strut, element[child]])
        element[child] = row


def _visit(translator: Any, node: nodes.math | nodes.math_block) -> None:
    block = isinstance(node, nodes.math_block)
    try:
        mathml = convert(node.astext(), block=block)
    except MathError as error:
        _LOG.warning("formula %r: %s", node.astext(), error, location=node)
        mathml = f"<code>{translator.encode(node.astext())}</code>"
    translator.body.append(f'<div class="math">{mathml}</div>' if block else mathml)
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer ``mathml``."""
    app.add_html_math_renderer("mathml", (_visit, None), (_visit, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
