"""The interface of all models: the operations that every architecture has."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from ghrr.algebra.number_range import scale_to_one, within_range
from ghrr.checks import (
    check_batch,
    check_broadcast,
    check_choice,
    check_device,
    check_generator,
    check_integer,
    describe,
    type_error,
    value_error,
)
from ghrr.models.facts import Facts, Scores

Device = torch.device | str | None
_REAL = (torch.float32, torch.float64)


@dataclass(frozen=True)
class Architecture(ABC):
    """Base class of all architectures.

    A model describes vectors but holds none: they are plain tensors ``(*batch, *shape)``. All operations are batched,
    and batches broadcast. ``bundle`` never normalises, except in BSC and SBC, which have no other bundles. Similarities
    are scaled: 1 for a random vector with itself, 0 on average for two independent ones.

    Parameters
    ----------
    dim
        Number of components of a vector.
    dtype
        Type of a component.

    Shapes
    ------
    vectors: ``(*batch, *shape)``, keys: ``(*batch, *key_shape)``; items of ``bundle``: ``(*batch, n, *shape)``; items
    of ``pairwise_similarity``: ``(n, *shape)``; similarities: ``(*batch)`` or ``(*batch, n)``, real

    Examples
    --------
    >>> import torch
    >>> from ghrr import models
    >>> def read_pair(model: models.Architecture) -> float:
    ...     generator = torch.Generator().manual_seed(0)
    ...     key, value = model.random_keys(generator=generator), model.random(generator=generator)
    ...     return float(model.similarity(model.unbind(model.bind(key, value), key, side="left"), value))
    >>> [round(read_pair(models.make(name, reals=576))) for name in ("fhrr", "bsc", "mbat", "ghrr-3")]
    [1, 1, 1, 1]
    """

    dim: int
    dtype: torch.dtype = torch.float32

    name: ClassVar[str]
    dtypes: ClassVar[tuple[torch.dtype, ...]] = _REAL

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", check_integer("dim", self.dim, least=1))
        if self.dtype not in self.dtypes:
            allowed = " or ".join(str(dtype) for dtype in self.dtypes)
            raise value_error(f"dtype must be {allowed}, got {self.dtype!r}")
        check_size(self.dim, self.possible_sizes(self.dim))

    # ------------------------------------------------------------------ facts and sizes

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """Properties of the model."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one vector."""
        return (self.dim,)

    @property
    def key_shape(self) -> tuple[int, ...]:
        """Shape of one key. It is :attr:`shape`, unless keys are matrices."""
        return self.shape

    @property
    def reals_per_vector(self) -> int:
        """Number of real numbers of a vector; a complex number counts twice, a bit and an index once."""
        return math.prod(self.shape) * (2 if self.dtype.is_complex else 1)

    @property
    def bytes_per_vector(self) -> int:
        """Number of bytes that store a vector."""
        return math.prod(self.shape) * self.dtype.itemsize

    def possible_sizes(self, near: int) -> tuple[int, ...]:
        """Return the values of ``dim`` around a number that the model can have, at most one on each side."""
        return (near,)

    @classmethod
    def sized(cls, *, reals: int | None = None, nbytes: int | None = None, order: int = 1, **settings: Any) -> Self:
        """Return the model whose vectors are nearest to a number of reals or of bytes.

        Parameters
        ----------
        reals, nbytes
            The budget of one vector. Give one of the two.
        order
            Number of factors of the products that have to fit into the budget. Only the size of tensor products (TPR)
            depends on it.
        **settings
            Further arguments of the model.

        Examples
        --------
        >>> from ghrr import models
        >>> models.VTB.sized(reals=1000)
        VTB(dim=1024)
        >>> models.BSC.sized(nbytes=4096).dim, models.FHRR.sized(nbytes=4096).dim
        (32768, 512)
        """
        if (reals is None) == (nbytes is None):
            raise type_error(f"expected one of reals and nbytes, got {'neither' if reals is None else 'both'}")
        name, given = ("reals", reals) if nbytes is None else ("nbytes", nbytes)
        budget = check_integer(name, given, least=1)  # type: ignore[arg-type]  # one of them is given
        order = check_integer("order", order, least=1)
        return cls._nearest(budget, name, order, settings)

    @classmethod
    def _nearest(cls, budget: int, unit: str, order: int, settings: dict[str, Any]) -> Self:
        dtype = settings.get("dtype", cls.dtype)
        per_component = dtype.itemsize if unit == "nbytes" else (2 if dtype.is_complex else 1)
        wanted = max(1, round(budget / per_component))
        return cls(cls._nearest_dim(wanted, settings), **settings)

    @classmethod
    def _nearest_dim(cls, wanted: int, settings: dict[str, Any]) -> int:
        return wanted

    # ------------------------------------------------------------------ sampling

    def random(self, *batch: int, generator: torch.Generator | None = None, device: Device = None) -> Tensor:
        """Draw random vectors, ``(*batch, *shape)``, from a generator or from torch's global one."""
        return self._draw(self._sample, batch, generator, device)

    def random_keys(self, *batch: int, generator: torch.Generator | None = None, device: Device = None) -> Tensor:
        """Draw random keys, ``(*batch, *key_shape)``: vectors, unless the model has matrices as keys."""
        return self._draw(self._sample_keys, batch, generator, device)

    def _draw(
        self,
        sample: Callable[[tuple[int, ...], torch.Generator | None, Device], Tensor],
        batch: tuple[int, ...],
        generator: torch.Generator | None,
        device: Device,
    ) -> Tensor:
        batch = check_batch(batch)
        device = None if device is None else check_device(device)
        generator = None if generator is None else check_generator(generator)
        return draw_on(device, generator, lambda d: sample(batch, generator, d))

    @abstractmethod
    def _sample(self, batch: tuple[int, ...], generator: torch.Generator | None, device: Device) -> Tensor: ...

    def _sample_keys(self, batch: tuple[int, ...], generator: torch.Generator | None, device: Device) -> Tensor:
        return self._sample(batch, generator, device)

    def identity(self, *batch: int, device: Device = None) -> Tensor:
        """Return the neutral element of binding, ``(*batch, *key_shape)``; ``facts.identity`` says on which side."""
        batch = check_batch(batch)
        one = self._identity(None if device is None else check_device(device))
        return one.repeat(*batch, *[1] * one.ndim)

    @abstractmethod
    def _identity(self, device: Device) -> Tensor:
        """Return one neutral element."""

    # ------------------------------------------------------------------ binding

    @abstractmethod
    def bind(self, a: Tensor, b: Tensor) -> Tensor:
        """Bind two vectors, a∘b."""

    def bind_keys(self, a: Tensor, b: Tensor) -> Tensor:
        """Bind two keys. In an associative model the result is the key of the path a.b."""
        return self.bind(a, b)

    @abstractmethod
    def inverse(self, x: Tensor) -> Tensor:
        """Return the inverse, or the approximate inverse, of a vector for binding."""

    def unbind(self, x: Tensor, key: Tensor, *, side: str) -> Tensor:
        """Remove a key from a product: the value v from ``bind(key, v)`` (left), or from ``bind(v, key)`` (right).

        If ``x`` is a bundle, the result is the value plus noise. ``facts.inverse`` says whether unbinding is exact.
        """
        self._check_side(side)
        self._check_shapes(self.key_shape, key=key)
        self._check(x=x)
        inverse = self.inverse(key)
        return self.bind(inverse, x) if side == "left" else self.bind(x, inverse)

    def _check_side(self, side: str) -> None:
        check_choice("side", side, self.facts.sides)

    # ------------------------------------------------------------------ bundling and comparing

    def bundle(self, items: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        """Bundle the items of an axis, ``(*batch, n, *shape)`` to ``(*batch, *shape)``: their sum.

        ``generator`` breaks ties, in the models that have them (BSC, SBC).
        """
        (items,) = self._check(items=items)
        self._check_items(items)
        return items.sum(dim=-len(self.shape) - 1)

    def normalize(self, x: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        """Scale to a similarity of 1 with itself; zero stays zero.

        ``generator`` breaks ties, in the model that has them (bipolar MAP).
        """
        (x,) = self._check(x=x)
        x = scale_to_one(x, axes=len(self.shape))
        square = self.similarity(x, x)
        return x * torch.where(square > 0, square, 1.0).rsqrt().reshape(*square.shape, *[1] * len(self.shape))

    def similarity(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the similarity δ(a, b) of vectors, pair by pair; batches broadcast."""
        a, b = self._check(a=a, b=b)
        return within_range(lambda a, b: torch.linalg.vecdot(a, b) * self._scale, a, b)

    def pairwise_similarity(self, queries: Tensor, items: Tensor) -> Tensor:
        """Return the similarity of all queries ``(*batch, *shape)`` and items ``(n, *shape)``: ``(*batch, n)``."""
        queries, items = self._check_pairwise(queries, items)
        return within_range(lambda queries, items: (queries @ items.mT) * self._scale, queries, items)

    @property
    def _scale(self) -> float:
        """Factor of the inner product in the similarity: the inverse of the mean squared norm of a random vector."""
        return 1.0

    def shift(self, x: Tensor, steps: int = 1) -> Tensor:
        """Shift the components cyclically."""
        (x,) = self._check(x=x)
        return x.roll(check_integer("steps", steps) % self.dim, dims=-len(self.shape))

    # ------------------------------------------------------------------ theory

    @property
    def noise_std(self) -> float:
        """Standard deviation of the similarity of two independent random vectors, by theory."""
        return 1 / math.sqrt(self.dim)

    @property
    def _self_similarity_std(self) -> float:
        """Standard deviation of the similarity of a random vector with itself."""
        return 0.0

    def bundle_scores(self, items: int) -> Scores:
        """Return mean and standard deviation of the similarities of a bundle of ``items`` random vectors, by theory.

        In a sum, a member scores 1 plus the noise of the other members, and another vector the noise of all members.
        """
        items = self._check_count(items)
        variance = self.noise_std**2
        member = math.sqrt((items - 1) * variance + self._self_similarity_std**2)
        return Scores(1.0, member, math.sqrt(items * variance))

    # ------------------------------------------------------------------ checks

    def _check_count(self, items: int) -> int:
        return check_integer("items", items, least=1)

    def _check(self, **given: Any) -> list[Tensor]:
        """Return the arguments; raise unless they are vectors of this model on one device whose batches broadcast."""
        return self._check_shapes(self.shape, **given)

    def _check_shapes(self, shape: tuple[int, ...], **given: Any) -> list[Tensor]:
        axes = len(shape)
        for name, x in given.items():
            if not isinstance(x, Tensor) or x.dtype != self.dtype or x.shape[-axes:] != shape:
                self._refuse(name, x, shape)
        self._check_devices(given)
        check_broadcast(**{name: tuple(x.shape[:-axes]) for name, x in given.items()})
        return list(given.values())

    def _check_devices(self, given: dict[str, Tensor]) -> None:
        devices = {name: x.device for name, x in given.items()}
        if len(set(devices.values())) > 1:
            found = ", ".join(f"{name} on {device}" for name, device in devices.items())
            raise value_error(f"all vectors must be on one device, got {found}; use .to(device)")

    def _check_items(self, items: Tensor) -> None:
        if items.ndim < len(self.shape) + 1:
            raise value_error(
                f"items need an axis of items before the vector, got {describe(items)}; stack the vectors first"
            )

    def _check_pairwise(self, queries: Any, items: Any) -> tuple[Tensor, Tensor]:
        for name, x in (("queries", queries), ("items", items)):
            self._check(**{name: x})
        self._check_devices({"queries": queries, "items": items})
        if items.ndim != len(self.shape) + 1:
            raise value_error(f"items must have shape {('n', *self.shape)}, got {describe(items)}")
        return queries, items

    def _refuse(self, name: str, x: Any, shape: tuple[int, ...]) -> None:
        expected = ", ".join(map(str, shape))
        error = value_error if isinstance(x, Tensor) else type_error
        raise error(
            f"{name} must be a {str(self.dtype).removeprefix('torch.')} tensor of shape "
            f"(*batch, {expected}), got {describe(x)}; all vectors must come from one model, here {self!r}"
        )

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(self._settings())})"

    def _settings(self) -> Iterable[str]:
        yield f"dim={self.dim}"
        if self.dtype != type(self).dtype:
            yield f"dtype={self.dtype}"


def check_size(dim: int, possible: tuple[int, ...]) -> None:
    """Raise unless ``dim`` is one of the possible sizes, which are the nearest ones."""
    if dim not in possible:
        nearest = " or ".join(map(str, possible))
        raise value_error(f"dim must be a size that the model supports, got {dim}; the nearest are {nearest}")


def draw_on(device: Device, generator: torch.Generator | None, sample: Callable[[Device], Tensor]) -> Tensor:
    """Sample on the device of the generator, which fixes the numbers, and move the result to ``device``."""
    x = sample(device if generator is None else generator.device)
    return x if device is None else x.to(device)


def signs(negative: Tensor, dtype: torch.dtype) -> Tensor:
    """Return -1 where a condition holds, and 1 elsewhere."""
    return 1 - 2 * negative.to(dtype)


def unit_gaussian(
    shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator | None, device: Device
) -> Tensor:
    """Draw vectors from the unit sphere."""
    x = torch.randn(shape, dtype=dtype, generator=generator, device=device)
    return torch.nn.functional.normalize(x, dim=-1)


def random_orthogonal(
    batch: tuple[int, ...], size: int, dtype: torch.dtype, generator: torch.Generator | None, device: Device
) -> Tensor:
    """Draw orthogonal matrices from the Haar measure: QR with the signs of the diagonal of R fixed."""
    q, r = torch.linalg.qr(torch.randn((*batch, size, size), dtype=dtype, generator=generator, device=device))
    orthogonal: Tensor = q * signs(r.diagonal(dim1=-2, dim2=-1) < 0, dtype).unsqueeze(-2)
    return orthogonal
