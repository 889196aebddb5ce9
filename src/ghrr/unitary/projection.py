"""The nearest unitary matrix, and how far a matrix is from unitary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

import torch
from torch import Tensor

from ghrr import ops
from ghrr._checks import check_finite, check_hypervectors, check_square, describe, first_nonfinite_slot
from ghrr.ops import torch_polar

if TYPE_CHECKING:
    from ghrr.hypervector import Hypervector


def polar(x: Tensor) -> Tensor:
    r"""The unitary factor W of the polar decomposition :math:`X = W P`, the unitary matrix nearest to X.

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
    check_square("polar(x)", x)
    if not (x.is_floating_point() or x.is_complex()):
        raise TypeError(f"polar(x): needs real or complex numbers, got {describe(x)}")
    check_finite("polar(x)", "x", x)
    return ops.polar(x)


def unitarity_error(x: Tensor) -> Tensor:
    r"""The largest entry of :math:`|A_j^\dagger A_j - I|` for each slot.

    Shapes
    ------
    x: ``(*, dim, m, m)``, output: ``(*, dim)``, real

    Examples
    --------
    >>> import torch, ghrr
    >>> ghrr.unitary.unitarity_error(torch.tensor([[[1.0 + 0j]], [[2.0 + 0j]]]))
    tensor([0., 3.])
    """
    check_square("unitarity_error(x)", x)
    return torch_polar.unitarity_error(x)


@overload
def check_unitary(x: Tensor | Hypervector, *, explain: Literal[False] = False) -> bool: ...
@overload
def check_unitary(x: Tensor | Hypervector, *, explain: Literal[True]) -> tuple[bool, str]: ...
def check_unitary(x: Tensor | Hypervector, *, explain: bool = False) -> bool | tuple[bool, str]:
    r"""Whether every slot is unitary to rounding: :math:`|A_j^\dagger A_j - I| \le 20 m \varepsilon` in each entry.

    Parameters
    ----------
    x
        A hypervector or a batch of them.
    explain
        Return ``(verdict, reason)``; the reason names the worst slot, and is empty when all are unitary.

    Shapes
    ------
    x: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> x = torch.eye(2, dtype=torch.complex64).repeat(10, 1, 1)
    >>> ghrr.unitary.check_unitary(x)
    True
    >>> x[7] *= 2
    >>> ghrr.unitary.check_unitary(x, explain=True)
    (False, 'slot 7 is not unitary: |A^H A - I| is up to 3, more than the 4.8e-06 that rounding explains')
    """
    (x,) = check_hypervectors("check_unitary(x)", x=x)
    if x.is_meta:
        raise ValueError(f"check_unitary(x): x must hold numbers, got {describe(x)} on the device 'meta'")
    reason = _why_not_unitary(x) if x.numel() else ""
    return (not reason, reason) if explain else not reason


def _why_not_unitary(x: Tensor) -> str:
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
        f"{_name_slot(tuple(int(i) for i in index))} is not unitary: |A^H A - I| is up to {worst:.3g}, "
        f"more than the {tolerance:.2g} that rounding explains"
    )


def _name_slot(index: tuple[int, ...]) -> str:
    *batch, slot = index
    return f"slot {slot} of item {tuple(batch)}" if batch else f"slot {slot}"
