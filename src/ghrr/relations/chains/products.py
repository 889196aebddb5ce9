r"""Products of relations: a chain of relations is the ordered product of their hypervectors.

Each relation r has one hypervector :math:`v_r`, the same for a step of a chain and for an answer. Its slots are real or
complex m × m matrices without further constraint, and its norm is :math:`\sqrt{mD}`, as for unitary hypervectors, so
that :math:`\delta` is the cosine. The answer to a chain is a softmax over all relations,

.. math:: P(c \mid r_1 \dots r_n) \propto \exp(\alpha \, \delta(v_{r_1} * \dots * v_{r_n}, v_c)),

with the norm of the product restored after every step. The scale :math:`\alpha` is fixed and small. A large or learned
scale reaches a lower loss with products that are only roughly similar to their answers, and their errors grow with the
length of the chain; with a small one, low loss needs products that are close to their answers.

**Why the slots are not unitary.** The brother of a brother is a brother, so :math:`v * v = v` up to scale. The only
unitary matrix with :math:`V V = V` is the identity: unitary hypervectors cannot distinguish brother from sister, whose
products :math:`v_b * v_s = v_s` and :math:`v_s * v_b = v_b` differ. Singular matrices can: such relations are
projections, and their products do not depend on the earlier steps of the chain.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def scale_to_unitary_norm(x: Tensor) -> Tensor:
    r"""Scale hypervectors to the norm :math:`\sqrt{mD}` of a unitary hypervector.

    Shapes
    ------
    x: ``(*batch, dim, m, m)``, real or complex; output: the same

    Examples
    --------
    >>> import torch
    >>> from ghrr.relations.chains.products import scale_to_unitary_norm
    >>> f"{scale_to_unitary_norm(torch.ones(5, 2, 2)).norm() ** 2:.4f}"
    '10.0000'
    """
    norm = torch.linalg.vector_norm(x, dim=(-3, -2, -1), keepdim=True)
    scaled: Tensor = x * (math.sqrt(x.shape[-3] * x.shape[-1]) / norm)
    return scaled


def multiply_chains(vectors: Tensor, chains: Tensor) -> Tensor:
    """Multiply the hypervectors of chains of one length, from left to right; restore the norm after each step.

    Shapes
    ------
    vectors: ``(relations, dim, m, m)``; chains: ``(n, length)`` of indices; output: ``(n, dim, m, m)``

    Examples
    --------
    >>> import torch
    >>> from ghrr.relations.chains.products import multiply_chains
    >>> turn, flip = torch.tensor([[0.0, -1], [1, 0]]), torch.tensor([[1.0, 0], [0, -1]])
    >>> vectors = torch.stack([turn, flip])[:, None]  # two relations, dim = 1, m = 2
    >>> there, back = multiply_chains(vectors, torch.tensor([[0, 1], [1, 0]]))
    >>> torch.equal(there, -back)
    True
    """
    product = _rows(vectors, chains[:, 0])
    for step in range(1, chains.shape[1]):
        product = scale_to_unitary_norm(product @ _rows(vectors, chains[:, step]))
    return product


def _rows(vectors: Tensor, indices: Tensor) -> Tensor:
    # The gradient of `vectors[indices]` adds rows in an order that depends on the threads; ``embedding`` does not.
    flat = torch.view_as_real(vectors) if vectors.is_complex() else vectors
    rows = torch.nn.functional.embedding(indices, flat.flatten(1)).view(len(indices), *flat.shape[1:])
    return torch.view_as_complex(rows) if vectors.is_complex() else rows


def cosines(x: Tensor, vectors: Tensor) -> Tensor:
    r"""Return the similarity :math:`\delta` of products with all relations; both have the norm :math:`\sqrt{mD}`.

    Shapes
    ------
    x: ``(n, dim, m, m)``; vectors: ``(relations, dim, m, m)``; output: ``(n, relations)``
    """
    if vectors.is_complex():
        x, vectors = torch.view_as_real(x), torch.view_as_real(vectors)
    return x.flatten(1) @ vectors.flatten(1).mT / (vectors.shape[1] * vectors.shape[2])


def log_probabilities(vectors: Tensor, scale: float, chains: Tensor) -> Tensor:
    """Return the log-probability of every relation as the answer to chains of one length, from one product each.

    Shapes
    ------
    vectors: ``(relations, dim, m, m)``; chains: ``(n, length)``; output: ``(n, relations)``
    """
    return torch.log_softmax(scale * cosines(multiply_chains(vectors, chains), vectors), dim=1)


def composition_table(vectors: Tensor, scale: float) -> Tensor:
    """Return the log-probability of every relation c as the composition of every pair a, b.

    Shapes
    ------
    vectors: ``(relations, dim, m, m)``; output: ``(relations, relations, relations)``, by a, b, c
    """
    every = torch.arange(len(vectors))
    pairs = torch.cartesian_prod(every, every)
    return log_probabilities(vectors, scale, pairs).view(len(every), len(every), -1)
