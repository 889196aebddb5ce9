r"""Refined training: multinomial logistic regression on batches of features, by Adam.

The scores of a sample are :math:`W^\top z + b`, and the loss is the cross-entropy of their softmax. Features are made
again in every epoch instead of being stored. Training starts from a given W, such as that of a ridge regression, so a
few epochs are enough. Sums are in double precision: a weight of 2 then equals a sample that is there twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

LabelledBatch = tuple[Tensor, Tensor, Tensor]  # features (n, f), labels (n,), sample weights (n,)


class SoftmaxTraining:
    """State of the training: W, b and the optimiser.

    Parameters
    ----------
    weights, intercept
        Start values, ``(f, classes)`` and ``(classes,)``. They are copied.
    rate
        Learning rate of Adam, relative to the root mean square of the start weights.
    decay
        Decoupled weight decay (AdamW).
    """

    def __init__(self, weights: Tensor, intercept: Tensor, *, rate: float, decay: float) -> None:
        self.weights = weights.double().clone().requires_grad_()
        self.intercept = intercept.double().clone().requires_grad_()
        size = float(self.weights.detach().square().mean().sqrt()) or 1.0
        self.optimizer = torch.optim.AdamW([self.weights, self.intercept], lr=rate * size, weight_decay=decay)

    def scores(self, features: Tensor) -> Tensor:
        """Return the scores of all classes, ``(n, classes)``."""
        return torch.addmm(self.intercept, features, self.weights)

    def epoch(self, batches: Iterable[LabelledBatch]) -> float:
        """Make one step per batch; return the mean loss."""
        total, count = 0.0, 0.0
        for features, labels, weights in batches:
            loss = torch.nn.functional.cross_entropy(self.scores(features.double()), labels, reduction="none")
            sums = (loss * weights.double()).sum()
            self.optimizer.zero_grad()
            (sums / weights.sum().clamp(min=1e-12)).backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            total, count = total + float(sums.detach()), count + float(weights.sum())
        return total / max(count, 1e-12)

    def loss(self, batches: Iterable[LabelledBatch]) -> float:
        """Return the mean loss without training."""
        total, count = 0.0, 0.0
        with torch.no_grad():
            for features, labels, weights in batches:
                loss = torch.nn.functional.cross_entropy(self.scores(features.double()), labels, reduction="none")
                total, count = total + float((loss * weights.double()).sum()), count + float(weights.sum())
        return total / max(count, 1e-12)


def train_with_early_stopping(
    training: SoftmaxTraining,
    batches: Callable[[], Iterable[LabelledBatch]],
    validation: Callable[[], Iterable[LabelledBatch]] | None,
    *,
    epochs: int,
    patience: int,
) -> Iterator[tuple[int, float, float | None]]:
    """Train and yield ``(epoch, loss, validation loss)``; with validation data, keep the best weights at the end.

    Stops after ``patience`` epochs without a lower validation loss.
    """
    best, kept, since = float("inf"), None, 0
    for epoch in range(1, epochs + 1):
        loss = training.epoch(batches())
        judged = None if validation is None else training.loss(validation())
        if judged is not None:
            since += 1
            if judged < best:
                best, since = judged, 0
                kept = (training.weights.detach().clone(), training.intercept.detach().clone())
        yield epoch, loss, judged
        if since >= patience:
            break
    if kept is not None:
        with torch.no_grad():
            training.weights.copy_(kept[0])
            training.intercept.copy_(kept[1])
