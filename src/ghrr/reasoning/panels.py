r"""Matrices of panels as hypervectors: one hypervector per panel and channel.

===============  =====================================================================================
attribute        channels
===============  =====================================================================================
number           ``value``: the weighted bundle :math:`\sum_v p_v B^v`
entities         ``value``: the bundle of the values that all entities share; ``collection``: the bundle
                 of all values; ``slots``: the bundle of :math:`S^k * B^v` for value v in slot k
slots            ``count``: :math:`\prod_k ((1 - q_k) + q_k B)`; ``set``: :math:`\sum_k q_k S^k`
===============  =====================================================================================

Weights are the probabilities of the input, so uncertainty is carried along. The last panel of the last row is missing:
the panels of a matrix are the others row by row, then the answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce

import torch
from torch import Tensor

from ghrr.algebra import bind, pairwise_similarity
from ghrr.checks import check_integer, names_errors, value_error
from ghrr.reasoning.codes import PowerCode, number_code, place_codes
from ghrr.reasoning.rules import STEPS

__all__ = ["Attribute", "Channel", "Entities", "Matrices", "Numbers", "Slots"]

LEAST = 1e-9  # smallest probability in a logarithm
TOLERANCE = 1e-4  # by which a probability may exceed 1


@names_errors
@dataclass(frozen=True)
class Numbers:
    """A whole number per panel, or a distribution of some values.

    Parameters
    ----------
    values
        Numbers from 0 to size − 1, ``(batch, panels, alternatives)``, int64.
    weights
        Their probabilities, of the same shape.
    size
        Size of the range.

    Examples
    --------
    >>> import torch
    >>> from ghrr.reasoning import Numbers
    >>> Numbers(torch.tensor([[[3, 4]]]), torch.tensor([[[0.9, 0.1]]]), size=10).size  # 3, or perhaps 4
    10
    """

    values: Tensor
    weights: Tensor
    size: int


@names_errors
@dataclass(frozen=True)
class Entities:
    """A value for each entity of a panel.

    Parameters
    ----------
    presence
        Probability that a slot holds an entity, ``(batch, panels, slots)``.
    values
        Probabilities of the values of the entity in each slot, ``(batch, panels, slots, size)``.

    Examples
    --------
    >>> import torch
    >>> from ghrr.reasoning import Entities
    >>> Entities(torch.ones(1, 16, 4), torch.eye(5)[2].expand(1, 16, 4, 5)).size  # four entities of value 2
    5
    """

    presence: Tensor
    values: Tensor

    @property
    def size(self) -> int:
        """Number of values."""
        return self.values.shape[-1]


@names_errors
@dataclass(frozen=True)
class Slots:
    """Which slots of a panel hold an entity: ``presence``, probabilities ``(batch, panels, slots)``.

    Examples
    --------
    >>> import torch
    >>> from ghrr.reasoning import Slots
    >>> Slots(torch.ones(1, 16, 4)).size
    4
    """

    presence: Tensor

    @property
    def size(self) -> int:
        """Number of slots."""
        return self.presence.shape[-1]


Attribute = Numbers | Entities | Slots


@names_errors
@dataclass(frozen=True)
class Matrices:
    """A batch of matrices of panels with one missing panel, and answers to choose from.

    Parameters
    ----------
    attributes
        Attributes by name, such as ``"left/size"``. The part behind the last slash is the kind of the attribute.
    columns, rows
        Size of each matrix. Panels are the ``rows * columns - 1`` known ones, then the answers.

    Examples
    --------
    >>> import torch
    >>> from ghrr.reasoning import Matrices, Slots
    >>> matrices = Matrices({"shapes": Slots(torch.ones(5, 16, 4))})
    >>> len(matrices), matrices.answers
    (5, 8)
    """

    attributes: Mapping[str, Attribute]
    columns: int = 3
    rows: int = 3

    def __post_init__(self) -> None:
        if not self.attributes:
            raise value_error("attributes must not be empty; give at least one")
        least = check_integer("columns", self.columns, least=2)
        least *= check_integer("rows", self.rows, least=2)
        shapes = {name: tuple(_panels_of(attribute).shape[:2]) for name, attribute in self.attributes.items()}
        if len(set(shapes.values())) > 1:
            raise value_error(f"attributes must have the same batch and panels, got {shapes}")
        if next(iter(shapes.values()))[1] < least:
            raise value_error(
                f"{self.rows} rows of {self.columns} panels need {least - 1} panels and at least one answer, "
                f"got {next(iter(shapes.values()))[1]} panels"
            )
        for name, attribute in self.attributes.items():
            _check_attribute(name, attribute)

    def __len__(self) -> int:
        return _panels_of(next(iter(self.attributes.values()))).shape[0]

    @property
    def answers(self) -> int:
        """Number of answers to choose from."""
        first = _panels_of(next(iter(self.attributes.values())))
        return first.shape[1] - self.columns * self.rows + 1

    def __getitem__(self, indices: Tensor | list[int] | slice) -> Matrices:
        """Return some of the matrices."""
        return Matrices({name: _select(a, indices) for name, a in self.attributes.items()}, self.columns, self.rows)


def _panels_of(attribute: Attribute) -> Tensor:
    return attribute.values if isinstance(attribute, Numbers) else attribute.presence


def _check_attribute(name: str, attribute: Attribute) -> None:
    if isinstance(attribute, Numbers):
        probabilities = [attribute.weights]
        low, high = (int(x) for x in attribute.values.aminmax()) if attribute.values.numel() else (0, 0)
        if low < 0 or high >= attribute.size:
            raise value_error(
                f"the values of {name!r} must be from 0 to {attribute.size - 1}, got {low} to {high}; check "
                f"the values or give a larger size"
            )
        if attribute.values.shape != attribute.weights.shape:
            shapes = f"{tuple(attribute.values.shape)} and {tuple(attribute.weights.shape)}"
            raise value_error(f"values and weights of {name!r} must have the same shape, got {shapes}")
    else:
        probabilities = [attribute.presence, *([attribute.values] if isinstance(attribute, Entities) else [])]
    for given in probabilities:
        if not bool(((given >= 0) & (given <= 1 + TOLERANCE)).all()):
            raise value_error(
                f"the probabilities of {name!r} must be from 0 to 1, got {given.min():g} to {given.max():g}"
            )


def _select(attribute: Attribute, indices: Tensor | list[int] | slice) -> Attribute:
    if isinstance(attribute, Numbers):
        return Numbers(attribute.values[indices], attribute.weights[indices], attribute.size)
    if isinstance(attribute, Entities):
        return Entities(attribute.presence[indices], attribute.values[indices])
    return Slots(attribute.presence[indices])


@dataclass(frozen=True)
class Channel:
    """Hypervectors of the panels in one channel of an attribute.

    Attributes
    ----------
    name
        Channel of :class:`ghrr.reasoning.Rule`.
    vectors
        ``(batch, panels, dim, m, m)``.
    steps
        Hypervectors of the steps −2 … 2, ``(5, dim, m, m)``.
    free
        Log-probability of a panel if the channel does not predict it, ``(batch, panels)``.
    rest
        Log-probability of what remains if it does, ``(batch, panels)``.
    slots
        Hypervectors of the slots, ``(slots, dim, m, m)``, for channels that need them.
    noise
        Standard deviation of the similarity of unrelated panels.
    """

    name: str
    vectors: Tensor
    steps: Tensor
    free: Tensor
    rest: Tensor
    noise: float = 0.0
    slots: Tensor = field(default_factory=lambda: torch.empty(0))

    @property
    def is_distribution(self) -> bool:
        """Whether the similarity of two panels is the probability that they agree."""
        return self.name in ("value", "count")


@dataclass(frozen=True)
class Encoder:
    """Settings with which panels are encoded: see :class:`ghrr.reasoning.Reasoner`."""

    m: int = 1
    max_dim: int = 128
    seed: int = 0

    def channels(self, attribute: Attribute, columns: int) -> tuple[Tensor, list[Channel]]:
        """Return the log-probability of each panel without any rule, ``(batch, panels)``, and the channels."""
        if isinstance(attribute, Numbers):
            return self._numbers(attribute, columns)
        return (
            self._entities(attribute, columns) if isinstance(attribute, Entities) else self._slots(attribute, columns)
        )

    def number_code(self, size: int, columns: int) -> PowerCode:
        """Return the base of numbers 0 … size − 1."""
        return number_code(size, columns=columns, m=self.m, max_dim=self.max_dim, seed=self.seed)

    def _place_codes(self, slots: int, size: int) -> tuple[PowerCode, PowerCode]:
        return place_codes(slots, size, m=self.m, max_dim=self.max_dim, seed=self.seed)

    def decode(
        self, attribute: Attribute, channel: str, vector: Tensor, columns: int
    ) -> int | list[int] | dict[int, int]:
        """Return what a hypervector of a channel ``(dim, m, m)`` says: the most similar number, or what is in it."""
        size = attribute.size
        if channel in ("value", "count"):
            size += channel == "count"
            return int(pairwise_similarity(vector, self.number_code(size, columns).table(size)).argmax())
        if channel == "set":
            held = pairwise_similarity(vector, self._place_codes(size, 1)[0].table(size))
            return held.gt(0.5).nonzero()[:, 0].tolist()
        slots = attribute.presence.shape[-1] if isinstance(attribute, Entities) else 1
        places, kinds = self._place_codes(slots, size)
        if channel == "collection":
            counts = pairwise_similarity(vector, kinds.table(size)).round().int().clamp_min(0)
            return torch.arange(size).repeat_interleave(counts).tolist()
        pairs = pairwise_similarity(vector, bind(places.table(slots)[:, None], kinds.table(size)).flatten(0, 1))
        return {int(i) // size: int(i) % size for i in pairs.gt(0.5).nonzero()[:, 0]}

    def _numbers(self, given: Numbers, columns: int) -> tuple[Tensor, list[Channel]]:
        code = self.number_code(given.size, columns)
        table = code.table(given.size)
        vectors = (given.weights[..., None, None, None] * table[given.values]).sum(dim=2)
        outlier = torch.full(given.values.shape[:2], -math.log(given.size))
        free = outlier + given.weights.sum(-1).clamp_min(LEAST).log()
        return outlier, [Channel("value", vectors, _steps(code), free, torch.zeros_like(free), code.noise)]

    def _entities(self, given: Entities, columns: int) -> tuple[Tensor, list[Channel]]:
        q, p, size, slots = given.presence, given.values, given.size, given.presence.shape[-1]
        outlier = -math.log(size) * q.sum(-1)
        zeros = torch.zeros_like(outlier)
        code = self.number_code(size, columns)
        shared = (1 - q[..., None] + q[..., None] * p).prod(dim=2)  # a value fits if it fits in every occupied slot
        free = shared.sum(-1).clamp(LEAST, 1).log() - math.log(size)
        found = [Channel("value", mix(shared, code, size), _steps(code), free, zeros, code.noise)]
        if slots > 1:
            places, kinds = self._place_codes(slots, size)
            weights = q[..., None] * p
            counts = weights.sum(dim=2)
            collection = mix(counts, kinds, size)
            pairs = bind(places.table(slots)[:, None], kinds.table(size))
            by_slot = torch.einsum("bpkv,kvdij->bpdij", weights.to(pairs.dtype), pairs)
            still = kinds.powers([0] * len(STEPS))
            orders = torch.lgamma(counts + 1).sum(-1) - torch.lgamma(q.sum(-1) + 1)
            found.append(Channel("collection", collection, still, outlier, orders))
            found.append(Channel("slots", by_slot, _steps(places), outlier, zeros))
        return outlier, found

    def _slots(self, given: Slots, columns: int) -> tuple[Tensor, list[Channel]]:
        q = given.presence
        slots = q.shape[-1]
        code = self.number_code(slots + 1, columns)
        none, one = code.powers([0, 1])
        weights = q[..., None, None, None]
        count = reduce(bind, ((1 - w) * none + w * one for w in weights.unbind(2)))
        ways = torch.tensor([math.log(math.comb(slots, k)) for k in range(slots + 1)])
        rest = -ways[q.sum(-1).round().long().clamp(0, slots)]  # the slots, if only their number is known
        free = rest - math.log(slots)
        places, _ = self._place_codes(slots, 1)
        table = places.table(slots)
        return free, [
            Channel("count", count, _steps(code), free, rest, code.noise),
            Channel("set", mix(q, places, slots), _steps(places), free, torch.zeros_like(rest), slots=table),
        ]


def _steps(code: PowerCode) -> Tensor:
    return code.powers(list(STEPS))


def mix(weights: Tensor, code: PowerCode, size: int) -> Tensor:
    """Return the weighted bundles of powers of a base, ``(*batch, dim, m, m)``, for weights ``(*batch, size)``."""
    table = code.table(size)
    return torch.einsum("...v,vdij->...dij", weights.to(table.dtype), table)
