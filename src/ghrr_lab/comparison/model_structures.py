"""Records, nested records, sequences and trees that work with every model, for comparisons.

``ghrr.structures`` is for GHRR alone: it decorrelates keys by moments of rotations, sums bound pairs by kernels for
slots, and computes confidence from the noise of a :class:`ghrr.Space`. None of these has a counterpart in the other
models. These functions use only the methods that all models have.

A key is bound on the left of its value, and read by unbinding on the left. Terms are bundled once, after binding, so
that models with a majority rule do not take a majority of majorities; nested records bundle at every level.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ghrr import models


def read(model: models.Architecture, x: Tensor, path: Sequence[Tensor]) -> Tensor:
    """Unbind the keys of a path, the outermost first."""
    for key in path:
        x = rescale(model, model.unbind(x, key, side="left"))
    return x


def rescale(model: models.Architecture, x: Tensor) -> Tensor:
    """Scale vectors of real or complex numbers to a similarity of 1 with themselves; this keeps all decisions."""
    if not model.facts.differentiable:
        return x
    square = model.similarity(x, x).clamp(min=1e-30)
    return x * square.rsqrt().reshape(*square.shape, *[1] * (x.ndim - square.ndim)).to(x.dtype)


def encode_record(model: models.Architecture, keys: Tensor, values: Tensor, generator: torch.Generator) -> Tensor:
    """Encode pairs, ``(n, *key_shape)`` and ``(*batch, n, *shape)``, as the bundle of the bound pairs."""
    return model.bundle(model.bind(keys, values), generator=generator)


def encode_nested(
    model: models.Architecture, levels: Sequence[tuple[Tensor, Tensor]], leaf: Tensor, generator: torch.Generator
) -> Tensor:
    """Encode a chain of nested records, from the outermost level to the innermost.

    Each level has keys ``(w, *key_shape)`` and the values ``(w - 1, *shape)`` of all keys but the first, whose value is
    the next level or, in the innermost one, the leaf.
    """
    x = leaf
    for keys, values in reversed(levels):
        terms = model.bind(keys, torch.cat([rescale(model, x).unsqueeze(0), values]))
        x = model.bundle(terms, generator=generator)
    return x


def encode_by_binding(model: models.Architecture, key: Tensor, items: Tensor, generator: torch.Generator) -> Tensor:
    """Encode a sequence ``(n, *shape)``: item number i is bound i times with one key."""
    terms = items.clone()
    for i in range(1, len(items)):
        terms[i:] = model.bind(key, terms[i:])
    return model.bundle(terms, generator=generator)


def encode_by_shift(model: models.Architecture, items: Tensor, generator: torch.Generator) -> Tensor:
    """Encode a sequence ``(n, *shape)``: item number i is shifted by i."""
    terms = torch.stack([model.shift(item, i) for i, item in enumerate(items)])
    return model.bundle(terms, generator=generator)


def encode_tree(model: models.Architecture, keys: Tensor, leaves: Tensor, generator: torch.Generator) -> Tensor:
    """Encode a complete binary tree with two keys, ``(2, *key_shape)``, and its leaves, ``(2**depth, *shape)``.

    The first half of the leaves is below the first key.
    """
    terms, width = leaves, 1
    while width < len(leaves):  # from the innermost key to the outermost
        groups = terms.reshape(-1, 2, width, *terms.shape[1:])
        terms = torch.stack([model.bind(key, groups[:, n]) for n, key in enumerate(keys)], dim=1).flatten(0, 2)
        width *= 2
    return model.bundle(terms, generator=generator)


def read_tree(model: models.Architecture, tree: Tensor, keys: Tensor, depth: int) -> Tensor:
    """Unbind the paths to all leaves, in the order of the leaves."""
    found = tree.unsqueeze(0)
    for _ in range(depth):
        found = torch.stack([read(model, found, [key]) for key in keys], dim=1).flatten(0, 1)
    return found


def best(model: models.Architecture, queries: Tensor, codebook: Tensor) -> Tensor:
    """Return the index of the most similar vector of a codebook for every query."""
    return model.pairwise_similarity(queries, codebook).argmax(dim=-1)
