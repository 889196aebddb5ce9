"""Figure ghrr-binding: binding keeps the diagonal, diagonal blocks, or all of a tensor product."""

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
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings
from ghrr_lab.paper.statistics import all_equal, is_close, is_rounding_error, rows_where, share_with_error
from ghrr_lab.paper.style import BLACK, M_COLOURS, new_figure, style
from ghrr_lab.paper.theory.sampling import random_phases

# Differences that are zero in theory: the largest absolute value in a trial.
ENTRY, VIEW, DIAGONAL = "G₁ * G₂ - Σ q r λ η", "G₁ * G₂ - φ(blocks)", "FHRR: H₁ * H₂ - diagonal"
INVERSE, SINGULAR = "φ⁻¹(G₁ * G₂) - blocks, times |r|", "singular values of φ - |r|"
RANK_OFF = "rank of φ - non-zero entries of R, of diagonality 0"
# Other measurements.
RANK, KEPT = "rank of φ, R of diagonality 0", "entries of the tensor product kept"
CONDITION, ANGLE = "condition number of φ", "angle"
_ZERO = 1e-8  # entries of R below this count as zero; rounding errors are 1e-15, and Haar matrices have no such entries


def diagonal_blocks(product: Tensor, m: int) -> Tensor:
    """Return the m x m blocks on the diagonal: ``(*, n, n)`` to ``(*, n / m, m, m)``."""
    size = product.shape[-1] // m
    return product.reshape(*product.shape[:-2], size, m, size, m).diagonal(dim1=-4, dim2=-2).movedim(-1, -3)


def view_matrix(q: Tensor, r: Tensor) -> Tensor:
    """Return the paper's φ as a matrix ``(*, m², m²)`` that acts on the concatenated columns of a block.

    Its blocks are U_l = Q diag(R[:, l]). Since Q is unitary, the singular values are |r_nl|.
    """
    eye = torch.eye(q.shape[-1], dtype=q.dtype)
    return torch.einsum("...kn,...nl,lp->...lkpn", q, r, eye).flatten(-4, -3).flatten(-2, -1)


def chance_above(c: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability that max|r| / min|r| of a Haar matrix R exceeds c, for m = 2.

    |r|² has the values u and 1 - u with uniform u. With v = min(u, 1 - u), the condition (1 - v) / v > c² means
    v < 1 / (1 + c²).
    """
    return 2 / (1 + c * c)


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    n, pairs = settings["effective_dim"], settings["pairs"]
    first, second = random_phases(2, pairs, n, generator=generator)
    # Blocks of every size use the same phases, so the effective dimension D·m is the same.
    sizes = [m for m in range(1, n + 1) if n % m == 0]
    tables = [_project(first, second, m, generator, with_angles=params["block"] == 0) for m in sizes]
    for m in settings["empty_ms"]:
        q = ghrr.unitary.haar(pairs, m=m, generator=generator, dtype=torch.complex128)
        r = ghrr.unitary.with_diagonality(0.0, pairs, m=m, generator=generator, dtype=torch.complex128)
        rank = torch.linalg.matrix_rank(view_matrix(q, r), rtol=_ZERO)
        deviation = (rank - (r.abs() > _ZERO).sum((-1, -2))).abs().max()
        tables.append(_table(m, {RANK: rank, RANK_OFF: deviation}))
    for m in settings["condition_ms"]:
        r = ghrr.unitary.haar(settings["rotations"], m=m, generator=generator, dtype=torch.complex128).abs()
        tables.append(_table(m, {CONDITION: r.amax((-1, -2)) / r.amin((-1, -2))}))
    return pd.concat(tables, ignore_index=True)


def _table(m: int, values: dict[str, Tensor]) -> pd.DataFrame:
    return pd.concat([pd.DataFrame({"what": what, "m": m, "value": x.flatten()}) for what, x in values.items()])


def _project(first: Tensor, second: Tensor, m: int, generator: torch.Generator, *, with_angles: bool) -> pd.DataFrame:
    """Bind hypervectors with these phases, and compare the result with the diagonal blocks of the tensor product."""
    product = first[:, :, None] * second[:, None, :]
    blocks = diagonal_blocks(product, m)
    left, right = (x.reshape(len(x), -1, m) for x in (first, second))
    q, r = ghrr.unitary.haar(2, *left.shape[:-1], m=m, generator=generator, dtype=torch.complex128)
    bound = ghrr.bind(q * left[..., None, :], r * right[..., None, :])
    phi = view_matrix(q, r)
    transformed = (phi @ blocks.mT.flatten(-2)[..., None]).reshape(blocks.shape).mT
    recovered = ghrr.bind(ghrr.adjoint(q), bound) / r
    singular = torch.linalg.svdvals(phi)
    values = {
        ENTRY: (bound - torch.einsum("...kn,...nl,...n,...l->...kl", q, r, left, right)).abs().max(),
        VIEW: (bound - transformed).abs().max(),
        INVERSE: ((recovered - blocks).abs() * r.abs()).max(),  # φ⁻¹ amplifies rounding errors by 1 / |r|
        SINGULAR: (singular - r.abs().flatten(-2).sort(descending=True).values).abs().max(),
        KEPT: (singular > _ZERO).sum((-1, -2)),
    }
    if m == 1:  # FHRR has no rotations: hypervectors are phases
        products = ghrr.bind(left[..., None], right[..., None]).flatten(1)
        values[DIAGONAL] = (products - product.diagonal(dim1=-2, dim2=-1)).abs().max()
    if not with_angles:
        return _table(m, values)
    slot, row, column = (index.flatten() for index in np.indices(blocks.shape[1:]))
    angles = _table(m, {ANGLE: recovered[0].angle()}).assign(row=slot * m + row, column=slot * m + column)
    return pd.concat([_table(m, values), angles])


@style()
def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    n = settings["effective_dim"]
    rows = rows_where(data, what=ANGLE)
    angles = {m: rows_where(rows, m=m) for m in rows["m"].unique()}
    names = {1: "FHRR", n: "everything"}
    options = {"cmap": "twilight", "vmin": -math.pi, "vmax": math.pi}
    figure = new_figure(7.0)
    height = math.ceil(len(angles) / 3)
    top, bottom = figure.subfigures(2, 1, height_ratios=[height, 1.3], squeeze=False)[:, 0]
    axes = top.subplots(height, 3, sharex=True, sharey=True, squeeze=False).flatten()
    for axis in axes[len(angles) :]:
        axis.set_axis_off()
    for axis, (m, entries) in zip(axes, angles.items(), strict=False):
        axis.imshow(_as_matrix(angles[n], n), alpha=0.13, **options)
        image = axis.imshow(_as_matrix(entries, n), **options)
        for start in np.arange(0, n, m) - 0.5:
            axis.add_patch(Rectangle((start, start), m, m, fill=False, ec=BLACK, lw=0.8))
        axis.set(title=f"m = {m}: {names.get(m, f'{n // m} blocks')}", xticks=range(0, n, 4), yticks=range(0, n, 4))
    top.colorbar(image, ax=list(axes), label="recovered phase (rad)", shrink=0.7, aspect=35)
    top.supxlabel("index of η (no unit)", size=10)
    top.supylabel("index of λ (no unit)", size=10)
    _draw_conditions(bottom.subplots(), data, settings)
    return figure


def _as_matrix(entries: pd.DataFrame, n: int) -> NDArray[np.float64]:
    matrix = np.full((n, n), np.nan)
    matrix[entries["row"].astype(int), entries["column"].astype(int)] = entries["value"]
    return matrix


def _draw_conditions(axis: Axes, data: pd.DataFrame, settings: Settings) -> None:
    bounds = np.geomspace(1, 300, 80)
    for m, line in zip(settings["condition_ms"], ("-", "--", "-.", ":"), strict=False):
        share, error = _shares_above(data, m, bounds)
        axis.plot(bounds, np.where(share > 0, share, np.nan), line, color=M_COLOURS[m], label=f"m = {m}")
        axis.fill_between(bounds, np.clip(share - error, 1e-9, 1), share + error, color=M_COLOURS[m], alpha=0.25, lw=0)
    axis.plot(bounds, chance_above(bounds), color=BLACK, lw=0.8, label="theory, m = 2: 2/(1 + c²)")
    axis.set(xscale="log", yscale="log", xlabel="condition number c of φ (no unit)", ylabel="share of R above c")
    axis.set(ylim=(1e-4, 1.5), xlim=(1, 300), title="Small entries of a Haar matrix R make φ ill-conditioned")
    axis.legend(loc="lower left")


def _shares_above(data: pd.DataFrame, m: int, bounds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of condition numbers above each bound, and its standard error: ``(2, bounds)``."""
    values = rows_where(data, what=CONDITION, m=m)["value"].to_numpy()
    return np.array([share_with_error(int((values > c).sum()), len(values)) for c in bounds]).T


def _vanishes(what: str, data: pd.DataFrame) -> Check:
    return is_rounding_error(f"largest |{what}|", rows_where(data, what=what))


def _keeps(data: pd.DataFrame, settings: Settings) -> list[Check]:
    """Check that φ has full rank in all slots, so that m entries are kept in each row of the tensor product."""
    n = settings["effective_dim"]
    kept = rows_where(data, what=KEPT)
    shares = {m: float(rows_where(kept, m=m)["value"].min()) / n**2 for m in sorted(set(kept["m"]))}
    return [is_close(f"share of {KEPT}, m = {m}", share, m / n, tolerance=1e-12) for m, share in shares.items()]


def _is_invertible(data: pd.DataFrame, settings: Settings) -> list[Check]:
    bounds = np.array([2.0, 4.0, 8.0, 16.0])
    shares, errors = _shares_above(data, 2, bounds)
    chances = list(chance_above(bounds))
    above = all_equal("shares of condition numbers above 2, 4, 8, 16, m = 2", list(shares), list(errors), chances)
    return [*_keeps(data, settings), *(_vanishes(what, data) for what in (INVERSE, SINGULAR, RANK_OFF)), above]


def _is_invertible_for_any_unitary(data: pd.DataFrame, settings: Settings) -> list[Check]:
    ranks = rows_where(data, what=RANK)
    missing = (ranks["m"] ** 2 - ranks["value"]).groupby(ranks["m"]).min()
    return [is_close(f"m² - {RANK}, m = {m}", least, 0, tolerance=0) for m, least in missing.items()]


_SIZES = {"effective_dim": 12, "pairs": 10, "empty_ms": [2, 3, 4], "condition_ms": [2, 3, 4, 8]}

_WHERE = "Section on holographic projections"
CLAIMS = [
    Claim(
        f"{_WHERE}, eq. elem-bind",
        "Each entry of a bound slot is a linear combination of entries of the tensor product of the phases.",
        lambda data, settings: [_vanishes(ENTRY, data)],
    ),
    Claim(
        f"{_WHERE}, eq. transform",
        "A bound hypervector is the block diagonal of the tensor product, transformed slot by slot by a linear map φ.",
        lambda data, settings: [_vanishes(VIEW, data)],
    ),
    Claim(
        f"{_WHERE}, eq. transform",
        "φ is invertible if R has no zero entry.",
        _is_invertible,
        rejected={"R may be any unitary matrix, such as a permutation": _is_invertible_for_any_unitary},
        comment="The converse also holds: the singular values of φ are the |r|, so its rank is the number of non-zero "
        "entries. Rotations of diagonality 0 are monomial for m = 2 and 3, and keep m of m² entries. For m ≥ 4, φ is "
        "also singular; but a tensor product has rank one, so its missing entries can be completed if the non-zero "
        "entries of R connect its rows and columns. Haar rotations have no zero entries, but small ones: for m = 2 the "
        "condition number exceeds c with probability 2/(1 + c²), so the largest of D slots is about √(2D).",
    ),
    Claim(
        f"{_WHERE}, figure ghrr-binding",
        "At fixed effective dimension, m = 1 keeps the diagonal, as in FHRR, and the largest m the full tensor "
        "product.",
        lambda data, settings: [_vanishes(DIAGONAL, data), *_keeps(data, settings)],
        comment="A larger m keeps more because it stores more: D·m² numbers, m times the effective dimension.",
    ),
]

EXPERIMENT = Experiment(
    name="binding-as-projection",
    title="Binding transforms the diagonal blocks of a tensor product",
    caption=(
        "Two phase vectors λ, η of effective dimension D·m, bound with blocks of several sizes. Full colour: entries "
        "of λη that φ⁻¹ recovers from the bound hypervector. Pale: entries that binding discards. Bottom: φ has the "
        "singular values |r|, so small entries of R make it ill-conditioned."
    ),
    settings={
        "quick": {**_SIZES, "rotations": 300, "blocks": 10},
        "full": {**_SIZES, "rotations": 500, "blocks": 50},
    },
    run_trial=run_trial,
    draw=draw,
    claims=CLAIMS,
)
