"""Check a built site: links and anchors, descriptions of pictures, other hosts, and entries of all public names.

::

    python docs/check_site.py docs/_build/html

Links to other hosts are not followed, because many machines cannot reach them; ``make linkcheck`` does that.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup
from sphinx.util.inventory import InventoryFile

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

from public_names import documented_name, public_names

_LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
_NOT_LOADED = {"canonical", "search", "index", "next", "prev"}  # <link rel=...> that a browser does not fetch


def pages(site: Path) -> dict[Path, BeautifulSoup]:
    """Parse all pages of a site, by resolved path."""
    return {
        path.resolve(): BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
        for path in sorted(site.rglob("*.html"))
    }


def images_without_text(site: dict[Path, BeautifulSoup]) -> Iterator[str]:
    """Yield the pictures that have no alternative text."""
    for path, page in site.items():
        for image in page.find_all("img"):
            if not str(image.get("alt", "")).strip():
                yield f"{path.name}: no alternative text: {image.get('src')}"


def broken_links(site: dict[Path, BeautifulSoup]) -> Iterator[str]:
    """Yield the links to pages, files and anchors that do not exist."""
    anchors = {path: {str(tag["id"]) for tag in page.find_all(id=True)} for path, page in site.items()}
    for path, page in site.items():
        for link in page.find_all("a", href=True):
            parts = urlsplit(str(link["href"]))
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.exists():
                yield f"{path.name}: no such page: {link['href']}"
            elif anchor and target in anchors and anchor not in anchors[target]:
                yield f"{path.name}: no such anchor: {link['href']}"


def other_hosts(site: dict[Path, BeautifulSoup]) -> Iterator[str]:
    """Yield what a browser would load from another host."""
    for path, page in site.items():
        for tag in page.find_all(list(_LOADED)):
            address = str(tag.get(_LOADED[tag.name], ""))
            if urlsplit(address).netloc and not _NOT_LOADED.intersection(tag.get("rel") or ()):
                yield f"{path.name}: loads {address}"


def pages_without_icon(site: dict[Path, BeautifulSoup]) -> Iterator[str]:
    """Yield the pages without an icon; a browser then asks for /favicon.ico."""
    for path, page in site.items():
        if not page.find("link", rel="icon"):
            yield f"{path.name}: no icon"


def missing_names(inventory: Path) -> Iterator[str]:
    """Yield the public names without an entry."""
    entries = InventoryFile.loads(inventory.read_bytes(), uri="").data
    documented = {name for kind, names in entries.items() if kind.startswith("py:") for name in names}
    for name in public_names():
        if documented_name(name, documented) is None:
            yield f"no entry for {name}"


def main(folder: str) -> int:
    """Print all problems; return 1 if there are any."""
    site = pages(Path(folder))
    found = [
        *images_without_text(site),
        *broken_links(site),
        *other_hosts(site),
        *pages_without_icon(site),
        *missing_names(Path(folder) / "objects.inv"),
    ]
    for problem in found:
        print(problem)
    print(f"{len(site)} pages, {len(found)} problems")
    return bool(found) or not site


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
