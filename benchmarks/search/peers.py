"""Measure other packages on the sets of search.py, each in an environment of its own: they need other versions.

Usage::

    python -m benchmarks search.peers recordlinkage --febrl FOLDER
    python -m benchmarks search.peers splink --linkage FOLDER
    python -m benchmarks search.peers pyjedai --linkage FOLDER

recordlinkage finds duplicates in FEBRL 1 to 3 without labels. Pairs that share a given name, a surname, a date of
birth, a postcode or a number of social security are compared; names and addresses by Jaro-Winkler similarity of at
least 0.85.

splink and pyJedAI rank the records of the right table for each matched record of the left one, as in search.py. splink
compares the columns that both tables have by Jaccard similarity, and the number of shared rare words, for pairs that
share a word that is in at most 2 % of the records. It estimates the probabilities of agreement without labels: of
random pairs by sampling, and of matches by expectation maximisation on pairs with the same rarest word. pyJedAI joins
each record with its ten nearest by the cosine of sets of words or of character trigrams, without weights. It needs
neither blocks nor training.

For each package the best of at most four settings is kept, as for TF-IDF. Stores
``results/benchmarks/search_peers.json``.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import json
import logging
import re
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.common.paths import RESULTS
from benchmarks.search.sets import SEPARATORS, Documents, read_linkage, recall

BLOCKS = ("given_name", "surname", "date_of_birth", "postcode", "soc_sec_id")
STRINGS = ("given_name", "surname", "address_1", "suburb")
EXACT = ("date_of_birth", "soc_sec_id", "state", "postcode")
COMMON = 0.02  # share of records from which a word makes no block
Row = dict[str, Any]


# ------------------------------------------------------------------------------------------------------- recordlinkage


def duplicates(folder: Path, name: str) -> list[Row]:
    """Return precision, recall and F1 of each classifier of recordlinkage."""
    import pandas as pd  # noqa: PLC0415 (each package has an environment of its own)
    import recordlinkage as rl  # noqa: PLC0415

    table = pd.read_csv(folder / f"dataset{name}.csv", skipinitialspace=True, dtype=str, index_col=0)
    table.columns = table.columns.str.strip()
    table.index = table.index.str.strip()
    people = table.index.str.split("-").str[:2].str.join("-")
    start = time.perf_counter()
    indexer = rl.Index()
    for field in BLOCKS:
        indexer.block(field)
    pairs = indexer.index(table)
    compare = rl.Compare()
    for field in STRINGS:
        compare.string(field, field, method="jarowinkler", threshold=0.85, label=field)
    for field in EXACT:
        compare.exact(field, field, label=field)
    features = compare.compute(pairs, table)
    seconds = time.perf_counter() - start
    person = dict(zip(table.index, people, strict=True))
    counts = people.value_counts()
    right = int((counts * (counts - 1) // 2).sum())
    rows = []
    for label, classifier in (("ECM", rl.ECMClassifier(binarize=0.8)), ("k-means", rl.KMeansClassifier())):
        start = time.perf_counter()
        found = classifier.fit_predict(features)
        both = sum(person[a] == person[b] for a, b in found)
        scores = {"precision": both / max(1, len(found)), "recall": both / right, "f1": 2 * both / (len(found) + right)}
        took = seconds + time.perf_counter() - start
        rows.append({"set": f"FEBRL{name}", "method": f"recordlinkage {label}", **scores, "seconds": took})
        print(rows[-1], flush=True)
    return rows


# -------------------------------------------------------------------------------------------------------------- pyJedAI


def pyjedai(records: Documents, ids: list[str], examples: Documents, right: list[str]) -> list[Row]:
    """Return the recall of joins with the ten nearest records."""
    import pandas as pd  # noqa: PLC0415
    from pyjedai.datamodel import Data  # noqa: PLC0415
    from pyjedai.joins import TopKJoin  # noqa: PLC0415

    everything = sorted(set().union(*records) | set().union(*examples))
    shared = sorted(set().union(*records) & set().union(*examples))
    rows = []
    choices = (everything, shared) if everything != shared else (shared,)
    for columns, (tokens, title) in itertools.product(
        choices, (("standard", "words"), ("qgrams", "character trigrams"))
    ):
        left, other = (
            pd.DataFrame([{"key": str(n), **{c: one.get(c, "") for c in columns}} for n, one in enumerate(side)])
            for side in (examples, records)
        )
        data = Data(left, "key", columns, "left", other, columns, "key", "right", skip_ground_truth_processing=True)
        graph = TopKJoin(K=10, metric="cosine", tokenization=tokens, qgrams=3).fit(data, tqdm_disable=True)
        found = []
        for number in range(len(examples)):
            near = graph[number].items() if number in graph else ()
            best = sorted(((-edge["weight"], node) for node, edge in near if node >= len(examples)))
            found.append([ids[node - len(examples)] for _, node in best[:10]])
        setting = f"{title}, {'shared' if columns is shared else 'all'} columns"
        rows.append({"setting": setting, **recall(found, right)})
        print(rows[-1], flush=True)
    return rows


# --------------------------------------------------------------------------------------------------------------- splink


def splink(records: Documents, ids: list[str], examples: Documents, right: list[str]) -> list[Row]:
    """Return the recall of a Fellegi-Sunter model, with and without the number of shared rare words."""
    import pandas as pd  # noqa: PLC0415
    import splink.comparison_library as cl  # noqa: PLC0415
    from splink import Linker, SettingsCreator, block_on  # noqa: PLC0415
    from splink.backends.duckdb import DuckDBAPI  # noqa: PLC0415

    logging.getLogger("splink").setLevel(logging.ERROR)
    shared = sorted(set().union(*records) & set().union(*examples))
    filled = [c for c in shared if min(sum(c in one for one in side) / len(side) for side in (records, examples)) > 0.5]
    words = [[_words(one, shared) for one in side] for side in (examples, records)]
    counts = Counter(itertools.chain.from_iterable(itertools.chain(*words)))
    most = COMMON * (len(records) + len(examples))
    rows = []
    choices = (shared, filled) if filled and filled != shared else (shared,)
    for columns, with_words in itertools.product(choices, (False, True)):
        tables = [
            pd.DataFrame(
                [
                    {
                        "unique_id": n,
                        **{c: one.get(c) for c in shared},
                        "rare": [w for w in own if counts[w] <= most],
                        "rarest": min((w for w in own if counts[w] > 1), key=lambda w: (counts[w], w), default=None),
                    }
                    for n, (one, own) in enumerate(zip(side, texts, strict=True))
                ]
            )
            for side, texts in zip((examples, records), words, strict=True)
        ]
        api = DuckDBAPI()
        names = ("left_side", "right_side")
        frames = [api.register(table, dataset_display_name=name) for table, name in zip(tables, names, strict=True)]
        settings = SettingsCreator(
            link_type="link_only",
            comparisons=[
                *(cl.JaccardAtThresholds(column, [0.9, 0.8, 0.7, 0.6, 0.5]) for column in columns),
                *([cl.ArrayIntersectAtSizes("rare", [10, 8, 6, 5, 4, 3, 2, 1])] if with_words else []),
            ],
            blocking_rules_to_generate_predictions=[block_on("rare", arrays_to_explode=["rare"])],
            probability_two_random_records_match=1 / len(records),
        )
        linker = Linker(frames, settings, log_level=logging.ERROR)
        linker.training.estimate_u_using_random_sampling(max_pairs=1e6, seed=0)
        linker.training.estimate_parameters_using_expectation_maximisation(block_on("rarest"))
        scored = linker.inference.predict(threshold_match_probability=None).as_pandas_dataframe()
        near: dict[int, list[tuple[float, int]]] = {}
        for row in scored.itertuples():
            a, b = (row.unique_id_l, row.unique_id_r)
            a, b = (a, b) if row.source_dataset_l == "left_side" else (b, a)
            near.setdefault(int(a), []).append((-row.match_weight, int(b)))
        found = [[ids[b] for _, b in sorted(near.get(number, []))[:10]] for number in range(len(examples))]
        chosen = "all shared" if columns is shared else "mostly filled"
        setting = f"{chosen} columns, {'with' if with_words else 'without'} shared rare words"
        rows.append({"setting": setting, **recall(found, right)})
        print(rows[-1], flush=True)
    return rows


def _words(document: dict[str, str], columns: list[str]) -> list[str]:
    text = " ".join(document.get(column, "") for column in columns)
    return sorted(set(re.findall(r"\w+", text.lower())))


# ---------------------------------------------------------------------------------------------------------------- main


def main() -> None:
    """Measure one package on all sets and store the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", choices=("recordlinkage", "splink", "pyjedai"))
    parser.add_argument("--febrl", type=Path, help="folder with the FEBRL files")
    parser.add_argument("--linkage", type=Path, help="folder with the linkage sets")
    parser.add_argument("--sets", nargs="+", choices=tuple(SEPARATORS), default=tuple(SEPARATORS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    path = arguments.out / "search_peers.json"
    report: Row = json.loads(path.read_text()) if path.exists() else {}
    package = arguments.package
    if package == "recordlinkage":
        rows = [row for name in ("1", "2", "3") for row in duplicates(arguments.febrl, name)]
    else:
        kept = [row for row in report.get(package, {}).get("rows", []) if row["set"] not in arguments.sets]
        rows = kept
        for name in arguments.sets:
            tried = {"splink": splink, "pyjedai": pyjedai}[package](*read_linkage(arguments.linkage, name))
            rows.append({"set": name, "method": package, **max(tried, key=lambda row: row["recall@1"]), "tried": tried})
            print(name, rows[-1], flush=True)
    option = "--febrl" if package == "recordlinkage" else "--linkage"
    report[package] = {
        "rows": rows,
        "version": importlib.metadata.version(package),
        "command": f"python -m benchmarks search.peers {package} {option} FOLDER",
    }
    path.write_text(json.dumps(report, indent=1) + "\n")
