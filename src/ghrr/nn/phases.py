r"""Phases :math:`\Lambda(x) = \mathrm{diag}(e^{i \omega_1^\top x}, \dots)` of an input, as a layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ghrr.checks import describe, names_errors, value_error
from ghrr.encoding.kernels import SPECTRA, draw_frequencies
from ghrr.nn.precision import FullPrecision
from ghrr.ops import tensor_state
from ghrr.ops.dispatch import Kernel, Operation, refuse_second_derivative

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
_MULTIPLE = 16  # sizes of the tensor cores


@names_errors
class Phases(FullPrecision):
    r"""The unit complex numbers :math:`\lambda_f(x) = e^{i(\omega_f^\top x + b_f)}` of an input.

    The frequencies :math:`\omega` are drawn once, in orthogonal groups of ``inputs / slots``. They stay fixed as in the
    paper, or are trained together with offsets b, which start at zero.

    Differentiable with respect to x, and to frequencies and offsets if they are trained. On a GPU with triton, fixed
    phases are one kernel behind the operator ``ghrr::phases`` if sizes are multiples of 16. For split inputs the
    gradient is one more kernel, which has no derivative itself.

    Parameters
    ----------
    inputs, count
        Number of input features; number of phases.
    slots
        Split inputs and phases into this many groups; the phases of a group depend on the inputs of the group only.
    phase_std
        Standard deviation of the phases, in radians, for inputs of zero mean and unit variance. A small value makes
        :math:`\lambda` nearly linear in x, a large one makes distant inputs dissimilar.
    trainable
        Train frequencies and offsets.
    seed
        Seed of the frequencies.

    Shapes
    ------
    x: ``(*, inputs)``; output: ``(*, 2 count)``, real parts first

    Examples
    --------
    >>> import torch
    >>> from ghrr.nn.phases import Phases
    >>> real, imaginary = Phases(8, 4, phase_std=0.5)(torch.randn(3, 8)).chunk(2, dim=-1)
    >>> real.shape, torch.allclose(real**2 + imaginary**2, torch.ones(3, 4))
    (torch.Size([3, 4]), True)
    """

    frequencies: Tensor
    offsets: Tensor | None

    def __init__(
        self,
        inputs: int,
        count: int,
        *,
        slots: int = 1,
        phase_std: float = 1.0,
        trainable: bool = False,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        if slots < 1 or inputs % slots or count % slots:
            raise value_error(f"inputs and count must be multiples of slots={slots}, got {inputs} and {count}")
        self.slots, slot_inputs = slots, inputs // slots
        drawn = draw_frequencies(
            SPECTRA["rbf"], count, slot_inputs, sampling="orthogonal", seed=seed, label="attention"
        )
        frequencies = (drawn * phase_std / slot_inputs**0.5).to(dtype)
        if trainable:
            self.frequencies = nn.Parameter(frequencies)
            self.offsets = nn.Parameter(torch.zeros(count, dtype=dtype))
        else:
            self.register_buffer("frequencies", frequencies)
            self.offsets = None

    def forward(self, x: Tensor, mean: float = 0.0, dtype: torch.dtype | None = None) -> Tensor:
        r"""Return :math:`\lambda(x) - \mu`, real parts first, rounded once to ``dtype``, by default the dtype of x.

        Angles have at least 32 bits, also under autocast.
        """
        dtype = x.dtype if dtype is None else dtype
        with torch.autocast(x.device.type, enabled=False):
            given = (x.to(self.frequencies.dtype), self.frequencies, self.offsets)
            if not tensor_state.allows_operators(*[x for x in given if x is not None], vmap=False):
                return _cosines_and_sines(*given, self.slots, mean, dtype)
            if self.offsets is None and not self.frequencies.requires_grad:
                flat = _phases(given[0].reshape(-1, x.shape[-1]), self.frequencies, self.slots, mean, dtype)
                return flat.view(*x.shape[:-1], flat.shape[-1])
            out: Tensor = _CosinesAndSines.apply(*given, self.slots, mean, dtype)  # type: ignore[no-untyped-call]
            return out


def _cosines_and_sines(  # noqa: PLR0917
    x: Tensor, frequencies: Tensor, offsets: Tensor | None, slots: int, mean: float, dtype: torch.dtype
) -> Tensor:
    if slots == 1:
        angles = nn.functional.linear(x, frequencies, offsets)
    else:
        angles = _multiply_groups(x, slots, frequencies.unflatten(0, (slots, -1)).mT)  # type: ignore[no-untyped-call]
        angles = angles if offsets is None else angles + offsets
    return torch.cat((angles.cos() - mean, angles.sin()), dim=-1).to(dtype)


def _multiply_groups(x: Tensor, slots: int, matrices: Tensor) -> Tensor:
    """Split the features of x into groups, and multiply each by a matrix of its own."""
    product: Tensor = torch.einsum("...si,sij->...sj", x.unflatten(-1, (slots, -1)), matrices)  # type: ignore[no-untyped-call]
    return product.flatten(-2)


class _CosinesAndSines(torch.autograd.Function):
    """Cosines minus a constant, and sines, of angles in full precision.

    The gradient uses the stored result instead of new cosines, and the gradient of the input is a product in the
    precision of the result, as in any layer under autocast. Function transforms (``torch.func``) use the plain
    implementation.
    """

    @staticmethod
    def forward(  # noqa: PLR0917
        ctx: Any, x: Tensor, frequencies: Tensor, offsets: Tensor | None, slots: int, mean: float, dtype: torch.dtype
    ) -> Tensor:
        out = _cosines_and_sines(x, frequencies, offsets, slots, mean, dtype)
        ctx.save_for_backward(out, frequencies, x if ctx.needs_input_grad[1] else None)
        ctx.slots, ctx.mean = slots, mean
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        out, frequencies, x = ctx.saved_tensors
        by_angle, needs = _by_angle(gradients[0], out, ctx.mean, frequencies.dtype), ctx.needs_input_grad
        by_x = _by_input(by_angle, frequencies, ctx.slots, out.dtype) if needs[0] else None
        by_frequencies = None
        if needs[1]:
            angles, inputs = (y.reshape(-1, ctx.slots, y.shape[-1] // ctx.slots) for y in (by_angle, x))
            by_frequencies = torch.einsum("nsj,nsi->sji", angles, inputs).flatten(0, 1)
        by_offsets = by_angle.reshape(-1, by_angle.shape[-1]).sum(dim=0) if needs[2] else None
        return by_x, by_frequencies, by_offsets, None, None, None


def _by_angle(grad: Tensor, out: Tensor, mean: float, dtype: torch.dtype) -> Tensor:
    cosines, sines = out.to(dtype).chunk(2, dim=-1)
    by_cosine, by_sine = grad.to(dtype).chunk(2, dim=-1)
    return by_sine * (cosines + mean) - by_cosine * sines


def _by_input(by_angle: Tensor, frequencies: Tensor, slots: int, dtype: torch.dtype) -> Tensor:
    rounded = by_angle.to(dtype), frequencies.to(dtype)
    if slots == 1:
        return (rounded[0] @ rounded[1]).to(frequencies.dtype)
    matrices = rounded[1].unflatten(0, (slots, -1))  # type: ignore[no-untyped-call]
    return _multiply_groups(rounded[0], slots, matrices).to(frequencies.dtype).contiguous()


def _forward_supports(x: Tensor, frequencies: Tensor, slots: int, mean: float, dtype: torch.dtype) -> bool:
    return x.dtype == torch.float32 and _kernel_supports(frequencies, slots, dtype)


def _backward_supports(grad: Tensor, out: Tensor, frequencies: Tensor, slots: int, mean: float) -> bool:
    return _kernel_supports(frequencies, slots, out.dtype)


def _kernel_supports(frequencies: Tensor, slots: int, dtype: torch.dtype) -> bool:
    if not tensor_state.is_on_gpu(frequencies) or frequencies.dtype != torch.float32 or dtype not in _DTYPES:
        return False
    sizes = (len(frequencies) // slots, frequencies.shape[1])
    return all(size > 0 and size % _MULTIPLE == 0 for size in sizes)


def _forward(x: Tensor, frequencies: Tensor, slots: int, mean: float, dtype: torch.dtype) -> Tensor:
    out: Tensor = _CosinesAndSines.apply(x, frequencies, None, slots, mean, dtype)  # type: ignore[no-untyped-call]
    return out


def _backward(grad: Tensor, out: Tensor, frequencies: Tensor, slots: int, mean: float) -> Tensor:
    return _by_input(_by_angle(grad, out, mean, frequencies.dtype), frequencies, slots, out.dtype)


def _shape(x: Tensor, frequencies: Tensor, slots: int, mean: float, dtype: torch.dtype) -> Tensor:
    return x.new_empty(len(x), 2 * len(frequencies), dtype=dtype)


def _shape_of_gradient(grad: Tensor, out: Tensor, frequencies: Tensor, slots: int, mean: float) -> Tensor:
    return frequencies.new_empty(len(out), slots * frequencies.shape[1])


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, frequencies, ctx.slots, ctx.mean, _ = inputs
    ctx.save_for_backward(output, frequencies)


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    out, frequencies = ctx.saved_tensors
    if ctx.needs_input_grad[1]:
        raise NotImplementedError("ghrr::phases: frequencies have no gradient here; use ghrr.nn.phases.Phases")
    backward = _backward if ctx.slots == 1 else _phases_backward  # torch is faster at one large product
    return backward(grad, out, frequencies, ctx.slots, ctx.mean), None, None, None, None


def _check(x: Tensor, frequencies: Tensor, slots: int, columns: int | None = None) -> None:
    if frequencies.ndim != 2 or slots < 1 or len(frequencies) % slots:
        raise value_error(
            f"frequencies must have shape (phases, inputs of a slot), phases a multiple of slots={slots}, "
            f"got {describe(frequencies)}"
        )
    columns = slots * frequencies.shape[1] if columns is None else columns
    if x.ndim != 2 or x.shape[1] != columns or x.device != frequencies.device:
        raise value_error(
            f"expected shape (n, {columns}) on {frequencies.device} for frequencies "
            f"{describe(frequencies)} and slots={slots}, got {describe(x)} on {x.device}"
        )


def _check_arguments(x: Tensor, frequencies: Tensor, slots: int, *_: Any) -> None:
    _check(x, frequencies, slots)


def _check_gradient(grad: Tensor, out: Tensor, frequencies: Tensor, slots: int, mean: float) -> None:
    _check(out, frequencies, slots, columns=2 * len(frequencies))
    if grad.shape != out.shape or grad.dtype != out.dtype or grad.device != out.device:
        raise value_error(f"the gradient must be like the result {describe(out)}, got {describe(grad)}")


_phases = Operation(
    "phases",
    torch=_forward,
    kernels=(Kernel("triton", "ghrr.nn.phase_kernels:forward", _forward_supports),),
    schema="(Tensor x, Tensor frequencies, int slots, float mean, ScalarType dtype) -> Tensor",
    check=_check_arguments,
    fake=_shape,
    gradient=(_save_for_backward, _differentiate),
)
_phases_backward = Operation(
    "phases_backward",
    torch=_backward,
    kernels=(Kernel("triton", "ghrr.nn.phase_kernels:backward", _backward_supports),),
    schema="(Tensor grad, Tensor out, Tensor frequencies, int slots, float mean) -> Tensor",
    check=_check_gradient,
    fake=_shape_of_gradient,
    gradient=refuse_second_derivative("ghrr::phases"),
)
