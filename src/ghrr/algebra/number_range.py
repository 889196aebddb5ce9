"""Very large and very small numbers: scale by powers of two, and compute again in double precision what overflowed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ghrr.checks import has_finite_sum, is_true, value_error


def within_range(compute: Callable[..., Tensor], *tensors: Tensor, several_products: bool = False) -> Tensor:
    """Return ``compute(*tensors)``; if it overflows on the CPU, compute it in double precision.

    Raises if the result itself is beyond the range of its type. Inputs that are not finite give results that are not
    finite. On a GPU, and under ``torch.compile`` and ``torch.vmap``, the result is not checked.

    Parameters
    ----------
    compute
        Function of the tensors with few results, such as a similarity.
    tensors
        Real or complex.
    several_products
        Whether a product of two tensors may be too small for their type although the result is not.

    Examples
    --------
    >>> import torch
    >>> from ghrr.algebra.number_range import within_range
    >>> x = torch.tensor([1e20, 1e-20])
    >>> within_range(lambda a, b: (a * b * 1e-9).sum(), x, x)
    tensor(1.0000e+31)
    """
    result = compute(*tensors)
    if result.device.type != "cpu" or (has_finite_sum(result) and not (several_products and _is_tiny(result))):
        return result
    in_range = torch.isfinite(result).all()
    if is_true(in_range) and not several_products:  # only the sum overflowed
        return result
    if not all(is_true(torch.isfinite(x).all()) for x in tensors):
        return result
    double = {x.dtype: torch.complex128 if x.is_complex() else torch.float64 for x in tensors}
    again = compute(*(x.to(double[x.dtype]) for x in tensors)).to(result.dtype)
    if is_true(torch.isfinite(again).all()):
        return again
    largest = max(float(x.detach().abs().max()) for x in tensors)
    wider = "" if all(dtype is wide for dtype, wide in double.items()) else ", or use double precision"
    raise value_error(
        f"the result is beyond the range of {result.dtype}, got numbers up to {largest:.2g}; normalize "
        f"the arguments first{wider}"
    )


def _is_tiny(result: Tensor) -> bool:
    """Return whether a result is near the smallest numbers of its type, where digits are lost."""
    return is_true((result.detach().abs() < 2**24 * torch.finfo(result.dtype).tiny).any())


def scale_to_one(x: Tensor, axes: int) -> Tensor:
    """Divide vectors by powers of two, so that the largest absolute component is between one half and 1.

    This changes no digits. Squares and sums of the result neither overflow nor underflow. Zero stays zero.

    Parameters
    ----------
    x
        Real or complex vectors.
    axes
        Number of the last axes that hold a vector.

    Examples
    --------
    >>> import torch
    >>> from ghrr.algebra.number_range import scale_to_one
    >>> scale_to_one(torch.tensor([[3e30, 1e30], [3e-30, 1e-30]]), axes=1)
    tensor([[0.5916, 0.1972],
            [0.9507, 0.3169]])
    """
    numbers = torch.view_as_real(x.resolve_conj()) if x.is_complex() else x
    over = tuple(range(-axes - x.is_complex(), 0))
    if not numbers.numel():
        return x
    _, exponent = torch.frexp(numbers.detach().abs().amax(dim=over, keepdim=True))
    half = torch.div(exponent, 2, rounding_mode="floor")  # in two steps, since 2**-exponent may overflow
    scaled = torch.ldexp(torch.ldexp(numbers, -half), half - exponent)
    return torch.view_as_complex(scaled) if x.is_complex() else scaled
