"""Hypervectors in 16 bits, as pairs of real numbers.

torch has no complex numbers of 16 bits, so such a hypervector is a real tensor ``(*batch, dim, m, m, 2)`` of real and
imaginary parts, what ``torch.view_as_real`` gives::

    x = torch.view_as_real(hypervector).to(torch.bfloat16)
    hypervector = torch.view_as_complex(x.float())

Binding is bound by memory, and half of the bytes are half of the time where a kernel reads them as they are. Arithmetic
is in single precision, and a result is rounded once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ghrr._checks import check_alike, check_broadcast, describe
from ghrr.ops.strides import copied

DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def check(operation: str, *, axes: int, **given: Tensor) -> None:
    """Raise unless all are pairs ``(*batch, dim, m, m, 2)`` of one kind whose ``axes`` last ones are there."""
    for name, x in given.items():
        _check_one(operation, name, x, axes)
    check_alike(operation, "pairs", -4, given)
    check_broadcast(operation, **{name: x.shape[:-4] for name, x in given.items()})


def _check_one(operation: str, name: str, x: Any, axes: int) -> None:
    shape = "(*batch, dim, m, m, 2)" if axes == 4 else "(*batch, n, dim, m, m, 2)"
    if not isinstance(x, Tensor):
        raise TypeError(f"{operation}: {name} must be a tensor of real pairs {shape}, got {describe(x)}")
    if x.is_complex():
        raise TypeError(
            f"{operation}: {name} must hold real pairs {shape}, got {describe(x)}; "
            f"for complex numbers use {operation.partition('_pairs')[0]}, or give torch.view_as_real({name})"
        )
    if x.dtype not in DTYPES:
        raise TypeError(f"{operation}: {name} must be bfloat16, float16 or float32, got {describe(x)}")
    if x.ndim < axes or x.shape[-1] != 2 or x.shape[-2] != x.shape[-3] or 0 in x.shape[-4:]:
        raise ValueError(
            f"{operation}: {name} must have shape {shape}, square slots of m >= 1 and dim >= 1, with real and "
            f"imaginary parts last; got {describe(x)}"
        )


def widened(x: Tensor) -> Tensor:
    """The complex numbers, in single precision."""
    return torch.complex(x[..., 0].float(), x[..., 1].float())


def rounded(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Complex numbers as pairs of this precision."""
    return torch.view_as_real(x).to(dtype)


def as_words(x: Tensor) -> Tensor:
    """The same memory with one word for each pair, ``(*batch, dim, m, m)``; copied where parts lie apart."""
    x = x.resolve_neg()
    if x.stride(-1) != 1 or x.data_ptr() % (2 * x.itemsize) or any(step % 2 for step in x.stride()[:-1]):
        x = copied(x, axes=3)
    return x.view(torch.complex64 if x.dtype == torch.float32 else torch.int32).squeeze(-1)


def from_words(words: Tensor, dtype: torch.dtype) -> Tensor:
    """What :func:`as_words` made of pairs of this precision."""
    return words.unsqueeze(-1).view(dtype)
