"""Search: find the records that are similar to an example, and see which fields agree.

The vectors of the records find candidates; the documents of the candidates are then compared field by field. The tab
also compares all documents, to show whether the vectors missed the best one.
"""

from __future__ import annotations

import html
import json
import pprint
from functools import lru_cache
from typing import Any

from matplotlib.figure import Figure

import ghrr
from ghrr.paper.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED
from ghrr.play.json_text import read_object
from ghrr.play.messy_records import COUNT, SETS, records
from ghrr.play.pictures import draw_figure, mark, paragraph
from ghrr.play.tab import Choice, Failure, Slider, Tab, Text, Values, View
from ghrr.search import Explanation, RecordIndex, RecordMatch

HITS = 5
_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, RED, GREY, BLACK)
_FIRST = SETS["products"].texts


def draw(values: Values, _: Any = None) -> View:
    """Search for the example; draw the score of each hit as the sum of its fields, and list the documents."""
    name, texts = values["records"], _fitting_texts(values)
    example = read_object(texts["example"], "the example")
    must = _read_optional(texts["must"], "what must agree")
    must_not = _read_optional(texts["must_not"], "what must not agree")
    weights = _read_optional(texts["weights"], "the factors of weights")
    space = ghrr.Space(values["dim"], values["m"])
    index = make_index(name, space)
    conditions: dict[str, Any] = {"must": must, "must_not": must_not, "weights": weights}
    try:
        hits = index.search(example, HITS, candidates=values["candidates"], **conditions)
        best = index.search(example, 1, candidates=COUNT, **conditions)
        reasons = [index.explain(hit.guess, example, weights=weights) for hit in hits]
    except KeyError as error:  # a weight of an unknown field
        raise ValueError(error.args[0]) from None
    code = _code(name, space, example, conditions, values["candidates"])
    updates = {key: {"value": text} for key, text in texts.items() if text != values[key]}
    if not hits:
        return View(paragraph(f"None of the {COUNT} records fulfils the conditions."), code, updates)

    def figure(figure: Figure) -> None:
        axis = figure.subplots()
        places = range(len(hits))
        start = [0.0] * len(hits)
        for field, colour in zip(reasons[0].weights, _COLOURS, strict=False):
            widths = [_part(reason, field) for reason in reasons]
            axis.barh(places, widths, left=start, color=colour, label=field)
            start = [a + b for a, b in zip(start, widths, strict=True)]
        for place, hit in enumerate(hits):
            axis.text(hit.score + 0.02, place, f"{hit.score:.2f}", va="center", fontsize=9, color=BLACK)
        axis.set_yticks(places, [f"record {hit.guess}" for hit in hits], fontsize=9)
        axis.set(xlim=(0, 1.12), ylim=(len(hits) - 0.4, -0.6), xlabel="score, as a sum over fields")
        axis.set_xticks([0, 0.5, 1])
        if reasons[0].weights:  # empty if all factors are 0
            axis.legend(loc="lower left", bbox_to_anchor=(-0.12, 1), ncols=2, fontsize=9)

    same = best[0].guess == hits[0].guess
    found = (
        f"Record {hits[0].guess} is the best of all {COUNT}."
        if same
        else f"Record {best[0].guess} of all {COUNT} would be better, but its vector is not among the nearest."
    )
    summary = (
        f"{mark(same, found)} The documents of the {values['candidates']} records with the most similar vectors "
        f"({2 * space.total_dim} bytes each) were compared."
    )
    listed = "".join(_item(hit, reason) for hit, reason in zip(hits, reasons, strict=True))
    scores = ", ".join(f"record {hit.guess} {hit.score:.2f}" for hit in hits)
    description = f"Scores of the best {len(hits)} of {COUNT} records for dim {space.dim}, m {space.m}: {scores}."
    picture = draw_figure(figure, height=2.6, description=description)
    return View(picture + paragraph(summary, f'<ol class="ghrr-hits">{listed}</ol>', _fields(index)), code, updates)


def _fitting_texts(values: Values) -> dict[str, str]:
    """Return the texts; those that another set of records starts with are replaced by those of the chosen set."""
    start = SETS[values["records"]].texts
    return {
        key: own if values[key] in [one.texts[key] for one in SETS.values()] else values[key]
        for key, own in start.items()
    }


def _read_optional(text: str, name: str) -> dict[str, Any] | None:
    return read_object(text, name) if text.strip() not in ("", "{}") else None


@lru_cache(maxsize=32)
def make_index(name: str, space: ghrr.Space) -> RecordIndex:
    """Return the index of a set of records."""
    index = RecordIndex(space)
    index.add(records(name))
    return index


def _part(reason: Explanation, field: str) -> float:
    """Return the part of a score that comes from a field."""
    terms = {name: weight * (reason.fields[name] or 0.0) for name, weight in reason.weights.items()}
    total = sum(terms.values())
    return reason.score * terms[field] / total if total else 0.0


def _fields(index: RecordIndex) -> str:
    found = ", ".join(f"{html.escape(field.name)} ({field.kind}, weight {field.weight:.1f})" for field in index.fields)
    return f"Fields found in the data: {found}. The field * is the text of all fields."


def _item(hit: RecordMatch, reason: Explanation) -> str:
    scores = ((name, reason.fields[name]) for name in reason.weights)
    fields = ", ".join(
        f"{html.escape(name)} {'missing' if score is None else f'{score:.2f}'}" for name, score in scores
    )
    document = html.escape(json.dumps(hit.document, ensure_ascii=False))
    return (
        f"<li><b>record {html.escape(hit.guess)}: score {hit.score:.2f}, probability {hit.probability:.1%}</b><br>"
        f"{fields}<br><code>{document}</code></li>"
    )


def _code(name: str, space: ghrr.Space, example: dict[str, Any], conditions: dict[str, Any], candidates: int) -> str:
    given = "".join(f"    {key}={value!r},\n" for key, value in conditions.items() if value is not None)
    weights = "" if conditions["weights"] is None else f", weights={conditions['weights']!r}"
    return f"""\
import ghrr
from ghrr.play.messy_records import records

index = ghrr.search.RecordIndex(ghrr.Space(dim={space.dim}, m={space.m}))
index.add(records({name!r}))
example = {pprint.pformat(example, width=80, sort_dicts=False)}
hits = index.search(
    example,
    k={HITS},
    candidates={candidates},
{given})
for hit in hits:
    print(f"record {{hit.guess}}: score {{hit.score:.2f}}, probability {{hit.probability:.1%}}", hit.document)
    print(index.explain(hit.guess, example{weights}))
"""


TAB = Tab(
    name="search",
    title="Search",
    notice="An example is any part of a document, with errors. One vector per record finds candidates; their documents "
    "are compared field by field, and missing fields are neutral.",
    controls=(
        Choice("records", f"{COUNT} records", tuple(SETS), "products"),
        Text("example", "an example, JSON", _FIRST["example"], lines=3),
        Text("must", "must agree, JSON", _FIRST["must"]),
        Text("must_not", "must not agree, JSON", _FIRST["must_not"]),
        Text("weights", "factors of the weights of fields, JSON", _FIRST["weights"]),
        Slider("candidates", "documents to compare", HITS, COUNT, 50),
        Slider("dim", "dim, number of slots", 4, 256, 64, 4),
        Slider("m", "m, size of a slot", 1, 4, 2),
    ),
    draw=draw,
    failure=Failure(
        f"Make it fail: vectors of 8 bytes, {HITS} documents to compare",
        {"records": "people", **SETS["people"].texts, "dim": 4, "m": 1, "candidates": HITS},
    ),
)
