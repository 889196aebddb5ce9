r"""Positions as hypervectors, to be bound from the left: one-hot :math:`E_j`, powers :math:`R^j`, given :math:`P_j`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ghrr._checks import check_hypervectors, check_integer, check_items, describe, is_true
from ghrr.algebra import power
from ghrr.encoding.inputs import as_numbers, check_features
from ghrr.encoding.module import Encoder
from ghrr.hypervector import Hypervector
from ghrr.space import Space, check_space


class OneHotPositions(Encoder):
    r"""The paper's :math:`E_j`: zero but for a 1 at row and column j, in every slot; for j = 0 to m - 1.

    Binding from the left keeps row j and drops the others: :math:`\sum_j E_j * x_j` has row j of :math:`x_j` in row
    j. It is a projection, not unitary.

    Parameters
    ----------
    space
        Its m is the number of positions.

    Shapes
    ------
    places: ``(*)``, whole numbers; output: ``(*, dim, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> positions = ghrr.encoding.OneHotPositions(ghrr.Space(dim=4, m=3))
    >>> positions(torch.tensor(1))[0].real
    tensor([[0., 0., 0.],
            [0., 1., 0.],
            [0., 0., 0.]])
    """

    def __init__(self, space: Space) -> None:
        super().__init__()
        self.space = check_space(type(self).__name__, space)

    def forward(self, places: Any) -> Tensor:
        """The hypervectors of positions."""
        places = _checked_places("OneHotPositions", places, self.space.m)
        rows = torch.nn.functional.one_hot(places, self.space.m).to(self.space.dtype)
        return torch.diag_embed(rows)[..., None, :, :].expand(*places.shape, *self.space.shape)


class PowerPositions(Encoder):
    r"""Powers of one unitary hypervector: :math:`R^j` for any real j, so that distance is :math:`R^{j-i}`.

    Positions are used in double precision and may be up to 10¹² in size; :func:`ghrr.power` says how errors of R grow
    with them.

    Parameters
    ----------
    space
        Where they live.
    base
        R itself; by default the atom called ``name``.
    name
        Which atom.

    Shapes
    ------
    places: ``(*)``, real numbers; output: ``(*, dim, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> positions = ghrr.encoding.PowerPositions(ghrr.Space(dim=10, m=2, dtype=torch.complex128))
    >>> p = positions(torch.arange(4))
    >>> torch.allclose(ghrr.bind(p[1], p[2]), p[3])
    True
    """

    base: Tensor

    def __init__(self, space: Space, *, base: Tensor | Hypervector | None = None, name: str = "position") -> None:
        super().__init__()
        self.space = check_space(type(self).__name__, space)
        base = space.vectors([name], namespace="position")[0] if base is None else base
        base = space.check(base, "PowerPositions")
        self.register_buffer("base", base)

    def forward(self, places: Any) -> Tensor:
        """The hypervectors of positions."""
        numbers = as_numbers("PowerPositions", places, like=self.base.real)
        check_features("PowerPositions", numbers)
        return power(self.base, numbers)


class GivenPositions(Encoder):
    r"""A hypervector :math:`P_j` per position: given, random, and trainable if wanted.

    Parameters
    ----------
    positions
        ``(length, dim, m, m)``, for example ``space.random(length, generator=...)``.
    trainable
        Make them a parameter. They are then free to leave the unitary matrices.

    Shapes
    ------
    places: ``(*)``, whole numbers; output: ``(*, dim, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> space = ghrr.Space(dim=10, m=2)
    >>> random = space.random(5, generator=space.generator("positions"))
    >>> sum(p.numel() for p in ghrr.encoding.GivenPositions(random, trainable=True).parameters())
    200
    """

    positions: Tensor

    def __init__(self, positions: Tensor | Hypervector, *, trainable: bool = False) -> None:
        super().__init__()
        (positions,) = check_hypervectors("GivenPositions(positions)", positions=positions)
        check_items("GivenPositions(positions)", positions=positions)
        if trainable:
            self.positions = nn.Parameter(positions.detach().clone())
        else:
            self.register_buffer("positions", positions)

    def forward(self, places: Any) -> Tensor:
        """The hypervectors of positions."""
        return self.positions[_checked_places("GivenPositions", places, len(self.positions)).to(self.positions.device)]


def _checked_places(operation: str, places: Any, length: int) -> Tensor:
    try:
        numbers = torch.as_tensor(places)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{operation}: places must be whole numbers, got {describe(places)}") from None
    if numbers.numel() == 0:
        return numbers.long()
    if numbers.dtype.is_floating_point or numbers.dtype.is_complex or numbers.dtype == torch.bool:
        raise TypeError(f"{operation}: places must be whole numbers, got {describe(places)}")
    check_integer(operation, "length", length, least=1)
    numbers = numbers.long()
    if is_true(((numbers < 0) | (numbers >= length)).any()):
        raise ValueError(
            f"{operation}: there are {length} positions, 0 to {length - 1}; "
            f"got {int(numbers.min())} to {int(numbers.max())}"
        )
    return numbers.long()
