r"""Positions as hypervectors, bound from the left: one-hot :math:`E_j`, powers :math:`R^j`, and given :math:`P_j`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ghrr.algebra import power
from ghrr.checks import (
    check_hypervectors,
    check_integer,
    check_items,
    describe,
    is_true,
    names_errors,
    type_error,
    value_error,
)
from ghrr.encoding.inputs import as_scalars
from ghrr.encoding.module import Encoder
from ghrr.hypervector import Hypervector
from ghrr.space import Space, check_space


@names_errors
class OneHotPositions(Encoder):
    r"""Encode position j as the paper's :math:`E_j`: every slot has a 1 in row j, column j, and zeros elsewhere.

    Binding from the left keeps row j and sets the others to zero: row j of :math:`\sum_j E_j * x_j` is row j of
    :math:`x_j`. :math:`E_j` is a projection, not unitary. There are m positions.

    Parameters
    ----------
    space
        Space of the encodings.
    device
        Device of the encoder, the CPU by default.

    Shapes
    ------
    indices: ``(*batch)``, integers from 0 to m - 1; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> positions = ghrr.encoding.OneHotPositions(ghrr.Space(dim=4, m=3))
    >>> positions(torch.tensor(1))[0].real
    tensor([[0., 0., 0.],
            [0., 1., 0.],
            [0., 0., 0.]])
    """

    diagonals: Tensor

    def __init__(self, space: Space, *, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.space = check_space(space)
        self.register_buffer("diagonals", torch.eye(space.m, dtype=space.dtype), persistent=False)
        self._move(device)

    def forward(self, indices: Any) -> Tensor:
        """Return the hypervectors of positions."""
        indices = _check_indices(indices, self.diagonals)
        return torch.diag_embed(self.diagonals[indices])[..., None, :, :].expand(*indices.shape, *self.space.shape)


@names_errors
class PowerPositions(Encoder):
    r"""Encode position j as the power :math:`R^j` of one unitary hypervector, for any real j.

    :math:`R^i * R^j = R^{i+j}`, so relative positions are :math:`R^{j-i}`. Positions are used in double precision and
    may be up to 10¹² in size; :func:`ghrr.power` describes the error for large ones. Differentiable with respect to
    positions and to ``base``.

    Parameters
    ----------
    space
        Space of the encodings.
    base
        R; by default the atom called ``name``.
    name
        Name of the atom.
    device
        Device of the encoder, by default the device of ``base`` or the CPU.

    Shapes
    ------
    x: ``(*batch)``, real numbers; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> positions = ghrr.encoding.PowerPositions(ghrr.Space(dim=10, m=2, dtype=torch.complex128))
    >>> p = positions(torch.arange(4))
    >>> torch.allclose(ghrr.bind(p[1], p[2]), p[3])
    True
    """

    base: Tensor

    def __init__(
        self,
        space: Space,
        *,
        base: Tensor | Hypervector | None = None,
        name: str = "position",
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.space = check_space(space)
        base = space.vectors([name], namespace="position")[0] if base is None else base
        base = space.check(base)
        self.register_buffer("base", base)
        self._move(device)

    def forward(self, x: Any) -> Tensor:
        """Return the hypervectors of positions."""
        return power(self.base, as_scalars(x, like=self.base.real))


@names_errors
class GivenPositions(Encoder):
    r"""Encode position j as a hypervector :math:`P_j` of your own, which can be trained.

    Parameters
    ----------
    positions
        Hypervectors of positions 0 to length - 1, for example ``space.random(length)``. The encoder is on their device.
    trainable
        Make a copy of them a parameter. Training does not keep it unitary. Otherwise gradients flow to ``positions``.

    Shapes
    ------
    positions: ``(length, dim, m, m)``, indices: ``(*batch)``, integers; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> space = ghrr.Space(dim=10, m=2)
    >>> positions = ghrr.encoding.GivenPositions(space.random(5), trainable=True)
    >>> sum(p.numel() for p in positions.parameters())
    200
    """

    positions: Tensor

    def __init__(self, positions: Tensor | Hypervector, *, trainable: bool = False) -> None:
        super().__init__()
        (positions,) = check_hypervectors(positions=positions)
        check_items(positions=positions)
        if trainable:
            self.positions = nn.Parameter(positions.detach().clone())
        else:
            self.register_buffer("positions", positions)

    def forward(self, indices: Any) -> Tensor:
        """Return the hypervectors of positions."""
        return self.positions[_check_indices(indices, self.positions)]


def _check_indices(indices: Any, table: Tensor) -> Tensor:
    """Return indices of rows of a table as a tensor on its device."""
    try:
        numbers = torch.as_tensor(indices, device=table.device)
    except (TypeError, ValueError, RuntimeError):
        raise type_error(f"indices must be whole numbers, got {describe(indices)}") from None
    if numbers.numel() == 0:
        return numbers.long()
    if numbers.dtype.is_floating_point or numbers.dtype.is_complex or numbers.dtype == torch.bool:
        raise type_error(f"indices must be whole numbers, got {describe(indices)}")
    length = check_integer("number of positions", len(table), least=1)
    numbers = numbers.long()
    if is_true(((numbers < 0) | (numbers >= length)).any()):
        raise value_error(f"indices must be from 0 to {length - 1}, got {int(numbers.min())} to {int(numbers.max())}")
    return numbers
