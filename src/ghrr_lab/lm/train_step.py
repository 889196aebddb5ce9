"""One training step: optimizer, learning-rate schedule, and the step itself."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ghrr_lab.lm.model import Model

Step = Callable[[Tensor, Tensor], Tensor]  # (inputs, targets) -> mean loss


def schedule(step: int, steps: int, warmup: int) -> float:
    """Return the factor of the learning rate at a step: linear warm-up, and a cosine that falls from 1 to 2 %.

    Examples
    --------
    >>> from ghrr_lab.lm.train_step import schedule
    >>> [round(schedule(step, 100, 10), 2) for step in (0, 9, 50, 99)]
    [0.1, 0.98, 0.51, 0.02]
    """
    cosine = 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / steps))
    return min(1.0, (step + 1) / warmup) * cosine if warmup else cosine


def make_optimizer(
    model: Model, *, learning_rate: float, weight_decay: float, betas: tuple[float, float]
) -> torch.optim.AdamW:
    """Return AdamW with weight decay for matrices only; embeddings, positions, taps, biases and scales have none."""
    decayed: list[nn.Parameter] = []
    not_decayed: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        exempt = parameter.ndim < 2 or name.startswith("embedding") or "positions" in name
        exempt = exempt or name.endswith(("taps", "log_scale", "bias"))
        (not_decayed if exempt else decayed).append(parameter)
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": not_decayed, "weight_decay": 0.0}]
    cuda = next(model.parameters()).is_cuda
    rate = torch.tensor(learning_rate, device="cuda") if cuda else learning_rate  # a CUDA graph reads it from a tensor
    return torch.optim.AdamW(groups, lr=rate, betas=betas, fused=cuda, capturable=cuda)


def make_step(
    forward: Callable[[Tensor, Tensor], Tensor],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    clip: float,
    bf16: bool,
    backward: Callable[[Tensor], None] = torch.autograd.backward,
) -> Step:
    """Return an eager step. ``forward`` returns the mean loss, and ``backward`` computes its gradients."""

    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(inputs.device.type, dtype=torch.bfloat16, enabled=bf16):
            loss = forward(inputs, targets)
        backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        return loss.detach()

    return step
