"""Order: the similarity of a * b and b * a, measured and by theory.

Over uniform phases, the mean similarity of a * b and b * a is the product of the mean weights E|Q_kk|² of the diagonal
entries of both rotations: 1/m² for Haar rotations, and 1 for m = 1.
"""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

import ghrr
from ghrr.capacity import diagonal_weight
from ghrr_lab.paper.style import BLACK, BLUE, GREY, ORANGE
from ghrr_lab.play.pictures import draw_figure, paragraph
from ghrr_lab.play.tab import Choice, Failure, Slider, Tab, Values, View

PAIRS = 8
MAX_M = 5
HAAR, GIVEN = "random (Haar)", "of a given diagonality"
_GRID = [step / 10 for step in range(11)]
_SIZES = range(1, MAX_M + 1)


def draw(values: Values, _: Any = None) -> View:
    """Measure 8 pairs, and draw them beside the expected similarity at each m, or at each diagonality."""
    dim, m = values["dim"], values["m"]
    diagonality = values["diagonality"] if values["rotation"] == GIVEN and m > 1 else None
    space = ghrr.Space(dim, m, diagonality=diagonality)
    a, b = space.random(2, PAIRS, generator=space.generator("pairs"))
    measured = ghrr.commutativity(a, b)
    expected = diagonal_weight(m, diagonality) ** 2
    if diagonality is None:
        where, grid, label = float(m), [float(size) for size in _SIZES], "m, size of a slot"
        curve = [diagonal_weight(size, None) ** 2 for size in _SIZES]
    else:
        where, grid, label = diagonality, _GRID, "diagonality of the rotations"
        curve = [diagonal_weight(m, x) ** 2 for x in _GRID]

    def figure(figure: Figure) -> None:
        axis = figure.subplots()
        axis.plot(grid, curve, color=GREY, lw=1.5, label="theory")
        axis.axhline(1, color=BLACK, lw=1, ls=":", label="the same vector: order is lost")
        axis.plot([where], [expected], "D", color=ORANGE, ms=9, label="theory, these settings")
        axis.plot(
            [where] * PAIRS, measured.tolist(), "o", color=BLUE, ms=5, mfc="none", label=f"{PAIRS} measured pairs"
        )
        axis.set(ylim=(-0.35, 1.15), xlabel=label, xticks=grid if diagonality is None else grid[::2])
        axis.margins(x=0.06)
        axis.set_ylabel("similarity of a * b and b * a")
        axis.legend(loc="lower left", bbox_to_anchor=(-0.1, 1), ncols=2)

    summary = f"measured {measured.mean():.3f}, theory {expected:.3f}"
    setting = f"m={m}" if diagonality is None else f"m={m}, diagonality={diagonality}"
    code = f"""\
import ghrr
from ghrr.capacity import diagonal_weight

space = ghrr.Space(dim={dim}, {setting})
a, b = space.random(2, {PAIRS}, generator=space.generator("pairs"))  # {PAIRS} pairs of hypervectors
measured = ghrr.commutativity(a, b)  # similarity of a * b and b * a
theory = diagonal_weight({m}, {diagonality}) ** 2
print(f"measured {{measured.mean():.3f}}, theory {{theory:.3f}}")
"""
    description = f"Similarity of a * b and b * a for dim {dim}, m {m}: {summary}."
    updates = {"diagonality": {"visible": values["rotation"] == GIVEN}}
    meaning = "The orders cannot be distinguished." if expected > 0.9 else "The orders can be distinguished."
    picture = draw_figure(figure, height=3.6, description=description)
    return View(picture + paragraph(f"Mean of {PAIRS} pairs: {summary}. {meaning}"), code, updates)


TAB = Tab(
    name="order",
    title="Order",
    notice="Does a * b mean the same as b * a? For slots of one number (m = 1) it does. For slots of 2 × 2 numbers and "
    "more, the two orders are different vectors.",
    controls=(
        Slider("m", "m, size of a slot", 1, MAX_M, 3),
        Slider("dim", "dim, number of slots", 10, 500, 200, 10),
        Choice("rotation", "rotations", (HAAR, GIVEN), HAAR),
        Slider("diagonality", "diagonality", 0.0, 1.0, 0.3, 0.05),
    ),
    draw=draw,
    failure=Failure("Make it fail: m = 1 (FHRR) confuses the orders", {"m": 1, "rotation": HAAR}),
    terms="Binding multiplies the matrices of the slots. For random rotations the mean similarity of both orders is "
    "1/m². The diagonality of rotations says how near they are to diagonal matrices, which commute: choose rotations "
    "of a given diagonality to see how it changes the similarity.",
)
