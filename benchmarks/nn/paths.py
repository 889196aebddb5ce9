"""Paths and forgetting gates by themselves: time by radix of the scan, drift of the norm, and cost of the gate.

::

    python -m benchmarks nn.paths --out results/benchmarks
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import ghrr
from benchmarks.common.measuring import command, facts, peak_extra_memory, quartiles, store, time_alternately
from ghrr.nn import paths
from ghrr.nn.forget_gate import fold
from ghrr.nn.path_steps import PathSteps

RADICES = (2, 4, 8, 16, 32)


def scan_times(device: str, repeats: int) -> list[dict[str, Any]]:
    """Time the path of 4,096 tokens in sequences of several lengths, 16 slots of m = 4, for each radix."""
    rows = []
    for n in (64, 512, 4096):
        steps = ghrr.Space(16, 4, seed=0).random(4096 // n, n).to(device)

        def scan(radix: int, steps: Tensor = steps) -> Tensor:
            paths.RADIX = radix
            return paths.path(steps)

        functions = {str(radix): (lambda radix=radix: scan(radix)) for radix in RADICES}
        seconds = time_alternately(functions, repeats, device=device)
        rows.append({"n": n, "seconds": {name: quartiles(values)["median"] for name, values in seconds.items()}})
    paths.RADIX = 8
    return rows


def norm_drift() -> dict[str, float]:
    """Return the largest deviation of R† R from the identity after 65,536 tokens, as it is and without Newton steps."""
    config = ghrr.nn.AttentionConfig(embed_dim=16, num_heads=1, max_len=4, mode="path", reflections=2, angle_std=1.0)
    torch.manual_seed(0)
    steps = PathSteps(config, torch.float32)
    with torch.no_grad():
        given = steps(torch.randn(1, 1 << 16, 16), None).flatten(2, 3)

        def error() -> float:
            last = paths.path(given)[:, -1]
            return float((last.mH @ last - torch.eye(4)).abs().max())

        found = {"with": error()}
        restore, paths._restore = paths._restore, lambda x: x
        found["without"] = error()
        paths._restore = restore
    return found


def gate_costs(repeats: int) -> list[dict[str, Any]]:
    """Compare attention without a gate, with a folded gate and with a gate as an n × n bias, on the CPU."""
    return [_gate_cost(n, repeats) for n in (512, 2048)]


def _gate_cost(n: int, repeats: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 8, n, 64, generator=generator).requires_grad_() for _ in range(3))
    sums = torch.nn.functional.logsigmoid(3 + torch.randn(1, 8, n, generator=generator)).cumsum(-1).requires_grad_()
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    attend = torch.nn.functional.scaled_dot_product_attention

    def plain() -> None:
        torch.autograd.backward(attend(q, k, v, is_causal=True).sum())

    def folded() -> None:
        torch.autograd.backward(attend(*fold(q, k, v, sums), is_causal=True, scale=0.125).sum())

    def biased() -> None:
        bias = (sums[..., :, None] - sums[..., None, :]).masked_fill(later, -torch.inf)
        torch.autograd.backward(attend(q, k, v, attn_mask=bias).sum())

    functions = {"no gate": plain, "folded": folded, "bias": biased}
    seconds = time_alternately(functions, repeats)
    known = sums.detach()
    exact = known.double()[..., :, None] - known.double()[..., None, :]
    none = torch.zeros(1, 8, n, 0, dtype=torch.bfloat16)
    a, b, _ = fold(none, none, none, known)
    once = known.to(torch.bfloat16).double()
    errors = {
        "folded": float((a.double() @ b.double().mT - exact).abs().max()),
        "one number": float((once[..., :, None] - once[..., None, :] - exact).abs().max()),
    }
    return {
        "n": n,
        "seconds": {name: quartiles(values)["median"] for name, values in seconds.items()},
        "megabytes": {name: peak_extra_memory(function) for name, function in functions.items()},
        "errors": errors,
    }


def main() -> None:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="folder for paths.json")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        torch.set_num_threads(1)
    report = {
        **facts(device),
        "command": command("nn.paths", sys.argv[1:], {"--out": "results/benchmarks"}),
        "scan": scan_times(device, args.repeats),
        "norm": norm_drift(),
        "gate": gate_costs(args.repeats),
    }
    for row in (*report["scan"], report["norm"], *report["gate"]):
        print(row, flush=True)
    if args.out is not None:
        store(report, args.out, "paths")


if __name__ == "__main__":
    main()
