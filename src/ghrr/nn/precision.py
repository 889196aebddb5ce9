"""Modules that keep their parameters in full precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


class FullPrecision(nn.Module):
    """Base of modules whose parameters stay at 32 bits or more under ``.half()`` and ``.bfloat16()``.

    Phases and positions rounded to 16 bits would be noise. Complex parameters stay complex: torch would drop their
    imaginary parts.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], *arguments: Any, **settings: Any) -> FullPrecision:
        def keep_precision(tensor: Tensor) -> Tensor:
            if not tensor.is_floating_point() and not tensor.is_complex():
                return fn(tensor)
            target = fn(tensor.new_empty(0).real)  # the dtype and device that fn converts to
            if target.dtype == tensor.real.dtype:
                return fn(tensor)
            if target.element_size() < 4:
                return tensor.to(target.device)
            return tensor.to(target.device, target.dtype.to_complex() if tensor.is_complex() else target.dtype)

        super()._apply(keep_precision, *arguments, **settings)  # type: ignore[no-untyped-call]
        return self
