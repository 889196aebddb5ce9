"""Base class of all encoders: a module that moves between devices and keeps the precision of its space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ghrr.checks import check_device


class Encoder(nn.Module):
    """Module whose tensors change their device with ``.to()``, but not their dtype.

    Casting would drop imaginary parts or round phases to 16 bits: ``.half()``, ``.double()`` and ``.to(dtype)`` leave
    the dtype unchanged. For another precision, create the encoder in a space of that dtype.
    """

    def _move(self, device: torch.device | str | None) -> None:
        """Move to a device, if there is one: the last step of a constructor."""
        if device is not None:
            self.to(check_device(device))

    def _apply(self, fn: Callable[[Tensor], Tensor], *arguments: Any, **settings: Any) -> Encoder:
        def keep_dtype(tensor: Tensor) -> Tensor:
            if tensor.is_floating_point() or tensor.is_complex():
                empty = fn(tensor.new_empty(0).real)  # shows the device that fn moves to, without moving data
                return tensor.to(empty.device) if empty.dtype != tensor.real.dtype else fn(tensor)
            return fn(tensor)

        super()._apply(keep_dtype, *arguments, **settings)  # type: ignore[no-untyped-call]
        return self
