"""Nested documents: columns and leaves, paths as text, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghrr.documents import MAX_DEPTH, Column, Path, check_path, columns, leaves, parse_path, show_path

KEYS = st.text(st.sampled_from("ab.[]\\$*01٣"), max_size=4) | st.integers(0, 12) | st.none()
VALUES = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=2)
DOCUMENTS = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


def one_by_one(document: Any, path: Path = ()) -> list[tuple[Path, Any]]:
    """Return the leaves by plain recursion."""
    if not isinstance(document, dict | list) or not document:
        return [(path, document)]
    items = document.items() if isinstance(document, dict) else enumerate(document)
    return [leaf for key, value in items for leaf in one_by_one(value, (*path, key))]


def shown(found: list[tuple[Path, Any]]) -> list[str]:
    return [repr(leaf) for leaf in found]  # True is not 1, and 1 is not 1.0


@given(document=DOCUMENTS)
def test_leaves_equal_plain_recursion(document: Any) -> None:
    assert shown(list(leaves(document))) == shown(one_by_one(document))


@given(documents=st.lists(DOCUMENTS, max_size=6))
def test_columns_hold_the_leaves_of_all_documents(documents: list[Any]) -> None:
    found: list[list[tuple[Path, Any]]] = [[] for _ in documents]
    for column in columns(documents):
        assert np.all(np.diff(column.rows) > 0)
        assert all(type(value) is column.kind for value in column.values)
        for row, value in zip(column.rows, column.values, strict=True):
            found[row].append((column.path, value))
    for document, one in zip(documents, found, strict=True):
        assert sorted(shown(one)) == sorted(shown(one_by_one(document)))


def test_elements_of_a_set_share_a_path() -> None:
    (column,) = columns([["a", "b"], ["c", "d"]], root=("tags",), is_set=lambda path: path == ("tags",))
    assert (column.path, column.rows.tolist(), list(column.values)) == (("tags", None), [0, 0, 1, 1], list("abcd"))
    with pytest.raises(ValueError, match=r"columns: tags: an element of a list that is encoded as a set must be"):
        columns([{"tags": [["a"]]}], is_set=lambda path: path == ("tags",))


def test_tuples_and_derived_types_count_as_lists_and_their_base() -> None:
    class Name(str):
        __slots__ = ()

    found = columns([{"a": ()}, (Name("x"),)])
    assert [(column.path, column.kind) for column in found] == [(("a",), list), ((0,), str)]


def test_other_types_are_refused_unless_they_are_named() -> None:
    with pytest.raises(TypeError, match=r"columns: a: cannot encode .* expected dicts, .*, booleans or None$"):
        columns([{"a": 1j}])
    (column,) = columns([1j], other={complex: "complex numbers"})
    assert isinstance(column, Column)
    assert column.kind is complex
    with pytest.raises(TypeError, match="a key must be a string as in JSON, got int 1"):
        columns([{1: 2}])


def test_deep_and_cyclic_data_is_refused() -> None:
    deep: Any = 0
    for _ in range(MAX_DEPTH):
        deep = [deep]
    assert [path for path, _ in leaves(deep)] == [(0,) * MAX_DEPTH]
    assert columns([deep], root=("a",))[0].path == ("a",) + (0,) * MAX_DEPTH
    with pytest.raises(ValueError, match=f"the data is nested deeper than {MAX_DEPTH} levels"):
        list(leaves([deep]))
    cyclic: dict[str, Any] = {"a": {}}
    cyclic["a"]["b"] = cyclic
    with pytest.raises(ValueError, match=r"leaves: a\.b: the data is cyclic, this object is also at \$"):
        list(leaves(cyclic))


@given(path=st.lists(KEYS, max_size=4).map(tuple))
def test_a_path_as_text_gives_the_path_again(path: Path) -> None:
    if path[:1] != ("",):
        assert parse_path(show_path(path)) == path


def test_text_of_paths() -> None:
    assert parse_path("tags.0.name") == parse_path("tags[0].name") == ("tags", 0, "name")
    assert parse_path("") == parse_path("$") == ()
    assert parse_path(".a.") == ("", "a", "")
    assert parse_path("a[x]") == ("a[x]",)
    assert show_path(("a[0]",)) == r"a\[0]"
    with pytest.raises(ValueError, match="parse_path: a dot or an index must follow an index, got 'b'"):
        parse_path("a[0]b")


def test_paths_are_checked() -> None:
    assert check_path(3) == (3,)
    for bad in (None, [True], [-1], [1.0], [None]):
        with pytest.raises(TypeError, match=r"^(path|a key of a path) must be"):
            check_path(bad)
    with pytest.raises(ValueError, match=f"path has {MAX_DEPTH + 1} keys"):
        check_path(["a"] * (MAX_DEPTH + 1))
