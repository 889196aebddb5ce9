"""Measure ghrr with its defaults on tables that no setting was chosen on.

::

    python -m benchmarks first_try run --data FOLDER --out FOLDER        # resumes from the journal in --out
    python -m benchmarks first_try run --out FOLDER --measures recordlinkage   # in an environment with recordlinkage
    python -m benchmarks first_try collect FOLDER                        # write results/first_try and the page

``real.py`` says what is in ``--data``. Without it only generated tables are measured. Tables are measured in the order
of their size. ``--half tuning`` leaves out the tables that are reported.
"""

from __future__ import annotations

import argparse
import functools
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from . import goals, measure, peers, real, report, tables
from .journal import Journal
from .tables import HALVES, Table

NOWHERE = Path("no data")


def measure_kinds(table: Table) -> dict[str, Any]:
    """Return the kinds of columns that search and learn infer, compared with the truth."""
    return {
        "search": measure.score_kinds(table, measure.infer_search_kinds(table), "search"),
        "learn": measure.score_kinds(table, measure.infer_learn_kinds(table), "learn"),
    }


def measure_search(table: Table) -> dict[str, Any]:
    """Return the recall of all contestants."""
    return {name: measure.recall(table, searcher) for name, searcher in measure.searchers(table).items()}


def measure_duplicates(table: Table) -> dict[str, Any]:
    """Return F1 with copies, and how many pairs are found without."""
    found = {
        "ghrr": measure.f1_of_copies(table, measure.ghrr_duplicates),
        "TF-IDF, best threshold": measure.best_tfidf_f1(table),
    }
    if table.pairs is None:
        found["ghrr, no copies"] = measure.pairs_without_copies(table, measure.ghrr_duplicates)
    return found


def measure_recordlinkage(table: Table) -> dict[str, Any]:
    """Return F1 of recordlinkage's ECM, and how many pairs it finds without copies."""
    finder = functools.partial(peers.recordlinkage_pairs, table)
    found = {"recordlinkage ECM": measure.f1_of_copies(table, finder)}
    if table.pairs is None:
        found["recordlinkage ECM, no copies"] = measure.pairs_without_copies(table, finder)
    return found


def measure_filters(table: Table) -> dict[str, Any]:
    """Return the wrong answers to conditions."""
    return {"ghrr": measure.wrong_filters(table, measure.ghrr_filter)}


def measure_goal(goal: goals.Goal) -> dict[str, Any]:
    """Return the scores of all estimators."""
    import pandas as pd  # noqa: PLC0415

    contestants = {"ghrr": measure.hd_estimator(goal.is_classes)}
    contestants |= peers.estimators(pd.DataFrame(goal.rows), goal.is_classes)
    found = {}
    for name, estimator in contestants.items():
        try:
            found[name] = measure.fold_scores(goal, estimator)
        except Exception as error:  # a first try that fails is a result
            found[name] = {"error": f"{type(error).__name__}: {error}"[:300]}
    return found


MEASURES: dict[str, tuple[Callable[[Any], dict[str, Any]], Callable[[Any], bool]]] = {
    "kinds": (measure_kinds, lambda table: table.examples is None or bool(table.columns)),
    "search": (
        measure_search,
        lambda table: table.examples is not None or (table.pairs is None and tables.can_search(table)),
    ),
    "duplicates": (
        measure_duplicates,
        lambda table: table.pairs is not None or (table.examples is None and tables.can_have_copies(table)),
    ),
    "filters": (measure_filters, lambda table: table.examples is None and len(table.raw) <= 3_000),
    "learn": (measure_goal, lambda goal: True),
    "recordlinkage": (
        measure_recordlinkage,
        lambda table: table.pairs is not None or (table.examples is None and tables.can_have_copies(table)),
    ),
}


def _tables(options: argparse.Namespace) -> Iterator[Table]:
    """Yield the tables of the chosen half in the order of their size."""
    wanted = [seed for seed in options.seeds if HALVES[seed % 2] in options.half]
    sizes = sorted((len(tables.generated(seed, options.rows).raw), seed) for seed in wanted)
    made: list[tuple[int, Callable[[], Table]]] = [
        (size, functools.partial(tables.generated, seed, options.rows)) for size, seed in sizes
    ]
    found = [one for one in real.search_tables(options.data) if one.half in options.half]
    if options.rows is not None:
        found = [one for one in found if len(one.raw) <= options.rows]
    made += [(len(one.raw), functools.partial(_same, one)) for one in found]
    names = sorted({entry.partition(":")[0] for half in options.half for entry in real.KEEL[half]})
    names = [name for name in names if real.keel_path(options.data, name).exists()]
    made += [(0, functools.partial(real.keel_table, options.data, name)) for name in names]
    for _, make in sorted(made, key=lambda pair: pair[0]):
        yield make()


def _same(table: Table) -> Table:
    return table


def run(options: argparse.Namespace) -> int:
    """Measure all that is not in the journal."""
    journal = Journal(options.out / f"journal-{options.journal}.jsonl")
    of_tables = [name for name in options.measures if name != "learn"]
    for table in _tables(options) if of_tables else ():
        names = [name for name in of_tables if MEASURES[name][1](table)]
        if table.name in KEEL_NAMES:
            names = [name for name in names if name == "kinds"]
        for name in names:
            _measure(journal, table, len(table.raw), name)
    if "learn" in options.measures:
        found = [goal for goal in goals.goals(options.data) if goal.half in options.half]
        for goal in sorted(found, key=lambda one: len(one.target)):
            if options.rows is None or len(goal.target) <= options.rows:
                _measure(journal, goal, len(goal.target), "learn")
    print(f"{len(journal.entries)} measurements in {journal.path}", flush=True)
    return 0


KEEL_NAMES = {entry.partition(":")[0] for names in real.KEEL.values() for entry in names}


def _measure(journal: Journal, subject: Any, rows: int, measured: str) -> None:
    name = subject.name
    if (name, measured) in journal:
        return
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = MEASURES[measured][0](subject)
        except Exception as error:  # a first try that fails is a result
            result = {"error": f"{type(error).__name__}: {error}"[:300]}
    seconds = round(time.perf_counter() - start, 2)
    entry = {
        "table": name,
        "half": subject.half,
        "rows": rows,
        "measure": measured,
        "seconds": seconds,
        "result": result,
    }
    if measured == "learn":
        entry |= {"real": subject.is_real, "classes": subject.is_classes}
    journal.add(entry)
    print(f"{name:<28}{measured:<14}{seconds:8.1f} s  {report.short(measured, result)}", flush=True)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    result = argparse.ArgumentParser(description="Measure ghrr with its defaults on tables nothing was chosen on.")
    parts = result.add_subparsers(dest="part", required=True)
    running = parts.add_parser("run", help="measure; resumes from the journal in --out")
    running.add_argument("--data", type=Path, default=NOWHERE, help="folder with the real tables")
    running.add_argument("--out", type=Path, required=True, help="folder of the journal")
    running.add_argument("--journal", default="all", help="name of the journal, to run measures in several processes")
    running.add_argument("--half", nargs="+", default=list(HALVES), choices=HALVES)
    running.add_argument(
        "--measures", nargs="+", default=[m for m in MEASURES if m != "recordlinkage"], choices=MEASURES
    )
    running.add_argument("--rows", type=int, help="largest table; generated tables are cut to this size")
    running.add_argument(
        "--seeds", type=int, nargs="*", default=list(tables.SEEDS), help="of generated tables; may be none"
    )
    collect = parts.add_parser("collect", help="write the summary and the page")
    collect.add_argument("folder", type=Path, help="folder of the journals")
    collect.add_argument("--out", type=Path, default=report.RESULTS)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the part that was asked for."""
    options = parser().parse_args(arguments)
    return run(options) if options.part == "run" else report.collect(options.folder, options.out)
