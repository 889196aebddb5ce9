"""Summary of the journals, and the tables of docs/results/first-try.md. The page shows the reported half alone."""

from __future__ import annotations

import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.paths import ROOT

RESULTS = ROOT / "results" / "first_try"
ESTIMATORS = ("ghrr", "RBF-SVC", "random forest", "histogram boosting", "logistic regression")
Entry = dict[str, Any]
Table = tuple[list[str], list[list[str]]]
_TFIDF = "TF-IDF"
_HAND = ("ghrr, kinds by hand", "ghrr, all text")
_SHOWN_WRONG = 12


def short(measured: str, result: Entry) -> str:
    """Return the numbers of a measurement on one line."""
    if "error" in result:
        return str(result["error"])
    cells = []
    for name, one in result.items():
        key = next((key for key in ("right", "recall@1", "f1", "score", "found", "error") if key in one), None)
        if key is not None:
            value = one[key]
            cells.append(f"{name} {value:.3f}" if isinstance(value, float) else f"{name} {value}")
        if "asked" in one:
            cells.append(f"{name} {sum(one['wrong'].values())} of {sum(one['asked'].values())} wrong")
    return ", ".join(cells)


# -------------------------------------------------------------------------------------------------------------- summary


def read_journals(folder: Path) -> list[Entry]:
    """Return the entries of all journals of a folder, the last one of each table and measure."""
    entries: dict[tuple[str, str], Entry] = {}
    for path in sorted(folder.glob("journal*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            entries[entry["table"], entry["measure"]] = entry
    return list(entries.values())


def summarize(entries: Sequence[Entry]) -> Entry:
    """Return the numbers of all measures, over the tables of these entries."""
    by_measure: dict[str, list[Entry]] = defaultdict(list)
    errors = []
    for entry in entries:
        if "error" in entry["result"]:
            errors.append({key: entry[key] for key in ("table", "measure")} | entry["result"])
        else:
            by_measure[entry["measure"]].append(entry)
    linked = {entry["table"]: entry["result"] for entry in by_measure["recordlinkage"]}
    return {
        "tables": len({entry["table"] for entry in entries}),
        "measured": {measure: _sizes(own) for measure, own in by_measure.items() if own},
        "errors": errors,
        "kinds": {room: _kinds([e["result"][room] for e in by_measure["kinds"]]) for room in ("search", "learn")},
        "search": _search(by_measure["search"]),
        "duplicates": _duplicates(by_measure["duplicates"], linked),
        "filters": _filters(by_measure["filters"]),
        "learn": _learn(by_measure["learn"]),
    }


def _sizes(entries: Sequence[Entry]) -> Entry:
    return {"tables": len(entries), "largest": max(entry["rows"] for entry in entries)}


def _kinds(rows: Sequence[Entry]) -> Entry:
    wrong = Counter((one["truth"], one["style"], one["got"]) for row in rows for one in row["wrong"])
    listed = [{"truth": t, "style": s, "got": g, "columns": n} for (t, s, g), n in wrong.most_common()]
    columns, right = (sum(row[key] for row in rows) for key in ("columns", "right"))
    return {"columns": columns, "right": right, "share": _share(right, columns), "wrong": listed}


def _search(entries: Sequence[Entry]) -> Entry:
    rows = []
    for entry in entries:
        recalls = {name: one["recall@1"] for name, one in entry["result"].items()}
        tfidf = max(value for name, value in recalls.items() if name.startswith(_TFIDF))
        by_hand = max(recalls[name] for name in ("ghrr", *_HAND))
        numbers = {"ghrr": recalls["ghrr"], "best TF-IDF": tfidf, "best kinds by hand": by_hand}
        rows.append({"table": entry["table"], "rows": entry["rows"], **{k: round(v, 4) for k, v in numbers.items()}})
    means = {name: _mean([row[name] for row in rows]) for name in ("ghrr", "best TF-IDF", "best kinds by hand")}
    behind = [row["best TF-IDF"] - row["ghrr"] for row in rows]
    return {
        "tables": len(rows),
        "mean": means,
        "worst behind TF-IDF": round(max(behind, default=0.0), 4),
        "behind by more than .05": sum(gap > 0.05 for gap in behind),
        "rows": rows,
    }


def _duplicates(entries: Sequence[Entry], linked: dict[str, Entry]) -> Entry:
    rows = []
    for entry in entries:
        result = entry["result"]
        ecm = linked.get(entry["table"], {})
        row = {
            "table": entry["table"],
            "rows": entry["rows"],
            **{f"ghrr {key}": round(result["ghrr"][key], 4) for key in ("f1", "precision", "recall")},
            "TF-IDF, best threshold": round(result["TF-IDF, best threshold"]["f1"], 4),
        }
        if "recordlinkage ECM" in ecm:
            row["recordlinkage ECM"] = round(ecm["recordlinkage ECM"]["f1"], 4)
        for name, one in (("ghrr", result), ("recordlinkage ECM", ecm)):
            if f"{name}, no copies" in one:
                row[f"{name}, pairs without copies"] = one[f"{name}, no copies"]["found"]
        rows.append(row)
    names = ("ghrr f1", "ghrr precision", "ghrr recall", "TF-IDF, best threshold", "recordlinkage ECM")
    without = {
        name: [row[key] == 0 for row in rows if (key := f"{name}, pairs without copies") in row]
        for name in ("ghrr", "recordlinkage ECM")
    }
    return {
        "tables": len(rows),
        "mean": {name: _mean([row[name] for row in rows if name in row]) for name in names},
        "lowest f1": min((row["ghrr f1"] for row in rows), default=None),
        "below .8": sum(row["ghrr f1"] < 0.8 for row in rows),
        "linked": sum("recordlinkage ECM" in row for row in rows),
        "no pair without copies": {name: _share(sum(flags), len(flags)) for name, flags in without.items()},
        "rows": rows,
    }


def _filters(entries: Sequence[Entry]) -> Entry:
    asked, wrong = Counter[str](), Counter[str]()
    for entry in entries:
        asked.update(entry["result"]["ghrr"]["asked"])
        wrong.update(entry["result"]["ghrr"]["wrong"])
    kinds = {what: {"asked": asked[what], "wrong": wrong[what]} for what in sorted(asked)}
    return {"tables": len(entries), "asked": asked.total(), "wrong": wrong.total(), "conditions": kinds}


def _learn(entries: Sequence[Entry]) -> Entry:
    rows = []
    for entry in entries:
        scores = {name: entry["result"][name].get("score") for name in ESTIMATORS}
        rows.append({key: entry[key] for key in ("table", "rows", "real", "classes")} | {"scores": scores})
    ranks = [mean_ranks(list(row["scores"].values())) for row in rows]
    return {
        "tables": len(rows),
        "real": sum(row["real"] for row in rows),
        "mean rank": {name: _mean([rank[n] for rank in ranks]) for n, name in enumerate(ESTIMATORS)},
        "failed": {name: sum(row["scores"][name] is None for row in rows) for name in ESTIMATORS},
        "rows": rows,
    }


def mean_ranks(scores: Sequence[float | None]) -> list[float]:
    """Return the rank of each score, 1 for the highest; equal scores share their mean rank, and None is last."""
    values = [float("-inf") if score is None else round(score, 6) for score in scores]
    above = [sum(other > value for other in values) for value in values]
    return [1 + n + (values.count(value) - 1) / 2 for n, value in zip(above, values, strict=True)]


def _mean(values: Sequence[float]) -> float | None:
    return round(statistics.mean(values), 4) if values else None


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def merged(stored: Entry, found: Entry) -> Entry:
    """Return a new summary of one half, with the stored values of the measures that are not in the journals."""
    if not found["measured"]:
        return stored
    kept = {name for name in stored.get("measured", {}) if name not in found["measured"]}
    values = {name: stored[name] for name in kept if name in stored}
    measured = {name: (stored if name in kept else found)["measured"][name] for name in {*kept, *found["measured"]}}
    errors = [one for one in stored.get("errors", []) if one["measure"] in kept] + found["errors"]
    tables = max(found["tables"], stored.get("tables", 0))
    return found | values | {"tables": tables, "measured": dict(sorted(measured.items())), "errors": errors}


def collect(folder: Path, out: Path) -> int:
    """Write the summary of the journals of a folder, by half; what was measured before and not again is kept."""
    from benchmarks.common.measuring import facts, store  # noqa: PLC0415 (needs torch; peers have environments without it)

    entries = read_journals(folder)
    halves = {half: [entry for entry in entries if entry["half"] == half] for half in ("tuning", "reported")}
    path = out / "summary.json"
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    summary = {
        **facts(),
        "command": "python -m benchmarks first_try run --data FOLDER --out FOLDER",
        **{half: merged(stored.get(half, {}), summarize(own)) for half, own in halves.items()},
    }
    store(summary, out, "summary")
    print(f"wrote {out / 'summary.json'}: {len(entries)} measurements")
    return 0


# ----------------------------------------------------------------------------------------------------------------- page


def _stored() -> Entry:
    summary: Entry = json.loads((RESULTS / "summary.json").read_text(encoding="utf-8"))
    return summary["reported"]  # type: ignore[no-any-return]


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3f}"


def overview() -> Table:
    """Each measure: on how many tables, what is wanted, and what is reached."""
    found = _stored()
    kinds, search, copies, filters, learn = (found[k] for k in ("kinds", "search", "duplicates", "filters", "learn"))
    means, pairs, ranks = search["mean"], copies["mean"], learn["mean rank"]
    without = copies["no pair without copies"]
    by_hand = means["ghrr"] / means["best kinds by hand"] if means["best kinds by hand"] else None
    others = "; ".join(f"{name} {_number(rank)}" for name, rank in ranks.items() if name != "ghrr")
    wanted_pairs = f"at least .95; TF-IDF with its best threshold {_number(pairs['TF-IDF, best threshold'])}; "
    lines = [
        ("kinds", "kinds of columns correct, search", "at least .98", _number(kinds["search"]["share"])),
        ("kinds", "kinds of columns correct, learn", "at least .98", _number(kinds["learn"]["share"])),
        ("search", "mean recall@1", f"best TF-IDF {_number(means['best TF-IDF'])}", _number(means["ghrr"])),
        ("search", "the same, relative to the best kinds by hand", "at least .98", _number(by_hand)),
        ("search", "tables with TF-IDF ahead by more than .05", "0", str(search["behind by more than .05"])),
        (
            "duplicates",
            "mean F1 of duplicates",
            f"{wanted_pairs}recordlinkage {_number(pairs['recordlinkage ECM'])}",
            _number(pairs["ghrr f1"]),
        ),
        ("duplicates", "tables with an F1 below .8", "0", str(copies["below .8"])),
        (
            "duplicates",
            "share of tables without copies in which no pair is found",
            f"at least .95; recordlinkage {_number(without['recordlinkage ECM'])}",
            _number(without["ghrr"]),
        ),
        ("filters", f"wrong answers to {filters['asked']:,} filters", "0", f"{filters['wrong']:,}"),
        ("learn", "classification and regression, mean rank", f"first; {others}", _number(ranks["ghrr"])),
    ]
    sizes = {name: f"{own['tables']}, up to {own['largest']:,} rows" for name, own in found["measured"].items()}
    return ["measure", "tables", "wanted", "ghrr"], [
        [title, sizes.get(measured, "none"), wanted, reached] for measured, title, wanted, reached in lines
    ]


def wrong_kinds(room: str) -> Table:
    """The most frequent columns of a wrong kind."""
    rows = _stored()["kinds"][room]["wrong"][:_SHOWN_WRONG]
    return ["columns of", "written as", "taken for", "columns"], [
        [one["truth"], f"`{one['style']}`" if one["style"] else "", one["got"], str(one["columns"])] for one in rows
    ]


def hardest(measured: str) -> Table:
    """The tables on which ghrr is worst."""
    if measured == "search":
        rows = sorted(_stored()["search"]["rows"], key=lambda row: row["ghrr"] - row["best TF-IDF"])
        names = ["ghrr", "best TF-IDF", "best kinds by hand"]
    else:
        rows = sorted(_stored()["duplicates"]["rows"], key=lambda row: row["ghrr f1"])
        names = ["ghrr f1", "ghrr precision", "ghrr recall", "TF-IDF, best threshold", "recordlinkage ECM"]
    shown = rows[:_SHOWN_WRONG]
    return ["table", "rows", *names], [
        [row["table"], f"{row['rows']:,}", *(_number(row.get(name)) for name in names)] for row in shown
    ]


def filters() -> Table:
    """Wrong answers by condition."""
    conditions = _stored()["filters"]["conditions"]
    return ["condition", "asked", "wrong"], [
        [what, str(own["asked"]), str(own["wrong"])] for what, own in conditions.items() if own["wrong"]
    ]


def learning() -> Table:
    """Accuracy, or R², of all estimators on each table."""
    rows = []
    for row in sorted(_stored()["learn"]["rows"], key=lambda row: (not row["real"], row["table"])):
        cells = ["failed" if row["scores"][name] is None else f"{row['scores'][name]:.3f}" for name in ESTIMATORS]
        rows.append([row["table"], "accuracy" if row["classes"] else "R²", f"{row['rows']:,}", *cells])
    return ["table", "score", "rows", *ESTIMATORS], rows


TABLES: dict[str, Any] = {
    "overview": overview,
    "kinds-search": lambda: wrong_kinds("search"),
    "kinds-learn": lambda: wrong_kinds("learn"),
    "search": lambda: hardest("search"),
    "duplicates": lambda: hardest("duplicates"),
    "filters": filters,
    "learning": learning,
}
VALUES: dict[str, Any] = {
    "tables": lambda: str(_stored()["tables"]),
    "linked": lambda: str(_stored()["duplicates"]["linked"]),
    "learn-tables": lambda: str(_stored()["learn"]["tables"]),
    "learn-real": lambda: str(_stored()["learn"]["real"]),
    "learn-failed": lambda: str(_stored()["learn"]["failed"]["ghrr"]),
}
