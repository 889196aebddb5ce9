"""Nested binary dictionaries: encoding, decoding, and the predicted share of values that can be decoded."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from torch import Tensor

import ghrr
from ghrr_lab.paper.experiment import Check
from ghrr_lab.paper.statistics import Measured, all_equal, mean_with_error, rows_where
from ghrr_lab.paper.style import M_COLOURS, M_MARKERS

PLAIN, PERMUTED = "without permutation", "with permutation"


def encode_tree(keys: Tensor, values: Tensor, *, permuted: bool) -> Tensor:
    """Encode a nested dictionary with two keys: each node is K₁ * left + K₂ * right, and the leaves are the values.

    With ``permuted``, every subtree, including the leaves, is shifted before it is bound.
    """
    while len(values) > 1:
        pairs = values.reshape(-1, 2, *values.shape[1:])
        values = ghrr.bind_bundle(keys, ghrr.shift(pairs) if permuted else pairs)
    return values[0]


def decode_tree(keys: Tensor, tree: Tensor, depth: int, *, permuted: bool) -> Tensor:
    """Unbind every path of a tree. Returns one noisy hypervector per leaf, in the order of the leaves."""
    decoded = tree[None]
    for _ in range(depth):
        decoded = ghrr.unbind(decoded[:, None], keys, side="left").flatten(0, 1)
        decoded = ghrr.shift(decoded, -1) if permuted else decoded
    return decoded


def share_decoded(keys: Tensor, values: Tensor, *, permuted: bool) -> float:
    """Return the share of leaves whose decoded hypervector is most similar to their own value."""
    depth = (len(values) - 1).bit_length()
    decoded = decode_tree(keys, encode_tree(keys, values, permuted=permuted), depth, permuted=permuted)
    scores = ghrr.pairwise_similarity(decoded, values)
    own = scores.diagonal().clone()
    return (own > scores.fill_diagonal_(-math.inf).amax(dim=1)).double().mean().item()


def measure_trees(
    space: ghrr.Space, kinds: Sequence[str], trees: Iterable[int], *, depth: int, generator: torch.Generator
) -> pd.DataFrame:
    """Measure the accuracy of random trees at all depths up to ``depth``.

    A shallower tree uses the first values of the deepest.
    """
    rows = []
    for tree in trees:
        keys, values = space.random(2, generator=generator), space.random(2**depth, generator=generator)
        rows += [
            (kind, tree, d, share_decoded(keys, values[: 2**d], permuted=kind == PERMUTED))
            for d in range(1, depth + 1)
            for kind in kinds
        ]
    return pd.DataFrame(rows, columns=["kind", "tree", "depth", "accuracy"])


@functools.cache
def theory(depth: int, dim: int, m: int, *, diagonality: float | None = None, permuted: bool = False) -> float:
    r"""Predict the share of leaves that are decoded correctly.

    Decoding leaf q of n gives leaf r the score c(q, r) plus noise. The confusion c(q, r) is the similarity of the key
    products on the paths to q and r; with permutation it is 0. The noise is a sum of n - 1 similarities of independent
    hypervectors, each of variance s². With :math:`\sigma^2 = (n - 1) s^2`,

    .. math:: P = \frac1n \sum_q \int \varphi(z) \prod_{r \ne q} \Phi\big(z + (1 - c(q, r)) / \sigma\big)\, dz .

    The result is accurate to about 0.005: it neglects the variation of c(q, r) for finitely many slots.
    """
    leaves = 2**depth
    confusion, trace = torch.zeros(leaves, leaves, dtype=torch.float64), 1.0
    if not permuted:
        products = _key_products(depth, m, diagonality)
        confusion = _confusion(products)
        trace = 1.0 if diagonality is None else _trace_variance(products, diagonality)
    sigma = math.sqrt((leaves - 1) * trace / (2 * dim * m * m))
    z = torch.linspace(-6, 6, 31, dtype=torch.float64)
    density = torch.exp(-z.square() / 2)
    chance = torch.zeros(leaves, dtype=torch.float64)
    for score, weight in zip(z, density / density.sum(), strict=True):
        below = torch.special.log_ndtr(score + (1 - confusion) / sigma).fill_diagonal_(0.0)
        chance += weight * below.sum(dim=1).exp()
    return chance.mean().item()


@functools.cache
def _averaging_keys(m: int, diagonality: float | None) -> Tensor:
    """Return two keys with many slots, whose similarities approximate means over random keys."""
    slots = max(200, 400_000 // m**4) if m > 1 else 1  # the similarities of products fall with m; phases need no mean
    return ghrr.Space(slots, m, diagonality=diagonality).vectors(["K1", "K2"])


def _key_products(depth: int, m: int, diagonality: float | None) -> Tensor:
    """Return the product of the keys on each path."""
    keys = _averaging_keys(m, diagonality)
    keys = keys[:, : max(200, keys.shape[1] >> max(0, depth - 6))]  # deep trees have many paths: use fewer slots
    products = torch.eye(m, dtype=keys.dtype).expand_as(keys[:1])
    for _ in range(depth):
        products = ghrr.bind(products[:, None], keys).flatten(0, 1)
    return products


def _confusion(products: Tensor) -> Tensor:
    """Return the mean similarity of the key products of each two paths.

    It is zero unless one path is a permutation of the other, because a random phase of a key does not cancel.
    """
    second_keys = torch.tensor([path.bit_count() for path in range(len(products))])  # number of K₂ on each path
    same_keys = second_keys[:, None] == second_keys
    return torch.where(same_keys, ghrr.pairwise_similarity(products, products), 0.0).double()


def _trace_variance(products: Tensor, diagonality: float) -> float:
    """Return the mean of |tr(T V W†)|² in a slot, for values V, W and the relative product T of two paths.

    Let p be the mean weight of a diagonal entry of a rotation, λ = p - (1 - p)/(m - 1), and u the mean weight of an
    entry of T over pairs of paths. The mean of Σₖ|(R†TQ)ₖₖ|² over rotations Q, R is 1 + λ²(mu - 1). Haar rotations have
    λ = 0.
    """
    leaves, m = len(products), products.shape[-1]
    p = ghrr.capacity.diagonal_weight(m, diagonality)
    # The sum of |(X†Y)ₖₖ|² over all pairs X, Y of products is |Σ xx†|², with x the k-th columns of all X.
    squares = torch.einsum("nsak,nsbk->skab", products, products.conj()).abs().square()
    u = (squares.sum(dim=(-1, -2)).mean().item() / leaves - 1) / (leaves - 1)
    return 1 + (p - (1 - p) / (m - 1)) ** 2 * (m * u - 1)


def by_tree(data: pd.DataFrame, m: int, kind: str) -> pd.DataFrame:
    """Return the accuracies of one kind of tree: a row per tree, a column per depth, starting at 1."""
    return rows_where(data, m=m, kind=kind).pivot_table(index="tree", columns="depth", values="accuracy")


def depths_of(trees: pd.DataFrame) -> range:
    """Return the depths in a table of :func:`by_tree`."""
    return range(1, trees.shape[1] + 1)


def accuracy_at(trees: pd.DataFrame, depth: int) -> Measured:
    """Return the mean accuracy at a depth and its standard error.

    The values of one tree are dependent, so the error is computed from whole trees. One additional pair of confused
    leaves keeps the error positive if all trees agree.
    """
    mean, error = mean_with_error(trees[depth])
    return mean, math.hypot(error, 2 / (2**depth * len(trees)))


def follows(what: str, trees: pd.DataFrame, expected: Callable[[int], float]) -> Check:
    """Check that the accuracies at all depths equal the predicted ones."""
    measured, errors = zip(*(accuracy_at(trees, depth) for depth in depths_of(trees)), strict=True)
    return all_equal(what, measured, errors, [expected(depth) for depth in depths_of(trees)])


def sustained_depth(trees: pd.DataFrame, share: float) -> Measured:
    """Return the interpolated depth down to which the mean accuracy exceeds ``share``, with its standard error."""
    below = [depth for depth in depths_of(trees) if trees[depth].mean() < share]
    if not below:
        return float(trees.shape[1]), 0.0
    last = below[0] - 1
    above = trees[last] if last else pd.Series(1.0, index=trees.index)  # a tree of depth 0 is always decoded
    under = trees[last + 1]
    high, fall = above.mean() - share, above.mean() - under.mean()
    # Linear in the two means, so the standard error follows from whole trees.
    linear = high / fall + (fall - high) / fall**2 * (above - above.mean()) + high / fall**2 * (under - under.mean())
    return mean_with_error(last + linear)


def steepest_drop(trees: pd.DataFrame) -> Measured:
    """Return the largest loss of accuracy between successive depths, with its standard error."""
    drops = [trees[depth - 1] - trees[depth] for depth in depths_of(trees)[1:]]
    return max((mean_with_error(drop) for drop in drops), key=lambda measured: measured[0])


def draw_curve(
    axis: Axes,
    trees: pd.DataFrame,
    expected: Callable[[int], float],
    m: int,
    *,
    offset: float = 0,
    label: str = "",
    line: str = "-",
) -> None:
    """Draw measured accuracies with error bars, and the prediction as a line."""
    x = np.array(depths_of(trees)) + offset
    mean, error = zip(*(accuracy_at(trees, depth) for depth in depths_of(trees)), strict=True)
    colour, marker = M_COLOURS[m], M_MARKERS[m]
    axis.plot(x, [expected(depth) for depth in depths_of(trees)], color=colour, lw=1.2, ls=line)
    axis.errorbar(x, mean, error, color=colour, marker=marker, ms=4, ls="none")
    axis.plot([], [], color=colour, lw=1.2, ls=line, marker=marker, ms=4, label=label or f"m = {m}")  # for the legend
