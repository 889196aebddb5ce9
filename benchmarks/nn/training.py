"""Train and test many small models on sequence tasks, side by side in one process.

A task is a function from batch size, length and generator to tokens and targets, of which -1 is not scored. On a GPU
every step is recorded as a CUDA graph, and the models take turns on streams of their own; on a CPU they take turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ghrr.training import replay_as_graph, set_learning_rate
from ghrr_lab.lm.train_step import schedule

Task = Callable[[int, int, torch.Generator], tuple[Tensor, Tensor]]
TRAIN_SEED, TEST_SEED = 1_000_000, 2_000_000


@dataclass
class Plan:
    """How models are trained: steps, batch, lengths with their share of the steps, and the learning rate."""

    steps: int
    batch: int
    lengths: tuple[tuple[int, float], ...]
    learning_rate: float = 1e-3
    warmup: int = 50
    weight_decay: float = 0.0
    clip: float = 1.0
    smoothing: float = 0.0  # of targets: with it the loss does not vanish while equal states have unequal outputs


@dataclass
class Trainee:
    """A model in training."""

    model: nn.Module
    seed: int
    losses: list[float] = field(default_factory=list)


def train(trainees: Sequence[Trainee], task: Task, plan: Plan, *, device: str = "cpu") -> float:
    """Train all models with the same batches for equal seeds; return the seconds."""
    start = time.perf_counter()
    optimizers = [_optimizer(one.model, plan, device) for one in trainees]
    generators = [torch.Generator().manual_seed(TRAIN_SEED + one.seed) for one in trainees]
    streams = [torch.cuda.Stream() if device == "cuda" else None for _ in trainees]  # type: ignore[no-untyped-call]
    done = 0
    for length, share in plan.lengths:
        steps = [
            _make_step(one.model, optimizer, plan, device) for one, optimizer in zip(trainees, optimizers, strict=True)
        ]
        until = min(plan.steps, done + round(share * plan.steps))
        for step in range(done, until):
            rate = plan.learning_rate * schedule(step, plan.steps, plan.warmup)
            for one, optimizer, generator, stream, run in zip(
                trainees, optimizers, generators, streams, steps, strict=True
            ):
                batch = [x.to(device, non_blocking=True) for x in task(plan.batch, length, generator)]
                with torch.cuda.stream(stream):
                    set_learning_rate(optimizer, rate)
                    loss = run(*batch)
                if step % 50 == 49 or step == plan.steps - 1:
                    one.losses.append(round(float(loss), 5))
        done = until
    return time.perf_counter() - start


def _optimizer(model: nn.Module, plan: Plan, device: str) -> torch.optim.AdamW:
    rate: Any = torch.tensor(plan.learning_rate, device="cuda") if device == "cuda" else plan.learning_rate
    settings: dict[str, Any] = {"lr": rate, "betas": (0.9, 0.98), "weight_decay": plan.weight_decay}
    return torch.optim.AdamW(model.parameters(), **settings, fused=device == "cuda", capturable=device == "cuda")


def _make_step(model: nn.Module, optimizer: torch.optim.Optimizer, plan: Plan, device: str) -> Callable[..., Tensor]:
    def step(tokens: Tensor, targets: Tensor) -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        logits = model(tokens)
        loss = nn.functional.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), ignore_index=-1, label_smoothing=plan.smoothing
        )
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), plan.clip)
        optimizer.step()
        return loss.detach()

    return replay_as_graph(step, lead=plan.batch) if device == "cuda" else step


@torch.no_grad()
def evaluate(
    model: nn.Module, task: Task, length: int, *, count: int, seed: int = 0, device: str = "cpu"
) -> dict[str, float]:
    """Return the share of right answers to all scored tokens, and to the last token of ``count`` sequences."""
    model.eval()
    generator = torch.Generator().manual_seed(TEST_SEED + 100_000 * seed + length)
    right = scored = last = 0
    for done in range(0, count, 16):
        tokens, targets = (x.to(device) for x in task(min(16, count - done), length, generator))
        hits = model(tokens).argmax(dim=-1) == targets
        right, scored = right + int(hits.sum()), scored + int((targets >= 0).sum())
        last += int(hits[:, -1].sum())
    model.train()
    return {"length": length, "tokens": right / scored, "last": last / count, "sequences": count}
