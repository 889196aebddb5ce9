"""Nested binary dictionaries: encoded, decoded, and how many of their values theory says can be read back."""

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
from ghrr.paper.experiment import Check, all_equal, mean_with_error
from ghrr.paper.style import M_COLOURS, M_MARKERS

PLAIN, PERMUTED = "without permutation", "with permutation"


def encode_tree(keys: Tensor, values: Tensor, *, permuted: bool) -> Tensor:
    """The nested dictionary of two keys with these values at its leaves: K₁ * left + K₂ * right at every node.

    With permutation every subtree is shifted before it is bound, the values too.
    """
    while len(values) > 1:
        pairs = values.reshape(-1, 2, *values.shape[1:])
        values = ghrr.bind_bundle(keys, ghrr.shift(pairs) if permuted else pairs)
    return values[0]


def decode_tree(keys: Tensor, tree: Tensor, depth: int, *, permuted: bool) -> Tensor:
    """What unbinding gives for each path, in the order of the leaves."""
    read = tree[None]
    for _ in range(depth):
        read = ghrr.unbind(read[:, None], keys, side="left").flatten(0, 1)
        read = ghrr.shift(read, -1) if permuted else read
    return read


def share_decoded(keys: Tensor, values: Tensor, *, permuted: bool) -> float:
    """Share of the leaves whose own value is more similar to what is read than any other value of the tree."""
    depth = (len(values) - 1).bit_length()
    read = decode_tree(keys, encode_tree(keys, values, permuted=permuted), depth, permuted=permuted)
    scores = ghrr.pairwise_similarity(read, values)
    own = scores.diagonal().clone()
    return (own > scores.fill_diagonal_(-math.inf).amax(dim=1)).double().mean().item()


def measure_trees(
    space: ghrr.Space, kinds: Sequence[str], trees: Iterable[int], *, depth: int, generator: torch.Generator
) -> pd.DataFrame:
    """The accuracy for each of some trees, at all depths: a shallower tree takes the first values of the deepest."""
    rows = []
    for tree in trees:
        keys, values = space.random(2, generator=generator), space.random(2**depth, generator=generator)
        rows += [
            (kind, tree, level, share_decoded(keys, values[: 2**level], permuted=kind == PERMUTED))
            for level in range(1, depth + 1)
            for kind in kinds
        ]
    return pd.DataFrame(rows, columns=["kind", "tree", "depth", "accuracy"])


@functools.cache
def theory(depth: int, dim: int, m: int, *, diagonality: float | None = None, permuted: bool = False) -> float:
    r"""Expected share of leaves decoded.

    Reading leaf q of n gives leaf r the score c(q, r) plus noise. The confusion c(q, r) is the similarity of the key
    products on the paths to q and r; permutation makes it 0. The noise is a sum of n - 1 similarities of independent
    hypervectors, of variance s² each. With :math:`\sigma^2 = (n - 1) s^2`,

    .. math:: P = \frac1n \sum_q \int \varphi(z) \prod_{r \ne q} \Phi\big(z + (1 - c(q, r)) / \sigma\big)\, dz .

    This is right to about 0.005: the score of a wrong leaf has one more term, the confusion with finitely many slots.
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
def _keys_of_many_slots(m: int, diagonality: float | None) -> Tensor:
    """Two keys with so many slots that they stand for the average over random keys; phases need no average."""
    slots = max(200, 400_000 // m**4) if m > 1 else 1  # the larger m is, the less the similarity of products matters
    return ghrr.Space(slots, m, diagonality=diagonality).vectors(["K1", "K2"])


def _key_products(depth: int, m: int, diagonality: float | None) -> Tensor:
    """The product of the keys on each path."""
    keys = _keys_of_many_slots(m, diagonality)
    keys = keys[:, : max(200, keys.shape[1] >> max(0, depth - 6))]  # for there are many paths
    products = torch.eye(m, dtype=keys.dtype).expand_as(keys[:1])
    for _ in range(depth):
        products = ghrr.bind(products[:, None], keys).flatten(0, 1)
    return products


def _confusion(products: Tensor) -> Tensor:
    """Mean similarity of the products of two paths: 0 unless they hold the same keys in another order.

    For a key may be multiplied by any phase, and the average does not change.
    """
    seconds = torch.tensor([path.bit_count() for path in range(len(products))])  # how often K₂ is on a path
    same_keys = seconds[:, None] == seconds
    return torch.where(same_keys, ghrr.pairwise_similarity(products, products), 0.0).double()


def _trace_variance(products: Tensor, diagonality: float) -> float:
    """Mean square of tr(T V W†) in a slot, for values V, W and the product T of one path against that of another.

    Let p be the mean weight of a diagonal entry of a rotation, λ = p - (1 - p)/(m - 1), and u that of an entry of T,
    averaged over pairs of paths. The mean of Σₖ|(R†TQ)ₖₖ|² over rotations Q, R is then 1 + λ²(mu - 1). Haar rotations
    have λ = 0.
    """
    leaves, m = len(products), products.shape[-1]
    p = ghrr.capacity.diagonal_weight(m, diagonality)
    # The sum of |(X†Y)ₖₖ|² over all pairs X, Y of products is |Σ xx†|² with x the k-th columns of all X.
    squares = torch.einsum("nsak,nsbk->skab", products, products.conj()).abs().square()
    u = (squares.sum(dim=(-1, -2)).mean().item() / leaves - 1) / (leaves - 1)
    return 1 + (p - (1 - p) / (m - 1)) ** 2 * (m * u - 1)


def by_tree(data: pd.DataFrame, m: int, kind: str) -> pd.DataFrame:
    """Accuracies of one kind of tree: a row per tree, a column per depth from 1 on."""
    rows = data[(data["m"] == m) & (data["kind"] == kind)]
    return rows.pivot_table(index="tree", columns="depth", values="accuracy")


def depths_of(trees: pd.DataFrame) -> range:
    """The depths in a table of :func:`by_tree`."""
    return range(1, trees.shape[1] + 1)


def accuracy_at(trees: pd.DataFrame, depth: int) -> tuple[float, float]:
    """Mean over trees and its standard error, from whole trees, since the values of one tree are read together.

    Two leaves are added for the error alone, a pair that is mistaken for each other, so that it does not vanish where
    all trees are alike.
    """
    mean, error = mean_with_error(trees[depth])
    return mean, math.hypot(error, 2 / (2**depth * len(trees)))


def follows(what: str, trees: pd.DataFrame, expected: Callable[[int], float]) -> Check:
    """A check that accuracies follow a law of the depth."""
    measured, errors = zip(*(accuracy_at(trees, depth) for depth in depths_of(trees)), strict=True)
    return all_equal(what, measured, errors, [expected(depth) for depth in depths_of(trees)])


def sustained_depth(trees: pd.DataFrame, share: float) -> tuple[float, float]:
    """The depth down to which the mean accuracy stays above a share, interpolated, with its standard error."""
    below = [depth for depth in depths_of(trees) if trees[depth].mean() < share]
    if not below:
        return float(trees.shape[1]), 0.0
    last = below[0] - 1
    above = trees[last] if last else pd.Series(1.0, index=trees.index)  # a tree of one value is always read
    under = trees[last + 1]
    high, fall = above.mean() - share, above.mean() - under.mean()
    # To first order in the two means, so that the error comes from whole trees.
    linear = high / fall + (fall - high) / fall**2 * (above - above.mean()) + high / fall**2 * (under - under.mean())
    return mean_with_error(last + linear)


def steepest_drop(trees: pd.DataFrame) -> tuple[float, float]:
    """The largest loss of accuracy from one level to the next, with its standard error."""
    drops = [trees[depth - 1] - trees[depth] for depth in depths_of(trees)[1:]]
    return max((mean_with_error(drop) for drop in drops), key=lambda found: found[0])


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
    """Measured accuracies with error bars, and theory as a line."""
    x = np.array(depths_of(trees)) + offset
    mean, error = zip(*(accuracy_at(trees, depth) for depth in depths_of(trees)), strict=True)
    colour, marker = M_COLOURS[m], M_MARKERS[m]
    axis.plot(x, [expected(depth) for depth in depths_of(trees)], color=colour, lw=1.2, ls=line)
    axis.errorbar(x, mean, error, color=colour, marker=marker, ms=4, ls="none")
    axis.plot([], [], color=colour, lw=1.2, ls=line, marker=marker, ms=4, label=label or f"m = {m}")  # for the legend
