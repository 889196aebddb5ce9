"""Write the page of the command line from the commands themselves, with typer's own generator."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from sphinx.application import Sphinx

PAGE = Path("api") / "command-line.md"


def page() -> str:
    """Return the reference of all commands, in Markdown."""
    command = ["-m", "typer", "ghrr.cli", "utils", "docs", "--name", "ghrr", "--title", "Command line"]
    text = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True).stdout  # noqa: S603
    return link_commands(text)


def link_commands(text: str) -> str:
    """Replace the shortened descriptions in lists of commands by links and the first line of each section."""
    first_lines = dict(re.findall(r"(?m)^#+ `(.*)`\n\n(.*)$", text))
    lines, above, in_list = [], "ghrr", False
    for line in text.splitlines():
        if heading := re.match(r"##+ `(.*)`", line):
            above = heading[1]
        if line.startswith("**"):
            in_list = line == "**Commands**:"
        if in_list and (item := re.match(r"\* `(.*?)`", line)):
            name = f"{above} {item[1]}"
            line = f"* [`{item[1]}`](#{name.replace(' ', '-')}): {first_lines[name]}"  # noqa: PLW2901
        lines.append(line)
    return "\n".join(lines) + "\n"


def _write(app: Sphinx) -> None:
    path, text = app.srcdir / PAGE, page()
    if not path.exists() or path.read_text(encoding="utf-8") != text:  # an unchanged page is not built again
        path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the page before Sphinx looks for sources."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
