"""Matrices: pick or edit a matrix of panels, and see the rules that explain it and the answer they predict."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ghrr.reasoning import Entities, Matrices, Reasoner, RuleExplanation, draw_panel, read_raven
from ghrr_lab.paper.style import BLUE, GREY
from ghrr_lab.play.pictures import draw_figure, mark
from ghrr_lab.play.tab import Choice, Failure, Slider, Tab, Text, Values, View

TYPES = {"triangle": 1, "square": 2, "pentagon": 3, "hexagon": 4, "circle": 5}
ANSWERS = 8
OWN = "my own, written below"
_START = """\
square 1 3 | circle 2 3 | triangle 3 3
circle 0 7 | triangle 1 7 | square 2 7
triangle 2 5 | square 3 5
circle 4 5 | circle 3 5 | triangle 4 5 | circle 4 8 | square 4 5 | circle 5 5 | circle 4 2 | hexagon 4 5"""
EXAMPLES = {
    "shapes take turns, sizes grow": _START,
    "the greys of two panels add up": """\
hexagon 3 1 | hexagon 3 4 | hexagon 3 5
pentagon 3 2 | pentagon 3 6 | pentagon 3 8
square 3 3 | square 3 4
square 3 7 | square 3 6 | square 3 1 | circle 3 7 | square 2 7 | square 4 7 | pentagon 3 7 | square 3 8""",
    "sizes fall, greys fall, shapes stay": """\
circle 5 9 | circle 4 7 | circle 3 5
square 4 8 | square 3 6 | square 2 4
hexagon 2 6 | hexagon 1 4
hexagon 0 2 | hexagon 1 2 | hexagon 0 3 | square 0 2 | hexagon 0 1 | hexagon 2 2 | circle 0 2 | hexagon 1 1""",
    "all answers are wrong": _START.replace("circle 4 5 |", "pentagon 1 1 |", 1),
    "no rule": """\
square 1 7 | circle 5 0 | pentagon 2 5
hexagon 0 2 | pentagon 4 9 | triangle 3 1
triangle 5 4 | circle 1 8
circle 4 5 | circle 3 5 | triangle 4 5 | circle 4 8 | square 4 5 | circle 5 5 | circle 4 2 | hexagon 4 5""",
}
_LEVELS = {"type": tuple(TYPES.values()), "size": tuple(range(6)), "color": tuple(range(10))}


def draw(values: Values, _: Any = None) -> View:
    """Solve the matrix; draw its panels, the answers and their probabilities."""
    own = values["matrix"] == OWN
    text = values["panels"] if own else EXAMPLES[values["matrix"]]
    panels = parse_panels(text)
    problem = {"panels": panels, "target": 0}
    matrices, _targets = read_raven([problem])
    matrices = soften(matrices, values["certainty"] / 100)
    reasoner = Reasoner()
    solution, explanations = reasoner.solve(matrices), reasoner.explain(matrices)[0]
    probabilities = solution.probabilities[0].tolist()
    best, none = int(solution.guesses), float(solution.none)

    def figure(figure: Figure) -> None:
        parts: Any = figure.subfigures(2, 1, height_ratios=(3, 2.6))
        for i, axis in enumerate(parts[0].subplots(3, 3).flat):
            _frame(axis)
            if i < 8:
                axis.imshow(draw_panel(panels[i]), cmap="gray", vmin=0, vmax=255)
            else:
                axis.set_box_aspect(1)
                axis.text(0.5, 0.5, "?", ha="center", va="center", fontsize=22)
        for i, axis in enumerate(parts[1].subplots(2, 4).flat):
            _frame(axis)
            axis.imshow(draw_panel(panels[8 + i]), cmap="gray", vmin=0, vmax=255)
            axis.set_title(f"{chr(65 + i)}: {probabilities[i]:.1%}", color=BLUE if i == best else GREY, fontsize=10)

    sure = probabilities[best] >= 0.99
    answer = f"answer {chr(65 + best)}, probability {probabilities[best]:.1%}"
    verdict = f"{'' if sure else 'unsure: '}{answer}; none is right: {none:.1%}"
    rows = "".join(_row(explanation) for explanation in explanations)
    table = f"<table><tr><th>attribute</th><th>rule</th><th>probability</th><th>predicts</th></tr>{rows}</table>"
    shown = "; ".join(f"{e.attribute.rpartition('/')[2]}: {e.rule}" for e in explanations)
    description = f"A matrix of panels, and eight answers. {verdict}. Rules: {shown}"
    picture = draw_figure(figure, height=7.4, description=description)
    picture += f'<p class="ghrr-result">{mark(sure, html.escape(verdict))}</p><div class="ghrr-result">{table}</div>'
    return View(picture, _code(panels, values["certainty"] / 100), {"panels": {"visible": own}})


def _frame(axis: Axes) -> None:
    axis.set(xticks=[], yticks=[])
    for spine in axis.spines.values():
        spine.set_visible(True)


def parse_panels(text: str) -> list[list[dict[str, Any]]]:
    """Read three rows of panels and a line of answers; a panel is a type, a size and a grey."""
    lines = [line for line in text.splitlines() if line.strip()]
    parts = [[panel.split() for panel in line.split("|")] for line in lines]
    if [len(part) for part in parts] != [3, 3, 2, ANSWERS]:
        raise ValueError(
            f"play: the matrix must be lines of 3, 3 and 2 panels and a line of {ANSWERS} answers, separated by |; got "
            f"lines of {[len(part) for part in parts]}"
        )
    return [[{"layout": "Center_Single", "entities": [[0, *_parse(panel), 3]]}] for part in parts for panel in part]


def _parse(words: Sequence[str]) -> list[int]:
    numbers = [
        TYPES.get(words[0], 0) if words else 0,
        *(int(w) if w.isascii() and w.isdigit() else -1 for w in words[1:]),
    ]
    if len(numbers) != 3 or any(x not in levels for x, levels in zip(numbers, _LEVELS.values(), strict=True)):
        raise ValueError(
            f"play: a panel must be a shape ({', '.join(TYPES)}), a size from 0 to 5 and a grey from 0 to 9, such as "
            f"square 3 5; got {' '.join(words)!r}"
        )
    return numbers


def soften(matrices: Matrices, certainty: float) -> Matrices:
    """Give every level this probability, and divide the rest among the other levels."""
    softened = {}
    for name, attribute in matrices.attributes.items():
        assert isinstance(attribute, Entities)
        levels = torch.zeros(attribute.values.shape[-1])
        levels[list(_LEVELS[name.rpartition("/")[2]])] = 1.0
        others = (1 - attribute.values) * levels
        soft = certainty * attribute.values + (1 - certainty) * others / others.sum(dim=-1, keepdim=True)
        softened[name] = Entities(attribute.presence, soft)
    return Matrices(softened)


def _row(explanation: RuleExplanation) -> str:
    kind, level = explanation.attribute.rpartition("/")[2], explanation.predicted
    predicted = (
        "nothing" if level is None else next((n for n, k in TYPES.items() if kind == "type" and k == level), str(level))
    )
    cells = ("grey" if kind == "color" else kind, str(explanation.rule), f"{explanation.probability:.1%}", predicted)
    return f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"


def _code(panels: list[list[dict[str, Any]]], certainty: float) -> str:
    entities = [panel[0]["entities"][0] for panel in panels]
    imported = "\nfrom ghrr_lab.play.matrices import soften" if certainty < 1 else ""
    softened = f"\nmatrices = soften(matrices, {certainty})  # probability of each level" if certainty < 1 else ""
    return f"""\
from ghrr.reasoning import Reasoner, read_raven{imported}

# slot, type, size, grey and angle of each panel: eight of the matrix, then the answers
entities = {entities}
panels = [[{{"layout": "Center_Single", "entities": [entity]}}] for entity in entities]
matrices, _ = read_raven([{{"panels": panels, "target": 0}}]){softened}
reasoner = Reasoner()
solution = reasoner.solve(matrices)
for index, probability in enumerate(solution.probabilities[0].tolist()):
    print(f"{{chr(65 + index)}}: {{probability:.1%}}")
print(f"none is right: {{float(solution.none):.1%}}")
for explanation in reasoner.explain(matrices)[0]:
    print(explanation)
"""


TAB = Tab(
    name="matrices",
    title="Matrices",
    notice="Which panel completes the matrix? Rules that explain the rows predict the missing panel, and say how sure "
    "they are.",
    controls=(
        Choice("matrix", "matrix", (*EXAMPLES, OWN), next(iter(EXAMPLES))),
        Text("panels", "panels: shape, size 0 to 5, grey 0 to 9; the last line has the answers", _START, 4),
        Slider("certainty", "certainty of what is seen, in %", 40, 100, 99.9, 0.1),
    ),
    draw=draw,
    failure=Failure("Make it fail: a matrix without rules", {"matrix": "no rule"}),
    terms="A level is a power of one base hypervector, a distribution over levels is a weighted bundle, and a rule is "
    "a product of panels: adding levels is binding. The similarity of a prediction and a panel is the probability that "
    "they agree; Bayes' rule combines the panels, rules and attributes.",
)
