"""Hash tables: values by key from the left, keys by value from the right."""

from __future__ import annotations

import math
import random
import re

import pytest
import torch

import ghrr
from ghrr import Space, ops
from ghrr.structures import HashTable
from tests.helpers import wrong
from tests.structures.common import COMMUTING, SPACE, close, noise, overloaded

CAPITALS = {"France": "Paris", "Peru": "Lima", "Kenya": "Nairobi", "Japan": "Tokyo"}


def test_get_and_key_are_inverse() -> None:
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
def test_unbinding_on_the_wrong_side_misses(space: Space) -> None:
    table = HashTable(space, permute=False)
    h = table.encode(CAPITALS)
    key, value = table.keys.encode(["Peru"])[0], table.values.encode(["Lima"])[0]
    assert ghrr.similarity(ghrr.unbind(h, key, side="left"), value) > 1 - 5 * noise(4, space)
    other = float(ghrr.similarity(ghrr.unbind(h, key, side="right"), value))
    if space.m == 1:  # negative control: for m = 1 there are no sides
        assert other > 1 - 5 * noise(4, space)
    else:
        assert other < 1 / 9 + 5 * noise(4, space)


def test_encode_equals_the_sum_of_pairs() -> None:
    space = Space(20, 2, dtype=torch.complex128)
    table = HashTable(space)
    keys, values = space.vectors(["a", "b"], namespace="table key"), space.vectors(["x", "y"], namespace="table value")
    shifted = values.roll(1, dims=1)
    torch.testing.assert_close(table.encode({"a": "x", "b": "y"}), keys[0] @ shifted[0] + keys[1] @ shifted[1])
    plain = HashTable(space, permute=False)
    torch.testing.assert_close(plain.encode({"a": "x", "b": "y"}), keys[0] @ values[0] + keys[1] @ values[1])


def test_several_tables_are_encoded_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    table = HashTable(SPACE)
    many = [{"a": "x"}, {}, {"a": "y", "b": "x"}]
    rows = table.encode(many)
    assert rows.shape == (3, *SPACE.shape)
    assert close(rows, torch.stack([table.encode(one) for one in many]))
    assert [match.label for match in table.get_many(rows, ["a", "a", "a"])] == ["x", None, "y"]
    assert [match.label for match in table.get_many(rows[2], ["a", "b", "c"])] == ["y", "x", None]
    assert table.get_many(rows[2], []) == []
    monkeypatch.setattr("ghrr.structures.inputs._CHUNK_NUMBERS", 2 * SPACE.total_dim)
    assert [match.label for match in table.get_many(rows, ["a", "a", "a"])] == ["x", None, "y"]
    with pytest.raises(ValueError, match="needs one table, or one per key"):
        table.get_many(rows, ["a", "b"])


def test_encode_binds_no_pairs_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sum is made from the rows of the tables; only one slot of shifted pairs is bound by itself."""
    sizes: list[int] = []
    whole = ops.bind

    def counted(x: torch.Tensor, y: torch.Tensor, *sides: bool) -> torch.Tensor:
        sizes.append(x[0].numel())
        return whole(x, y, *sides)

    monkeypatch.setattr(ops, "bind", counted)
    for space in (SPACE, COMMUTING):
        HashTable(space).encode([CAPITALS, {}, {"a": "x", "b": "y", "c": "x"}])
    assert sizes == [9, 1]


def test_values_are_shifted_for_commuting_binding() -> None:
    a, b = COMMUTING.random(2, generator=COMMUTING.generator("own"))
    table, control = HashTable(COMMUTING), HashTable(COMMUTING, permute=False)
    one, other = ({a: b}, {b: a})
    assert abs(ghrr.similarity(table.encode(one), table.encode(other))) < 5 * COMMUTING.noise_std
    assert ghrr.similarity(control.encode(one), control.encode(other)) > 0.999
    assert table.get(table.encode(one), b).unknown
    assert table.get(table.encode(one), a).confident
    assert table.key(table.encode(one), b).confident
    torch.testing.assert_close(table.encode(one), ghrr.bind(a, ghrr.shift(b)))


def test_given_hypervectors_are_keys_and_values() -> None:
    table = HashTable(SPACE)
    own = ghrr.Hypervector(SPACE.random(generator=SPACE.generator("own")), SPACE, "own")
    h = table.put(table.encode({own: "x", "a": own}), own, "y")
    assert table.get(h, own).label == "y"
    assert table.get(h, "a").label == table.values.resolve(own)
    assert table.get(table.remove(h, own), own).unknown


def test_reading_without_a_vocabulary_raises() -> None:
    h, table = HashTable(SPACE).encode(CAPITALS), HashTable(SPACE)
    assert table.decode(SPACE.zeros()) == {}
    for read in (table.decode, lambda x: table.get(x, "Peru"), lambda x: table.put(x, "Peru", "Lima")):
        with pytest.raises(ValueError, match="vocabulary is empty"):
            read(h)


@pytest.mark.parametrize("m", [1, 3])
def test_the_suggested_space_is_large_enough_and_not_much_larger(m: int) -> None:
    values, space = [f"n{n}" for n in range(50)], HashTable.suggest(20, values=50, m=m, error=0.05)

    def rate(dim: int) -> float:
        right = 0
        for seed in range(20):
            table, rng = HashTable(Space(dim, m, seed=seed)), random.Random(seed)
            table.values.indices(values)
            entries = {f"k{n}": rng.choice(values) for n in range(20)}
            matches = table.get_many(table.encode(entries), list(entries))
            right += sum(
                match.confident and match.guess == entries[key] for key, match in zip(entries, matches, strict=True)
            )
        return right / 400

    error = 4 * math.sqrt(0.05 * 0.95 / 400)
    assert rate(space.dim) > 0.95 - error
    assert rate(round(0.6 * space.dim)) < 0.95 - error


@overloaded
def test_put_refuses_an_uncertain_current_value() -> None:
    """Regression: an entry that looked like noise was taken as absent, and the key then had two values."""
    table = HashTable(Space.from_total(60, 2, seed=3))
    entries = {f"k{n}": f"v{n}" for n in range(40)}
    h = table.encode(entries)
    assert any(match.unknown for match in table.get_many(h, list(entries)))
    for key in entries:
        with pytest.raises(ValueError, match=f"HashTable.put: .* '{key}' .* not certain"):
            table.put(h, key, "new")
    assert "new" not in table.values.names


def test_put_and_remove_change_entries() -> None:
    table = HashTable(SPACE)
    h = table.put(SPACE.zeros(), "a", "x")
    h = table.put(h, "b", "y")
    h = table.put(h, "a", "z")
    assert close(h, table.encode({"a": "z", "b": "y"}))
    assert close(table.remove(h, "b"), table.encode({"a": "z"}))
    with pytest.raises(KeyError, match=re.escape("HashTable.remove: no certain entry with the key 'c'")):
        table.remove(h, "c")


def test_key_of_a_shared_value_is_not_confident() -> None:
    table = HashTable(SPACE)
    h = table.encode({"a": "x", "b": "x", "c": "y"})
    assert not table.key(h, "x").confident
    assert table.key(h, "y").confident


def test_decode_finds_more_with_peeling() -> None:
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
    assert HashTable(SPACE).decode(SPACE.zeros()) == {}


def test_bad_tables_are_refused() -> None:
    table = HashTable(SPACE)
    for bad in ({"a": 1}, {1: "a"}, {"": "a"}):
        with pytest.raises(TypeError, match=re.escape("HashTable.encode: needs a non-empty string")):
            table.encode(wrong(bad))
    for other in ("text", [["a", "b"]], None):
        with pytest.raises(TypeError, match="needs a dict of strings or a list of dicts"):
            table.encode(wrong(other))
    with pytest.raises(ValueError, match="vocabulary is empty"):
        table.get(SPACE.zeros(), "a")
    with pytest.raises(ValueError, match="does not fit Space"):
        table.get(Space(4, 2).zeros(), "a")
    with pytest.raises(TypeError, match="needs a list of strings"):
        table.get_many(SPACE.zeros(), wrong("ab"))


def test_swapping_key_and_value_gives_an_independent_table_by_default() -> None:
    """Keys and values can be the same given hypervectors; the control does not shift values."""
    space = Space(600, 2, seed=1)
    a, b = space.vectors(["a", "b"])
    for permute, expected in ((None, 0), (False, 1 / 4)):
        table = HashTable(space, permute=permute)
        swapped = ghrr.similarity(table.encode({a: b}), table.encode({b: a}))
        assert abs(float(swapped) - expected) < 5 * space.noise_std
