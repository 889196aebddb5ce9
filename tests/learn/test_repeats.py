"""Copies of a sample are left out together: the penalty and the probabilities are the same as without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification

from ghrr.learn import HDClassifier, HDRegressor, KernelFeatures, linear_model, ridge
from ghrr.learn.bandwidth import cross_validated_factor
from ghrr.learn.prototypes import class_sums, left_out_scores
from ghrr.learn.repeats import first_copies, independent_count, left_out_weights, sample_keys

X, Y = make_classification(1000, 20, n_informative=5, flip_y=0.3, random_state=0)
COPIES = np.tile(np.arange(100), 5)
MANY = np.random.default_rng(0).permutation(np.tile(np.arange(100), 20))


def classifier(training: str = "ridge", scale: float = 1.0, **settings: Any) -> HDClassifier:
    encoder = KernelFeatures(300, bandwidth_scale=scale, random_state=0)
    return HDClassifier(encoder, training=training, random_state=0, **settings)


def certainty_and_accuracy(model: HDClassifier, X: Any, y: Any) -> tuple[float, float]:
    return float(model.predict_proba(X).max(axis=1).mean()), float(model.score(X, y))


@pytest.mark.parametrize("rows", [COPIES, MANY], ids=["few", "many"])  # fewer samples than features, and more
@pytest.mark.parametrize("in_batches", [False, True])
def test_ridge_of_copies_is_as_certain_as_right(rows: Any, in_batches: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fitted() -> HDClassifier:
        model = classifier()
        return model.partial_fit(X[rows], Y[rows], classes=[0, 1]) if in_batches else model.fit(X[rows], Y[rows])

    once = classifier().fit(X[:100], Y[:100])
    sure, right = certainty_and_accuracy(fitted(), X[500:], Y[500:])
    assert right > once.score(X[500:], Y[500:]) - 0.03
    assert abs(sure - right) < 0.06
    for module in (ridge, linear_model):
        monkeypatch.setattr(module, "independent_count", lambda keys, targets, weights: float(weights.sum()))
    sure, right = certainty_and_accuracy(fitted(), X[500:], Y[500:])
    assert sure > right + 0.2  # negative control: copies count as new evidence


@pytest.mark.parametrize("training", ["refined", "online"])
def test_copies_are_held_out_together(training: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, gaps = np.tile(np.arange(200), 20), []
    for copies in (first_copies, lambda keys, targets, weights: torch.arange(len(keys))):
        monkeypatch.setattr(linear_model, "first_copies", copies)
        model = classifier(training, early_stopping=True, validation_fraction=0.3).fit(X[rows], Y[rows])
        sure, right = certainty_and_accuracy(model, X[500:], Y[500:])
        gaps.append(sure - right)
    assert gaps[0] < 2 * np.sqrt(0.25 / 60) < gaps[1]  # negative control: copies on both sides


def test_split_holds_out_all_copies_or_none() -> None:
    rows = np.random.default_rng(0).permutation(np.repeat(np.arange(50), np.arange(50) % 4 + 1))
    for model in (classifier(early_stopping=True), HDRegressor(early_stopping=True, training="online")):
        samples = model._fit_encoder(X[rows], Y[rows], np.ones(len(rows)))
        train, held_out = model._split(samples, Y[rows], np.ones(len(rows)))
        assert held_out is not None
        assert len(held_out)
        assert not set(rows[train]) & set(rows[held_out])
        assert len(np.union1d(train, held_out)) == len(rows) == len(train) + len(held_out)


def test_samples_that_are_all_equal_can_be_held_out() -> None:
    model = HDRegressor(KernelFeatures(20, bandwidth=1.0), training="online", early_stopping=True, max_epochs=2)
    np.testing.assert_allclose(model.fit(np.ones((10, 2)), np.full(10, 3.0)).predict(np.ones((1, 2))), 3.0)


@pytest.mark.parametrize("copies", [1, 5])
def test_centroids_are_as_certain_as_right(copies: int) -> None:
    model = classifier("centroid", scale=0.3)
    rows = np.tile(np.arange(300), copies)
    model.fit(X[rows], Y[rows])
    sure, right = certainty_and_accuracy(model, X[300:], Y[300:])
    assert abs(sure - right) < 0.06
    labels = np.searchsorted(model.classes_, Y[rows])
    model._calibrate(model._judge(model._check_samples(X[rows]), labels, np.ones(len(rows))))
    sure, right = certainty_and_accuracy(model, X[300:], Y[300:])
    assert sure > right + 0.06  # negative control: judged by samples that the centroids contain


def test_rows_of_few_values_are_not_taken_for_copies() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (400, 4))
    parity = rows.sum(axis=1) % 2
    sure, right = certainty_and_accuracy(classifier().fit(rows[:200], parity[:200]), rows[200:], parity[200:])
    assert right == 1.0
    assert sure > 0.9


def test_copies_are_found_in_batches_that_round_differently() -> None:
    z = torch.nn.functional.normalize(torch.randn(500, 300, generator=torch.Generator().manual_seed(0)), dim=1)
    noisy = z * (1 + 1e-7 * torch.randn(z.shape, generator=torch.Generator().manual_seed(1)))
    keys, labels = sample_keys(torch.cat([z, noisy, z + 1000])), torch.arange(500).repeat(3)
    assert independent_count(keys, labels, torch.ones(1500)) == pytest.approx(1000)
    far = sample_keys(torch.cat([z, z + 1e-2 * noisy.flip(0)]))  # negative control
    assert independent_count(far, labels[:1000], torch.ones(1000)) == pytest.approx(1000)


def test_samples_beside_one_that_is_far_away_are_not_taken_for_copies() -> None:
    z = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    z[0] *= 1e8
    assert independent_count(sample_keys(z), torch.zeros(50), torch.ones(50)) == pytest.approx(50)
    both = torch.cat([z, z])  # negative control
    assert independent_count(sample_keys(both), torch.zeros(100), torch.ones(100)) == pytest.approx(50)


def test_weight_of_two_equals_a_copy() -> None:
    z, labels = torch.eye(4), torch.tensor([0, 1, 0, 1])
    for other in (labels, labels.flip(0)):  # with the same target, and with another one
        both = sample_keys(torch.cat([z, z])), torch.cat([labels, other]), torch.ones(8)
        left = left_out_weights(*both)
        assert left.tolist() == [2.0 if torch.equal(other, labels) else 1.0] * 8
    assert left_out_weights(sample_keys(z), labels, torch.full((4,), 2.0)).tolist() == [2.0] * 4
    assert left_out_weights(sample_keys(z), labels, torch.full((4,), 20.0)).tolist() == [1.0] * 4  # few values
    many = sample_keys(torch.eye(40)), torch.zeros(40), torch.full((40,), 20.0)
    assert left_out_weights(*many).tolist() == [20.0] * 40


def test_left_out_scores_are_those_of_the_sums_without_the_sample() -> None:
    generator = torch.Generator().manual_seed(0)
    z, labels = torch.randn(20, 6, generator=generator), torch.arange(20) % 3
    weights, left = torch.rand(20, generator=generator), torch.rand(20, generator=generator)
    sums = class_sums(z, labels, weights, 3)
    found = left_out_scores(z, sums, labels, left)
    for row in range(20):
        without = sums.clone()
        without[labels[row]] -= left[row].double() * z[row].double()
        expected = torch.nn.functional.normalize(without, dim=1) @ z[row].double()
        torch.testing.assert_close(found[row], expected)


def test_bandwidth_of_copies_is_that_of_the_samples() -> None:
    x, y = torch.from_numpy(X[:100]).float(), torch.from_numpy(2.0 * Y[:100] - 1)[:, None]
    angles = x @ torch.randn(20, 100, generator=torch.Generator().manual_seed(0)) / 3
    both = [
        cross_validated_factor(angles[rows], y[rows], torch.ones(len(rows)), [1e-2, 1.0])
        for rows in (torch.arange(100), torch.from_numpy(COPIES))
    ]
    assert both[0] == both[1]
