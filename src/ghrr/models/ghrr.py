"""GHRR with the interface of the other models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from ghrr import algebra
from ghrr.checks import check_integer, names_errors
from ghrr.models.facts import Facts
from ghrr.models.protocol import Architecture, Device
from ghrr.space import Space


@names_errors
@dataclass(frozen=True, repr=False)
class GHRR(Architecture):
    r"""Generalized holographic reduced representations: ``dim`` unitary m x m matrices, multiplied slot by slot.

    An adapter: :class:`ghrr.Space` samples and predicts, and the functions of ``ghrr`` compute.

    Parameters
    ----------
    dim
        Number of slots. A vector has ``dim * m**2`` complex numbers.
    dtype
        ``torch.complex64`` or ``torch.complex128``.
    m
        Size of the matrix in each slot.
    rotation
        ``"varying"``, ``"fixed"`` or ``"shared"``, as in :class:`ghrr.Space`.
    diagonality
        From 0 to 1, where binding commutes; None for Haar rotations.

    References
    ----------
    C. Yeung, Z. Zou, M. Imani, Generalized holographic reduced representations, arXiv:2405.09689.

    Examples
    --------
    >>> import torch
    >>> from ghrr import models
    >>> model = models.GHRR(111, m=3)
    >>> a, b = model.random(2, generator=torch.Generator().manual_seed(0))
    >>> f"{model.similarity(model.bind(a, b), model.bind(b, a)):.1f}"
    '0.1'
    """

    dtype: torch.dtype = torch.complex64
    m: int = 2
    rotation: str = "varying"
    diagonality: float | None = None
    name: ClassVar[str] = "GHRR"
    dtypes: ClassVar[tuple[torch.dtype, ...]] = (torch.complex64, torch.complex128)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "m", check_integer("m", self.m, least=1))
        _ = self.space  # checks the other settings

    @cached_property
    def space(self) -> Space:
        """The space that describes the hypervectors."""
        return Space(self.dim, self.m, self.rotation, self.diagonality, dtype=self.dtype)

    @classmethod
    def _nearest(cls, budget: int, unit: str, order: int, settings: dict[str, Any]) -> Self:
        dtype, m = settings.get("dtype", cls.dtype), settings.get("m", cls.m)
        numbers = budget / (dtype.itemsize if unit == "nbytes" else 2)
        return cls(max(1, round(numbers / m**2)), **settings)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one vector, ``(dim, m, m)``."""
        return self.space.shape

    @property
    def facts(self) -> Facts:
        """Properties of the model; it commutes for m = 1 and for diagonal rotations."""
        return Facts(
            commutative=self.m == 1 or self.diagonality == 1,
            associative=True,
            inverse="exact",
            self_inverse=False,
            keeps_similarity=True,
            bind_cost="O(d m)",
            paper="Yeung, Zou and Imani 2024",
        )

    def _sample(self, batch: tuple[int, ...], generator: torch.Generator | None, device: Device) -> Tensor:
        return self.space.random(*batch, generator=generator, device=device)

    def _identity(self, device: Device) -> Tensor:
        return self.space.identity(device=device)

    def bind(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply the matrices of each slot."""
        a, b = self._check(a=a, b=b)
        return algebra.bind(a, b)

    def inverse(self, x: Tensor) -> Tensor:
        """Return the conjugate transpose."""
        return algebra.adjoint(*self._check(x=x))

    def unbind(self, x: Tensor, key: Tensor, *, side: str) -> Tensor:
        """Remove a key from a product, on the side on which it was bound."""
        self._check_side(side)
        x, key = self._check(x=x, key=key)
        return algebra.unbind(x, key, side=side)

    def bundle(self, items: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        """Add the items."""
        (items,) = self._check(items=items)
        self._check_items(items)
        return algebra.bundle(items)

    def normalize(self, x: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        """Project every slot to the nearest unitary matrix."""
        return algebra.normalize(*self._check(x=x), to="unitary")

    def similarity(self, a: Tensor, b: Tensor) -> Tensor:
        r"""Return the mean over slots of :math:`\mathrm{Re}\, \mathrm{tr}(A B^\dagger)/m`."""
        a, b = self._check(a=a, b=b)
        return algebra.similarity(a, b)

    def pairwise_similarity(self, queries: Tensor, items: Tensor) -> Tensor:
        """Return the similarity of every query with every item."""
        return algebra.pairwise_similarity(*self._check_pairwise(queries, items))

    def shift(self, x: Tensor, steps: int = 1) -> Tensor:
        """Shift the slots cyclically."""
        (x,) = self._check(x=x)
        return algebra.shift(x, steps)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the similarity of two independent random vectors, ``Space.noise_std``."""
        return self.space.noise_std

    def _settings(self) -> Iterable[str]:
        yield from super()._settings()
        yield f"m={self.m}"
        if self.rotation != "varying":
            yield f"rotation={self.rotation!r}"
        if self.diagonality is not None:
            yield f"diagonality={self.diagonality}"
