"""Token-level attention: which tokens reach which rows, and whether a causal mask can keep out the future."""

from __future__ import annotations

import functools
import math

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

import ghrr
from ghrr.paper.binding_as_attention import influence
from ghrr.paper.experiment import Check, Claim, Experiment, Params, Settings, equals_to, exceeds
from ghrr.paper.style import RED, style

QUERY, OUTPUT = "rows of Q", "rows of the output"
ONE_HOT, TWICE, ROW, LOWER, DENSE = "E_j", "E_j, 2m tokens", "e_j r_jᵀ", "zero above row j", "dense"


def attend_to_the_past(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """σ(Q * K†) * V with a causal mask: row i takes rows up to i alone."""
    scores = ghrr.bind(query, ghrr.adjoint(key)).real
    future = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return ghrr.bind(scores.masked_fill(future, -math.inf).softmax(dim=-1).to(value.dtype), value)


def positions(space: ghrr.Space, generator: torch.Generator) -> dict[str, Tensor]:
    """Kinds of P_j: ``(m, dim, m, m)`` each."""
    place = torch.arange(space.m)
    one_hot = ghrr.encoding.OneHotPositions(space)(place)
    dense = space.random(space.m, generator=generator)
    lower = dense * (place >= place[:, None])[:, None, :, None]
    return {
        ONE_HOT: one_hot,
        TWICE: one_hot.repeat(2, 1, 1, 1),
        ROW: ghrr.bind(one_hot, dense),
        LOWER: lower,
        DENSE: dense,
    }


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    seed = int(torch.randint(2**31, (), generator=generator))  # encoders draw from their space
    space = ghrr.Space(settings["dim"], settings["m"], seed=seed, dtype=torch.complex128)
    encoders = [ghrr.encoding.FractionalPower(space, settings["features"], name=name) for name in ("q", "k", "v")]
    places = [positions(space, generator) for _ in encoders]
    tokens = torch.randn(2 * space.m, settings["features"], generator=generator, dtype=torch.float64)

    def query(kind: str, x: Tensor) -> Tensor:
        return ghrr.bind_bundle(places[0][kind], encoders[0](x))

    def output(kind: str, x: Tensor) -> Tensor:
        q, k, v = (ghrr.bind_bundle(p[kind], encode(x)) for p, encode in zip(places, encoders, strict=True))
        return attend_to_the_past(q, k, v)

    tables = []
    for kind in places[0]:
        x = tokens[: len(places[0][kind])]
        results = {QUERY: functools.partial(query, kind), OUTPUT: functools.partial(output, kind)}
        for what, function in results.items():
            matrix = influence(function, x)
            row, column = (index.flatten() for index in np.indices(matrix.shape))
            values = {"what": what, "kind": kind, "row": row, "token": column, "value": matrix.flatten()}
            tables.append(pd.DataFrame(values))
    return pd.concat(tables, ignore_index=True)


def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    panels = {
        (QUERY, ONE_HOT): "Q, E_j: row j is token j",
        (QUERY, TWICE): "Q, E_j, 2m tokens",
        (QUERY, DENSE): "Q, dense P_j: all in all",
        (OUTPUT, ONE_HOT): "E_j: causal",
        (OUTPUT, LOWER): "P_j zero above j: causal",
        (OUTPUT, DENSE): "dense P_j: leaks",
    }
    means = data.groupby(["what", "kind", "row", "token"])["value"].mean()
    top = float(means.max())
    with style():
        figure = Figure(figsize=(6.4, 4.9), layout="constrained")
        axes = figure.subplots(2, 3)
        for axis, ((what, kind), title) in zip(axes.flat, panels.items(), strict=True):
            values = means[what, kind].unstack().to_numpy()
            image = axis.imshow(np.where(values > 0, values, np.nan), vmin=0, vmax=top, aspect="auto")
            axis.set(title=title, xlabel="token", ylabel=what, xticks=range(0, values.shape[1], 4))
            axis.set(yticks=range(0, len(values), 4))
            if what == OUTPUT:
                place = np.arange(len(values))
                axis.step(place + 0.5, place - 0.5, where="pre", color=RED, lw=1.2)
        figure.colorbar(image, ax=list(axes.flat), label="mean |derivative| (no unit; white: exactly zero)", shrink=0.8)
    return figure


def _reach(data: pd.DataFrame, what: str, kind: str) -> pd.DataFrame:
    return data.loc[(data["what"] == what) & (data["kind"] == kind)]


def _has_no_future(data: pd.DataFrame, kind: str) -> list[Check]:
    rows = _reach(data, OUTPUT, kind)
    future = float(rows.loc[rows["token"] > rows["row"], "value"].max())
    past = float(rows.loc[rows["token"] <= rows["row"], "value"].min())
    return [
        equals_to(f"{kind}: largest derivative of an output by a later token", future, 0.0, tolerance=0.0),
        exceeds(f"{kind}: smallest derivative of an output by an earlier token", past, 0.0, 0.0),
    ]


def _owns_its_row(data: pd.DataFrame, settings: Settings) -> list[Check]:
    rows = _reach(data, QUERY, ONE_HOT)
    own = rows["token"] == rows["row"]
    return [
        exceeds("smallest derivative of row j by token j", float(rows.loc[own, "value"].min()), 0.0, 0.0),
        equals_to("largest derivative by another token", float(rows.loc[~own, "value"].max()), 0.0, tolerance=0.0),
    ]


def _limits(data: pd.DataFrame, settings: Settings) -> list[Check]:
    checks = []
    for kind, tokens in ((ONE_HOT, 1), (TWICE, 2)):
        rows = _reach(data, QUERY, kind)
        per_row = float((rows["value"] > 0).mean()) * rows["token"].nunique()
        checks.append(equals_to(f"tokens in a row, {kind}", per_row, tokens, tolerance=1e-12))
    return checks


EXPERIMENT = Experiment(
    name="positions-in-attention",
    title="One-hot positions keep tokens apart; arbitrary ones mix them, and then no mask is causal",
    caption=(
        "How strongly each token acts on each row: above, of the sequence Σ P_j φ(x_j) itself; below, of the output of "
        "attention with a causal mask. What lies right of the red line is the future."
    ),
    settings={
        "quick": {"m": 12, "dim": 2, "features": 3, "blocks": 6},
        "full": {"m": 12, "dim": 4, "features": 6, "blocks": 30},
    },
    run_trial=run_trial,
    draw=draw,
)

_WHERE = "Section on attention"
CLAIMS = [
    Claim(
        EXPERIMENT.name,
        f"{_WHERE}, eq. pos-enc",
        "With one-hot positions E_j, exactly row j of the sequence is about token j.",
        _owns_its_row,
    ),
    Claim(
        EXPERIMENT.name,
        f"{_WHERE}, matching parameters",
        "m tokens are dealt with independently; more can be encoded, but then they entangle.",
        _limits,
        comment="Here 2m tokens share m positions: each row is about two of them.",
    ),
    Claim(
        EXPERIMENT.name,
        f"{_WHERE}, below eq. pos-enc, and next token prediction",
        "E_j may be an arbitrary trainable P_j, a position encoding for a model that predicts the next token.",
        lambda data, settings: _has_no_future(data, DENSE),
        corrected=lambda data, settings: [check for kind in (ROW, LOWER) for check in _has_no_future(data, kind)],
        correction="P_j must be zero above row j, or have row j alone: then later tokens have no effect at all.",
        comment="A dense P_j puts every token into every row of Q, K and V before scores are masked, and no mask can "
        "take it out again. It suits models that see the whole sequence. The paper does not say which form it trained.",
    ),
]
