"""One step of training: forward, backward, clipping, update; as it is, or recorded once and replayed on a GPU."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ghrr.lm.model import Model

Step = Callable[[Tensor, Tensor, float | None], Tensor]  # inputs, targets, learning rate (None: as it is) -> mean loss


def make_optimizer(
    model: Model, *, learning_rate: float, weight_decay: float, betas: tuple[float, float]
) -> torch.optim.AdamW:
    """AdamW; what has two axes or more is decayed, but not embeddings, positions, taps, biases and scales."""
    decayed: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        small = parameter.ndim < 2 or name.startswith("embedding") or "positions" in name
        (others if small or name.endswith(("taps", "log_scale", "bias")) else decayed).append(parameter)
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    cuda = next(model.parameters()).is_cuda
    rate = torch.tensor(learning_rate, device="cuda") if cuda else learning_rate  # a tensor can change in a recording
    return torch.optim.AdamW(groups, lr=rate, betas=betas, fused=cuda, capturable=cuda)


def make_step(
    forward: Callable[[Tensor, Tensor], Tensor],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    clip: float,
    bf16: bool,
    backward: Callable[[Tensor], None] | None = None,
) -> Step:
    """A step that runs as it is. ``forward`` gives the mean loss; ``backward`` stands in for ``loss.backward()``."""

    def step(inputs: Tensor, targets: Tensor, learning_rate: float | None) -> Tensor:
        _set_learning_rate(optimizer, learning_rate)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(inputs.device.type, dtype=torch.bfloat16, enabled=bf16):
            loss = forward(inputs, targets)
        (torch.autograd.backward if backward is None else backward)(loss)
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        return loss.detach()

    return step


def record_step(step: Step, model: nn.Module, optimizer: torch.optim.Optimizer, shape: tuple[int, int]) -> Step:
    """The same step as a CUDA graph: small models then wait for the GPU and not for Python (5 times faster and more).

    Recording needs a few trial steps; what they change is put back.
    """
    inputs, targets = torch.zeros(2, *shape, dtype=torch.long, device="cuda").unbind()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    kept = {key: {k: v.clone() for k, v in s.items()} for key, s in optimizer.state.items()}
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step(inputs, targets, None)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(inputs, targets, None)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            tensor.copy_(before[name])
        for key, state in optimizer.state.items():
            for k, tensor in state.items():
                tensor.copy_(kept[key][k]) if key in kept else tensor.zero_()

    def replay(new_inputs: Tensor, new_targets: Tensor, learning_rate: float | None) -> Tensor:
        inputs.copy_(new_inputs)
        targets.copy_(new_targets)
        _set_learning_rate(optimizer, learning_rate)
        graph.replay()
        return loss

    return replay


def _set_learning_rate(optimizer: torch.optim.Optimizer, rate: float | None) -> None:
    if rate is None:
        return
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
