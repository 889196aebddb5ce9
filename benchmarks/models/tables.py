"""Tables of the comparison of models, from the stored run of ``ghrr compare``.

Store a finished run, with its figures, and then write the documents::

    ghrr compare --full --out comparison
    python -m benchmarks models.tables comparison
    python -m benchmarks documents
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.common.paths import ROOT
from ghrr import models
from ghrr.files import atomic_write
from ghrr_lab.comparison.contestants import BYTES, CORE, DIAGONALITIES, REALS, TITLES, title
from ghrr_lab.comparison.dimensions import PUBLISHED
from ghrr_lab.comparison.model_figures import summarise
from ghrr_lab.comparison.order import PATHS, PRODUCTS
from ghrr_lab.paper import COMPARISONS

STORED = ROOT / "results" / "compare"
FIGURES = ROOT / "docs" / "results" / "images"
Table = tuple[list[str], list[list[str]]]
Measured = tuple[float, float]  # mean and standard error

# The columns of the summary: experiment, task, x, and a heading. Larger is better, except for order.
COLUMNS: tuple[tuple[str, str, float, str], ...] = (
    ("compare-bundling", "bundle", 32, "bundle of 32"),
    ("compare-records", "records", 32, "record of 32"),
    ("compare-nested-records", "nested records", 4, "4 levels nested"),
    ("compare-sequences", "by binding", 32, "sequence of 32"),
    ("compare-trees", "trees", 5, "tree of depth 5"),
    ("compare-robustness", "erased", 0.9, "90 % erased"),
    ("compare-order", PATHS, 2, "a.b against b.a"),
)
DIFFERENT = 2.0  # standard errors within which two shares are taken as equal


def store(run: Path) -> None:
    """Write the summary of a run and its figures to the repository."""
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    rows = []
    for name in COMPARISONS:
        table = summarise(pd.read_csv(run / f"{name}.csv"))
        for row in table.to_dict("records"):
            numbers = {key: round(float(row[key]), 5) for key in ("x", "mean", "error")}
            rows.append({"experiment": name, **{key: row[key] for key in ("task", "model", "budget")}, **numbers})
    STORED.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    for path, text in ((STORED / "summary.json", f"[\n{lines}\n]\n"), (STORED / "manifest.json", _dump(manifest))):
        with atomic_write(path) as target:
            target.write_text(text, encoding="utf-8")
    FIGURES.mkdir(exist_ok=True)
    for name in COMPARISONS:
        shutil.copyfile(run / "figures" / f"{name}.svg", FIGURES / f"{name}.svg")


def _dump(manifest: Any) -> str:
    return json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"


def _rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((STORED / "summary.json").read_text(encoding="utf-8"))
    return rows


def _value(rows: Sequence[dict[str, Any]], model: str, budget: str, column: Sequence[Any]) -> Measured | None:
    """Return mean and error of an entry in a column; models with one budget have it under "both"."""
    experiment, task, x = column[:3]
    for row in rows:
        key = (row["experiment"], row["task"], row["x"], row["model"])
        if key == (experiment, task, x, model) and row["budget"] in (budget, "both"):
            return row["mean"], row["error"]
    return None


def _format(value: Measured | None) -> str:
    return "–" if value is None else f"{round(value[0], 2) + 0.0:.2f} ± {value[1]:.2f}"  # no negative zero


def entries() -> list[tuple[str, str]]:
    """Return the rows of the summary: models of the core with their budgets."""
    return [(model, budget) for model in CORE for budget in ((REALS, BYTES) if model in ("bsc", "sbc") else ("both",))]


def summary() -> Table:
    """Shares of correct answers in every task, at the size where the models differ most."""
    rows = _rows()
    body = [
        [title(model, budget), *(_format(_value(rows, model, budget, column)) for column in COLUMNS)]
        for model, budget in entries()
    ]
    return ["model", *(column[3] for column in COLUMNS)], body


def winners() -> Table:
    """For each model, the tasks in which no model reads significantly more, at equal numbers and at equal bytes."""
    rows = _rows()
    tasks = [column for column in COLUMNS if column[0] != "compare-order"]
    wins: dict[tuple[str, str], list[str]] = {}
    for budget in (REALS, BYTES):
        for column in tasks:
            values = {model: _value(rows, model, budget, column) for model in CORE}
            found = {model: value for model, value in values.items() if value is not None}
            best = max(mean for mean, _ in found.values())
            error = next(error for mean, error in found.values() if mean == best)
            for model, (mean, own) in found.items():
                if mean >= best - DIFFERENT * math.hypot(own, error):
                    wins.setdefault((model, budget), []).append(column[3])
    body = [[TITLES[model], *(", ".join(wins.get((model, b), [])) or "–" for b in (REALS, BYTES))] for model in CORE]
    return ["model", "best with as many numbers", "best with as many bytes"], body


def facts() -> Table:
    """Facts of every model, from ``Architecture.facts``."""
    body = []
    for name in CORE:
        model = models.make(name, reals=576)
        f = model.facts
        inverse = "itself" if f.self_inverse else f.inverse
        body.append(
            [
                TITLES[name],
                *("yes" if fact else "no" for fact in (f.commutative, f.associative)),
                inverse,
                *(", ".join(f.sides), f.bind_cost, f"{model.bytes_per_vector:,}", f.paper),
            ]
        )
    head = [
        "model",
        "commutative",
        "associative",
        "inverse",
        "sides",
        "cost of binding",
        "bytes of 576 numbers",
        "paper",
    ]
    return head, body


def dimensions() -> Table:
    """Components for 99 % of 15 items: measured as published, published, and by theory."""
    rows = _rows()
    body = []
    for (name, task), (printed, published) in PUBLISHED.items():
        measured = _value(rows, name, "both", ("compare-dimensions", task, 15))
        shown = [_rounded(measured), f"{published:.0f}", _predicted(name, task)]
        body.append([printed, f"{TITLES[name]}, {task}", *shown])
    for name in ("fhrr", "smr", "hlb", "ghrr-2", "ghrr-3", "ghrr-4"):
        for task in ("bundle", "normalised bundle") if name.startswith("ghrr") else ("bundle",):
            measured = _value(rows, name, "both", ("compare-dimensions", task, 15))
            body.append(["–", f"{TITLES[name]}, {task}", _rounded(measured), "–", _predicted(name, task)])
    return ["published name", "here", "measured", "published", "theory"], body


def _rounded(value: Measured | None) -> str:
    return "–" if value is None else f"{value[0]:.0f} ± {value[1]:.0f}"


def _predicted(name: str, task: str) -> str:
    """Return the components that theory predicts for sums; there is no theory of normalised ones."""
    if task != "bundle":
        return "–"
    entry = models.MODELS[name]
    needed = models.dimension_for(entry.model, 15, 1000, **entry.settings)
    return f"{needed.reals_per_vector // (2 if needed.dtype.is_complex else 1):,}"


def _ratio(value: Measured | None) -> str:
    if value is None:
        return "–"
    return f"{value[0]:.2g}" if value[0] < 10 else f"{value[0]:.0f}"


def bind_time(model: str) -> str:
    """Time of bind, relative to FHRR."""
    value = _value(_rows(), model, "both", ("compare-cost", "bind", 2304))
    return _ratio(value)


def ghrr() -> Table:
    """GHRR by m and diagonality: order, trees, records and bundles."""
    rows = _rows()
    columns = [
        column
        for column in COLUMNS
        if column[0] in ("compare-order", "compare-trees", "compare-records", "compare-bundling")
    ]
    names = [name for name in models.MODELS if name.startswith("ghrr")]
    body = [[TITLES[name], *(_format(_value(rows, name, "both", column)) for column in columns)] for name in names]
    return ["model", *(column[3] for column in columns)], body


def robustness() -> Table:
    """Shares read correctly after damage."""
    rows = _rows()
    columns = [
        ("compare-robustness", *rest)
        for rest in (
            ("erased", 0.75),
            ("erased", 0.9),
            ("flipped", 0.3),
            ("flipped", 0.4),
            ("noise", 2.0),
            ("noise", 4.0),
        )
    ]
    body = [
        [title(model, budget), *(_format(_value(rows, model, budget, column)) for column in columns)]
        for model, budget in entries()
    ]
    return ["model", "75 % erased", "90 % erased", "30 % flipped", "40 % flipped", "noise 2", "noise 4"], body


def order() -> Table:
    """Similarity of products and of paths in both orders."""
    rows = _rows()
    columns = [("compare-order", task, 2) for task in (PRODUCTS, PATHS)]
    names = [*entries(), *((name, "both") for name in DIAGONALITIES)]
    body = [
        [title(model, budget), *(_format(_value(rows, model, budget, column)) for column in columns)]
        for model, budget in names
    ]
    return ["model", "a∘b against b∘a", "a.b against b.a"], body


def shifts() -> Table:
    """Sequences read by powers of a key and by shifts."""
    rows = _rows()
    columns = [("compare-sequences", task, x) for task in ("by binding", "by shift") for x in (8, 16, 32)]
    body = [
        [title(model, budget), *(_format(_value(rows, model, budget, column)) for column in columns)]
        for model, budget in entries()
    ]
    return ["model", *(f"{x} {task}" for task in ("by binding", "by shift") for x in (8, 16, 32))], body


def cost() -> Table:
    """Times relative to FHRR."""
    rows = _rows()
    body = []
    for model, budget in entries():
        if budget != REALS:
            values = [
                _value(rows, model, budget, ("compare-cost", verb, 2304))
                for verb in ("bind", "unbind", "bundle", "cleanup")
            ]
            body.append([title(model, budget), *(_ratio(value) for value in values)])
    return ["model", "bind", "unbind", "bundle", "cleanup"], body


def statements() -> Table:
    """The statements that were tested, with their verdicts."""
    manifest = json.loads((STORED / "manifest.json").read_text(encoding="utf-8"))
    body = [
        [f"`{entry['name']}`", claim["says"], claim["verdict"]]
        for entry in manifest["experiments"]
        for claim in entry["claims"]
    ]
    return ["experiment", "statement", "verdict"], body


def command() -> str:
    """The command of the stored run, and the seconds that its trials took."""
    manifest = json.loads((STORED / "manifest.json").read_text(encoding="utf-8"))
    seconds = sum(entry["seconds"] for entry in manifest["experiments"])
    return f"`{manifest['command']}` ({seconds / 60:.0f} minutes of trials, on one thread each)"


TABLES = {
    "facts": facts,
    "summary": summary,
    "winners": winners,
    "dimensions": dimensions,
    "ghrr": ghrr,
    "order": order,
    "robustness": robustness,
    "sequences": shifts,
    "cost": cost,
    "statements": statements,
}


def main() -> None:
    """Store the summary of a run of ``ghrr compare``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of a finished run")
    folder = parser.parse_args().folder
    if not (folder / "manifest.json").is_file():
        parser.error(f"{folder} has no manifest.json, expected the folder of a finished run of `ghrr compare`")
    store(folder)
