"""The base of all encoders: a module that moves between devices but keeps the precision of its space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


class Encoder(nn.Module):
    """A module whose tensors keep their dtype under ``.to(dtype)``, ``.half()`` or ``.double()``; devices change.

    Casting would drop imaginary parts or round phases to 16 bits. For another precision make the encoder in a space of
    that dtype.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], *arguments: Any, **settings: Any) -> Encoder:
        def keep_dtype(tensor: Tensor) -> Tensor:
            if tensor.is_floating_point() or tensor.is_complex():
                empty = fn(tensor.new_empty(0).real)  # what fn does to a device, without the data
                return tensor.to(empty.device) if empty.dtype != tensor.real.dtype else fn(tensor)
            return fn(tensor)

        super()._apply(keep_dtype, *arguments, **settings)  # type: ignore[no-untyped-call]
        return self
