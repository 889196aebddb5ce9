"""Time the models of ghrr.models against torch-hd, for the models that both have.

Both sides run alternately in one process on one thread, at 10,000 dimensions and a batch of 100; the measure is CPU
time. Results are compared first, and a wrong one makes the exit code 1. torch-hd has no MBAT, SMR, TPR and HLB::

    python -m benchmarks models.peers
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torchhd
from torch import Tensor

from benchmarks.common.measuring import command, facts, quartiles, store, time_alternately
from benchmarks.common.paths import RESULTS
from ghrr import models

DIM, BATCH, BLOCK = 10_000, 100, 64
MODELS: dict[str, tuple[models.Architecture, type]] = {
    "FHRR": (models.FHRR(DIM), torchhd.FHRRTensor),
    "HRR": (models.HRR(DIM), torchhd.HRRTensor),
    "MAP": (models.MAP(DIM), torchhd.MAPTensor),
    "BSC": (models.BSC(DIM), torchhd.BSCTensor),
    "SBC": (models.SBC(DIM * BLOCK, block_size=BLOCK), torchhd.BSBCTensor),
    "VTB": (models.VTB(DIM), torchhd.VTBTensor),
}
Call = Callable[[], Tensor]


def as_peer(x: Tensor, kind: type) -> Any:
    """Return the vectors as a tensor of torch-hd, in its default dtype."""
    if kind is not torchhd.BSBCTensor:
        return x.clone().as_subclass(kind)
    peer: Any = x.long().as_subclass(kind)
    peer.block_size = BLOCK
    return peer


def calls(name: str) -> dict[str, tuple[Call, Call]]:
    """Return our call and torch-hd's for every operation."""
    model, kind = MODELS[name]
    a, b = model.random(2, BATCH, generator=torch.Generator().manual_seed(0))
    peer_a, peer_b = as_peer(a, kind), as_peer(b, kind)
    return {
        "bind": (lambda: model.bind(a, b), lambda: peer_a.bind(peer_b)),
        "bundle": (lambda: model.bundle(a), peer_a.multibundle),
        "pairwise similarity": (lambda: model.pairwise_similarity(a, b), lambda: peer_a.cosine_similarity(peer_b)),
    }


def is_correct(name: str, operation: str, ours: Tensor, theirs: Tensor) -> bool:
    """Whether both results agree: to rounding, except for ties of bundles and the scale of sparse similarities."""
    theirs = theirs.as_subclass(Tensor)
    if operation == "bundle" and name in ("BSC", "SBC"):
        share = float((ours == theirs).double().mean())
        return share > (0.9 if name == "BSC" else 0.02)  # an even number of items, or few equal indices: many ties
    if operation == "pairwise similarity" and name == "SBC":
        theirs = (BLOCK * theirs - 1) / (BLOCK - 1)
    return bool(torch.allclose(ours.to(torch.complex64), theirs.to(torch.complex64), atol=2e-3))


def measure(repeats: int) -> list[dict[str, Any]]:
    """Time every operation of every model."""
    rows = []
    for name in MODELS:
        for operation, (ours, theirs) in calls(name).items():
            correct = is_correct(name, operation, ours(), theirs())
            seconds = time_alternately({"ours": ours, "theirs": theirs}, repeats, clock=time.process_time)
            ratio = quartiles([a / b for a, b in zip(seconds["ours"], seconds["theirs"], strict=True)])
            rows.append({"model": name, "operation": operation, "right": correct, "ratio": ratio})
            print(f"{name:5} {operation:20} {'' if correct else 'WRONG '}{ratio['median']:.3g}", flush=True)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and store; return 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=41)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = measure(options.repeats)
    finally:
        torch.set_num_threads(threads)
    report = {"command": command("models.peers", given), **facts(), "dim": DIM, "batch": BATCH, "rows": rows}
    store(report, options.out, "peer_models")
    return 0 if all(row["right"] for row in rows) else 1
