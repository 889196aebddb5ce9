"""Properties of a model as data: the laws that it obeys, and the similarities of its bundles by theory."""

from __future__ import annotations

from dataclasses import dataclass

SIDES = ("left", "right")


@dataclass(frozen=True)
class Facts:
    """Properties of a model. Tests check each of them.

    Attributes
    ----------
    commutative
        Whether a∘b = b∘a.
    associative
        Whether (a∘b)∘c = a∘(b∘c).
    inverse
        ``"exact"`` if unbinding a random key from a product returns the value to rounding; ``"approximate"`` if it
        returns the value plus noise.
    self_inverse
        Whether a vector is its own inverse, so that binding twice with a key cancels.
    keeps_similarity
        Whether binding two vectors with the same key keeps their similarity, δ(k∘a, k∘b) = δ(a, b).
    identity
        ``"both"``: 1∘a = a∘1 = a. ``"left"`` or ``"right"``: only 1∘a = a, or only a∘1 = a. ``"none"``: no identity.
    sides
        The sides on which a key can be removed.
    closed
        Whether a product has the size of its factors.
    matrix_keys
        Whether keys are matrices that act on vectors, so that ``random_keys`` is not ``random``.
    slotwise
        Whether a component of a product depends only on the components, or slots, at the same position of the factors,
        so that shifting respects binding.
    differentiable
        Whether gradients flow through ``bind`` and ``bundle``.
    bind_cost
        Operations of one binding, for vectors of d components.
    paper
        Where the model was proposed.

    Examples
    --------
    >>> from ghrr import models
    >>> facts = models.HRR(1024).facts
    >>> facts.commutative, facts.inverse
    (True, 'approximate')
    >>> models.HRR(1024, unitary=True).facts.inverse
    'exact'
    """

    commutative: bool
    associative: bool
    inverse: str
    self_inverse: bool
    keeps_similarity: bool
    bind_cost: str
    paper: str
    identity: str = "both"
    sides: tuple[str, ...] = SIDES
    closed: bool = True
    matrix_keys: bool = False
    slotwise: bool = True
    differentiable: bool = True


@dataclass(frozen=True)
class Scores:
    """Similarities of a bundle with its members and with other random vectors, by theory.

    Attributes
    ----------
    member_mean
        Mean similarity with a member; with another vector it is 0.
    member_std
        Standard deviation of the similarity with a member.
    other_std
        Standard deviation of the similarity with another vector.
    agreement
        For similarities that count equal components: their number, and the chances that a component is equal in
        a member and in another vector. Counts are binomial. None for Gaussian similarities.

    Examples
    --------
    >>> from ghrr import models
    >>> scores = models.MAP(100).bundle_scores(items=5)
    >>> scores.member_mean, scores.member_std, f"{scores.other_std:.3f}"
    (1.0, 0.2, '0.224')
    """

    member_mean: float
    member_std: float
    other_std: float
    agreement: tuple[int, float, float] | None = None
