"""The arithmetic of hypervectors, behind one dispatch.

Each operation exists once as a formula in :mod:`ghrr.ops.reference`, which is the specification, and once or more as a
kernel with the same name. These functions choose the kernel and call it; they check nothing. :mod:`ghrr.algebra` is the
public face, which checks shapes and explains errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

from ghrr._checks import check_choice
from ghrr.ops import numba_backend, reference, torch_backend

__all__ = [
    "adjoint",
    "backend",
    "bind",
    "bind_bundle",
    "bundle",
    "fractional_power",
    "multibind",
    "pairwise_similarity",
    "power",
    "shift",
    "similarity",
]

_BACKENDS = {"auto": torch_backend, "torch": torch_backend, "reference": reference}
_kernels = torch_backend
_chosen = "auto"


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Use one backend inside a ``with`` block.

    ``"auto"``, the default, takes numba's loops where they are quicker and torch for the rest; ``"torch"`` is torch
    alone; ``"reference"`` is the specification.

    Examples
    --------
    >>> import torch
    >>> from ghrr import ops
    >>> a = torch.randn(5, 2, 2, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))
    >>> fast = ops.bind(a, a)
    >>> with ops.backend("reference"):
    ...     torch.allclose(fast, ops.bind(a, a))
    True
    """
    global _chosen, _kernels
    check_choice("ops.backend(name)", "name", name, tuple(_BACKENDS))
    before = _chosen
    _chosen, _kernels = name, _BACKENDS[name]
    try:
        yield
    finally:
        _chosen, _kernels = before, _BACKENDS[before]


def bind(a: Tensor, b: Tensor) -> Tensor:
    """Slot-wise matrix product."""
    return _kernels.bind(a, b)


def adjoint(a: Tensor) -> Tensor:
    """Conjugate transpose of each slot."""
    return _kernels.adjoint(a)


def bundle(items: Tensor) -> Tensor:
    """Sum over the item axis."""
    return _kernels.bundle(items)


def multibind(items: Tensor) -> Tensor:
    """Ordered product over the item axis."""
    return _kernels.multibind(items)


def bind_bundle(keys: Tensor, values: Tensor) -> Tensor:
    """Sum of the products of keys and values over the item axis, without the products in memory."""
    return _kernels.bind_bundle(keys, values)


def similarity(a: Tensor, b: Tensor) -> Tensor:
    """Similarity, batches broadcast."""
    return _kernels.similarity(a, b)


def pairwise_similarity(queries: Tensor, items: Tensor) -> Tensor:
    """Similarity of every query with every item."""
    return _kernels.pairwise_similarity(queries, items)


def shift(a: Tensor, steps: int) -> Tensor:
    """Cyclic roll of the slots."""
    return _kernels.shift(a, steps)


def power(a: Tensor, exponent: int | Tensor) -> Tensor:
    """Matrix power of each slot: an int repeats binding, a tensor gives real principal powers."""
    return _kernels.power(a, exponent)


def fractional_power(rotation: Tensor, frequencies: Tensor, x: Tensor) -> Tensor:
    """Encodings of rows of numbers: rotations times phases that are linear in the numbers."""
    if _chosen == "auto" and numba_backend.suits_fractional_power(rotation, frequencies, x):
        return numba_backend.fractional_power(rotation, frequencies, x)
    return _kernels.fractional_power(rotation, frequencies, x)
