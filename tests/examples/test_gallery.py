"""The examples of the gallery run, check their claims, and stay small; tutorials and gallery have the expected form.

The tutorials are run by ``make docs``.
"""

from __future__ import annotations

import ast
import re
import runpy
import warnings
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
GALLERY = sorted((EXAMPLES / "gallery").glob("plot_*.py"))
TUTORIALS = sorted((EXAMPLES / "tutorials").glob("plot_*.py"))
MAX_LINES = 60


@pytest.fixture
def drawing() -> Iterator[None]:
    """Draw without a screen, and restore matplotlib's settings."""
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.use("Agg")
        import matplotlib.pyplot as plt

        warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
        yield
        plt.close("all")


@pytest.mark.slow
@pytest.mark.usefixtures("drawing")
@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_gallery_example_runs_and_holds_its_claim(path: Path) -> None:
    runpy.run_path(str(path), run_name="__main__")


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_gallery_example_is_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", GALLERY + TUTORIALS, ids=lambda path: path.stem)
def test_example_has_title_and_checked_claim(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    title, underline, *_ = (ast.get_docstring(tree) or "").splitlines()
    assert len(title) == len(underline)
    assert set(underline) == {"="}
    assert any(isinstance(node, ast.Assert) for node in ast.walk(tree))


@pytest.mark.parametrize("path", GALLERY + TUTORIALS, ids=lambda path: path.stem)
def test_every_axis_has_a_title(path: Path) -> None:
    """sphinx-gallery makes the alternative text of a figure from its titles."""
    text = path.read_text(encoding="utf-8")
    for cell in text.split("# %%"):
        if "plt.subplots(" in cell:
            assert re.search(r"set_title\(|title=|suptitle\(", cell)


def test_links_of_examples_point_to_examples_and_pages() -> None:
    for path in TUTORIALS + GALLERY:
        for link in re.findall(r":doc:`([^`]+)`", path.read_text(encoding="utf-8")):
            target = re.sub(r".*<(.+)>", r"\1", link)  # without its title
            page = EXAMPLES.parent / "docs" / f"{target.removeprefix('/')}.md"
            file = page if target.startswith("/") else path.parent / f"{target}.py"
            assert file.exists(), f"{path.name} links to {target}"
