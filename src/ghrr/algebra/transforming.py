"""Operations on one hypervector: adjoint, shift and normalisation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ghrr import ops, unitary
from ghrr.algebra.number_range import scale_to_one
from ghrr.checks import check_choice, check_finite, check_hypervectors, check_integer, names_errors

if TYPE_CHECKING:
    from ghrr.hypervector import Hypervector


@names_errors("adjoint(a)")
def adjoint(a: Tensor | Hypervector) -> Tensor:
    r"""Return the conjugate transpose of each slot, :math:`A_j^\dagger`: the inverse of a unitary hypervector.

    :math:`(A * B)^\dagger = B^\dagger * A^\dagger`: the order is reversed.

    Shapes
    ------
    a: ``(*batch, dim, m, m)``; output: the same

    Examples
    --------
    >>> import torch, ghrr
    >>> space = ghrr.Space(dim=10, m=2, seed=0)
    >>> a = space.vectors(["a"])[0]
    >>> torch.allclose(ghrr.bind(ghrr.adjoint(a), a), space.identity(), atol=1e-6)
    True
    """
    (a,) = check_hypervectors(a=a)
    return ops.adjoint(a)


@names_errors("shift(a, steps)")
def shift(a: Tensor | Hypervector, steps: int = 1) -> Tensor:
    r"""Shift the slots cyclically: :math:`\rho^s(A)_j = A_{(j-s) \bmod D}`. The slots themselves do not change.

    A shifted random hypervector is dissimilar to the original. Shifting commutes with binding and bundling and
    preserves similarities; ``shift(shift(a, s), -s)`` is ``a``.

    Shapes
    ------
    a: ``(*batch, dim, m, m)``; output: the same

    Examples
    --------
    >>> import torch, ghrr
    >>> ghrr.shift(torch.tensor([1 + 0j, 2, 3]).reshape(3, 1, 1)).flatten().real
    tensor([3., 1., 2.])
    """
    (a,) = check_hypervectors(a=a)
    return ops.shift(a, check_integer("steps", steps) % a.shape[-3])


@names_errors("normalize(a)")
def normalize(a: Tensor | Hypervector, *, to: str = "norm") -> Tensor:
    r"""Scale to unit norm, or project every slot to the nearest unitary matrix.

    ``to="norm"`` divides by :math:`\sqrt{\delta(A, A)}`, so that :math:`\delta(A, A) = 1`; zero stays zero.
    ``to="unitary"`` replaces each slot by its polar factor, so that the adjoint is the inverse. For a bundle this loses
    capacity.

    Shapes
    ------
    a: ``(*batch, dim, m, m)``; output: the same

    Examples
    --------
    >>> import torch, ghrr
    >>> space = ghrr.Space(dim=100, m=2, seed=0)
    >>> x = ghrr.bundle(space.vectors(["a", "b"]))
    >>> y = ghrr.normalize(x)
    >>> f"{ghrr.similarity(y, y):.3f}"
    '1.000'
    >>> ghrr.unitary.is_unitary(ghrr.normalize(x, to="unitary"))
    True
    """
    (a,) = check_hypervectors(a=a)
    check_choice("to", to, ("norm", "unitary"))
    if to == "unitary":
        return unitary.polar(a)
    check_finite("a", a)
    # Squares of very small or very large entries would underflow or overflow.
    scaled = scale_to_one(a, axes=3)
    square = ops.similarity(scaled, scaled)[..., None, None, None]
    return scaled * torch.rsqrt(torch.where(square > 0, square, torch.ones_like(square)))
