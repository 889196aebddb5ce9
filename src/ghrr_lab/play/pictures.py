"""Figures and messages as HTML that is readable in light and dark mode and on a phone."""

from __future__ import annotations

import html
import io
import re
import threading
import warnings
from collections.abc import Callable, Iterable

import matplotlib as mpl
from matplotlib.figure import Figure

from ghrr_lab.paper.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, style

# matplotlib's settings are global, and parts of it are not safe to use from several threads.
_LOCK = threading.Lock()
_SETTINGS = {
    "axes.labelcolor": BLACK,
    "text.color": BLACK,
    "svg.fonttype": "none",
    "svg.hashsalt": None,  # elements of two pictures on one page need different ids
    "savefig.transparent": True,
}
WIDTH = 4.8  # inches; at the width of a phone the text keeps its size

# Each colour of a figure becomes a variable of the style sheet, with a value for light and for dark mode.
_COLOURS = {
    "ink": (BLACK, "#222222", "#f3f4f6"),
    "grey": (GREY, "#6b7280", "#9ca3af"),
    "blue": (BLUE, BLUE, SKY),
    "orange": (ORANGE, "#b87700", ORANGE),
    "green": (GREEN, "#008060", "#2fd0a3"),
    "purple": (PURPLE, "#b0558a", PURPLE),
    "red": (RED, "#c24e00", "#ff8a4c"),
}

STYLE_SHEET = (
    ":root {" + " ".join(f"--ghrr-{name}: {light};" for name, (_, light, _) in _COLOURS.items()) + "}\n"
    ".dark {" + " ".join(f"--ghrr-{name}: {dark};" for name, (_, _, dark) in _COLOURS.items()) + "}\n"
    """
.ghrr-figure { margin: 0 auto; max-width: 36rem; }
.ghrr-figure svg { display: block; width: 100%; height: auto; }
.ghrr-result { max-width: 36rem; margin: 0.5rem auto; line-height: 1.5; overflow-wrap: anywhere; }
.ghrr-terms { border-top: 1px solid var(--ghrr-grey); padding-top: 0.5rem; font-size: 0.95rem; opacity: 0.85; }
.ghrr-result table { width: 100%; border-collapse: collapse; }
.ghrr-result table th, .ghrr-result table td { text-align: left; padding: 0.3rem 0.5rem; vertical-align: top; }
.ghrr-result ul.ghrr-tree, .ghrr-tree ul { list-style: none; margin: 0; padding: 0; }
.ghrr-tree ul, .ghrr-result .ghrr-tree li { font-size: inherit; }
.ghrr-tree ul li { margin-left: 0.5rem; padding-left: 0.7rem; border-left: 2px solid var(--ghrr-grey); }
.ghrr-hits li { margin: 0.6rem 0; }
.ghrr-hits code { font-size: 0.85em; color: inherit; background: none; padding: 0; }
.ghrr-message { border-left: 4px solid var(--ghrr-red); padding: 0.5rem 0.8rem; overflow-wrap: anywhere; }
.ghrr-right { color: var(--ghrr-blue); }
.ghrr-wrong { color: var(--ghrr-red); }
@media (max-width: 700px) { .ghrr-show { order: -1; } }
.ghrr-notice { font-size: 1.05rem; line-height: 1.5; }
"""
)


def draw_figure(draw: Callable[[Figure], None], *, height: float, description: str) -> str:
    """Draw a figure as HTML.

    Parameters
    ----------
    draw
        Function that draws on an empty figure.
    height
        Height in inches, for a width of 4.8.
    description
        Text for people who cannot see the figure.
    """
    buffer = io.StringIO()
    with _LOCK, style(), mpl.rc_context(_SETTINGS), warnings.catch_warnings():  # type: ignore[arg-type]  # typed keys
        # The browser has fonts for all scripts; matplotlib only measures the text.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        draw(figure)
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    for name, (colour, _, _) in _COLOURS.items():
        text = re.sub(colour, f"var(--ghrr-{name})", text, flags=re.IGNORECASE)
    label = html.escape(description, quote=True)
    return f'<figure class="ghrr-figure" role="img" aria-label="{label}">{text}</figure>'


def short_label(text: str, *, length: int = 30) -> str:
    """Return text of a user for a figure: shortened, and without characters that cannot be printed.

    Turn off formulas where it is used: ``set(parse_math=False)``.
    """
    short = text if len(text) <= length else f"{text[: length - 1]}…"
    return "".join(character if character.isprintable() else "�" for character in short)


def paragraph(*parts: str) -> str:
    """Return a paragraph of HTML below a figure. Pass text of users through :func:`html.escape`."""
    return f'<div class="ghrr-result">{"".join(parts)}</div>'


def mark(right: bool, text: str) -> str:
    """Return escaped text, with a colour and a sign that say whether it is right."""
    sign, kind = ("✓", "right") if right else ("✗", "wrong")
    return f'<span class="ghrr-{kind}">{sign} {html.escape(text)}</span>'


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table. Cells are HTML."""
    top = "".join(f"<th>{cell}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def message(error: object) -> str:
    """Return an error message."""
    return f'<div class="ghrr-message" role="alert">{html.escape(str(error)[:1000])}</div>'
