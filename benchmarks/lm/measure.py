"""Time of a training step for each kind of attention, relative to vanilla attention with as many parameters.

Run it with ``python -m benchmarks lm.measure``. On a GPU every step is compiled and recorded as a CUDA graph, as in
training. Each model has its own process, so that all are compiled at the same time. The models are then timed
alternately, so that changes of the machine's load affect all of them.
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import statistics
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from benchmarks.common.measuring import store
from ghrr.training import replay_as_graph
from ghrr_lab.lm import Model, ModelConfig, match_parameters
from ghrr_lab.lm.train_step import Step, make_optimizer, make_step

WINDOW = {"position_sharing": "head", "window": 3, "normalize_rows": True}
MODELS: dict[str, dict[str, Any]] = {
    "vanilla": {"attention": "vanilla"},
    "rope": {"attention": "rope"},
    "ghrr-feature": {},
    "ghrr-window": WINDOW,
    "ghrr-window-5": {**WINDOW, "window": 5},
    "ghrr-grouped": {**WINDOW, "num_kv_heads": 2},
    "ghrr-split": {**WINDOW, "window": 5, "num_kv_heads": 2, "split_inputs": True},
    "ghrr-learned": {**WINDOW, "trainable_phases": True},
    "ghrr-row": {"mode": "row"},
    "path": {"mode": "path"},
    "path-values": {"mode": "path", "transport": "values", "rotary_scores": True},
    "path-gate": {"mode": "path", "forget_gate": True},
    "rope-gate": {"mode": "path", "transport": "none", "rotary_scores": True, "forget_gate": True},
}


def prepare(settings: dict[str, Any], args: argparse.Namespace, device: str) -> tuple[Step, int]:
    """Return a training step of a model, and the number of its parameters."""
    common: dict[str, Any] = {
        "vocab_size": args.vocab_size,
        "embed_dim": args.embed_dim,
        "num_layers": args.num_layers,
        "max_len": args.max_len,
    }
    reference = Model(ModelConfig(**common, ffn_dim=2 * args.embed_dim, attention="vanilla")).parameter_count
    config = match_parameters(ModelConfig(**{**common, **settings}), reference)
    # Tensor cores need multiples of 8. Rounding changes the number of parameters by at most 0.3 %.
    config = dataclasses.replace(config, ffn_dim=8 * round(config.ffn_dim / 8))
    torch.manual_seed(0)
    model = Model(config).to(device)
    optimizer = make_optimizer(model, learning_rate=1e-3, weight_decay=0.1, betas=(0.9, 0.98))

    def loss(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return model.loss(inputs, targets) / inputs.numel()

    forward = torch.compile(loss, dynamic=False) if device == "cuda" else loss
    step = make_step(forward, model, optimizer, clip=1.0, bf16=device == "cuda")
    if device == "cuda":
        step = replay_as_graph(step, lead=args.batch)
    return step, model.parameter_count


def seconds(step: Step, inputs: torch.Tensor, targets: torch.Tensor, repeats: int) -> float:
    """Return the mean time of a step."""
    if inputs.is_cuda:
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        step(inputs, targets)
    if inputs.is_cuda:
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeats


def serve(name: str, args: argparse.Namespace, device: str, pipe: Connection) -> None:
    """Prepare a step, send its number of parameters, then time it at each request until the request is False."""
    torch.set_float32_matmul_precision("high")
    generator = torch.Generator().manual_seed(0)
    shape = (2, args.batch, args.max_len)
    inputs, targets = torch.randint(args.vocab_size, shape, generator=generator).to(device).unbind()
    step, count = prepare(MODELS[name], args, device)
    seconds(step, inputs, targets, 3)
    pipe.send(count)
    while pipe.recv():
        pipe.send(seconds(step, inputs, targets, args.repeats))


def receive(name: str, pipe: Connection) -> Any:
    """Return the next object that the process of a model sends."""
    try:
        return pipe.recv()
    except EOFError:
        raise SystemExit(f"{name}: its process failed; its error is shown above") from None


def main() -> None:
    """Measure, print and store the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vocab-size", type=int, default=10_000)
    parser.add_argument("--embed-dim", type=int, default=256)
    parser.add_argument("--num-layers", type=int, default=6)
    parser.add_argument("--max-len", type=int, default=64)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument(
        "--models",
        nargs="+",
        choices=MODELS,
        default=list(MODELS),
        help="models to time; ratios are relative to the first",
    )
    parser.add_argument("--out", type=Path, help="folder for lm_step.json")
    args = parser.parse_args()
    if len(set(args.models)) < len(args.models):
        parser.error("--models: each model may be given only once")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    context = multiprocessing.get_context("spawn")
    pipes: dict[str, Connection] = {}
    for name in args.models:
        pipes[name], other = context.Pipe()
        context.Process(target=serve, args=(name, args, device, other), name=name, daemon=True).start()
        other.close()  # so that reading raises EOFError if the process fails
    counts = {name: receive(name, pipe) for name, pipe in pipes.items()}
    times: dict[str, list[float]] = {name: [] for name in args.models}
    for _ in range(args.rounds):
        for name, pipe in pipes.items():
            pipe.send(True)
            times[name].append(receive(name, pipe))
    for pipe in pipes.values():
        pipe.send(False)
    rows = []
    for name in args.models:
        ratios = [ours / base for ours, base in zip(times[name], times[args.models[0]], strict=True)]
        rows.append(
            {
                "attention": name,
                "params": counts[name],
                "step_ms": 1e3 * statistics.median(times[name]),
                "tokens_per_s": args.batch * args.max_len / statistics.median(times[name]),
                "ratio": statistics.median(ratios),
                "ratio_quartiles": statistics.quantiles(ratios, n=4)[::2] if len(ratios) > 1 else None,
            }
        )
        print(
            f"{name:34s} {counts[name]:>10,} {rows[-1]['step_ms']:8.3f} ms   {rows[-1]['ratio']:.3f} x {args.models[0]}"
        )
    if args.out is not None:
        name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
        settings = {key: value for key, value in vars(args).items() if key != "out"}
        content = {"device": name, "torch": torch.__version__, "settings": settings, "rows": rows}
        store(content, args.out, "lm_step")
