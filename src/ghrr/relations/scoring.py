r"""Scores of triples: flat real rows, so that scoring against all entities is one real matrix product.

Hypervectors are stored as rows of :math:`2 D m^2` real numbers (real and imaginary parts side by side). For the rows
q and e of Q and E, the similarity is an inner product, :math:`\delta(Q, E) = \langle q, e \rangle / (mD)`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ghrr import ops


def to_hypervectors(rows: Tensor, m: int) -> Tensor:
    """View real rows as hypervectors.

    Shapes
    ------
    rows: ``(*, 2 * dim * m * m)``, real; output: ``(*, dim, m, m)``, complex

    Examples
    --------
    >>> import torch
    >>> from ghrr.relations.scoring import to_hypervectors
    >>> to_hypervectors(torch.zeros(7, 2 * 10 * 9), m=3).shape
    torch.Size([7, 10, 3, 3])
    """
    return torch.view_as_complex(rows.reshape(*rows.shape[:-1], -1, m, m, 2))


def to_rows(hypervectors: Tensor) -> Tensor:
    """Return hypervectors as real rows, the inverse of :func:`to_hypervectors`.

    Shapes
    ------
    hypervectors: ``(*, dim, m, m)``, complex; output: ``(*, 2 * dim * m * m)``, real

    Examples
    --------
    >>> import torch
    >>> from ghrr.relations.scoring import to_hypervectors, to_rows
    >>> rows = torch.randn(7, 2 * 10 * 9)
    >>> torch.equal(to_rows(to_hypervectors(rows, m=3)), rows)
    True
    """
    return torch.view_as_real(hypervectors.resolve_conj()).flatten(-4)


def triple_scores(heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
    r"""Return the scores :math:`\delta(h * r, t)` of triples; batches broadcast.

    For m = 1, mD times the score is the score of ComplEx, :math:`\mathrm{Re} \sum_j h_j r_j \overline{t_j}`. If also
    :math:`|r_j| = 1`, it differs from RotatE's :math:`-\frac12 \|h \circ r - t\|^2` by :math:`\frac12 (\|h\|^2 +
    \|t\|^2)` only.

    Shapes
    ------
    heads, relations, tails: ``(*batch, dim, m, m)``; output: ``(*batch)``, real

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.relations.scoring import triple_scores
    >>> h, r = ghrr.Space(dim=100, m=3, seed=0).vectors(["h", "r"])
    >>> f"{triple_scores(h, r, h * 0 + ghrr.bind(h, r)):.3f}"
    '1.000'
    """
    return ops.bind_similarity(heads, relations, tails)
