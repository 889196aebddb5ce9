"""Section on kernel properties: the similarity of encodings is a kernel, and the rotations Q weight its parts."""

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
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings
from ghrr_lab.paper.statistics import all_equal, equals, is_close, mean_with_error, rows_where, std_with_error
from ghrr_lab.paper.style import BLACK, BLUE, GREEN, GREY, ORANGE, RED, new_figure, style
from ghrr_lab.paper.theory import kernels
from ghrr_lab.paper.theory.kernels import DTYPE, KERNELS, Array, M
from ghrr_lab.paper.theory.sampling import draw_seed

RBF, SHIFTED, MIXED, MIXED_FIXED = "rbf", "rbf, both inputs shifted", "mixture", "mixture, fixed Q"
PAIR, PAIR_FIXED, AT_0, AT_0_FIXED = "two encodings", "two encodings, fixed Q", "pair at 0", "pair at 0, fixed Q"
WEIGHTS, PAIR_WEIGHTS, CONSTANT_WEIGHTS = "weights of one", "weights of two", "weights where Q(x) = Q(y)"
CHANGING, CONSTANT = "Q(x), y = 0", "Q(x), y = 3"  # Q changes near y = 0 and is constant near y = 3
REFERENCE_POINTS = {CHANGING: 0.0, CONSTANT: 3.0}
_ROUNDING = 1e-11  # for sums over thousands of slots in double precision


def _table(kind: str, x: Any, similarity: Any) -> pd.DataFrame:
    return pd.DataFrame({"kind": kind, "x": np.asarray(x).round(6), "similarity": similarity})


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    dim, reach = settings["dim"], settings["reach"]
    x = torch.linspace(-reach, reach, settings["points"], dtype=torch.float64)
    space = ghrr.Space(dim, M, seed=draw_seed(generator), dtype=DTYPE)
    fixed = ghrr.unitary.haar(m=M, generator=generator, dtype=DTYPE)
    encoder = partial(ghrr.encoding.FractionalPower, space, 1)  # all encoders have the same frequencies

    def curve(first: Any, second: Any, shift: float = 0.0) -> Tensor:
        return ghrr.similarity(first(x[:, None] + shift), second([shift]))

    rbf, mixed, mixed_fixed = encoder(), encoder(kernel=list(KERNELS)), encoder(kernel=list(KERNELS), rotation=fixed)
    curves = {RBF: curve(rbf, rbf), SHIFTED: curve(rbf, rbf, 1.0)}
    curves |= {MIXED: curve(mixed, mixed), MIXED_FIXED: curve(mixed_fixed, mixed_fixed)}
    paired = partial(encoder, bandwidth=torch.tensor(kernels.PAIR_BANDWIDTHS)[:, None])
    for kind, slots in ((PAIR_FIXED, 1), (PAIR, dim)):
        pair = [paired(rotation=q.expand(dim, M, M)) for q in kernels.pair_rotations(slots, generator)]
        curves[kind] = curve(pair[0], pair[1])
    tables = [_table(kind, x, similarity) for kind, similarity in curves.items()]
    points = x + 2  # includes both reference points
    rotation = kernels.adaptive_rotations(points, dim, generator)
    phases = encoder(bandwidth=torch.tensor(kernels.ADAPTIVE_BANDWIDTHS)[:, None]).diagonal(points[:, None])
    encoded = rotation * phases[..., None, :]
    for kind, y in REFERENCE_POINTS.items():
        tables.append(_table(kind, points, ghrr.similarity(encoded, encoded[(points - y).abs().argmin()])))
    rotations = {WEIGHTS: [mixed.rotation] * 2, PAIR_WEIGHTS: [one.rotation for one in pair]}
    rotations[CONSTANT_WEIGHTS] = list(rotation[points >= 1][[0, -1]])
    for kind, q in rotations.items():
        tables.append(_table(kind, range(M), ghrr.encoding.kernel_weights(q[0], q[1])))
    for kind, size in ((kind, size) for kind in (AT_0, AT_0_FIXED) for size in settings["dims"]):
        one, two = kernels.pair_rotations(size if kind == AT_0 else 1, generator)
        tables.append(_table(kind, [float(size)], ghrr.similarity(one, two).item()))
    return pd.concat(tables, ignore_index=True)


def _wide(data: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Return the similarities of one kind: a row per trial, a column per x."""
    return rows_where(data, kind=kind).pivot(index="trial", columns="x", values="similarity")


def _plot(axis: Any, data: pd.DataFrame, kind: str, **options: Any) -> Array:
    curve = _wide(data, kind).agg(["mean", "sem"]).T
    options = {"color": BLUE, "marker": "o", "label": "measured", **options}
    axis.errorbar(curve.index, curve["mean"], curve["sem"], ms=3, ls="", **options)
    return np.linspace(curve.index[0], curve.index[-1], 400)


@style()
def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    band = 2 / math.sqrt(2 * settings["dim"] * M)
    figure = new_figure(9.0)
    titles: Any = ["One encoding", "One kernel per entry", "Two encodings, same phases", "Single pairs", "Q(x)"]
    axes = figure.subplot_mosaic([titles[:2], titles[2:4], titles[4:] * 2])
    one, mixed, two, single, adaptive = axes.values()
    x = _plot(one, data, RBF)
    exact = KERNELS["rbf"](x)
    one.fill_between(x, exact - band, exact + band, color=GREY, alpha=0.4, lw=0, label="±2/√(2Dm)")
    one.plot(x, exact, color=BLACK, lw=1, label="theory")
    _plot(mixed, data, MIXED)
    mixed.plot(x, kernels.mixture(x), color=BLACK, lw=1, label="theory")
    for (name, kernel), line in zip(KERNELS.items(), ("--", ":", "-."), strict=True):
        mixed.plot(x, kernel(x), color=GREY, lw=1, ls=line, label=name)
    _plot(two, data, PAIR)
    for weights, colour, line in zip(kernels.WEIGHTS, (BLACK, RED, ORANGE), ("-", "--", ":"), strict=True):
        two.plot(x, kernels.pair(x, weights), color=colour, ls=line, lw=1.2, label=weights)
    for kind, colour, name in ((PAIR_FIXED, ORANGE, "12 with fixed Q"), (PAIR, BLUE, "12 with varying Q")):
        few = _wide(data, kind).head(12)
        single.plot(few.columns, few.T, color=colour, lw=0.6)[0].set_label(name)
    single.plot(x, kernels.pair(x), color=BLACK, lw=1.2, label="mean, theory")
    for kind, colour, marker in ((CHANGING, BLUE, "o"), (CONSTANT, GREEN, "^")):
        y = REFERENCE_POINTS[kind]
        x = _plot(adaptive, data, kind, color=colour, marker=marker, label=f"measured, y = {y:g}")
        adaptive.plot(x, kernels.adaptive(x, y), color=BLACK, lw=1.2)
        adaptive.plot(x, kernels.adaptive(x, y, as_printed=True), color=RED, lw=1.2, ls="--")
    adaptive.lines[-2].set_label("weights (Q(y)†Q(x))_kk")
    adaptive.lines[-1].set_label("weights (Q(x)Q(y)†)_kk")
    for title, axis in axes.items():
        low, high = axis.get_ylim()
        axis.set(title=title, ylim=(low, high + 0.5 * (high - low)), ylabel="similarity (no unit)")
        axis.set_xlabel("x (no unit)" if axis is adaptive else "x - y (no unit)")
        axis.legend(loc="upper center", ncols=2, fontsize=8, handlelength=1.5)
    return figure


def _follows(data: pd.DataFrame, kind: str, prediction: Callable[[Array], Array], name: str = "") -> Check:
    curve = _wide(data, kind).agg(["mean", "sem"]).T
    curve = curve[curve["sem"] > _ROUNDING]  # excludes the similarity of an encoding with itself, which is exactly 1
    expected = list(prediction(curve.index.to_numpy()))
    return all_equal(f"{name or kind}, all x", list(curve["mean"]), list(curve["sem"]), expected)


def _is_equal(data: pd.DataFrame, what: str, kind: str, other: str | float) -> Check:
    expected = _wide(data, other) if isinstance(other, str) else other
    return is_close(what, float((_wide(data, kind) - expected).abs().to_numpy().max()), 0.0, tolerance=_ROUNDING)


def _rbf_is_recovered(data: pd.DataFrame, settings: Settings) -> list[Check]:
    curves = _wide(data, RBF).loc[:, 3.5:]
    variance = mean_with_error(((curves - KERNELS["rbf"](curves.columns.to_numpy())) ** 2).mean(axis=1))
    return [
        _follows(data, RBF, KERNELS["rbf"]),
        _is_equal(data, "largest change when both inputs are shifted", SHIFTED, RBF),
        equals("variance where the kernel is almost zero", *variance, 1 / (2 * settings["dim"] * M)),
    ]


def _is_mean_of_kernels(data: pd.DataFrame, settings: Settings) -> list[Check]:
    return [_follows(data, MIXED, kernels.mixture), _is_equal(data, "largest |weight - 1|", WEIGHTS, 1.0)]


def _pair_follows(data: pd.DataFrame, settings: Settings, weights: str) -> list[Check]:
    return [_follows(data, PAIR, partial(kernels.pair, weights=weights), f"weights {weights}")]


def _weights_have_signs(data: pd.DataFrame, settings: Settings) -> list[Check]:
    weights = [mean_with_error(_wide(data, PAIR_WEIGHTS)[k]) for k in range(M)]
    checks = [equals(f"weight of kernel {k + 1}", *weights[k], sign / 2) for k, sign in enumerate(kernels.PAIR_SIGNS)]
    return checks + _pair_follows(data, settings, kernels.SIGNED)


def _adaptive_follows(data: pd.DataFrame, settings: Settings, *, as_printed: bool) -> list[Check]:
    curves = [
        _follows(data, kind, partial(kernels.adaptive, y=y, as_printed=as_printed))
        for kind, y in REFERENCE_POINTS.items()
    ]
    if as_printed:
        return curves
    return [*curves, _is_equal(data, "largest |weight - 1| where Q(x) = Q(y)", CONSTANT_WEIGHTS, 1.0)]


def _context_matters(data: pd.DataFrame, settings: Settings) -> list[Check]:
    difference = mean_with_error(_wide(data, CONSTANT)[4.0] - _wide(data, CHANGING)[1.0])
    expected = [float(kernels.adaptive(np.array([y + 1]), y)[0]) for y in REFERENCE_POINTS.values()]
    return [equals("similarity of 3 and 4 minus that of 0 and 1", *difference, expected[1] - expected[0])]


def _has_expected_std(data: pd.DataFrame, settings: Settings, kind: str) -> list[Check]:
    deviation = _wide(data, kind) - float(kernels.pair(np.zeros(1))[0])
    return [
        equals(f"std, {kind}, D = {dim}", *std_with_error(deviation[dim]), kernels.pair_std(dim))
        for dim in settings["dims"]
    ]


def _shape_is_the_same(data: pd.DataFrame, settings: Settings) -> list[Check]:
    same = _is_equal(data, "one encoding: largest difference between fixed and varying Q", MIXED_FIXED, MIXED)
    pairs = [_follows(data, kind, kernels.pair) for kind in (PAIR, PAIR_FIXED)]
    return [same, *pairs, *_has_expected_std(data, settings, AT_0)]


_SIZES = {"dim": 1000, "reach": 4.0, "points": 41, "dims": [250, 1000, 4000]}

CLAIMS = [
    Claim(
        "Section on FHRR; section on encoding data",
        "The similarity of encodings approximates a shift-invariant kernel; for Gaussian frequencies, the RBF kernel.",
        _rbf_is_recovered,
        comment="The standard error is 1/√(2Dm). At equal total dimension Dm² it grows as √m.",
    ),
    Claim(
        "Section on kernel properties, special case φ₁ = φ₂",
        "For one encoding all weights are 1, and the kernel is the mean of the kernels of the diagonal entries.",
        _is_mean_of_kernels,
    ),
    Claim(
        "Section on kernel properties, first equation",
        "Two encodings with the same phases have the similarity (1/m) Re Σ_k E[Q_kk] E[exp(i w_k (x - y))].",
        _weights_have_signs,
        comment="For symmetric frequencies this is a sum of kernels with weights Re E[Q_kk], which can be negative.",
    ),
    Claim(
        "Equation weighted-kernel",
        "With Q_kk = r_k exp(iθ_k) the weights are E[r_k], and the phase θ_k becomes part of the kernel.",
        partial(_pair_follows, weights=kernels.PRODUCT),
        corrected=partial(_pair_follows, weights=kernels.SIGNED),
        correction="The weight of the k-th kernel is Re E[Q_kk]. It factorises only if r_k and θ_k are independent.",
        rejected={"weights E[r_k], and kernels without θ_k": partial(_pair_follows, weights=kernels.SIZE)},
    ),
    Claim(
        "Discussion, input-dependent Q",
        "If Q depends on the input, the diagonal of Q(x)Q(y)† gives the weights of the kernels.",
        partial(_adaptive_follows, as_printed=True),
        corrected=partial(_adaptive_follows, as_printed=False),
        correction="The diagonal of Q(y)†Q(x) gives the weights. It is 1 if Q(x) = Q(y).",
    ),
    Claim(
        "Table of GHRR variants; discussion, input-dependent Q",
        "With a Q that depends on the input, the scale at which items are compared depends on the context.",
        _context_matters,
    ),
    Claim(
        "Discussion, varying Q over dimensions",
        "Varying Q over the dimensions does not change the shape of the kernel; as D grows it converges to the mean.",
        _shape_is_the_same,
        rejected={"a single pair with fixed Q also converges": partial(_has_expected_std, kind=AT_0_FIXED)},
        comment="For one encoding this is exact. For two it holds on average: a pair with fixed Q has the kernel of "
        "its own Q for any D.",
    ),
]

EXPERIMENT = Experiment(
    name="kernel-shapes",
    title="The similarity of encodings is a kernel, and the rotations weight its parts",
    caption="Points: mean over encodings, with standard errors. Grey band: two standard deviations of a single "
    "encoding. Lines: theory. Two encodings: Q₂†Q₁ is diag(1, 1, -1) in half of the slots, and that times a Haar "
    "matrix in the others; the dashed line uses the weights as printed, the dotted line their sizes. Bottom: Q(x) "
    "changes between x = -1 and 1, for two of three kernels.",
    settings={"quick": {**_SIZES, "blocks": 100}, "full": {**_SIZES, "blocks": 300}},
    run_trial=run_trial,
    draw=draw,
    claims=CLAIMS,
)
