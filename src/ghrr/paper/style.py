"""One look for all figures: colours that colour-blind people can tell apart, light lines, text that stays text."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib as mpl
from matplotlib.figure import Figure

# Okabe and Ito's palette, in an order that keeps neighbours far apart in lightness.
BLUE, ORANGE, GREEN, PURPLE, BLACK, GREY = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#222222", "#888888"
RED, SKY = "#D55E00", "#56B4E9"
# One colour and one marker for each m, the same in all figures.
M_COLOURS = {1: BLACK, 2: BLUE, 3: ORANGE, 4: GREEN, 5: PURPLE, 6: RED, 8: SKY}
M_MARKERS = {1: "o", 2: "s", 3: "^", 4: "D", 5: "v", 6: "P", 8: "X"}

_STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelsize": 10,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "font.size": 10,
    "font.family": "sans-serif",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.fonttype": "path",
    "svg.hashsalt": "ghrr",
    "xtick.color": BLACK,
    "ytick.color": BLACK,
}


@contextmanager
def style() -> Iterator[None]:
    """The settings of matplotlib for figures of this project, inside a ``with`` block."""
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]  # its keys are typed as literals
        yield


def to_svg(figure: Figure) -> str:
    """The figure as an SVG element for a page; the same figure gives the same text."""
    buffer = io.StringIO()
    with style():
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def to_png(figure: Figure) -> bytes:
    """The figure as a picture for slides and mails."""
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format="png", dpi=160, bbox_inches="tight", metadata={"Software": None})
    return buffer.getvalue()
