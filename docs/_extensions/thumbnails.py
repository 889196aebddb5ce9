"""Give the pictures of the overview pages of sphinx-gallery the title of their example as alternative text."""

from __future__ import annotations

import re

from sphinx.application import Sphinx

_THUMBNAIL = re.compile(
    r":alt:(?P<rest>\n\n  :doc:`[^`]*`\n\n\.\. raw:: html\n\n"
    r'\s*<div class="sphx-glr-thumbnail-title">(?P<title>.*?)</div>)'
)


def describe(source: str) -> str:
    """Return the source of an overview page with alternative texts."""
    return _THUMBNAIL.sub(lambda found: f":alt: {found['title']}{found['rest']}", source)


def _describe(_: Sphinx, page: str, source: list[str]) -> None:
    if page.startswith("generated/"):
        source[0] = describe(source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Change each page when it is read."""
    app.connect("source-read", _describe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
