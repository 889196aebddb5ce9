"""Perplexity of trained language models on windows that are longer than in training.

::

    python -m benchmarks nn.longer runs/wikitext-2-rope-0 runs/wikitext-2-path-0 --out results/benchmarks

Models with rope are tested twice: with positions as they are, and interpolated to those seen in training. A window
scores its last tokens only, as many as the stride, an eighth of the window.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

import torch

from benchmarks.common.measuring import command, facts, store
from ghrr_lab import lm


def longer_model(model: lm.Model, times: int, *, interpolate: bool) -> lm.Model:
    """Return a model with the same weights and a longer context."""
    config = dataclasses.replace(model.config, max_len=times * model.config.max_len)
    longer = lm.Model(config)
    longer.load_state_dict(model.state_dict())
    for layer in longer.layers if interpolate else ():
        attention: Any = layer.attention
        half = attention.rotations.shape[-1] // 2
        angles = torch.arange(config.max_len)[:, None] / times * 10000 ** (-torch.arange(half) / half)
        attention.rotations = torch.cat((angles.cos(), angles.sin()), dim=-1)
    return longer.eval()


def main() -> None:
    """Evaluate the models of run folders at several multiples of their context."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--dataset", default="wikitext-2")
    parser.add_argument("--times", nargs="+", type=int, default=[1, 2, 4, 8, 16])
    parser.add_argument("--out", type=Path, help="folder for longer.json")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    text = lm.encode_corpus(lm.load_corpus(args.dataset))
    rows = []
    for folder in args.runs:
        model, _ = lm.load_run(folder)
        kinds = (False, True) if model.config.attention == "rope" else (False,)
        for times in args.times:
            for interpolate in kinds if times > 1 else (False,):
                longer = longer_model(model, times, interpolate=interpolate).to(device)
                context = longer.config.max_len
                tokens = torch.as_tensor(text.test).to(device)
                result = lm.evaluate(longer, tokens, stride=context // 8, batch=max(1, 8192 // context))
                row = {"run": folder.name, "context": context, "interpolated": interpolate, "ppl": result.perplexity}
                rows.append(row)
                print(row, flush=True)
    if args.out is not None:
        line = command("nn.longer", sys.argv[1:], {"--out": "results/benchmarks"})
        store({**facts(device), "command": line, "rows": rows}, args.out, "longer")


if __name__ == "__main__":
    main()
