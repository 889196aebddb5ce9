"""Records: a JSON document in one hypervector, read by path, while more and more fields are added to it.

The record has seen documents of the same form with other values, so each answer is chosen from several candidates.
"""

from __future__ import annotations

import html
import json
import pprint
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

import ghrr
from ghrr.capacity import recall_error
from ghrr.documents import Path, leaves
from ghrr.memory import Match
from ghrr.structures import CapacityWarning, answer_rate
from ghrr_lab.paper.style import BLACK, BLUE, ORANGE, RED
from ghrr_lab.play.json_text import read_object
from ghrr_lab.play.pictures import draw_figure, mark, paragraph, short_label
from ghrr_lab.play.tab import Choice, Failure, Slider, Tab, Text, Values, View

SEEN = 8  # documents
MAX_VALUES = 60  # of a document, so that all its paths can be shown
MAX_BARS = 12  # answers that the picture shows
MAX_DEPTH = 20
MORE = "more"  # key of the added fields
_GRID = (2, 10, 20, 35, 50, 75, 100, 150, 200, 250, 300, 400)
DOCUMENT = """\
{"name": "Ada",
 "born": {"city": "London", "year": 1815},
 "tags": ["poet", "countess"],
 "friend": {"name": "Charles", "born": {"city": "London"}}}"""


def draw(values: Values, _: Any = None) -> View:
    """Encode the document with further fields, read the path, and draw the share of correct answers at this load."""
    document = read_document(values["document"])
    paths = [path for path, _ in leaves(document)]
    names = [show_path(path) for path in paths]
    chosen = paths[names.index(values["path"])] if values["path"] in names else paths[0]
    more, dim, m = values["more"], values["dim"], values["m"]
    loaded = {**document, MORE: {f"field {i}": f"value {i}" for i in range(more)}} if more else document
    stored = list(leaves(loaded))
    space = ghrr.Space(dim, m)
    record = ghrr.Record(space)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CapacityWarning)  # the tab shows which answers are wrong
        vectors = record.encode_many([rotate_values(loaded, [value for _, value in stored], by=n) for n in range(SEEN)])
    matches = record.query_many(vectors[0], [path for path, _ in stored])
    correct = [same(match.guess, value) for match, (_, value) in zip(matches, stored, strict=True)]
    sure = [is_correct and match.confident for is_correct, match in zip(correct, matches, strict=True)]
    answer, is_correct = matches[paths.index(chosen)], correct[paths.index(chosen)]

    items, candidates = len(stored), max(2, round(sum(match.candidates for match in matches) / len(matches)))
    noise = {"candidates": candidates, "noise": space.noise_std, "crosstalk": space.crosstalk_std}
    measured = sum(correct) / items, sum(sure) / items
    expected = 1 - recall_error(items, **noise), answer_rate(space, items=items, candidates=candidates)

    shown = range(min(len(paths), MAX_BARS))
    bars_height = 1.1 + 0.24 * len(shown)

    def figure(figure: Figure) -> None:
        parts: Any = figure.subfigures(2, 1, height_ratios=(bars_height, 3.4))
        answers = [(names[i], correct[i], matches[i]) for i in shown]
        _draw_answers(parts[0].subplots(), answers, chosen=show_path(chosen))
        axis = parts[1].subplots()
        axis.plot(_GRID, [1 - recall_error(n, **noise) for n in _GRID], color=BLUE, lw=1.5, label="correct, theory")
        rates = [answer_rate(space, items=n, candidates=candidates) for n in _GRID]
        axis.plot(_GRID, rates, color=ORANGE, lw=1.5, ls="--", label="correct and confident, theory")
        axis.axvline(items, color=BLACK, lw=1, ls=":")
        axis.plot([items], measured[:1], "o", color=BLUE, ms=8, label="correct, measured")
        axis.plot([items], measured[1:], "s", color=ORANGE, ms=7, label="correct and confident, measured")
        axis.set(xlim=(0, 410), ylim=(0, 1.05), xlabel="values in the record", ylabel="share of answers")
        axis.legend(loc="lower left", bbox_to_anchor=(-0.12, 1), ncols=1)

    confidence = "confident" if answer.confident else "not confident"
    read = mark(is_correct, json.dumps(answer.guess, ensure_ascii=False))
    text = (
        f"<b>{html.escape(show_path(chosen))}</b> reads as {read}, with a probability of "
        f"{answer.probability:.1%} ({confidence}, score {answer.score:.2f}).<br>"
        f"Of all {items} values {sum(correct)} are read correctly (theory {expected[0]:.1%}), and {sum(sure)} of them "
        f"with confidence (theory {expected[1]:.1%})."
    )
    description = (
        f"Share of correct answers against the number of values. At {items} values {measured[0]:.3f} are correct, "
        f"theory {expected[0]:.3f}; {measured[1]:.3f} are correct and confident, theory {expected[1]:.3f}."
    )
    picture = draw_figure(figure, height=bars_height + 3.4, description=description)
    updates = {"path": {"choices": names, "value": show_path(chosen)}}
    return View(picture + paragraph(text), _code(document, chosen, more, space), updates)


def _draw_answers(axis: Axes, answers: Sequence[tuple[str, bool, Match]], *, chosen: str) -> None:
    """Draw the score of each answer, with what was read; the chosen path is bold."""
    kinds = [BLUE if correct and match.confident else ORANGE if correct else RED for _, correct, match in answers]
    axis.barh(range(len(answers)), [max(0.0, match.score) for _, _, match in answers], color=kinds, height=0.6)
    for row, (_, _, match) in enumerate(answers):
        text = short_label(json.dumps(match.guess, ensure_ascii=False))
        axis.text(max(0.0, match.score) + 0.02, row, text, va="center", fontsize=9).set_parse_math(False)
    axis.set_yticks(range(len(answers)), [short_label(name, length=24) for name, _, _ in answers], fontsize=9)
    for tick, (name, _, _) in zip(axis.get_yticklabels(), answers, strict=True):
        tick.set(parse_math=False, weight="bold" if name == chosen else "normal")
    axis.set(xlim=(0, 1.9), xticks=[0, 0.5, 1], ylim=(len(answers) - 0.4, -0.6), xlabel="score of the answer")
    meanings = {BLUE: "correct and confident", ORANGE: "correct, not confident", RED: "wrong"}
    handles = [Patch(color=colour, label=meaning) for colour, meaning in meanings.items()]
    axis.legend(handles=handles, loc="lower left", bbox_to_anchor=(-0.4, 1), ncols=2, fontsize=9)


def _code(document: dict[str, Any], path: Path, more: int, space: ghrr.Space) -> str:
    added = f'\ndocument[{MORE!r}] = {{f"field {{i}}": f"value {{i}}" for i in range({more})}}' if more else ""
    return f"""\
import ghrr
from ghrr.documents import leaves
from ghrr_lab.play.records import rotate_values

document = {pprint.pformat(document, width=80, sort_dicts=False)}{added}
values = [value for _, value in leaves(document)]
record = ghrr.Record(ghrr.Space(dim={space.dim}, m={space.m}))
# The record sees {SEEN} documents; in all but the first, the values are at other paths.
vectors = record.encode_many([rotate_values(document, values, by=n) for n in range({SEEN})])
print(record.query(vectors[0], {list(path)!r}))
"""


def read_document(text: str) -> dict[str, Any]:
    """Parse a document; raise ``ValueError`` unless it is an object with some values."""
    document = read_object(text, "the document")
    if MORE in document:
        raise ValueError(f"play: the document must not have the key {MORE!r}, which holds the added fields; rename it")
    found = list(leaves(document))
    if len(found) > MAX_VALUES:
        raise ValueError(f"play: the document has {len(found)} values, expected at most {MAX_VALUES}; remove some")
    deepest = max(len(path) for path, _ in found)
    if deepest > MAX_DEPTH:
        raise ValueError(f"play: the document is nested {deepest} levels deep, expected at most {MAX_DEPTH}")
    return document


def rotate_values(node: Any, values: list[Any], *, by: int) -> Any:
    """Return a document of the same form in which leaf i has the value i + ``by``, counted cyclically."""
    return _fill(node, iter([*values[by % len(values) :], *values[: by % len(values)]]))


def _fill(node: Any, values: Iterator[Any]) -> Any:
    if isinstance(node, dict) and node:
        return {key: _fill(child, values) for key, child in node.items()}
    if isinstance(node, list) and node:
        return [_fill(child, values) for child in node]
    return next(values)


def same(first: Any, second: Any) -> bool:
    """Return whether two values of JSON are equal; true is not 1."""
    return type(first) is type(second) and bool(first == second)


def show_path(path: Path) -> str:
    """Return a path as text."""
    return " → ".join(map(str, path))


TAB = Tab(
    name="records",
    title="Records",
    notice="One vector of fixed size holds the whole document. Choose a path: its value is read from the vector. The "
    "more fields the vector holds, the noisier are all answers, until they fail.",
    controls=(
        Text("document", "a JSON document", DOCUMENT, lines=5),
        Choice("path", "path to read", (), "born → city", open_ended=True),
        Slider("more", "further fields", 0, 300, 20),
        Slider("dim", "dim, number of slots", 20, 200, 100, 10),
        Slider("m", "m, size of a slot", 1, 4, 3),
    ),
    draw=draw,
    failure=Failure("Make it fail: add 300 fields to 60 slots", {"more": 300, "dim": 60}),
    terms="The vector is a bundle: the sum of the values, each bound to its path. An answer is the most similar of the "
    "values that the record has seen; it is confident if noise is an unlikely reason for its score. The number of "
    "slots and the size of a slot decide how many values fit, as theory predicts.",
)
