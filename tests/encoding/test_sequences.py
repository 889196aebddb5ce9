"""Sequences and n-grams: binding encodes the order, except for m = 1, where it commutes."""

from __future__ import annotations

import math
import re

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr import Space
from ghrr.encoding import Codebook, NGramEncoder, SequenceEncoder
from tests.helpers import assert_mean, generator, wrong

SPACE = Space(500, 3)
LETTERS = Codebook(SPACE, list("abcdefghijklmnopqrstuvwxyz"))


def text(found: Tensor) -> str:
    return "".join(LETTERS.names[i] for i in found.tolist())


# ------------------------------------------------------------------------------------------------------ SequenceEncoder


@pytest.mark.parametrize("word", ["a", "order", "abracadabra", "zzyzx"])
def test_read_returns_the_encoded_sequence(word: str) -> None:
    model = SequenceEncoder(SPACE)
    assert text(model.read(model(LETTERS(list(word))), len(word), LETTERS.vectors())) == word


def test_read_distinguishes_orders() -> None:
    model = SequenceEncoder(SPACE)
    one, two = model(LETTERS([list("stop"), list("pots")]))
    assert text(model.read(one, 4, LETTERS.vectors())) == "stop"
    assert text(model.read(two, 4, LETTERS.vectors())) == "pots"
    assert ghrr.similarity(one, two) / 4 < 0.1  # no letter has the same position
    bag = LETTERS(list("stop")).sum(dim=0)
    torch.testing.assert_close(bag, LETTERS(list("pots")).sum(dim=0))  # negative control: equal without positions


def test_elements_are_unbound_from_the_left() -> None:
    model = SequenceEncoder(SPACE)
    x = model(LETTERS(list("word")))
    for place, letter in enumerate("word"):
        item = model.item(x, place)
        key = model.keys(place)
        torch.testing.assert_close(item, ghrr.unbind(x, key, side="left"))
        noise = math.sqrt(4) * SPACE.noise_std
        assert ghrr.similarity(item, LETTERS(letter)) > 1 - 5 * noise
        if place:  # R^0 is the identity, so both sides are equal at position 0
            assert ghrr.similarity(ghrr.unbind(x, key, side="right"), LETTERS(letter)) < 0.5
    assert ghrr.similarity(model.item(x, 7), LETTERS.vectors()).abs().max() < 5 * math.sqrt(4) * SPACE.noise_std


def test_a_sequence_is_the_sum_of_bound_powers() -> None:
    space = Space(10, 2, dtype=torch.complex128)
    model, items = SequenceEncoder(space), space.random(3, generator=generator())
    r = model.positions.base
    want = items[0] + ghrr.bind(r, items[1]) + ghrr.multibind(torch.stack([r, r, items[2]]))
    torch.testing.assert_close(model(items), want)
    assert not torch.allclose(SequenceEncoder(space, name="other")(items), want, atol=0.1)


@pytest.mark.slow
def test_sequences_have_the_batch_shape_of_the_items() -> None:
    model = SequenceEncoder(SPACE)
    x = model(LETTERS([["a", "b"], ["c", "d"], ["e", "f"]]))
    assert x.shape == (3, 500, 3, 3)
    assert model.item(x, 1).shape == (3, 500, 3, 3)
    assert model.item(x, torch.tensor([0, 1])).shape == (3, 2, 500, 3, 3)
    assert model.item(x, torch.zeros(2, 4)).shape == (3, 2, 4, 500, 3, 3)
    assert torch.equal(model.read(x, 2, LETTERS.vectors()), torch.tensor([[0, 1], [2, 3], [4, 5]]))
    assert model.read(x, 0, LETTERS.vectors()).shape == (3, 0)
    assert torch.equal(model(LETTERS([])), SPACE.zeros())
    assert model(SPACE.zeros(0, 4)).shape == (0, 500, 3, 3)


def test_sequences_with_a_common_prefix_are_similar() -> None:
    model = SequenceEncoder(SPACE)
    same, other = model(LETTERS([list("abcdef"), list("abcxyz")]))
    assert ghrr.similarity(same, other).item() / 6 == pytest.approx(0.5, abs=5 * SPACE.noise_std)


def test_a_long_sequence_is_the_sum_of_bound_powers() -> None:
    """With exponents of several digits, an incomplete last block, and gradients."""
    space = Space(3, 2, dtype=torch.complex128)
    model, items = SequenceEncoder(space), space.random(2, 300, generator=generator()).requires_grad_()
    keys = torch.stack([ghrr.power(model.positions.base, place) for place in range(300)])
    want = ghrr.bind_bundle(keys, items)
    torch.testing.assert_close(model(items), want)
    torch.testing.assert_close(model.keys(torch.arange(300)), keys)
    weight = space.random(2, generator=generator(1))
    got, expected = (torch.autograd.grad(ghrr.similarity(one, weight).sum(), items)[0] for one in (model(items), want))
    torch.testing.assert_close(got, expected)


@pytest.mark.slow
def test_indices_may_be_real_or_negative() -> None:
    model = SequenceEncoder(SPACE)
    torch.testing.assert_close(model.keys(-2), ghrr.adjoint(model.keys(2)), atol=1e-4, rtol=0)
    half = model.keys(torch.tensor(0.5))
    torch.testing.assert_close(ghrr.bind(half, half), model.keys(1), atol=1e-4, rtol=0)


def test_a_trainable_base_gets_gradients() -> None:
    model = SequenceEncoder(Space(5, 2, dtype=torch.complex128))
    model.positions.base.requires_grad_()
    model(model.space.random(20, generator=generator())).abs().sum().backward()
    assert model.positions.base.grad is not None


def test_invalid_sequences_raise() -> None:
    model = SequenceEncoder(SPACE)
    with pytest.raises(ValueError, match=re.escape("SequenceEncoder(items): items needs an axis of items")):
        model(SPACE.zeros())
    with pytest.raises(ValueError, match="does not fit Space"):
        model(Space(4, 2).zeros(3))
    with pytest.raises(TypeError, match=re.escape("SequenceEncoder(items): items must be complex")):
        model(torch.zeros(3, 500, 3, 3))
    with pytest.raises(TypeError, match=re.escape("SequenceEncoder(items): items must be")):
        model(wrong(["a", "b"]))
    with pytest.raises(ValueError, match=re.escape("SequenceEncoder.item")):
        model.item(Space(4, 2).zeros(), 0)
    with pytest.raises(TypeError, match="needs numbers, got str 'first'"):
        model.item(SPACE.zeros(), wrong("first"))
    with pytest.raises(ValueError, match=r"SequenceEncoder.read: length must be a whole number of at least 0"):
        model.read(SPACE.zeros(), -1, LETTERS.vectors())
    with pytest.raises(ValueError, match="needs at least one vector"):
        model.read(SPACE.zeros(), 2, LETTERS.vectors()[:0])


# --------------------------------------------------------------------------------------------------------- NGramEncoder


def gram_scores(space: Space, grams: list[str], source: str = "abracadabra") -> Tensor:
    letters = Codebook(space, list("abcdr"))
    encoded = NGramEncoder(3, permute=False)(letters(list(source)))
    return ghrr.similarity(encoded, torch.stack([ghrr.multibind(letters(list(gram))) for gram in grams]))


def test_ngram_scores_are_counts_in_order() -> None:
    """ "abr" occurs twice, "rba" never. The mean score is the count plus a share of n-grams in another order."""
    scores = torch.stack([gram_scores(Space(200, 4, seed=s), ["abr", "rba", "bar"]) for s in range(100)])
    assert scores[:, 0].mean() > 1.9
    assert scores[:, 1].mean() < 0.5
    assert (scores[:, 0] > scores[:, 1]).all()
    never = torch.stack([gram_scores(Space(200, 4, seed=s), ["ddd"]) for s in range(100)])
    assert_mean(never, 0.0)


def test_ngrams_of_fhrr_do_not_depend_on_order() -> None:
    """Negative control: for m = 1 binding commutes."""
    scores = gram_scores(Space(2000, 1), ["abr", "rba", "bar"])
    torch.testing.assert_close(scores, scores[:1].expand(3))
    scores = gram_scores(Space(2000, 3), ["abr", "rba", "bar"])
    assert scores[0] > scores[1:].max() + 1


@pytest.mark.parametrize("permute", [None, False, True])
@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_ngrams_equal_their_definition(n: int, m: int, permute: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space(10, m, dtype=torch.complex128)
    items = space.random(2, 6, generator=generator())
    model = NGramEncoder(n, permute=permute)
    step = int(m == 1 if permute is None else permute)
    shifted = [ghrr.shift(items, step * factor) for factor in range(n)]
    want = sum(ghrr.multibind([shifted[j][:, t + j] for j in range(n)]) for t in range(6 - n + 1))
    assert isinstance(want, Tensor)
    torch.testing.assert_close(model(items), want)
    torch.testing.assert_close(model.from_codebook(items[0], torch.arange(6)), want[0])
    monkeypatch.setattr("ghrr.encoding.ngrams._CHUNK_NUMBERS", 1)
    torch.testing.assert_close(model(items), want)
    if n > 1 and (m > 1 or step):
        assert not torch.allclose(model(items.flip(1)), want, atol=0.1)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_repeated_ngrams_of_a_codebook_are_all_counted(n: int) -> None:
    space = Space(10, 2, dtype=torch.complex128)
    codebook, rows = space.random(3, generator=generator()), torch.randint(0, 3, (50,), generator=generator())
    for permute in (False, True):
        model = NGramEncoder(n, permute=permute)
        torch.testing.assert_close(model.from_codebook(codebook, rows), model(codebook[rows]))


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_shifted_ngrams_of_a_text_and_its_reversal_are_dissimilar(m: int) -> None:
    space = Space.from_total(9000, m)
    letters = Codebook(space, list("abcdefgh"))
    text, reverse = letters([list("abcdefgh"), list("hgfedcba")])
    model, control = NGramEncoder(3, permute=True), NGramEncoder(3, permute=False)
    assert abs(ghrr.similarity(model(text), model(reverse))) < 5 * 6 * space.noise_std
    assert ghrr.similarity(control(text), control(reverse)) / 6 == pytest.approx(1 / m**2, abs=5 * space.noise_std)
    by_default = NGramEncoder(3)
    assert torch.equal(by_default(text), (model if m == 1 else control)(text))


def test_ngrams_have_the_batch_shape_of_the_items() -> None:
    assert NGramEncoder(2)(SPACE.zeros(0, 4)).shape == (0, 500, 3, 3)
    assert NGramEncoder(3)(SPACE.zeros(3)).shape == (500, 3, 3)


def test_invalid_ngrams_raise() -> None:
    for n, error in ((0, ValueError), (2.5, TypeError), ("two", TypeError)):
        with pytest.raises(error, match="NGramEncoder: n must be a whole number"):
            NGramEncoder(wrong(n))
    with pytest.raises(ValueError, match=re.escape("NGramEncoder(items): 3-grams need at least 3 items, got")):
        NGramEncoder(3)(SPACE.zeros(2))
    with pytest.raises(TypeError, match="permute must be True, False or None"):
        NGramEncoder(2, permute=wrong("yes"))
    with pytest.raises(ValueError, match="needs at least 4 slots"):
        NGramEncoder(4, permute=True)(Space(3, 2).zeros(5))
    with pytest.raises(ValueError, match=r"from_codebook: needs a codebook .* at least 3 indices"):
        NGramEncoder(3).from_codebook(SPACE.zeros(4), torch.tensor([0, 1]))
    with pytest.raises(IndexError, match="indices must be from 0 to 3, got 0 to 7"):
        NGramEncoder(2).from_codebook(SPACE.zeros(4), torch.tensor([0, 7]))
    with pytest.raises(ValueError, match="needs an axis of items"):
        NGramEncoder(1)(SPACE.zeros())
    with pytest.raises(TypeError, match="must be complex"):
        NGramEncoder(1)(torch.zeros(2, 4, 2, 2))
