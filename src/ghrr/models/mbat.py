"""MBAT: matrix binding of additive terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ghrr.checks import check_broadcast, names_errors
from ghrr.models.facts import Facts
from ghrr.models.protocol import Architecture, Device, random_orthogonal, unit_gaussian


@names_errors
@dataclass(frozen=True, repr=False)
class MBAT(Architecture):
    r"""Matrix binding of additive terms: keys are matrices, values are vectors, :math:`k \circ v = K v`.

    Keys are orthogonal matrices ``(dim, dim)``, drawn from the Haar measure by :meth:`random_keys`, so that the
    transpose is the exact inverse. Two keys bind to the key :math:`K_1 K_2` of a path (:meth:`bind_keys`); two values
    cannot be bound, and a key is removed on the left only. Vectors are small, but every key takes :math:`d^2` numbers.

    References
    ----------
    S. I. Gallant, T. W. Okaywe, Representing objects, relations, and sequences, Neural Computation 25(8), 2013.

    Examples
    --------
    >>> import torch
    >>> from ghrr import models
    >>> model, generator = models.MBAT(100), torch.Generator().manual_seed(0)
    >>> key, value = model.random_keys(generator=generator), model.random(generator=generator)
    >>> key.shape, value.shape
    (torch.Size([100, 100]), torch.Size([100]))
    >>> f"{model.similarity(model.unbind(model.bind(key, value), key, side='left'), value):.3f}"
    '1.000'
    """

    name: ClassVar[str] = "MBAT"

    @property
    def facts(self) -> Facts:
        """Properties of the model."""
        return Facts(
            commutative=False,
            associative=True,
            inverse="exact",
            self_inverse=False,
            keeps_similarity=True,
            identity="left",
            sides=("left",),
            matrix_keys=True,
            bind_cost="O(d^2)",
            paper="Gallant and Okaywe 2013",
            slotwise=False,
        )

    @property
    def key_shape(self) -> tuple[int, ...]:
        """Shape of one key, ``(dim, dim)``."""
        return (self.dim, self.dim)

    def _sample(self, batch: tuple[int, ...], generator: torch.Generator | None, device: Device) -> Tensor:
        return unit_gaussian((*batch, self.dim), self.dtype, generator, device)

    def _sample_keys(self, batch: tuple[int, ...], generator: torch.Generator | None, device: Device) -> Tensor:
        return random_orthogonal(batch, self.dim, self.dtype, generator, device)

    def _identity(self, device: Device) -> Tensor:
        return torch.eye(self.dim, dtype=self.dtype, device=device)

    def bind(self, a: Tensor, b: Tensor) -> Tensor:
        """Apply the key a to the vector b; see :meth:`bind_keys` for two keys."""
        (a,), (b,) = self._check_shapes(self.key_shape, a=a), self._check(b=b)
        self._check_devices({"a": a, "b": b})
        check_broadcast(a=tuple(a.shape[:-2]), b=tuple(b.shape[:-1]))
        if a.ndim == 2:
            return b @ a.mT  # one key for all vectors: a single matrix product
        return (a @ b.unsqueeze(-1)).squeeze(-1)

    def bind_keys(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply two keys to the key of a path."""
        a, b = self._check_shapes(self.key_shape, a=a, b=b)
        return a @ b

    def inverse(self, x: Tensor) -> Tensor:
        """Transpose a key: the inverse of an orthogonal matrix."""
        (x,) = self._check_shapes(self.key_shape, x=x)
        return x.mT
