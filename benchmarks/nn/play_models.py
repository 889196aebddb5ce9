"""Train the two models that the tab Cups of the playground shows.

::

    python -m benchmarks nn.play_models

It takes a minute, and writes ``path.safetensors`` and ``rope.safetensors`` in ``src/ghrr_lab/play/trained/cups``. Of
three seeds the one is kept that is best on 256 moves.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor

from benchmarks.nn.groups import multiplication_table, word_problem
from benchmarks.nn.training import Plan, Trainee, evaluate, train
from ghrr.files import write_tensors
from ghrr_lab import lm
from ghrr_lab.play.cups import FORMAT, KINDS, ORDERS, TRAINED, model_config

SEEDS = (0, 1, 2)
PLAN = Plan(800, 32, ((4, 0.25), (8, 0.25), (16, 0.25), (32, 0.25)), 1e-2, warmup=240, smoothing=0.1)


def shuffles(batch: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return moves and the orders of the cups after them.

    A move acts on the places, so it is multiplied on the right. This is the word problem with inverted elements.
    """
    table = multiplication_table("S3")
    inverse = (table == 0).long().argmax(dim=1)
    moves, orders = word_problem("S3", batch, length, generator)
    invert = torch.cat((inverse, torch.tensor([len(inverse)])))
    return invert[moves], torch.where(orders < 0, -1, inverse[orders])


def main() -> None:
    """Train, choose and write the models."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    torch.set_num_threads(1)
    assert len(ORDERS) == len(multiplication_table("S3"))
    for kind in KINDS:
        found: dict[float, lm.Model] = {}
        for seed in SEEDS if kind == "path" else SEEDS[:1]:
            torch.manual_seed(seed)
            model = lm.Model(model_config(kind))
            train([Trainee(model, seed)], shuffles, PLAN)
            score = evaluate(model, shuffles, 256, count=32)["tokens"]
            print(f"{kind}, seed {seed}: {score:.3f} of the orders right in sequences of 256 moves", flush=True)
            found[score] = model
        TRAINED.mkdir(parents=True, exist_ok=True)
        best = found[max(found)].state_dict()
        write_tensors(TRAINED / f"{kind}.safetensors", {}, best, kind=FORMAT, version=1)


if __name__ == "__main__":
    main()
