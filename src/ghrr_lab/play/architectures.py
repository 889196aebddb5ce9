"""Models: two architectures on the same task, at an equal number of reals."""

from __future__ import annotations

from typing import Any

import torch
from matplotlib.figure import Figure

from ghrr_lab import paper
from ghrr_lab.comparison.contestants import CORE, TITLES, sized
from ghrr_lab.paper.style import BLUE, ORANGE
from ghrr_lab.play.pictures import draw_figure, paragraph, table
from ghrr_lab.play.tab import Choice, Failure, Slider, Tab, Values, View

NAMES = {TITLES[name]: name for name in CORE if name != "tpr"}
# The experiment of each task, its axis, and settings that take less than a second.
TASKS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "records": ("compare-records", "pairs in the record", {"pairs": [2, 4, 8, 16, 32], "records": 3}),
    "trees": ("compare-trees", "depth of the tree", {"depth": 5, "trees": 3}),
    "nested records": (
        "compare-nested-records",
        "depth of nesting",
        {"depth": 6, "fields": 3, "keys": 12, "records": 10},
    ),
    "sequences, by powers of a key": ("compare-sequences", "length", {"lengths": [2, 4, 8, 16], "sequences": 3}),
}
_SEQUENCES = "by binding"


def draw(values: Values, _: Any = None) -> View:
    """Measure both models on the task, and draw their shares of correct answers and their facts."""
    experiment, axis_label, sizes = TASKS[values["task"]]
    settings = {"reals": values["reals"], "candidates": 100, **sizes}
    titles = [values["first"], values["second"]]
    curves = [_measure(experiment, NAMES[title], settings) for title in titles]

    def figure(figure: Figure) -> None:
        axis = figure.subplots()
        for (x, y), title, colour, style in zip(curves, titles, (BLUE, ORANGE), ("o-", "s--"), strict=True):
            axis.plot(x, y, style, color=colour, ms=6, label=title)
        axis.set(xticks=curves[0][0], ylim=(-0.05, 1.05), xlabel=axis_label, ylabel="share read correctly")
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)

    shares = "; ".join(f"{title}: {y[-1]:.2f}" for title, (_, y) in zip(titles, curves, strict=True))
    summary = f"share read correctly ({axis_label}: {curves[0][0][-1]:g}): {shares}"
    code = f"""\
import torch
from ghrr_lab import paper

settings = {settings!r}
experiment = paper.COMPARISONS[{experiment!r}]
shares = []
for title, model in {[(title, NAMES[title]) for title in titles]!r}:
    generator = torch.Generator().manual_seed(0)
    data = experiment.run_trial(settings, {{"model": model, "budget": "reals"}}, generator)
    data = data[data["task"] != "by shift"]
    largest = data[data["x"] == data["x"].max()]
    shares.append(f"{{title}}: {{largest['value'].mean():.2f}}")
print("share read correctly ({axis_label}: {curves[0][0][-1]:g}): " + "; ".join(shares))
"""
    description = f"Two models at {values['reals']} reals per vector; {summary}."
    picture = draw_figure(figure, height=3.2, description=description)
    return View(picture + paragraph(f"S{summary[1:]}.", _facts(titles, settings)), code)


def _measure(experiment: str, model: str, settings: dict[str, Any]) -> tuple[list[float], list[float]]:
    """Return sizes and shares of correct answers of one trial."""
    generator = torch.Generator().manual_seed(0)
    data = paper.COMPARISONS[experiment].run_trial(settings, {"model": model, "budget": "reals"}, generator)
    if "lengths" in settings:
        data = data[data["task"] == _SEQUENCES]
    means = data.groupby("x")["value"].mean()
    return [float(x) for x in means.index], [float(y) for y in means]


def _facts(titles: list[str], settings: dict[str, Any]) -> str:
    models = [sized({"model": NAMES[title], "budget": "reals"}, settings) for title in titles]
    facts = [model.facts for model in models]
    rows = {
        "commutes": ["yes" if f.commutative else "no" for f in facts],
        "associates": ["yes" if f.associative else "no" for f in facts],
        "inverse": [f.inverse + (", of itself" if f.self_inverse else "") for f in facts],
        "bytes per vector": [f"{model.bytes_per_vector:,}" for model in models],
        "cost of binding": [f.bind_cost for f in facts],
        "proposed by": [f.paper for f in facts],
    }
    return table(["", *titles], [[name, *cells] for name, cells in rows.items()])


TAB = Tab(
    name="models",
    title="Models",
    notice="Two ways to compute with vectors, on the same task and with as many numbers per vector. Most hold about as "
    "much; they differ in whether order counts.",
    controls=(
        Choice("first", "first model", tuple(NAMES), "FHRR"),
        Choice("second", "second model", tuple(NAMES), "GHRR, m = 3"),
        Choice("task", "task", tuple(TASKS), "records"),
        Slider("reals", "reals per vector", 72, 576, 288, 72),
    ),
    draw=draw,
    terms="Models differ in whether binding commutes and associates, whether unbinding is exact, and in cost. Reals "
    "are the numbers that a vector stores; a complex number is two.",
    failure=Failure("Make it fail: a commutative model reads a tree", {"task": "trees", "first": "FHRR"}),
)
