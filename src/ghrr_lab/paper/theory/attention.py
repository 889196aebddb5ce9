"""Attention written as binding, and the influence of inputs on rows of its results."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

import ghrr


def attention_weights(query: Tensor, key: Tensor, *, causal: bool = False) -> Tensor:
    """Compute the paper's σ(Q * K†): the softmax of the real part along each row.

    With ``causal``, the weights of row i are zero for all rows after i.
    """
    scores = ghrr.bind(query, ghrr.adjoint(key)).real
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
    return scores.softmax(dim=-1)


def attend(query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False) -> Tensor:
    """Compute the paper's σ(Q * K†) * V."""
    return ghrr.bind(attention_weights(query, key, causal=causal).to(value.dtype), value)


def influence(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Compute the norm of the derivative of each row of a complex result with respect to each input.

    Shapes
    ------
    ``function``: ``x`` to ``(dim, rows, *)``. Result: ``(rows, len(x))``.
    """
    jacobian: Tensor = torch.func.jacfwd(lambda inputs: torch.view_as_real(function(inputs)))(x)
    by_row = jacobian.movedim(1, 0).reshape(jacobian.shape[1], -1, len(x), x[0].numel())
    return by_row.square().sum(dim=(1, 3)).sqrt()
