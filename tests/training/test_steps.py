"""Recorded steps, precision and early stopping."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ghrr.training import EarlyStopping, replay_as_graph, set_learning_rate, tf32_products
from ghrr.training.steps import PLAIN_STEPS


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_replayed_steps_equal_plain_steps() -> None:
    def losses(replay: bool) -> Tensor:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1)).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(0.1, device="cuda"), capturable=True)

        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            detached: Tensor = loss.detach()
            return detached

        run = replay_as_graph(step, lead=16) if replay else step
        found = []
        for number in range(3 * PLAIN_STEPS):
            torch.manual_seed(number)
            set_learning_rate(optimizer, 0.1 / (1 + number))
            found.append(run(torch.randn(16 if number % 4 else 5, 8, device="cuda")))
        return torch.stack(found)

    assert torch.equal(losses(replay=True), losses(replay=False))


def test_precision_of_products_is_restored() -> None:
    before = torch.get_float32_matmul_precision()
    with tf32_products(torch.device("cpu")):
        torch.set_float32_matmul_precision("medium")
    assert torch.get_float32_matmul_precision() == before


def test_early_stopping_counts_from_the_best_loss() -> None:
    stopping = EarlyStopping(patience=2)
    assert [stopping.is_better(loss) for loss in (2.0, 3.0, 1.0, 1.0)] == [True, False, True, False]
    assert (stopping.since, stopping.is_over) == (1, False)
    assert not stopping.is_better(float("nan"))
    assert (stopping.since, stopping.is_over, stopping.best) == (2, True, 1.0)
