"""Write the pages that lead to the versions of the published documentation: a list, and a redirect to the newest.

The folder holds one folder per version, such as ``v0.4.0``, and ``dev`` for the development version::

    python docs/versions.py FOLDER
"""

from __future__ import annotations

import html
import json
import re
import sys
from pathlib import Path


def versions_in(folder: Path) -> list[str]:
    """Return the versions in a folder, the newest first, and ``dev`` last."""
    released = [path.name for path in folder.iterdir() if re.fullmatch(r"v\d+\.\d+\.\d+", path.name)]
    released.sort(key=lambda name: [int(part) for part in name[1:].split(".")], reverse=True)
    return released + ["dev"] * (folder / "dev").is_dir()


def write_pages(folder: Path) -> None:
    """Write ``versions.json`` and ``index.html``, which leads to the newest version."""
    versions = versions_in(folder)
    if not versions:
        raise ValueError(f"versions: no folder of a version in {folder}, expected v1.2.3 or dev; build one first")
    (folder / "versions.json").write_text(json.dumps(versions) + "\n", encoding="utf-8")
    links = "".join(f'<li><a href="{html.escape(name)}/">{html.escape(name)}</a></li>' for name in versions)
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>ghrr</title>'
        f'<meta http-equiv="refresh" content="0; url={html.escape(versions[0])}/"><ul>{links}</ul></html>\n'
    )
    (folder / "index.html").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
