"""Figure nested-structure: decoding a dictionary of dictionaries, with keys that commute and keys that do not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import ghrr
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings
from ghrr_lab.paper.statistics import (
    Measured,
    all_equal,
    equals,
    is_close,
    mean_with_error,
    rows_where,
    share_with_error,
)
from ghrr_lab.paper.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, new_figure, style
from ghrr_lab.paper.theory.sampling import draw_seed

SIDES = ("left", "right")
ANSWERS = (1, 2, 3, 4)  # the values with the keys K₁ K₁, K₁ K₂, K₂ K₁, K₂ K₂
SWAPPED = {2: 3, 3: 2}  # values with the same keys in swapped order
_LINES = {1: (GREEN, "-"), 2: (BLUE, "-"), 3: (ORANGE, (0, (3, 2))), 4: (PURPLE, "-")}


def weights(side: str, m: int, answer: int) -> tuple[float, float]:
    """Predict the mean similarity of a decoded answer with its own value and with the value whose keys are swapped.

    When unbinding from the left, the own keys cancel, and the swapped value is multiplied by K₂⁻¹ K₁⁻¹ K₂ K₁. Keys with
    Haar rotations are Haar matrices: the mean over K₁ is K₂⁻¹ tr(K₂)/m, and then the mean over K₂ is 1/m². From the
    right nothing cancels: U V U⁻¹ keeps E|tr U|²/m² of V, where E|tr U|² = 1 for a Haar matrix U and min(2, m) for its
    square; K₁ K₂ V K₁⁻¹ K₂⁻¹ keeps 1/m².
    """
    if side == "right":
        return (1 / m**2, 1 / m**2) if answer in SWAPPED else (min(2, m) / m**2, 0.0)
    return 1.0, 1 / m**2 if answer in SWAPPED else 0.0


def expected(settings: Settings, m: int, answer: int, x: float) -> float:
    """Predict the mean similarity of an answer, decoded from the left, with φ(x)."""
    numbers = [settings["values"][number - 1] for number in (answer, SWAPPED.get(answer, answer))]
    peaks = [math.exp(-(((x - number) / settings["bandwidth"]) ** 2) / 2) for number in numbers]
    return float(np.dot(weights("left", m, answer), peaks))


def noise_variance(dim: int, m: int) -> float:
    """Predict the variance of the similarity of V₁' or V₄' with φ(x), for x far from all encoded numbers.

    V₁' = V₁ + K₁⁻¹K₂V₂ + K₁⁻²K₂K₁V₃ + K₁⁻²K₂²V₄. The first term has the same Q as φ(x) and adds 1/(2Dm). The next two
    have a Haar factor and add 1/(2Dm²) each. Squares of Haar matrices are not Haar: for independent A, B, one of them
    conjugated with a Haar matrix, E|tr AB|² = 1 + (E|tr A|² - 1)(E|tr B|² - 1)/(m² - 1), where E|tr K²|² = 2 and, for
    the phases of the value, E|tr Λ|² = m.
    """
    squares = 1.0 if m == 1 else 1 + 1 / ((m + 1) * (m**2 - 1))
    return 1 / (2 * dim * m) + (2 + squares) / (2 * dim * m**2)


def _measure(settings: Settings, m: int, grid: list[float], generator: torch.Generator) -> pd.DataFrame:
    """Decode many structures with independent keys and one encoder. Returns means, a row per side, answer and x."""
    space = ghrr.Space.from_total(settings["total_dim"], m, seed=draw_seed(generator))
    encoder = ghrr.encoding.FractionalPower(space, 1, bandwidth=settings["bandwidth"])
    keys = space.random(settings["structures"], 2, generator=generator)
    inner = [ghrr.bind_bundle(keys, v) for v in encoder(torch.tensor(settings["values"]).reshape(2, 1, 2, 1))]
    bundle = ghrr.bind_bundle(keys, torch.stack(inner, dim=1))
    answers = []
    for side in SIDES:
        subtrees = ghrr.unbind(bundle[:, None], keys, side=side)
        answers.append(ghrr.unbind(subtrees[:, :, None], keys[:, None], side=side).flatten(1, 2).movedim(1, 0))
    curves = ghrr.pairwise_similarity(torch.stack(answers), encoder(torch.tensor(grid)[:, None])).double()
    swapped = curves[:, [SWAPPED.get(answer, answer) - 1 for answer in ANSWERS]]
    best = torch.nn.functional.one_hot(curves.argmax(dim=-1), len(grid)).double()
    columns = {"similarity": curves, "square": curves.square(), "gap": (curves - swapped).abs(), "best": best}
    rows = pd.MultiIndex.from_product([[m], SIDES, ANSWERS, grid], names=["m", "side", "answer", "x"])
    return pd.DataFrame({name: values.mean(dim=2).flatten() for name, values in columns.items()}, rows).reset_index()


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    fine = [round(settings["low"] + settings["step"] * i, 9) for i in range(settings["points"])]
    grids = {m: fine if m in (1, settings["shown"]) else settings["values"] for m in settings["ms"]}
    data = pd.concat([_measure(settings, m, grid, generator) for m, grid in grids.items()], ignore_index=True)
    return data[(data["side"] == "left") | data["x"].isin(settings["values"])]


def _select(data: pd.DataFrame, m: int, answer: int, side: str = "left") -> pd.DataFrame:
    return rows_where(data, side=side, m=m, answer=answer)


def _similarity_at(rows: pd.DataFrame, x: float) -> Measured:
    """Return the mean similarity with φ(x) over blocks, which are independent, and its standard error."""
    return mean_with_error(rows_where(rows, x=x)["similarity"])


def _draw_curves(axis: Axes, data: pd.DataFrame, settings: Settings, m: int) -> None:
    for answer, (colour, line) in _LINES.items():
        rows = _select(data, m, answer).groupby("x")[["similarity", "square"]].mean()
        x, mean = rows.index.to_numpy(), rows["similarity"].to_numpy()
        band = 2 * np.sqrt(np.maximum(rows["square"].to_numpy() - mean**2, 0))
        axis.fill_between(x, mean - band, mean + band, color=colour, alpha=0.2, lw=0)
        axis.plot(x, mean, color=colour, ls=line, lw=2.2, label=f"V{'₁₂₃₄'[answer - 1]}'")
        fine = np.linspace(x[0], x[-1], 400)
        theory = [expected(settings, m, answer, t) for t in fine]
        axis.plot(fine, theory, color=BLACK, lw=0.7, label="theory" if answer == 4 else None)
    axis.set_xticks(settings["values"], [f"v{'₁₂₃₄'[i]} = {v:g}" for i, v in enumerate(settings["values"])])
    axis.set(xlabel="x (no unit)", ylabel="similarity with φ(x)", ylim=(-0.15, 1.4))
    axis.legend(ncols=5, loc="upper center")


@style()
def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    ms, shown = settings["ms"], settings["shown"]
    figure = new_figure(7.6)
    first, second, third = figure.subplots(3, 1)
    _draw_curves(first, data, settings, 1)
    first.set_title("FHRR (m = 1): V₂' and V₃' have the same curve with two peaks")
    _draw_curves(second, data, settings, shown)
    second.set_title(f"GHRR (m = {shown}): each has its own peak; V₂' and V₃' also have a small wrong one")
    for side, number, shift, colour, marker in (("left", 3, -0.06, BLUE, "s"), ("right", 2, 0.06, GREY, "o")):
        x = settings["values"][number - 1]
        mean, error = zip(*(_similarity_at(_select(data, m, 2, side), x) for m in ms), strict=True)
        name = f"{'wrong' if number == 3 else 'correct'} peak, unbound from the {side}"
        points = third.errorbar(np.add(ms, shift), mean, error, ls="", capsize=3, label=name, color=colour)
        points[0].set_marker(marker)
    third.plot(ms, [weights("left", m, 2)[1] for m in ms], color=BLACK, lw=1, label="theory of both, 1/m²")
    third.set(yscale="log", xticks=ms, xlabel="m (no unit)", ylabel="similarity with φ(v)")
    third.set_title("V₂': height of the wrong peak, and of the correct one unbound from the wrong side")
    third.legend(loc="lower left")
    return figure


def _height(data: pd.DataFrame, settings: Settings, answer: int, number: int, expected: float, **which: Any) -> Check:
    """Check the similarity of an answer with an encoded number, both counted from 1."""
    which = {"m": settings["shown"], "side": "left", **which}
    measured = _similarity_at(_select(data, answer=answer, **which), settings["values"][number - 1])
    return equals(f"V{answer}' at number {number}, m = {which['m']}, from the {which['side']}", *measured, expected)


def _is_value_and_noise(data: pd.DataFrame, settings: Settings) -> list[Check]:
    checks = []
    for m, answer in ((m, answer) for m in (1, settings["shown"]) for answer in (1, 4)):
        rows, name = _select(data, m, answer), f"V{answer}' far from all numbers, m = {m}"
        far = np.min([(rows["x"] - v).abs() for v in settings["values"]], axis=0) >= 4.4 * settings["bandwidth"]
        blocks = rows[far].groupby("trial")[["similarity", "square"]].mean()
        variance = noise_variance(ghrr.Space.from_total(settings["total_dim"], m).dim, m)
        far_checks = (("similarity", "mean", 0.0), ("square", "variance", variance))
        checks.append(_height(data, settings, answer, answer, 1.0, m=m))
        checks += [equals(f"{name}: {what}", *mean_with_error(blocks[column]), y) for column, what, y in far_checks]
    return checks


def _right_side_decodes(data: pd.DataFrame, settings: Settings) -> list[Check]:
    return [_height(data, settings, answer, answer, 1.0, side="right") for answer in ANSWERS]


def _has_no_other_peak(data: pd.DataFrame, settings: Settings) -> list[Check]:
    return [_height(data, settings, a, n, 0.0) for a in ANSWERS for n in ANSWERS if a != n]


def _share_at_own(data: pd.DataFrame, settings: Settings, m: int, answer: int, expected_share: float) -> Check:
    """Check how often the largest similarity over all x is within one bandwidth of the correct number."""
    rows = _select(data, m, answer)
    near = (rows["x"] - settings["values"][answer - 1]).abs() <= settings["bandwidth"]
    correct = round(rows.loc[near, "best"].sum() * settings["structures"])
    share = share_with_error(correct, rows["trial"].nunique() * settings["structures"])
    return equals(f"share of structures with the maximum of V{answer}' at its number", *share, expected_share)


def _curves_coincide(data: pd.DataFrame, settings: Settings) -> list[Check]:
    gap = float(_select(data, 1, 2)["gap"].max())
    same = is_close("largest |V2' - V3'| over x", gap, 0.0, tolerance=80 * torch.finfo(torch.float32).eps)
    peaks = [_height(data, settings, 2, number, 1.0, m=1) for number in (2, 3)]
    return [same, *peaks, _share_at_own(data, settings, 1, 2, 0.5)]


def _curves_are_distinct(data: pd.DataFrame, settings: Settings) -> list[Check]:
    m = settings["shown"]
    curves = [_select(data, m, a).pivot(index="trial", columns="x", values="similarity") for a in (2, 3)]
    at = {number: (curves[0] - curves[1])[settings["values"][number - 1]] for number in (2, 3)}
    checks = [equals(f"V2' - V3' at number {n}", *mean_with_error(at[n]), (5 - 2 * n) * (1 - 1 / m**2)) for n in at]
    return checks + [_share_at_own(data, settings, m, answer, 1.0) for answer in ANSWERS]


def _follows_theory(data: pd.DataFrame, settings: Settings) -> list[Check]:
    m = settings["shown"]
    checks = [_height(data, settings, 2, 3, 1 / other**2, m=other) for other in settings["ms"]]
    for answer in ANSWERS:
        curve = _select(data, m, answer).groupby("x")["similarity"].agg(["mean", "sem"])
        theory = [expected(settings, m, answer, float(x)) for x in curve.index]
        checks.append(all_equal(f"V{answer}', m = {m}, all x", list(curve["mean"]), list(curve["sem"]), theory))
    return checks


def _settings(structures: int, blocks: int) -> Settings:
    # The distances differ, because a symmetric choice makes the two peaks of V₂' in FHRR equal up to rounding.
    encoding = {"values": [-6.4, -2.4, 1.8, 6.4], "bandwidth": 0.4, "low": -8.0, "step": 0.2, "points": 81}
    sizes = {"total_dim": 3600, "ms": [1, 2, 3, 4, 5, 6], "shown": 3}
    return {**sizes, **encoding, "structures": structures, "blocks": blocks}


CLAIMS = [
    Claim(
        "Section on non-commutativity, retrieval from a dictionary",
        "Unbinding the keys from the left gives the value plus noise.",
        _is_value_and_noise,
        rejected={"keys unbound from the right": _right_side_decodes},
        comment="Tested for V₁' and V₄', whose keys cannot be swapped. The paper does not give the size of the noise; "
        "the expected value is from theory. From the right, values with two different keys keep 1/m² of their "
        "similarity, and the others 2/m².",
    ),
    Claim(
        "Figure nested-structure B",
        "FHRR confuses values whose keys are equal up to order: the curves of V₂' and V₃' overlap.",
        _curves_coincide,
        comment="They are equal up to rounding, so it is random which of the two peaks is higher.",
    ),
    Claim(
        "Figure nested-structure C",
        "GHRR with m = 3 does not confuse them: the curves of V₂' and V₃' are distinct.",
        _curves_are_distinct,
    ),
    Claim(
        "Figure nested-structure, caption and C",
        "GHRR with m = 3 decodes successfully: each curve has a peak at the correct value and no other.",
        _has_no_other_peak,
        corrected=_follows_theory,
        correction="The value whose keys are swapped causes a second peak, 1/m² as high as the correct one.",
        comment="For m = 3 it is 1/9 as high. The noise of a small hypervector can hide it, but it does not shrink as "
        "D grows.",
    ),
]

EXPERIMENT = Experiment(
    name="nested-dictionary",
    title="A dictionary of dictionaries: keys that do not commute separate its values",
    caption="H = K₁*(K₁*V₁ + K₂*V₂) + K₂*(K₁*V₃ + K₂*V₄) with V = φ(v) for four numbers v. Each value is decoded by "
    "unbinding its keys from the left, and compared with φ(x). Lines: mean over structures. Bands: two standard "
    "deviations of a single structure. All have the same total dimension.",
    settings={"quick": _settings(10, 40), "full": _settings(40, 100)},
    run_trial=run_trial,
    draw=draw,
    claims=CLAIMS,
)
