"""Training steps on a GPU: recorded as a CUDA graph, and with products in TF32."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

PLAIN_STEPS = 3  # before a step is recorded: they compile kernels and make the state of the optimiser


def replay_as_graph(step: Callable[..., Tensor], *, lead: int) -> Callable[..., Tensor]:
    """Return a step that records its kernels as a CUDA graph and replays them.

    A small model spends most of the time of a step on launching its kernels one by one. The first steps run as they
    are, on a stream of their own, as PyTorch asks for before recording. Batches of another size are not recorded.

    Parameters
    ----------
    step
        Function of tensors that returns a loss. It makes the same kernel launches for every batch of this size, and
        reads all that changes between calls from tensors.
    lead
        Length of the first tensor in the batches to record.
    """
    graph: torch.cuda.CUDAGraph | None = None
    stream: torch.cuda.Stream | None = None
    inputs: list[Tensor] = []
    loss = torch.empty(0)
    done = 0

    def plain(given: tuple[Tensor, ...]) -> Tensor:
        nonlocal stream
        stream = stream or torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            result = step(*given)
        torch.cuda.current_stream().wait_stream(stream)
        return result

    def replayed(*given: Tensor) -> Tensor:
        nonlocal graph, inputs, loss, done
        if len(given[0]) != lead or done < PLAIN_STEPS:
            done += len(given[0]) == lead
            return plain(given)
        if graph is None:
            graph, inputs = torch.cuda.CUDAGraph(), [tensor.clone() for tensor in given]
            with torch.cuda.graph(graph):  # records without computing
                loss = step(*inputs)
        for tensor, new in zip(inputs, given, strict=True):
            tensor.copy_(new)
        graph.replay()
        return loss.clone()  # the next replay writes into the same memory

    return replayed


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of all parameters; in place if it is a tensor, as a recorded step needs."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


@contextlib.contextmanager
def tf32_products(device: torch.device) -> Iterator[None]:
    """Compute float32 matrix products in TF32 on a GPU inside a ``with`` block; on a CPU nothing changes."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if device.type == "cuda" else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
