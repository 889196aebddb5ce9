"""Section on attention: which tokens affect which rows, and whether a causal mask hides later tokens."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

import ghrr
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings
from ghrr_lab.paper.statistics import exceeds, is_close, rows_where
from ghrr_lab.paper.style import RED, new_figure, style
from ghrr_lab.paper.theory.attention import attend, influence
from ghrr_lab.paper.theory.sampling import draw_seed

QUERY, OUTPUT = "rows of Q", "rows of the output"
ONE_HOT, TWICE, ROW, LOWER, DENSE = "E_j", "E_j, 2m tokens", "e_j r_jᵀ", "zero above row j", "dense"


def positions(space: ghrr.Space, generator: torch.Generator) -> dict[str, Tensor]:
    """Draw the kinds of positions P_j, each ``(m, dim, m, m)``."""
    index = torch.arange(space.m)
    one_hot = ghrr.encoding.OneHotPositions(space)(index)
    dense = space.random(space.m, generator=generator)
    lower = dense * (index >= index[:, None])[:, None, :, None]
    return {
        ONE_HOT: one_hot,
        TWICE: one_hot.repeat(2, 1, 1, 1),
        ROW: ghrr.bind(one_hot, dense),
        LOWER: lower,
        DENSE: dense,
    }


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    space = ghrr.Space(settings["dim"], settings["m"], seed=draw_seed(generator), dtype=torch.complex128)
    encoders = [ghrr.encoding.FractionalPower(space, settings["features"], name=name) for name in ("q", "k", "v")]
    drawn = [positions(space, generator) for _ in encoders]
    tokens = torch.randn(2 * space.m, settings["features"], generator=generator, dtype=torch.float64)

    def query(kind: str, x: Tensor) -> Tensor:
        return ghrr.bind_bundle(drawn[0][kind], encoders[0](x))

    def output(kind: str, x: Tensor) -> Tensor:
        q, k, v = (ghrr.bind_bundle(p[kind], encode(x)) for p, encode in zip(drawn, encoders, strict=True))
        return attend(q, k, v, causal=True)

    tables = []
    for kind in drawn[0]:
        x = tokens[: len(drawn[0][kind])]
        results = {QUERY: functools.partial(query, kind), OUTPUT: functools.partial(output, kind)}
        for what, function in results.items():
            matrix = influence(function, x)
            row, column = (index.flatten() for index in np.indices(matrix.shape))
            values = {"what": what, "kind": kind, "row": row, "token": column, "value": matrix.flatten()}
            tables.append(pd.DataFrame(values))
    return pd.concat(tables, ignore_index=True)


@style()
def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    panels = {
        (QUERY, ONE_HOT): "Q, E_j: row j is token j",
        (QUERY, TWICE): "Q, E_j, 2m tokens",
        (QUERY, DENSE): "Q, dense P_j: all mixed",
        (OUTPUT, ONE_HOT): "E_j: causal",
        (OUTPUT, LOWER): "P_j zero above j: causal",
        (OUTPUT, DENSE): "dense P_j: not causal",
    }
    means = data.groupby(["what", "kind", "row", "token"])["value"].mean()
    top = float(means.max())
    figure = new_figure(4.9)
    axes = figure.subplots(2, 3)
    for axis, ((what, kind), title) in zip(axes.flat, panels.items(), strict=True):
        values = means[what, kind].unstack().to_numpy()
        image = axis.imshow(np.where(values > 0, values, np.nan), vmin=0, vmax=top, aspect="auto")
        axis.set(title=title, xlabel="token", ylabel=what, xticks=range(0, values.shape[1], 4))
        axis.set(yticks=range(0, len(values), 4))
        if what == OUTPUT:
            index = np.arange(len(values))
            axis.step(index + 0.5, index - 0.5, where="pre", color=RED, lw=1.2)
    figure.colorbar(image, ax=list(axes.flat), label="mean |derivative| (no unit; blank: exactly zero)", shrink=0.8)
    return figure


def _is_causal(data: pd.DataFrame, kind: str) -> list[Check]:
    rows = rows_where(data, what=OUTPUT, kind=kind)
    later = float(rows.loc[rows["token"] > rows["row"], "value"].max())
    earlier = float(rows.loc[rows["token"] <= rows["row"], "value"].min())
    return [
        is_close(f"{kind}: largest derivative of an output by a later token", later, 0.0, tolerance=0.0),
        exceeds(f"{kind}: smallest derivative of an output by an earlier token", earlier, 0.0, 0.0),
    ]


def _row_depends_on_own_token_only(data: pd.DataFrame, settings: Settings) -> list[Check]:
    rows = rows_where(data, what=QUERY, kind=ONE_HOT)
    own = rows["token"] == rows["row"]
    return [
        exceeds("smallest derivative of row j by token j", float(rows.loc[own, "value"].min()), 0.0, 0.0),
        is_close("largest derivative by another token", float(rows.loc[~own, "value"].max()), 0.0, tolerance=0.0),
    ]


def _has_tokens_per_row(data: pd.DataFrame, settings: Settings) -> list[Check]:
    checks = []
    for kind, tokens in ((ONE_HOT, 1), (TWICE, 2)):
        rows = rows_where(data, what=QUERY, kind=kind)
        per_row = float((rows["value"] > 0).mean()) * rows["token"].nunique()
        checks.append(is_close(f"tokens that affect a row, {kind}", per_row, tokens, tolerance=1e-12))
    return checks


_WHERE = "Section on attention"
CLAIMS = [
    Claim(
        f"{_WHERE}, eq. pos-enc",
        "With one-hot positions E_j, row j of the sequence depends on token j and on no other.",
        _row_depends_on_own_token_only,
    ),
    Claim(
        f"{_WHERE}, matching parameters",
        "m tokens are encoded independently; more can be encoded, but then they are entangled.",
        _has_tokens_per_row,
        comment="Here 2m tokens share m positions: each row depends on two tokens.",
    ),
    Claim(
        f"{_WHERE}, below eq. pos-enc, and next token prediction",
        "An arbitrary trainable P_j can replace E_j as position encoding of a model that predicts the next token.",
        lambda data, settings: _is_causal(data, DENSE),
        corrected=lambda data, settings: [check for kind in (ROW, LOWER) for check in _is_causal(data, kind)],
        correction="P_j must be zero above row j, or have only row j. Then later tokens have no effect.",
        comment="A dense P_j adds every token to every row of Q, K and V before the scores are masked, and no mask can "
        "remove it. It is suitable for models that see the whole sequence. The paper does not say which form it "
        "trained.",
    ),
]

EXPERIMENT = Experiment(
    name="positions-in-attention",
    title="One-hot positions separate tokens; arbitrary positions mix them, and no mask is causal",
    caption=(
        "Derivative of each row with respect to each token. Top: rows of the sequence Σ P_j φ(x_j). Bottom: rows of "
        "the output of attention with a causal mask. Entries to the right of the red line belong to later tokens."
    ),
    settings={
        "quick": {"m": 12, "dim": 2, "features": 3, "blocks": 6},
        "full": {"m": 12, "dim": 4, "features": 6, "blocks": 30},
    },
    run_trial=run_trial,
    draw=draw,
    claims=CLAIMS,
)
