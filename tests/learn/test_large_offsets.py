"""A large constant that is added to the input does not change what is learned, in single and double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import FunctionTransformer

from ghrr.learn import HDClassifier, HDRegressor, ImageFeatures, KernelFeatures, SeriesFeatures
from ghrr.learn.ridge import NormalEquations, solve_dual

X, XT, Y, YT = train_test_split(*load_digits(return_X_y=True), random_state=0)
X, XT = np.round(X), np.round(XT)  # whole numbers, which stay exact
# Offsets beyond which numbers of this precision are no longer exact are not tried.
OFFSETS = [(np.float32, 1e4), (np.float32, 1e6), (np.float64, 1e4), (np.float64, 1e9)]


@pytest.mark.parametrize("encoder", ["passthrough", FunctionTransformer()])
@pytest.mark.parametrize("training", ["ridge", "refined"])
@pytest.mark.parametrize(("dtype", "offset"), OFFSETS)
def test_classifier_of_plain_numbers_keeps_its_accuracy(encoder: Any, training: str, dtype: Any, offset: float) -> None:
    model = HDClassifier(encoder, training=training, max_epochs=3, random_state=0)
    expected = model.fit(X, Y).score(XT, YT)
    assert model.fit((X + offset).astype(dtype), Y).score((XT + offset).astype(dtype), YT) > expected - 0.01
    assert expected > 0.9


@pytest.mark.parametrize("training", ["ridge", "online"])
@pytest.mark.parametrize(("dtype", "offset"), OFFSETS)
def test_regression_keeps_its_accuracy(training: str, dtype: Any, offset: float) -> None:
    model = HDRegressor("passthrough", training=training, max_epochs=5, random_state=0)
    expected = model.fit(X, Y).score(XT, YT)
    moved = model.fit((X + offset).astype(dtype), Y + offset).score((XT + offset).astype(dtype), YT + offset)
    assert moved == pytest.approx(expected, abs=0.01)
    assert expected > 0.2


def test_stream_keeps_its_accuracy() -> None:
    model = HDClassifier("passthrough", alpha=0.1)
    for rows in np.array_split(np.arange(len(X)), 5):
        model.partial_fit((X[rows] + 1e4).astype(np.float32), Y[rows], classes=np.arange(10))
    whole = HDClassifier("passthrough", alpha=0.1).fit(X, Y)
    assert model.score((XT + 1e4).astype(np.float32), YT) == pytest.approx(whole.score(XT, YT), abs=0.01)


@pytest.mark.parametrize("form", ["primal", "dual"])
def test_solution_and_its_error_do_not_depend_on_constants(form: str) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(30, 20 if form == "primal" else 50, generator=generator, dtype=torch.float64)
    y = x[:, :1] + torch.randn(30, 1, generator=generator, dtype=torch.float64)
    found = []
    for offset in (0.0, 1e6):
        batch = x + offset, y + offset, torch.ones(30)
        sums = NormalEquations(x.shape[1], 1)
        sums.add(*batch)
        found.append(sums.solve([1e-2, 1.0]) if form == "primal" else solve_dual([batch], [1e-2, 1.0]))
    torch.testing.assert_close(found[0].weights, found[1].weights, rtol=1e-6, atol=1e-8)
    assert found[1].error == pytest.approx(found[0].error, rel=1e-6)


@pytest.mark.parametrize(("dtype", "offset"), OFFSETS)
@pytest.mark.parametrize("kernel", ["rbf", "laplace"])
def test_kernel_does_not_depend_on_a_constant(kernel: str, dtype: Any, offset: float) -> None:
    encoder = KernelFeatures(100, kernel=kernel, random_state=0)
    expected = encoder.fit_transform(X[:100])
    found = encoder.fit_transform((X[:100] + offset).astype(dtype))
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-4)
    angles = (X[:100] + offset)[:, None] * encoder.frequencies_.double().numpy()  # features stay cosines of the angles
    np.testing.assert_allclose(found[:, :100], np.cos(angles.sum(axis=2)) / 10, atol=1e-4)


def test_kernel_of_a_sparse_matrix_has_the_precision_of_a_dense_one() -> None:
    large = scipy.sparse.csr_matrix(np.where(X[:50] > 0, X[:50] + 1e6, 0).astype(np.float32))
    encoder = KernelFeatures(100, bandwidth=10.0, random_state=0)
    dense = encoder.fit_transform(large.toarray().astype(np.float64))
    np.testing.assert_allclose(encoder.fit_transform(large), dense, atol=1e-3)


def test_adaptive_kernel_does_not_depend_on_a_constant() -> None:
    x = np.round(np.random.default_rng(0).normal(size=(60, 2)) * 64) / 64
    encoder = KernelFeatures(20, m=2, adaptive=True, random_state=0)
    expected = encoder.fit_transform(x, x[:, 0] ** 2)
    found = encoder.fit_transform((x + 1e4).astype(np.float32), x[:, 0] ** 2)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-2)


@pytest.mark.parametrize(("dtype", "offset"), OFFSETS)
def test_images_and_series_do_not_depend_on_a_constant(dtype: Any, offset: float) -> None:
    for encoder in (ImageFeatures(50, patch=3, random_state=0), SeriesFeatures(50, random_state=0)):
        expected = encoder.fit_transform(X[:50])
        np.testing.assert_allclose(encoder.fit_transform((X[:50] + offset).astype(dtype)), expected, atol=1e-3)


def test_series_of_different_levels_keep_their_shapes() -> None:
    levels = 1e6 * np.arange(50.0)[:, None]
    encoder = SeriesFeatures(50, random_state=0)
    flat = encoder.fit(X[:50] + levels).transform(X[:50])  # each series on the same level
    np.testing.assert_allclose(encoder.transform(X[:50] + levels), flat, atol=1e-3)
