r"""Training: cross-entropy of the answers to chains, by Adam on batches of chains of one length.

The parameters start as Gaussian noise of variance 1, so that the learning rate means the same for all m, and are scaled
to the norm :math:`\sqrt{mD}` where they are used. All random numbers come from one generator, so a seed determines the
result, to the bit on a CPU with the same number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ghrr.checks import names_errors
from ghrr.relations.chains.examples import LengthGroup
from ghrr.relations.chains.products import log_probabilities, scale_to_unitary_norm
from ghrr.training import EarlyStopping


@names_errors
@dataclass(frozen=True)
class TrainingConfig:
    """Settings of the training.

    Parameters
    ----------
    epochs
        Passes over all chains; with validation data, at most.
    learning_rate
        Learning rate of Adam.
    scale
        Factor of the cosines in the softmax.
    batch_size
        Chains per step.
    patience
        Epochs without a lower validation loss after which training stops.

    Examples
    --------
    >>> from ghrr.relations.chains import RelationChains, TrainingConfig
    >>> RelationChains(epochs=30).config == TrainingConfig(epochs=30)
    True
    """

    epochs: int = 15
    learning_rate: float = 0.05
    scale: float = 7.4
    batch_size: int = 256
    patience: int = 3


@dataclass(frozen=True)
class ChainProgress:
    """State of the training after an epoch. The validation loss is None without validation data.

    Examples
    --------
    >>> from ghrr.relations.chains import RelationChains, kinship_rules
    >>> def show(progress):
    ...     print(f"epoch {progress.epoch} of {progress.epochs}: loss {progress.loss:.1f}")
    >>> _ = RelationChains(epochs=2).fit(kinship_rules(), calibrate=False, progress=show)
    epoch 1 of 2: loss 3.1
    epoch 2 of 2: loss 2.8
    """

    epoch: int
    epochs: int
    loss: float
    validation_loss: float | None


def train_vectors(
    groups: Sequence[LengthGroup],
    start: Tensor,
    config: TrainingConfig,
    *,
    generator: torch.Generator,
    validation: Sequence[LengthGroup] = (),
    progress: Callable[[ChainProgress], None] | None = None,
) -> Tensor:
    """Learn the hypervectors of the relations.

    Parameters
    ----------
    groups
        Chains and targets, grouped by length.
    start
        Parameters to start from, of variance 1, ``(relations, dim, m, m)``. They are not modified.
    config
        Settings.
    generator
        Source of the order of the batches.
    validation
        Chains for the loss after each epoch. Training stops early and keeps the model of the best epoch.
    progress
        Function to call after each epoch.

    Returns
    -------
    Tensor
        Hypervectors of norm √(mD), ``(relations, dim, m, m)``.
    """
    free = (torch.view_as_real(start) if start.is_complex() else start).clone().requires_grad_()
    optimizer = torch.optim.Adam([free], lr=config.learning_rate)

    def current() -> Tensor:
        return scale_to_unitary_norm(torch.view_as_complex(free) if start.is_complex() else free)

    stopping, kept = EarlyStopping(config.patience), torch.empty(0)
    for epoch in range(1, config.epochs + 1):
        total, count = 0.0, 0
        for chains, targets in _batches(groups, config.batch_size, generator):
            loss = _loss(current(), config.scale, chains, targets)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total, count = total + loss.item() * len(chains), count + len(chains)
        judged = None
        if validation:
            judged = _mean_loss(current().detach(), config.scale, validation)
            if stopping.is_better(judged):
                kept = current().detach()
        if progress is not None:
            progress(ChainProgress(epoch, config.epochs, total / count, judged))
        if stopping.is_over:
            break
    return kept if validation else current().detach()


def _loss(vectors: Tensor, scale: float, chains: Tensor, targets: Tensor) -> Tensor:
    return torch.nn.functional.nll_loss(log_probabilities(vectors, scale, chains), targets)


def _mean_loss(vectors: Tensor, scale: float, groups: Sequence[LengthGroup]) -> float:
    sums = [_loss(vectors, scale, group.chains, group.targets).item() * len(group.chains) for group in groups]
    return sum(sums) / sum(len(group.chains) for group in groups)


def _batches(groups: Sequence[LengthGroup], size: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield all chains once, in batches of one length, in random order."""
    batches = [
        (group, rows)
        for group in groups
        for rows in torch.split(torch.randperm(len(group.chains), generator=generator), size)
    ]
    for position in torch.randperm(len(batches), generator=generator).tolist():
        group, rows = batches[position]
        yield group.chains[rows], group.targets[rows]
