"""The trained matrices W that project phases to queries, keys and values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import orthogonal

from ghrr.nn.precision import FullPrecision
from ghrr.unitary import haar


class Weights(FullPrecision):
    r"""Complex matrices W, free (``"relaxed"``) or kept unitary by parametrisation (``"unitary"``).

    Parameters
    ----------
    kind
        ``"relaxed"`` or ``"unitary"``.
    rows
        Leading axes.
    slots, m
        Number of matrices that are summed over; their size.
    gain
        Factor on the initial relaxed weights.

    Shapes
    ------
    output: ``(*rows, slots, m, m, 2)``, real and imaginary parts on the last axis
    """

    matrix: Tensor

    def __init__(
        self, kind: str, rows: tuple[int, ...], slots: int, m: int, *, gain: float, dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.unitary = kind == "unitary"
        if self.unitary:
            generator = torch.Generator().manual_seed(int(torch.randint(1 << 62, ())))  # follows torch.manual_seed
            start = haar(*rows, slots, m=m, generator=generator, dtype=dtype.to_complex())
            self.matrix = nn.Parameter(start)
            orthogonal(self, "matrix", orthogonal_map="matrix_exp")
        else:
            start = torch.randn(*rows, slots, m, m, 2, dtype=dtype)
            self.matrix = nn.Parameter(start * (gain / math.sqrt(2 * slots * m)))
        self.slots = slots

    def _apply(self, fn: Callable[[Tensor], Tensor], *arguments: Any, **settings: Any) -> Weights:
        # Relaxed weights may be rounded to 16 bits, like the weights of any layer.
        apply: Any = FullPrecision._apply if self.unitary else nn.Module._apply
        apply(self, fn, *arguments, **settings)
        return self

    def forward(self) -> Tensor:
        """Return the matrices, scaled for a sum over slots."""
        return torch.view_as_real(self.matrix) / math.sqrt(self.slots) if self.unitary else self.matrix
