"""Composer: compose chains of relations, given as indices, with learned hypervectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from ghrr.relations.chains.chart import Chart, chunks, compose_left_to_right, fill_chart, find_step
from ghrr.relations.chains.derivation import Derivation
from ghrr.relations.chains.products import composition_table, log_probabilities


class Answers(NamedTuple):
    """Scores of all relations for each chain, ``(n, relations)``, and the derivation of the best one."""

    scores: Tensor
    derivations: list[Derivation]


@dataclass(frozen=True)
class Composer:
    """Learned hypervectors, and how they compose chains of one length.

    Parameters
    ----------
    vectors
        Hypervectors of the relations, of norm √(mD), ``(relations, dim, m, m)``.
    scale
        Factor of the cosines in the softmax.
    longest
        Width of the longest span that is also read as one product: the length of the longest training chain, because
        products of that many factors were trained.
    """

    vectors: Tensor
    scale: float
    longest: int

    @cached_property
    def table(self) -> Tensor:
        """Log-probability that relations a and b compose to c, ``(relations, relations, relations)``."""
        return composition_table(self.vectors, self.scale)

    def product_scores(self, chains: Tensor) -> Tensor:
        """Return the log-probabilities of all relations, from one product per chain, without clean-up."""
        return log_probabilities(self.vectors, self.scale, chains)

    def chart_scores(self, chains: Tensor) -> Tensor:
        """Return the score of the best derivation of every relation; see :mod:`ghrr.relations.chains.chart`."""
        return torch.cat([self._chart(part).answers for part in chunks(chains, len(self.vectors))])

    def weakest_steps(self, chains: Tensor) -> Tensor:
        """Return how probable all steps to every relation can be: the largest lower bound of their log-probabilities.

        A small bound means that every derivation needs an intermediate relation that has no name.
        """
        parts = chunks(chains, len(self.vectors))
        return torch.cat([self._chart(part, combine=torch.minimum).answers for part in parts])

    def left_to_right(self, chains: Tensor) -> Tensor:
        """Return the answers with clean-up after each step, from the first relation to the last, ``(n,)``."""
        return compose_left_to_right(chains, self.table)

    def compose(self, chains: Tensor, names: Sequence[str]) -> Answers:
        """Return the scores of the chart, and the derivation of the best relation of each chain."""
        scores, derivations = [], []
        for part in chunks(chains, len(self.vectors)):
            chart = self._chart(part)
            scores.append(chart.answers)
            best = chart.answers.argsort(dim=1, descending=True, stable=True)[:, 0].tolist()
            derivations += [_derive(chart, part, row, names, relation) for row, relation in enumerate(best)]
        return Answers(torch.cat(scores), derivations)

    def _chart(self, chains: Tensor, combine: Callable[[Tensor, Tensor], Tensor] = torch.add) -> Chart:
        direct = {}
        for width in range(3, min(self.longest, chains.shape[1]) + 1):  # pairs are in the table
            spans = chains.unfold(1, width, 1)
            direct[width] = self.product_scores(spans.flatten(0, 1)).view(*spans.shape[:2], -1)
        return fill_chart(chains, self.table, direct, combine)


def _derive(chart: Chart, chains: Tensor, row: int, names: Sequence[str], relation: int) -> Derivation:
    """Return the best derivation of a relation from a chain."""

    def derive(start: int, width: int, relation: int) -> Derivation:
        if width == 1:
            return Derivation(names[relation])
        step = find_step(chart, row, (start, width), relation)
        relations = step.relations or chains[row, start : start + width].tolist()
        parts = []
        for part_width, part in zip(step.widths, relations, strict=True):
            parts.append(derive(start, part_width, part))
            start += part_width
        return Derivation(names[relation], tuple(parts), math.exp(step.score))

    return derive(0, chains.shape[1], relation)
