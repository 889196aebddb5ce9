"""Binding implements attention: the same form, and what becomes of the weights W when it is applied to tokens."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import ghrr
from ghrr.paper.experiment import Check, Claim, Experiment, Params, Settings, equals_to, exceeds, mean_with_error
from ghrr.paper.style import style

# Differences that the paper or theory puts at zero, the largest of a trial.
FORM, TORCH, TRIVIAL = "binding - formula", "binding - torch's attention", "m = 1: σ(Q * K†) * V - V"
TOKENS, MOVED, PLAIN = "tokens: binding - torch's attention", "Q of moved tokens - moved Q", "row j of Q - λ(x_j)ᵀ W"
ALONE, UNITARY, FREE = "Q * K† * V - σ(Q * K†) * V", "largest weight, unitary W", "largest weight, free W"
# Matrices.
BY_BINDING, BY_TORCH, ENTRIES = "weights by binding", "weights by torch", "derivative of entries of q by phases"
LITERAL, RIGHT, ANY = "E_j W Λ(x_j)", "e_j 1ᵀ Λ(x_j) W", "-"


def weigh(query: Tensor, key: Tensor) -> Tensor:
    """The paper's σ(Q * K†): softmax of the real part, along the rows."""
    return ghrr.bind(query, ghrr.adjoint(key)).real.softmax(dim=-1)


def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The paper's σ(Q * K†) * V."""
    return ghrr.bind(weigh(query, key).to(value.dtype), value)


def attend_by_torch(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The same in real numbers, with slots as heads: Re(q k†) = [Re q, Im q]·[Re k, Im k]."""
    q, k, v = (torch.cat([x.real, x.imag], dim=-1) for x in (query, key, value))
    return torch.complex(*scaled_dot_product_attention(q, k, v, scale=1.0).chunk(2, dim=-1))


def sharpest_weight(m: int) -> float:
    """Upper bound of the weights when Q K† is unitary.

    Scores of a row then have at most norm 1. Best are one score a and m - 1 scores -b with a² + (m - 1)b² = 1, where
    a + b is largest, √(m / (m - 1)), for a = √((m - 1) / m).
    """
    return 1 / (1 + (m - 1) * math.exp(-math.sqrt(m / (m - 1))))


def influence(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Size of the derivative of each row of a complex ``(dim, rows, *)`` by each x_j: ``(rows, len(x))``."""
    jacobian: Tensor = torch.func.jacfwd(lambda inputs: torch.view_as_real(function(inputs)))(x)
    by_row = jacobian.movedim(1, 0).reshape(jacobian.shape[1], -1, len(x), x[0].numel())
    return by_row.square().sum(dim=(1, 3)).sqrt()


def place(kind: str, space: ghrr.Space, w: Tensor, phases: Tensor) -> Tensor:
    """Tokens, given by their phases ``(m, dim, m)``, in the rows of a hypervector: as in the paper, or with W last."""
    one_hot = ghrr.encoding.OneHotPositions(space)(torch.arange(space.m))
    if kind == LITERAL:
        return ghrr.bind_bundle(one_hot, w * phases[..., None, :])
    all_ones = one_hot.sum(-1, keepdim=True).expand(one_hot.shape)
    return ghrr.bind(ghrr.bind_bundle(all_ones, torch.diag_embed(phases)), w)


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    tables = []  # phases stand for the tokens: a fixed linear map from tokens to angles would change nothing
    for m in settings["ms"]:
        space = ghrr.Space(settings["dim"], m, dtype=torch.complex128)
        w = ghrr.unitary.haar(3, space.dim, m=m, generator=generator, dtype=space.dtype)
        angles = 2 * math.pi * torch.rand(3, m, space.dim, m, generator=generator, dtype=torch.float64)
        free = torch.randn(2, *space.shape, generator=generator, dtype=space.dtype)
        phases = torch.polar(torch.ones_like(angles), angles)
        tables += [_one_token(w, phases[:, 0], free), _all_tokens(space, w, phases)]
        if m == settings["drawn_m"]:
            tables += _matrices(space, w, phases, angles)
    return pd.concat(tables, ignore_index=True)


def _table(m: int, values: dict[str, Tensor], kind: str = ANY) -> pd.DataFrame:
    parts = [pd.DataFrame({"what": what, "value": x.flatten()}) for what, x in values.items()]
    return pd.concat(parts).assign(m=m, kind=kind)


def _one_token(w: Tensor, phases: Tensor, free: Tensor) -> pd.DataFrame:
    """Attention over the representation of one token: Q = W_q Λ_q, and so on."""
    q, k, v = torch.diag_embed(phases)
    formula = (w[0] @ q @ k.mH @ w[1].mH).real.softmax(-1).to(w.dtype) @ w[2] @ v
    query, key, value = w * phases[..., None, :]
    attended = attend(query, key, value)
    scalars = phases[..., :1, None]
    values = {
        FORM: attended - formula,
        TORCH: attended - attend_by_torch(query, key, value),
        ALONE: ghrr.multibind([query, ghrr.adjoint(key), value]) - attended,
        TRIVIAL: attend(scalars[0], scalars[1], scalars[2]) - scalars[2],
        UNITARY: weigh(query, key),
        FREE: weigh(free[0], free[1]),
    }
    return _table(w.shape[-1], {what: x.abs().max() for what, x in values.items()})


def _all_tokens(space: ghrr.Space, w: Tensor, phases: Tensor) -> pd.DataFrame:
    """Attention between m tokens, each in a row."""
    tables = []
    plain = {LITERAL: "djk,jdk->djk", RIGHT: "dkl,jdk->djl"}  # what row j is, by hand
    for kind, formula in plain.items():
        query, key, value = (place(kind, space, *each) for each in zip(w, phases, strict=True))
        q, k, v = (torch.einsum(formula, *each) for each in zip(w, phases, strict=True))
        values = {
            TOKENS: attend(query, key, value) - attend_by_torch(q, k, v),
            MOVED: place(kind, space, w[0], phases[0].roll(1, 0)) - query.roll(1, -2),
            PLAIN: query - torch.einsum(plain[RIGHT], w[0], phases[0]),
        }
        tables.append(_table(space.m, {what: x.abs().max() for what, x in values.items()}, kind))
    return pd.concat(tables)


def _matrices(space: ghrr.Space, w: Tensor, phases: Tensor, angles: Tensor) -> list[pd.DataFrame]:
    query, key = (place(LITERAL, space, w[i], phases[i]) for i in (0, 1))
    eye = torch.eye(space.m, dtype=w.dtype).expand(space.shape)
    matrices = {(BY_BINDING, ANY): weigh(query, key)[0], (BY_TORCH, ANY): attend_by_torch(query, key, eye).real[0]}

    def first_query(kind: str, x: Tensor) -> Tensor:  # as a function of its phases, the same in all slots here
        turned = torch.polar(torch.ones_like(x), x).expand(1, space.dim, -1)
        return place(kind, space, w[0], torch.cat([turned, phases[0, 1:]]))[:, 0, :, None]

    for kind in (LITERAL, RIGHT):
        matrices[ENTRIES, kind] = influence(functools.partial(first_query, kind), angles[0, 0, 0])
    row, column = (index.flatten() for index in np.indices((space.m, space.m)))
    return [_table(space.m, {what: x}, kind).assign(row=row, column=column) for (what, kind), x in matrices.items()]


def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    first = data.loc[data["row"].notna()].groupby(["what", "kind", "row", "column"])["value"].first()

    def matrix(what: str, kind: str = ANY) -> NDArray[np.float64]:
        return first[what, kind].unstack().to_numpy()  # type: ignore[no-any-return]

    weights = {title: matrix(what) for title, what in (("by binding", BY_BINDING), ("by torch", BY_TORCH))}
    weights["10¹⁶ · difference"] = 1e16 * (weights["by binding"] - weights["by torch"])
    entries = {"E_j W Λ(x_j): one phase each": LITERAL, "e_j 1ᵀ Λ(x_j) W: all phases": RIGHT}
    ticks = range(0, settings["drawn_m"], 4)
    with style():
        figure = Figure(figsize=(6.4, 5.6), layout="constrained")
        above, below = figure.subfigures(2, 1, height_ratios=[1, 1.1], squeeze=False)[:, 0]
        for axis, (title, values) in zip(above.subplots(1, 3), weights.items(), strict=True):
            image = axis.imshow(values)
            axis.set(title=title.capitalize(), xlabel="key (token)", ylabel="query (token)", xticks=ticks, yticks=ticks)
            above.colorbar(image, ax=axis, orientation="horizontal", label="weight (no unit)")
        for axis, (title, kind) in zip(below.subplots(1, 2), entries.items(), strict=True):
            values = matrix(ENTRIES, kind)
            image = axis.imshow(np.where(values > 0, values, np.nan), vmin=0, vmax=matrix(ENTRIES, RIGHT).max())
            axis.set(title=title, xlabel="phase of the token", ylabel="entry of its query", xticks=ticks, yticks=ticks)
        below.colorbar(image, ax=list(below.axes), label="|derivative| (no unit)")
    return figure


def _select(data: pd.DataFrame, what: str, kind: str = ANY) -> pd.DataFrame:
    return data.loc[(data["what"] == what) & (data["kind"] == kind)]


def _vanishes(data: pd.DataFrame, what: str, kind: str = ANY) -> Check:
    """A difference is no more than rounding: of sums of m terms of size 1, in double precision."""
    rows = _select(data, what, kind)
    tolerance = 20 * float(rows["m"].max()) * torch.finfo(torch.float64).eps
    return equals_to(
        f"largest |{what}|" + (f", {kind}" if kind != ANY else ""), float(rows["value"].max()), 0.0, tolerance=tolerance
    )


def _is_freed(data: pd.DataFrame, settings: Settings) -> list[Check]:
    checks = []
    for m in settings["ms"]:
        bound = sharpest_weight(m)
        unitary, free = (_select(data, what).groupby("m")["value"].get_group(m) for what in (UNITARY, FREE))
        largest = float(unitary.max())
        checks.append(Check(f"{UNITARY}, m = {m}", largest, 0.0, f"≤ {bound:.4g}", largest <= bound))
        checks.append(exceeds(f"{FREE}, m = {m}, mean", *mean_with_error(free), bound))
    return checks


def _corresponds(data: pd.DataFrame, kind: str) -> list[Check]:
    share = float((_select(data, ENTRIES, kind)["value"] > 0).mean())
    return [
        _vanishes(data, TOKENS, kind),
        _vanishes(data, PLAIN, kind),
        _vanishes(data, MOVED, kind),
        equals_to(f"share of a token's phases in an entry of its query, {kind}", share, 1.0, tolerance=1e-12),
    ]


EXPERIMENT = Experiment(
    name="binding-as-attention",
    title="Binding has the form of attention; the weights of the literal reading do not mix features",
    caption=(
        "Top: weights of one slot for tokens in rows, by binding and by torch's attention. Bottom: how a query's "
        "entries depend on the phases of its token (white: not at all). E_j W Λ(x_j) uses row j of W as a gain; with W "
        "on the right, binding gives the queries of a transformer."
    ),
    settings={
        "quick": {"ms": [4, 12], "drawn_m": 12, "dim": 4, "blocks": 8},
        "full": {"ms": [4, 12, 64], "drawn_m": 12, "dim": 8, "blocks": 40},
    },
    run_trial=run_trial,
    draw=draw,
)

_WHERE = "Section on attention"
CLAIMS = [
    Claim(
        EXPERIMENT.name,
        f"{_WHERE}, eq. ghrr-attn",
        "σ(Q * K†) * V has the form of dot-product attention, in every slot.",
        lambda data, settings: [_vanishes(data, FORM), _vanishes(data, TORCH)],
        comment="Slots are heads: one call of torch's attention on real and imaginary parts gives the same numbers.",
    ),
    Claim(
        EXPERIMENT.name,
        f"{_WHERE}, eq. ghrr-attn",
        "Giving up unitary W makes attention more flexible.",
        _is_freed,
        comment="It has to be given up: a unitary Q K† has rows of norm 1, and no weight can exceed "
        "1/(1 + (m - 1)exp(-√(m/(m - 1)))), which is 0.2 for m = 12 and 0.04 for m = 64: nearly uniform attention.",
    ),
    Claim(
        EXPERIMENT.name,
        f"{_WHERE}, eq. pos-enc",
        "Σ E_j φ(x_j) corresponds to the rows of a transformer, but for an extra random exponential map Λ.",
        lambda data, settings: _corresponds(data, LITERAL),
        corrected=lambda data, settings: _corresponds(data, RIGHT),
        correction="With e_j 1ᵀ for E_j and W to the right of Λ, row j is λ(x_j)ᵀ W, as in a transformer.",
        comment="It is attention between rows, and row j is about token j. But E_j W Λ(x_j) takes row j of W only, "
        "entry by entry: W is a gain that differs from place to place, and never mixes the features of a token.",
    ),
    Claim(
        EXPERIMENT.name,
        f"{_WHERE}, matching parameters",
        "Binding by itself implements attention in GHRR, but not in other models.",
        lambda data, settings: [_vanishes(data, TRIVIAL), _vanishes(data, ALONE)],
        comment="For m = 1 the only weight is 1, whatever the query. But the softmax in between is no binding: "
        "without it, Q * K† * V is linear attention, with weights of both signs.",
    ),
]
