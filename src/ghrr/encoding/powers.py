r"""Integer powers of a unitary hypervector, and sums :math:`\sum_t R^t * x_t`.

With the exponent in base 16, :math:`t = \sum_l t_l 16^l`, one table of 16 powers per digit is enough for every t:

.. math:: R^t = \prod_l \big(R^{16^l}\big)^{t_l} .

A sum over t is computed digit by digit: first over blocks of 16 items with the powers of R, then over blocks of 16 of
these sums with the powers of :math:`R^{16}`, and so on. The tables stay in cache, and intermediate sums take a
sixteenth of the memory of the items.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ghrr import ops
from ghrr.algebra import bind, bind_bundle

_BLOCK = 16
_CHUNK_NUMBERS = 1 << 22  # complex numbers in the sums of blocks at a time: 32 MiB in complex64


class _Tables(NamedTuple):
    """Powers 0 to 15 of each digit, for one value of R."""

    base: Tensor
    version: int
    digits: tuple[Tensor, ...]
    step: Tensor  # R to the power of 16 ** len(digits), in complex128


class Powers:
    """Integer powers of one unitary hypervector.

    Powers are computed in complex128 and rounded once, so errors do not grow with the exponent. Tables are computed on
    first use. Several threads may use one object. R is a constant: no gradients flow to it.

    Examples
    --------
    >>> import torch, ghrr
    >>> from ghrr.encoding.powers import Powers
    >>> [r] = ghrr.Space(dim=10, m=2).vectors(["r"])
    >>> powers = Powers()
    >>> torch.allclose(powers(r, torch.tensor([0, 37]))[1], ghrr.power(r, 37), atol=1e-5)
    True
    """

    def __init__(self) -> None:
        self._tables: _Tables | None = None

    def __call__(self, base: Tensor, exponents: Tensor) -> Tensor:
        """Return powers of ``base``, ``(dim, m, m)``, for exponents ``(*)``, from 0 on: ``(*, dim, m, m)``."""
        most = int(exponents.max()) if exponents.numel() else 0
        first, *others = self._digits(base, most + 1)
        at = exponents.to(base.device).long()
        result = first[at % _BLOCK]
        for table in others:
            at = at // _BLOCK
            result = bind(result, table[at % _BLOCK])
        return result

    def bundle(self, base: Tensor, items: Tensor) -> Tensor:
        r"""Return :math:`\sum_t R^t * x_t` of items ``(*batch, n, dim, m, m)``. Gradients flow to the items."""
        for table in self._digits(base, items.shape[-4]):
            whole = items.shape[-4] // _BLOCK * _BLOCK
            if items.shape[-4] <= _BLOCK:
                break
            blocks = items[..., :whole, :, :, :].unflatten(-4, (-1, _BLOCK))  # type: ignore[no-untyped-call]
            rest = items[..., whole:, :, :, :]
            items = bind_bundle(table, blocks)
            if rest.shape[-4]:
                last = bind_bundle(table[: rest.shape[-4]], rest)
                items = torch.cat([items, last.unsqueeze(-4)], dim=-4)
        return bind_bundle(table[: items.shape[-4]], items)

    def bundle_rows(self, base: Tensor, table: Tensor, rows: Tensor, lengths: Tensor) -> Tensor:
        r"""Return :math:`\sum_t R^t * x_t` for several sequences of rows of a table, without copying the rows.

        Parameters
        ----------
        base
            R, ``(dim, m, m)``.
        table
            Hypervectors ``(k, dim, m, m)``.
        rows
            Rows of the table, one sequence after the other.
        lengths
            Number of rows in each sequence.

        Differentiable with respect to the table.

        Shapes
        ------
        rows: ``(lengths.sum(),)``, lengths: ``(n,)``; output: ``(n, dim, m, m)``
        """
        digits = self._digits(base, int(lengths.max()) if len(lengths) else 0)
        plan = [tuple(part.to(table.device) for part in digit) for digit in _plan(rows.cpu(), lengths.cpu())]
        dim, slot = table.shape[1], table.shape[-1] ** 2
        step = max(1, _CHUNK_NUMBERS // (slot * max(1, len(plan[0][2]))))  # slots are independent of each other
        parts = []
        for start in range(0, dim, step):
            sums = table[:, start : start + step]
            for powers, (exponents, indices, offsets) in zip(digits, plan, strict=True):
                sums = ops.bind_bags(powers[:, start : start + step], sums, exponents, indices, offsets)
            parts.append(sums)
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def _digits(self, base: Tensor, count: int) -> tuple[Tensor, ...]:
        """Return the tables for exponents below ``count``, at least one."""
        known = self._tables
        version = 0 if base.is_inference() else base._version  # changes when base is written to
        if known is None or known.base is not base or known.version != version:
            known = _Tables(base, version, (), _unitary(base))
        needed = 1
        while _BLOCK**needed < count:
            needed += 1
        with torch.inference_mode(False):  # tensors of inference mode could not be used with gradients later
            while len(known.digits) < needed:
                powers = _first_powers(known.step)
                digits = (*known.digits, powers.to(base.dtype))
                known = _Tables(base, version, digits, bind(powers[-1], known.step))
        self._tables = known
        return known.digits[:needed]


def _unitary(base: Tensor) -> Tensor:
    """Return the nearest unitary hypervector in complex128; one Newton step is enough for a unitary input."""
    x = base.detach().to(torch.complex128)
    return x @ (1.5 * torch.eye(x.shape[-1], dtype=x.dtype, device=x.device) - 0.5 * x.mH @ x)


def _first_powers(x: Tensor) -> Tensor:
    """Return powers 0 to 15, by doubling."""
    powers = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device).expand_as(x)[None]
    while len(powers) < _BLOCK:
        powers = torch.cat([powers, bind(x, powers)])
        x = bind(x, x)
    return powers


def _plan(rows: Tensor, lengths: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return for each digit what to sum: exponents, rows of the table, and offsets of the blocks."""
    plan = []
    while True:
        most = int(lengths.max()) if len(lengths) else 0
        blocks = torch.ones_like(lengths) if most <= _BLOCK else (lengths + _BLOCK - 1) // _BLOCK
        first = lengths.cumsum(0) - lengths
        position = torch.arange(len(rows)) - first.repeat_interleave(lengths)
        block = (blocks.cumsum(0) - blocks).repeat_interleave(lengths) + position // _BLOCK
        sizes = torch.bincount(block, minlength=int(blocks.sum()))
        plan.append((position % _BLOCK, rows, torch.nn.functional.pad(sizes.cumsum(0), (1, 0))))
        if most <= _BLOCK:
            return plan
        rows, lengths = torch.arange(len(sizes)), blocks
