"""Tensors of checkpoints."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ghrr.training import checkpoint_tensors, restore_module, restore_optimizer

OPTIMIZERS = [torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad]


def trained(kind: type[torch.optim.Optimizer], steps: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = kind(model.parameters(), lr=0.1)  # type: ignore[call-arg]
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(4, 3)).square().sum().backward()
        optimizer.step()
    return model, optimizer


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_restored_training_goes_on_identically(kind: type[torch.optim.Optimizer]) -> None:
    model, optimizer = trained(kind, 2)
    tensors = {name: tensor.clone() for name, tensor in checkpoint_tensors({"model": model}, optimizer).items()}
    model, optimizer = trained(kind, 0)
    restore_module(model, tensors, "model")
    restore_optimizer(optimizer, tensors)
    optimizer.zero_grad()
    model(torch.ones(4, 3)).square().sum().backward()
    optimizer.step()
    expected = trained(kind, 3)[0].state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in model.state_dict().items())


def test_tensors_of_another_model_are_refused_and_change_nothing() -> None:
    model = nn.Linear(3, 2)
    before = model.weight.clone()
    for tensors in ({"weight": torch.zeros(3, 2), "bias": torch.zeros(2)}, {"weight": torch.zeros(2, 3)}, {}):
        with pytest.raises(ValueError, match="the checkpoint does not fit this model: "):
            restore_module(model, tensors)
    double = {"weight": torch.zeros(2, 3).double(), "bias": torch.zeros(2)}
    with pytest.raises(ValueError, match=r"weight is \(2, 3\) torch.float64 in the checkpoint"):
        restore_module(model, double)
    assert torch.equal(model.weight, before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"optimizer.7.step": torch.tensor(1.0)}, "it has no state 'optimizer.7.step'"),
        ({"optimizer.0.other": torch.zeros(2, 3)}, "it has no state 'optimizer.0.other'"),
        ({"optimizer.0.exp_avg": torch.zeros(1)}, r"optimizer.0.exp_avg is \(1,\), expected \(2, 3\)"),
        ({"optimizer.0.exp_avg": None}, "the state of parameter 0 is incomplete"),
    ],
)
def test_state_of_another_optimizer_is_refused(change: dict[str, torch.Tensor | None], message: str) -> None:
    model, optimizer = trained(torch.optim.Adam, 1)
    changed = {**checkpoint_tensors({"model": model}, optimizer), **change}
    with pytest.raises(ValueError, match=message):
        restore_optimizer(optimizer, {name: tensor for name, tensor in changed.items() if tensor is not None})
