"""Encoders: inner products are the kernels that the docstrings state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from sklearn.compose import ColumnTransformer

from ghrr.learn import HDClassifier, ImageFeatures, KernelFeatures, SeriesFeatures, TextFeatures, kernel_features


@pytest.mark.parametrize("sampling", ["random", "orthogonal", "qmc"])
@pytest.mark.parametrize("m", [1, 2])
def test_inner_products_of_kernel_features_are_the_kernel(m: int, sampling: str) -> None:
    X = np.random.default_rng(0).normal(size=(30, 4))
    encoder = KernelFeatures(dim=2000, m=m, bandwidth=1.5, sampling=sampling, random_state=0)
    z = encoder.fit_transform(X).astype(np.float64)
    squares = ((X[:, None] - X) ** 2).sum(axis=2)
    error = 5 / np.sqrt(2 * 2000 * m)
    np.testing.assert_allclose(z @ z.T, np.exp(-squares / (2 * 1.5**2)), atol=error)
    assert np.abs(z @ z.T - np.exp(-squares / (2 * 1.0**2))).max() > error  # negative control: another bandwidth


def test_sparse_and_dense_input_have_the_same_features() -> None:
    X = np.random.default_rng(0).normal(size=(10, 5)) * (np.random.default_rng(1).random((10, 5)) < 0.5)
    encoder = KernelFeatures(dim=50, random_state=0).fit(X)
    np.testing.assert_allclose(encoder.transform(scipy.sparse.csr_matrix(X)), encoder.transform(X), atol=1e-6)
    fitted = KernelFeatures(dim=50, random_state=0).fit(scipy.sparse.csr_matrix(X))
    np.testing.assert_allclose(fitted.bandwidth_, encoder.bandwidth_)


@pytest.mark.parametrize(("most", "sampling"), [(3, "random"), (4, "orthogonal")])
def test_frequencies_of_many_features_are_random(most: int, sampling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_features, "_MOST_ORTHOGONAL", most)
    X = np.random.default_rng(0).normal(size=(30, 4))
    default, chosen = (KernelFeatures(20, sampling=s, random_state=0).fit(X) for s in (None, sampling))
    assert torch.equal(default.frequencies_, chosen.frequencies_)


def test_image_features_tolerate_small_shifts_only() -> None:
    image = np.zeros((20, 20), dtype=np.float32)
    image[5:12, 5:8] = 1.0
    images = np.stack([np.roll(image, shift, axis=(0, 1)) for shift in (0, 1, 6)]).reshape(3, -1)
    z = ImageFeatures(dim=1000, position_bandwidth=2.0, random_state=0).fit_transform(images)
    near, far = z[0] @ z[1], z[0] @ z[2]
    assert near > 0.6 > 0.3 > far


def test_encoding_of_all_patches_on_a_gpu_equals_that_of_patches_that_are_not_blank() -> None:
    images = torch.from_numpy(np.random.default_rng(0).random((6, 12, 10)).astype(np.float32))
    images[:3, :7] = 0.25  # blank patches
    images[3] = 0.0
    encoder = ImageFeatures(dim=40, image_shape=(12, 10), patch=3, stride=2, random_state=0).fit(images.flatten(1))
    dense, sparse = torch.full((2, 6, 80), torch.nan)
    encoder._encode_all_patches(images.flatten(1), dense)
    encoder._encode_into(images.flatten(1), sparse)
    torch.testing.assert_close(dense, sparse)
    assert torch.count_nonzero(dense[3]) == 0
    assert dense[:3].norm() > 0


def test_image_features_equal_their_definition() -> None:
    images = np.random.default_rng(0).random((3, 36)).astype(np.float32)
    encoder = ImageFeatures(dim=40, patch=3, stride=2, random_state=0).fit(images)
    want = []
    for image in images.reshape(3, 6, 6).astype(np.float64):
        total = np.zeros(40, dtype=complex)
        for place, (row, column) in enumerate([(0, 0), (0, 2), (2, 0), (2, 2)]):
            patch = image[row : row + 3, column : column + 3].ravel()
            patch = patch - patch.mean()
            angle = encoder.patch_frequencies_.numpy() @ (patch / np.linalg.norm(patch))
            total += np.linalg.norm(patch) * np.exp(1j * (angle + encoder.position_phases_[place].numpy()))
        row_of = np.concatenate([total.real, total.imag])
        want.append(row_of / np.linalg.norm(row_of))
    np.testing.assert_allclose(encoder.transform(images), want, atol=1e-5)


ROWS = np.random.default_rng(0).random((7, 64)).astype(np.float32)


@pytest.mark.parametrize(
    ("encoder", "samples"),
    [
        (ImageFeatures(30, patch=3, random_state=0), ROWS),
        (SeriesFeatures(30, m=2, random_state=0), ROWS),
        (TextFeatures(30, m=2, n=[1, 2], random_state=0), ["abc" * i for i in range(1, 8)]),
        (TextFeatures(30, n=3, random_state=0), ["abcd"[i % 3 :] * i for i in range(1, 8)]),
    ],
)
def test_features_do_not_depend_on_the_number_of_threads(encoder: Any, samples: Any) -> None:
    encoder.fit(samples)
    before = torch.get_num_threads()
    found = []
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            found.append(encoder.transform(samples))
        with torch.inference_mode():
            found.append(encoder.transform(samples))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        np.testing.assert_allclose(found[0], other, atol=1e-6)
    assert np.abs(found[0] - found[0][::-1]).max() > 0.01  # negative control: samples differ


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("n", [2, [1, 3]])
def test_text_features_approximate_the_kernel_of_weighted_ngrams(m: int, n: int | list[int]) -> None:
    texts = ["abracadabra", "abraham", "cadabra", "xyzzy"]
    z = TextFeatures(dim=8000 // m**2, m=m, n=n, weighting="count", random_state=0).fit_transform(texts)
    lengths = [n] if isinstance(n, int) else n
    bags = [[text[i : i + k] for k in lengths for i in range(len(text) - k + 1)] for text in texts]
    words = sorted({gram for bag in bags for gram in bag})
    counts = np.array([[bag.count(word) for word in words] for bag in bags], dtype=float)
    counts /= np.linalg.norm(counts, axis=1, keepdims=True)
    # Two n-grams with the symbols of another order share up to 1/m² for m > 1.
    tolerance = 6 / np.sqrt(2 * 8000) if m == 1 else 0.12
    np.testing.assert_allclose(z @ z.T, counts @ counts.T, atol=tolerance)


def test_order_of_symbols_matters() -> None:
    for m in (1, 3):
        z = TextFeatures(dim=3000 // m**2, m=m, n=3, random_state=0).fit_transform(["abc", "cba"])
        assert z[0] @ z[1] < 0.3


def test_rare_ngrams_weigh_more_with_idf() -> None:
    texts = ["the cat", "the dog", "the cow", "the ant"]
    plain, idf = (
        TextFeatures(dim=2000, n=3, weighting=weighting, random_state=0).fit_transform(texts)
        for weighting in ("sqrt", "idf")
    )
    assert idf[0] @ idf[1] < plain[0] @ plain[1]


def test_texts_of_any_length_are_classified() -> None:
    texts = ["aaab" * k for k in range(1, 9)] + ["bbba" * k for k in range(1, 9)]
    model = HDClassifier(TextFeatures(dim=300, n=2, random_state=0)).fit(texts, [0] * 8 + [1] * 8)
    assert model.predict(["aaabaaab", "bbbabbba", ""]).tolist()[:2] == [0, 1]


def test_lists_of_tokens_equal_texts_of_the_same_symbols() -> None:
    texts = ["abcab", "bca", "cc"]
    want = TextFeatures(dim=50, n=2, random_state=0).fit_transform(texts)
    tokens = TextFeatures(dim=50, n=2, analyzer="token", random_state=0)
    np.testing.assert_array_equal(tokens.fit_transform([list(text) for text in texts]), want)
    numbers = tokens.fit_transform([[1, 2, 1], (2, 1, 2), np.array([1, 1])])
    np.testing.assert_array_equal(numbers, tokens.fit_transform([["1", "2", "1"], ["2", "1", "2"], ["1", "1"]]))
    with pytest.raises(ValueError, match="lists of tokens"):
        tokens.fit(["abc"])


NOTES = ["the cat sat", "the cat ran", "un chat noir"]


@pytest.mark.parametrize(
    "X",
    [
        tuple(NOTES),
        np.array(NOTES),
        pd.Series(NOTES, index=[7, 7, 8]),
        pd.DataFrame({"note": NOTES}),
        np.array(NOTES, dtype=object)[:, None],
    ],
)
def test_texts_are_read_from_a_column_of_any_kind(X: Any) -> None:
    encoder = TextFeatures(20, random_state=0)
    np.testing.assert_array_equal(encoder.fit_transform(X), encoder.fit_transform(NOTES))


def test_texts_and_tokens_are_read_from_polars() -> None:
    polars = pytest.importorskip("polars")
    text = TextFeatures(20, random_state=0)
    table = polars.DataFrame({"note": NOTES, "tokens": [note.split() for note in NOTES]})
    for X in (table["note"], table[["note"]]):
        np.testing.assert_array_equal(text.fit_transform(X), text.fit_transform(NOTES))
    tokens = TextFeatures(20, n=1, analyzer="token", random_state=0)
    want = tokens.fit_transform([note.split() for note in NOTES])
    for X in (table["tokens"], table[["tokens"]]):
        np.testing.assert_array_equal(tokens.fit_transform(X), want)


def test_rows_of_an_array_are_lists_of_tokens() -> None:
    tokens = TextFeatures(20, n=1, analyzer="token", random_state=0)
    for rows in ([["a"], ["b"]], [["a", "b"], ["b", "b"]]):
        np.testing.assert_array_equal(tokens.fit_transform(np.array(rows)), tokens.fit_transform(rows))


@pytest.mark.parametrize("column", ["note", ["note"]])
def test_column_transformer_selects_the_texts_of_a_table(column: Any) -> None:
    table = pd.DataFrame({"note": NOTES, "size": [1.0, 2.0, 3.0]})
    text = TextFeatures(20, random_state=0)
    both = ColumnTransformer([("text", text, column)], remainder="passthrough").fit_transform(table)
    np.testing.assert_array_equal(both, np.column_stack([text.fit_transform(NOTES), table["size"]]))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("one string", "put it into a list"),
        ([1, 2], "needs strings"),
        ([], "0 sample"),
        ([""], "symbols"),
        (pd.DataFrame({"note": NOTES, "other": NOTES}), r'got DataFrame of shape \(3, 2\); .*df\["note"\]'),
        (np.array([NOTES]), r"got ndarray of shape \(1, 3\); give one column"),
        (np.array("text"), "give one column"),
        ({"note": NOTES}, "got dict; give one column"),
        (set(NOTES), "got set; give one column"),
        (None, "got NoneType; give one column"),
    ],
)
def test_wrong_texts_are_refused(X: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TextFeatures().fit(X)


@pytest.mark.parametrize("n", [0, [], [0, 1], [1.5], "3"])
def test_wrong_lengths_of_ngrams_are_refused(n: Any) -> None:
    with pytest.raises(ValueError, match=r"'?n'? .*(positive integer|range \[1, inf\))"):
        TextFeatures(n=n).fit(NOTES)


def test_uniform_images_have_no_features() -> None:
    values = np.concatenate([[0.0, 0.1, 0.3, 255.0, -7e3], np.random.default_rng(0).random(50)])
    for patch in (2, 5, 15):
        encoder = ImageFeatures(10, patch=patch, random_state=0)
        assert not encoder.fit_transform(np.repeat(values[:, None], 256, axis=1)).any()
        faint = np.full((1, 256), 0.1)
        faint[0, 120] *= 1.001  # negative control
        assert np.linalg.norm(encoder.transform(faint)) == pytest.approx(1.0)


def test_images_keep_the_shape_of_their_array() -> None:
    images = np.random.default_rng(0).random((4, 8, 9))
    rows = images.reshape(4, 72)
    want = ImageFeatures(10, image_shape=(8, 9), patch=3, random_state=0).fit_transform(rows)
    encoder = ImageFeatures(10, patch=3, random_state=0).fit(images)
    assert encoder.image_shape_ == (8, 9)
    assert encoder.n_features_in_ == 72
    for X in (images, list(images), rows):
        np.testing.assert_array_equal(encoder.transform(X), want)
    with pytest.raises(ValueError, match="got images of 9 x 8 pixels, expected 8 x 9"):
        encoder.transform(images.transpose(0, 2, 1))
    with pytest.raises(ValueError, match="got images of 8 x 9 pixels, expected 9 x 8"):
        ImageFeatures(10, image_shape=(9, 8), patch=3).fit(images)


@pytest.mark.parametrize("shape", [(8.0, 8.0), ("8", "8"), (8, 8, 1), (64,), (-8, -8)])
def test_wrong_image_shapes_are_refused(shape: Any) -> None:
    with pytest.raises(ValueError, match="image_shape must be two positive integers"):
        ImageFeatures(image_shape=shape).fit(np.zeros((2, 64)))


def test_wrong_images_are_refused() -> None:
    with pytest.raises(ValueError, match="set image_shape"):
        ImageFeatures().fit(np.zeros((2, 30)))
    with pytest.raises(ValueError, match=r"got an array of shape \(2, 8, 8, 3\); turn colours into grey values"):
        ImageFeatures().fit(np.zeros((2, 8, 8, 3)))
    with pytest.raises(ValueError, match="patch"):
        ImageFeatures(patch=9).fit(np.zeros((2, 64)))
    with pytest.raises(ValueError, match="patch"):  # without its mean, a patch of one pixel is blank
        ImageFeatures(patch=1).fit(np.zeros((2, 64)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "rbff"}, "KernelFeatures.fit: unknown kernel 'rbff', expected one of rbf, .*did you mean 'rbf'"),
        ({"kernel": "none", "bandwidth": 1.0, "sampling": "random"}, "KernelFeatures.fit: unknown kernel 'none'"),
        ({"device": "gpu"}, "KernelFeatures.fit: device 'gpu' cannot be used"),
    ],
)
def test_wrong_settings_of_kernel_features_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KernelFeatures(5, **settings).fit(np.eye(3))
