"""An epoch of a relation model against PyKEEN's ComplEx on a CPU, with the same batch, size, loss and optimiser.

PyKEEN trains with LCWA: every batch of questions (head, relation) is scored against all entities, as ours is. Both have
inverse relations, cross-entropy and Adagrad; ours has the DURA regulariser as well, PyKEEN's ComplEx has none. LCWA
merges triples with the same question, so its epochs have fewer steps: both the time of a step and of an epoch are
given. A turn lasts several epochs, so that setting up PyKEEN's training loop does not count as training.

Needs PyKEEN. On Kinships, and on a part of WN18RR, where few triples share a question::

    python -m benchmarks relations.peers
    python -m benchmarks relations.peers --data FOLDER/WN18RR --triples 500 --total 100 --m 1 5 --epochs 2
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pykeen
import torch
from pykeen.models import ComplEx
from pykeen.training import LCWATrainingLoop
from pykeen.triples import CoreTriplesFactory

from benchmarks.common.measuring import command, facts, quartiles, store, time_alternately
from benchmarks.common.paths import RESULTS
from ghrr.relations import KnowledgeGraph, RelationConfig, RelationModel, load_graph
from ghrr.relations.graph import with_reciprocals
from ghrr.relations.train_step import make_optimizer, make_step

PEER = "PyKEEN ComplEx"


def our_epochs(graph: KnowledgeGraph, m: int, *, total: int, batch: int, epochs: int) -> tuple[Callable[[], Any], int]:
    """Return a function that trains some epochs, and the number of steps of one."""
    config = RelationConfig(dim=total // m**2, m=m, batch=batch, regularizer_weight=0.01)
    model = RelationModel(graph.entities, graph.relations, dim=config.dim, m=m)
    step = make_step(model, make_optimizer(model, config), config)
    triples = with_reciprocals(graph.train, len(graph.relations))
    batches = torch.split(triples[torch.randperm(len(triples), generator=torch.Generator().manual_seed(0))], batch)
    return lambda: [float(step(rows)) for _ in range(epochs) for rows in batches], len(batches)


def pykeen_epochs(graph: KnowledgeGraph, *, total: int, batch: int, epochs: int) -> tuple[Callable[[], Any], int]:
    """Return a function that trains some epochs of PyKEEN's ComplEx, and the number of steps of one."""
    factory = CoreTriplesFactory(
        graph.train,
        num_entities=len(graph.entities),
        num_relations=len(graph.relations),
        create_inverse_triples=True,
    )
    model = ComplEx(
        triples_factory=factory, embedding_dim=total, regularizer=None, loss="CrossEntropyLoss", random_seed=0
    )
    loop = LCWATrainingLoop(
        model=model, triples_factory=factory, optimizer=torch.optim.Adagrad(model.parameters(), lr=0.1)
    )
    questions = len({(head, kind) for head, kind, _ in with_reciprocals(graph.train, len(graph.relations)).tolist()})
    done = 0

    def run() -> Any:
        nonlocal done
        done += epochs
        return loop.train(
            triples_factory=factory,
            num_epochs=done,
            batch_size=batch,
            use_tqdm=False,
            use_tqdm_batch=False,
            pin_memory=False,
            continue_training=True,
        )

    return run, -(-questions // batch)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of triples; default: Kinships of PyKEEN")
    parser.add_argument("--triples", type=int, help="number of training triples to use; default: all")
    parser.add_argument("--m", type=int, nargs="+", default=[1, 3, 5])
    parser.add_argument("--total", type=int, default=1000, help="complex numbers per entity")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=10, help="epochs in a turn")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = sys.argv[1:] if arguments is None else arguments
    args = parser.parse_args(asked)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    graph = load_graph(args.data or Path(pykeen.__path__[0]) / "datasets" / "kinships")
    graph = replace(graph, train=graph.train[: args.triples])
    sizes = {"total": args.total, "batch": args.batch, "epochs": args.epochs}
    models = {f"m = {m}": our_epochs(graph, m, **sizes) for m in args.m} | {PEER: pykeen_epochs(graph, **sizes)}
    turns = time_alternately({name: run for name, (run, _) in models.items()}, args.repeats)
    seconds = {name: [value / args.epochs for value in values] for name, values in turns.items()}
    rows = []
    for name, (_, steps) in models.items():
        epoch_ratios = [theirs / ours for ours, theirs in zip(seconds[name], seconds[PEER], strict=True)]
        step_ratio = quartiles([ratio * steps / models[PEER][1] for ratio in epoch_ratios])
        epoch, epoch_ratio = quartiles(seconds[name]), quartiles(epoch_ratios)
        row = {"model": name, "steps": steps, "seconds_per_epoch": epoch}
        rows.append({**row, "step_ratio": step_ratio, "epoch_ratio": epoch_ratio})
        print(
            f"{graph.name} {name}: {steps} steps in {epoch['median']:.3g} s; PyKEEN's time over ours: a step "
            f"{step_ratio['median']:.2f} ({step_ratio['low']:.2f} to {step_ratio['high']:.2f}), an epoch "
            f"{epoch_ratio['median']:.2f}"
        )
    sizes = {"triples": len(graph.train), "entities": len(graph.entities), "total": args.total, "batch": args.batch}
    stored_command = command("relations.peers", asked, {"--data": "FOLDER"})
    report = {"command": stored_command, **facts(), "graph": graph.name, **sizes, "rows": rows}
    store(report, args.out, f"relations_peers_{graph.name}")
