"""Figure heatmap: finding the members of a bundle among 1000 hypervectors, by total dimension and bundle size."""

from __future__ import annotations

import functools
import math

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

import ghrr
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings, repeat
from ghrr_lab.paper.statistics import all_equal, difference_with_error, equals, mean_with_error, rows_where
from ghrr_lab.paper.style import BLACK, M_COLOURS, M_MARKERS, new_figure, style
from ghrr_lab.paper.theory.sampling import draw_seed

OWN, SHARED = ("fixed", "varying"), "shared"


def trials(settings: Settings) -> list[Params]:
    variants = [(m, rotation) for m in settings["ms"] for rotation in OWN]
    variants += [(m, SHARED) for m in settings["ms"] if m > 1]  # the rejected interpretation
    return repeat(({"m": m, "rotation": rotation} for m, rotation in variants), settings["blocks"])


def find_members(items: Tensor, sizes: Tensor, generator: torch.Generator) -> Tensor:
    """Bundle random items and look for them by similarity.

    Returns for each size k the share of the k bundled items among the k items that are most similar to the bundle.
    """
    order = torch.rand(len(sizes), len(items), generator=generator).argsort(dim=1).argsort(dim=1)
    chosen = order < sizes[:, None]
    bundles = torch.tensordot(chosen.to(items.dtype), items, dims=1)
    ranks = ghrr.pairwise_similarity(bundles, items).argsort(dim=1, descending=True).argsort(dim=1)
    return (chosen & (ranks < sizes[:, None])).sum(dim=1) / sizes


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    m, rotation = params["m"], params["rotation"]
    sizes = torch.tensor(settings["sizes"])
    first = params["block"] * settings["repetitions"]
    tables = []
    for repetition in range(first, first + settings["repetitions"]):
        # A shared rotation is derived from the seed of the space.
        space = ghrr.Space(max(settings["total_dims"]) // m**2, m, rotation=rotation, seed=draw_seed(generator))
        items = space.random(settings["items"], generator=generator)
        for total_dim in settings["total_dims"]:
            found = find_members(items[:, : total_dim // m**2], sizes, generator)  # slots are independent
            cell = {"m": m, "rotation": rotation, "repetition": repetition, "total_dim": total_dim}
            tables.append(pd.DataFrame({"k": settings["sizes"], "accuracy": found.double()}).assign(**cell))
    return pd.concat(tables, ignore_index=True)


@functools.cache
def theory(items: int, k: int, noise: float) -> float:
    """Predict the share of the k bundled items among the k items that are most similar to the bundle.

    The scores of other items are Gaussian noise of variance ks², where s is ``noise``. Those of bundled items are 1
    plus noise of variance (k - 1)s². Since the similarity of two bundled items adds to both scores, a part s² of the
    variance is common to all of them and does not change their order, which leaves (k - 2)s². An item is found if fewer
    than k other items have higher scores. Their number is a sum of two binomial variables.
    """
    z = torch.linspace(-6, 6, 241, dtype=torch.float64)
    density = torch.exp(-z.square() / 2)
    higher_inside = torch.special.ndtr(-z)
    higher_outside = torch.special.ndtr(-(1 + math.sqrt(k - 2) * noise * z) / (math.sqrt(k) * noise))
    inside = _binomial(k - 1, higher_inside, k)
    outside = _binomial(items - k, higher_outside, k).cumsum(dim=1)
    found = (inside * outside.flip(1)).sum(dim=1)
    return ((density * found).sum() / density.sum()).item()


def _binomial(n: int, chance: Tensor, count: int) -> Tensor:
    """Return the probabilities of 0 to count - 1 successes in n trials, a row for each ``chance``."""
    j, p = torch.arange(count, dtype=torch.float64), chance[:, None]
    choices = math.lgamma(n + 1) - torch.lgamma(j + 1) - torch.lgamma(n - j + 1)
    return torch.exp(choices + torch.xlogy(j, p) + torch.special.xlog1py(n - j, -p))


def _expected(settings: Settings, total_dim: int, k: int, m: int = 1, rotation: str = "varying") -> float:
    noise = ghrr.Space.from_total(total_dim, m, rotation=rotation).noise_std
    return theory(settings["items"], k, noise)


def _map(data: pd.DataFrame, m: int, rotation: str) -> pd.DataFrame:
    """Return the accuracies of a variant: a row per repetition, a column per total dimension and bundle size."""
    rows = rows_where(data, m=m, rotation=rotation)
    return rows.pivot_table(index="repetition", columns=["total_dim", "k"], values="accuracy")


@style()
def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    figure = new_figure(9.2)
    grid = figure.add_gridspec(len(settings["ms"]) + 1, 2, height_ratios=[1] * len(settings["ms"]) + [1.9])
    maps = []
    for row, m in enumerate(settings["ms"]):
        for column, rotation in enumerate(OWN):
            axis = figure.add_subplot(grid[row, column])
            means = _map(data, m, rotation).mean().unstack("total_dim")
            image = axis.imshow(means, origin="lower", aspect="auto", vmin=0.5, vmax=1.0, cmap="viridis")
            axis.set_title(f"m = {m}, {rotation} Q")
            last = row == len(settings["ms"]) - 1
            axis.set_xticks(range(len(means.columns)), [str(n) for n in means.columns] if last else [], fontsize=8)
            axis.set_yticks(range(0, len(means), 2), [str(k) for k in means.index[::2]] if column == 0 else [])
            axis.set_xlabel("total dimension Dm² (numbers)" if last else "")
            axis.set_ylabel("k (items)" if column == 0 else "")
            maps.append(axis)
    figure.colorbar(image, ax=maps, label="share of members found (no unit)", fraction=0.05)
    _draw_cut(figure.add_subplot(grid[-1, :]), data, settings)
    return figure


def _draw_cut(axis: Axes, data: pd.DataFrame, settings: Settings) -> None:
    total_dim, sizes = settings["cut"], np.array(settings["sizes"])
    smooth = range(sizes[0], sizes[-1] + 1)
    variants = [(m, "varying") for m in settings["ms"]] + [(m, SHARED) for m in settings["ms"] if m > 1]
    for m, rotation in variants:
        cells = _map(data, m, rotation)[total_dim]
        own = rotation != SHARED
        error = cells.std() / math.sqrt(len(cells))
        label = f"m = {m}" if own else f"m = {m}, one Q for all"
        x, colour = sizes + 0.8 * (m - 2.5), M_COLOURS[m]  # shifted so that markers do not overlap
        bars = axis.errorbar(x, cells.mean(), error, ls="none", marker=M_MARKERS[m], ms=4, color=colour, label=label)
        bars.lines[0].set_markerfacecolor(colour if own else "none")
        if m == 1 or not own:
            curve = [_expected(settings, total_dim, k, m, rotation) for k in smooth]
            axis.plot(smooth, curve, lw=1.2, color=BLACK if own else M_COLOURS[m], ls="-" if own else ":")
    axis.set_title(f"Cut at total dimension {total_dim}, varying or shared Q (lines: theory)")
    axis.set_xlabel("size k of the bundle (items)")
    axis.set_ylabel("share found (no unit)")
    axis.set_ylim(0.2, 1.03)  # with space for the legend
    axis.legend(ncols=2, loc="lower left")


def _follows_theory(data: pd.DataFrame, settings: Settings) -> list[Check]:
    """Check every cell of every map. The variance of a cell is averaged over all maps, as each has few repetitions."""
    variants = [(m, rotation) for m in settings["ms"] for rotation in OWN]
    maps = {variant: _map(data, *variant) for variant in variants}
    repetitions = len(maps[variants[0]])
    cell_names = maps[variants[0]].columns
    variance = np.mean([cells.var() for cells in maps.values()], axis=0)
    one_more = 1 / (repetitions * cell_names.get_level_values("k").to_numpy())  # keeps the error positive
    errors = np.hypot(np.sqrt(variance / repetitions), one_more)
    expected = [_expected(settings, total_dim, k) for total_dim in settings["total_dims"] for k in settings["sizes"]]
    return [
        all_equal(f"m = {m}, {rotation} Q and theory", list(cells.mean()), list(errors), expected)
        for (m, rotation), cells in maps.items()
    ]


def _equal_fhrr(rotations: tuple[str, ...], data: pd.DataFrame, settings: Settings) -> list[Check]:
    fhrr = mean_with_error(_map(data, 1, "varying").mean(axis=1))
    checks = []
    for m, rotation in ((m, rotation) for m in settings["ms"] if m > 1 for rotation in rotations):
        change = difference_with_error(mean_with_error(_map(data, m, rotation).mean(axis=1)), fhrr)
        checks.append(equals(f"mean accuracy of the map, m = {m}, {rotation} Q minus FHRR", *change, 0.0))
    return checks


def _differences_are_negligible(data: pd.DataFrame, settings: Settings) -> list[Check]:
    return _equal_fhrr(OWN, data, settings) + _follows_theory(data, settings)


CLAIMS = [
    Claim(
        "Section on capacity, figure heatmap",
        "The decoding accuracies for m = 1 to 4, with fixed or varying Q, differ negligibly: the bundling capacity of "
        "GHRR is comparable to that of FHRR.",
        _differences_are_negligible,
        rejected={"all hypervectors share one Q": functools.partial(_equal_fhrr, (SHARED,))},
        comment="The noise depends on the total dimension only. If all hypervectors shared one Q, its variance would "
        "be m times as large, and only about 1/m as many items could be bundled.",
    ),
]

EXPERIMENT = Experiment(
    name="bundling-heatmaps",
    title="Bundling capacity of base hypervectors",
    caption=(
        "k of 1000 random hypervectors are bundled; the k most similar to the bundle are decoded as its members. The "
        "total dimensions are multiples of 144, so that D is an integer for m = 1 to 4. Fixed and varying Q: each "
        "hypervector has its own Q, the same in all slots or a different one per slot. One Q for all: all "
        "hypervectors share the same Q."
    ),
    settings={
        "quick": {
            "items": 1000,
            "ms": [1, 2, 3, 4],
            "total_dims": [144, 288, 432, 576],
            "sizes": [5, 10, 20, 30, 50, 75, 100, 150],
            "cut": 576,
            "repetitions": 4,
            "blocks": 5,
        },
        "full": {
            "items": 1000,
            "ms": [1, 2, 3, 4],
            "total_dims": [144, 288, 432, 576, 720, 864, 1008],
            "sizes": [5, 10, 20, 30, 40, 50, 75, 100, 125, 150],
            "cut": 576,
            "repetitions": 4,
            "blocks": 10,
        },
    },
    run_trial=run_trial,
    draw=draw,
    trials=trials,
    claims=CLAIMS,
)
