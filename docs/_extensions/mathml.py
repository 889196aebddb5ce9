"""Write formulas as MathML, which browsers show by themselves: no script, no fonts, nothing from another host.

The converter is that of docutils, which Sphinx needs anyway. It reports commands that it does not know as warnings.
"""

from __future__ import annotations

import re
from typing import Any

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


def convert(formula: str, *, block: bool = False) -> str:
    """Return the MathML of a LaTeX formula; raise MathError for one that cannot be converted."""
    for pattern, replacement in _REWRITES:
        formula = pattern.sub(replacement, formula)
    if block and "\\\\" in formula and "\\begin" not in formula:
        formula = rf"\begin{{aligned}}{formula}\end{{aligned}}"
    converted: str = tex2mathml(formula, as_block=block)
    return converted


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
