"""Measure how well matrices are solved whose attributes are given: I-RAVEN, I-RAVEN-X, and all baselines.

Usage::

    python -m benchmarks reasoning.measure --data FOLDER    # the folder with the files of I-RAVEN and I-RAVEN-X
    python -m benchmarks reasoning.measure --data FOLDER --only networks    # keep the other parts as they are stored

Rules are learnt, and all settings chosen, on the training part; the test part is reported. Stores
``results/benchmarks/reasoning.json``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.common.measuring import command, facts, store
from benchmarks.common.paths import RESULTS
from benchmarks.reasoning import moves, networks
from benchmarks.reasoning.data import Problem, generate, load, read_raven_x, smoothed
from benchmarks.reasoning.exact import consistent_answers, consistent_numbers, exact_answers, exact_numbers
from ghrr.reasoning import Matrices, Prior, Reasoner, Solutions, read_raven
from ghrr.reasoning.raven import CONFIGURATIONS, SLOTS

NAME = "reasoning"
SEEDS = range(5)
FEW = 100  # problems from which rules are learnt
PLAIN = ("x_3x3_r10", "x_3x10_r100", "x_3x10_r1000")
SMOOTHED = "x_3x10_r1000_conf10_p051"
HARDER = 0.34
BINS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99)  # probabilities from which answers are counted together
UNDECIDABLE = ("in_distribute_four_out_center_single/776", "in_distribute_four_out_center_single/902")
Row = dict[str, Any]


def judged(solutions: Solutions, targets: Tensor) -> Row:
    """Count right and confident answers, by probability."""
    right, probability = solutions.guesses == targets, solutions.probabilities.amax(dim=1)
    bins = []
    for low, high in zip(BINS, (*BINS[1:], 1.1), strict=True):
        inside = (probability >= low) & (probability < high)
        bins.append([int(right[inside].sum()), int(inside.sum()), float(probability[inside].sum())])
    return {"right": int(right.sum()), "total": len(targets), "bins": bins}


def timed(reasoner: Reasoner, matrices: Matrices) -> tuple[Solutions, float]:
    """Solve, and return the processor milliseconds per problem on one thread; the smallest of three."""
    seconds = []
    for _ in range(3):
        start = time.process_time()
        solutions = reasoner.solve(matrices)
        seconds.append(time.process_time() - start)
    return solutions, 1000 * min(seconds) / len(matrices)


def exactly(solve: Callable[[Problem], tuple[Any, float]], problems: Sequence[Problem]) -> Solutions:
    """Solve with exact inference."""
    found = [solve(problem) for problem in problems]
    return Solutions(torch.tensor(np.array([p for p, _ in found])), torch.tensor([none for _, none in found]))


def distance(ours: Solutions, exact: Solutions) -> Row:
    """Compare two solutions: mean and largest total variation distance, and how often the guesses agree."""
    apart = (ours.probabilities - exact.probabilities).abs().sum(1) + (ours.none - exact.none).abs()
    same = (ours.guesses == exact.guesses).float().mean()
    return {"mean": float(apart.mean() / 2), "most": float(apart.max() / 2), "same": float(same)}


def program(left: Sequence[Sequence[int]], problems: Sequence[Problem]) -> Row:
    """Score a program that guesses among the answers that are left: its expected number of right answers."""
    hits = [len(k) > 0 and p["target"] in k for p, k in zip(problems, left, strict=True)]
    expected = sum(hit / len(k) for hit, k in zip(hits, left, strict=True) if hit)
    alone = sum(hit and len(k) == 1 for hit, k in zip(hits, left, strict=True))
    return {"right": expected, "alone": alone, "total": len(problems)}


# ---------------------------------------------------------------------------------------------------------------- parts


def raven(folder: Path) -> Iterator[Row]:
    """Given rules, rules before learning, rules learnt from few or all training problems; per configuration."""
    tests = {name: read_raven(load(folder, name, "test")) for name in CONFIGURATIONS}
    for name, (matrices, targets) in tests.items():
        train, test = load(folder, name, "train"), load(folder, name, "test")
        exact = exactly(lambda p: exact_answers(p, SLOTS), test)
        yield {"problem": name, "method": "exact", **judged(exact, targets)}
        left = [consistent_answers(p, SLOTS) for p in test]
        yield {"problem": name, "method": "program", **program(left, test)}
        for m in (1, 2, 3):
            solutions, milliseconds = timed(Reasoner(m=m), matrices)
            row = {"problem": name, "method": "given", "m": m, "ms": milliseconds, **judged(solutions, targets)}
            yield row | {"distance": distance(solutions, exact)}
        start = Reasoner()
        start.prior = Prior.short()
        yield {"problem": name, "method": "not learnt", **judged(start.solve(matrices), targets)}
        known, answers = read_raven(train)
        for seed in SEEDS:
            order = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))
            for count in (FEW, len(train)):
                begin = time.process_time()
                reasoner = Reasoner(seed=seed).fit([known[order[:count]]], [answers[order[:count]]])
                seconds = time.process_time() - begin
                solutions, milliseconds = timed(reasoner, matrices)
                row = {"problem": name, "method": "learnt", "from": count, "seed": seed, "fit": seconds}
                yield row | {"ms": milliseconds, **judged(solutions, targets)}
                if count == FEW:
                    continue
                for other, (others, right) in tests.items():
                    if other != name:
                        found = judged(reasoner.solve(others), right)
                        yield {"problem": other, "method": "transferred", "from": name, "seed": seed, **found}


def undecidable(folder: Path) -> Iterator[Row]:
    """The two problems with two right answers: their probabilities with given and learnt rules."""
    name = UNDECIDABLE[0].partition("/")[0]
    every = load(folder, name)
    problems = [problem for problem in every if problem["id"] in UNDECIDABLE]
    matrices, targets = read_raven(problems)
    known, answers = read_raven([p for p in every if p["split"] == "train"])
    learnt = Reasoner().fit([known], [answers])
    for method, reasoner in (("given", Reasoner()), ("learnt", learnt)):
        found = reasoner.solve(matrices)
        for i, problem in enumerate(problems):
            highest = found.probabilities[i].sort(descending=True).values[:2].tolist()
            row = {"problem": problem["id"], "method": method, "highest": highest}
            yield row | {"target": float(found.probabilities[i, targets[i]])}


def raven_x(folder: Path) -> Iterator[Row]:
    """I-RAVEN-X: rules given or learnt on three columns and small ranges, sizes of the space, and m."""
    priors = {}
    train, answers = read_raven(load(folder, "center_single", "train"))
    for seed in SEEDS:
        order = torch.randperm(len(answers), generator=torch.Generator().manual_seed(seed))[:FEW]
        priors[seed] = Reasoner(seed=seed).fit([train[order]], [answers[order]]).prior
    files = {name: load(folder, name) for name in (*PLAIN, SMOOTHED)}
    files["harder"] = smoothed(files[SMOOTHED], HARDER, seed=0)
    for name, problems in files.items():
        matrices, targets = read_raven_x(problems)
        size = problems[0]["range"] + 1
        exact = exactly(lambda p, size=size: exact_numbers(p, size), problems)  # type: ignore[misc]
        yield {"problem": name, "method": "exact", **judged(exact, targets)}
        left = [consistent_numbers(p, size) for p in problems]
        yield {"problem": name, "method": "program", **program(left, problems)}
        for seed in SEEDS:
            for method in ("given", "learnt"):
                reasoner = Reasoner(seed=seed)
                reasoner.prior = None if method == "given" else priors[seed]
                solutions, milliseconds = timed(reasoner, matrices)
                row = {"problem": name, "method": method, "m": 1, "seed": seed, "ms": milliseconds}
                yield row | judged(solutions, targets) | {"distance": distance(solutions, exact)}
        for m, max_dim in ((1, 64), (1, 128), (1, 512), (1, 1024), (2, 256), (3, 256), (2, 1024)):
            if name in ("x_3x10_r1000", SMOOTHED, "harder"):
                solutions, milliseconds = timed(Reasoner(m=m, max_dim=max_dim), matrices)
                row = {"problem": name, "method": "size", "m": m, "max_dim": max_dim, "ms": milliseconds}
                yield row | judged(solutions, targets) | {"distance": distance(solutions, exact)}


def sizes(_: Path) -> Iterator[Row]:
    """Choose the size of the space on generated problems of range 1,000 with ten confounders, smoothed."""
    plain = generate(200, 10, 1000, 10, seed=1)
    wrapped = [p | {key: [[[v] for v in panel] for panel in p[key]] for key in ("context", "answers")} for p in plain]
    matrices, targets = read_raven_x(smoothed(wrapped, 0.51, seed=2))
    for max_dim in (32, 64, 128, 256, 512):
        solutions, milliseconds = timed(Reasoner(max_dim=max_dim), matrices)
        yield {"problem": "generated", "method": "size", "max_dim": max_dim, "ms": milliseconds} | judged(
            solutions, targets
        )


def baselines(folder: Path) -> Iterator[Row]:
    """Networks on the attributes, trained on all training problems of a configuration, and on few."""
    for name in CONFIGURATIONS:
        (train, answers), (test, targets) = (read_raven(load(folder, name, split)) for split in ("train", "test"))
        x, tested = networks.features(train), networks.features(test)
        for kind in networks.KINDS:
            setting = networks.choose(kind, x, answers)
            for seed in SEEDS:
                rate, epochs = setting["rate"], int(setting["epochs"])
                model, _ = networks.fit(kind, x, answers, rate=rate, epochs=epochs, seed=seed)
                right = round(networks.accuracy(model, tested, targets) * len(targets))
                row = {"problem": name, "method": kind, "seed": seed, "setting": setting}
                yield row | {"right": right, "total": len(targets)}


def composed(_: Path) -> Iterator[Row]:
    """Rows of moves, the third of which is the second after the first: where order matters."""
    yield from moves.measure(SEEDS)


PARTS = {
    "raven": raven,
    "undecidable": undecidable,
    "x": raven_x,
    "sizes": sizes,
    "networks": baselines,
    "moves": composed,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and store."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the files of I-RAVEN and I-RAVEN-X")
    parser.add_argument("--only", choices=PARTS, action="append", help="measure this part, keep the others")
    options = parser.parse_args(given)
    torch.set_num_threads(1)
    path = RESULTS / f"{NAME}.json"
    report: Row = json.loads(path.read_text()) if options.only and path.exists() else {}
    for part in options.only or PARTS:
        rows = []
        for row in PARTS[part](options.data):
            print({key: value for key, value in row.items() if key not in ("bins", "setting")}, flush=True)
            rows.append(row)
        report[part] = rows
        report[f"{part} by"] = command(f"{NAME}.measure", given, {"--data": "DATA"})
    store(report | {"facts": facts()}, RESULTS, NAME)


if __name__ == "__main__":
    main()
