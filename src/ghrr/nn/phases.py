r"""The diagonal part of an encoding, :math:`\Lambda(x) = \mathrm{diag}(e^{i \omega_1^\top x}, \dots)`, as a layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ghrr.encoding.kernels import SPECTRA, draw_frequencies
from ghrr.ops.choice import only_torch_takes


class FullPrecision(nn.Module):
    """A module whose numbers stay at 32 bits or more under ``.half()`` or ``.bfloat16()``: rounded phases are noise.

    Complex numbers stay complex: torch would drop their imaginary parts.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], *arguments: Any, **settings: Any) -> FullPrecision:
        def keep_precision(tensor: Tensor) -> Tensor:
            if not tensor.is_floating_point() and not tensor.is_complex():
                return fn(tensor)
            wanted = fn(tensor.new_empty(0).real)  # what fn does to dtype and device, without the data
            if wanted.dtype == tensor.real.dtype:
                return fn(tensor)
            if wanted.element_size() < 4:
                return tensor.to(wanted.device)
            return tensor.to(wanted.device, wanted.dtype.to_complex() if tensor.is_complex() else wanted.dtype)

        super()._apply(keep_precision, *arguments, **settings)  # type: ignore[no-untyped-call]
        return self


class Phases(FullPrecision):
    r"""The unit complex numbers :math:`\lambda_f(x) = e^{i(\omega_f^\top x + b_f)}` of an input, as real pairs.

    The frequencies :math:`\omega` are drawn once, each run of ``inputs`` of them orthogonal, and stay fixed as in the
    paper, or start there and are learned together with offsets b, which are zero at first.

    Parameters
    ----------
    inputs, count
        Features of the input; phases.
    spread
        Standard deviation of the phases, in radians, for inputs of zero mean and unit variance. A small spread makes
        :math:`\lambda` nearly linear in x, a large one makes far inputs unlike each other.
    trainable
        Learn frequencies and offsets.
    seed
        Same seed, same frequencies.

    Shapes
    ------
    x: ``(*, inputs)``; output: ``(*, count, 2)``

    Examples
    --------
    >>> import torch
    >>> from ghrr.nn.phases import Phases
    >>> pairs = Phases(8, 4, spread=0.5)(torch.randn(3, 8))
    >>> pairs.shape, torch.allclose(pairs.square().sum(-1), torch.ones(3, 4))
    (torch.Size([3, 4, 2]), True)
    """

    frequencies: Tensor
    offsets: Tensor | None

    def __init__(
        self,
        inputs: int,
        count: int,
        *,
        spread: float = 1.0,
        trainable: bool = False,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        drawn = draw_frequencies(SPECTRA["rbf"], count, inputs, features="orthogonal", seed=seed, label="attention")
        frequencies = (drawn * spread / inputs**0.5).to(dtype)
        if trainable:
            self.frequencies = nn.Parameter(frequencies)
            self.offsets = nn.Parameter(torch.zeros(count, dtype=dtype))
        else:
            self.register_buffer("frequencies", frequencies)
            self.offsets = None

    def forward(self, x: Tensor) -> Tensor:
        """Cosines and sines, in at least 32 bits inside, also under autocast."""
        return torch.stack(self.side_by_side(x, 0.0, x.dtype).chunk(2, dim=-1), dim=-1)

    def side_by_side(self, x: Tensor, mean: float, dtype: torch.dtype) -> Tensor:
        r"""All real parts of :math:`\lambda(x) - \mu`, then all imaginary parts, rounded once: ``(*, 2 count)``."""
        with torch.autocast(x.device.type, enabled=False):
            given = (x.to(self.frequencies.dtype), self.frequencies, self.offsets)
            tensors = [tensor for tensor in given if tensor is not None]
            if only_torch_takes(*tensors) or torch._C._are_functorch_transforms_active():
                return _side_by_side(*given, mean, dtype)
            out: Tensor = _SideBySide.apply(*given, mean, dtype)  # type: ignore[no-untyped-call]
            return out


def _side_by_side(x: Tensor, frequencies: Tensor, offsets: Tensor | None, mean: float, dtype: torch.dtype) -> Tensor:
    angles = nn.functional.linear(x, frequencies, offsets)
    return torch.cat((angles.cos() - mean, angles.sin()), dim=-1).to(dtype)


class _SideBySide(torch.autograd.Function):
    """Cosines less a constant, and sines, of angles in full precision.

    Written out for its gradients: they are made of the result, not of new cosines, and that of the input is a product
    in the precision of the result, as with any layer under autocast. Transforms of functions take the plain form.
    """

    @staticmethod
    def forward(  # noqa: PLR0917
        ctx: Any, x: Tensor, frequencies: Tensor, offsets: Tensor | None, mean: float, dtype: torch.dtype
    ) -> Tensor:
        out = _side_by_side(x, frequencies, offsets, mean, dtype)
        ctx.save_for_backward(out, frequencies, x if ctx.needs_input_grad[1] else None)
        ctx.mean = mean
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        out, frequencies, x = ctx.saved_tensors
        cosines, sines = out.to(frequencies.dtype).chunk(2, dim=-1)
        by_cosine, by_sine = gradients[0].to(frequencies.dtype).chunk(2, dim=-1)
        by_angle = by_sine * (cosines + ctx.mean) - by_cosine * sines
        flat, needs = by_angle.reshape(-1, by_angle.shape[-1]), ctx.needs_input_grad
        by_x = (by_angle.to(out.dtype) @ frequencies.to(out.dtype)).to(frequencies.dtype) if needs[0] else None
        by_frequencies = flat.T @ x.reshape(-1, x.shape[-1]) if needs[1] else None
        return by_x, by_frequencies, flat.sum(dim=0) if needs[2] else None, None, None
