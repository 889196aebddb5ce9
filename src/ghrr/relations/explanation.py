r"""Explain learned relations: inverses, symmetry, commutators and compositions.

Relations are compared by what they do to the entities of the model. With :math:`W_j = \sum_h H_j^\dagger H_j` over all
entities h,

.. math:: \langle a, b \rangle_W = \mathrm{Re} \sum_h \langle h * a, h * b \rangle
          = \mathrm{Re} \sum_j \mathrm{tr}(a_j^\dagger W_j b_j) ,

so slots that no entity uses do not count. All scores below are cosines of this inner product, from -1 to 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ghrr import ops
from ghrr.checks import check_integer, names_errors
from ghrr.relations.model import RelationModel, check_model
from ghrr.relations.scoring import to_rows


@names_errors
@dataclass(frozen=True)
class Composition:
    """Two relations whose product is close to a third.

    Attributes
    ----------
    first
        Name of the relation that is applied to the head; ``~name`` is a reciprocal relation.
    second
        Name of the relation that is applied next.
    result
        Name of the relation that the product is close to.
    score
        Cosine of the product and the result.

    Examples
    --------
    >>> from ghrr.relations import Composition
    >>> print(Composition("father", "sister", "aunt", 0.91))
    father * sister = aunt (0.91)
    """

    first: str
    second: str
    result: str
    score: float

    def __str__(self) -> str:
        return f"{self.first} * {self.second} = {self.result} ({self.score:.2f})"


@names_errors
@dataclass(frozen=True)
class RelationExplanation:
    r"""What a model has learned about a relation.

    Attributes
    ----------
    name
        The relation.
    symmetry
        Cosine of r and :math:`r^\dagger`: 1 if r holds in both directions (:math:`\delta(h * r, t) = \delta(t * r,
        h)`), -1 if it holds in one direction only, since then the two similarities have opposite signs.
    inverses
        Other relations with the highest cosine with :math:`r^\dagger`, best first: :math:`\delta(h * r, t) = \delta(t *
        r^\dagger, h)`.
    commutators
        For every other relation s, the relative size of the commutator, :math:`\|rs - sr\| / \sqrt{2(\|rs\|^2 +
        \|sr\|^2)}`: 0 if the order does not matter, at most 1.
    compositions
        Best products of two relations that are close to this one.

    Examples
    --------
    >>> from ghrr.relations import RelationModel, explain
    >>> model = RelationModel(("Ada", "Byron"), ("parent", "child"), dim=20, m=1, init_std=0.1)
    >>> explanation = explain(model, "parent")
    >>> round(explanation.commutators["child"], 4)  # m = 1 commutes
    0.0
    """

    name: str
    symmetry: float
    inverses: tuple[tuple[str, float], ...]
    commutators: dict[str, float]
    compositions: tuple[Composition, ...]


@names_errors
@torch.no_grad()
def explain(model: RelationModel, relation: str, *, k: int = 3) -> RelationExplanation:
    """Describe a relation: symmetry, inverses, commutators with the others, and products that equal it.

    Parameters
    ----------
    model
        Trained model.
    relation
        Name of a relation.
    k
        Number of inverses and compositions.

    Examples
    --------
    >>> from ghrr.relations import RelationModel, explain
    >>> model = RelationModel(("Ada", "Byron"), ("parent", "child"), dim=20, m=2, init_std=0.1)
    >>> sorted(explain(model, "parent").commutators)
    ['child']
    """
    check_model(model)
    check_integer("k", k, least=1)
    index = model.relation_index(relation)
    vectors, root = model.relation_vectors(), _entity_root(model)
    adjoint = _normalized_rows(vectors[index].mH[None], root)
    cosines = (_normalized_rows(vectors, root) @ adjoint.T)[:, 0]
    order = [i for i in cosines.argsort(descending=True).tolist() if i != index][:k]
    one = vectors[index].expand_as(vectors)
    forward, backward = (to_rows(_weigh(root, x)) for x in (ops.bind(one, vectors), ops.bind(vectors, one)))
    size = (2 * (forward.square().sum(1) + backward.square().sum(1))).sqrt()
    commutators = ((forward - backward).norm(dim=1) / size.clamp(min=1e-30)).tolist()
    return RelationExplanation(
        name=relation,
        symmetry=float(cosines[index]),
        inverses=tuple((model.relation_name(i), float(cosines[i])) for i in order),
        commutators={name: commutators[i] for i, name in enumerate(model.relations) if i != index},
        compositions=tuple(find_compositions(model, k=k, result=relation)),
    )


@names_errors
@torch.no_grad()
def find_compositions(model: RelationModel, *, k: int = 10, result: str | None = None) -> list[Composition]:
    r"""Find products of two relations that are close to a third, :math:`r_1 * r_2 \approx r_3`, best first.

    Parameters
    ----------
    model
        Trained model.
    k
        Number of compositions.
    result
        Find only products that are close to this relation. Default: any relation. Reciprocal relations are factors, not
        results.

    Examples
    --------
    >>> from ghrr.relations import RelationModel, find_compositions
    >>> model = RelationModel(("Ada", "Byron"), ("parent", "child"), dim=20, m=2, init_std=0.1)
    >>> len(find_compositions(model, k=4))
    4
    """
    check_model(model)
    check_integer("k", k, least=1)
    vectors, root = model.relation_vectors(), _entity_root(model)
    results = range(len(model.relations)) if result is None else [model.relation_index(result)]
    rows = _normalized_rows(vectors[list(results)], root)
    best: list[tuple[float, int, int, int]] = []
    for first, vector in enumerate(vectors):  # one relation at a time bounds the memory
        products = _normalized_rows(ops.bind(vector.expand_as(vectors), vectors), root)
        cosines = products @ rows.T
        values, places = cosines.flatten().topk(min(k, cosines.numel()))
        for value, place in zip(values.tolist(), places.tolist(), strict=True):
            second, column = divmod(place, len(rows))
            best.append((value, first, second, results[column]))
        best = sorted(best, reverse=True)[:k]
    name = model.relation_name
    return [Composition(name(first), name(second), name(third), value) for value, first, second, third in best]


def _entity_root(model: RelationModel) -> Tensor:
    r"""Return :math:`L^\dagger` of :math:`W_j = L L^\dagger`, ``(dim, m, m)``, such that :math:`\langle a, b \rangle_W
    = \langle L^\dagger a, L^\dagger b \rangle`.
    """
    weight = torch.zeros(model.dim, model.m, model.m, dtype=torch.complex128, device=model.entity_table.device)
    for indices in torch.split(torch.arange(len(model.entities), device=weight.device), 4096):
        vectors = model.entity_vectors(indices)
        weight += ops.bind_bundle(vectors, vectors, adjoint_keys=True)
    values, bases = torch.linalg.eigh(weight)
    root: Tensor = (bases * values.clamp(min=0).sqrt()[:, None, :]).mH
    return root.to(model.entity_table.dtype.to_complex())


def _weigh(root: Tensor, vectors: Tensor) -> Tensor:
    return ops.bind(root.expand_as(vectors), vectors)


def _normalized_rows(vectors: Tensor, root: Tensor) -> Tensor:
    """Return weighted relations as real rows of norm 1."""
    return torch.nn.functional.normalize(to_rows(_weigh(root, vectors)), dim=1)
