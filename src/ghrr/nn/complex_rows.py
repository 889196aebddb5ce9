r"""Complex rows stored as real tensors: on the last axis m real parts, then m imaginary parts.

All of ``ghrr.nn`` uses this layout. Compilers and 16-bit arithmetic do not support complex dtypes, and the dot product
of two such rows is :math:`\mathrm{Re}\,q k^\dagger`, the score of attention.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ghrr.checks import names_errors

EPSILON = 1e-6  # keeps rows of zeros finite when rows are scaled to one length


@names_errors
def multiply(a: Tensor, b: Tensor) -> Tensor:
    """Multiply complex rows feature by feature; leading axes broadcast.

    Examples
    --------
    >>> import torch
    >>> from ghrr.nn.complex_rows import multiply
    >>> multiply(torch.tensor([0.0, 1.0]), torch.tensor([2.0, 3.0]))  # i (2 + 3i)
    tensor([-3.,  2.])
    """
    (ar, ai), (br, bi) = a.chunk(2, dim=-1), b.chunk(2, dim=-1)
    return torch.cat((ar * br - ai * bi, ar * bi + ai * br), dim=-1)


def to_complex(x: Tensor) -> Tensor:
    """Convert rows ``(*, 2m)`` to a complex tensor ``(*, m)``."""
    return torch.complex(*x.chunk(2, dim=-1))


def from_complex(x: Tensor) -> Tensor:
    """Convert a complex tensor ``(*, m)`` to rows ``(*, 2m)``."""
    return torch.cat((x.real, x.imag), dim=-1)


def from_pairs(pairs: Tensor) -> Tensor:
    """Convert real and imaginary parts on a last axis of 2, ``(*, m, 2)``, to rows ``(*, 2m)``."""
    return torch.cat(pairs.unbind(-1), dim=-1)


def normalize_rows(x: Tensor) -> Tensor:
    r"""Scale rows to length :math:`\sqrt{2m}`, the expected length of rows of independent numbers of unit variance."""
    exact = x.to(torch.promote_types(x.dtype, torch.float32))
    return (exact * torch.rsqrt(exact.square().mean(dim=-1, keepdim=True) + EPSILON)).to(x.dtype)
