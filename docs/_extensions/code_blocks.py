"""Remove empty lines at the end of code blocks, which doctest needs after the last output."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx


def _strip(_: Sphinx, page: nodes.document) -> None:
    for block in page.findall(nodes.literal_block):
        if all(isinstance(child, nodes.Text) for child in block.children):
            block.rawsource = block.astext().rstrip()  # Sphinx highlights blocks whose source is their text
            block.children = [nodes.Text(block.rawsource)]


def setup(app: Sphinx) -> dict[str, bool]:
    """Change each page after it was read."""
    app.connect("doctree-read", _strip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
