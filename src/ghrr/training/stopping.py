"""Early stopping."""

from __future__ import annotations

import math


class EarlyStopping:
    """Count the evaluations since the best one.

    Parameters
    ----------
    patience
        Number of evaluations without a lower loss after which :attr:`is_over` is true.

    Attributes
    ----------
    best
        Lowest loss so far.
    since
        Evaluations since then.

    Examples
    --------
    >>> from ghrr.training import EarlyStopping
    >>> stopping = EarlyStopping(patience=2)
    >>> [stopping.is_better(loss) for loss in (3.0, 2.0, 2.5, 2.2)], stopping.is_over
    ([True, True, False, False], True)
    """

    def __init__(self, patience: int) -> None:
        self.patience, self.best, self.since = patience, math.inf, 0

    def is_better(self, loss: float) -> bool:
        """Take the loss of an evaluation, and return whether it is the lowest so far."""
        self.since += 1
        if loss < self.best:
            self.best, self.since = loss, 0
        return not self.since

    @property
    def is_over(self) -> bool:
        """Whether the training should stop."""
        return self.since >= self.patience
