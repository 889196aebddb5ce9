"""Input that no page of the playground would send: a clear message, no stack trace, and the server stays up."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from html.parser import HTMLParser
from typing import Any

import pytest

from ghrr_lab.play.app import make_tabs
from ghrr_lab.play.limits import MAX_BYTES
from ghrr_lab.play.tab import Choice, Drawing, File, Slider, Steps, Text

pytestmark = pytest.mark.slow
TABS = {tab.name: tab for tab in make_tabs()}
MARKUP = "<img src=x onerror=alert(1)>"

NOT_NUMBERS: list[Any] = [
    -1,
    10**9,
    1e308,
    10**400,
    -0.5,
    "abc",
    "",
    "nan",
    "inf",
    "9" * 5000,
    None,
    True,
    [],
    {},
    [[1]],
]
NOT_CHOICES: list[Any] = ["other", "", MARKUP, None, 3, ["varying"], {"a": 1}, "x" * 50_000]
NOT_DOCUMENTS: list[Any] = [
    "",
    "{",
    "name: Ada",
    "null",
    "3",
    '"text"',
    "[]",
    "[1, 2]",
    "{}",
    '{"a": NaN}',
    '{"a": Infinity}',
    '{"a": 1e999}',
    '{"a": 1, "a": 2}',
    '{"a": "\\ud800"}',
    '{"\\ud800": 1}',
    '{"more": 1}',
    "[" * 10_000,
    '{"a":' * 150 + "1" + "}" * 150,
    '{"a":' * 30 + "1" + "}" * 30,
    json.dumps({str(n): n for n in range(61)}),
    json.dumps({"a": "x" * 30_000}),
    "{'name': 'Ada'}",
    "\x00",
    f"{MARKUP}{{",
    "<script>alert(1)</script>",
    "{{7*7}}${7*7}",
    "__import__('os').system('id')",
    "\ud800",
    None,
    17,
    ["{}"],
    {"path": "/etc/passwd"},
    json.dumps({"n": 10**4000}),
]
NOT_EXAMPLES: list[Any] = [
    *NOT_DOCUMENTS,
    '{"price": null}',
    '{"name": ""}',
    '{"price": "cheap"}',
    json.dumps({"price": 10**400}),
]
NOT_WEIGHTS: list[Any] = ['{"price": -1}', '{"price": "x"}', '{"price": null}', '{"prize": 1}', '{"price": 1e999}', "3"]
NOT_SENTENCES: list[Any] = ["", " \n\t ", "the " * 15, "the " * 6000, None, 3, ["the"], {"a": "b"}]
NOT_DRAWINGS: list[Any] = [
    "",
    "0" * 256,
    "f" * 255,
    "f" * 257,
    "F" * 256,
    "g" * 256,
    "f" * 256 + "\n",
    "٣" * 256,
    MARKUP,
    "f" * 50_000,
    "\x00" * 256,
    None,
    17,
    ["f" * 256],
    {"path": "/etc/passwd"},
]
NOT_STEPS: list[Any] = [
    "",
    " ",
    "father  sister",
    "father,sister",
    "father\nsister",
    "father cousin",
    "Father",
    MARKUP,
    " ".join(["father"] * 9),
    "father " * 9000,
    "\x00",
    None,
    17,
    ["father"],
    {"path": "/etc/passwd"},
]
NOT_FILES: list[Any] = [
    "people",
    "people.csv",
    "/etc/passwd\nroot",
    "\n",
    ".csv\n",
    "a.csv\n\x00",
    "a.parquet\nPAR1",
    "a.jsonl\n" + "[" * 10_000,
    'a.jsonl\n{"a": 1}\n{"a":',
    "a.csv\na,b\n1,2,3",
    "a.csv\na,b\n" + "1,2\n" * 3000,
    "a.csv\n" + "x" * 1_000_000,
    "a.jsonl\n" + '"' * 1_000_001,
    "a.csv\n" + "x" * 2_500_000,
    f"{MARKUP}.csv\n",
    None,
    17,
    ["a.csv\na,b\n1,2"],
    {"path": "/etc/passwd"},
]
FILES = {"search": "documents", "learn": "table"}
# Unusual, but valid: they are drawn, and nothing in them is HTML or a formula.
DOCUMENTS: list[Any] = [
    {MARKUP: MARKUP},
    {"<script>alert(1)</script>": "</div></figure><script>"},
    {'" onload="alert(1)': "'\"&<>"},
    {"$\\frac{$": "$x^$"},
    {"": {"": ""}},
    {"a": {}, "b": [], "c": None, "d": True, "e": 1, "f": 1.0, "g": "1", "h": [[], [{}]]},
    {"\u202eevil\u0007": "\u0000"},
    {"日本": "👩‍🚀"},
]
UNUSUAL: list[tuple[str, str, Any]] = [
    *(("records", "document", json.dumps(document, ensure_ascii=False)) for document in DOCUMENTS),
    ("records", "path", MARKUP),
    ("records", "path", "\u202e"),
    *(
        ("search", "example", json.dumps(example))
        for example in (
            {"name": MARKUP},
            {"*": "$x^$ <script>"},
            {"name": ["a", 3, "日本"]},
            {"price": 1e308, MARKUP: 1},
        )
    ),
    *(("search", "weights", text) for text in (" ", "{}", '{"name": 0, "price": 0, "shop.city": 0, "*": 0}')),
    *(
        ("attention", "text", text)
        for text in (MARKUP, "$\\frac{$ $x^$", "<eos> <unk> ⏎", "日本 👩‍🚀 \u202e", "a\x00b")
    ),
    *(("learn", "drawing", drawing) for drawing in ("f" * 256, "8" + "0" * 255, "0" * 255 + "1", "f" * 8 + "0" * 248)),
    *(
        (name, control, file)
        for name, control in FILES.items()
        for file in (f"{MARKUP}.csv\n{MARKUP},$\\frac{{$\n" + f"{MARKUP},1\n日本,2\n" * 9,)
    ),
    *(("family", "chain", steps) for steps in ("wife", "mother wife", "wife sister mother", " ".join(["uncle"] * 8))),
    *(("order", "m", value) for value in ("3", 3.0, "3e0")),
]


def invalid_inputs() -> list[tuple[str, str, Any]]:
    cases: list[tuple[str, str, Any]] = []
    for tab in TABS.values():
        sliders = [control for control in tab.controls if isinstance(control, Slider)]
        choices = [control for control in tab.controls if isinstance(control, Choice) and not control.open_ended]
        cases += [(tab.name, sliders[n % len(sliders)].name, value) for n, value in enumerate(NOT_NUMBERS)]
        cases += [(tab.name, choices[n % len(choices)].name, value) for n, value in enumerate(NOT_CHOICES) if choices]
    cases += [("records", "document", document) for document in NOT_DOCUMENTS]
    cases += [("records", "path", path) for path in NOT_CHOICES if not isinstance(path, str)]
    cases += [("search", "example", example) for example in NOT_EXAMPLES]
    cases += [("search", "weights", weights) for weights in NOT_WEIGHTS]
    cases += [("search", setting, '{"name": ') for setting in ("must", "must_not")]
    cases += [("learn", "drawing", drawing) for drawing in NOT_DRAWINGS]
    cases += [("family", "chain", steps) for steps in NOT_STEPS]
    cases += [(name, control, file) for name, control in FILES.items() for file in NOT_FILES]
    return cases + [("attention", "text", text) for text in NOT_SENTENCES]


def post(url: str, body: bytes) -> bytes:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return bytes(response.read())


class Elements(HTMLParser):
    """The names of all elements and attributes of a picture."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes.update(name for name, _ in attrs)


def test_elements_and_attributes_of_users_are_recognised() -> None:
    parser = Elements()
    parser.feed(f'<g a="\' onload=">"/> onload="x" {MARKUP}')
    assert (parser.names, parser.attributes) == ({"g", "img"}, {"a", "src", "onerror"})


def draw(address: str, name: str, **changes: Any) -> str:
    """Call a tab as a program would, and return its picture; ``error: …`` if the server refuses the call."""
    data = [changes.get(control.name, control.default) for control in TABS[name].controls]
    url = f"{address}gradio_api/call/{name}"
    try:
        event = json.loads(post(url, json.dumps({"data": data}).encode()))["event_id"]
        with urllib.request.urlopen(f"{url}/{event}") as response:
            kind, answer = re.findall(r"event: (\w+)\ndata: (.*)", response.read().decode())[-1]
    except urllib.error.HTTPError as error:
        return f"error: {error.code} {error.read().decode()}"
    return str(json.loads(answer)[-2]) if kind == "complete" else f"error: {answer}"


def test_hostile_inputs_get_a_message_and_the_server_stays_up(address: str) -> None:
    cases = invalid_inputs()
    assert len(cases) >= 100
    for name, setting, value in cases:
        picture = draw(address, name, **{setting: value})
        shown = f"{name}.{setting} = {value!r:.80}: {picture:.300}"
        assert 'role="alert"' in picture, shown
        assert re.search(
            "must|expected|cannot|not valid|unknown|at most|JSON|nested|has no|is no|not a table", picture
        ), shown
        assert "<img" not in picture, shown
        assert "<script" not in picture, shown
        assert "Traceback" not in picture, shown
    assert 'role="img"' in draw(address, "order")


@pytest.mark.parametrize("name", ["records", "search", "attention", "learn", "family", "order"])
def test_unusual_valid_inputs_are_drawn_and_escaped(name: str, address: str) -> None:
    for tab, setting, value in UNUSUAL:
        if tab == name:
            picture = draw(address, tab, **{setting: value})
            assert 'role="img"' in picture, f"{value!r:.80}: {picture:.300}"
            parser = Elements()
            parser.feed(picture)
            assert not {"img", "script"} & parser.names, f"{value!r:.80}"
            assert not [name for name in parser.attributes if name.startswith("on")], f"{value!r:.80}"


def test_malformed_requests_are_refused_and_the_server_stays_up(address: str) -> None:
    bodies = [b"", b"{", b"[]", b"null", b'{"data": 3}', b'{"data": []}', b'{"data": [1]}', b"\xff\xfe", b"{}" * 10_000]
    for url in ("gradio_api/call/order", "gradio_api/queue/join", "gradio_api/call/none", "gradio_api/upload"):
        for body in bodies:
            try:
                text = post(address + url, body)
            except urllib.error.HTTPError as error:
                text = error.read()
            assert b"Traceback" not in text
    file = {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}
    assert draw(address, "records", document=file).startswith("error: ")
    for path in ("gradio_api/file=/etc/passwd", "gradio_api/file=pyproject.toml", "static/../../../etc/passwd"):
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(address + path)
    assert 'role="img"' in draw(address, "order")


def test_file_of_the_largest_size_is_read_however_long_it_is_as_json(address: str) -> None:
    row = json.dumps({"name": "lamp", "note": '"' * 460}) + "\n"
    file = "a.jsonl\n" + row * (1_000_000 // len(row) - 1)
    assert 900_000 < len(file) < 1_000_000
    assert 1_500_000 < len(json.dumps(file)) < MAX_BYTES
    example = '{"name": "lamp"}'
    assert 'role="img"' in draw(address, "search", documents=file, example=example)


def test_request_over_the_limit_is_refused_with_the_limit(address: str) -> None:
    assert f"at most {MAX_BYTES:,} bytes" in draw(address, "search", documents="a.csv\n" + "x" * MAX_BYTES)


def test_each_kind_of_control_is_covered() -> None:
    kinds = {type(control) for tab in TABS.values() for control in tab.controls}
    assert kinds == {Slider, Choice, Text, Drawing, Steps, File}
