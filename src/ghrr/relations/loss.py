"""Cross-entropy over all entities, with its gradients, in a bounded amount of memory; cross-entropy of relations."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ghrr import ops
from ghrr.relations.scoring import to_rows

Softmax = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
_ALIGNMENT = 64  # of the number of entities in matrix products on a GPU


def softmax_error(logits: Tensor, targets: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return the weighted sum of cross-entropies, and the gradient of each by its logits: softmax minus target.

    Shapes
    ------
    logits: ``(n, N)``, targets, shares: ``(n,)``; outputs: ``()``, ``(n, N)``

    Examples
    --------
    >>> import torch
    >>> from ghrr.relations.loss import softmax_error
    >>> loss, error = softmax_error(torch.zeros(1, 2), torch.tensor([0]), torch.ones(1))
    >>> error
    tensor([[-0.5000,  0.5000]])
    """
    log_probability = torch.log_softmax(logits, dim=1)
    rows = targets[:, None]
    loss = -(log_probability.gather(1, rows)[:, 0] * shares).sum()
    error = log_probability.exp_()
    return loss, error.scatter_add_(1, rows, torch.full_like(error[:, :1], -1.0))


def cross_entropy_gradients(
    queries: Tensor,
    entities: Tensor,
    targets: Tensor,
    *,
    max_scores: int,
    weights: Tensor | None = None,
    length_penalty: float = 0.0,
    softmax: Softmax = softmax_error,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Return the weighted mean of the cross-entropies of the targets among all entities, and its gradients.

    With the length penalty c, the logits are :math:`L_{ij} = \langle q_i, e_j \rangle - c \|e_j\|^2`. Let P be the
    softmax of each row, let Y be 1 at the targets, and :math:`W = \mathrm{diag}(w)` for weights w divided by their
    sum. The gradients are

    .. math:: G_Q = W (P - Y) E, \qquad G_E = (P - Y)^\top W Q - 2c\, \mathrm{diag}\big((P - Y)^\top w\big) E .

    They are computed directly rather than by autograd: P replaces the scores, the gradient of the table of entities is
    written once, and the score matrix exists for ``max_scores`` numbers at a time. On a GPU, the three matrix products
    multiply bfloat16 numbers and add in float32.

    Parameters
    ----------
    queries
        Products of heads and relations.
    entities
        Table of all entities.
    targets
        Index of the correct entity for each query.
    max_scores
        Largest number of scores in memory at a time; at least the scores of one query are.
    weights
        Weight of each query; by default all are equal.
    length_penalty
        The number c in the logits.
    softmax
        :func:`softmax_error`, or a compiled form of it.

    Shapes
    ------
    queries: ``(n, d)``, entities: ``(N, d)``, targets, weights: ``(n,)``; outputs: ``()``, ``(n, d)``, ``(N, d)``

    Examples
    --------
    >>> import torch
    >>> from ghrr.relations.loss import cross_entropy_gradients
    >>> queries, entities = torch.randn(5, 8), torch.randn(100, 8)
    >>> loss, *_ = cross_entropy_gradients(queries, entities, torch.arange(5), max_scores=200)
    >>> torch.allclose(loss, torch.nn.functional.cross_entropy(queries @ entities.T, torch.arange(5)))
    True
    """
    count, size = len(queries), len(entities)
    shares = queries.new_full((count,), 1 / count) if weights is None else weights / weights.sum()
    query_gradient, entity_gradient = torch.empty_like(queries), torch.empty(0)
    losses = []
    table = _padded_bfloat16(entities) if entities.is_cuda else entities
    operands, weighted = queries.to(table.dtype), (queries * shares[:, None]).to(table.dtype)
    penalty = length_penalty * entities.square().sum(dim=1) if length_penalty else None
    rows = max(1, max_scores // len(table))
    for start in range(0, count, rows):
        chunk = slice(start, start + rows)
        logits = _product(operands[chunk], table.T)
        logits[:, size:] = -torch.inf
        if penalty is not None:
            logits[:, :size] -= penalty
        loss, error = softmax(logits, targets[chunk], shares[chunk])
        losses.append(loss)
        factors = error.to(table.dtype)
        query_gradient[chunk] = _product(factors, table).mul_(shares[chunk, None])
        gradient = _product(factors.T, weighted[chunk])[:size]
        if penalty is not None:
            gradient.addcmul_((shares[chunk] @ error)[:size, None], entities, value=-2 * length_penalty)
        entity_gradient = entity_gradient.add_(gradient) if start else gradient
    return torch.stack(losses).sum(), query_gradient, entity_gradient


def _padded_bfloat16(table: Tensor) -> Tensor:
    """Return a table in bfloat16, with rows of zeros: fast kernels need sizes that are multiples of a power of two."""
    padded = table.new_zeros(-(-len(table) // _ALIGNMENT) * _ALIGNMENT, table.shape[1], dtype=torch.bfloat16)
    padded[: len(table)] = table
    return padded


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Return the matrix product in float32 or better; ``out_dtype`` exists on a GPU only."""
    return torch.mm(a, b, out_dtype=torch.float32) if a.dtype == torch.bfloat16 else torch.mm(a, b)


def relation_cross_entropy(heads: Tensor, relations: Tensor, tails: Tensor, targets: Tensor) -> Tensor:
    r"""Return the mean cross-entropy of the correct relation among all relations, given head and tail.

    The logits are the same inner products as for entities, with the relation as the unknown:

    .. math:: \langle h * r, t \rangle = \langle r, h^\dagger * t \rangle

    Parameters
    ----------
    heads, tails
        Hypervectors of the triples.
    relations
        Hypervectors of all relations.
    targets
        Index of the correct relation of each triple.

    Shapes
    ------
    heads, tails: ``(n, dim, m, m)``, relations: ``(R, dim, m, m)``, targets: ``(n,)``; output: ``()``

    Examples
    --------
    >>> import ghrr, torch
    >>> from ghrr.relations.loss import relation_cross_entropy
    >>> space = ghrr.Space(dim=50, m=2, seed=0)
    >>> heads, relations = space.vectors(["a", "b"]), space.vectors(["r", "s", "t"])
    >>> tails = ghrr.bind(heads, relations[:2])
    >>> bool(relation_cross_entropy(heads, relations, tails, torch.tensor([0, 1])) < 1e-3)
    True
    """
    unknown = ops.bind(heads, tails, adjoint_a=True)
    return cross_entropy(to_rows(unknown) @ to_rows(relations).T, targets)
