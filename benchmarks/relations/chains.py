"""Measure how well chains of relations are composed: CLUTRR, generated chains, pairs that were held out.

Usage::

    python -m benchmarks relations.chains --data FOLDER    # the folder with train-2-3 and train-2-3-4
    python -m benchmarks relations.chains --data FOLDER --only LSTM    # keep the other rows as they are stored

Stores ``results/benchmarks/relations_chains.json``; ``chain_figures.py`` draws it, ``documents.py`` writes its tables.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from benchmarks.common.measuring import command, facts, store
from benchmarks.common.paths import RESULTS
from benchmarks.relations.chain_baselines import CountedChains, Scores, chart_scores, pair_table, train_lstm, tune_lstm
from ghrr.relations.chains import (
    Example,
    RelationChains,
    Stories,
    generate_kinship_chains,
    kinship_rules,
    load_clutrr,
)
from ghrr.relations.chains.examples import LengthGroup, group_by_length, to_indices

NAME = "relations_chains"
FOLDERS = ("train-2-3", "train-2-3-4")
MODELS = ("hypervectors", "pairs added", "held out", "table", "LSTM", "LSTM, fixed")
FIXED = {"rate": 0.01, "epochs": 30}  # setting of the LSTM that was not tuned
NUMBERS = 512  # reals per relation
SIZES = (1, 2, 4, 8)
GENERATED = (10, 20, 50, 100)
FOLDS = 10
FEWER_SEEDS = 2  # of complex slots and of held-out pairs
LONG = 4  # chains of two and three steps are short, chains of at least this many are long
BINS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99)  # probabilities from which answers are counted together
# What training on two and three steps does not determine, as often as training on two to four steps has it.
UNDETERMINED = 6 * [Example(("father", "wife"), "mother"), Example(("mother", "husband"), "father")]
LABELS = ("folder", "model", "m", "numbers", "strict", "method", "parameters")
Row = dict[str, Any]
Counts = dict[str, list[int]]  # correct and total, by length


def new_model(m: int, seed: int, numbers: str = "real") -> RelationChains:
    """Return a model with 512 reals per relation."""
    per_slot = m**2 * (2 if numbers == "complex" else 1)
    return RelationChains(dim=NUMBERS // per_slot, m=m, numbers=numbers, seed=seed)


# ---------------------------------------------------------------------------------------------------------- evaluation


def count_right(
    predict: Scores, relations: Sequence[str], examples: Sequence[Example], labels: Sequence[int]
) -> Counts:
    """Count correct answers by label, which is a length; ``predict`` gives the answers to chains of one length."""
    index = {name: position for position, name in enumerate(relations)}
    chains = to_indices([example.chain for example in examples], index)
    targets = [index[example.target] for example in examples]
    correct, total = Counter[int](), Counter(labels)
    for group in group_by_length(chains, targets):
        hits = (predict(group.chains) == group.targets).tolist()
        correct.update(labels[position] for position, hit in zip(group.positions.tolist(), hits, strict=True) if hit)
    return {str(label): [correct[label], total[label]] for label in sorted(total)}


def measure(
    methods: dict[str, Scores],
    relations: Sequence[str],
    stories: Stories,
    generated: Row,
    untested: Sequence[str] = (),
) -> Iterator[Row]:
    """Yield the correct answers of each method on the test stories, by both lengths, and on generated chains."""
    lengths = [len(example.chain) for example in stories.examples]
    for method, predict in methods.items():
        row: Row = {
            "method": method,
            "path": count_right(predict, relations, stories.examples, lengths),
            "story": count_right(predict, relations, stories.examples, stories.steps),
        }
        for kind, examples in generated.items():
            if method == "chart" or (kind == "generated" and method not in untested):
                row[kind] = count_right(predict, relations, examples, [len(example.chain) for example in examples])
        yield row


def best(scores: Scores) -> Scores:
    """Return the answers of the highest scores."""
    return lambda chains: scores(chains).argmax(dim=1)


def generate(count: int, seed: int) -> Row:
    """Return generated chains with one possible answer, and a sample that includes contradictory ones."""
    kinds = {"generated": True, "generated, all": False}
    return {
        kind: [
            example
            for length in GENERATED
            for example in generate_kinship_chains(count, length, seed=1000 * seed + length, consistent=consistent)
        ]
        for kind, consistent in kinds.items()
    }


# -------------------------------------------------------------------------------------------------------------- trials


def run_hypervectors(folder: Path, m: int, numbers: str, seed: int, generated: Row) -> list[Row]:
    """Train on one folder and measure all methods."""
    data = load_clutrr(folder)
    model = new_model(m, seed, numbers).fit(data.train.examples)
    composer = model.composer
    methods = {
        "chart": best(composer.chart_scores),
        "chart of pairs": best(replace(composer, longest=2).chart_scores),
        "left to right": composer.left_to_right,
        "product": best(composer.product_scores),
    }
    rows = list(measure(methods, model.relations, data.test, generated, untested=["chart of pairs"]))
    matches = model.compose_many([example.chain for example in data.test.examples])
    rows[0]["calibration"] = {f"{low:.2f}": [0, 0, 0.0] for low in BINS}
    for match, example in zip(matches, data.test.examples, strict=True):
        if len(example.chain) >= LONG:
            found = rows[0]["calibration"][_bin(match.probability)]
            found[:] = found[0] + (match.guess == example.target), found[1] + 1, found[2] + match.probability
    rows[0]["unnamed"] = {f"{low:.2f}": [0] for low in BINS}
    for match in model.compose_many(unnamed_pairs(data.train.examples)):
        rows[0]["unnamed"][_bin(match.probability)][0] += 1
    return rows


def _bin(probability: float) -> str:
    return f"{max(low for low in BINS if low <= probability):.2f}"


def unnamed_pairs(examples: Sequence[Example]) -> list[tuple[str, str]]:
    """Return the pairs of steps for which neither the examples nor the rules of CLUTRR have a name."""
    named = {example.chain for example in (*examples, *kinship_rules())}
    steps = sorted({name for chain, _ in examples for name in chain})
    return [(a, b) for a in steps for b in steps if (a, b) not in named]


def run_with_pairs(folder: Path, seed: int, generated: Row) -> list[Row]:
    """Train with the compositions that the training chains leave open, and measure the chart."""
    data = load_clutrr(folder)
    model = new_model(8, seed).fit([*data.train.examples, *UNDETERMINED], calibrate=False)
    return list(measure({"chart": best(model.composer.chart_scores)}, model.relations, data.test, generated))


def group_training(folder: Path) -> tuple[list[LengthGroup], list[str]]:
    """Return the training chains as indices, and the names of the relations."""
    examples = load_clutrr(folder).train.examples
    relations = sorted({name for chain, target in examples for name in (*chain, target)})
    index = {name: position for position, name in enumerate(relations)}
    chains = to_indices([chain for chain, _ in examples], index)
    return group_by_length(chains, [index[target] for _, target in examples]), relations


def run_table(folder: Path, generated: Row) -> list[Row]:
    """Measure a counted table with the chart."""
    groups, relations = group_training(folder)
    scores = CountedChains(groups, len(relations))
    table, longest = pair_table(scores, len(relations)), groups[-1].chains.shape[1]
    methods = {"chart of pairs": best(chart_scores(table)), "chart": best(chart_scores(table, scores, longest))}
    return list(measure(methods, relations, load_clutrr(folder).test, generated))


def tune(folder: Path) -> list[Row]:
    """Tune the LSTM on a part of the training chains."""
    torch.set_num_threads(1)
    groups, relations = group_training(folder)
    return tune_lstm(groups, len(relations))


def run_lstm(folder: Path, settings: list[Row], seed: int, generated: Row) -> list[Row]:
    """Measure an LSTM alone and with the chart, each with the setting that was best for it."""
    groups, relations = group_training(folder)
    rows: list[Row] = []
    for method in ("alone", "chart of pairs"):
        setting = max(settings, key=lambda row: row[method])
        model, parameters = train_lstm(
            groups, len(relations), epochs=setting["epochs"], rate=setting["rate"], seed=seed
        )
        scores = model if method == "alone" else chart_scores(pair_table(model, len(relations)))
        rows += measure({method: best(scores)}, relations, load_clutrr(folder).test, generated)
        rows[-1]["parameters"] = parameters
    return rows


def run_held_out(folder: Path, m: int, seed: int, fold: int, strict: bool) -> list[Row]:
    """Train without a tenth of the pairs, and compose these. Strict: without all chains that contain one of them."""
    examples = load_clutrr(folder).train.examples
    counts: dict[tuple[str, ...], Counter[str]] = {}
    for chain, target in examples:
        if len(chain) == 2:
            counts.setdefault(chain, Counter())[target] += 1
    pairs = sorted(counts)
    random.Random(seed).shuffle(pairs)  # noqa: S311
    held = pairs[fold::FOLDS]
    kept = [
        example
        for example in examples
        if example.chain not in held and not (strict and set(pairwise(example.chain)) & set(held))
    ]
    answers = new_model(m, seed).fit(kept, calibrate=False).predict(held)
    wrong = [
        [*pair, counts[pair].most_common(1)[0][0], answer]
        for pair, answer in zip(held, answers, strict=True)
        if answer != counts[pair].most_common(1)[0][0]
    ]
    return [{"method": "table", "pairs": {"2": [len(held) - len(wrong), len(held)]}, "wrong": wrong}]


def time_all(data: Path) -> list[Row]:
    """Measure the seconds of training for all sizes."""
    return [{"folder": folder, "m": m, **time_training(data / folder, m)} for folder in FOLDERS for m in SIZES]


def time_training(folder: Path, m: int) -> Row:
    """Measure the processor seconds of training on one core, with and without the calibration."""
    examples = load_clutrr(folder).train.examples
    stamps: list[float] = []
    start = time.process_time()
    new_model(m, 0).fit(examples, progress=lambda _: stamps.append(time.process_time()))
    return {"vectors": stamps[-1] - start, "with calibration": time.process_time() - start}


def read_table(data: Path) -> Row:
    """Return the composition of every pair of relations that occur in chains, read out of learned vectors."""
    folder = data / FOLDERS[0]
    examples = load_clutrr(folder).train.examples
    model = new_model(8, 0).fit(examples, calibrate=False)
    steps = sorted({name for chain, _ in examples for name in chain})
    index = [model.relations.index(name) for name in steps]
    probabilities, best = model.probabilities()[index][:, index].max(dim=2)
    seen = {chain for chain, _ in examples if len(chain) == 2}
    cells = [
        [a, b, model.relations[int(best[i, j])], round(float(probabilities[i, j]), 3), (a, b) in seen]
        for i, a in enumerate(steps)
        for j, b in enumerate(steps)
    ]
    return {"folder": folder.name, "cells": cells}


# ----------------------------------------------------------------------------------------------------------------- run


def pool_seeds(rows: Sequence[Row]) -> list[Row]:
    """Add the counts of all seeds, and list the share of correct answers to long chains for each seed."""
    pooled: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = tuple(row.get(name) for name in LABELS)
        total = pooled.setdefault(key, {name: row[name] for name in LABELS if name in row})
        for name in (name for name, value in row.items() if isinstance(value, dict)):
            counts = total.setdefault(name, {})
            for length, found in row[name].items():
                before = counts.get(length, [0] * len(found))
                counts[length] = [round(a + b, 4) for a, b in zip(before, found, strict=True)]
        if "path" in row:
            correct, count = (sum(v[i] for length, v in row["path"].items() if int(length) >= LONG) for i in (0, 1))
            total.setdefault("by_seed", []).append(round(correct / count, 5))
        if "wrong" in row:
            total.setdefault("wrong", []).extend(row["wrong"])
    return list(pooled.values())


def trials(
    data: Path, generated: Sequence[Row], tuned: dict[str, list[Row]], folds: int
) -> list[tuple[Row, Callable[..., list[Row]], tuple[Any, ...]]]:
    """List all measurements: their labels, function and arguments."""
    found: list[tuple[Row, Callable[..., list[Row]], tuple[Any, ...]]] = []
    for folder in FOLDERS:
        path = data / folder
        for seed, chains in enumerate(generated):
            sizes = [(m, "real") for m in reversed(SIZES)] + [(m, "complex") for m in (1, 4) if seed < FEWER_SEEDS]
            for m, numbers in sizes:
                label: Row = {"folder": folder, "model": "hypervectors", "m": m, "numbers": numbers, "seed": seed}
                kinds = [] if numbers == "complex" else [*chains] if m == 8 else ["generated"]
                tested = {kind: chains[kind] for kind in kinds}
                found.append((label, run_hypervectors, (path, m, numbers, seed, tested)))
            consistent = {"generated": chains["generated"]}
            fixed = [{**FIXED, "alone": 0.0, "chart of pairs": 0.0}]
            for model, settings in (("LSTM", tuned.get(folder, [])), ("LSTM, fixed", fixed)):
                label = {"folder": folder, "model": model, "seed": seed}
                found.append((label, run_lstm, (path, settings, seed, consistent)))
            if folder == FOLDERS[0]:
                label = {"folder": folder, "model": "pairs added", "m": 8, "numbers": "real", "seed": seed}
                found.append((label, run_with_pairs, (path, seed, consistent)))
            for strict in (False, True) if seed < FEWER_SEEDS else ():
                for fold in range(folds):
                    label = {"folder": folder, "model": "held out", "m": 8, "seed": seed, "strict": strict}
                    found.append((label, run_held_out, (path, 8, seed, fold, strict)))
        every = {"generated": [example for chains in generated for example in chains["generated"]]}
        found.append(({"folder": folder, "model": "table", "seed": 0}, run_table, (path, every)))
    return found


def _run(trial: tuple[Row, Callable[..., list[Row]], tuple[Any, ...]]) -> list[Row]:
    torch.set_num_threads(1)
    label, function, arguments = trial
    return [{**label, **row} for row in function(*arguments)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all measurements and store them."""
    parser = argparse.ArgumentParser(description="Accuracy on chains of relations.")
    parser.add_argument("--data", type=Path, required=True, help="folder with train-2-3 and train-2-3-4")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--count", type=int, default=60, help="generated chains of each length and seed")
    parser.add_argument("--folds", type=int, default=FOLDS, help="tenths of the pairs to hold out, one after another")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--only", nargs="+", choices=MODELS, default=MODELS, help="models; the others stay as stored")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(list(sys.argv[1:] if arguments is None else arguments))
    torch.set_num_threads(1)
    rows: list[Row] = []
    kept: Row = {} if set(options.only) == set(MODELS) else json.loads((options.out / f"{NAME}.json").read_text())
    tuned = kept.get("settings", {}).get("lstm", {})
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        if "LSTM" in options.only:
            tuned = dict(zip(FOLDERS, pool.map(tune, [options.data / folder for folder in FOLDERS]), strict=True))
        generated = list(pool.map(generate, [options.count] * options.seeds, range(options.seeds)))
        listed = trials(options.data, generated, tuned, options.folds)
        listed = [trial for trial in listed if trial[0]["model"] in options.only]
        for number, found in enumerate(pool.map(_run, listed), 1):
            rows += found
            print(f"{number} of {len(listed)}", listed[number - 1][0], flush=True)
    pooled = pool_seeds(rows)
    report = {
        "command": command(NAME, ["--data", "FOLDER"]),
        **{name: kept.get(name, found) for name, found in facts().items()},  # of the run that measured the seconds
        "settings": {"numbers": NUMBERS, "lstm": tuned, "seeds": options.seeds, "count": options.count},
        "rows": [row for row in kept.get("rows", []) if row["model"] not in options.only] + pooled,
    }
    for name, measured in (("seconds", time_all), ("table", read_table)):
        report[name] = kept[name] if name in kept else measured(options.data)
    store(report, options.out, NAME)
    for row in pooled:
        if "by_seed" in row:
            print(*(row.get(name, "") for name in LABELS), *(f"{100 * share:.2f}" for share in row["by_seed"]))
