"""RelationModel: the table of entities, the table of relations, and their scores."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ghrr import ops
from ghrr._similar import similar_names
from ghrr.checks import (
    check_choice,
    check_integer,
    check_real,
    describe,
    names_errors,
    short_repr,
    type_error,
    value_error,
)
from ghrr.relations.config import RELATION_FORMS
from ghrr.relations.graph import INVERSE, check_names
from ghrr.relations.scoring import to_hypervectors, to_rows
from ghrr.relations.unseen import UnseenHeads
from ghrr.seeding import labelled_generator
from ghrr.unitary import exp_hermitian


@names_errors
class RelationModel(nn.Module):
    r"""Hypervectors of entities and relations that score triples.

    .. math:: s(h, r, t) = \delta(h * r, t) - c\, \delta(t, t)

    Every relation r has a reciprocal relation ``~r`` with a hypervector of its own. Given a relation and a tail, heads
    have the score :math:`s(t, \tilde r, h)`. For m = 1 and c = 0 the model is ComplEx; with unitary relations it has
    the rotations of RotatE. :func:`ghrr.relations.train` trains a model; :func:`ghrr.relations.predict` answers
    questions with it.

    The length penalty c lies between similarity (c = 0), which prefers long vectors and so entities with many triples,
    and distance (c = 1/2: the score is :math:`-\frac12 \delta(h * r - t, h * r - t)` up to a term without t).

    Training knows nothing about an entity without a training triple. After training, its questions with one relation
    are answered by the frequencies of tails (:mod:`ghrr.relations.unseen`).

    Parameters
    ----------
    entities, relations
        Names. The position of a name is its index; relation i has the reciprocal ``i + len(relations)``.
    dim, m
        Size of the hypervectors.
    relation_form
        ``"relaxed"`` (any matrices), ``"unitary"``, or ``"scaled"`` (unitary times a positive number per slot).
    length_penalty
        The number c in the score.
    init_std
        Standard deviation of the initial real and imaginary parts.
    seed
        Seed of the initial numbers.

    Attributes
    ----------
    temperature
        Divisor of the logits in the probabilities of :func:`ghrr.relations.predict`; fitted at the end of training.
    background
        Share of a uniform distribution in these probabilities; fitted at the end of training.
    unseen
        Entities that occur in no training triple, and how questions about them are answered. None before training.

    Examples
    --------
    >>> import torch
    >>> from ghrr.relations import RelationModel
    >>> model = RelationModel(("Ada", "Byron", "John"), ("parent",), dim=20, m=3, seed=0)
    >>> model.scores(torch.tensor([0, 1]), torch.tensor([0, 0])).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        entities: Sequence[str],
        relations: Sequence[str],
        *,
        dim: int,
        m: int,
        relation_form: str = "relaxed",
        length_penalty: float = 0.0,
        init_std: float = 1e-3,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.dim = check_integer("dim", dim, least=1)
        self.m = check_integer("m", m, least=1)
        check_choice("relation_form", relation_form, RELATION_FORMS)
        self.length_penalty = check_real("length_penalty", length_penalty, low=0.0, high=math.inf)
        std = check_real("init_std", init_std, low=0.0, high=math.inf, open_ends=True)
        self.entities = check_names("entities", entities)
        self.relations = check_names("relations", relations)
        self.relation_form = relation_form
        self.temperature, self.background = 1.0, 0.0
        self.unseen: UnseenHeads | None = None
        self._entity_indices = {name: index for index, name in enumerate(self.entities)}
        self._relation_indices = {name: index for index, name in enumerate(self.relations)}
        generator = labelled_generator(check_integer("seed", seed, least=0), "relations")
        numbers = 2 * self.dim * self.m**2
        # exp(iH) of Gaussian H with eigenvalues of about ±pi covers the unitary matrices.
        relation_std = std if relation_form == "relaxed" else math.pi / math.sqrt(self.m)
        self.entity_table = nn.Parameter(std * _randn(len(self.entities), numbers, generator))
        self.relation_table = nn.Parameter(relation_std * _randn(2 * len(self.relations), numbers, generator))
        if relation_form == "scaled":
            self.log_scale = nn.Parameter(torch.zeros(2 * len(self.relations), self.dim, dtype=torch.float32))

    @property
    def parameter_count(self) -> int:
        """Number of real parameters."""
        return sum(parameter.numel() for parameter in self.parameters())

    def entity_index(self, name: str) -> int:
        """Return the index of an entity."""
        return self._index("entity", self._entity_indices, name)

    def relation_index(self, name: str) -> int:
        """Return the index of a relation; ``~name`` is the reciprocal relation of ``name``."""
        if isinstance(name, str) and name.startswith(INVERSE) and name not in self._relation_indices:
            return len(self.relations) + self._index("relation", self._relation_indices, name.removeprefix(INVERSE))
        return self._index("relation", self._relation_indices, name)

    def relation_name(self, index: int) -> str:
        """Return the name of a relation or of a reciprocal relation."""
        count = len(self.relations)
        return self.relations[index] if index < count else INVERSE + self.relations[index - count]

    def _index(self, kind: str, indices: dict[str, int], name: str) -> int:
        if not isinstance(name, str):
            raise type_error(f"the name of a {kind} must be a string, got {describe(name)}")
        if name not in indices:
            similar = [*similar_names(name, indices), *indices][0]
            raise value_error(
                f"unknown {kind} {short_repr(name)}, expected one of {len(indices):,} names such as "
                f"{short_repr(similar)}"
            )
        return indices[name]

    def entity_vectors(self, indices: Tensor) -> Tensor:
        """Return hypervectors of entities: ``(n,)`` to ``(n, dim, m, m)``."""
        return to_hypervectors(self.entity_table[indices], self.m)

    def relation_vectors(self) -> Tensor:
        """Return the hypervectors of all relations, then of their reciprocals: ``(2R, dim, m, m)``."""
        vectors = to_hypervectors(self.relation_table, self.m)
        if self.relation_form != "relaxed":
            vectors = exp_hermitian(vectors)
        if self.relation_form == "scaled":
            vectors = vectors * torch.exp(self.log_scale)[..., None, None]
        return vectors

    def compose(self, heads: Tensor, *path: Tensor) -> Tensor:
        r"""Apply a path of relations to heads, :math:`h * r_1 * r_2 * \dots`.

        Parameters
        ----------
        heads
            Indices of entities.
        path
            Indices of relations, one tensor for each step.

        Shapes
        ------
        heads and each tensor of ``path``: ``(n,)``; output: ``(n, dim, m, m)``

        Examples
        --------
        >>> import torch
        >>> from ghrr.relations import RelationModel
        >>> model = RelationModel(("Ada", "Byron", "John"), ("parent",), dim=20, m=3, seed=0)
        >>> parent = torch.tensor([model.relation_index("parent")])
        >>> model.compose(torch.tensor([0]), parent, parent).shape
        torch.Size([1, 20, 3, 3])
        """
        relations = self.relation_vectors()
        product = self.entity_vectors(heads)
        for step in path:
            product = ops.bind(product, relations[step])
        return product

    def scores(self, heads: Tensor, *path: Tensor) -> Tensor:
        r"""Return the scores of all entities as tails, :math:`s(h, r_1 * r_2 * \dots, t)`: one matrix product.

        For unseen heads and one relation, the scores come from :mod:`ghrr.relations.unseen`, times the temperature
        and divided by mD, so that their probabilities are the frequencies.

        Shapes
        ------
        heads and each tensor of ``path``: ``(n,)``; output: ``(n, entities)``
        """
        logits = to_rows(self.compose(heads, *path)) @ self.entity_table.T
        if self.length_penalty:
            logits = logits - self.length_penalty * self.entity_table.square().sum(dim=1)
        if self.unseen is not None and len(path) == 1:
            logits = self.unseen.replace(logits, heads, path[0], self.temperature)
        return logits.div_(self.m * self.dim)  # in place: for a million entities each copy takes much memory

    def extra_repr(self) -> str:
        """Describe the size of the model."""
        return (
            f"{len(self.entities)} entities, {len(self.relations)} relations, dim={self.dim}, m={self.m}, "
            f"relation_form={self.relation_form!r}"
        )


def _randn(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Return Gaussian numbers in single precision, whatever the default of torch is."""
    return torch.randn(rows, columns, generator=generator, dtype=torch.float32)


def check_model(model: object) -> RelationModel:
    """Return a model; raise unless it is a :class:`RelationModel` in single or double precision."""
    if not isinstance(model, RelationModel):
        raise type_error(f"model must be a RelationModel, got {describe(model)}")
    dtype = model.entity_table.dtype
    if dtype not in (torch.float32, torch.float64):
        raise type_error(f"the parameters of the model must be float32 or float64, got {dtype}; use model.float()")
    return model
