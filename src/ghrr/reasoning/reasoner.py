r"""The reasoner: rules that explain the known panels, and the answer that they predict.

Every attribute has one rule. With the prior :math:`\pi_r` of rule r, the known panels :math:`X` and the answers
:math:`a`,

.. math:: P(r \mid X) \propto \pi_r \prod_{\text{panels}} P(x \mid r), \qquad
   P(a) \propto \prod_{\text{attributes}} \sum_r P(r \mid X)\, P(a \mid r) .

That none of the answers is right has the weight κ = 10⁻³ against an answer that fits in all attributes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ghrr.checks import names_errors
from ghrr.reasoning.panels import Attribute, Channel, Encoder, Matrices, Numbers
from ghrr.reasoning.posterior import Evidence, Posterior, Prior, learn_prior
from ghrr.reasoning.rules import GIVEN, Rule, given_rules
from ghrr.reasoning.scoring import predict_missing, score_channel

__all__ = ["Reasoner", "RuleExplanation", "Solutions"]

NONE = 1e-3  # weight κ
CACHED = 200_000  # complex numbers of one attribute that are computed with at a time


@names_errors
@dataclass(frozen=True)
class Solutions:
    """Probabilities of the answers of a batch of matrices.

    Attributes
    ----------
    probabilities
        Of each answer, ``(batch, answers)``.
    none
        That none of them is right, ``(batch,)``.

    Examples
    --------
    >>> import torch
    >>> from ghrr.reasoning import Solutions
    >>> solutions = Solutions(torch.tensor([[0.995, 0.004]]), torch.tensor([0.001]))
    >>> solutions.guesses, solutions.confident()
    (tensor([0]), tensor([True]))
    """

    probabilities: Tensor
    none: Tensor

    @property
    def guesses(self) -> Tensor:
        """Indices of the most probable answers, ``(batch,)``."""
        return self.probabilities.argmax(dim=1)

    def confident(self, confidence: float = 0.99) -> Tensor:
        """Return which guesses have at least this probability, ``(batch,)``."""
        return self.probabilities.amax(dim=1) >= confidence


@names_errors
@dataclass(frozen=True, repr=False)
class RuleExplanation:
    """Most probable rule of one attribute.

    Attributes
    ----------
    attribute
        Name of the attribute.
    rule
        The rule, or ``ghrr.reasoning.rules.NOISE`` if no rule fits.
    probability
        Its probability.
    predicted
        Value in the missing panel: a number; the occupied slots; the values of the entities, sorted or, if the rule
        says in which slot, by slot. None if the rule predicts nothing.

    Examples
    --------
    >>> from ghrr.reasoning import RuleExplanation, complete
    >>> RuleExplanation("size", complete([[1, 2, 3], [5, 6, 7], [2, 3, None]]).rule, 0.98, 4)
    RuleExplanation('size', progression +1, probability=0.980, predicted=4)
    """

    attribute: str
    rule: Rule
    probability: float
    predicted: int | list[int] | dict[int, int] | None

    def __repr__(self) -> str:
        numbers = f"probability={self.probability:.3f}, predicted={self.predicted}"
        return f"RuleExplanation({self.attribute!r}, {self.rule}, {numbers})"


@names_errors
class Reasoner:
    """Solve matrices of panels with rules over hypervectors.

    Without :meth:`fit`, the rules are the hand-written ones of I-RAVEN.

    Parameters
    ----------
    m
        Size of the matrix in a slot. Numbers need no more than 1: see the results.
    max_dim
        Largest number of complex numbers per hypervector. Smaller ranges use fewer.
    seed
        Seed of the hypervectors.

    Examples
    --------
    >>> import torch
    >>> from ghrr.reasoning import Matrices, Numbers, Reasoner
    >>> values = torch.tensor([[1, 2, 3, 4, 5, 6, 2, 3, 9, 4]])[..., None]  # three rows; then the answers 9 and 4
    >>> Reasoner().solve(Matrices({"size": Numbers(values, torch.ones(values.shape), 10)})).guesses
    tensor([1])
    """

    def __init__(self, *, m: int = 1, max_dim: int = 128, seed: int = 0) -> None:
        self.encoder = Encoder(m, max_dim, seed)
        self.prior: Prior | None = None

    def solve(self, matrices: Matrices) -> Solutions:
        """Return the probabilities of the answers."""
        batch = self._batch(matrices)
        parts = [self._solve(matrices[start : start + batch]) for start in range(0, len(matrices), batch)]
        return Solutions(torch.cat([p for p, _ in parts]), torch.cat([none for _, none in parts]))

    def _solve(self, matrices: Matrices) -> tuple[Tensor, Tensor]:
        total = torch.zeros(len(matrices), matrices.answers)
        best = torch.zeros(len(matrices))
        for name, attribute in matrices.attributes.items():
            encoded = self.encoder.channels(attribute, matrices.columns)
            posterior = self._posterior(name, attribute, matrices, *encoded)
            total += posterior.answers().log()
            best += posterior.right_answer().log()
        none = (best + math.log(NONE))[:, None]
        probabilities = torch.softmax(torch.cat([total, none], dim=1), dim=1)
        return probabilities[:, :-1], probabilities[:, -1]

    def fit(self, matrices: Sequence[Matrices], targets: Sequence[Tensor], *, rounds: int = 30) -> Reasoner:
        """Learn the prior of all rules from right answers, by expectation maximisation. No rule is labelled."""
        evidence = [
            self._evidence(*self.encoder.channels(attribute, batch.columns), attribute, batch).answered(answer)
            for batch, answer in zip(matrices, targets, strict=True)
            for attribute in batch.attributes.values()
        ]
        self.prior = learn_prior(evidence, rounds)
        return self

    def explain(self, matrices: Matrices) -> list[list[RuleExplanation]]:
        """Name the most probable rule of each attribute, and what it predicts; one list per matrix.

        Examples
        --------
        >>> import torch
        >>> from ghrr.reasoning import Matrices, Numbers, Reasoner
        >>> values = torch.tensor([[1, 2, 3, 4, 5, 6, 2, 3, 9, 4]])[..., None]  # three rows; then the answers 9 and 4
        >>> matrices = Matrices({"size": Numbers(values, torch.ones(values.shape), 10)})
        >>> Reasoner().explain(matrices)[0][0]
        RuleExplanation('size', progression +1, probability=1.000, predicted=4)
        """
        found: list[list[RuleExplanation]] = [[] for _ in range(len(matrices))]
        for name, attribute in matrices.attributes.items():
            outlier, channels = self.encoder.channels(attribute, matrices.columns)
            posterior = self._posterior(name, attribute, matrices, outlier, channels)
            for i, explanations in enumerate(found):
                ((rule, probability),) = posterior.rules(i, 1)
                channel = next((channel for channel in channels if channel.name == rule.channel), None)
                predicted = None
                if channel is not None and rule.last.kind != "free":
                    vector = predict_missing(channel, rule.last, matrices.rows, matrices.columns)[i]
                    predicted = self.encoder.decode(attribute, rule.channel, vector, matrices.columns)
                explanations.append(RuleExplanation(name, rule, probability, predicted))
        return found

    def _batch(self, matrices: Matrices) -> int:
        """Return how many matrices to solve at a time."""
        size = max(attribute.size for attribute in matrices.attributes.values())
        dim = self.encoder.number_code(size, matrices.columns).dim * self.encoder.m**2
        return max(8, CACHED // (dim * (matrices.rows * matrices.columns + matrices.answers)))

    def _posterior(
        self, name: str, attribute: Attribute, matrices: Matrices, outlier: Tensor, channels: Sequence[Channel]
    ) -> Posterior:
        prior = self.prior
        if prior is None:
            kind = "" if isinstance(attribute, Numbers) else name.rpartition("/")[2]
            prior = _given_prior(kind, tuple(channel.name for channel in channels))
        return self._evidence(outlier, channels, attribute, matrices, prior).posterior(prior)

    def _evidence(
        self,
        outlier: Tensor,
        channels: Sequence[Channel],
        attribute: Attribute,
        matrices: Matrices,
        prior: Prior | None = None,
    ) -> Evidence:
        rows, columns = matrices.rows, matrices.columns
        prior = prior or Prior.short()
        scores = [score_channel(channel, outlier, rows, columns, prior.used(channel.name)) for channel in channels]
        return Evidence(scores, outlier[:, : rows * columns - 1].sum(dim=1), 1 / attribute.size)


@lru_cache(maxsize=64)
def _given_prior(kind: str, channels: tuple[str, ...]) -> Prior:
    return Prior.equal(given_rules(channels, arithmetic=GIVEN.get(kind, {1: 0, -1: 0})))
