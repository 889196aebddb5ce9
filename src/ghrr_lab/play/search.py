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
from ghrr.checks import short_repr
from ghrr.search import Explanation, RecordIndex, RecordMatch
from ghrr_lab.paper.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED
from ghrr_lab.play.json_text import read_object
from ghrr_lab.play.messy_records import COUNT, SETS, records
from ghrr_lab.play.own_files import documents_of, file_name
from ghrr_lab.play.pictures import draw_figure, mark, message, paragraph, short_label
from ghrr_lab.play.tab import Choice, Failure, File, Slider, Tab, Text, Values, View

HITS = 5
MAX_ROWS = 2000
_SAMPLE = 3  # fields of the first example for a file
_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, RED, GREY, BLACK)
_FIRST = SETS["products"].texts


def draw(values: Values, _: Any = None) -> View:
    """Search for the example; draw the score of each hit as the sum of its fields, and list the documents."""
    file, texts = values["documents"], _fitting_texts(values)
    example = read_object(texts["example"], "the example")
    must = _read_optional(texts["must"], "what must agree")
    must_not = _read_optional(texts["must_not"], "what must not agree")
    weights = _read_optional(texts["weights"], "the factors of weights")
    space = ghrr.Space(values["dim"], values["m"])
    index = index_of_file(file, space) if file else make_index(values["records"], space)
    count = len(index)
    compared = min(values["candidates"], count)
    conditions: dict[str, Any] = {"must": must, "must_not": must_not, "weights": weights}
    try:
        hits = index.search(example, HITS, candidates=compared, **conditions)
        best = index.search(example, 1, candidates=count, **conditions)
        reasons = [index.explain(hit.guess, example, weights=weights) for hit in hits]
    except KeyError as error:  # a weight of an unknown field
        raise ValueError(error.args[0]) from None
    code = _code(values, space, example, conditions, compared)
    updates: dict[str, dict[str, Any]] = {key: {"value": text} for key, text in texts.items() if text != values[key]}
    updates["records"] = {"visible": not file}
    if not hits:
        return View(paragraph(f"None of the {count} records fulfils the conditions."), code, updates)

    def figure(figure: Figure) -> None:
        axis = figure.subplots()
        places = range(len(hits))
        start = [0.0] * len(hits)
        for field, colour in zip(reasons[0].weights, _COLOURS, strict=False):
            widths = [_part(reason, field) for reason in reasons]
            axis.barh(places, widths, left=start, color=colour, label=short_label(field))
            start = [a + b for a, b in zip(start, widths, strict=True)]
        for place, hit in enumerate(hits):
            axis.text(hit.score + 0.02, place, f"{hit.score:.2f}", va="center", fontsize=9, color=BLACK)
        axis.set_yticks(places, [f"record {hit.guess}" for hit in hits], fontsize=9)
        axis.set(xlim=(0, 1.12), ylim=(len(hits) - 0.4, -0.6), xlabel="score, as a sum over fields")
        axis.set_xticks([0, 0.5, 1])
        if reasons[0].weights:  # empty if all factors are 0
            legend = axis.legend(loc="lower left", bbox_to_anchor=(-0.12, 1), ncols=2, fontsize=9)
            for text in legend.get_texts():
                text.set_parse_math(False)

    same = best[0].guess == hits[0].guess
    found = (
        f"Record {hits[0].guess} is the best of all {count}."
        if same
        else f"Record {best[0].guess} of all {count} would be better, but its vector is not among the nearest."
    )
    summary = (
        f"{mark(same, found)} {compared} of {count} documents were compared, those with the most similar vectors "
        f"({2 * space.total_dim} bytes each)."
    )
    listed = "".join(_item(hit, reason) for hit, reason in zip(hits, reasons, strict=True))
    scores = ", ".join(f"record {hit.guess} {hit.score:.2f}" for hit in hits)
    description = f"Scores of the best {len(hits)} of {count} records for dim {space.dim}, m {space.m}: {scores}."
    picture = draw_figure(figure, height=2.6, description=description)
    if reasons[0].weights and hits[0].score == 0:
        likely = json.dumps(hits[0].document, ensure_ascii=False)
        picture = (
            message(
                "No record has anything in common with the example, so all scores are 0; expected values that are "
                f"similar to those of a record, such as {short_repr(likely)}"
            )
            + picture
        )
    return View(picture + paragraph(summary, f'<ol class="ghrr-hits">{listed}</ol>', _fields(index)), code, updates)


def _fitting_texts(values: Values) -> dict[str, str]:
    """Return the texts; texts that another set of records starts with are replaced by the chosen set's own."""
    start = sample_texts(values["documents"]) if values["documents"] else SETS[values["records"]].texts
    return {
        key: own if values[key] in [one.texts[key] for one in SETS.values()] else values[key]
        for key, own in start.items()
    }


def sample_texts(file: str) -> dict[str, str]:
    """Return texts to start with for a file: the first fields of its first record as example, and no conditions."""
    first = _documents(file)[0]
    filled = {key: value for key, value in first.items() if value not in (None, "", [], {})}
    example = dict(list(filled.items())[:_SAMPLE]) or {"*": "text"}
    return {"example": json.dumps(example, ensure_ascii=False), "must": "", "must_not": "", "weights": ""}


def _read_optional(text: str, name: str) -> dict[str, Any] | None:
    return read_object(text, name) if text.strip() not in ("", "{}") else None


@lru_cache(maxsize=32)
def make_index(name: str, space: ghrr.Space) -> RecordIndex:
    """Return the index of a set of records."""
    index = RecordIndex(space)
    index.add(records(name))
    return index


@lru_cache(maxsize=4)
def _documents(file: str) -> list[dict[str, Any]]:
    return documents_of(file, max_rows=MAX_ROWS)


@lru_cache(maxsize=4)
def index_of_file(file: str, space: ghrr.Space) -> RecordIndex:
    """Return the index of the records in a file of the user."""
    index = RecordIndex(space)
    index.add(_documents(file))
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


def _code(
    values: Values, space: ghrr.Space, example: dict[str, Any], conditions: dict[str, Any], candidates: int
) -> str:
    given = "".join(f"    {key}={value!r},\n" for key, value in conditions.items() if value is not None)
    name = file_name(values["documents"])
    origin, data = ("ghrr.search", "read_documents") if name else ("ghrr_lab.play.messy_records", "records")
    weights = "" if conditions["weights"] is None else f", weights={conditions['weights']!r}"
    return f"""\
import ghrr
from {origin} import {data}

index = ghrr.search.RecordIndex(ghrr.Space(dim={space.dim}, m={space.m}))
index.add({data}({name or values["records"]!r}))
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
    notice="Describe a record by any part of it, with errors if you like: the most similar records are found. Drop a "
    "file to search in your own.",
    controls=(
        File(
            "documents",
            "drop a file of your own here",
            1_000_000,
            MAX_ROWS,
            resets=("example", "must", "must_not", "weights"),
        ),
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
        {"records": "people", "documents": "", **SETS["people"].texts, "dim": 4, "m": 1, "candidates": HITS}
        | {"example": '{"name": {"last": "Lovelase"},\n "home": {"street": "high street", "city": "leeds"}}'},
    ),
    terms="One vector per record finds candidates; their documents are compared field by field, and missing fields are "
    "neutral. A file stays in your browser and in the memory of this server, which does not store it.",
)
