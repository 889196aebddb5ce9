"""Section on kernel properties: the similarity of encodings as a kernel, and what the rotations Q do to it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

import ghrr
from ghrr.paper import kernel_cases as cases
from ghrr.paper.experiment import (
    Check,
    Claim,
    Experiment,
    Params,
    Settings,
    all_equal,
    equals,
    equals_to,
    mean_with_error,
    std_with_error,
)
from ghrr.paper.kernel_cases import DTYPE, KERNELS, Array, M
from ghrr.paper.style import BLACK, BLUE, GREEN, GREY, ORANGE, RED, style

RBF, SHIFTED, MIXED, MIXED_FIXED = "rbf", "rbf, both inputs shifted", "mixture", "mixture, fixed Q"
PAIR, PAIR_FIXED, AT_0, AT_0_FIXED = "two encodings", "two encodings, fixed Q", "pair at 0", "pair at 0, fixed Q"
WEIGHTS, PAIR_WEIGHTS, FLAT_WEIGHTS = "weights of one", "weights of two", "weights where Q(x) = Q(y)"
TURNING, FLAT = "Q(x), y = 0", "Q(x), y = 3"
PLACES = {TURNING: 0.0, FLAT: 3.0}
_ROUNDING = 1e-11  # of sums over thousands of slots in double precision


def _table(kind: str, x: Any, similarity: Any) -> pd.DataFrame:
    return pd.DataFrame({"kind": kind, "x": np.asarray(x).round(6), "similarity": similarity})


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    dim, reach = settings["dim"], settings["reach"]
    x = torch.linspace(-reach, reach, settings["points"], dtype=torch.float64)
    space = ghrr.Space(dim, M, seed=int(torch.randint(2**31, (), generator=generator)), dtype=DTYPE)
    fixed = ghrr.unitary.haar(m=M, generator=generator, dtype=DTYPE)
    encoder = partial(ghrr.encoding.FractionalPower, space, 1)  # all of them share their frequencies

    def curve(first: Any, second: Any, shift: float = 0.0) -> Tensor:
        return ghrr.similarity(first(x[:, None] + shift), second([shift]))

    rbf, mixed, again = encoder(), encoder(kernel=list(KERNELS)), encoder(kernel=list(KERNELS), rotation=fixed)
    curves = {RBF: curve(rbf, rbf), SHIFTED: curve(rbf, rbf, 1.0)}
    curves |= {MIXED: curve(mixed, mixed), MIXED_FIXED: curve(again, again)}
    paired = partial(encoder, bandwidth=torch.tensor(cases.PAIR_WIDTHS)[:, None])
    for kind, slots in ((PAIR_FIXED, 1), (PAIR, dim)):
        pair = [paired(rotation=q.expand(dim, M, M)) for q in cases.pair_rotations(slots, generator)]
        curves[kind] = curve(pair[0], pair[1])
    tables = [_table(kind, x, similarity) for kind, similarity in curves.items()]
    places = x + 2  # around both y
    rotation = cases.adaptive_rotations(places, dim, generator)
    phases = encoder(bandwidth=torch.tensor(cases.ADAPTIVE_WIDTHS)[:, None]).diagonal(places[:, None])
    encoded = rotation * phases[..., None, :]
    for kind, y in PLACES.items():
        tables.append(_table(kind, places, ghrr.similarity(encoded, encoded[(places - y).abs().argmin()])))
    relative = {WEIGHTS: [mixed.rotation] * 2, PAIR_WEIGHTS: [one.rotation for one in pair]}
    relative[FLAT_WEIGHTS] = list(rotation[places >= 1][[0, -1]])
    for kind, q in relative.items():
        tables.append(_table(kind, range(M), ghrr.encoding.kernel_weights(q[0], q[1])))
    for kind, size in ((kind, size) for kind in (AT_0, AT_0_FIXED) for size in settings["dims"]):
        one, two = cases.pair_rotations(size if kind == AT_0 else 1, generator)
        tables.append(_table(kind, [float(size)], ghrr.similarity(one, two).item()))
    return pd.concat(tables, ignore_index=True)


def _wide(data: pd.DataFrame, kind: str) -> pd.DataFrame:
    """A row per trial, a column per x."""
    return data[data["kind"] == kind].pivot(index="trial", columns="x", values="similarity")


def _plot(axis: Any, data: pd.DataFrame, kind: str, **look: Any) -> Array:
    curve = _wide(data, kind).agg(["mean", "sem"]).T
    look = {"color": BLUE, "marker": "o", "label": "measured", **look}
    axis.errorbar(curve.index, curve["mean"], curve["sem"], ms=3, ls="", **look)
    return np.linspace(curve.index[0], curve.index[-1], 400)


def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    band = 2 / math.sqrt(2 * settings["dim"] * M)
    with style():
        figure = Figure(figsize=(6.4, 9.0), layout="constrained")
        titles: Any = ["One encoding", "A kernel for each entry", "Two encodings, same phases", "Single pairs", "Q(x)"]
        axes = figure.subplot_mosaic([titles[:2], titles[2:4], titles[4:] * 2])
        one, mixed, two, single, turning = axes.values()
        x = _plot(one, data, RBF)
        exact = KERNELS["rbf"](x)
        one.fill_between(x, exact - band, exact + band, color=GREY, alpha=0.4, lw=0, label="±2/√(2Dm)")
        one.plot(x, exact, color=BLACK, lw=1, label="theory")
        _plot(mixed, data, MIXED)
        mixed.plot(x, cases.mixture(x), color=BLACK, lw=1, label="theory")
        for (name, kernel), line in zip(KERNELS.items(), ("--", ":", "-."), strict=True):
            mixed.plot(x, kernel(x), color=GREY, lw=1, ls=line, label=name)
        _plot(two, data, PAIR)
        for weights, colour, line in zip(cases.READINGS, (BLACK, RED, ORANGE), ("-", "--", ":"), strict=True):
            two.plot(x, cases.pair(x, weights), color=colour, ls=line, lw=1.2, label=weights)
        for kind, colour, name in ((PAIR_FIXED, ORANGE, "12 of fixed Q"), (PAIR, BLUE, "12 of varying Q")):
            few = _wide(data, kind).head(12)
            single.plot(few.columns, few.T, color=colour, lw=0.6)[0].set_label(name)
        single.plot(x, cases.pair(x), color=BLACK, lw=1.2, label="mean, theory")
        for kind, colour, marker in ((TURNING, BLUE, "o"), (FLAT, GREEN, "^")):
            x = _plot(turning, data, kind, color=colour, marker=marker, label=f"measured, y = {PLACES[kind]:g}")
            turning.plot(x, cases.adaptive(x, PLACES[kind]), color=BLACK, lw=1.2)
            turning.plot(x, cases.adaptive(x, PLACES[kind], as_printed=True), color=RED, lw=1.2, ls="--")
        turning.lines[-2].set_label("weights (Q(y)†Q(x))_kk")
        turning.lines[-1].set_label("weights (Q(x)Q(y)†)_kk")
        for title, axis in axes.items():
            low, high = axis.get_ylim()
            axis.set(title=title, ylim=(low, high + 0.5 * (high - low)), ylabel="similarity (no unit)")
            axis.set_xlabel("x (no unit)" if axis is turning else "x - y (no unit)")
            axis.legend(loc="upper center", ncols=2, fontsize=8, handlelength=1.5)
    return figure


def _follows(data: pd.DataFrame, kind: str, prediction: Callable[[Array], Array], name: str = "") -> Check:
    curve = _wide(data, kind).agg(["mean", "sem"]).T
    curve = curve[curve["sem"] > _ROUNDING]  # with itself an encoding has similarity 1, without any error
    expected = list(prediction(curve.index.to_numpy()))
    return all_equal(f"{name or kind}, all x", list(curve["mean"]), list(curve["sem"]), expected)


def _same(data: pd.DataFrame, what: str, first: str, second: str | float) -> Check:
    other = _wide(data, second) if isinstance(second, str) else second
    return equals_to(what, float((_wide(data, first) - other).abs().to_numpy().max()), 0.0, tolerance=_ROUNDING)


def _rbf_is_recovered(data: pd.DataFrame, settings: Settings) -> list[Check]:
    curves = _wide(data, RBF).loc[:, 3.5:]
    variance = mean_with_error(((curves - KERNELS["rbf"](curves.columns.to_numpy())) ** 2).mean(axis=1))
    return [
        _follows(data, RBF, KERNELS["rbf"]),
        _same(data, "largest change when both inputs are shifted", SHIFTED, RBF),
        equals("variance where the kernel is zero", *variance, 1 / (2 * settings["dim"] * M)),
    ]


def _is_mean_of_kernels(data: pd.DataFrame, settings: Settings) -> list[Check]:
    return [_follows(data, MIXED, cases.mixture), _same(data, "largest |weight - 1|", WEIGHTS, 1.0)]


def _pair_follows(data: pd.DataFrame, settings: Settings, weights: str) -> list[Check]:
    return [_follows(data, PAIR, partial(cases.pair, weights=weights), f"weights {weights}")]


def _weights_have_signs(data: pd.DataFrame, settings: Settings) -> list[Check]:
    weights = [mean_with_error(_wide(data, PAIR_WEIGHTS)[k]) for k in range(M)]
    checks = [equals(f"weight of kernel {k + 1}", *weights[k], sign / 2) for k, sign in enumerate(cases.PAIR_SIGNS)]
    return checks + _pair_follows(data, settings, cases.SIGNED)


def _adaptive_follows(data: pd.DataFrame, settings: Settings, *, as_printed: bool) -> list[Check]:
    curves = [_follows(data, kind, partial(cases.adaptive, y=PLACES[kind], as_printed=as_printed)) for kind in PLACES]
    return curves if as_printed else [*curves, _same(data, "largest |weight - 1|, Q(x) = Q(y)", FLAT_WEIGHTS, 1.0)]


def _context_matters(data: pd.DataFrame, settings: Settings) -> list[Check]:
    difference = mean_with_error(_wide(data, FLAT)[4.0] - _wide(data, TURNING)[1.0])
    expected = [float(cases.adaptive(np.array([y + 1]), y)[0]) for y in PLACES.values()]
    return [equals("similarity of 3 and 4 less that of 0 and 1", *difference, expected[1] - expected[0])]


def _spreads(data: pd.DataFrame, settings: Settings, kind: str) -> list[Check]:
    off = _wide(data, kind) - float(cases.pair(np.zeros(1))[0])
    return [equals(f"std, {kind}, D = {d}", *std_with_error(off[d]), cases.pair_std(d)) for d in settings["dims"]]


def _shape_is_the_same(data: pd.DataFrame, settings: Settings) -> list[Check]:
    same = _same(data, "one encoding: largest difference between fixed and varying Q", MIXED_FIXED, MIXED)
    return [same, *(_follows(data, kind, cases.pair) for kind in (PAIR, PAIR_FIXED)), *_spreads(data, settings, AT_0)]


_SIZES = {"dim": 1000, "reach": 4.0, "points": 41, "dims": [250, 1000, 4000]}

EXPERIMENT = Experiment(
    name="kernel-shapes",
    title="Similarity of encodings is a kernel, and the rotations weight its parts",
    caption="Points: mean over encodings, with standard errors; grey: two errors of a single one; lines: theory. Then, "
    "two encodings: Q₂†Q₁ is diag(1, 1, -1) in half of the slots and that times a Haar matrix in the others; dashed: "
    "weights as printed; dotted: by size. Below, Q turns between x = -1 and 1, but not for one of three kernels.",
    settings={"quick": {**_SIZES, "blocks": 100}, "full": {**_SIZES, "blocks": 300}},
    run_trial=run_trial,
    draw=draw,
)

CLAIMS = [
    Claim(
        EXPERIMENT.name,
        "Section on FHRR; section on encoding data",
        "The similarity of encodings approximates a shift-invariant kernel, for Gaussian frequencies the rbf kernel.",
        _rbf_is_recovered,
        comment="The error is 1/√(2Dm): at equal total dimension Dm² it grows as √m.",
    ),
    Claim(
        EXPERIMENT.name,
        "Section on kernel properties, special case φ₁ = φ₂",
        "For one encoding all weights are 1, and the kernel is the mean of the kernels of the diagonal entries.",
        _is_mean_of_kernels,
    ),
    Claim(
        EXPERIMENT.name,
        "Section on kernel properties, first equation",
        "Two encodings with the same phases have the similarity (1/m) Re Σ_k E[Q_kk] E[exp(i w_k (x - y))].",
        _weights_have_signs,
        comment="For symmetric frequencies this is a sum of kernels with the weights Re E[Q_kk], which have a sign.",
    ),
    Claim(
        EXPERIMENT.name,
        "Equation weighted-kernel",
        "With Q_kk = r_k exp(iθ_k) the weights are E[r_k], and the phase θ_k goes into the kernel.",
        partial(_pair_follows, weights=cases.PRODUCT),
        corrected=partial(_pair_follows, weights=cases.SIGNED),
        correction="The weight of the k-th kernel is Re E[Q_kk]; it splits only where r_k and θ_k are independent.",
        rejected={"weights E[r_k] and the kernels of the phases alone": partial(_pair_follows, weights=cases.SIZE)},
    ),
    Claim(
        EXPERIMENT.name,
        "Discussion, input-dependent Q",
        "For Q that depends on the input, the diagonal of Q(x)Q(y)† weights the kernels.",
        partial(_adaptive_follows, as_printed=True),
        corrected=partial(_adaptive_follows, as_printed=False),
        correction="It is the diagonal of Q(y)†Q(x), which is 1 wherever Q(x) = Q(y).",
    ),
    Claim(
        EXPERIMENT.name,
        "Table of GHRR variants; discussion, input-dependent Q",
        "A Q that depends on the input compares items at different scales depending on context.",
        _context_matters,
    ),
    Claim(
        EXPERIMENT.name,
        "Discussion, varying Q over dimensions",
        "Varying Q over the dimensions leaves the shape of the kernel; as D increases it converges to the mean.",
        _shape_is_the_same,
        rejected={"a single pair with fixed Q converges, too": partial(_spreads, kind=AT_0_FIXED)},
        comment="One encoding: exactly. Two: on average; a pair with fixed Q has the kernel of its own Q for any D.",
    ),
]
