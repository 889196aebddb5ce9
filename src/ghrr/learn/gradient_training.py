r"""Training in batches by Adam: logistic regression for classes, least squares for numbers.

The scores of a sample are :math:`W^\top z + b`. Memory is linear in the number of features, unlike in
:mod:`ghrr.learn.ridge`. Sums are in double precision: a weight of 2 then equals a duplicated sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from ghrr.training import EarlyStopping

Loss = Callable[[Tensor, Tensor], Tensor]  # from scores (n, outputs) and goals to losses (n,)
GoalBatch = tuple[Tensor, Tensor, Tensor]  # features (n, f), labels (n,) or targets (n, outputs), sample weights (n,)


def cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the negative logarithm of the softmax of the true class."""
    return torch.nn.functional.cross_entropy(scores, labels, reduction="none")


def squared_error(scores: Tensor, targets: Tensor) -> Tensor:
    """Return the squared distance of scores and targets."""
    return (scores - targets).square().sum(dim=1)


class GradientTraining:
    """State of the training: W, b and the optimiser.

    Parameters
    ----------
    weights, intercept
        Start values, ``(f, outputs)`` and ``(outputs,)``. They are copied.
    loss
        :func:`cross_entropy` or :func:`squared_error`.
    rate
        Learning rate of Adam, relative to the root mean square of the start weights, if they are not all 0.
    center
        Vector ``(f,)`` that is subtracted from the features. The steps are poor if their mean is large against their
        differences.

    Attributes
    ----------
    weights, intercept
        Present values; those for features from which nothing is subtracted are returned by :meth:`solution`.

    Examples
    --------
    >>> import torch
    >>> from ghrr.learn.gradient_training import GradientTraining, squared_error
    >>> x = torch.tensor([[0.0], [1.0], [2.0]])
    >>> training = GradientTraining(torch.zeros(1, 1), torch.zeros(1), squared_error, rate=0.1)
    >>> losses = [training.epoch([(x, 3 * x + 1, torch.ones(3))]) for _ in range(500)]
    >>> f"{losses[-1]:.3f} {training.weights.item():.2f} {training.intercept.item():.2f}"
    '0.000 3.00 1.00'
    """

    def __init__(
        self, weights: Tensor, intercept: Tensor, loss: Loss, *, rate: float, center: Tensor | None = None
    ) -> None:
        weights, self.center = weights.double(), center
        self.weights = weights.clone().requires_grad_()
        moved = intercept.double() if center is None else intercept.double() + center @ weights
        self.intercept = moved.clone().requires_grad_()
        self.loss = loss
        size = float(self.weights.detach().square().mean().sqrt()) or 1.0
        self.optimizer = torch.optim.Adam([self.weights, self.intercept], lr=rate * size)

    def scores(self, features: Tensor) -> Tensor:
        """Return the scores of all classes or targets, ``(n, outputs)``."""
        centred = features if self.center is None else features - self.center
        return torch.addmm(self.intercept, centred, self.weights)

    def solution(self) -> tuple[Tensor, Tensor]:
        """Return weights and intercept for features from which nothing is subtracted."""
        weights, intercept = self.weights.detach(), self.intercept.detach()
        return weights, intercept if self.center is None else intercept - self.center @ weights

    def epoch(self, batches: Iterable[GoalBatch]) -> float:
        """Make one step per batch; return the mean loss."""
        total, count = 0.0, 0.0
        for features, goals, weights in batches:
            sums = (self.loss(self.scores(features.double()), goals) * weights.double()).sum()
            self.optimizer.zero_grad()
            (sums / weights.sum().clamp(min=1e-12)).backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            total, count = total + float(sums.detach()), count + float(weights.sum())
        return total / max(count, 1e-12)

    def mean_loss(self, batches: Iterable[GoalBatch]) -> float:
        """Return the mean loss without training."""
        total, count = 0.0, 0.0
        with torch.no_grad():
            for features, goals, weights in batches:
                losses = self.loss(self.scores(features.double()), goals)
                total, count = total + float((losses * weights.double()).sum()), count + float(weights.sum())
        return total / max(count, 1e-12)


def train_with_early_stopping(
    training: GradientTraining,
    batches: Callable[[], Iterable[GoalBatch]],
    validation: Callable[[], Iterable[GoalBatch]] | None,
    *,
    epochs: int,
    patience: int,
) -> Iterator[tuple[int, float, float | None]]:
    """Train and yield ``(epoch, loss, validation loss)``; with validation data, keep the best weights at the end.

    Stops after ``patience`` epochs without a lower validation loss.
    """
    stopping, kept = EarlyStopping(patience), None
    for epoch in range(1, epochs + 1):
        loss = training.epoch(batches())
        judged = None if validation is None else training.mean_loss(validation())
        if judged is not None and stopping.is_better(judged):
            kept = (training.weights.detach().clone(), training.intercept.detach().clone())
        yield epoch, loss, judged
        if stopping.is_over:
            break
    if kept is not None:
        with torch.no_grad():
            training.weights.copy_(kept[0])
            training.intercept.copy_(kept[1])
