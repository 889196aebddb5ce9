"""Laws of binding and similarity as data: which laws a model obeys follows from its facts.

Tests measure that a model obeys these laws and breaks the others. :func:`ghrr.testing.check_laws` checks the laws of
GHRR for given hypervectors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ghrr.checks import names_errors
from ghrr.models.facts import Facts
from ghrr.models.protocol import Architecture

Sides = tuple[Tensor, Tensor]


@names_errors
@dataclass(frozen=True)
class Law:
    """Equation between products or similarities of vectors.

    Attributes
    ----------
    statement
        The equation as text; k and l are keys, v and w values.
    holds
        Whether a model with these facts obeys it; None if the facts do not decide it, or if the model cannot form the
        products.
    sides
        Function of a model, two keys and two values that returns both sides of the equation.
    needs_unitary
        Whether GHRR obeys it only for unitary hypervectors, not for bundles.

    Examples
    --------
    >>> import torch
    >>> from ghrr import models
    >>> law, generator = models.LAWS["commutative"], torch.Generator().manual_seed(0)
    >>> for model in (models.FHRR(100), models.VTB(100)):
    ...     print(law.holds(model.facts), law.deviation(model, generator) < 1e-5)
    True True
    False False
    """

    statement: str
    holds: Callable[[Facts], bool | None]
    sides: Callable[[Architecture, Tensor, Tensor, Tensor, Tensor], Sides]
    needs_unitary: bool = False

    def deviation(self, model: Architecture, generator: torch.Generator) -> float:
        """Return the difference of both sides for random vectors, relative to their size.

        For binary and sparse vectors it is the share of different components.
        """
        keys, values = model.random_keys(2, generator=generator), model.random(2, generator=generator)
        left, right = self.sides(model, *keys, *values)
        if not (left.is_floating_point() or left.is_complex()):
            return float((left != right).double().mean())
        return float((left - right).norm() / right.norm().clamp(min=1e-30))


def _both(facts: Facts) -> bool:
    return "right" in facts.sides


#: The laws by name.
LAWS: dict[str, Law] = {
    "commutative": Law(
        "k ∘ l = l ∘ k",
        lambda facts: facts.commutative,
        lambda model, k, l, v, w: (model.bind_keys(k, l), model.bind_keys(l, k)),
    ),
    "associative": Law(
        "(k ∘ l) ∘ v = k ∘ (l ∘ v)",
        lambda facts: facts.associative,
        lambda model, k, l, v, w: (model.bind(model.bind_keys(k, l), v), model.bind(k, model.bind(l, v))),
    ),
    "left inverse": Law(
        "unbind k on the left of k ∘ v = v",
        lambda facts: facts.inverse == "exact",
        lambda model, k, l, v, w: (model.unbind(model.bind(k, v), k, side="left"), v),
        needs_unitary=True,
    ),
    "right inverse": Law(
        "unbind k on the right of v ∘ k = v",
        lambda facts: facts.inverse == "exact" if _both(facts) else None,
        lambda model, k, l, v, w: (model.unbind(model.bind(v, k), k, side="right"), v),
        needs_unitary=True,
    ),
    "unbinding on the other side": Law(
        "unbind k on the right of k ∘ v = v",
        lambda facts: facts.commutative and facts.inverse == "exact" if _both(facts) else None,
        lambda model, k, l, v, w: (model.unbind(model.bind(k, v), k, side="right"), v),
        needs_unitary=True,
    ),
    "self-inverse": Law(
        "k ∘ (k ∘ v) = v",
        lambda facts: facts.self_inverse if facts.closed else None,
        lambda model, k, l, v, w: (model.bind(k, model.bind(k, v)), v),
        needs_unitary=True,
    ),
    "left identity": Law(
        "1 ∘ v = v",
        lambda facts: None if facts.identity == "none" else facts.identity in ("both", "left"),
        lambda model, k, l, v, w: (model.bind(model.identity(), v), v),
    ),
    "right identity": Law(
        "k ∘ 1 = k",
        lambda facts: None if facts.identity == "none" or facts.matrix_keys else facts.identity in ("both", "right"),
        lambda model, k, l, v, w: (model.bind(k, model.identity()), k),
    ),
    "keeps similarity": Law(
        "δ(k ∘ v, k ∘ (v + w + v)) = δ(v, v + w + v)",
        lambda facts: facts.keeps_similarity,
        lambda model, k, l, v, w: (
            model.similarity(model.bind(k, v), model.bind(k, _sum(model, v, w))),
            model.similarity(v, _sum(model, v, w)),
        ),
        needs_unitary=True,
    ),
    "distributive": Law(
        "k ∘ (v + w + v) = k ∘ v + k ∘ w + k ∘ v",
        lambda facts: True,
        lambda model, k, l, v, w: (
            model.bind(k, _sum(model, v, w)),
            _sum(model, model.bind(k, v), model.bind(k, w)),
        ),
    ),
    "right distributive": Law(
        "(v + w + v) ∘ k = v ∘ k + w ∘ k + v ∘ k",
        lambda facts: None if facts.matrix_keys else True,
        lambda model, k, l, v, w: (
            model.bind(_sum(model, v, w), k),
            _sum(model, model.bind(v, k), model.bind(w, k)),
        ),
    ),
    "inverse of a product": Law(
        "(k ∘ l)⁻¹ = l⁻¹ ∘ k⁻¹",
        lambda facts: True if facts.associative and facts.closed and facts.inverse == "exact" else None,
        lambda model, k, l, v, w: (
            model.inverse(model.bind_keys(k, l)),
            model.bind_keys(model.inverse(l), model.inverse(k)),
        ),
    ),
    "shift respects binding": Law(
        "ρ(k ∘ v) = ρ(k) ∘ ρ(v)",
        lambda facts: None if facts.matrix_keys else facts.slotwise,
        lambda model, k, l, v, w: (model.shift(model.bind(k, v)), model.bind(model.shift(k), model.shift(v))),
    ),
    "similarity is symmetric": Law(
        "δ(v, w) = δ(w, v)",
        lambda facts: True,
        lambda model, k, l, v, w: (model.similarity(v, w), model.similarity(w, v)),
    ),
    "similarity is linear": Law(
        "δ(v + w + v, w) = 2 δ(v, w) + δ(w, w)",
        lambda facts: facts.differentiable,  # where gradients do not flow, bundles are not sums
        lambda model, k, l, v, w: (
            model.similarity(_sum(model, v, w), w),
            2 * model.similarity(v, w) + model.similarity(w, w),
        ),
    ),
    "similar to itself": Law(
        "δ(v, v) = 1",
        lambda facts: True if facts.keeps_similarity else None,
        lambda model, k, l, v, w: (model.similarity(v, v), torch.ones_like(model.similarity(v, v))),
        needs_unitary=True,
    ),
}


def _sum(model: Architecture, v: Tensor, w: Tensor) -> Tensor:
    """Bundle v, w and v: an odd number, so that no model has ties."""
    return model.bundle(torch.stack([v, w, v], dim=-len(model.shape) - 1))
