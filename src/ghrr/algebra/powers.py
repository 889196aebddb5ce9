"""Powers of hypervectors."""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ghrr import ops
from ghrr.checks import (
    check_broadcast,
    check_finite,
    check_hypervectors,
    describe,
    is_true,
    names_errors,
    type_error,
    value_error,
)

if TYPE_CHECKING:
    from ghrr.hypervector import Hypervector

# Double precision gives eigenphases to about 1e-15; times this exponent, to a thousandth of the circle.
LARGEST_EXPONENT = 10**12


@names_errors("power(a, exponent)")
def power(a: Tensor | Hypervector, exponent: float | Tensor) -> Tensor:
    r"""Raise every slot to a power, :math:`A_j^x`: repeated binding for integers, the principal power for others.

    Integer powers exist for any hypervector, negative ones if its slots are invertible. Real powers need invertible,
    diagonalisable slots, as unitary slots always are: eigenvalues :math:`re^{i\varphi}`, :math:`\varphi \in (-\pi,
    \pi]`, become :math:`r^x e^{ix\varphi}`. Then :math:`A^x * A^y = A^{x+y}`, and powers of unitary A are unitary with
    :math:`(A^x)^\dagger = A^{-x}`. Real powers are discontinuous where an eigenvalue crosses -1.

    Slots that are unitary to rounding (:func:`ghrr.unitary.is_unitary`) are replaced by the nearest unitary matrix, in
    double precision, so their powers are unitary for every exponent. Rounding errors of the eigenphases are multiplied
    by the exponent: the power differs from the power of the exact matrix by about :math:`|x| \varepsilon`, with the
    :math:`\varepsilon` of the dtype. Powers of other slots grow or vanish with the exponent; use ``normalize(a,
    to="unitary")`` before raising bundles to powers.

    For m = 1 and independent phases, :math:`\delta(A^x, A^y)` is a kernel of x - y. For m > 1 use
    :class:`ghrr.encoding.FractionalPower` to encode numbers.

    Parameters
    ----------
    a
        The base.
    exponent
        An integer, a real number, or a real tensor that broadcasts with the batch; finite, and at most 10¹² in size.
        Tensors are converted to double precision.

    Shapes
    ------
    a: ``(*batch, dim, m, m)``, exponent: ``(*batch)``, broadcast; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> a = ghrr.Space(dim=10, m=2, seed=0).vectors(["a"])[0]
    >>> root = ghrr.power(a, 0.5)
    >>> torch.allclose(ghrr.bind(root, root), a, atol=1e-5)
    True
    >>> ghrr.power(a, torch.linspace(0, 1, 5)).shape
    torch.Size([5, 10, 2, 2])
    """
    (a,) = check_hypervectors(a=a)
    given: Any = exponent
    if isinstance(given, numbers.Integral) and given is not True and given is not False:
        integer = int(given)
        if abs(integer) > LARGEST_EXPONENT:
            raise value_error(_out_of_range(integer))
        if integer < 0:
            _check_invertible(a)
        return ops.power(a, integer)
    exponents = _real_exponent(a, exponent)
    check_broadcast(a=a.shape[:-3], exponent=exponents.shape)
    fast = ops.unitary_power(a, exponents)
    if fast is not None:  # unitary slots are finite, invertible and diagonalisable
        return fast
    _check_invertible(a)
    _check_diagonalisable(a)
    return ops.power(a, exponents)


def _real_exponent(a: Tensor, exponent: object) -> Tensor:
    if not isinstance(exponent, Tensor):
        if isinstance(exponent, bool) or not isinstance(exponent, numbers.Real):
            raise type_error(f"exponent must be a real number or a real tensor, got {describe(exponent)}")
        number = float(exponent)
        if not abs(number) <= LARGEST_EXPONENT:  # also for NaN
            raise value_error(_out_of_range(number))
        return torch.tensor(number, dtype=torch.float64, device=a.device)
    if exponent.dtype.is_complex or exponent.dtype == torch.bool or exponent.is_quantized:
        raise type_error(f"exponent must be real, got {describe(exponent)}")
    if exponent.device != a.device:
        raise value_error(f"a is on {a.device} but exponent on {exponent.device}; move one of them")
    exponent = exponent.to(torch.float64)
    inside = exponent.abs() <= LARGEST_EXPONENT  # false for NaN
    if is_true(~inside.all()):
        raise value_error(_out_of_range(exponent[~inside].flatten()[0].item()))
    return exponent


def _out_of_range(exponent: float) -> str:
    if not math.isfinite(exponent):
        return f"exponent must be finite, got {exponent}"
    return (
        f"exponent must be at most {LARGEST_EXPONENT:.0e} in size, got {describe(exponent)}; double "
        f"precision does not determine the phases of larger powers"
    )


def _check_invertible(a: Tensor) -> None:
    check_finite("a", a)
    singular = torch.linalg.det(a) == 0
    if is_true(singular.any()):
        slot = tuple(singular.nonzero()[0].tolist())
        raise value_error(f"slot {slot} of a is singular; only integer powers of at least 0 exist for it")


def _check_diagonalisable(a: Tensor) -> None:
    """Raise unless all slots are diagonalisable. Eigenvectors are computed only if a slot is not a normal matrix."""
    tolerance = 1e3 * a.shape[-1] * torch.finfo(a.dtype).eps * a.detach().abs().amax() ** 2 if a.numel() else 0.0
    if not is_true(((a @ a.mH - a.mH @ a).abs() > tolerance).any()):
        return
    vectors = torch.linalg.eig(a.detach()).eigenvectors
    largest, smallest = (torch.linalg.svdvals(vectors)[..., k] for k in (0, -1))
    is_defective = smallest < largest * torch.finfo(a.dtype).eps ** 0.75
    if is_true(is_defective.any()):
        slot = tuple(is_defective.nonzero()[0].tolist())
        raise value_error(
            f"slot {slot} of a is not diagonalisable (its eigenvectors coincide) and has no real power; "
            f"use an integer exponent, or normalize to unitary first"
        )
