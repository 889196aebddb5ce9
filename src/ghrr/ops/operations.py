r"""The operations on hypervectors: each is declared here, with its implementations and when they are used.

Operations do not check their arguments. :mod:`ghrr.algebra` is the public interface that does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from ghrr.checks import check_hypervectors, names_errors
from ghrr.ops import reference, torch_implementation, torch_polar, torch_power
from ghrr.ops.dispatch import Kernel, Operation
from ghrr.ops.gradients import (
    bind_backward,
    bind_bundle_backward,
    bind_similarity_backward,
    broadcast_shape,
    map_over_first_axis,
    save_inputs,
)
from ghrr.ops.tensor_state import is_plain, needs_no_derivative

# Both backends have kernels for m up to this.
LARGEST_M = 8
# With fewer numbers, PyTorch is faster than the call of a kernel. Measured by `benchmarks ops.gpu_overhead` on an H200.
_MIN_NUMBERS_CPU = 1 << 10
_MIN_NUMBERS_GPU = 1 << 15
_MIN_FLAT_NUMBERS_GPU = 1 << 10
# With fewer phases, PyTorch takes less time than importing numba.
_MIN_PHASES = 1 << 18
_MIN_ANGLES = 1 << 16  # the same for cosines and sines alone
_OLDEST_GPU = (7, 0)
_COMPLEX = (torch.complex64, torch.complex128)


def _cpu_supports(x: Tensor, *_: object) -> bool:
    return x.is_cpu and x.shape[-1] <= LARGEST_M and x.dtype in _COMPLEX


def _gpu_supports(x: Tensor, *_: object) -> bool:
    return (
        x.is_cuda
        and x.dtype == torch.complex64
        and x.shape[-1] <= LARGEST_M
        and (torch.compiler.is_compiling() or _is_recent(x.get_device()))  # no query of the driver while compiling
    )


def _gpu_supports_flat(x: Tensor, *_: object) -> bool:
    return x.is_cuda and x.dtype == torch.complex64 and x.shape[-1] <= LARGEST_M and _is_recent(x.get_device())


@functools.cache
def _is_recent(device: int) -> bool:
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= _OLDEST_GPU


def _cpu_pays_off(*arguments: object) -> bool:
    return _most_numbers(arguments) >= _MIN_NUMBERS_CPU


def _gpu_pays_off(*arguments: object) -> bool:
    # The custom operator repeats this test at run time.
    return torch.compiler.is_compiling() or _most_numbers(arguments) >= _MIN_NUMBERS_GPU


def _most_numbers(arguments: tuple[object, ...]) -> int:
    return max([x.numel() for x in arguments if isinstance(x, Tensor)])


def _kernels(name: str) -> tuple[Kernel, Kernel]:
    """The kernels of one name in both backends."""
    return (
        Kernel("numba", f"ghrr.ops.cpu.products:{name}", _cpu_supports, _cpu_pays_off),
        Kernel("triton", f"ghrr.ops.gpu.products:{name}", _gpu_supports, _gpu_pays_off),
    )


def _check_factors(*arguments: object) -> None:
    check_hypervectors(**dict(zip("abc", [x for x in arguments if isinstance(x, Tensor)], strict=False)))


# --------------------------------------------------------------------------------------------------------------- bind


def _bind_pays_off(least_numbers: int) -> Callable[[Tensor, Tensor, bool, bool], bool]:
    def pays_off(a: Tensor, b: Tensor, adjoint_a: bool, adjoint_b: bool) -> bool:
        # For m = 1 PyTorch's elementwise product is as fast, unless it has to conjugate first.
        if not (adjoint_a or adjoint_b or a.shape[-1] > 1):
            return False
        return a.numel() >= least_numbers or b.numel() >= least_numbers

    return pays_off


def _bind_pays_off_on_gpu(a: Tensor, b: Tensor, adjoint_a: bool, adjoint_b: bool) -> bool:
    # PyTorch stores conjugates for the gradient of an elementwise product; the gradient of the kernel does not.
    if a.shape[-1] == 1 and not needs_no_derivative(a, b):
        adjoint_a = True
    return torch.compiler.is_compiling() or _bind_pays_off(_MIN_NUMBERS_GPU)(a, b, adjoint_a, adjoint_b)


def _fake_bind(a: Tensor, b: Tensor, adjoint_a: bool, adjoint_b: bool) -> Tensor:
    return a.new_empty(broadcast_shape(a, b))


bind = Operation(
    "bind",
    torch=torch_implementation.bind,
    reference=reference.bind,
    kernels=(
        Kernel("numba", "ghrr.ops.cpu.products:bind", _cpu_supports, _bind_pays_off(_MIN_NUMBERS_CPU)),
        Kernel("triton", "ghrr.ops.gpu.products:bind", _gpu_supports, _bind_pays_off_on_gpu),
    ),
    flat_kernels=(
        Kernel("numba", "ghrr.ops.cpu.products:bind_flat", _cpu_supports, _bind_pays_off(_MIN_NUMBERS_CPU)),
        Kernel("triton", "ghrr.ops.gpu.products:bind_flat", _gpu_supports_flat, _bind_pays_off(_MIN_FLAT_NUMBERS_GPU)),
    ),
    schema="(Tensor a, Tensor b, bool adjoint_a, bool adjoint_b) -> Tensor",
    check=_check_factors,
    fake=_fake_bind,
    gradient=(save_inputs, bind_backward),
    vmap=map_over_first_axis,
)


# --------------------------------------------------------------------------------------------------- sums of products


def _fake_bind_bundle(keys: Tensor, values: Tensor, adjoint_keys: bool, adjoint_values: bool) -> Tensor:
    shape = broadcast_shape(keys, values)
    return keys.new_empty((*shape[:-4], *shape[-3:]))


bind_bundle = Operation(
    "bind_bundle",
    torch=torch_implementation.bind_bundle,
    reference=reference.bind_bundle,
    kernels=_kernels("bind_bundle"),
    schema="(Tensor keys, Tensor values, bool adjoint_keys, bool adjoint_values) -> Tensor",
    check=_check_factors,
    fake=_fake_bind_bundle,
    gradient=(save_inputs, bind_bundle_backward),
    vmap=map_over_first_axis,
)


def _bags_pay_off(keys: Tensor, values: Tensor, key_indices: Tensor, *_: Tensor) -> bool:
    return len(key_indices) * keys.shape[1:].numel() >= _MIN_NUMBERS_CPU


bind_bags = Operation(
    "bind_bags",
    torch=torch_implementation.bind_bags,
    reference=reference.bind_bags,
    kernels=(Kernel("numba", "ghrr.ops.cpu.products:bind_bags", _cpu_supports, _bags_pay_off),),
)


# ------------------------------------------------------------------------------------------------- chains and powers

multibind = Operation(
    "multibind",
    torch=functools.partial(torch_implementation.multibind, product=bind),
    reference=reference.multibind,
    kernels=_kernels("multibind"),
)
_whole_power = Operation(
    "whole_power",
    torch=functools.partial(torch_implementation.whole_power, product=bind),
    kernels=_kernels("whole_power"),
)
_power = Operation("power", torch=functools.partial(torch_power.power, product=_whole_power), reference=reference.power)


@names_errors
def power(a: Tensor, exponent: int | Tensor) -> Tensor:
    """Raise each slot to a power: an int repeats binding, a tensor gives real principal powers.

    Examples
    --------
    >>> import torch
    >>> from ghrr import ops
    >>> a = 2j * torch.ones(1, 5, 1, 1)
    >>> ops.power(a, 2)[0, 0, 0, 0]
    tensor(-4.+0.j)
    """
    if isinstance(exponent, int) and abs(exponent) > torch_power.FEW:
        # Both work in double precision. For unitary slots the kernel of real powers is several times as fast.
        fast = unitary_power(a, torch.tensor(float(exponent), dtype=torch.float64, device=a.device))
        if fast is not None:
            return fast
    return _power(a, exponent)


def _no_unitary_power(a: Tensor, exponents: Tensor) -> Tensor | None:
    """Raise unitary slots to real powers. Returns None if there is no kernel, or if a slot is not unitary."""
    return None


unitary_power = Operation(
    "unitary_power",
    torch=_no_unitary_power,
    kernels=(Kernel("numba", "ghrr.ops.cpu.unitary:unitary_power", _cpu_supports, _cpu_pays_off),),
)


# --------------------------------------------------------------------------------------------------------- similarity


def _flat_similarity_pays_off(a: Tensor, b: Tensor) -> bool:
    return a.numel() >= _MIN_NUMBERS_CPU


similarity = Operation(
    "similarity",
    torch=torch_implementation.similarity,
    reference=reference.similarity,
    flat_kernels=(Kernel("numba", "ghrr.ops.cpu.products:similarity", _cpu_supports, _flat_similarity_pays_off),),
)


def _fake_bind_similarity(a: Tensor, b: Tensor, c: Tensor, adjoint_a: bool, adjoint_b: bool) -> Tensor:
    return a.new_empty(broadcast_shape(a, b, c)[:-3], dtype=a.dtype.to_real())


_bind_similarity = Operation(
    "bind_similarity",
    torch=torch_implementation.bind_similarity,
    reference=reference.bind_similarity,
    kernels=_kernels("bind_similarity"),
    schema="(Tensor a, Tensor b, Tensor c, bool adjoint_a, bool adjoint_b) -> Tensor",
    check=_check_factors,
    fake=_fake_bind_similarity,
    gradient=(save_inputs, bind_similarity_backward),
    vmap=map_over_first_axis,
)


@names_errors
def bind_similarity(a: Tensor, b: Tensor, c: Tensor, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    """Compute the similarity of a product of two with a third hypervector, without storing the product.

    Examples
    --------
    >>> import torch
    >>> from ghrr import ops
    >>> a = 2j * torch.ones(1, 5, 1, 1)
    >>> ops.bind_similarity(a, a, a, adjoint_a=True)
    tensor([0.])
    """
    if broadcast_shape(a, b) != broadcast_shape(a, b, c):  # several c for one product: compute the product once
        return similarity(bind(a, b, adjoint_a, adjoint_b), c)
    return _bind_similarity(a, b, c, adjoint_a, adjoint_b)


# -------------------------------------------------------------------------------- nearest unitary matrix, encodings


def _cpu_supports_polar(x: Tensor) -> bool:
    # The closed form for m = 4 would lose digits in double precision.
    return x.is_cpu and (
        (x.shape[-1] <= 4 and x.dtype == torch.complex64) or (x.shape[-1] <= 3 and x.dtype in _COMPLEX)
    )


_polar_factor = Operation(
    "polar_factor",
    torch=torch_polar.polar_factor,
    kernels=(Kernel("numba", "ghrr.ops.cpu.unitary:polar", _cpu_supports_polar, _cpu_pays_off),),
)
polar = Operation(
    "polar",
    torch=lambda x: _polar_factor(x) if is_plain(x) else torch_polar.polar(x, _polar_factor),
    reference=reference.polar,
)


def _cpu_supports_encoding(rotation: Tensor, frequencies: Tensor, x: Tensor) -> bool:
    phases = x.shape[:-1].numel() * frequencies.shape[-3:-1].numel()
    return (
        phases >= _MIN_PHASES
        and rotation.dtype == torch.complex64
        and frequencies.dtype == x.dtype == torch.float32
        and rotation.is_cpu
        and frequencies.is_cpu
        and x.is_cpu
    )


fractional_power = Operation(
    "fractional_power",
    torch=torch_implementation.fractional_power,
    reference=reference.fractional_power,
    kernels=(Kernel("numba", "ghrr.ops.cpu.encoding:fractional_power", _cpu_supports_encoding),),
)


def _cpu_supports_angles(angles: Tensor) -> bool:
    return angles.is_cpu and angles.dtype == torch.float32 and angles.ndim > 0 and angles.numel() >= _MIN_ANGLES


cos_sin = Operation(
    "cos_sin",
    torch=torch_implementation.cos_sin,
    reference=reference.cos_sin,
    kernels=(Kernel("numba", "ghrr.ops.cpu.encoding:cos_sin", _cpu_supports_angles),),
)


# ---------------------------------------------------------------------------------------------- operations of PyTorch

adjoint = Operation("adjoint", torch=torch_implementation.adjoint, reference=reference.adjoint)
bundle = Operation("bundle", torch=torch_implementation.bundle, reference=reference.bundle)
shift = Operation("shift", torch=torch_implementation.shift, reference=reference.shift)
pairwise_similarity = Operation(
    "pairwise_similarity",
    torch=torch_implementation.pairwise_similarity,
    reference=reference.pairwise_similarity,
)
