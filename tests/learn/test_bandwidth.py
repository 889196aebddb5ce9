"""Bandwidths: the median distance, and the choice by cross-validation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_classification

from ghrr.encoding import FractionalPower
from ghrr.learn import HDClassifier, HDRegressor, KernelFeatures, bandwidth, kernel_features
from ghrr.learn.base import class_signs
from ghrr.space import Space


def wave(frequency: float) -> tuple[Any, Any]:
    x = np.random.default_rng(0).uniform(0, 10, size=(300, 1))
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


def test_median_bandwidth_has_the_norm_of_the_kernel() -> None:
    """With independent features, sums of absolute differences are the square root of their number larger."""
    x = np.random.default_rng(0).standard_normal((60, 100))
    pairs = np.abs(x[:, None] - x)
    distances = pairs.sum(axis=2), np.sqrt((pairs**2).sum(axis=2))
    sums, lengths = (np.quantile(values, 0.5, method="inverted_cdf") for values in distances)
    found = {name: KernelFeatures(5, kernel=name).fit(x).bandwidth_[0, 0] for name in ("laplace", "rbf", "cauchy")}
    assert found["laplace"] == pytest.approx(sums, rel=1e-6)
    assert found["rbf"] == found["cauchy"] == pytest.approx(lengths, rel=1e-6)
    assert sums > 5 * lengths
    mixed = KernelFeatures(5, m=2, kernel=["laplace", "rbf"], bandwidth_scale=0.5).fit(x).bandwidth_[:, 0]
    assert mixed == pytest.approx([sums / 2, lengths / 2], rel=1e-6)


def test_features_of_the_laplace_kernel_at_the_median_bandwidth_distinguish_rows() -> None:
    """At the median distance the kernel is 1/e; with the bandwidth of another norm it would be nearly 0."""
    x = np.random.default_rng(0).standard_normal((40, 200))
    z = KernelFeatures(dim=4000, kernel="laplace", random_state=0).fit_transform(x)
    similarities = (z @ z.T)[np.triu_indices(40, 1)]
    assert np.median(similarities) == pytest.approx(np.exp(-1), abs=0.02)


def test_frequencies_and_bandwidth_stay_consistent() -> None:
    x, y = wave(5.0)
    chosen = KernelFeatures(dim=50, bandwidth="cv", random_state=3).fit(x, y)
    given = KernelFeatures(dim=50, bandwidth=float(chosen.bandwidth_[0, 0]), random_state=3).fit(x)
    np.testing.assert_allclose(chosen.transform(x), given.transform(x), atol=1e-4)


def test_labels_and_numbers_are_both_targets() -> None:
    x = np.random.default_rng(0).normal(size=(100, 2))
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
    x = np.random.default_rng(0).normal(size=(20, 3))
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


def test_many_different_labels_are_sampled_before_they_become_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def signs(labels: Any, n_classes: int) -> Any:
        sizes.append((len(labels), n_classes))
        return class_signs(labels, n_classes)

    monkeypatch.setattr(kernel_features, "class_signs", signs)
    monkeypatch.setattr(bandwidth, "_MOST_ROWS", 50)
    x = np.random.default_rng(0).normal(size=(2000, 2))
    KernelFeatures(dim=20, bandwidth="cv", random_state=0).fit(x, np.arange(2000))
    assert sizes == [(50, 50)]
    with pytest.raises(ValueError, match="inconsistent"):
        KernelFeatures(dim=20, bandwidth="cv").fit(x, np.arange(1999))
