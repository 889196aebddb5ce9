"""Hash tables: values by key from the left, keys by value from the right, and not the other way round."""

from __future__ import annotations

import re

import pytest
import torch

import ghrr
from ghrr import Space
from ghrr.structures import HashTable
from tests.structures.common import COMMUTING, SPACE, close, count_calls, noise, wrong

CAPITALS = {"France": "Paris", "Peru": "Lima", "Kenya": "Nairobi", "Japan": "Tokyo"}


def test_values_and_keys_are_found() -> None:
    table = HashTable(SPACE)
    h = table.encode(CAPITALS)
    for key, value in CAPITALS.items():
        match = table.get(h, key)
        assert match.label == value
        assert match.confident
        assert abs(match.score - 1) < 5 * noise(4)
        assert table.key(h, value).label == key
    assert table.get(h, "Chile").unknown
    assert table.key(h, "Santiago").unknown
    assert {key: match.label for key, match in table.decode(h).items()} == CAPITALS


@pytest.mark.parametrize("space", [SPACE, COMMUTING], ids=repr)
def test_the_wrong_side_misses(space: Space) -> None:
    table = HashTable(space)
    h = table.encode(CAPITALS)
    key, value = table.keys.encode(["Peru"])[0], table.values.encode(["Lima"])[0]
    assert ghrr.similarity(ghrr.unbind(h, key, side="left"), value) > 1 - 5 * noise(4, space)
    other = float(ghrr.similarity(ghrr.unbind(h, key, side="right"), value))
    if space.m == 1:  # the control: for m = 1 there are no sides
        assert other > 1 - 5 * noise(4, space)
    else:
        assert other < 1 / 9 + 5 * noise(4, space)


def test_a_table_is_the_sum_of_its_pairs() -> None:
    space = Space(20, 2, dtype=torch.complex128)
    table = HashTable(space)
    keys, values = space.vectors(["a", "b"], namespace="table key"), space.vectors(["x", "y"], namespace="table value")
    torch.testing.assert_close(table.encode({"a": "x", "b": "y"}), keys[0] @ values[0] + keys[1] @ values[1])


def test_many_tables_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table = HashTable(SPACE)
    many = [{"a": "x"}, {}, {"a": "y", "b": "x"}]
    rows = table.encode(many)
    assert rows.shape == (3, *SPACE.shape)
    assert close(rows, torch.stack([table.encode(one) for one in many]))
    assert [match.label for match in table.get_many(rows, ["a", "a", "a"])] == ["x", None, "y"]
    assert [match.label for match in table.get_many(rows[2], ["a", "b", "c"])] == ["y", "x", None]
    assert table.get_many(rows[2], []) == []
    monkeypatch.setattr("ghrr.structures.vocabulary._CHUNK_NUMBERS", 2 * SPACE.total_dim)
    assert [match.label for match in table.get_many(rows, ["a", "a", "a"])] == ["x", None, "y"]
    with pytest.raises(ValueError, match="needs one table, or as many as there are keys"):
        table.get_many(rows, ["a", "b"])


def test_few_terms_exist_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [CAPITALS, {}, {"a": "x", "b": "y", "c": "x"}]
    want = HashTable(SPACE).encode(many)
    monkeypatch.setattr("ghrr.structures.vocabulary._CHUNK_NUMBERS", 3 * SPACE.total_dim)
    sizes = count_calls(monkeypatch, "ghrr.structures.hash_table.bind")
    assert close(HashTable(SPACE).encode(many), want)
    assert sizes == [3, 3, 1]


def test_put_refuses_where_it_cannot_be_told_what_is_there() -> None:
    """An entry that looks more like noise than not was taken for none, and the key had two values then."""
    table = HashTable(Space.from_total(60, 2, seed=3))
    entries = {f"k{n}": f"v{n}" for n in range(40)}
    h = table.encode(entries)
    assert any(match.unknown for match in table.get_many(h, list(entries)))
    for key in entries:
        with pytest.raises(ValueError, match=f"HashTable.put: what '{key}' has now cannot be told with certainty"):
            table.put(h, key, "new")
    assert "new" not in table.values.names


def test_entries_are_put_replaced_and_removed() -> None:
    table = HashTable(SPACE)
    h = table.put(SPACE.empty(), "a", "x")
    h = table.put(h, "b", "y")
    h = table.put(h, "a", "z")
    assert close(h, table.encode({"a": "z", "b": "y"}))
    assert close(table.remove(h, "b"), table.encode({"a": "z"}))
    with pytest.raises(KeyError, match=re.escape("HashTable.remove: no entry of 'c' that is certain: Match(unknown")):
        table.remove(h, "c")


def test_a_value_of_several_keys_has_no_certain_key() -> None:
    table = HashTable(SPACE)
    h = table.encode({"a": "x", "b": "x", "c": "y"})
    assert not table.key(h, "x").confident
    assert table.key(h, "y").confident


def test_decoding_takes_out_what_is_certain() -> None:
    table = HashTable(Space.from_total(500, 2, seed=2))
    entries = {f"key {n}": f"value {n % 40}" for n in range(40)}
    h = table.encode(entries)
    alone = sum(match.confident for match in table.get_many(h, list(entries)))
    found = table.decode(h)
    assert alone < len(found)
    assert len(found) >= 39
    assert sum(match.label == entries[key] for key, match in found.items()) >= 0.98 * len(found)
    table.encode({"another key": "value 1"})  # known, but not in the table
    assert set(table.decode(h)) <= set(entries)
    assert HashTable(SPACE).decode(SPACE.empty()) == {}


def test_bad_tables() -> None:
    table = HashTable(SPACE)
    for bad in ({"a": 1}, {1: "a"}, {"": "a"}):
        with pytest.raises(TypeError, match=re.escape("HashTable.encode: needs a string that is not empty, got")):
            table.encode(wrong(bad))
    for other in ("text", [["a", "b"]], None):
        with pytest.raises(TypeError, match="needs a dict of strings or a list of them"):
            table.encode(wrong(other))
    with pytest.raises(ValueError, match="nothing is known yet to choose from"):
        table.get(SPACE.empty(), "a")
    with pytest.raises(ValueError, match="does not fit Space"):
        table.get(Space(4, 2).empty(), "a")
    with pytest.raises(TypeError, match="needs a list of strings"):
        table.get_many(SPACE.empty(), wrong("ab"))
