"""Posterior of rules, given the known panels; and the prior of rules, learnt from right answers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product

import torch
from torch import Tensor

from ghrr.checks import names_errors
from ghrr.reasoning.panels import LEAST
from ghrr.reasoning.rules import CHANNELS, NOISE, Expression, Rule, expressions
from ghrr.reasoning.scoring import EXCEPTION, Scores

__all__ = ["Evidence", "Posterior", "Prior", "learn_prior"]

NO_RULE = 0.01  # probability that an attribute has no rule, unless it is learnt
LEFT_TO_ALL = 0.01  # share of a learnt prior that all rules of a channel divide, so that none is impossible


@names_errors
@dataclass(frozen=True)
class Prior:
    """Prior probabilities of rules.

    Attributes
    ----------
    rules
        Log-probabilities of the rules within each channel, ``(first, middle, last)``.
    shares
        For each set of channels that an attribute has, the probabilities that its rule is in each of them, the first
        one of no rule. For other sets they are equal, with a hundredth for no rule.

    Examples
    --------
    >>> from ghrr.reasoning import Prior
    >>> len(Prior.short().most_probable("collection"))  # all of them are possible
    99
    """

    rules: Mapping[str, Tensor]
    shares: Mapping[tuple[str, ...], Sequence[float]] = field(default_factory=dict)

    @classmethod
    def equal(cls, rules: Iterable[Rule]) -> Prior:
        """Return equal probabilities of some rules."""
        tables: dict[str, Tensor] = {}
        for rule in rules:
            table = tables.setdefault(rule.channel, torch.full(_shape(rule.channel), -math.inf))
            table[_position(rule)] = 0.0
        sizes = {name: float(table.exp().sum()) for name, table in tables.items()}
        total = sum(sizes.values())
        shares = {tuple(tables): (NO_RULE, *((1 - NO_RULE) * size / total for size in sizes.values()))}
        return cls({name: table - math.log(sizes[name]) for name, table in tables.items()}, shares)

    @classmethod
    def short(cls, channels: Iterable[str] = CHANNELS) -> Prior:
        """Return probabilities of all rules of each channel that fall with their length."""
        return cls({name: _by_length(name) for name in channels})

    def pruned(self, least: float = 1e-3) -> Prior:
        """Return the prior without rules whose probability within their channel is below ``least``."""
        rules = {name: torch.where(table.exp() < least, -math.inf, table) for name, table in self.rules.items()}
        return Prior({name: table - table.flatten().logsumexp(dim=0) for name, table in rules.items()}, self.shares)

    def used(self, channel: str) -> list[dict[Expression, bool]]:
        """Return the expressions of each place, and which of them have rules with a probability."""
        some = self.rules[channel].isfinite()
        any_rule = some.any(2).any(1), some.any(2).any(0), some.any(1).any(0)
        return [dict(zip(k, u.tolist(), strict=True)) for k, u in zip(expressions(channel), any_rule, strict=True)]

    def shares_of(self, channels: tuple[str, ...]) -> Sequence[float]:
        """Return the probabilities of no rule and of each channel."""
        return self.shares.get(channels, (NO_RULE, *[(1 - NO_RULE) / len(channels)] * len(channels)))

    def most_probable(self, channel: str, least: float = 0.0) -> dict[Rule, float]:
        """Return the rules with a probability of at least ``least`` within the channel, highest first."""
        table = self.rules[channel].flatten().exp()
        every = list(product(*expressions(channel)))
        order = table.argsort(descending=True, stable=True).tolist()
        return {Rule(channel, *every[i]): float(table[i]) for i in order if table[i] > least}


def _shape(channel: str) -> tuple[int, ...]:
    return tuple(len(kinds) for kinds in expressions(channel))


@cache
def _by_length(channel: str) -> Tensor:
    first, middle, last = (torch.tensor([float(e.length) for e in kinds]) for kinds in expressions(channel))
    table = -math.log(2) * (first[:, None, None] + middle[:, None] + last)
    table[0, 0, 0] = -math.inf  # no rule
    return table - table.flatten().logsumexp(dim=0)


def _transferred(rules: Mapping[str, Tensor], channel: str) -> Tensor:
    """Return a prior for a channel that no attribute has: half by length, half the same expressions of values."""
    known = [list(kinds) for kinds in expressions("value")]
    chosen = [
        torch.tensor([kinds.index(e) if e in kinds else -1 for e in own])
        for kinds, own in zip(known, expressions(channel), strict=True)
    ]
    table = rules["value"].exp()
    for axis, places in enumerate(chosen):
        table = torch.where(
            (places >= 0).view([-1 if i == axis else 1 for i in range(3)]),
            table.index_select(axis, places.clamp_min(0)),
            0.0,
        )
    return (0.5 * table / table.sum().clamp_min(LEAST) + 0.5 * _by_length(channel).exp()).log()


def _position(rule: Rule) -> tuple[int, ...]:
    places = zip(expressions(rule.channel), (rule.first, rule.middle, rule.last), strict=True)
    return tuple(kinds.index(expression) for kinds, expression in places)


@dataclass(frozen=True)
class Evidence:
    """Scores of one attribute of a batch.

    Attributes
    ----------
    scores
        One per channel.
    noise
        Log-probability of the known panels without any rule, ``(batch,)``.
    chance
        Probability of an answer that no rule predicts.
    """

    scores: list[Scores]
    noise: Tensor
    chance: float

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the channels."""
        return tuple(score.channel for score in self.scores)

    def answered(self, targets: Tensor) -> Evidence:
        """Return the evidence with the right answer as a known panel."""
        rows = torch.arange(len(targets))
        scores = [
            replace(score, last=score.last + self._likely(score.answers[rows, targets]).log()) for score in self.scores
        ]
        return Evidence(scores, self.noise + math.log(self.chance), self.chance)

    def _likely(self, agreement: Tensor) -> Tensor:
        """Return probabilities of answers; the first expression is free."""
        likely = (1 - EXCEPTION) * agreement + EXCEPTION * self.chance
        likely[..., 0] = self.chance
        return likely

    def joint(self, prior: Prior) -> list[Tensor]:
        """Return log P(rule, known panels): of no rule ``(batch, 1, 1, 1)``, then of each channel by places."""
        shares = [math.log(max(share, LEAST)) for share in prior.shares_of(self.names)]
        found = [self.noise[:, None, None, None] + shares[0]]
        for score, share in zip(self.scores, shares[1:], strict=True):
            rules = score.first[:, :, None, None] + score.middle[:, None, :, None] + score.last[:, None, None, :]
            found.append(rules + (prior.rules[score.channel] + share))
        return found

    def posterior(self, prior: Prior) -> Posterior:
        """Return the posterior of the rules."""
        joint = self.joint(prior)
        total = torch.logsumexp(torch.cat([part.flatten(1) for part in joint], dim=1), dim=1)
        return Posterior(self, [(part - total[:, None, None, None]).exp() for part in joint])


@dataclass(frozen=True)
class Posterior:
    """Probabilities of the rules: of no rule, ``(batch, 1, 1, 1)``, and of each channel, ``(batch, places...)``."""

    evidence: Evidence
    probabilities: list[Tensor]

    def answers(self) -> Tensor:
        """Return the probability of each answer, ``(batch, answers)``."""
        no_rule, *channels = self.probabilities
        found = no_rule.flatten(1) * self.evidence.chance
        for probability, score in zip(channels, self.evidence.scores, strict=True):
            likely = self.evidence._likely(score.answers)
            found = found + (likely @ probability.sum(dim=(1, 2))[..., None])[..., 0]
        return found

    def rules(self, index: int, k: int = 20) -> list[tuple[Rule, float]]:
        """Return the k most probable rules of one matrix and their probabilities, of equal ones the shortest first."""
        flat = torch.cat([part[index].flatten() for part in self.probabilities])
        best = flat.topk(min(max(k, 10), len(flat)))
        every = [NOISE, *(Rule(n, *places) for n in self.evidence.names for places in product(*expressions(n)))]
        found = [(every[i], p) for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)]
        return sorted(found, key=lambda pair: (-round(pair[1], 4), pair[0].length))[:k]

    def right_answer(self) -> Tensor:
        """Return the expected probability of an answer that fits what the rules predict, ``(batch,)``."""
        no_rule, *channels = self.probabilities
        found = no_rule.flatten() * self.evidence.chance
        for probability, score in zip(channels, self.evidence.scores, strict=True):
            found = found + (self.evidence._likely(score.expected) * probability.sum(dim=(1, 2))).sum(dim=1)
        return found


def learn_prior(evidence: Sequence[Evidence], rounds: int) -> Prior:
    """Learn the prior that maximises the probability of completed matrices, by expectation maximisation.

    The prior of a rule is the share of the attributes that it explains. All attributes share the probabilities of the
    rules within a channel; those with the same channels share the probabilities of the channels. It starts with
    :meth:`Prior.short`, so that among rules that explain the same the short ones win.
    """
    prior = Prior.short()
    for _ in range(rounds):
        counts: dict[str, Tensor] = {}
        shares: dict[tuple[str, ...], Tensor] = {}
        for one in evidence:
            found = [probability.sum(dim=0) for probability in one.posterior(prior).probabilities]
            shares[one.names] = shares.get(one.names, 0) + torch.stack([part.sum() for part in found])
            for name, count in zip(one.names, found[1:], strict=True):
                counts[name] = counts.get(name, 0) + count
        rules = dict(prior.rules)
        for name, count in counts.items():
            learnt = count / count.sum().clamp_min(LEAST)
            rules[name] = ((1 - LEFT_TO_ALL) * learnt + LEFT_TO_ALL * _by_length(name).exp()).log()
        for name in set(prior.rules) - set(counts):
            rules[name] = _transferred(rules, name)
        floor = {names: share + 1 for names, share in shares.items()}
        prior = Prior(rules, {names: (share / share.sum()).tolist() for names, share in floor.items()})
    return prior
