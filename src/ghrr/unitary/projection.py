"""The nearest unitary matrix, and how far a matrix is from unitary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ghrr import ops
from ghrr.checks import (
    check_finite,
    check_hypervectors,
    check_square,
    describe,
    first_nonfinite_slot,
    names_errors,
    type_error,
    value_error,
)
from ghrr.ops import torch_polar

if TYPE_CHECKING:
    from ghrr.hypervector import Hypervector


@names_errors("polar(x)")
def polar(x: Tensor) -> Tensor:
    r"""Compute the unitary factor W of the polar decomposition :math:`X = W P`, the unitary matrix nearest to X.

    W minimises :math:`\|X - W\|` over all unitary matrices; a unitary X is its own projection, and
    :math:`\mathrm{polar}(U X V) = U\,\mathrm{polar}(X)\,V` for unitary U, V. A singular X has several nearest unitary
    matrices: one of them is returned and the gradient there is not finite.

    Shapes
    ------
    x: ``(*, m, m)``, output: ``(*, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> ghrr.unitary.polar(torch.tensor([[2.0 + 0j, 0], [0, 3j]]))
    tensor([[1.+0.j, 0.+0.j],
            [0.+0.j, 0.+1.j]])
    """
    check_square(x)
    if not (x.is_floating_point() or x.is_complex()):
        raise type_error(f"needs real or complex numbers, got {describe(x)}")
    check_finite("x", x)
    return ops.polar(x)


@names_errors("unitarity_error(x)")
def unitarity_error(x: Tensor) -> Tensor:
    r"""Return the largest entry of :math:`|A_j^\dagger A_j - I|` for each slot.

    Shapes
    ------
    x: ``(*, dim, m, m)``, output: ``(*, dim)``, real

    Examples
    --------
    >>> import torch, ghrr
    >>> ghrr.unitary.unitarity_error(torch.tensor([[[1.0 + 0j]], [[2.0 + 0j]]]))
    tensor([0., 3.])
    """
    check_square(x)
    return torch_polar.unitarity_error(x)


@names_errors("is_unitary(x)")
def is_unitary(x: Tensor | Hypervector) -> bool:
    r"""Return whether every slot is unitary to rounding: :math:`|A_j^\dagger A_j - I| \le 20 m \varepsilon`.

    Parameters
    ----------
    x
        A hypervector or a batch of them.

    Shapes
    ------
    x: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> x = torch.eye(2, dtype=torch.complex64).repeat(10, 1, 1)
    >>> ghrr.unitary.is_unitary(x)
    True
    >>> x[7] *= 2
    >>> ghrr.unitary.is_unitary(x)
    False

    See Also
    --------
    unitarity_error : the deviation in each slot.
    """
    (x,) = check_hypervectors(x=x)
    return not _why_not_unitary(x)


def check_unitary(name: str, x: Tensor) -> Tensor:
    """Return ``x``; raise ValueError, with its name and the worst slot, unless every slot is unitary to rounding."""
    reason = _why_not_unitary(x)
    if reason:
        raise value_error(f"{name}: {reason}")
    return x


def _why_not_unitary(x: Tensor) -> str:
    if x.is_meta:
        raise value_error(f"x must hold numbers, got {describe(x)} on the device 'meta'")
    if not x.numel():
        return ""
    nonfinite = first_nonfinite_slot(x)
    if nonfinite is not None:
        return f"{_name_slot(nonfinite)} holds a number that is not finite"
    error = unitarity_error(x)
    tolerance = torch_polar.unitarity_tolerance(x.shape[-1], x.dtype)
    worst = error.max().item()
    if worst <= tolerance:
        return ""
    index = torch.unravel_index(error.argmax(), error.shape)
    return (
        f"{_name_slot(tuple(int(i) for i in index))} is not unitary, got |A^H A - I| up to {worst:.3g}, "
        f"expected at most {tolerance:.2g}"
    )


def _name_slot(index: tuple[int, ...]) -> str:
    *batch, slot = index
    return f"slot {slot} of item {tuple(batch)}" if batch else f"slot {slot}"
