"""Bandwidths: the median distance, and the choice by cross-validation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_classification

from ghrr.encoding import FractionalPower
from ghrr.learn import HDClassifier, HDRegressor, KernelFeatures
from ghrr.space import Space

RANDOM = np.random.default_rng(0)


def wave(frequency: float) -> tuple[Any, Any]:
    x = RANDOM.uniform(0, 10, size=(300, 1))
    return x, np.sin(frequency * x[:, 0])


def test_cross_validation_follows_the_scale_of_the_target() -> None:
    found = {}
    for frequency in (0.2, 5.0):
        x, y = wave(frequency)
        found[frequency] = KernelFeatures(dim=200, bandwidth="cv", random_state=0).fit(x, y).bandwidth_[0, 0]
    assert found[5.0] <= found[0.2] / 2
    x, y = wave(5.0)  # negative control: the median distance does not know the target
    assert KernelFeatures(dim=200).fit(x, y).bandwidth_[0, 0] > 2 * found[5.0]


def test_cross_validated_bandwidth_predicts_better_than_the_median() -> None:
    x, y = wave(5.0)
    scores = {
        bandwidth: HDRegressor(KernelFeatures(dim=300, bandwidth=bandwidth, random_state=0))
        .fit(x[:200], y[:200])
        .score(x[200:], y[200:])
        for bandwidth in ("median", "cv")
    }
    assert scores["cv"] > 0.99 > scores["median"]


@pytest.mark.slow
def test_cross_validated_bandwidth_classifies_better_than_the_median() -> None:
    X, y = make_classification(
        3000, 10, n_informative=8, n_redundant=0, n_classes=4, n_clusters_per_class=4, random_state=0
    )
    scores = [
        HDClassifier(KernelFeatures(dim=300, bandwidth=bandwidth, random_state=0))
        .fit(X[:1500], y[:1500])
        .score(X[1500:], y[1500:])
        for bandwidth in ("median", "cv")
    ]
    assert scores[1] > scores[0]


def test_frequencies_and_bandwidth_stay_consistent() -> None:
    x, y = wave(5.0)
    chosen = KernelFeatures(dim=50, bandwidth="cv", random_state=3).fit(x, y)
    given = KernelFeatures(dim=50, bandwidth=float(chosen.bandwidth_[0, 0]), random_state=3).fit(x)
    np.testing.assert_allclose(chosen.transform(x), given.transform(x), atol=1e-4)


def test_labels_and_numbers_are_both_targets() -> None:
    x = RANDOM.normal(size=(100, 2))
    labels = np.where(x[:, 0] > 0, "a", "b")
    for y in (labels, (labels == "a").astype(int), x[:, 0], x):
        KernelFeatures(dim=20, bandwidth="cv").fit(x, y)


def test_cross_validation_without_targets_is_refused() -> None:
    with pytest.raises(ValueError, match="requires y"):
        KernelFeatures(bandwidth="cv").fit(np.eye(3))
    with pytest.raises(ValueError, match="inconsistent"):
        KernelFeatures(bandwidth="cv").fit(np.eye(3), [1, 2])


@pytest.mark.parametrize("kernels", [["rbf", "laplace"], ["matern-3/2", "rbf"]])
def test_inner_product_of_mixed_kernels_is_their_mean(kernels: list[str]) -> None:
    x = RANDOM.normal(size=(20, 3))
    bandwidths = [[1.0], [2.0]]
    encoder = KernelFeatures(dim=4000, m=2, kernel=kernels, bandwidth=bandwidths, random_state=0)
    z = encoder.fit_transform(x).astype(np.float64)
    exact = FractionalPower(Space(dim=1, m=2), 3, kernel=kernels, bandwidth=bandwidths)
    error = 5 / np.sqrt(2 * 4000 * 2)
    np.testing.assert_allclose(z @ z.T, exact.kernel(x[:, None], x[None]), atol=error)
    other = FractionalPower(Space(dim=1, m=2), 3, kernel=kernels[::-1], bandwidth=bandwidths)  # negative control
    assert np.abs(z @ z.T - other.kernel(x[:, None], x[None]).numpy()).max() > error


def test_inner_product_equals_the_similarity_of_the_hypervectors() -> None:
    import torch

    import ghrr

    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    encoder = KernelFeatures(dim=40, m=3, bandwidth=1.5, random_state=7, sampling="random").fit(x.numpy())
    z = torch.from_numpy(encoder.transform(x.numpy()))
    h = FractionalPower(Space(dim=40, m=3, seed=7), 3, bandwidth=1.5)(x)
    torch.testing.assert_close(z @ z.mT, ghrr.pairwise_similarity(h, h), atol=1e-5, rtol=0)
