"""Figure ghrr-binding: binding keeps the diagonal, the diagonal blocks or the whole of a tensor product."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray
from torch import Tensor

import ghrr
from ghrr.paper.experiment import (
    Check,
    Claim,
    Experiment,
    Params,
    Settings,
    all_equal,
    equals_to,
    share_with_error,
)
from ghrr.paper.style import BLACK, M_COLOURS, style

# Differences that theory says are zero: the largest of a trial.
ENTRY, VIEW, DIAGONAL = "G₁ * G₂ - Σ q r λ η", "G₁ * G₂ - φ(blocks)", "FHRR: H₁ * H₂ - diagonal"
INVERSE, SINGULAR = "φ⁻¹(G₁ * G₂) - blocks, times |r|", "singular values of φ - |r|"
RANK_OFF = "rank of φ - non-zero entries of R, of diagonality 0"
# Numbers.
RANK, KEPT = "rank of φ, R of diagonality 0", "entries of the tensor product kept"
CONDITION, ANGLE = "condition number of φ", "angle"
_ZERO = 1e-8  # an entry of R below this counts as zero: rounding leaves 1e-15, and Haar almost never gives it


def random_phases(*shape: int, generator: torch.Generator) -> Tensor:
    angles = 2 * math.pi * torch.rand(shape, generator=generator, dtype=torch.float64)
    return torch.polar(torch.ones_like(angles), angles)


def diagonal_blocks(product: Tensor, m: int) -> Tensor:
    """Blocks of size m along the diagonal: ``(*, n, n)`` to ``(*, n / m, m, m)``."""
    size = product.shape[-1] // m
    return product.reshape(*product.shape[:-2], size, m, size, m).diagonal(dim1=-4, dim2=-2).movedim(-1, -3)


def view_matrix(q: Tensor, r: Tensor) -> Tensor:
    """The paper's φ as a matrix, acting on the columns of a block one below the other: ``(*, m², m²)``.

    Its blocks are U_l = Q diag(R[:, l]). As Q is unitary, its singular values are the |r_nl|.
    """
    eye = torch.eye(q.shape[-1], dtype=q.dtype)
    return torch.einsum("...kn,...nl,lp->...lkpn", q, r, eye).flatten(-4, -3).flatten(-2, -1)


def chance_above(c: NDArray[np.float64]) -> NDArray[np.float64]:
    """Chance that max|r| / min|r| of a Haar R exceeds c, for m = 2.

    |r|² takes the values u and 1 - u, u uniform: (1 - v) / v > c² where v = min(u, 1 - u) < 1 / (1 + c²).
    """
    return 2 / (1 + c * c)


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    n, pairs = settings["effective_dim"], settings["pairs"]
    first, second = random_phases(2, pairs, n, generator=generator)
    # The same phases with blocks of every size: the effective dimension D·m does not change.
    sizes = [m for m in range(1, n + 1) if n % m == 0]
    tables = [_project(first, second, m, generator, picture=params["block"] == 0) for m in sizes]
    for m in settings["empty_ms"]:
        q = ghrr.unitary.haar(pairs, m=m, generator=generator, dtype=torch.complex128)
        r = ghrr.unitary.with_diagonality(0.0, pairs, m=m, generator=generator, dtype=torch.complex128)
        rank = torch.linalg.matrix_rank(view_matrix(q, r), rtol=_ZERO)
        off = (rank - (r.abs() > _ZERO).sum((-1, -2))).abs().max()
        tables.append(_table(m, {RANK: rank, RANK_OFF: off}))
    for m in settings["condition_ms"]:
        r = ghrr.unitary.haar(settings["rotations"], m=m, generator=generator, dtype=torch.complex128).abs()
        tables.append(_table(m, {CONDITION: r.amax((-1, -2)) / r.amin((-1, -2))}))
    return pd.concat(tables, ignore_index=True)


def _table(m: int, values: dict[str, Tensor]) -> pd.DataFrame:
    return pd.concat([pd.DataFrame({"what": what, "m": m, "value": x.flatten()}) for what, x in values.items()])


def _project(first: Tensor, second: Tensor, m: int, generator: torch.Generator, *, picture: bool) -> pd.DataFrame:
    """Bind hypervectors made of these phases, and compare with the diagonal blocks of their tensor product."""
    product = first[:, :, None] * second[:, None, :]
    blocks = diagonal_blocks(product, m)
    left, right = (x.reshape(len(x), -1, m) for x in (first, second))
    q, r = ghrr.unitary.haar(2, *left.shape[:-1], m=m, generator=generator, dtype=torch.complex128)
    bound = ghrr.bind(q * left[..., None, :], r * right[..., None, :])
    phi = view_matrix(q, r)
    seen = (phi @ blocks.mT.flatten(-2)[..., None]).reshape(blocks.shape).mT
    recovered = ghrr.bind(ghrr.adjoint(q), bound) / r
    singular = torch.linalg.svdvals(phi)
    values = {
        ENTRY: (bound - torch.einsum("...kn,...nl,...n,...l->...kl", q, r, left, right)).abs().max(),
        VIEW: (bound - seen).abs().max(),
        INVERSE: ((recovered - blocks).abs() * r.abs()).max(),  # 1 / |r| is how much φ⁻¹ amplifies rounding
        SINGULAR: (singular - r.abs().flatten(-2).sort(descending=True).values).abs().max(),
        KEPT: (singular > _ZERO).sum((-1, -2)),
    }
    if m == 1:  # in FHRR there is no rotation: hypervectors are phases
        products = ghrr.bind(left[..., None], right[..., None]).flatten(1)
        values[DIAGONAL] = (products - product.diagonal(dim1=-2, dim2=-1)).abs().max()
    if not picture:
        return _table(m, values)
    slot, row, column = (index.flatten() for index in np.indices(blocks.shape[1:]))
    angles = _table(m, {ANGLE: recovered[0].angle()}).assign(row=slot * m + row, column=slot * m + column)
    return pd.concat([_table(m, values), angles])


def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    n = settings["effective_dim"]
    pictures = data.loc[data["what"] == ANGLE]
    angles = {m: pictures.loc[pictures["m"] == m] for m in pictures["m"].unique()}
    names = {1: "FHRR", n: "the whole"}
    look = {"cmap": "twilight", "vmin": -math.pi, "vmax": math.pi}
    with style():
        figure = Figure(figsize=(6.4, 7.0), layout="constrained")
        rows = -(-len(angles) // 3)
        top, bottom = figure.subfigures(2, 1, height_ratios=[rows, 1.3], squeeze=False)[:, 0]
        axes = top.subplots(rows, 3, sharex=True, sharey=True, squeeze=False).flatten()
        for axis in axes[len(angles) :]:
            axis.set_axis_off()
        for axis, (m, entries) in zip(axes, angles.items(), strict=False):
            axis.imshow(_as_matrix(angles[n], n), alpha=0.13, **look)
            image = axis.imshow(_as_matrix(entries, n), **look)
            for start in np.arange(0, n, m) - 0.5:
                axis.add_patch(Rectangle((start, start), m, m, fill=False, ec=BLACK, lw=0.8))
            axis.set(title=f"m = {m}: {names.get(m, f'{n // m} blocks')}", xticks=range(0, n, 4), yticks=range(0, n, 4))
        top.colorbar(image, ax=list(axes), label="phase recovered (rad)", shrink=0.7, aspect=35)
        top.supxlabel("index of η (no unit)", size=10)
        top.supylabel("index of λ (no unit)", size=10)
        _draw_conditions(bottom.subplots(), data, settings)
    return figure


def _as_matrix(entries: pd.DataFrame, n: int) -> NDArray[np.float64]:
    matrix = np.full((n, n), np.nan)
    matrix[entries["row"].astype(int), entries["column"].astype(int)] = entries["value"]
    return matrix


def _draw_conditions(axis: Axes, data: pd.DataFrame, settings: Settings) -> None:
    levels = np.geomspace(1, 300, 80)
    for m, line in zip(settings["condition_ms"], ("-", "--", "-.", ":"), strict=False):
        share, error = _shares_above(data, m, levels)
        axis.plot(levels, np.where(share > 0, share, np.nan), line, color=M_COLOURS[m], label=f"m = {m}")
        axis.fill_between(levels, np.clip(share - error, 1e-9, 1), share + error, color=M_COLOURS[m], alpha=0.25, lw=0)
    axis.plot(levels, chance_above(levels), color=BLACK, lw=0.8, label="theory, m = 2: 2/(1 + c²)")
    axis.set(xscale="log", yscale="log", xlabel="condition number c of φ (no unit)", ylabel="share of R above c")
    axis.set(ylim=(1e-4, 1.5), xlim=(1, 300), title="Small entries of a Haar R make the view φ hard to undo")
    axis.legend(loc="lower left")


def _shares_above(data: pd.DataFrame, m: int, levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of condition numbers above each level, and its standard error: ``(2, levels)``."""
    values = data.loc[(data["what"] == CONDITION) & (data["m"] == m), "value"].to_numpy()
    return np.array([share_with_error(int((values > c).sum()), len(values)) for c in levels]).T


def _vanishes(what: str, data: pd.DataFrame) -> Check:
    """A difference is no more than rounding: of a sum of m terms of size 1, in double precision."""
    rows = data.loc[data["what"] == what]
    tolerance = 20 * float(rows["m"].max()) * torch.finfo(torch.float64).eps
    return equals_to(f"largest |{what}|", float(rows["value"].max()), 0.0, tolerance=tolerance)


def _keeps(data: pd.DataFrame, settings: Settings) -> list[Check]:
    """φ has full rank in all slots: in each of the n rows of the tensor product m entries are kept."""
    n = settings["effective_dim"]
    kept = data.loc[data["what"] == KEPT]
    shares = {m: float(kept.loc[kept["m"] == m, "value"].min()) / n**2 for m in sorted(set(kept["m"]))}
    return [equals_to(f"share of {KEPT}, m = {m}", share, m / n, tolerance=1e-12) for m, share in shares.items()]


def _is_invertible(data: pd.DataFrame, settings: Settings) -> list[Check]:
    levels = np.array([2.0, 4.0, 8.0, 16.0])
    shares, errors = _shares_above(data, 2, levels)
    chances = list(chance_above(levels))
    above = all_equal("shares of condition numbers above 2, 4, 8, 16, m = 2", list(shares), list(errors), chances)
    return [*_keeps(data, settings), *(_vanishes(what, data) for what in (INVERSE, SINGULAR, RANK_OFF)), above]


def _any_unitary_will_do(data: pd.DataFrame, settings: Settings) -> list[Check]:
    ranks = data.loc[data["what"] == RANK]
    missing = (ranks["m"] ** 2 - ranks["value"]).groupby(ranks["m"]).min()
    return [equals_to(f"m² - {RANK}, m = {m}", least, 0, tolerance=0) for m, least in missing.items()]


_SIZES = {"effective_dim": 12, "pairs": 10, "empty_ms": [2, 3, 4], "condition_ms": [2, 3, 4, 8]}

EXPERIMENT = Experiment(
    name="binding-as-projection",
    title="Binding is a view of the diagonal blocks of a tensor product",
    caption=(
        "Two phase vectors λ, η of effective dimension D·m, bound with blocks of several sizes. In full colour: the "
        "entries of λη that the inverse view φ⁻¹ recovers from the bound hypervector; pale: those that binding drops. "
        "Below: φ has the singular values |r|, so a small entry of R makes it hard to invert."
    ),
    settings={
        "quick": {**_SIZES, "rotations": 300, "blocks": 10},
        "full": {**_SIZES, "rotations": 500, "blocks": 50},
    },
    run_trial=run_trial,
    draw=draw,
)

_WHERE = "Section on holographic projections"
CLAIMS = [
    Claim(
        EXPERIMENT.name,
        f"{_WHERE}, eq. elem-bind",
        "Every entry of a bound slot is a linear combination of entries of the tensor product of the phases.",
        lambda data, settings: [_vanishes(ENTRY, data)],
    ),
    Claim(
        EXPERIMENT.name,
        f"{_WHERE}, eq. transform",
        "A bound hypervector is the block diagonal of the tensor product, transformed slot by slot by a linear map φ.",
        lambda data, settings: [_vanishes(VIEW, data)],
    ),
    Claim(
        EXPERIMENT.name,
        f"{_WHERE}, eq. transform",
        "φ is invertible provided that R has no entry that is zero.",
        _is_invertible,
        rejected={"R may be any unitary matrix, such as a permutation": _any_unitary_will_do},
        comment="And only then: the singular values of φ are the |r|, its rank the number of those that are not zero. "
        "Rotations of diagonality 0 are monomial for m = 2 and 3 and keep m of m² entries. From m = 4 on φ is singular "
        "too, but a tensor product has rank one and can be completed where the non-zero entries of R connect its rows "
        "and columns. Haar rotations have no zeros but small entries: for m = 2 the condition number exceeds c with "
        "chance 2/(1 + c²): the worst of D slots has one of about √(2D).",
    ),
    Claim(
        EXPERIMENT.name,
        f"{_WHERE}, figure ghrr-binding",
        "At fixed effective dimension, m = 1 keeps the diagonal as in FHRR, the largest m the whole tensor product.",
        lambda data, settings: [_vanishes(DIAGONAL, data), *_keeps(data, settings)],
        comment="What is kept grows with m because what is stored does: D·m² numbers, m times the effective dimension.",
    ),
]
