"""Tasks that need the state of a sequence: word problems of finite groups, and the flip-flop language.

Path attention with one layer, its ablations and other models are trained on short sequences and tested on longer ones::

    python -m benchmarks nn.tracking --task A4 --models path path-sharp rope lstm --out results/benchmarks

Every model of a task has the same width, batches and number of steps, and the best of the given learning rates, chosen
on sequences of twice the training length with a seed that is not reported. All models of one learning rate are trained
side by side in one process. Results are added to ``tracking.json`` after each task.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.common.measuring import command, facts, store
from benchmarks.nn.flip_flop import VOCABULARY, flip_flop
from benchmarks.nn.groups import GROUPS, multiplication_table, word_problem
from benchmarks.nn.recurrent import LSTM, replace_attention
from benchmarks.nn.training import Plan, Task, Trainee, evaluate, train
from ghrr_lab import lm

VALUES = {"mode": "path", "transport": "values", "angle_std": 0.2}
# Size of the slots and number of reflections with which one slot can hold the smallest faithful representation.
PATHS: dict[str, dict[str, Any]] = {
    "S3": {"m": 2, "reflections": 2},
    "A4": {"m": 3, "reflections": 2},
    "S4": {"m": 4, "reflections": 3},
    "A5": {"m": 3, "reflections": 2},
    "S5": {"m": 4, "reflections": 4},
    "Z60": {"m": 2, "reflections": 2},
    "flip-flop": {"m": 4, "reflections": 1},
}
SMOOTHED = "-sharp"  # the same model with smoothed targets
TUNING_SEED = 999


def ghrr_settings(name: str, task: str, args: argparse.Namespace) -> dict[str, Any]:
    """Return the attention of a model by its name: ``path``, with a changed setting, or a baseline with rope."""
    kind, _, value = name.partition("-")
    given = {**VALUES, **PATHS[task]}
    if task == "flip-flop":
        given |= {"transport": "both", "angle_std": 0.02}
    if kind == "rope":
        gated = {"mode": "path", "transport": "none", "rotary_scores": True, "forget_gate": True}
        return gated if value == "gate" else {"attention": "rope"}
    if kind == "gate":
        given["forget_gate"] = True
    elif kind in ("m", "reflections"):
        given[kind] = int(value)
    elif kind == "transport":
        given["transport"] = value
    elif name != "path":
        raise SystemExit(f"nn.tracking: unknown model {name!r}")
    # As many features as rope has, at least; slots of size 3 do not divide them.
    per_head = args.embed_dim // (2 * args.num_heads)
    return given | {"slots": -(-per_head // given["m"])}


def make_model(name: str, task: str, seed: int, args: argparse.Namespace) -> nn.Module:
    """Make a model with weights from a seed. A number in front is its number of layers: ``4rope``."""
    torch.manual_seed(seed)
    name = name.removesuffix(SMOOTHED)
    layers, name = (int(name[0]), name[1:]) if name[0].isdigit() else (1, name)
    vocab_size = len(VOCABULARY) if task == "flip-flop" else len(multiplication_table(task)) + 1
    if name == "lstm":
        return LSTM(vocab_size, args.embed_dim, layers)
    peer = name.startswith(("deltaproduct", "householder"))
    settings = {"attention": "rope"} if peer else ghrr_settings(name, task, args)
    config = lm.ModelConfig(
        vocab_size=vocab_size,
        embed_dim=args.embed_dim,
        num_layers=layers,
        num_heads=args.num_heads,
        ffn_dim=2 * args.embed_dim,
        max_len=max(args.test) + 1,
        dropout=0.0,
        **settings,
    )
    model = lm.Model(config)
    return replace_attention(model, name) if peer else model


def plan_of(name: str, rate: float, args: argparse.Namespace) -> Plan:
    """Return how a model is trained: with a curriculum of lengths up to the longest."""
    shares = (0.15, 0.15, 0.2, 0.5)
    lengths = tuple((max(2, args.length >> (3 - i)), share) for i, share in enumerate(shares))
    smoothing = 0.1 if name.endswith(SMOOTHED) else 0.0
    return Plan(
        args.steps,
        args.batch,
        lengths if args.task != "flip-flop" else ((args.length, 1.0),),
        rate,
        50,
        smoothing=smoothing,
    )


def run(task: Task, args: argparse.Namespace, device: str) -> list[dict[str, Any]]:
    """Choose a learning rate for each model, train it with every seed, and test it on every length."""
    rows = []
    for name in args.models:
        scores = {}
        for rate in args.rates if len(args.rates) > 1 else ():
            trial = Trainee(make_model(name, args.task, TUNING_SEED, args).to(device), TUNING_SEED)
            train([trial], task, plan_of(name, rate, args), device=device)
            scores[rate] = evaluate(trial.model, task, 2 * args.length, count=32, seed=1, device=device)["tokens"]
        rate = max(scores, key=lambda rate: scores[rate]) if scores else args.rates[0]
        trainees = [Trainee(make_model(name, args.task, seed, args).to(device), seed) for seed in args.seeds]
        seconds = train(trainees, task, plan_of(name, rate, args), device=device)
        for one in trainees:
            tests = [evaluate(one.model, task, n, count=args.count, device=device) for n in args.test]
            parameters = sum(p.numel() for p in one.model.parameters())
            rows.append(
                {
                    "task": args.task,
                    "model": name,
                    "seed": one.seed,
                    "rate": rate,
                    "tuning": {f"{key:g}": round(value, 4) for key, value in scores.items()},
                    "parameters": parameters,
                    "loss": one.losses[-1],
                    "seconds": round(seconds / len(trainees), 1),
                    "tests": tests,
                }
            )
            found = "  ".join(f"{row['length']}: {row['tokens']:.4f}" for row in tests)
            print(
                f"{args.task} {name:<16} seed {one.seed}  rate {rate:g}  loss {one.losses[-1]:.4f}   {found}",
                flush=True,
            )
    return rows


def main() -> None:
    """Train and test the models of one task, and store their results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=[*GROUPS, "flip-flop"], required=True)
    parser.add_argument("--models", nargs="+", default=["path", "path-sharp", "m-1", "rope", "lstm"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rates", nargs="+", type=float, default=[3e-3, 1e-2])
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=32, help="of the longest sequences in training")
    parser.add_argument("--test", nargs="+", type=int, default=[32, 64, 128, 256, 512])
    parser.add_argument("--count", type=int, default=32, help="test sequences of each length")
    parser.add_argument("--embed-dim", type=int, default=64)
    parser.add_argument("--num-heads", type=int, default=2)
    parser.add_argument("--out", type=Path, help="folder for tracking.json")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        torch.set_num_threads(1)
    task: Task = flip_flop if args.task == "flip-flop" else functools.partial(word_problem, args.task)
    rows = run(task, args, device)
    if args.out is None:
        return
    settings = {key: value for key, value in vars(args).items() if key not in ("out", "models", "seeds", "task")}
    line = command("nn.tracking", sys.argv[1:], {"--out": "results/benchmarks"})
    settings |= {"device": "CPU" if device == "cpu" else torch.cuda.get_device_name(), "command": line}
    path = args.out / "tracking.json"
    known = json.loads(path.read_text()) if path.exists() else {"rows": []}
    done = {(row["task"], row["model"], row["seed"]) for row in rows}
    kept = [row for row in known["rows"] if (row["task"], row["model"], row["seed"]) not in done]
    store({**facts(device), "rows": [*kept, *({**row, "settings": settings} for row in rows)]}, args.out, "tracking")


if __name__ == "__main__":
    main()
