"""Baselines that learn from the same attributes: an answer-only classifier, an MLP and a small transformer.

All give each answer a score and are trained with the cross-entropy of the eight scores. The learning rate and the
number of epochs are chosen on the second half of the training part for one seed, then kept.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ghrr.reasoning import Entities, Matrices
from ghrr.reasoning.panels import Slots

KINDS = ("answers alone", "MLP", "transformer")
RATES = (5e-4, 2e-3)
EPOCHS = {"answers alone": 15, "MLP": 20, "transformer": 8}
WIDTH = {"answers alone": 128, "MLP": 256, "transformer": 32}
BATCH = 64


def features(matrices: Matrices) -> Tensor:
    """Return the attributes of all panels as numbers, ``(problems, 16, features)``."""
    found = []
    for attribute in matrices.attributes.values():
        if isinstance(attribute, Slots):
            found.append(attribute.presence)
        elif isinstance(attribute, Entities):
            found.append((attribute.presence[..., None] * attribute.values).flatten(2))
    return torch.cat(found, dim=2)


class Scorer(nn.Module):
    """Scores of the eight answers of problems ``(n, 16, features)``."""

    def __init__(self, kind: str, inputs: int) -> None:
        super().__init__()
        self.kind, width = kind, WIDTH[kind]
        if kind == "transformer":
            self.panel = nn.Linear(inputs, width)
            self.places = nn.Parameter(0.02 * torch.randn(9, width))
            layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.1, batch_first=True, norm_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.score: nn.Module = nn.Linear(width, 1)
        else:
            panels = 2 if kind == "answers alone" else 9
            layers = [nn.Linear(panels * inputs, width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, width), nn.ReLU()]
            self.score = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores, ``(n, 8)``."""
        answers = x[:, 8:]
        if self.kind == "answers alone":  # an answer and the mean of all answers
            both = torch.cat([answers, answers.mean(dim=1, keepdim=True).expand_as(answers)], dim=2)
            return torch.as_tensor(self.score(both)[..., 0])
        context = x[:, None, :8].expand(-1, 8, -1, -1)
        rows = torch.cat([context, answers[:, :, None]], dim=2)
        if self.kind == "MLP":
            return torch.as_tensor(self.score(rows.flatten(2))[..., 0])
        tokens = self.encoder((self.panel(rows) + self.places).flatten(0, 1))
        return torch.as_tensor(self.score(tokens.mean(dim=1)).view(len(x), 8))


def fit(
    kind: str,
    x: Tensor,
    targets: Tensor,
    *,
    rate: float,
    epochs: int,
    seed: int,
    held: tuple[Tensor, Tensor] | None = None,
) -> tuple[Scorer, list[float]]:
    """Train a network; also return its accuracy on held-out problems after every epoch."""
    accuracies = []
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Scorer(kind, x.shape[2])
        optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
        for _ in range(epochs):
            model.train()
            for rows in torch.split(torch.randperm(len(x)), BATCH):
                loss = nn.functional.cross_entropy(model(x[rows]), targets[rows])
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            if held is not None:
                accuracies.append(accuracy(model, *held))
    return model.eval(), accuracies


@torch.no_grad()
def accuracy(model: Scorer, x: Tensor, targets: Tensor) -> float:
    """Return the share of right answers."""
    return float((model.eval()(x).argmax(dim=1) == targets).float().mean())


def choose(kind: str, x: Tensor, targets: Tensor) -> dict[str, float]:
    """Choose the learning rate and the number of epochs on the second half of the training part."""
    half = len(x) // 2
    best = {"rate": RATES[0], "epochs": 1.0, "accuracy": -1.0}
    for rate in RATES:
        held = (x[half:], targets[half:])
        _, found = fit(kind, x[:half], targets[:half], rate=rate, epochs=EPOCHS[kind], seed=0, held=held)
        for epoch, value in enumerate(found, 1):
            if value > best["accuracy"]:
                best = {"rate": rate, "epochs": float(epoch), "accuracy": value}
    return best
