"""Chains held out of training, to calibrate the probabilities of answers.

A fifth of the different training chains is held out, and a second set of hypervectors is learned from the others. The
held-out chains are made longer with the two-step training chains as rules, because most questions are about long
chains. Their charts are scored with the second set. The same chains without their correct answer stand for chains that
have no name: whatever is then the best answer is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from ghrr.relations.chains.calibration import chart_features, fit_logistic
from ghrr.relations.chains.chart import IMPOSSIBLE
from ghrr.relations.chains.composer import Composer
from ghrr.relations.chains.examples import LengthGroup
from ghrr.relations.chains.lengthening import lengthen_chains

_SHARE = 5  # one in five different chains is held out
_LENGTHS = range(2, 11)
_ENOUGH = 20  # answers needed to fit a calibration
_NAMELESS = 0.1  # expected share of chains without a name
NO_CALIBRATION = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)  # a softmax over the two best relations


def fit_calibration(
    groups: Sequence[LengthGroup], train: Callable[[Sequence[LengthGroup]], Composer], *, seed: int
) -> Tensor:
    """Return the weights of :func:`~ghrr.relations.chains.calibration.fit_logistic` for the scores of a chart.

    Parameters
    ----------
    groups
        All training chains.
    train
        Learns from a part of them.
    seed
        Seed of the choice of chains.
    """
    generator = torch.Generator().manual_seed(seed)
    kept, aside = hold_out(groups, generator)
    if not kept or sum(len(targets) for _, targets in aside) < _ENOUGH:
        return NO_CALIBRATION
    composer = train(kept)
    features, correct, nameless = [], [], []
    for chains, targets in aside:
        scores, weakest = composer.chart_scores(chains), composer.weakest_steps(chains)
        features.append(chart_features(scores, weakest))
        correct.append(scores.argmax(dim=1) == targets)
        nameless.append(chart_features(scores.scatter(1, targets[:, None], 2 * IMPOSSIBLE), weakest))
    answers = torch.cat(correct)
    counts = torch.ones(2 * len(answers), dtype=torch.float64)
    counts[len(answers) :] = _NAMELESS / (1 - _NAMELESS)
    return fit_logistic(
        torch.cat([*features, *nameless]), torch.cat([answers, answers.new_zeros(len(answers))]), counts
    )


def hold_out(
    groups: Sequence[LengthGroup], generator: torch.Generator
) -> tuple[list[LengthGroup], list[tuple[Tensor, Tensor]]]:
    """Return the chains to train on, and the held-out ones with their targets: as they are, and lengthened."""
    split = [_split(group, generator) for group in groups]
    kept = [group for group, _ in split if len(group.chains)]
    aside = [group for _, group in split if len(group.chains)]
    return kept, list(_lengthened(aside, _rules(groups), generator))


def _split(group: LengthGroup, generator: torch.Generator) -> tuple[LengthGroup, LengthGroup]:
    """Return the examples to train on, and one example of each chain to hold out."""
    different, which = torch.unique(group.chains, dim=0, return_inverse=True)
    is_aside = torch.zeros(len(different), dtype=torch.bool)
    is_aside[torch.randperm(len(different), generator=generator)[: len(different) // _SHARE]] = True
    rows = torch.arange(len(which))
    first = torch.full((len(different),), len(which)).scatter_reduce(0, which, rows, "amin")
    kept, aside = rows[~is_aside[which]], first[is_aside]
    return _take(group, kept), _take(group, aside)


def _take(group: LengthGroup, rows: Tensor) -> LengthGroup:
    return LengthGroup(*(column[rows] for column in group))


def _rules(groups: Sequence[LengthGroup]) -> Tensor:
    """Return the most frequent target of every two-step chain, as rows a, b, c."""
    counts: dict[tuple[int, ...], Counter[int]] = {}
    for group in groups:
        if group.chains.shape[1] == 2:
            for chain, target in zip(group.chains.tolist(), group.targets.tolist(), strict=True):
                counts.setdefault(tuple(chain), Counter())[target] += 1
    rows = [[*chain, found.most_common(1)[0][0]] for chain, found in sorted(counts.items())]
    return torch.tensor(rows, dtype=torch.int64).view(-1, 3)


def _lengthened(
    groups: Sequence[LengthGroup], rules: Tensor, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the chains as they are and, if there are rules, lengthened to each of several lengths."""
    for group in groups:
        yield group.chains, group.targets
        for length in _LENGTHS:
            if length > group.chains.shape[1] and len(rules):
                chains = lengthen_chains(group.chains, rules, length, generator=generator)
                grown = chains[:, 0] >= 0
                if grown.any():
                    yield chains[grown], group.targets[grown]
