r"""One hypervector per class: centroids, and updates on mistakes.

A class is represented by one vector, and a sample belongs to the class of the most similar vector. ``centroids`` sums
the samples of each class. ``online_update`` then moves the vectors on mistakes: with similarities :math:`\delta`, a
sample z of class y that was taken for class k changes :math:`c_y` by :math:`+\eta(1 - \delta_y) z` and :math:`c_k` by
:math:`-\eta(1 - \delta_k) z` (OnlineHD: Hernández-Cano et al., DATE 2021). All samples of a batch are compared with the
same vectors, so a batch is two matrix products.
"""

from __future__ import annotations

import torch
from torch import Tensor

_BLOCK = 1024  # columns of features that are summed at a time
_ROUNDING = 1e-12  # share of the square of a sum that rounding may leave after subtraction


def class_sums(features: Tensor, labels: Tensor, weights: Tensor, n_classes: int) -> Tensor:
    """Return the weighted sum of the features of each class, in double precision.

    Shapes
    ------
    features: ``(n, f)``; labels: ``(n,)``, integers; weights: ``(n,)``; output: ``(n_classes, f)``

    Examples
    --------
    >>> import torch
    >>> from ghrr.learn.prototypes import class_sums
    >>> class_sums(torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([0, 1, 0]), torch.ones(3), 2)
    tensor([[5.],
            [2.]], dtype=torch.float64)
    """
    sums = torch.zeros(n_classes, features.shape[1], dtype=torch.float64, device=features.device)
    shares = torch.zeros(n_classes, len(features), dtype=torch.float64, device=features.device)
    shares[labels, torch.arange(len(features), device=features.device)] = weights.double()
    for columns in range(0, features.shape[1], _BLOCK):  # in blocks, so that the features are not copied as a whole
        block = slice(columns, columns + _BLOCK)
        sums[:, block] = shares @ features[:, block].double()
    return sums


def cosines(features: Tensor, prototypes: Tensor) -> Tensor:
    """Return the cosine of each sample with each class vector, ``(n, classes)``; 0 for a zero vector."""
    normalize = torch.nn.functional.normalize
    return normalize(features.to(prototypes.dtype), dim=1) @ normalize(prototypes, dim=1).mT


def left_out_scores(features: Tensor, prototypes: Tensor, labels: Tensor, left_out: Tensor) -> Tensor:
    r"""Return the scores of samples of which each one is left out of the sum of its class, ``(n, classes)``.

    The score of class c is :math:`\langle z, s_c \rangle / \|s_c\|`. For the own class, :math:`s_c` is without
    :math:`v z`, where v is the weight to leave out. If nothing else is in the sum, the score is 0.

    Shapes
    ------
    features: ``(n, f)``; prototypes: ``(classes, f)``, sums of :func:`class_sums`; labels, left_out: ``(n,)``

    Examples
    --------
    >>> import torch
    >>> from ghrr.learn.prototypes import class_sums, left_out_scores
    >>> z, labels = torch.eye(2)[[0, 0, 1]], torch.tensor([0, 0, 1])
    >>> left_out_scores(z, class_sums(z, labels, torch.ones(3), 2), labels, torch.ones(3)).tolist()
    [[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]
    """
    rows, left_out = features.to(prototypes.dtype), left_out.to(prototypes.dtype)
    products = rows @ prototypes.mT
    squares = prototypes.square().sum(dim=1)
    index = torch.arange(len(rows), device=rows.device)
    own, length = products[index, labels], left_out * rows.square().sum(dim=1)
    reduced = squares[labels] - left_out * (2 * own - length)
    scores = products * torch.where(squares > 0, squares, 1.0).rsqrt()
    is_empty = reduced <= _ROUNDING * squares[labels]
    scores[index, labels] = torch.where(is_empty, 0.0, (own - length) * torch.where(is_empty, 1.0, reduced).rsqrt())
    return scores


def online_update(prototypes: Tensor, features: Tensor, labels: Tensor, weights: Tensor, rate: float) -> int:
    """Move the class vectors on the mistakes of one batch, in place. Returns the number of mistakes."""
    similar = cosines(features, prototypes)
    chosen = similar.argmax(dim=1)
    wrong = chosen != labels
    if not bool(wrong.any()):
        return 0
    rows, own, taken = features[wrong].to(prototypes.dtype), labels[wrong], chosen[wrong]
    index = torch.arange(len(rows), device=rows.device)
    size = rate * weights[wrong].to(rows.dtype)
    prototypes.index_add_(0, own, rows * (size * (1 - similar[wrong][index, own]))[:, None])
    prototypes.index_add_(0, taken, rows * (-size * (1 - similar[wrong][index, taken]))[:, None])
    return int(wrong.sum())
