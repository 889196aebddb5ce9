"""Filters: must and must_not equal a test of every document, in every engine."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ghrr
from ghrr.search import Contains, Range, RecordIndex

PACKAGES = {"torch": "torch", "faiss": "faiss", "lancedb": "lancedb", "milvus": "milvus_lite"}
ENGINES = ["torch", "folder", "faiss", "lancedb", pytest.param("milvus", marks=pytest.mark.slow)]
CITIES = ("London", "York", "Bath", "new york")
TAGS = ("red", "green", "blue")
DAY = datetime.date(2024, 1, 1)
KINDS = {"name": "text", "price": "number", "cost": "number", "born.city": "category", "active": "boolean"}
KINDS |= {"joined": "date", "tags": "set", "offers.price": "number", "code": "text"}


def document(n: int) -> dict[str, Any]:
    """Return a document with values of all kinds; some are missing, lists, or of another type."""
    made: dict[str, Any] = {
        "name": f"{('Lamp', 'Chair', 'old LAMP')[n % 3]} {n % 5}",
        "price": [n % 9 * 10, None, 0, -5.5, [10, 30], "A-77", 10.0][n % 7],
        "cost": f"${1000 + n * 37 % 400:,}.50",
        "born": {"city": CITIES[n % 4]} if n % 6 else {"city": None},
        "active": n % 2 == 0,
        "joined": (DAY + datetime.timedelta(days=n)).strftime(("%Y-%m-%d", "%d %B %Y")[n % 2]),
        "tags": [tag for place, tag in enumerate(TAGS) if n >> place & 1],
        "offers": [{"price": n % 4, "shop": "x"}, {"price": n % 3 + 10}],
        "code": f"{n % 12:03d}",
        "place": {"lat": float(n % 5), "lon": 1.0},
    }
    return {key: value for place, (key, value) in enumerate(made.items()) if (n + place) % 11}


DOCUMENTS = [document(n) for n in range(150)]


def values(one: Any, path: tuple[str, ...]) -> list[Any]:
    """Return the values of a document at a path."""
    if isinstance(one, list):
        return [value for element in one for value in values(element, path)]
    if path:
        return values(one.get(path[0]), path[1:]) if isinstance(one, dict) else []
    return [] if one is None else [one]


def day(text: str) -> datetime.datetime:
    return datetime.datetime.strptime(text, "%Y-%m-%d" if text[4] == "-" else "%d %B %Y")


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def money(text: str) -> float:
    return float(text.strip("$").replace(",", ""))


Truth = Callable[[Any], bool]
Case = tuple[tuple[str, ...], Any, Truth | None]  # path, condition, and test of one value; None: the value is missing


def between(low: Any, high: Any, read: Callable[[Any], Any] = lambda value: value) -> Truth:
    return lambda value: (low is None or low <= read(value)) and (high is None or read(value) <= high)


def only_numbers(test: Truth) -> Truth:
    return lambda value: is_number(value) and test(value)


def ends(numbers: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, Any]]:
    pairs = st.tuples(numbers, numbers).map(sorted)
    return pairs.flatmap(lambda pair: st.sampled_from([(pair[0], pair[1]), (None, pair[1]), (pair[0], None)]))


NUMBERS = st.sampled_from([-6, -5.5, 0, 5, 10, 10.5, 30, 80])
DAYS = st.integers(-3, 160).map(lambda n: datetime.datetime(2024, 1, 1) + datetime.timedelta(days=n))
WORDS = st.sampled_from(["lamp", "LAMP 3", "air", "old ", "zebra", "3"])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a condition at one path, and a test that does not use the library."""
    which = draw(st.integers(0, 12))
    if which == 0:
        low, high = draw(ends(NUMBERS))
        return ("price",), Range(low, high), only_numbers(between(low, high))
    if which == 1:
        number = draw(NUMBERS)
        return ("price",), number, only_numbers(lambda value: value == number)
    if which == 2:
        low, high = draw(ends(st.integers(990, 1410)))
        return ("cost",), Range(low, high), between(low, high, money)
    if which == 3:
        n = draw(st.integers(0, 400))
        return ("cost",), draw(st.sampled_from([1000.5 + n, f"${1000 + n:,}.50"])), lambda v: money(v) == 1000.5 + n
    if which == 4:
        low, high = draw(ends(DAYS))
        return ("joined",), Range(low, high), between(low, high, day)
    if which == 5:
        when = draw(DAYS)
        return ("joined",), when.date(), lambda value: day(value) == when
    if which == 6:
        word = draw(WORDS)
        return ("name",), Contains(word), lambda value: word.casefold() in value.casefold()
    if which == 7:
        chosen = draw(st.lists(st.sampled_from(TAGS), min_size=1, max_size=2))
        return ("tags",), draw(st.sampled_from([list, set, tuple]))(chosen), lambda value: value in chosen
    if which == 8:
        chosen = draw(st.lists(st.sampled_from(CITIES), min_size=1, max_size=3))
        return ("born", "city"), [city.upper() for city in chosen], lambda value: value in chosen
    if which == 9:
        flag = draw(st.booleans())
        return ("active",), flag, lambda value: value is flag
    if which == 10:
        number = draw(st.integers(0, 13))
        return ("offers", "price"), number, lambda value: value == number
    if which == 11:
        text = draw(st.sampled_from(["007", "7", "01", "Chair 4", "chair 4 "]))
        return draw(st.sampled_from([("code",), ("name",)])), text, lambda v: v.casefold() == text.strip().casefold()
    paths = [("price",), ("born",), ("born", "city"), ("tags",), ("joined",), ("offers",), ("place",)]
    return draw(st.sampled_from(paths)), draw(st.sampled_from([None, float("nan"), pd.NA])), None


def part(path: tuple[str, ...], condition: Any) -> dict[str, Any]:
    for key in reversed(path):
        condition = {key: condition}
    found: dict[str, Any] = condition
    return found


def holds(case: Case, one: Mapping[str, Any]) -> bool:
    path, _, truth = case
    if truth is None:
        return not leaves(one, path)
    return any(truth(value) for value in values(one, path))


def leaves(one: Any, path: tuple[str, ...]) -> list[Any]:
    found = values(one, path)
    return [
        leaf for value in found for leaf in (leaves(list(value.values()), ()) if isinstance(value, dict) else [value])
    ]


@pytest.fixture(scope="module", params=ENGINES)
def records(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RecordIndex:
    folder, name = tmp_path_factory.mktemp("engine"), request.param
    if name != "folder":
        pytest.importorskip(PACKAGES[name])
    uri = {"lancedb": str(folder / "lance"), "milvus": str(folder / "milvus.db")}.get(name)
    backend = "torch" if name == "folder" else name
    index = RecordIndex(ghrr.Space(dim=32, m=2, seed=0), kinds=KINDS, backend=backend, uri=uri)
    index.add(DOCUMENTS[:100])
    index.add(DOCUMENTS[100:])
    index.remove(["3", "5"])
    index.update([DOCUMENTS[3]], ids=["7"])
    if name == "folder":
        index.save(folder / "index")
        index = RecordIndex.open(folder / "index")
    return index


@settings(max_examples=60, deadline=None)
@given(found=cases(), excluded=cases(), which=st.sampled_from(["must", "must_not", "both"]))
def test_filters_equal_a_test_of_every_document(records: RecordIndex, found: Case, excluded: Case, which: str) -> None:
    expected = {
        name
        for name in records.ids
        if (which == "must_not" or holds(found, records[name]))
        and (which == "must" or not holds(excluded, records[name]))
    }
    conditions: dict[str, Any] = {"must": part(*found[:2]), "must_not": part(*excluded[:2])}
    if which != "both":
        conditions = {which: conditions[which]}
    hits = records.search({"name": "lamp"}, k=len(records), **conditions)
    assert {hit.guess for hit in hits} == expected
    few = records.search({"name": "lamp"}, k=3, candidates=3, **conditions)
    assert len(few) == min(3, len(expected))


def test_only_documents_with_lists_are_left_to_the_documents(records: RecordIndex) -> None:
    if not records._records.state.memory.can_filter:
        pytest.skip("the engine has no filters")
    hits = records.search({"name": "lamp"}, k=len(records), must={"price": 30})
    assert {tuple(values(hit.document, ("price",))) for hit in hits} == {(30,), (10, 30)}
    assert not any(
        hit.document.get("price") == [10, 30] for hit in records.search({"name": "lamp"}, must={"price": 20})
    )


@pytest.mark.parametrize("backend", ["torch", "faiss"])
def test_rare_match_far_from_the_example_is_found(backend: str) -> None:
    pytest.importorskip(PACKAGES[backend])
    index = RecordIndex(ghrr.Space(dim=16, m=1, seed=0), backend=backend, approximate=backend == "faiss")
    index.add([{"name": f"lamp {n}", "price": n} for n in range(6000)] + [{"name": "zebra", "price": 7000}])
    assert [hit.guess for hit in index.search({"name": "lamp 7"}, k=3, must={"price": 7000})] == ["6000"]
    assert len(index.search({"name": "zebra"}, k=20, must={"price": Range(3, 9)})) == 7


def test_large_integers_and_ids_are_compared_exactly() -> None:
    index = RecordIndex(kinds={"number": "number", "id": "text"})
    index.add([{"number": 2**53 + n, "id": 10**15 + n} for n in range(3)])
    assert [hit.guess for hit in index.search({"number": 5}, must={"number": 2**53 + 1})] == ["1"]
    assert [hit.guess for hit in index.search({"number": 5}, must={"id": 10**15 + 2})] == ["2"]


def test_points_and_vectors_are_one_value() -> None:
    index = RecordIndex(kinds={"v": "embedding"})
    index.add([{"v": [1.0, 2.0 + n % 2] + [0.0] * 6, "at": {"lat": 1.0, "lon": float(n)}} for n in range(4)])
    same = {hit.guess for hit in index.search({"v": [1.0] * 8}, must={"v": [1.0, 3.0] + [0.0] * 6})}
    assert same == {"1", "3"}
    assert [hit.guess for hit in index.search({"v": [1.0] * 8}, must={"at": {"lat": 1, "lon": 2}})] == ["2"]


def test_filters_accept_ignored_fields_and_names_of_examples() -> None:
    index = RecordIndex(kinds={"note": "ignore"})
    index.add([{"name": "Ada", "note": "x"}, {"name": "Alan", "note": "y"}])
    assert [hit.guess for hit in index.search({"name": "a"}, must={"note": "Y"})] == ["1"]
    assert [hit.guess for hit in index.search({"name": "a"}, must={"*": "x"}, must_not={"note": None})] == ["0"]


def test_example_with_an_open_range_finds_numbers_inside() -> None:
    index = RecordIndex()
    index.add([{"name": f"lamp {n}", "price": 3.0 * n} for n in range(60)])
    hits = index.search({"price": Range(160, None)}, k=6, candidates=60)
    assert {hit.document["price"] for hit in hits} == {162.0, 165.0, 168.0, 171.0, 174.0, 177.0}
    assert {hit.score for hit in hits} == {1.0}
