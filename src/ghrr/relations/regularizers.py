r"""Regularisers of the score: penalties on the hypervectors of a batch of triples, averaged over the batch."""

from __future__ import annotations

import torch
from torch import Tensor

from ghrr import ops


def _squared_norm(x: Tensor) -> Tensor:
    """Return the sum of squared moduli over all slots: ``(n, dim, m, m)`` to ``(n,)``."""
    return torch.view_as_real(x).square().flatten(1).sum(dim=1)


def dura(heads: Tensor, relations: Tensor, tails: Tensor, products: Tensor, *, product_weight: float = 1.0) -> Tensor:
    r"""Return the DURA penalty (duality-induced regulariser) of a batch: squared norms before and after the relation.

    .. math:: \|h\|^2 + \|t\|^2 + w (\|h * r\|^2 + \|t * r^\dagger\|^2)

    It bounds a nuclear norm of the tensor of scores. :math:`t * r^\dagger` is the other form of the score:
    :math:`\delta(h * r, t) = \delta(h, t * r^\dagger)`.

    Parameters
    ----------
    heads, relations, tails
        Hypervectors of the triples.
    products
        ``heads * relations``, which the score needs as well.
    product_weight
        The weight w of the products.

    Shapes
    ------
    all: ``(n, dim, m, m)``; output: ``()``

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.relations.regularizers import dura
    >>> h, r, t = ghrr.Space(dim=10, m=2, seed=0).vectors(["h", "r", "t"])[:, None]
    >>> f"{dura(h, r, t, ghrr.bind(h, r)):.1f}"  # four unitary hypervectors, each of squared norm m * dim
    '80.0'
    """
    backward = ops.bind(tails, relations, adjoint_b=True)
    norms = _squared_norm(heads) + _squared_norm(tails)
    return (norms + product_weight * (_squared_norm(products) + _squared_norm(backward))).mean()


def n3(heads: Tensor, relations: Tensor, tails: Tensor, products: Tensor) -> Tensor:
    r"""Return the N3 penalty of a batch: the nuclear 3-norm, with Frobenius norms of slots in place of moduli.

    .. math:: \sum_j \|h_j\|_F^3 + \|r_j\|_F^3 + \|t_j\|_F^3

    For m = 1 this is the regulariser of ComplEx-N3. It does not change if slots are multiplied by unitary matrices.

    Shapes
    ------
    all: ``(n, dim, m, m)``; output: ``()``

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.relations.regularizers import n3
    >>> h, r, t = ghrr.Space(dim=10, m=1, seed=0).vectors(["h", "r", "t"])[:, None]
    >>> f"{n3(h, r, t, ghrr.bind(h, r)):.1f}"  # 3 * 10 numbers of modulus 1
    '30.0'
    """
    squares = [torch.view_as_real(x).square().sum(dim=(-1, -2, -3)) for x in (heads, relations, tails)]
    # The derivative of x ** 1.5 is finite at zero, the derivative of a norm is not.
    return sum(square.pow(1.5).sum(dim=1) for square in squares).mean()  # type: ignore[union-attr]


REGULARIZERS = {"dura": dura, "n3": n3}
