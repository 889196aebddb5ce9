"""Positions of mode ``"feature"``: rotations whose angle grows with the position."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ghrr.checks import names_errors
from ghrr.nn.precision import FullPrecision
from ghrr.seeding import labelled_generator


@names_errors
class PositionRotation(FullPrecision):
    r"""Positions :math:`R^j`: feature k of token j is rotated by the angle :math:`j f_k`.

    The frequencies f fall geometrically from 1 to 1/10,000. If there are several sets of frequencies, each set is
    scaled by a random factor around 1, so that they differ. Cosines and sines of fixed frequencies are computed once.

    Parameters
    ----------
    shape
        Number of sets: for the parts (query, key and possibly value) and for the heads, 1 if shared.
    heads
        Number of heads of each part. Neighbouring heads share a set if there are more heads than sets.
    m
        Number of frequencies in a set.
    max_len
        Number of positions.
    trainable
        Train the frequencies.
    seed
        Seed of the random factors.

    Examples
    --------
    >>> import torch
    >>> from ghrr.nn.positions import PositionRotation
    >>> rotation = PositionRotation((1, 1), (2, 2), 4, 16, trainable=False, seed=0, dtype=torch.float32)
    >>> rotation(0, 10).shape
    torch.Size([4, 10, 8])
    """

    table: Tensor

    def __init__(
        self,
        shape: tuple[int, int],
        heads: tuple[int, ...],
        m: int,
        max_len: int,
        *,
        trainable: bool,
        seed: int,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.heads, self.max_len, self.trainable = heads, max_len, trainable
        f = 10000 ** (-torch.arange(m, dtype=torch.float64) / m)
        factors = torch.randn(*shape, 1, dtype=torch.float64, generator=labelled_generator(seed, "positions"))
        frequencies = (f * torch.exp(0.3 * factors) if math.prod(shape) > 1 else f.expand(1, 1, m)).to(dtype).clone()
        if trainable:
            self.frequencies = nn.Parameter(frequencies)
        else:
            self.register_buffer("frequencies", frequencies)
            self.register_buffer("table", self._compute(0, max_len), persistent=False)
            self.register_load_state_dict_post_hook(_recompute)  # type: ignore[no-untyped-call]

    def _apply(self, fn: Callable[[Tensor], Tensor], *arguments: Any, **settings: Any) -> PositionRotation:
        super()._apply(fn, *arguments, **settings)
        if not self.trainable and self.table.dtype == torch.float64:  # the table was of single precision before
            self.recompute()
        return self

    def recompute(self) -> None:
        """Compute the table of cosines and sines again, after the frequencies have changed."""
        if not self.trainable:
            self.table = self._compute(0, self.max_len)

    def forward(self, start: int, n: int) -> Tensor:
        """Return cosines, then sines, for n positions from ``start`` on: ``(heads of all parts, n, 2 m)``."""
        rotations = self._compute(start, n) if self.trainable else self.table[:, start : start + n]
        return rotations.expand(sum(self.heads), -1, -1)

    def _compute(self, start: int, n: int) -> Tensor:
        """Compute the rotations, with a first axis of 1 if all heads share them."""
        f = self.frequencies
        angles = torch.arange(start, start + n, device=f.device, dtype=f.dtype)[:, None] * f[:, :, None]
        sets = torch.cat((angles.cos(), angles.sin()), dim=-1)
        if sets.shape[:2] == (1, 1):
            return sets[0]
        sets_of_parts = [sets[part if len(sets) > 1 else 0] for part in range(len(self.heads))]
        return torch.cat(
            [x.repeat_interleave(h // len(x), dim=0) for x, h in zip(sets_of_parts, self.heads, strict=True)]
        )


def _recompute(rotation: PositionRotation, _: object) -> None:
    rotation.recompute()
