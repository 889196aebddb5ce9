"""N-grams: counts, hypervectors and weights equal their definitions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import ghrr
from ghrr.encoding import ngram_counts, ngram_vectors
from ghrr.encoding.bags import weighted_bags
from ghrr.learn import (
    GraphFeatures,
    HDClassifier,
    TextFeatures,
    graph_features,
    text_features,
)
from ghrr.learn.ngram_weights import class_information
from ghrr.space import Space


@pytest.mark.parametrize("table", [0, 1 << 20])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_counts_equal_counting_one_by_one(n: int, table: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    monkeypatch.setattr(ngram_counts, "_TABLE", table)  # numbered by sorting, and by a table
    texts = [random.integers(0, 4, size) for size in (30, 0, 3, 50)]
    counted = ngram_counts.count_ngrams(texts, n)
    got = {
        (int(text), tuple(counted.grams[row].tolist())): int(count)
        for text, row, count in zip(counted.texts, counted.indices, counted.counts, strict=True)
    }
    want = Counter(
        (k, tuple(text[i : i + n].tolist())) for k, text in enumerate(texts) for i in range(len(text) - n + 1)
    )
    assert got == dict(want)
    assert len(np.unique(counted.grams, axis=0)) == len(counted.grams)


@pytest.mark.parametrize("largest", [5, 2**40, 2**62])  # the last leaves no room for indices
@pytest.mark.parametrize("count", [0, 1, 1000])
def test_stable_order_is_that_of_a_stable_sort(count: int, largest: int) -> None:
    keys = np.random.default_rng(0).integers(0, largest, count)
    keys[count // 2 :] = keys[: count - count // 2]  # equal ones
    np.testing.assert_array_equal(ngram_counts.stable_order(keys), np.argsort(keys, kind="stable"))


def product(symbols: Tensor, gram: list[int]) -> Tensor:
    shifts = symbols.shape[-1] == 1
    factors = [ghrr.shift(symbols[row], place) if shifts else symbols[row] for place, row in enumerate(gram)]
    return ghrr.multibind(torch.stack(factors))


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_vectors_are_ordered_products_of_symbols(m: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ngram_vectors, "CHUNK_NUMBERS", (200, 200))  # several chunks of slots
    symbols = Space(dim=13, m=m, seed=0).vectors(list("abcd"))
    grams = np.random.default_rng(0).integers(0, 4, (20, n))
    parts = list(ngram_vectors.ngram_vectors(symbols, grams))
    assert [slot for slots, _ in parts for slot in range(*slots.indices(13))] == list(range(13))
    assert all(part.shape[1] == slots.stop - slots.start for slots, part in parts)
    got = torch.cat([part for _, part in parts], dim=1)
    torch.testing.assert_close(got, torch.stack([product(symbols, gram) for gram in grams.tolist()]))
    if n > 1:  # negative control: the reverse order
        reverse = torch.stack([product(symbols, gram[::-1]) for gram in grams.tolist()])
        assert (got - reverse).abs().max() > 0.1


def test_information_is_the_divergence_of_classes_given_an_ngram() -> None:
    texts = [np.array(text) for text in ([0] * 30 + [1] * 10, [0] * 60 + [2] * 20, [1] * 5 + [3] * 5)]
    labels, weights = np.array([0, 1, 1]), np.array([1.0, 1.0, 2.0])
    counted = ngram_counts.count_ngrams(texts, 1)
    counts = np.array([[30, 60], [10, 10], [0, 20], [0, 10]], dtype=float)  # by symbol and class, with weights
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()
    lift = (counts + 1) / (expected + 1)
    p = lift / lift.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(class_information(counted, labels, weights), (p * np.log(2 * p)).sum(axis=1))


def test_informative_ngrams_weigh_more_and_unseen_ones_nothing() -> None:
    texts = ["ab" * 20 + "x" * 5, "ab" * 20 + "y" * 5] * 10
    encoder = TextFeatures(200, n=1, weighting="learned", random_state=0).fit(texts, [0, 1] * 10)
    weights = dict(
        zip((encoder.symbols_[row] for row in encoder._grams[0][:, 0]), encoder._gram_weights[0], strict=True)
    )
    assert weights["x"] > 10 * weights["a"]
    assert weights["x"] == pytest.approx(weights["y"])
    pairs = TextFeatures(200, n=2, weighting="learned", random_state=0).fit(texts, [0, 1] * 10)
    assert not pairs.transform(["xy"]).any()  # both symbols are known, the pair is not


def test_learned_weights_help_where_common_ngrams_hide_the_signal() -> None:
    random = np.random.default_rng(0)

    def text(label: Any) -> str:
        return "".join(random.choice(list("abcdefgh"), 200)) + ("xyx" if label else "yxy")

    labels = np.arange(200) % 2
    texts = [text(label) for label in labels]
    scores = {}
    for weighting in ("sqrt", "learned"):
        model = HDClassifier(TextFeatures(100, n=2, weighting=weighting, random_state=0), training="centroid")
        scores[weighting] = model.fit(texts[:100], labels[:100]).score(texts[100:], labels[100:])
    assert scores["learned"] > scores["sqrt"] + 0.1


def test_learned_weights_need_labels() -> None:
    encoder = TextFeatures(weighting="learned")
    with pytest.raises(ValueError, match="requires y"):
        encoder.fit(["a", "b"])
    with pytest.raises(ValueError, match="continuous"):
        encoder.fit(["a", "b"], [0.5, 0.7])
    with pytest.raises(ValueError, match="inconsistent"):
        encoder.fit(["a", "b"], [0, 1, 1])


@pytest.mark.parametrize("weighting", ["count", "sqrt", "idf", "learned"])
def test_texts_shorter_than_n_have_no_features(weighting: str) -> None:
    encoder = TextFeatures(10, n=3, weighting=weighting, random_state=0)
    assert not encoder.fit(["ab", "b"], [0, 1]).transform(["a", "ab"]).any()
    assert encoder.transform(["aba"]).any()


def test_unknown_characters_are_left_out() -> None:
    encoder = TextFeatures(20, n=2, random_state=0).fit(["abc", "añ😀"])
    np.testing.assert_array_equal(encoder.transform(["aZb\U0010ffff"]), encoder.transform(["ab"]))
    assert np.abs(encoder.transform(["añb"]) - encoder.transform(["ab"])).max() > 0.01  # negative control


def test_products_are_bundled_the_same_in_chunks_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["abracadabra", "abraham", "", "xyzzy"]
    graphs = [(list(text), [[i, i + 1] for i in range(len(text) - 1)]) for text in texts]
    whole = TextFeatures(20, n=2, random_state=0).fit_transform(texts), GraphFeatures(20, random_state=0).fit(graphs)
    want = whole[0], whole[1].transform(graphs)
    monkeypatch.setattr(text_features, "_GRAMS", 3)
    monkeypatch.setattr(graph_features, "CHUNK_NUMBERS", (60, 60))  # 3 products
    got = TextFeatures(20, n=2, random_state=0).fit_transform(texts), whole[1].transform(graphs)
    for chunks, one in zip(got, want, strict=True):
        np.testing.assert_allclose(chunks, one, atol=1e-6)


@pytest.mark.parametrize("step", [1, 3, 100])
def test_weighted_bags_equal_a_product_with_a_matrix_of_weights(step: int) -> None:
    random = np.random.default_rng(0)
    matrix = random.random((5, 7)) * (random.random((5, 7)) < 0.4)
    matrix[2] = 0  # a bag without entries
    bags, rows = np.nonzero(matrix)
    table = Space(dim=4, m=2, seed=0).random(7)
    out = torch.ones(5, 4, 2, 2, dtype=torch.complex64)
    chunks = list(weighted_bags(bags, rows, matrix[bags, rows], step, out))
    assert len(chunks) == -(-7 // step)
    for chunk, sums in chunks:
        sums.add_to(out, table[chunk])
    want = 1 + torch.einsum("bk,kdij->bdij", torch.from_numpy(matrix).to(table), table)
    torch.testing.assert_close(out, want)


def test_bags_without_any_entries_have_no_chunks() -> None:
    nothing = np.empty(0, dtype=np.int64)
    assert not list(weighted_bags(nothing, nothing, nothing, 3, torch.zeros(2, 1, 1, 1)))


@pytest.mark.parametrize("keys", [[], [1, 4, 9]])
def test_keys_are_found_where_they_are(keys: list[int]) -> None:
    wanted = [9, 0, 4, 10]
    want = [keys.index(key) if key in keys else -1 for key in wanted]
    assert ngram_counts.find_keys(np.array(keys, dtype=np.int64), np.array(wanted)).tolist() == want
