"""What is measured on each table. A contestant is a function, so that others can take the place of ghrr."""

from __future__ import annotations

import random
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from . import kinds, peers
from .columns import write
from .tables import Document, Table, damaged, with_copies

Searcher = Callable[[Sequence[Document], Sequence[Document]], list[int]]
Finder = Callable[[Sequence[Document]], set[tuple[int, int]]]
Filter = Callable[[Sequence[Document], list["Condition"]], list[Any]]
Condition = dict[str, Document]
Row = dict[str, Any]
_EXAMPLES = 200
_CONDITIONS = 24
_SHOWN = 3
_READ_DATES = ("iso", "time", "object")


# ---------------------------------------------------------------------------------------------------------------- kinds


def infer_search_kinds(table: Table) -> dict[str, str]:
    """Return the kinds that ``RecordIndex`` infers, by name of a column."""
    from ghrr.search.fields import infer_kind  # noqa: PLC0415 (peers have environments without ghrr)
    from ghrr.search.paths import columns  # noqa: PLC0415

    return {".".join(path): infer_kind(path, column).kind for path, column in columns(table.documents()).items()}


def infer_learn_kinds(table: Table) -> dict[str, str]:
    """Return the kinds that ``TableFeatures`` infers."""
    import pandas as pd  # noqa: PLC0415

    from ghrr.learn.table_columns import guess_kind  # noqa: PLC0415

    frame = pd.DataFrame(table.documents())
    return {str(name): guess_kind(frame[name]).kind for name in frame}


def score_kinds(table: Table, inferred: dict[str, str], room: str) -> Row:
    """Return how many columns have a correct kind, and the wrong ones with some of their values."""
    counted = [one for one in table.columns if one.truth != kinds.NOT_COUNTED and one.name in inferred]
    wrong = []
    for column in counted:
        got = inferred[column.name]
        if not kinds.is_correct(column.truth, got, room):
            values = [write(column.truth, column.style, row[column.name]) for row in table.raw if column.name in row]
            shown = [str(value)[:40] for value in values[:_SHOWN]]
            facts = {"truth": column.truth, "style": column.style, "got": got, "values": shown}
            wrong.append(
                {"column": column.name, **facts, "present": len(values), "distinct": len(set(map(str, values)))}
            )
    return {"columns": len(counted), "right": len(counted) - len(wrong), "wrong": wrong}


# --------------------------------------------------------------------------------------------------------------- search


def ghrr_search(hand_set: dict[str, str] | None = None) -> Searcher:
    """Return ghrr as a contestant, with its defaults or with kinds set by hand."""

    def search(documents: Sequence[Document], examples: Sequence[Document]) -> list[int]:
        from ghrr.search import RecordIndex  # noqa: PLC0415

        index = RecordIndex(kinds=hand_set)
        index.add(list(documents))
        found = index.search_many(list(examples), 1)
        return [int(hits[0].guess) if hits else -1 for hits in found]

    return search


def kinds_by_hand(table: Table) -> dict[str, str]:
    """Return the kinds that somebody who knows the columns and ghrr would set; dates that it cannot read are text."""
    unread = {one.name: "text" for one in table.columns if one.truth == "date" and one.style not in ("", *_READ_DATES)}
    return {one.name: kinds.BY_HAND[one.truth] for one in table.columns if one.truth != kinds.NOT_COUNTED} | unread


def searchers(table: Table) -> dict[str, Searcher]:
    """Return all contestants of the search."""
    return {
        "ghrr": ghrr_search(),
        "ghrr, kinds by hand": ghrr_search(kinds_by_hand(table)),
        "ghrr, all text": ghrr_search({one.name: "text" for one in table.columns}),
        **{f"TF-IDF, {name}": peers.tfidf_search(name) for name in peers.TFIDF},
    }


def recall(table: Table, searcher: Searcher) -> Row:
    """Return the share of damaged examples whose row is found first."""
    examples, correct = damaged(table, _EXAMPLES)
    start = time.perf_counter()
    found = searcher(table.documents(), examples)
    hits = sum(a == b for a, b in zip(found, correct, strict=True))
    return {"recall@1": hits / max(1, len(correct)), "examples": len(correct), "seconds": time.perf_counter() - start}


# ----------------------------------------------------------------------------------------------------------- duplicates


def ghrr_duplicates(documents: Sequence[Document]) -> set[tuple[int, int]]:
    """Return the pairs that ghrr finds without settings."""
    from ghrr.search import RecordIndex  # noqa: PLC0415

    index = RecordIndex()
    index.add(list(documents))
    found = [sorted(map(int, cluster.ids)) for cluster in index.duplicates()]
    return {(a, b) for own in found for n, a in enumerate(own) for b in own[n + 1 :]}


def pair_scores(found: set[tuple[int, int]], correct: set[tuple[int, int]]) -> Row:
    """Return precision, recall and F1 of pairs."""
    both = len(found & correct)
    return {
        "precision": both / max(1, len(found)),
        "recall": both / max(1, len(correct)),
        "f1": 2 * both / max(1, len(found) + len(correct)),
        "found": len(found),
    }


def f1_of_copies(table: Table, finder: Finder) -> Row:
    """Return how well a contestant finds the copies in a table."""
    documents, correct = with_copies(table)
    start = time.perf_counter()
    found = finder(documents)
    return {**pair_scores(found, correct), "pairs": len(correct), "seconds": time.perf_counter() - start}


def pairs_without_copies(table: Table, finder: Finder) -> Row:
    """Return how many pairs a contestant finds in a table that has none."""
    return {"found": len(finder(table.documents())), "rows": len(table.raw)}


def best_tfidf_f1(table: Table) -> Row:
    """Return the best F1 of TF-IDF over its variants and all thresholds."""
    documents, correct = with_copies(table)
    scores = {name: peers.best_threshold(peers.tfidf_pairs(name, documents), correct) for name in peers.TFIDF}
    best = max(scores, key=lambda name: scores[name])
    return {"f1": scores[best], "variant": best, "pairs": len(correct), "all": scores}


# -------------------------------------------------------------------------------------------------------------- filters


def conditions(table: Table) -> list[tuple[str, Condition, set[int]]]:
    """Return random conditions: what they test, the condition, and the rows that fulfil it by brute force.

    A range has its ends in the style of the column and includes them. Rows are compared as they are written, with the
    digits that the style shows. A condition on text is that it contains these letters, on a list that it contains this
    element, and on all others that they are equal. None is a missing value.
    """
    rng = random.Random(f"{table.name} conditions")  # noqa: S311
    made = []
    for _ in range(_CONDITIONS):
        one = _condition(table, rng)
        if one is not None:
            what, part, rows = one
            everything = set(range(len(table.raw)))
            which = rng.choice(("must", "must_not"))
            made.append((f"{which}: {what}", {which: part}, rows if which == "must" else everything - rows))
    return made


def _condition(table: Table, rng: random.Random) -> tuple[str, Document, set[int]] | None:
    from ghrr.search import Contains  # noqa: PLC0415

    column = rng.choice([one for one in table.columns if one.truth not in (kinds.NOT_COUNTED, "many categories")])
    name, truth = column.name, column.truth
    present = {row: raw[name] for row, raw in enumerate(table.raw) if name in raw}
    if not present:
        return None
    if rng.random() < 0.12:
        return f"None, {truth}", {name: None}, set(range(len(table.raw))) - set(present)
    value = rng.choice(list(present.values()))
    if truth in ("number", "money", "percent", "number string", "coordinate", "year", "date") and rng.random() < 0.7:
        return _range(column, value, rng.choice(list(present.values())), rng, present)
    if truth == "number" and rng.random() < 0.4:
        return "0", {name: 0}, {row for row, one in present.items() if one == 0}
    if truth in ("text", "name"):
        word = max(str(value).split(), key=len)
        rows = {row for row, one in present.items() if word.casefold() in str(one).casefold()}
        return "text contains", {name: Contains(word)}, rows
    if truth == "set":
        element = rng.choice(value)
        return "set contains", {name: [element]}, {row for row, one in present.items() if element in one}
    asked = write(truth, column.style, value)
    rows = {row for row, one in present.items() if write(truth, column.style, one) == asked}
    return f"equal, {truth}", {name: asked}, rows


def _range(
    column: Any, one: Any, other: Any, rng: random.Random, present: dict[int, Any]
) -> tuple[str, Document, set[int]]:
    from ghrr.search import Range  # noqa: PLC0415

    present = {row: _as_shown(column.style, value) for row, value in present.items()}
    low, high = sorted(_as_shown(column.style, value) for value in (one, other))
    open_end = rng.choice(("", "", "low", "high"))
    rows = {
        row
        for row, value in present.items()
        if (open_end == "low" or low <= value) and (open_end == "high" or value <= high)
    }
    ends = [
        None if open_end == end else write(column.truth, column.style, v) for end, v in (("low", low), ("high", high))
    ]
    what = "open range" if open_end else "range"
    return f"{what}, {column.truth}", {column.name: Range(*ends)}, rows


def _as_shown(style: str, value: Any) -> Any:
    """Return a number with the digits that its style shows, and other values as they are."""
    digits = re.search(r"\.(\d)f", style)
    return float(f"{value:.{digits[1]}f}") if digits else value


def ghrr_filter(documents: Sequence[Document], asked: list[Condition]) -> list[Any]:
    """Return the rows that ghrr finds for each condition, or an error."""
    from ghrr.search import RecordIndex  # noqa: PLC0415

    index = RecordIndex()
    index.add(list(documents))
    answers: list[Any] = []
    for one in asked:
        try:
            answers.append(
                {
                    int(hit.guess)
                    for hit in index.search(
                        documents[0], len(documents), must=one.get("must"), must_not=one.get("must_not")
                    )
                }
            )
        except (ValueError, TypeError, KeyError) as error:
            answers.append(f"{type(error).__name__}: {error}"[:200])
    return answers


def wrong_filters(table: Table, contestant: Filter) -> Row:
    """Return how many answers to conditions are wrong, by what they test."""
    made = conditions(table)
    answers = contestant(table.documents(), [condition for _, condition, _ in made])
    asked, wrong = Counter(what for what, _, _ in made), Counter[str]()
    shown: list[str] = []
    for (what, condition, rows), answer in zip(made, answers, strict=True):
        if answer != rows:
            wrong[what] += 1
            got = answer if isinstance(answer, str) else f"{len(answer - rows)} outside, {len(rows - answer)} missed"
            shown.append(f"{condition!r:.90} -> {got}; {len(rows)} correct")
    return {"asked": dict(asked), "wrong": dict(wrong), "examples": shown[: 2 * _SHOWN]}


# ------------------------------------------------------------------------------------------------------------- learning


def hd_estimator(is_classes: bool) -> Any:
    """Return ``HDClassifier()`` or ``HDRegressor()`` as it comes, with TableFeatures if it takes no tables itself."""
    from ghrr.learn import HDClassifier, HDRegressor, TableFeatures  # noqa: PLC0415

    made = HDClassifier if is_classes else HDRegressor
    default = made()
    return default if default.encoder == "auto" else made(TableFeatures())


def fold_scores(goal: Any, estimator: Any) -> Row:
    """Return mean accuracy, or R², over five folds."""
    import numpy as np  # noqa: PLC0415
    import pandas as pd  # noqa: PLC0415
    from sklearn.base import clone  # noqa: PLC0415
    from sklearn.model_selection import KFold, StratifiedKFold  # noqa: PLC0415

    frame = pd.DataFrame(goal.rows)
    splitter = (StratifiedKFold if goal.is_classes else KFold)(5, shuffle=True, random_state=0)
    scores = []
    start = time.perf_counter()
    for train, test in splitter.split(frame, goal.target):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = clone(estimator).fit(frame.iloc[train], goal.target[train])
            scores.append(model.score(frame.iloc[test], goal.target[test]))
    return {"score": float(np.mean(scores)), "seconds": time.perf_counter() - start}
