"""Baselines of ``relations/chains.py``: a table counted from the training chains, and an LSTM of equal size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ghrr.relations.chains import fill_chart
from ghrr.relations.chains.chart import chunks
from ghrr.relations.chains.examples import LengthGroup
from ghrr.relations.chains.held_out import hold_out

ADDED = 1e-3  # to every count
WIDTH = 32  # of the LSTM
RATES = (0.003, 0.01, 0.03, 0.1)  # learning rates among which the LSTM's is chosen
EPOCHS = (15, 30, 60)
Scores = Callable[[Tensor], Tensor]  # chains (n, length) to scores (n, relations)


def chart_scores(table: Tensor, direct: Scores | None = None, longest: int = 0) -> Scores:
    """Return the scores of the chart with a table of pairs and, up to a length, of spans that are read directly."""

    def scores(chains: Tensor) -> Tensor:
        answers = []
        for part in chunks(chains, len(table)):
            read = {}
            for width in range(3, min(longest, part.shape[1]) + 1):
                spans = part.unfold(1, width, 1)
                assert direct is not None
                read[width] = direct(spans.flatten(0, 1)).view(*spans.shape[:2], -1)
            answers.append(fill_chart(part, table, read).answers)
        return torch.cat(answers)

    return scores


class CountedChains:
    """Log-probabilities of targets, counted from the training chains; the same for all relations if unseen."""

    def __init__(self, groups: Sequence[LengthGroup], relations: int) -> None:
        self.relations = relations
        self.counts: dict[tuple[int, ...], Tensor] = {}
        for group in groups:
            for chain, target in zip(group.chains.tolist(), group.targets.tolist(), strict=True):
                self.counts.setdefault(tuple(chain), torch.full((relations,), ADDED))[target] += 1

    def __call__(self, chains: Tensor) -> Tensor:
        """Return the log-probabilities of all relations."""
        unseen = torch.full((self.relations,), ADDED)
        counts = torch.stack([self.counts.get(tuple(chain), unseen) for chain in chains.tolist()])
        return torch.log(counts / counts.sum(dim=1, keepdim=True))


def pair_table(scores: Scores, relations: int) -> Tensor:
    """Return the log-probabilities of all two-step chains, ``(relations, relations, relations)``."""
    every = torch.arange(relations)
    return scores(torch.cartesian_prod(every, every)).view(relations, relations, -1)


class ChainLSTM(torch.nn.Module):
    """LSTM over the relations of a chain, with a linear read-out of its last state."""

    def __init__(self, relations: int, width: int) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(relations, width)
        self.lstm = torch.nn.LSTM(width, width, batch_first=True)
        self.readout = torch.nn.Linear(width, relations)

    def forward(self, chains: Tensor) -> Tensor:
        """Return the log-probabilities of all relations."""
        states, _ = self.lstm(self.embedding(chains))
        return torch.log_softmax(self.readout(states[:, -1]), dim=1)


def train_lstm(
    groups: Sequence[LengthGroup], relations: int, *, epochs: int, rate: float, seed: int
) -> tuple[ChainLSTM, int]:
    """Train an LSTM with Adam on batches of 256 chains of one length; return it and its number of parameters."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = ChainLSTM(relations, WIDTH)
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        for _ in range(epochs):
            batches = [
                (group, rows) for group in groups for rows in torch.split(torch.randperm(len(group.chains)), 256)
            ]
            for position in torch.randperm(len(batches)).tolist():
                group, rows = batches[position]
                loss = torch.nn.functional.nll_loss(model(group.chains[rows]), group.targets[rows])
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
    return model.requires_grad_(False), sum(parameter.numel() for parameter in model.parameters())


def tune_lstm(groups: Sequence[LengthGroup], relations: int) -> list[dict[str, Any]]:
    """Measure all learning rates and numbers of epochs on training chains that are held out and lengthened.

    Returns
    -------
    list
        For each setting the share of correct answers of the LSTM alone, and of the chart over its pairs.
    """
    kept, aside = hold_out(groups, torch.Generator().manual_seed(0))
    total = sum(len(targets) for _, targets in aside)
    found = []
    for rate in RATES:
        for epochs in EPOCHS:
            model, _ = train_lstm(kept, relations, epochs=epochs, rate=rate, seed=0)
            methods: dict[str, Scores] = {"alone": model, "chart of pairs": chart_scores(pair_table(model, relations))}
            correct = {
                name: sum(int((scores(chains).argmax(dim=1) == targets).sum()) for chains, targets in aside)
                for name, scores in methods.items()
            }
            found.append({"rate": rate, "epochs": epochs, **{name: n / total for name, n in correct.items()}})
    return found
