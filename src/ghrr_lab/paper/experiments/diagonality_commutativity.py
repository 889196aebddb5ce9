"""Figure diagonality: the diagonality of rotations and the degree of commutativity of hypervectors."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

import ghrr
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings
from ghrr_lab.paper.statistics import (
    all_equal,
    difference_with_error,
    equals,
    exceeds,
    is_close,
    mean_with_error,
    rows_where,
    share_with_error,
)
from ghrr_lab.paper.style import BLACK, BLUE, M_COLOURS, M_MARKERS, ORANGE, new_figure, style
from ghrr_lab.paper.theory.rotations import mean_commutativity, mean_square_diagonal
from ghrr_lab.paper.theory.sampling import random_phases

DESCENT, PLAIN, SLOW = "descent with Adam", "plain descent, step 1", "plain descent, step 0.1"
STEPS = {DESCENT: None, PLAIN: 1.0, SLOW: 0.1}
CLOSED, SAME, VARYING = "closed form", "closed form, both of the same target", "closed form, varying Q"
HAAR, EXPONENTIAL, ZERO, ONE = "Haar", "exp(iH) of a Gaussian X", "diagonality 0", "diagonality 1"
STRONG, CLOSE = 0.6, 0.02  # bounds for a strong correlation, and for the distance to a target


def free_commutativity(sampler: str, m: int) -> float:
    """Predict the mean degree of commutativity of rotations drawn without a target diagonality."""
    return (1 / m if sampler == HAAR else mean_square_diagonal(m)) ** 2


def _gaussian(*shape: int, generator: torch.Generator) -> Tensor:
    return torch.complex(*torch.randn(2, *shape, generator=generator, dtype=torch.float64))


def descend(targets: Tensor, m: int, generator: torch.Generator, steps: int, plain: float | None = None) -> Tensor:
    """Draw rotations exp(iH(X)) with target diagonalities by gradient descent on X, as in the paper.

    Uses Adam, or plain gradient descent with the step size ``plain``.
    """
    x = _gaussian(*targets.shape, m, m, generator=generator).requires_grad_()
    optimizer = torch.optim.Adam([x], lr=0.05) if plain is None else torch.optim.SGD([x], lr=plain)
    for _ in range(steps):
        optimizer.zero_grad()
        error = ghrr.unitary.diagonality(ghrr.unitary.exp_hermitian(x)) - targets
        error.square().sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return ghrr.unitary.exp_hermitian(x.detach())


def _compare(rotations: Tensor, dim: int, generator: torch.Generator) -> pd.DataFrame:
    """Measure pairs of hypervectors with these rotations, ``(2, pairs, 1 or dim, m, m)``. Returns a row per pair."""
    _, pairs, _, m, _ = rotations.shape
    first, second = rotations * random_phases(2, pairs, dim, m, generator=generator)[..., None, :]
    by_slot = ghrr.commutativity(first[..., None, :, :], second[..., None, :, :])
    law = mean_commutativity(*rotations)
    table = {"law": law.mean(dim=-1), "commutativity": by_slot.mean(dim=-1), "error": (by_slot - law).std(dim=-1)}
    one, two = ghrr.unitary.diagonality(rotations).mean(dim=-1)
    return pd.DataFrame({"first": one, "second": two, **table}).assign(error=lambda t: t["error"] / math.sqrt(dim))


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    m, dim, pairs, free = params["m"], settings["dim"], settings["pairs"], settings["free"]
    options: dict[str, Any] = {"m": m, "generator": generator, "dtype": torch.complex128}
    targets = torch.rand(2, pairs, generator=generator, dtype=torch.float64)
    drawn = [ghrr.unitary.with_diagonality(target, dim, **options) for target in targets.flatten().tolist()]
    closed = torch.stack(drawn).reshape(2, pairs, dim, m, m)
    rotations = {
        CLOSED: closed[:, :, :1],
        SAME: torch.stack([closed[0, :, :1], closed[0, :, 1:2]]),
        VARYING: closed,
        HAAR: ghrr.unitary.haar(2, free, 1, **options),
        EXPONENTIAL: ghrr.unitary.exp_hermitian(_gaussian(2, free, 1, m, m, generator=generator)),
        ZERO: ghrr.unitary.with_diagonality(0.0, 2, pairs, 1, **options),
        ONE: ghrr.unitary.with_diagonality(1.0, 2, pairs, 1, **options),
    }
    for sampler in STEPS if m == settings["plain_m"] else (DESCENT,):
        rotations[sampler] = descend(targets, m, generator, settings["steps"], STEPS[sampler])[:, :, None]
    tables = {sampler: _compare(q, dim, generator).assign(sampler=sampler, m=m) for sampler, q in rotations.items()}
    for table in (tables[sampler] for sampler in STEPS if sampler in tables):
        table["missed"] = np.abs(table[["first", "second"]].to_numpy().T - targets.numpy()).max(axis=0)
    return pd.concat(tables.values(), ignore_index=True)


def _select(data: pd.DataFrame, sampler: str, **columns: int) -> pd.DataFrame:
    rows = rows_where(data, sampler=sampler, **columns)
    return rows.assign(sum=rows["first"] + rows["second"], product=rows["first"] * rows["second"])


def correlation(rows: pd.DataFrame, of: str) -> pd.Series[float]:
    """Return values whose mean is Pearson's r with commutativity, and whose standard error is the one of r.

    They are r plus its influence function, which has mean 0, so the error is valid for any distribution.
    """
    a, b = ((rows[name] - rows[name].mean()) / rows[name].std(ddof=0) for name in (of, "commutativity"))
    r = (a * b).mean()
    return a * b - r * (a**2 + b**2) / 2 + r


@style()
def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    ms = settings["ms"]
    figure = new_figure(6.2)
    axes = figure.subplots(2, 3).flatten()
    for axis, m in zip(axes, ms, strict=False):
        rows = _select(data, DESCENT, m=m)
        options: Any = {"color": M_COLOURS[m], "marker": M_MARKERS[m], "ms": 3, "mfc": "none", "ls": "", "lw": 0.8}
        axis.errorbar(rows["sum"], rows["commutativity"], rows["error"], **options, label="measured")
        axis.plot(rows["sum"], rows["law"], ls="", marker=".", ms=2, color=BLACK, label="theory")
        axis.set(title=f"m = {m}: r = {correlation(rows, 'sum').mean():.2f}", xlabel="sum of diagonalities")
        axis.set(xlim=(0, 2), ylim=(-0.25, 1.6), yticks=[0, 0.5, 1])
        axis.legend(loc="upper left", handletextpad=0.1)
    for sampler, colour, marker, name in ((HAAR, BLUE, "o", "Haar"), (EXPONENTIAL, ORANGE, "^", "exp(iH)")):
        mean, error = zip(*(mean_with_error(_select(data, sampler, m=m)["commutativity"]) for m in ms), strict=True)
        axes[-1].errorbar(ms, mean, error, color=colour, marker=marker, ms=5, ls="", capsize=3, label=name)
        axes[-1].plot(ms, [free_commutativity(sampler, m) for m in ms], color=colour, lw=1, label=f"{name}, theory")
    axes[-1].set(title="Q without target", xlabel="m (no unit)", xticks=ms)
    axes[-1].legend()
    figure.supylabel("degree of commutativity (no unit)")
    return figure


def _follows_law(data: pd.DataFrame, settings: Settings) -> list[Check]:
    checks = []
    for m in settings["ms"]:
        rows = data[(data["m"] == m) & (data["sampler"] != ONE)]  # diagonal rotations commute exactly
        columns = (list(rows[name]) for name in ("commutativity", "error", "law"))
        checks.append(all_equal(f"commutativity of each pair, m = {m}", *columns))
        difference = mean_with_error(rows["commutativity"] - rows["law"])
        checks.append(equals(f"mean of measured - theory, m = {m}", *difference, 0.0))
    return checks


def _reach_targets(data: pd.DataFrame, settings: Settings, samplers: tuple[str, ...]) -> list[Check]:
    reached = {sampler: _select(data, sampler)["missed"] <= CLOSE for sampler in samplers}
    shares = {sampler: share_with_error(int(close.sum()), len(close)) for sampler, close in reached.items()}
    what = f"share of pairs within {CLOSE} of both targets"
    return [exceeds(f"{what}, {sampler}", *share, 0.9) for sampler, share in shares.items()]


def _are_correlated(data: pd.DataFrame, settings: Settings) -> list[Check]:
    r = {f"m = {m}, {DESCENT}": correlation(_select(data, DESCENT, m=m), "sum") for m in settings["ms"]}
    for sampler in (DESCENT, CLOSED, SAME, VARYING):
        r[f"all m, {sampler}"] = correlation(_select(data, sampler), "sum")
    return [exceeds(f"Pearson's r, {which}", *mean_with_error(value), STRONG) for which, value in r.items()]


def _sum_is_best(data: pd.DataFrame, settings: Settings) -> list[Check]:
    rows = _select(data, DESCENT)
    difference = correlation(rows, "sum") - correlation(rows, "product")
    return [exceeds("r of the sum - r of the product", *mean_with_error(difference), 0.0)]


def _larger_m_is_less_diagonal(data: pd.DataFrame, settings: Settings) -> list[Check]:
    ms, checks = settings["ms"], []
    for sampler in (HAAR, EXPONENTIAL):
        rows = {m: _select(data, sampler, m=m) for m in ms}
        values = {m: pd.concat([rows[m]["first"], rows[m]["second"]]) for m in ms}
        low = values[ms[-1]] < 1 / 3
        share = share_with_error(int(low.sum()), len(low))
        checks.append(exceeds(f"share of diagonalities below 1/3, {sampler}, m = {ms[-1]}", *share, 0.5))
        means = {m: mean_with_error(values[m]) for m in ms}
        for m, following in itertools.pairwise(ms):
            fall = difference_with_error(means[m], means[following])
            checks.append(exceeds(f"decrease of mean diagonality, {sampler}, m = {m} to {following}", *fall, 0.0))
        for m in ms:
            mean = mean_with_error(rows[m]["commutativity"])
            checks.append(equals(f"mean commutativity, {sampler}, m = {m}", *mean, free_commutativity(sampler, m)))
            if sampler == HAAR:  # columns can be exchanged, so the diagonal is as large as each of its m - 1 shifts
                checks.append(equals(f"mean diagonality, {sampler}, m = {m}", *means[m], 1 / m))
    return checks


def _holds_at_extremes(data: pd.DataFrame, settings: Settings) -> list[Check]:
    deviation = float((_select(data, ONE)["commutativity"] - 1).abs().max())
    rounding = 20 * settings["dim"] * torch.finfo(torch.float64).eps
    zero = {m: mean_with_error(_select(data, ZERO, m=m)["commutativity"]) for m in settings["ms"]}
    commute = is_close("largest |commutativity - 1| at diagonality 1", deviation, 0.0, tolerance=rounding)
    return [commute, *(equals(f"mean commutativity at diagonality 0, m = {m}", *zero[m], 0.0) for m in zero)]


def _zero_is_least(data: pd.DataFrame, settings: Settings) -> list[Check]:
    return [exceeds("lowest predicted commutativity of any pair", float(data["law"].min()), 0.0, -1e-9)]


_SIZES = {"ms": [2, 3, 4, 5, 6], "dim": 400, "pairs": 30, "free": 200, "steps": 300, "plain_m": 4}

CLAIMS = [
    Claim(
        "Section on experiments, first item; section on the effect of Q",
        "Binding does not commute, and the matrix Q controls the degree of commutativity.",
        _follows_law,
        comment="For uniform phases, the mean of δ(H₁*H₂, H₂*H₁) is (1/m) Re Σ_b conj(Q₁_bb) Q₂_bb (Q₂†Q₁)_bb.",
    ),
    Claim(
        "Section on the effect of Q, sampling",
        "Gradient descent on X brings the diagonality of exp(iH(X)) close to the target.",
        partial(_reach_targets, samplers=(DESCENT, PLAIN)),
        rejected={"plain descent with a step ten times smaller": partial(_reach_targets, samplers=(SLOW,))},
        comment="The paper does not specify the optimiser. Plain gradient descent with step 1, tested for one m, "
        "reaches the targets as Adam does.",
    ),
    Claim(
        "Figure diagonality",
        "The sum of the diagonalities and the degree of commutativity are strongly correlated.",
        _are_correlated,
        rejected={"the sum predicts better than the product": _sum_is_best},
        comment="A correlation above 0.6, a common bound, counts as strong.",
    ),
    Claim(
        "Section on the effect of Q, last paragraph; section on decoding accuracy, last paragraph",
        "For larger m, a low diagonality, and thus a low degree of commutativity, is more probable.",
        _larger_m_is_less_diagonal,
        comment="Haar rotations have a mean diagonality of 1/m and a mean commutativity of 1/m².",
    ),
    Claim(
        "Section on decoding accuracy, figure decode-diag",
        "With diagonality 1 binding commutes; matrices of diagonality 0 commute as little as permutations.",
        _holds_at_extremes,
        rejected={"no pair commutes less than one of diagonality 0": _zero_is_least},
        comment="At diagonality 0 the two products are dissimilar on average. Some pairs of other diagonalities have "
        "negative commutativity, down to -1/8 for real rotations by 60° and -60°.",
    ),
]

EXPERIMENT = Experiment(
    name="diagonality-commutativity",
    title="Hypervectors with more diagonal rotations have a higher degree of commutativity",
    caption="Each point is a pair of hypervectors with rotations Q₁, Q₂, the same in all slots, whose diagonalities "
    "are random targets reached by gradient descent. Bars: standard errors over the slots. Dots: theory for that pair, "
    "(1/m) Re Σ_b conj(Q₁_bb) Q₂_bb (Q₂†Q₁)_bb. Last panel: mean over rotations drawn without a target.",
    settings={"quick": {**_SIZES, "blocks": 2}, "full": {**_SIZES, "blocks": 10}},
    run_trial=run_trial,
    draw=draw,
    trials=lambda settings: [{"m": m, "block": block} for block in range(settings["blocks"]) for m in settings["ms"]],
    claims=CLAIMS,
)
