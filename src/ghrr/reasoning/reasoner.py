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

from ghrr.reasoning.panels import Attribute, Encoder, Matrices, Slots
from ghrr.reasoning.posterior import Evidence, Prior, learn_prior
from ghrr.reasoning.rules import GIVEN, given_rules
from ghrr.reasoning.scoring import score_channel

__all__ = ["Reasoner", "Solutions"]

NONE = 1e-3  # weight κ
BATCH = 100  # matrices at a time


@dataclass(frozen=True)
class Solutions:
    """Probabilities of the answers of a batch of matrices.

    Attributes
    ----------
    probabilities
        Of each answer, ``(batch, answers)``.
    none
        That none of them is right, ``(batch,)``.
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
    """

    def __init__(self, *, m: int = 1, max_dim: int = 512, seed: int = 0) -> None:
        self.encoder = Encoder(m, max_dim, seed)
        self.prior: Prior | None = None

    def solve(self, matrices: Matrices) -> Solutions:
        """Return the probabilities of the answers."""
        parts = [self._solve(matrices[start : start + BATCH]) for start in range(0, len(matrices), BATCH)]
        return Solutions(torch.cat([p for p, _ in parts]), torch.cat([none for _, none in parts]))

    def _solve(self, matrices: Matrices) -> tuple[Tensor, Tensor]:
        total = torch.zeros(len(matrices), matrices.answers)
        best = torch.zeros(len(matrices))
        for name, attribute in matrices.attributes.items():
            evidence = self._evidence(attribute, matrices)
            posterior = evidence.posterior(self._prior(name, evidence.names))
            total += posterior.answers().log()
            best += posterior.best_answer().log()
        none = (best + math.log(NONE))[:, None]
        probabilities = torch.softmax(torch.cat([total, none], dim=1), dim=1)
        return probabilities[:, :-1], probabilities[:, -1]

    def fit(self, matrices: Sequence[Matrices], targets: Sequence[Tensor], *, rounds: int = 30) -> Reasoner:
        """Learn the prior of all rules from right answers, by expectation maximisation. No rule is labelled."""
        evidence = [
            self._evidence(attribute, batch, answer)
            for batch, answer in zip(matrices, targets, strict=True)
            for attribute in batch.attributes.values()
        ]
        self.prior = learn_prior(evidence, rounds)
        return self

    def _evidence(self, attribute: Attribute, matrices: Matrices, targets: Tensor | None = None) -> Evidence:
        rows, columns = matrices.rows, matrices.columns
        outlier, channels = self.encoder.channels(attribute, columns)
        scores = [score_channel(channel, outlier, rows, columns) for channel in channels]
        size = attribute.presence.shape[-1] if isinstance(attribute, Slots) else attribute.size
        found = Evidence(scores, outlier[:, : rows * columns - 1].sum(dim=1), 1 / size)
        return found if targets is None else found.answered(targets)

    def _prior(self, name: str, channels: tuple[str, ...]) -> Prior:
        return self.prior or _given_prior(name.rpartition("/")[2], channels)


@lru_cache(maxsize=64)
def _given_prior(kind: str, channels: tuple[str, ...]) -> Prior:
    return Prior.equal(given_rules(channels, arithmetic=GIVEN.get(kind, {1: 0, -1: 0})))
