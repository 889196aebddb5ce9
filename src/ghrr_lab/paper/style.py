"""The style shared by all figures: colours that remain distinct with colour blindness, and light lines."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# The palette of Okabe and Ito, ordered so that successive colours differ in lightness.
BLUE, ORANGE, GREEN, PURPLE, BLACK, GREY = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#222222", "#888888"
RED, SKY = "#D55E00", "#56B4E9"
# The colour and marker of each m, the same in all figures.
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
    """Apply the matplotlib settings of this project, as a ``with`` block or as a decorator ``@style()``."""
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]  # its keys are typed as literals
        yield


def new_figure(height: float) -> Figure:
    """Create an empty figure of the width of the report and this height, in inches."""
    return Figure(figsize=(6.4, height), layout="constrained")


def normal_density(x: Any, mean: float, std: float) -> Any:
    """Density of the normal distribution."""
    return np.exp(-0.5 * ((x - mean) / std) ** 2) / (std * np.sqrt(2 * np.pi))


def draw_distribution(axis: Axes, values: pd.Series[float], bins: Any, *, x: Any, std: float, colour: str) -> None:
    """Draw a histogram of values and the normal density with mean 0 and standard deviation ``std`` at ``x``."""
    axis.hist(values, bins=list(bins), density=True, color=colour, alpha=0.65, label="measured")
    axis.plot(x, normal_density(x, 0, std), color=BLACK, lw=1.2, label=f"theory, std {std:.4f}")
    axis.legend(loc="upper right")


def to_svg(figure: Figure) -> str:
    """Convert a figure to an SVG image. The same figure always gives the same text."""
    buffer = io.StringIO()
    with style():
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def to_png(figure: Figure) -> bytes:
    """Convert a figure to a PNG image."""
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format="png", dpi=160, bbox_inches="tight", metadata={"Software": None})
    return buffer.getvalue()
