"""Section on desired properties: binding preserves similarity, and independent hypervectors are dissimilar."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import ghrr
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings
from ghrr_lab.paper.statistics import equals, is_close, mean_with_error, rows_where
from ghrr_lab.paper.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, new_figure, style
from ghrr_lab.paper.theory.sampling import to_phases

BASE, BUNDLE = "base hypervector", "bundle"
LEFT, RIGHT = "H₃ on the left", "H₃ on the right"
OWN, SHARED, FHRR, FACTOR = "own Haar Q", "one Q for all", "FHRR (Q = 1)", "FHRR, H₁ * H₂ and H₁"
PHASES = "phases"
_COLOURS = {OWN: BLUE, SHARED: ORANGE, FHRR: GREEN, FACTOR: PURPLE}
_ROUNDING = 100 * torch.finfo(torch.float64).eps  # for numbers of size 1 after a few products


def mean_phase(half_width: float) -> float:
    """Return E exp(iθ) for θ uniform on [-half_width, half_width]."""
    return math.sin(half_width) / half_width


def expected(kind: str, half_width: float) -> float:
    """Return the expected similarity of two independent hypervectors.

    For QΛ and RH it is Σ E[(R†Q)_kk] |E exp(iθ)|² / m. A Haar matrix R†Q has mean zero. For H₁ * H₂ and H₁ in FHRR it
    is the mean of the single phase H₂.
    """
    return {OWN: 0.0, FACTOR: mean_phase(half_width)}.get(kind, mean_phase(half_width) ** 2)


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    space = ghrr.Space(settings["dim"], settings["m"], dtype=torch.complex128)
    tables = [measure(settings, space, generator) for measure in (_measure_preservation, _measure_phases)]
    return pd.concat(tables, ignore_index=True)


def _measure_preservation(settings: Settings, space: ghrr.Space, generator: torch.Generator) -> pd.DataFrame:
    """Measure the similarity of two hypervectors before and after binding both with a third."""
    pairs = settings["pairs"]
    first, other = space.random(2, pairs, generator=generator)
    share = torch.linspace(0, 1, pairs, dtype=torch.float64)[:, None, None, None]
    second = share * first + (1 - share) * other  # similarities from 0 to 1
    terms = space.random(pairs, settings["parts"], generator=generator)
    tables = []
    for kind, third in ((BASE, terms[:, 0]), (BUNDLE, ghrr.bundle(terms))):
        bound = {
            LEFT: [ghrr.bind(third, x) for x in (first, second)],
            RIGHT: [ghrr.bind(x, third) for x in (first, second)],
        }
        for side, (one, two) in bound.items():
            tables.append(pd.DataFrame({"what": side, "kind": kind, "value": ghrr.similarity(one, two)}))
    return pd.concat([table.assign(x=ghrr.similarity(first, second).numpy()) for table in tables])


def _measure_phases(settings: Settings, space: ghrr.Space, generator: torch.Generator) -> pd.DataFrame:
    """Measure the similarity of independent hypervectors whose angles are uniform on [-a, a]."""
    shape = (2, settings["pairs"], space.dim)
    tables = []
    for half_width in settings["half_widths"]:
        angles = half_width * (2 * torch.rand(*shape, space.m, generator=generator, dtype=torch.float64) - 1)
        phases = to_phases(angles)[..., None, :]
        rotation = ghrr.unitary.haar(*shape, m=space.m, generator=generator, dtype=torch.complex128)
        fhrr = phases[..., :1]
        kinds = {OWN: rotation * phases, SHARED: rotation[:1, :1] * phases, FHRR: fhrr}
        kinds[FACTOR] = torch.stack([ghrr.bind(*fhrr), fhrr[0]])
        for kind, (one, two) in kinds.items():
            value = ghrr.similarity(one, two)
            tables.append(pd.DataFrame({"what": PHASES, "kind": kind, "x": half_width, "value": value}))
    return pd.concat(tables)


@style()
def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    figure = new_figure(6.0)
    top, bottom = figure.subplots(2, 1)
    _draw_preservation(top, data, settings)
    _draw_phases(bottom, data, settings)
    return figure


def _draw_preservation(axis: Axes, data: pd.DataFrame, settings: Settings) -> None:
    for kind, colour, marker, slope in ((BASE, BLUE, "o", 1), (BUNDLE, ORANGE, "^", settings["parts"])):
        rows = rows_where(data, what=LEFT, kind=kind).iloc[:200]
        axis.plot(rows["x"], rows["value"], marker, ms=3.5, color=colour, alpha=0.6, label=f"H₃ is a {kind}")
        axis.plot([0, 1], [0, slope], color=BLACK, lw=1, ls="-" if slope == 1 else "--", label=f"theory, slope {slope}")
    axis.set(xlabel="δ(H₁, H₂) (no unit)", ylabel="δ(H₃ * H₁, H₃ * H₂)")
    axis.set_title(f"Binding with a bundle of {settings['parts']} multiplies similarities by {settings['parts']}")
    axis.legend(loc="upper left")


def _draw_phases(axis: Axes, data: pd.DataFrame, settings: Settings) -> None:
    x = np.linspace(0.01, 1.05 * max(settings["half_widths"]), 200)
    for (kind, colour), marker in zip(_COLOURS.items(), "osxD", strict=True):
        rows = rows_where(data, what=PHASES, kind=kind).groupby("x")["value"]
        axis.errorbar(rows.mean().index, rows.mean(), rows.std(), fmt=marker, color=colour, capsize=3, label=kind)
        axis.plot(x, [expected(kind, a) for a in x], color=colour, lw=1)
    axis.plot([], [], color=GREY, lw=1, label="theory")
    axis.set(xlabel="half-width a of θ uniform on [-a, a] (rad)", ylabel="similarity δ (mean, std)")
    axis.set_title("Symmetric zero-mean angles: δ vanishes where E exp(iθ) = 0")
    axis.legend()


def _is_preserved(data: pd.DataFrame, settings: Settings) -> list[Check]:
    checks = []
    for side in (LEFT, RIGHT):
        rows = rows_where(data, what=side, kind=BASE)
        largest = float((rows["value"] - rows["x"]).abs().max())
        checks.append(is_close(f"largest |δ after - δ before|, {side}", largest, 0.0, tolerance=_ROUNDING))
    return checks


def _is_multiplied(data: pd.DataFrame, factor: int) -> list[Check]:
    rows = {side: rows_where(data, what=side, kind=BUNDLE) for side in (LEFT, RIGHT)}
    change = {side: mean_with_error(row["value"] / factor - row["x"]) for side, row in rows.items()}
    return [equals(f"mean of δ after / {factor} - δ before, {side}", *x, 0.0) for side, x in change.items()]


def _vanishes(data: pd.DataFrame, half_width: float) -> list[Check]:
    checks = []
    for kind in _COLOURS:
        rows = rows_where(data, what=PHASES, kind=kind)
        mean = mean_with_error(rows.loc[np.isclose(rows["x"], half_width), "value"])
        checks.append(equals(f"mean δ for θ within ±{half_width:.3g}, {kind}", *mean, 0.0))
    return checks


_SIZES = {"dim": 100, "m": 3, "pairs": 100, "parts": 5, "half_widths": [0.5, 1.0, 2.0, math.pi]}

CLAIMS = [
    Claim(
        "Section on desired properties, property 3",
        "Binding two base hypervectors with a third one, on either side, preserves their similarity.",
        _is_preserved,
        comment="This is exact. It follows from the cyclic property of the trace, since H₃ is unitary.",
    ),
    Claim(
        "Background, on binding",
        "Binding with a hypervector preserves similarities. (Composite hypervectors, such as bundles, are included.)",
        lambda data, settings: _is_multiplied(data, 1),
        corrected=lambda data, settings: _is_multiplied(data, settings["parts"]),
        correction="H₃ must be unitary. A bundle of B base hypervectors multiplies similarities by B, in expectation.",
        comment="The similarity contains H₃†H₃, which is 1 for a base hypervector and B plus cross terms for a bundle.",
    ),
    Claim(
        "Corollaries 1 and 2",
        "Phases from symmetric distributions with zero mean give E tr(AB†) = 0 and E tr(A(AB)†) = 0.",
        lambda data, settings: _vanishes(data, math.pi),
        rejected={
            "the mean of the angles is zero": lambda data, settings: _vanishes(data, 1.0),
        },
        comment="The phases exp(iθ) must have zero mean, as the paper says after the corollaries. Its figure calls p_j "
        "a distribution of angles. If only the angles have zero mean, the corollaries fail for FHRR and if all "
        "hypervectors share one Q: the mean similarity is |E exp(iθ)|², or E exp(iθ) for a product and its factor (the "
        "lines in the figure).",
    ),
]

EXPERIMENT = Experiment(
    name="algebraic-properties",
    title="Binding with a unitary hypervector preserves similarities; phases must have zero mean",
    caption=(
        "Top: the similarity of two hypervectors before and after binding both with a third one on the left. Bottom: "
        "the similarity of independent hypervectors whose angles are distributed symmetrically about zero."
    ),
    settings={"quick": {**_SIZES, "blocks": 5}, "full": {**_SIZES, "blocks": 50}},
    run_trial=run_trial,
    draw=draw,
    claims=CLAIMS,
)
