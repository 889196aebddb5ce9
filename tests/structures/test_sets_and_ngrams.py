"""Sets, multisets and n-grams: members, counts, order inside members."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import ghrr
from ghrr import Space
from ghrr.structures import NGrams, Set
from tests.helpers import assert_std, wrong
from tests.structures.common import COMMUTING, SPACE, close, counts_of, noise, overloaded

# --------------------------------------------------------------------------------------------------------------- Set


def test_contains_finds_members_only() -> None:
    model = Set(SPACE)
    h = model.encode(["apple", "plum", "fig"])
    model.encode(["pear"])
    for name in ("apple", "plum", "fig"):
        match = model.contains(h, name)
        assert match.confident
        assert abs(match.score - 1) < 5 * noise(3)
    for name in ("pear", "never met"):
        assert model.contains(h, name).unknown
        assert abs(model.count(h, name)) < 5 * noise(3)
    assert counts_of(model.decode(h)) == {"apple": 1, "plum": 1, "fig": 1}


def test_decode_returns_counts() -> None:
    model = Set(SPACE)
    counts = {"a": 1, "b": 2, "c": 5, "d": 12, "e": 0}
    h = model.encode(counts)
    assert counts_of(model.decode(h)) == {"a": 1, "b": 2, "c": 5, "d": 12}
    assert close(h, model.encode(list("abbcccccdddddddddddd")))
    for name, count in counts.items():
        assert abs(model.count(h, name) - count) < 5 * noise(1 + 4 + 25 + 144)


def test_decode_returns_counts_of_permuted_tuples() -> None:
    """For m = 2 they have a similarity of one half or more."""
    model = Set(Space(800, 2, seed=1))
    members: dict[Any, int] = {("a", "a", "b"): 3, ("b", "a", "a"): 1, ("a", "b", "a"): 0, ("a", "b"): 2, "a": 1}
    h = model.encode(members)
    assert counts_of(model.decode(h)) == {member: count for member, count in members.items() if count}
    assert model.contains(h, ("a", "b", "a")).unknown
    assert model.contains(h, ("b", "a")).unknown
    for member, count in members.items():
        assert abs(model.count(h, member) - count) < 5 * noise(15, model.space) * 1.5**0.5  # the gain is below 1.5


@pytest.mark.parametrize("m", [2, 3, 4])
def test_permuted_tuples_have_the_similarity_of_theory(m: int) -> None:
    """1/m² for two names and 2/m² for aab and baa, for any dimension."""
    space = Space(20_000, m, seed=5)
    model = Set(space)
    for words, share in ((("ab", "ba"), 1 / m**2), (("aab", "baa"), 2 / m**2), (("ab", "cd"), 0.0)):
        one, other = (model.encode([tuple(word)]) for word in words)
        assert (
            abs(model.common(one, other) - share) < 6 * (1 / space.dim) ** 0.5
        )  # slots are independent, within [-1, 1]


def test_the_noise_of_counts_is_that_of_theory() -> None:
    """Absent names, for varying and for shared rotations, have the standard deviation √E · noise_std."""
    for space in (Space(60, 2, seed=4), Space(60, 2, rotation="shared", seed=4)):
        model = Set(space)
        h = model.encode(["x", "x", "y", "z"])
        scores = ghrr.similarity(h, space.vectors([str(n) for n in range(3000)]))
        energy = float(ghrr.similarity(h, h))
        assert_std(scores, energy**0.5 * space.noise_std)
        with pytest.raises(AssertionError):
            assert_std(scores, space.noise_std)  # negative control: the noise of one item


def test_common_counts_shared_members() -> None:
    model = Set(SPACE)
    one, two = model.encode(list("abcdef")), model.encode(list("defgh"))
    assert abs(model.common(one, two) - 3) < 5 * (6 * 5) ** 0.5 * SPACE.noise_std
    assert close(one + two, model.encode(list("abcdefdefgh")))


def test_the_order_inside_a_member_counts() -> None:
    pairs = [("knows", "Ada", "Charles"), ("knows", "Charles", "Mary")]
    for model in (Set(SPACE), Set(COMMUTING), Set(SPACE, permute=True)):
        h = model.encode(pairs)
        assert model.contains(h, ("knows", "Ada", "Charles")).confident
        assert model.contains(h, ("knows", "Charles", "Ada")).unknown
        assert counts_of(model.decode(h)) == dict.fromkeys(pairs, 1)
    control = Set(COMMUTING, permute=False)  # the order is lost, and nothing is confident
    c = control.encode(pairs)
    assert control.count(c, ("knows", "Charles", "Ada")) > 0.8
    assert not control.contains(c, ("knows", "Charles", "Ada")).confident


def test_add_and_remove_members() -> None:
    model = Set(SPACE)
    h = model.add(model.encode(["a"]), "b", times=3)
    assert counts_of(model.decode(h)) == {"a": 1, "b": 3}
    h = model.remove(h, "b", times=2)
    assert close(h, model.encode(["a", "b"]))
    with pytest.raises(KeyError, match=re.escape("Set.remove: cannot remove 2 copies of 'b', the collection has 1")):
        model.remove(h, "b", times=2)
    with pytest.raises(KeyError, match=re.escape("the collection has 0")):
        model.remove(h, "c")


@overloaded
def test_decoding_a_full_set() -> None:
    model = Set(Space.from_total(500, 2, seed=2))
    model.encode([f"name {n}" for n in range(400)])
    h = model.encode([f"name {n}" for n in range(30)])
    found = counts_of(model.decode(h))
    assert set(found.values()) == {1}
    assert len(found) >= 29
    assert sum(name in {f"name {n}" for n in range(30)} for name in found) >= 0.98 * len(found)


def test_empty_sets() -> None:
    model = Set(SPACE)
    assert close(model.encode([]), SPACE.zeros())
    assert model.decode(SPACE.zeros()) == {}
    assert model.contains(SPACE.zeros(), "a").unknown


def test_bad_sets_are_refused() -> None:
    model = Set(SPACE)
    for bad in ("text", 3):
        with pytest.raises(
            TypeError, match=re.escape("Set.encode: needs a list of members, or a dict of their counts")
        ):
            model.encode(wrong(bad))
    for member in (1, "", (), ("a", 2)):
        with pytest.raises(TypeError, match="needs a non-empty string"):
            model.encode(wrong([member]))
    with pytest.raises(ValueError, match="the count of 'a' must be a whole number of at least 0, got -1"):
        model.encode({"a": -1})
    with pytest.raises(TypeError, match=re.escape("the count of 'a' must be a whole number, got float 1.5")):
        model.encode(wrong({"a": 1.5}))
    with pytest.raises(ValueError, match="does not fit Space"):
        model.contains(Space(4, 2).zeros(), "a")


# ------------------------------------------------------------------------------------------------------------ NGrams

LARGE = Space(1500, 4, seed=1)


def test_count_respects_order() -> None:
    model = NGrams(LARGE, 3)
    h = model.encode(list("abracadabra"))
    assert round(model.count(h, "abr")) == 2
    assert round(model.count(h, "aca")) == 1
    assert model.count(h, "rba") < 0.5
    for shifted in (NGrams(COMMUTING, 3), NGrams(LARGE, 3, permute=True)):
        s = shifted.encode(list("abracadabra"))
        assert round(shifted.count(s, "abr")) == 2
        assert abs(shifted.count(s, "rba")) < 5 * noise(11, shifted.space)
    control = NGrams(COMMUTING, 3, permute=False)
    c = control.encode(list("abracadabra"))
    assert control.count(c, "rba") == pytest.approx(control.count(c, "abr"), abs=1e-3)  # m = 1: the order is lost
    assert not any(match.confident for match in control.after(c, "rb"))


def test_shifts_distinguish_a_text_from_its_reversal() -> None:
    for space in (COMMUTING, SPACE):
        model, control = NGrams(space, 3, permute=True), NGrams(space, 3, permute=False)
        for grams, least, most in ((model, -0.05, 0.05), (control, 0.9 / space.m**2, 1.1)):
            one, other = grams.encode(list("abcdefghij")), grams.encode(list("jihgfedcba"))
            alike = ghrr.similarity(one, other) / ghrr.similarity(one, one)
            assert least < alike < most


def test_after_and_before() -> None:
    model = NGrams(LARGE, 2)
    h = model.encode(list("abracadabra"))
    after = {match.label: round(match.score) for match in model.after(h, "a")}
    assert after == {"b": 2, "c": 1, "d": 1}
    assert {match.label for match in model.before(h, "a")} == {"c", "d", "r"}
    assert model.after(h, "x") == []


def test_prefix_is_unbound_from_the_left() -> None:
    model = NGrams(SPACE, 2)
    h = model.encode(["north", "east", "south"])
    north, east = model.names.encode(["north", "east"])
    assert ghrr.similarity(ghrr.unbind(h, north, side="left"), east) > 1 - 5 * noise(2)
    assert ghrr.similarity(ghrr.unbind(h, north, side="right"), east) < 1 / 9 + 5 * noise(2)


def test_decode_returns_all_ngrams(monkeypatch: pytest.MonkeyPatch) -> None:
    model = NGrams(LARGE, 3)
    h = model.encode(["a", "b", "c", "d", "a", "b", "c"])
    want = {("a", "b", "c"): 2, ("b", "c", "d"): 1, ("c", "d", "a"): 1, ("d", "a", "b"): 1}
    assert counts_of(model.decode(h)) == want
    monkeypatch.setattr("ghrr.structures.inputs._CHUNK_NUMBERS", 5 * LARGE.total_dim)
    assert counts_of(model.decode(h)) == want
    for n in (1, 2, 3):
        assert NGrams(SPACE, n).decode(SPACE.zeros()) == {}
    single = NGrams(SPACE, 1)
    assert counts_of(single.decode(single.encode(list("aab")))) == {("a",): 2, ("b",): 1}


@overloaded
def test_bad_ngrams_are_refused() -> None:
    model = NGrams(SPACE, 3)
    with pytest.raises(ValueError, match="3-grams need at least 3 items"):
        model.encode(["a", "b"])
    assert len(model.names) == 0
    h = model.encode(["a", "b", "c"])
    with pytest.raises(ValueError, match=re.escape("NGrams.count: needs 3 names for 3-grams, got ['a', 'b']")):
        model.count(h, "ab")
    with pytest.raises(ValueError, match=re.escape("NGrams.after: needs 2 names")):
        model.after(h, "abc")
    with pytest.raises(TypeError, match="needs a non-empty string or a hypervector, got int 1"):
        model.encode(wrong([1, 2, 3]))
    with pytest.raises(ValueError, match="n must be a whole number of at least 1"):
        NGrams(SPACE, 0)
    model.encode([f"name {n}" for n in range(300)])
    with pytest.raises(ValueError, match="303 names have 91809 prefixes to try, expected at most 65536"):
        model.decode(h)
    assert torch.isfinite(h).all()
