"""Sequences and n-grams: order by binding alone, and its control, m = 1, where binding commutes."""

from __future__ import annotations

import math
import re

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr import Space
from ghrr.encoding import Codebook, NGrams, Sequence
from tests.encoding.common import wrong
from tests.helpers import assert_mean, generator

SPACE = Space(500, 3)
LETTERS = Codebook(SPACE, list("abcdefghijklmnopqrstuvwxyz"))


def text(found: Tensor) -> str:
    return "".join(LETTERS.names[i] for i in found.tolist())


# ------------------------------------------------------------------------------------------------------------- Sequence


@pytest.mark.parametrize("word", ["a", "order", "abracadabra", "zzyzx"])
def test_a_sequence_can_be_read(word: str) -> None:
    model = Sequence(SPACE)
    assert text(model.read(model(LETTERS(list(word))), len(word), LETTERS.vectors)) == word


def test_a_swapped_sequence_reads_swapped() -> None:
    model = Sequence(SPACE)
    one, two = model(LETTERS([list("stop"), list("pots")]))
    assert text(model.read(one, 4, LETTERS.vectors)) == "stop"
    assert text(model.read(two, 4, LETTERS.vectors)) == "pots"
    assert ghrr.similarity(one, two) / 4 < 0.1  # no letter is at its place
    bag = LETTERS(list("stop")).sum(dim=0)
    torch.testing.assert_close(bag, LETTERS(list("pots")).sum(dim=0))  # the control: without places they are the same


def test_an_element_is_read_from_the_left_and_missed_from_the_right() -> None:
    model = Sequence(SPACE)
    x = model(LETTERS(list("word")))
    for place, letter in enumerate("word"):
        item = model.item(x, place)
        key = model.positions(place)
        torch.testing.assert_close(item, ghrr.unbind(x, key, side="left"))
        noise = math.sqrt(4) * SPACE.noise_std
        assert ghrr.similarity(item, LETTERS(letter)) > 1 - 5 * noise
        if place:  # R^0 is the identity: at place 0 both sides are the same
            assert ghrr.similarity(ghrr.unbind(x, key, side="right"), LETTERS(letter)) < 0.5
    assert ghrr.similarity(model.item(x, 7), LETTERS.vectors).abs().max() < 5 * math.sqrt(4) * SPACE.noise_std


def test_a_sequence_is_the_sum_of_bound_powers() -> None:
    space = Space(10, 2, dtype=torch.complex128)
    model, items = Sequence(space), space.random(3, generator=generator())
    r = model.positions.base
    want = items[0] + ghrr.bind(r, items[1]) + ghrr.multibind(torch.stack([r, r, items[2]]))
    torch.testing.assert_close(model(items), want)
    assert not torch.allclose(Sequence(space, name="other")(items), want, atol=0.1)


def test_shapes_of_sequences() -> None:
    model = Sequence(SPACE)
    x = model(LETTERS([["a", "b"], ["c", "d"], ["e", "f"]]))
    assert x.shape == (3, 500, 3, 3)
    assert model.item(x, 1).shape == (3, 500, 3, 3)
    assert model.item(x, torch.tensor([0, 1])).shape == (3, 2, 500, 3, 3)
    assert model.item(x, torch.zeros(2, 4)).shape == (3, 2, 4, 500, 3, 3)
    assert torch.equal(model.read(x, 2, LETTERS.vectors), torch.tensor([[0, 1], [2, 3], [4, 5]]))
    assert model.read(x, 0, LETTERS.vectors).shape == (3, 0)
    assert torch.equal(model(LETTERS([])), SPACE.empty())
    assert model(SPACE.empty(0, 4)).shape == (0, 500, 3, 3)


def test_sequences_share_a_beginning() -> None:
    model = Sequence(SPACE)
    same, other = model(LETTERS([list("abcdef"), list("abcxyz")]))
    assert ghrr.similarity(same, other).item() / 6 == pytest.approx(0.5, abs=5 * SPACE.noise_std)


def test_bad_sequences() -> None:
    model = Sequence(SPACE)
    with pytest.raises(ValueError, match=re.escape("Sequence(items): items needs an axis of items")):
        model(SPACE.empty())
    with pytest.raises(ValueError, match="does not fit Space"):
        model(Space(4, 2).empty(3))
    with pytest.raises(TypeError, match=re.escape("Sequence(items): items must be complex")):
        model(torch.zeros(3, 500, 3, 3))
    with pytest.raises(TypeError, match=re.escape("Sequence(items): items must be")):
        model(wrong(["a", "b"]))
    with pytest.raises(ValueError, match=re.escape("Sequence.item")):
        model.item(Space(4, 2).empty(), 0)
    with pytest.raises(TypeError, match="needs numbers, got str 'first'"):
        model.item(SPACE.empty(), wrong("first"))
    with pytest.raises(ValueError, match=re.escape("Sequence.read: length must be a whole number of at least 0")):
        model.read(SPACE.empty(), -1, LETTERS.vectors)
    with pytest.raises(ValueError, match="there are no vectors to choose from"):
        model.read(SPACE.empty(), 2, LETTERS.vectors[:0])


# --------------------------------------------------------------------------------------------------------------- NGrams


def gram_scores(space: Space, grams: list[str], source: str = "abracadabra") -> Tensor:
    letters = Codebook(space, list("abcdr"))
    encoded = NGrams(3)(letters(list(source)))
    return ghrr.similarity(encoded, torch.stack([ghrr.multibind(letters(list(gram))) for gram in grams]))


def test_ngrams_count_what_occurs_in_order() -> None:
    """Two times abr, never rba; the mean over seeds is the count plus the shares of n-grams in another order."""
    scores = torch.stack([gram_scores(Space(200, 4, seed=s), ["abr", "rba", "bar"]) for s in range(100)])
    assert scores[:, 0].mean() > 1.9
    assert scores[:, 1].mean() < 0.5
    assert (scores[:, 0] > scores[:, 1]).all()
    never = torch.stack([gram_scores(Space(200, 4, seed=s), ["ddd"]) for s in range(100)])
    assert_mean(never, 0.0)


def test_without_matrices_an_ngram_and_its_reversal_are_the_same() -> None:
    """The control: m = 1 is FHRR, binding commutes, and no dimension helps."""
    scores = gram_scores(Space(2000, 1), ["abr", "rba", "bar"])
    torch.testing.assert_close(scores, scores[:1].expand(3))
    scores = gram_scores(Space(2000, 3), ["abr", "rba", "bar"])
    assert scores[0] > scores[1:].max() + 1


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_ngrams_equal_their_definition(n: int) -> None:
    space = Space(10, 2, dtype=torch.complex128)
    items = space.random(2, 6, generator=generator())
    want = sum(ghrr.multibind(items[:, t : t + n]) for t in range(6 - n + 1))
    assert isinstance(want, Tensor)
    torch.testing.assert_close(NGrams(n)(items), want)
    if n > 1:
        assert not torch.allclose(NGrams(n)(items.flip(1)), want, atol=0.1)


def test_shapes_of_ngrams() -> None:
    assert NGrams(2)(SPACE.empty(0, 4)).shape == (0, 500, 3, 3)
    assert NGrams(3)(SPACE.empty(3)).shape == (500, 3, 3)


def test_bad_ngrams() -> None:
    for n, error in ((0, ValueError), (2.5, TypeError), ("two", TypeError)):
        with pytest.raises(error, match="NGrams: n must be a whole number"):
            NGrams(wrong(n))
    with pytest.raises(ValueError, match=re.escape("NGrams(items): 3-grams need at least 3 items, got")):
        NGrams(3)(SPACE.empty(2))
    with pytest.raises(ValueError, match="needs an axis of items"):
        NGrams(1)(SPACE.empty())
    with pytest.raises(TypeError, match="must be complex"):
        NGrams(1)(torch.zeros(2, 4, 2, 2))
