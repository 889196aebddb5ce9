"""Table sequence: perplexities of language models, as published and in our own runs."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from ghrr.files import read_bytes
from ghrr_lab.paper import language_model_runs as lm
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings
from ghrr_lab.paper.statistics import (
    Measured,
    all_equal,
    difference_with_error,
    equals,
    exceeds,
    is_close,
    ratio_with_error,
    rows_where,
)
from ghrr_lab.paper.style import BLACK, BLUE, ORANGE, new_figure, style

PAPER, OURS, GHRR = "paper", "ours", "ghrr"
_OUTLIER = 1.25  # values above this multiple of the median of a panel are written as numbers
_ROUNDING = 0.005  # perplexities and percentages are printed with two decimals
_GAIN = {"wikitext-2": 5.47, "wikitext-2-small": 5.47, "ptb": 2.75}


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    published = [{"source": PAPER, **row, "runs": 5, "seed": -1, "parameters": 0} for row in lm.published_results()]
    ours = [{"source": OURS, **row, "runs": 1, "std": math.nan} for row in lm.read_runs(Path(settings["results"]))]
    return pd.DataFrame(published + ours)


def average_runs(data: pd.DataFrame) -> pd.DataFrame:
    """Return the mean perplexity of every configuration, and its standard error, which is NaN for a single run.

    A published configuration is one row with a standard deviation. One of ours has a row per seed.
    """
    groups = data.groupby(["source", "data", "model", "sharing", "positions"], sort=False)
    std = groups["perplexity"].std().fillna(groups["std"].max())
    return pd.DataFrame(
        {"perplexity": groups["perplexity"].mean(), "error": std / np.sqrt(groups["runs"].sum())}
    ).reset_index()


def mean_of(cells: pd.DataFrame) -> Measured:
    """Return the mean over configurations and its standard error."""
    return float(cells["perplexity"].mean()), math.hypot(*cells["error"]) / len(cells)


def gain(before: Measured, after: Measured) -> Measured:
    """Return the decrease of the perplexity in percent, with its standard error."""
    ratio, error = ratio_with_error(after, before)
    return 100 * (1 - ratio), 100 * error


def gain_as_printed(what: str, before: float, after: float, printed: float) -> Check:
    """Check that a printed percentage follows from printed perplexities, within the rounding of all three."""
    tolerance = 100 * _ROUNDING * (1 / before + after / before**2) + _ROUNDING
    return is_close(f"{what} (%)", 100 * (1 - after / before), printed, tolerance=tolerance)


def _compared(data: pd.DataFrame, source: str) -> Iterator[tuple[str, str, pd.DataFrame, pd.DataFrame]]:
    """Yield corpus, display name, configurations and baseline of every GHRR model whose corpus has a baseline."""
    table = average_runs(rows_where(data, source=source)).dropna(subset="error")
    for (corpus, model), cells in table.groupby(["data", "model"], sort=False):
        base = rows_where(table, data=corpus, model=lm.VANILLA)
        if str(model).startswith(GHRR) and len(base):
            name = lm.DATA[str(corpus)] + (f", {model}" if source == OURS else "")
            yield str(corpus), name, cells, base


def _beats_baseline(source: str, data: pd.DataFrame, settings: Settings) -> list[Check]:
    checks = []
    for _, name, cells, base in _compared(data, source):
        worst = cells.loc[[cells["perplexity"].idxmax()]]
        difference = difference_with_error(mean_of(base), mean_of(worst))
        checks.append(exceeds(f"{name}: baseline - worst variant", *difference, 0.0))
    return checks


def _text_agrees(data: pd.DataFrame, settings: Settings) -> list[Check]:
    checks = []
    for (corpus, name, cells, base), best in zip(_compared(data, PAPER), (5.53, 3.44), strict=True):
        before = mean_of(base)[0]
        checks.append(gain_as_printed(f"{name}: average gain", before, mean_of(cells)[0], _GAIN[corpus]))
        checks.append(gain_as_printed(f"{name}: best gain", before, float(cells["perplexity"].min()), best))
    return checks


def _gain_by_variation(data: pd.DataFrame, varied: tuple[str, ...]) -> list[Check]:
    cells = next(cells for corpus, _, cells, _ in _compared(data, PAPER) if corpus == "ptb")
    same, other = (mean_of(cells.loc[cells["sharing"].isin(names)])[0] for names in (["all"], varied))
    names = " or ".join(lm.SHARING[name] for name in varied)
    return [gain_as_printed(f"Penn Treebank: gain of {names} over all same", same, other, 2.56)]


def _variation_helps(source: str, data: pd.DataFrame, settings: Settings) -> list[Check]:
    checks = []
    for _, name, cells, _ in _compared(data, source):
        same, varied = (cells.loc[(cells["sharing"] == "all") == value] for value in (True, False))
        if len(same) and len(varied):
            difference = difference_with_error(mean_of(same), mean_of(varied))
            checks.append(exceeds(f"{name}: all same - varied", *difference, 0.0))
    return checks


def _training_is_negligible(source: str, data: pd.DataFrame, settings: Settings) -> list[Check]:
    checks = []
    for _, name, cells, _ in _compared(data, source):
        pairs = cells.pivot(index="sharing", columns="positions", values=["perplexity", "error"]).dropna()
        if lm.FIXED in pairs["perplexity"] and lm.TRAINED in pairs["perplexity"] and len(pairs):
            difference = list(pairs["perplexity"][lm.FIXED] - pairs["perplexity"][lm.TRAINED])
            errors = list(np.hypot(pairs["error"][lm.FIXED], pairs["error"][lm.TRAINED]))
            checks.append(all_equal(f"{name}: fixed - trained", difference, errors, [0.0] * len(errors)))
    return checks


def _our_gain(data: pd.DataFrame, settings: Settings) -> list[Check]:
    compared = [
        (corpus, name, gain(mean_of(base), mean_of(cells))) for corpus, name, cells, base in _compared(data, OURS)
    ]
    return [equals(f"{name}: average gain (%)", *value, _GAIN[corpus]) for corpus, name, value in compared]


def _our_sizes(data: pd.DataFrame, settings: Settings) -> list[Check]:
    """Check that the numbers of parameters differ by less than a tenth."""
    checks = []
    for corpus, rows in rows_where(data, source=OURS).groupby("data"):
        base = rows_where(rows, model=lm.VANILLA)["parameters"]
        others = rows.loc[rows["positions"] != lm.NONE, "parameters"]
        if len(base) and len(others):
            worst = max((others / base.iloc[0]).to_list(), key=lambda ratio: abs(ratio - 1))
            name = f"{lm.DATA[str(corpus)]}: parameters of GHRR / baseline, farthest from 1"
            checks.append(Check(name, worst, 0.0, "0.9 to 1.1", 0.9 < worst < 1.1))
    return checks


@style()
def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    markers = {lm.NONE: ("D", BLACK, 0.0), lm.FIXED: ("o", BLUE, -0.13), lm.TRAINED: ("s", ORANGE, 0.13)}
    table = average_runs(data)
    table["row"] = [
        lm.SHARING.get(sharing, model) if source == PAPER or sharing == lm.NONE else f"{model}, {lm.SHARING[sharing]}"
        for source, model, sharing in zip(table["source"], table["model"], table["sharing"], strict=True)
    ]
    panels = list(table.groupby(["source", "data"], sort=False))
    heights = [2 + cells["row"].nunique() for _, cells in panels]
    figure = new_figure(0.36 * sum(heights))
    axes = figure.subplots(len(panels), 1, height_ratios=heights)
    for axis, (key, cells) in zip(axes, panels, strict=True):
        rows = list(cells["row"].unique())
        is_outlier = cells["perplexity"] > _OUTLIER * cells["perplexity"].median()  # would compress the scale
        for row, value in zip(cells.loc[is_outlier, "row"], cells.loc[is_outlier, "perplexity"], strict=True):
            position = {"xy": (1, rows.index(row)), "xycoords": ("axes fraction", "data")}
            axis.annotate(f"{value:.1f} →", **position, ha="right", va="center")
        for positions, (marker, colour, offset) in markers.items():
            shown = rows_where(cells[~is_outlier], positions=positions)
            y = [rows.index(row) + offset for row in shown["row"]]
            label = "without GHRR" if positions == lm.NONE else f"GHRR, {positions} positions"
            axis.errorbar(shown["perplexity"], y, xerr=shown["error"], fmt=marker, color=colour, capsize=3, label=label)
        source, corpus = map(str, key)
        axis.set(yticks=range(len(rows)), yticklabels=rows, ylim=(len(rows) - 0.4, -0.6), ylabel="model")
        axis.set(xlabel="test perplexity (no unit; mean and standard error)")
        axis.set_title(f"{lm.DATA[corpus]}, {'as published' if source == PAPER else 'our runs'}")
    axes[0].legend(loc="center right")
    return figure


def hash_of_results(settings: Settings) -> str:
    """Return a hash of the file of our runs, or ``""`` if it does not exist."""
    path = Path(settings["results"])
    return hashlib.sha256(read_bytes(path)).hexdigest() if path.exists() else ""


_WHERE = "Section on next token prediction, table sequence"


def _claims_about(source: str, comments: tuple[str, str, str] = ("", "", "")) -> list[Claim]:
    """Return the claims of the paper that are tested both on its own numbers and on our runs."""
    name = "Published numbers" if source == PAPER else "Our runs"
    statements = (
        ("all variants have a lower perplexity than the baseline.", _beats_baseline),
        ("some variation between positions is needed for sufficient expressive power.", _variation_helps),
        ("fixed and trained positions differ negligibly.", _training_is_negligible),
    )
    return [
        Claim(
            _WHERE,
            f"{name}: {text}",
            functools.partial(test, source),
            comment=comment,
            as_printed=source == PAPER,
        )
        for (text, test), comment in zip(statements, comments, strict=True)
    ]


CLAIMS = [
    *_claims_about(
        PAPER,
        (
            "29.16 on WikiText-2 is far below the perplexity of word-level models of this size without other training "
            "text, so the vocabulary was probably smaller. 94.78 on the Penn Treebank is a usual value.",
            "On WikiText-2 the model without variation is the best. The table contains no GHRR model without "
            "positions, so it cannot show that positions help.",
            "On the Penn Treebank, trained positions with variation are better by 0.11 on average: 0.12 %, 3.8 "
            "standard errors.",
        ),
    ),
    Claim(
        _WHERE,
        "Published numbers: gains are 5.47 % on average and 5.53 % at best on WikiText-2; 2.75 % and 3.44 % on PTB.",
        _text_agrees,
        comment="The table gives 5.49, 5.56, 2.75 and 3.45 %. Its rounding can explain the differences.",
        as_printed=True,
    ),
    Claim(
        _WHERE,
        "Published numbers: varying positions over Q, K, V, heads or both gains 2.56 % on PTB.",
        lambda data, settings: _gain_by_variation(data, ("qkv", "head", "different")),
        corrected=lambda data, settings: _gain_by_variation(data, ("different",)),
        correction="2.56 % is the gain from variation over both. For Q, K, V, heads or both it is 2.53 %.",
    ),
    *_claims_about(OURS),
    Claim(_WHERE, "Our runs: the gain is 5.47 % on WikiText-2 and 2.75 % on PTB.", _our_gain),
    Claim(
        _WHERE,
        "Our runs: numbers of parameters are comparable.",
        _our_sizes,
        comment="The width of the feed-forward layers is chosen so that all models have the same number of parameters, "
        "including trained positions.",
    ),
]

EXPERIMENT = Experiment(
    name="perplexity",
    title="Language models: published perplexities and ours",
    caption=(
        "Test perplexity; lower is better. Published values are means of five runs; their standard errors are the "
        "published standard deviations divided by √5. Our runs are shown if their results exist."
    ),
    settings={size: {"results": "results/lm/summary.json"} for size in ("quick", "full")},
    run_trial=run_trial,
    draw=draw,
    trials=lambda settings: [{}],
    exclusive=True,
    inputs=hash_of_results,
    claims=CLAIMS,
)
