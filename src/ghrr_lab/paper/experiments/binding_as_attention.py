"""Section on attention: binding has the form of attention, and how the weights W act on tokens."""

from __future__ import annotations

import functools
import math

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import ghrr
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings
from ghrr_lab.paper.statistics import exceeds, is_close, is_rounding_error, mean_with_error, rows_where
from ghrr_lab.paper.style import new_figure, style
from ghrr_lab.paper.theory.attention import attend, attention_weights, influence
from ghrr_lab.paper.theory.sampling import to_phases

# Differences that are zero according to the paper or in theory: the largest absolute value in a trial.
FORM, TORCH, TRIVIAL = "binding - formula", "binding - torch's attention", "m = 1: σ(Q * K†) * V - V"
TOKENS, MOVED, PLAIN = "tokens: binding - torch's attention", "Q of moved tokens - moved Q", "row j of Q - λ(x_j)ᵀ W"
ALONE, UNITARY, FREE = "Q * K† * V - σ(Q * K†) * V", "largest weight, unitary W", "largest weight, free W"
# Matrices.
BY_BINDING, BY_TORCH, ENTRIES = "weights by binding", "weights by torch", "derivative of entries of q by phases"
LITERAL, RIGHT, ANY = "E_j W Λ(x_j)", "e_j 1ᵀ Λ(x_j) W", "-"


def attend_by_torch(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Compute σ(Q * K†) * V with torch's attention. Slots are heads, and Re(q k†) = [Re q, Im q]·[Re k, Im k]."""
    q, k, v = (torch.cat([x.real, x.imag], dim=-1) for x in (query, key, value))
    return torch.complex(*scaled_dot_product_attention(q, k, v, scale=1.0).chunk(2, dim=-1))


def sharpest_weight(m: int) -> float:
    """Return the largest possible attention weight if Q K† is unitary.

    The scores of a row then have at most norm 1. The weight is largest for one score a and m - 1 scores -b with
    a² + (m - 1)b² = 1 that maximise a + b. The maximum is √(m / (m - 1)), for a = √((m - 1) / m).
    """
    return 1 / (1 + (m - 1) * math.exp(-math.sqrt(m / (m - 1))))


def encode_tokens(kind: str, space: ghrr.Space, w: Tensor, phases: Tensor) -> Tensor:
    """Encode m tokens, given by their phases ``(m, dim, m)``, in the rows of a hypervector.

    ``LITERAL`` is the encoding of the paper. ``RIGHT`` applies W on the right.
    """
    one_hot = ghrr.encoding.OneHotPositions(space)(torch.arange(space.m))
    if kind == LITERAL:
        return ghrr.bind_bundle(one_hot, w * phases[..., None, :])
    all_ones = one_hot.sum(-1, keepdim=True).expand(one_hot.shape)
    return ghrr.bind(ghrr.bind_bundle(all_ones, torch.diag_embed(phases)), w)


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    tables = []  # phases represent the tokens; a fixed linear map from tokens to angles would not matter
    for m in settings["ms"]:
        space = ghrr.Space(settings["dim"], m, dtype=torch.complex128)
        w = ghrr.unitary.haar(3, space.dim, m=m, generator=generator, dtype=space.dtype)
        angles = 2 * math.pi * torch.rand(3, m, space.dim, m, generator=generator, dtype=torch.float64)
        free = torch.randn(2, *space.shape, generator=generator, dtype=space.dtype)
        phases = to_phases(angles)
        tables += [_measure_one_token(w, phases[:, 0], free), _measure_all_tokens(space, w, phases)]
        if m == settings["drawn_m"]:
            tables += _measure_matrices(space, w, phases, angles)
    return pd.concat(tables, ignore_index=True)


def _table(m: int, values: dict[str, Tensor], kind: str = ANY) -> pd.DataFrame:
    tables = [pd.DataFrame({"what": what, "value": x.flatten()}) for what, x in values.items()]
    return pd.concat(tables).assign(m=m, kind=kind)


def _measure_one_token(w: Tensor, phases: Tensor, free: Tensor) -> pd.DataFrame:
    """Compare attention within the representation of one token, Q = W_q Λ_q and so on, with other formulas."""
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
        UNITARY: attention_weights(query, key),
        FREE: attention_weights(free[0], free[1]),
    }
    return _table(w.shape[-1], {what: x.abs().max() for what, x in values.items()})


def _measure_all_tokens(space: ghrr.Space, w: Tensor, phases: Tensor) -> pd.DataFrame:
    """Compare attention between m tokens, one per row, with other formulas."""
    tables = []
    rows = {LITERAL: "djk,jdk->djk", RIGHT: "dkl,jdk->djl"}  # formulas of row j
    for kind, formula in rows.items():
        query, key, value = (encode_tokens(kind, space, *each) for each in zip(w, phases, strict=True))
        q, k, v = (torch.einsum(formula, *each) for each in zip(w, phases, strict=True))
        values = {
            TOKENS: attend(query, key, value) - attend_by_torch(q, k, v),
            MOVED: encode_tokens(kind, space, w[0], phases[0].roll(1, 0)) - query.roll(1, -2),
            PLAIN: query - torch.einsum(rows[RIGHT], w[0], phases[0]),
        }
        tables.append(_table(space.m, {what: x.abs().max() for what, x in values.items()}, kind))
    return pd.concat(tables)


def _measure_matrices(space: ghrr.Space, w: Tensor, phases: Tensor, angles: Tensor) -> list[pd.DataFrame]:
    """Measure the matrices that the figure shows: attention weights, and derivatives of a query."""
    query, key = (encode_tokens(LITERAL, space, w[i], phases[i]) for i in (0, 1))
    eye = torch.eye(space.m, dtype=w.dtype).expand(space.shape)
    matrices = {
        (BY_BINDING, ANY): attention_weights(query, key)[0],
        (BY_TORCH, ANY): attend_by_torch(query, key, eye).real[0],
    }

    def first_query(kind: str, x: Tensor) -> Tensor:
        first = to_phases(x).expand(1, space.dim, -1)  # the same phases in all slots
        return encode_tokens(kind, space, w[0], torch.cat([first, phases[0, 1:]]))[:, 0, :, None]

    for kind in (LITERAL, RIGHT):
        matrices[ENTRIES, kind] = influence(functools.partial(first_query, kind), angles[0, 0, 0])
    row, column = (index.flatten() for index in np.indices((space.m, space.m)))
    return [_table(space.m, {what: x}, kind).assign(row=row, column=column) for (what, kind), x in matrices.items()]


@style()
def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    first = data.loc[data["row"].notna()].groupby(["what", "kind", "row", "column"])["value"].first()

    def matrix(what: str, kind: str = ANY) -> NDArray[np.float64]:
        return first[what, kind].unstack().to_numpy()  # type: ignore[no-any-return]

    weights = {title: matrix(what) for title, what in (("by binding", BY_BINDING), ("by torch", BY_TORCH))}
    weights["10¹⁶ · difference"] = 1e16 * (weights["by binding"] - weights["by torch"])
    entries = {"E_j W Λ(x_j): one phase per entry": LITERAL, "e_j 1ᵀ Λ(x_j) W: all phases": RIGHT}
    ticks = range(0, settings["drawn_m"], 4)
    figure = new_figure(5.6)
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


def _vanishes(data: pd.DataFrame, what: str, kind: str = ANY) -> Check:
    name = f"largest |{what}|" + (f", {kind}" if kind != ANY else "")
    return is_rounding_error(name, rows_where(data, what=what, kind=kind))


def _is_more_flexible(data: pd.DataFrame, settings: Settings) -> list[Check]:
    checks = []
    for m in settings["ms"]:
        bound = sharpest_weight(m)
        unitary, free = (rows_where(data, what=what, kind=ANY, m=m)["value"] for what in (UNITARY, FREE))
        largest = float(unitary.max())
        checks.append(Check(f"{UNITARY}, m = {m}", largest, 0.0, f"≤ {bound:.4g}", largest <= bound))
        checks.append(exceeds(f"{FREE}, m = {m}, mean", *mean_with_error(free), bound))
    return checks


def _corresponds(data: pd.DataFrame, kind: str) -> list[Check]:
    share = float((rows_where(data, what=ENTRIES, kind=kind)["value"] > 0).mean())
    return [
        _vanishes(data, TOKENS, kind),
        _vanishes(data, PLAIN, kind),
        _vanishes(data, MOVED, kind),
        is_close(f"share of a token's phases that affect an entry of its query, {kind}", share, 1.0, tolerance=1e-12),
    ]


_WHERE = "Section on attention"
CLAIMS = [
    Claim(
        f"{_WHERE}, eq. ghrr-attn",
        "In every slot, σ(Q * K†) * V has the form of dot-product attention.",
        lambda data, settings: [_vanishes(data, FORM), _vanishes(data, TORCH)],
        comment="Slots act as heads: torch's attention on real and imaginary parts gives the same numbers.",
    ),
    Claim(
        f"{_WHERE}, eq. ghrr-attn",
        "Attention is more flexible if W need not be unitary.",
        _is_more_flexible,
        comment="It is even necessary: a unitary Q K† has rows of norm 1, and no weight can exceed "
        "1/(1 + (m - 1)exp(-√(m/(m - 1)))). That is 0.2 for m = 12 and 0.04 for m = 64: nearly uniform attention.",
    ),
    Claim(
        f"{_WHERE}, eq. pos-enc",
        "Σ E_j φ(x_j) corresponds to the rows of a transformer, except for an extra random exponential map Λ.",
        lambda data, settings: _corresponds(data, LITERAL),
        corrected=lambda data, settings: _corresponds(data, RIGHT),
        correction="With e_j 1ᵀ instead of E_j, and W to the right of Λ, row j is λ(x_j)ᵀ W, as in a transformer.",
        comment="It is attention between rows, and row j depends on token j. But E_j W Λ(x_j) multiplies the phases of "
        "a token by row j of W, entry by entry: W is a gain that depends on the position, and does not mix the "
        "features of a token.",
    ),
    Claim(
        f"{_WHERE}, matching parameters",
        "Binding by itself implements attention in GHRR, but not in other models.",
        lambda data, settings: [_vanishes(data, TRIVIAL), _vanishes(data, ALONE)],
        comment="For m = 1 the only weight is 1 for any query. But the softmax is not a binding: without it, Q * K† * "
        "V is linear attention, with weights of both signs.",
    ),
]

EXPERIMENT = Experiment(
    name="binding-as-attention",
    title="Binding has the form of attention; read literally, its weights do not mix features",
    caption=(
        "Top: attention weights of one slot with one token per row, by binding and by torch's attention. Bottom: "
        "derivatives of the entries of a query with respect to the phases of its token (blank: zero). E_j W Λ(x_j) "
        "uses row j of W as a gain. With W on the right, binding gives the queries of a transformer."
    ),
    settings={
        "quick": {"ms": [4, 12], "drawn_m": 12, "dim": 4, "blocks": 8},
        "full": {"ms": [4, 12, 64], "drawn_m": 12, "dim": 8, "blocks": 40},
    },
    run_trial=run_trial,
    draw=draw,
    claims=CLAIMS,
)
