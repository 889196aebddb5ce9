"""Laws of binding as data: which laws a model obeys follows from its facts, and the tests measure both cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ghrr.checks import names_errors
from ghrr.models.protocol import Architecture, Facts

Sides = tuple[Tensor, Tensor]


@names_errors
@dataclass(frozen=True)
class BindingLaw:
    """Equation between products of random vectors.

    Attributes
    ----------
    statement
        The equation as text; k and l are keys, v and w values.
    holds
        Whether a model with these facts obeys it; None if the model cannot form the products.
    sides
        Function of a model, two keys and two values that returns both sides of the equation.

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
LAWS: dict[str, BindingLaw] = {
    "commutative": BindingLaw(
        "k ∘ l = l ∘ k",
        lambda facts: facts.commutative,
        lambda model, k, l, v, w: (model.bind_keys(k, l), model.bind_keys(l, k)),
    ),
    "associative": BindingLaw(
        "(k ∘ l) ∘ v = k ∘ (l ∘ v)",
        lambda facts: facts.associative,
        lambda model, k, l, v, w: (model.bind(model.bind_keys(k, l), v), model.bind(k, model.bind(l, v))),
    ),
    "left inverse": BindingLaw(
        "unbind k on the left of k ∘ v = v",
        lambda facts: facts.inverse == "exact",
        lambda model, k, l, v, w: (model.unbind(model.bind(k, v), k, side="left"), v),
    ),
    "right inverse": BindingLaw(
        "unbind k on the right of v ∘ k = v",
        lambda facts: facts.inverse == "exact" if _both(facts) else None,
        lambda model, k, l, v, w: (model.unbind(model.bind(v, k), k, side="right"), v),
    ),
    "unbinding on the other side": BindingLaw(
        "unbind k on the right of k ∘ v = v",
        lambda facts: facts.commutative and facts.inverse == "exact" if _both(facts) else None,
        lambda model, k, l, v, w: (model.unbind(model.bind(k, v), k, side="right"), v),
    ),
    "self-inverse": BindingLaw(
        "k ∘ (k ∘ v) = v",
        lambda facts: facts.self_inverse if facts.closed else None,
        lambda model, k, l, v, w: (model.bind(k, model.bind(k, v)), v),
    ),
    "left identity": BindingLaw(
        "1 ∘ v = v",
        lambda facts: None if facts.identity == "none" else facts.identity in ("both", "left"),
        lambda model, k, l, v, w: (model.bind(model.identity(), v), v),
    ),
    "right identity": BindingLaw(
        "k ∘ 1 = k",
        lambda facts: None if facts.identity == "none" or facts.matrix_keys else facts.identity in ("both", "right"),
        lambda model, k, l, v, w: (model.bind(k, model.identity()), k),
    ),
    "keeps similarity": BindingLaw(
        "δ(k ∘ v, k ∘ (v + w)) = δ(v, v + w)",
        lambda facts: facts.keeps_similarity,
        lambda model, k, l, v, w: (
            model.similarity(model.bind(k, v), model.bind(k, _sum(model, v, w))),
            model.similarity(v, _sum(model, v, w)),
        ),
    ),
    "distributive": BindingLaw(
        "k ∘ (v + w + v) = k ∘ v + k ∘ w + k ∘ v",
        lambda facts: True,
        lambda model, k, l, v, w: (
            model.bind(k, _sum(model, v, w)),
            model.bundle(torch.stack([model.bind(k, v), model.bind(k, w), model.bind(k, v)])),
        ),
    ),
    "right distributive": BindingLaw(
        "(v + w + v) ∘ k = v ∘ k + w ∘ k + v ∘ k",
        lambda facts: None if facts.matrix_keys else True,
        lambda model, k, l, v, w: (
            model.bind(_sum(model, v, w), k),
            model.bundle(torch.stack([model.bind(v, k), model.bind(w, k), model.bind(v, k)])),
        ),
    ),
}


def _sum(model: Architecture, v: Tensor, w: Tensor) -> Tensor:
    """Bundle v, w and v: an odd number, so that no model has ties."""
    return model.bundle(torch.stack([v, w, v]))
