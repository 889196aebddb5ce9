"""A table of the user in the tab Learn: learn from three quarters of its rows, and predict the others."""

from __future__ import annotations

import html
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.model_selection import train_test_split

from ghrr.checks import short_repr
from ghrr.learn import explain, make_task
from ghrr_lab.paper.style import BLACK, BLUE, GREY, ORANGE
from ghrr_lab.play.own_files import file_name, table_of
from ghrr_lab.play.pictures import draw_figure, paragraph, short_label
from ghrr_lab.play.tab import Values, View

MAX_ROWS, MAX_COLUMNS = 2000, 60
MIN_ROWS = 8  # with a target
SHOWN = 8  # classes and columns in the picture
EXPLAINED = 100  # held-out rows


@dataclass(frozen=True)
class Outcome:
    """What a model that learned from a part of the rows says about the others."""

    kind: str
    truth: Any
    predicted: Any
    score: float
    baseline: float
    columns: list[tuple[str, float]]  # the most important ones, with their mean contribution
    notes: list[str]


def draw_table(values: Values) -> View:
    """Learn the chosen column of the table from the others, and draw how well held-out rows are predicted."""
    file = values["table"]
    options = column_names(file)
    target = values["target"] if values["target"] in options else suggest_target(file)
    outcome = learn_table(file, target, values["dim"], values["training"])
    classify = outcome.kind == "classification"
    count = len(outcome.truth)

    def figure(figure: Figure) -> None:
        result, columns = figure.subplots(1, 2)
        _draw_classes(result, outcome) if classify else _draw_numbers(result, outcome)
        _draw_columns(columns, outcome.columns)

    if classify:
        correct = int((outcome.truth == outcome.predicted).sum())
        summary = (
            f"{correct} of {count} held-out rows are correct ({outcome.score:.1%}); the most frequent class alone "
            f"would give {outcome.baseline:.1%}"
        )
    else:
        summary = f"R² is {outcome.score:.3f} on {count} held-out rows; 1 is exact, 0 is as good as the mean"
    text = f"The model learned <b>{html.escape(target)}</b> from the other columns. {summary[0].upper()}{summary[1:]}."
    description = f"Predictions of the column {target} for dim {values['dim']}: {summary}."
    picture = draw_figure(figure, height=3.2, description=description)
    updates: dict[str, dict[str, Any]] = {
        "target": {"choices": options, "value": target, "visible": True},
        "drawing": {"visible": False},
    }
    notes = "".join(f"<br>Note: {html.escape(note)}." for note in outcome.notes)
    return View(picture + paragraph(text, notes), _code(file, target, values, outcome.kind), updates)


def column_names(file: str) -> list[str]:
    """Return the names of the columns of a file."""
    return list(_table(file).columns)


def suggest_target(file: str) -> str:
    """Return the last column that has numbers or 2 to 20 different values; else the last column."""
    table = _table(file)
    usable = [name for name in table.columns if table[name].dtype.kind in "iuf" or 2 <= table[name].nunique() <= 20]
    return str((usable or list(table.columns))[-1])


@lru_cache(maxsize=4)
def _table(file: str) -> Any:
    return table_of(file, max_rows=MAX_ROWS, max_columns=MAX_COLUMNS)


@lru_cache(maxsize=8)
def learn_table(file: str, target: str, dim: int, training: str) -> Outcome:
    """Learn from three quarters of the rows, and predict the others."""
    task = make_task(_table(file), target)
    if len(task.y) < MIN_ROWS:
        raise ValueError(
            f"play: {short_repr(file_name(file))} has {len(task.y)} rows with a value of {short_repr(target)}, "
            f"expected at least {MIN_ROWS}; add rows or choose another column"
        )
    classify = task.kind == "classification"
    X, X_held_out, y, truth = train_test_split(task.X, task.y, random_state=0)
    model = task.model(dim=dim, training=training if classify else None).fit(X, y)
    baseline = (DummyClassifier() if classify else DummyRegressor()).fit(X, y)
    found = explain(model, X_held_out.iloc[:EXPLAINED], top=SHOWN)
    weights = found.groupby("feature")["magnitude"].mean().sort_values(ascending=False).head(SHOWN)
    return Outcome(
        task.kind,
        truth,
        model.predict(X_held_out),
        float(model.score(X_held_out, truth)),
        float(baseline.score(X_held_out, truth)),
        [(str(name), float(weight)) for name, weight in weights.items()],
        [note for note in task.notes if "--" not in note],  # options of the command line
    )


def _draw_classes(axis: Axes, outcome: Outcome) -> None:
    """Draw the share of each class that is recognised, the most frequent classes first."""
    names, counts = np.unique(outcome.truth, return_counts=True)
    names = names[np.argsort(-counts, kind="stable")][:SHOWN]
    shares = [float((outcome.predicted[outcome.truth == name] == name).mean()) for name in names]
    bars = axis.barh(range(len(names)), shares, color=BLUE)
    axis.bar_label(bars, [f"{share:.0%}" for share in shares], padding=3, fontsize=9)
    axis.set(xlim=(0, 1.35), xlabel="share of held-out rows\nthat is recognised")
    axis.set_xticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    _name_rows(axis, [str(name) for name in names])


def _draw_numbers(axis: Axes, outcome: Outcome) -> None:
    """Draw predicted against true numbers."""
    ends = [
        float(min(outcome.truth.min(), outcome.predicted.min())),
        float(max(outcome.truth.max(), outcome.predicted.max())),
    ]
    axis.plot(ends, ends, color=GREY, lw=1)
    axis.plot(outcome.truth, outcome.predicted, "o", color=BLUE, ms=3, mfc="none")
    axis.set(xlabel="true number", ylabel="predicted number")


def _draw_columns(axis: Axes, columns: list[tuple[str, float]]) -> None:
    axis.barh(range(len(columns)), [weight for _, weight in columns], color=ORANGE)
    axis.set(xlabel="how much the column\nmatters")
    axis.set_xticks([])
    _name_rows(axis, [name for name, _ in columns])


def _name_rows(axis: Axes, names: list[str]) -> None:
    axis.set_yticks(range(len(names)), [short_label(name, length=18) for name in names], fontsize=9, color=BLACK)
    for text in axis.get_yticklabels():
        text.set_parse_math(False)
    axis.set_ylim(max(len(names), 3) - 0.4, -0.6)


def _code(file: str, target: str, values: Values, kind: str) -> str:
    training = f", training={values['training']!r}" if kind == "classification" else ""
    return f"""\
from pathlib import Path
from sklearn.model_selection import train_test_split
from ghrr.learn import make_task
from ghrr_lab.play.own_files import table_of

name = {file_name(file)!r}
table = table_of(f"{{name}}\\n{{Path(name).read_text()}}", max_rows={MAX_ROWS}, max_columns={MAX_COLUMNS})
task = make_task(table, {target!r})
X, X_held_out, y, y_held_out = train_test_split(task.X, task.y, random_state=0)
model = task.model(dim={values["dim"]}{training}).fit(X, y)
print(f"score on held-out rows {{model.score(X_held_out, y_held_out):.3f}}")
"""
