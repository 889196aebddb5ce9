"""Find duplicates in FEBRL 1 to 3 with the unsupervised classifiers of recordlinkage, for comparison with search.py.

Usage, in an environment with recordlinkage (it needs older packages than ghrr)::

    python benchmarks/search_peers.py --febrl FOLDER

Pairs that share a given name, a surname, a date of birth, a postcode or a number of social security are compared; names
and addresses by Jaro-Winkler similarity of at least 0.85. Stores ``benchmarks/results/search_peers.json``. It imports
nothing of ghrr.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import recordlinkage as rl

RESULTS = Path(__file__).parent / "results"
BLOCKS = ("given_name", "surname", "date_of_birth", "postcode", "soc_sec_id")
STRINGS = ("given_name", "surname", "address_1", "suburb")
EXACT = ("date_of_birth", "soc_sec_id", "state", "postcode")


def measure(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return precision, recall and F1 of each classifier."""
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


def main() -> None:
    """Measure all sets and store the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--febrl", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = [row for name in ("1", "2", "3") for row in measure(arguments.febrl, name)]
    report = {"rows": rows, "versions": {"recordlinkage": rl.__version__}}
    path = arguments.out / "search_peers.json"
    path.write_text(
        json.dumps({**report, "command": "python benchmarks/search_peers.py --febrl FOLDER"}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
