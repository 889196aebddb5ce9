"""Relation models on WN18RR and FB15k-237: time of an epoch for each m, and training runs with several seeds.

``time`` compares an epoch of m = 1 with larger m at equal parameters; all take turns on one machine. ``train`` does the
runs that are not finished yet, until the time limit, and stores metrics and ranks, not weights. Repeat the command to
continue: interrupted runs resume from their checkpoints. ``unseen`` computes the ranks of questions about unseen
entities again, in stored runs that ranked them by vectors. ``tuning`` collects the runs with a label in the folder
``--out`` into one file of settings and validation metrics::

    python -m benchmarks relations.measure time --data DATA --graph WN18RR --m 1 3 5
    python -m benchmarks relations.measure train --data DATA --graph WN18RR --m 1 3 5 --seeds 0 1 2 --limit 3600
    python -m benchmarks relations.measure unseen --data DATA --graph WN18RR
    python -m benchmarks relations.measure tuning --graph WN18RR --out OUT
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.common.measuring import command, duration, facts, quartiles, store, time_alternately
from benchmarks.common.paths import RESULTS, ROOT
from ghrr import ops
from ghrr.files import read_tensors, write_tensors
from ghrr.relations import (
    KnowledgeGraph,
    RankMetrics,
    RelationConfig,
    RelationModel,
    RelationProgress,
    evaluate,
    load_graph,
    load_model,
    train,
)
from ghrr.relations.graph import with_reciprocals
from ghrr.relations.train_step import make_optimizer, make_step
from ghrr.relations.unseen import count_tails

STEPS = 10  # of training in a turn
REGULARIZER_WEIGHT = {"WN18RR": 0.1, "FB15k-237": 0.05}


def configuration(args: argparse.Namespace, m: int, seed: int = 0) -> RelationConfig:
    """Return the settings of a run with about ``args.total`` complex numbers per entity."""
    weight = REGULARIZER_WEIGHT.get(args.graph, 0.01) if args.weight is None else args.weight
    return RelationConfig(
        dim=args.total // m**2,
        m=m,
        regularizer=args.regularizer,
        regularizer_weight=weight,
        product_weight=args.product_weight,
        relation_weight=args.relation_weight,
        frequency_share=args.frequency_share,
        length_penalty=args.length_penalty,
        relation_form=args.relation_form,
        learning_rate=args.learning_rate,
        batch=args.batch,
        epochs=args.epochs,
        average_epochs=args.average_epochs,
        evaluate_every=args.evaluate_every,
        patience=args.patience,
        seed=seed,
        compile=args.compile,
    )


def training_steps(graph: KnowledgeGraph, config: RelationConfig, device: str) -> Callable[[], Tensor]:
    """Return a function that does ``STEPS`` steps of training."""
    model = RelationModel(graph.entities, graph.relations, dim=config.dim, m=config.m, seed=config.seed).to(device)
    step = make_step(model, make_optimizer(model, config), config)
    triples = with_reciprocals(graph.train, len(graph.relations)).to(device)
    order = torch.randperm(len(triples), generator=torch.Generator().manual_seed(0)).to(device)
    batches = [triples[rows] for rows in torch.split(order, config.batch)[:STEPS]]

    def run() -> Tensor:
        return torch.stack([step(batch) for batch in batches])

    return run


def products(m: int, total: int, batch: int, device: str) -> dict[str, Callable[[], Any]]:
    """Return ways to multiply heads and relations of a batch and to compute both gradients."""
    shape = (batch, total // m**2, m, m)
    a, b, gradient = (torch.randn(shape, dtype=torch.complex64, device=device) for _ in range(3))
    a.requires_grad_()
    b.requires_grad_()

    def timed(product: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(product(a, b), (a, b), gradient)

    return {
        "ops.bind": timed(ops.bind),
        "torch.matmul": timed(torch.matmul),
        "torch.einsum": timed(lambda x, y: torch.einsum("bdij,bdjk->bdik", x, y)),
    }


def measure_time(args: argparse.Namespace, graph: KnowledgeGraph) -> dict[str, Any]:
    """Time epochs and products, print them, and return the report."""
    torch.set_float32_matmul_precision("high" if args.device == "cuda" else "highest")
    per_epoch = -(-2 * len(graph.train) // args.batch)
    functions = {f"m = {m}": training_steps(graph, configuration(args, m), args.device) for m in args.m}
    seconds = time_alternately(functions, args.repeats, device=args.device)
    rows = []
    for m in args.m:
        name, first = f"m = {m}", f"m = {args.m[0]}"
        epoch = quartiles([value * per_epoch / STEPS for value in seconds[name]])
        ratio = quartiles([value / other for value, other in zip(seconds[name], seconds[first], strict=True)])
        rows.append({"m": m, "dim": args.total // m**2, "seconds_per_epoch": epoch, "ratio_to_first": ratio})
        print(
            f"{graph.name} {name}, dim {args.total // m**2}: {epoch['median']:.3g} s per epoch, {ratio['median']:.3f} "
            f"({ratio['low']:.3f} to {ratio['high']:.3f}) times {first}",
            flush=True,
        )
    del functions
    parts = []
    for m in args.m:
        times = time_alternately(products(m, args.total, args.batch, args.device), args.repeats, device=args.device)
        medians = {name: quartiles(values)["median"] for name, values in times.items()}
        parts.append({"m": m, "seconds": medians})
        shown = ", ".join(f"{name} {duration(value)}" for name, value in medians.items())
        print(f"product of a batch and its gradients, m = {m}: {shown}", flush=True)
    return {"graph": graph.name, "steps_per_epoch": per_epoch, "rows": rows, "products": parts}


class TimeUpError(Exception):
    """The time limit is reached."""


def run_all(args: argparse.Namespace, graph: KnowledgeGraph, asked: str) -> None:
    """Do the runs that are not finished, one after the other, until the time limit."""
    deadline = time.monotonic() + args.limit
    for seed in args.seeds:
        for m in args.m:
            name = f"{graph.name}-m{m}-seed{seed}" + (f"-{args.label}" if args.label else "")
            stored = args.out / f"{name}.json"
            if stored.exists() and json.loads(stored.read_text())["finished"]:
                print(f"{name} is finished", flush=True)
                continue
            config = configuration(args, m, seed)
            result = run_one(args, graph, config, folder=args.work / name, deadline=deadline, asked=asked)
            if result is None:
                print(f"{name}: out of time before the first checkpoint", flush=True)
                return
            ranks = result.pop("ranks")
            args.out.mkdir(parents=True, exist_ok=True)
            write_tensors(args.out / f"{name}.safetensors", {}, ranks, kind="ghrr-relation-ranks", version=1)
            store(result, args.out, name)
            test = {key: round(value, 4) for key, value in result["test"].items()}
            print(f"{name}: epoch {result['best_epoch']}, finished {result['finished']}, test {test}", flush=True)
            if not result["finished"]:
                return
            if not args.keep:
                shutil.rmtree(args.work / name)


def run_one(
    args: argparse.Namespace,
    graph: KnowledgeGraph,
    config: RelationConfig,
    *,
    folder: Path,
    deadline: float,
    asked: str,
) -> dict[str, Any] | None:
    """Train until the end or the deadline, and return metrics and ranks of the best model so far."""
    shown = 0.0

    def watch(progress: RelationProgress) -> None:
        nonlocal shown
        if progress.valid_mrr is not None and time.monotonic() - shown > 5:
            shown = time.monotonic()
            share = f"{progress.step} of {progress.total_steps} steps"
            print(f"  m = {config.m}, {share}, loss {progress.loss:.3f}, valid {progress.valid_mrr:.4f}", flush=True)
        if time.monotonic() > deadline:
            raise TimeUpError

    finished = True
    try:
        result = train(graph, config, folder, device=args.device, resume=True, on_progress=watch, command=asked)
    except TimeUpError:
        if not (folder / "model.safetensors").exists():
            return None
        finished, result = False, {"name": graph.name, "config": dataclasses.asdict(config), "best_epoch": None}
    model = load_model(folder, device=args.device)
    metrics = {split: evaluate(model, graph, split) for split in ("valid", "test")}
    unseen, model.unseen = unseen_ends(graph), None  # the rest compares vectors alone
    alone = {split: evaluate(model, graph, split).summary() for split in ("valid", "test")}
    lengths = []
    for penalty in args.try_length_penalties:
        model.length_penalty = penalty
        found = {split: evaluate(model, graph, split).summary() for split in ("valid", "test")}
        lengths.append({"length_penalty": penalty, **found})
        print(f"  length penalty {penalty}: valid {found['valid']}, test {found['test']}", flush=True)
    return {
        **result,
        "length_penalties": lengths,
        "vectors_alone": alone,
        "unseen_triples": {split: int(ends.any(dim=1).sum()) for split, ends in unseen.items()},
        **{split: found.summary() for split, found in metrics.items()},
        **facts(args.device),
        "finished": finished,
        "ranks": {split: found.ranks.float() for split, found in metrics.items()},
    }


def unseen_ends(graph: KnowledgeGraph) -> dict[str, Tensor]:
    """Return whether head and tail of each validation and test triple occur in no training triple, ``(n, 2)``."""
    is_unseen = torch.ones(len(graph.entities), dtype=torch.bool)
    is_unseen[graph.train[:, [0, 2]]] = False
    return {split: is_unseen[graph.split(split)[:, [0, 2]]] for split in ("valid", "test")}


def rank_unseen(graph: KnowledgeGraph, folder: Path) -> None:
    """Rank questions about unseen entities by the frequencies of tails, in stored runs that ranked them by vectors.

    These ranks do not depend on the vectors, so they can be computed without the weights of a run.
    """
    model = RelationModel(graph.entities, graph.relations, dim=1, m=1)
    model.unseen = count_tails(graph)
    unseen = unseen_ends(graph)
    found = {split: evaluate(model, graph, split).ranks.float() for split in unseen}
    for path in sorted(folder.glob(f"{graph.name}-m*-seed*.json")):
        run = json.loads(path.read_text(encoding="utf-8"))
        if "vectors_alone" in run:
            continue
        if run["graph"] != graph.fingerprint:
            raise ValueError(f"unseen: {path} is a run on other triples than {graph.name}")
        file = path.with_suffix(".safetensors")
        _, ranks = read_tensors(file, kind="ghrr-relation-ranks", version=1)
        run["vectors_alone"] = {split: run[split] for split in unseen}
        run["unseen_triples"] = {split: int(ends.any(dim=1).sum()) for split, ends in unseen.items()}
        for split, ends in unseen.items():
            ranks[split] = torch.where(ends, found[split], ranks[split])
            run[split] = RankMetrics(ranks[split]).summary()
        write_tensors(file, {}, ranks, kind="ghrr-relation-ranks", version=1)
        store(run, folder, path.stem)
        print(f"{path.stem}: test {run['vectors_alone']['test']}, now {run['test']}", flush=True)


def collect_tuning(graph: str, folder: Path) -> dict[str, Any]:
    """Return settings and metrics of the finished runs with a label."""
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob(f"{graph}-m*-seed*-*.json"))]
    finished = [run for run in runs if run["finished"]]
    names = ("config", "best_epoch", "valid", "test", "command")
    return {"graph": graph, "runs": [{name: run[name] for name in names} for run in finished]}


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["time", "train", "unseen", "tuning"])
    parser.add_argument("--data", type=Path, help="folder of the graphs")
    parser.add_argument("--graph", default="WN18RR", help="name of a folder of triples in DATA")
    parser.add_argument("--m", type=int, nargs="+", default=[1, 3, 5])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--total", type=int, default=1000, help="complex numbers per entity; dim is TOTAL // m**2")
    parser.add_argument("--regularizer", default="dura", choices=["dura", "n3"])
    parser.add_argument("--weight", type=float, help="of the regulariser; default: 0.1 for WN18RR, 0.05 for FB15k-237")
    parser.add_argument("--product-weight", type=float, default=1.0, help="of h * r and t * r† in the regulariser")
    parser.add_argument("--relation-weight", type=float, default=0.0, help="of the cross-entropy of the relation")
    parser.add_argument(
        "--frequency-share",
        type=float,
        default=0.0,
        help="how much frequent answers count more, 0 to 1",
    )
    parser.add_argument("--length-penalty", type=float, default=0.0, help="penalty on the length of tails in the score")
    parser.add_argument(
        "--try-length-penalties", type=float, nargs="+", default=[], help="evaluate the model with these as well"
    )
    parser.add_argument("--relation-form", default="relaxed", choices=["relaxed", "unitary", "scaled"])
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--average-epochs", type=int, default=1, help="of the moving average of the parameters")
    parser.add_argument("--evaluate-every", type=int, default=5)
    parser.add_argument("--patience", type=int, default=10, help="evaluations without a better MRR before it stops")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds for all runs together")
    parser.add_argument("--label", default="", help="added to the names of the results, for other settings")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--keep", action="store_true", help="keep the folder of a finished run, with its weights")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"])
    parser.add_argument("--work", type=Path, default=Path("runs/relations"), help="folder for checkpoints")
    parser.add_argument("--out", type=Path, help="folder for results")
    args = parser.parse_args(arguments)
    names = {"--data": "DATA", "--work": "WORK", "--out": "OUT", "--limit": "SECONDS"}
    asked = command("relations.measure", sys.argv[1:] if arguments is None else arguments, names)
    stored = ROOT / "results" / "relations"
    if args.action == "tuning":
        store(collect_tuning(args.graph, args.out or stored), stored / "tuning", args.graph)
        return
    if args.data is None:
        parser.error("--data is missing: the folder of the graphs")
    graph = load_graph(args.data / args.graph)
    if args.action == "time":
        report = measure_time(args, graph)
        store({"command": asked, **facts(args.device), **report}, args.out or RESULTS, f"relations_time_{args.graph}")
    elif args.action == "unseen":
        rank_unseen(graph, args.out or stored)
    else:
        args.out = args.out or stored
        run_all(args, graph, asked)
