"""Encoders: inner products are the kernels that the docstrings state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

from ghrr.learn import HDClassifier, ImageFeatures, KernelFeatures, SeriesFeatures, TextFeatures


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


@pytest.mark.parametrize(
    ("X", "message"),
    [("one string", "put it into a list"), ([1, 2], "needs strings"), ([], "0 sample"), ([""], "symbols")],
)
def test_wrong_texts_are_refused(X: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TextFeatures().fit(X)


def test_wrong_images_are_refused() -> None:
    with pytest.raises(ValueError, match="image_shape"):
        ImageFeatures().fit(np.zeros((2, 30)))
    with pytest.raises(ValueError, match="patch"):
        ImageFeatures(patch=9).fit(np.zeros((2, 64)))
