"""partial_fit: batches give what one fit gives, nothing is forgotten, and probabilities stay calibrated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from ghrr.learn import HDClassifier, HDRegressor, KernelFeatures
from ghrr.learn.classifier import TRAINING
from ghrr.learn.linear_model import LinearOnFeatures
from ghrr.learn.ridge import NormalEquations, RidgeSolution

X, XT, Y, YT = train_test_split(*load_digits(return_X_y=True), random_state=0)
ENCODER = KernelFeatures(100, bandwidth=20.0, random_state=0)
CLASSES = np.arange(10)


def classifier(training: str = "ridge", **settings: Any) -> HDClassifier:
    return HDClassifier(ENCODER, training=training, random_state=0, **settings)


def feed(model: Any, *, start: int = 0, stop: int = len(X), size: int = 100) -> Any:
    for first in range(start, stop, size):
        rows = slice(first, min(first + size, stop))
        model.partial_fit(X[rows], Y[rows], **({"classes": CLASSES} if isinstance(model, HDClassifier) else {}))
    return model


def test_ridge_of_batches_equals_one_fit() -> None:
    stream, whole = feed(classifier(alpha=0.1)), classifier(alpha=0.1).fit(X, Y)
    np.testing.assert_allclose(stream.decision_function(XT), whole.decision_function(XT), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("training", TRAINING)
def test_a_stream_is_nearly_as_accurate_as_one_fit(training: str) -> None:
    model = feed(classifier(training))
    margin = 0.1 if training == "refined" else 0.04  # a pass is only 14 steps
    assert model.score(XT, YT) > classifier(training).fit(X, Y).score(XT, YT) - margin
    assert model.n_iter_ == 14
    assert log_loss(YT, model.predict_proba(XT)) < 0.4


@pytest.mark.parametrize("training", TRAINING)
def test_single_samples_leave_probabilities_calibrated(training: str) -> None:
    model = feed(classifier(training), stop=1000, size=1000)
    before = log_loss(YT, model.predict_proba(XT))
    wrong = np.flatnonzero(model.predict(X[1000:]) != Y[1000:])[:1] + 1000
    for row in (wrong[0], 1000, 1001):
        model.partial_fit(X[row : row + 1], Y[row : row + 1])
        assert log_loss(YT, model.predict_proba(XT)) < before + 0.05


@pytest.mark.parametrize("training", ["ridge", "online", "centroid"])
def test_a_stream_can_begin_with_single_samples(training: str) -> None:
    model = feed(classifier(training), stop=30, size=1)
    assert model.score(XT, YT) > 0.3  # by chance 0.1
    np.testing.assert_allclose(model.predict_proba(XT).sum(axis=1), 1)


@pytest.mark.parametrize("training", ["refined", "online", "centroid"])
def test_a_stream_goes_on_after_fit(training: str) -> None:
    model = classifier(training).fit(X, Y)
    before = model.score(XT, YT)
    assert model.partial_fit(X[:30], Y[:30]).score(XT, YT) > before - 0.01


@pytest.mark.parametrize("training", TRAINING)
def test_fit_forgets_an_earlier_stream(training: str) -> None:
    few = Y < 3
    model = feed(classifier(training), stop=200).fit(X[few], Y[few])
    expected = classifier(training).fit(X[few], Y[few])
    np.testing.assert_array_equal(model.decision_function(XT), expected.decision_function(XT))
    if training != "ridge":
        assert set(model.partial_fit(X[few][:20], Y[few][:20]).predict(XT)) <= {0, 1, 2}


@pytest.mark.parametrize("model", [classifier(), HDRegressor(ENCODER)])
def test_ridge_warns_that_it_forgets_fit(model: Any) -> None:
    model.fit(X, Y)
    with pytest.warns(UserWarning, match=r"partial_fit: forgets what fit learned.*from its first batch"):
        model.partial_fit(X[:30], Y[:30])


def test_penalty_of_a_stream_is_chosen_when_the_samples_have_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    solve = NormalEquations.solve

    def record(sums: NormalEquations, alphas: Sequence[float]) -> RidgeSolution:
        tried.append(len(alphas))
        return solve(sums, alphas)

    monkeypatch.setattr(NormalEquations, "solve", record)
    feed(HDRegressor(ENCODER), stop=800)
    assert [count > 1 for count in tried] == [True, True, False, True, False, False, False, True]


def test_wrong_streams_are_refused() -> None:
    with pytest.raises(ValueError, match="classes must be passed"):
        classifier().partial_fit(X, Y)
    with pytest.raises(ValueError, match="classes must have at least two classes, got one class"):
        classifier().partial_fit(X[Y == 3], Y[Y == 3], classes=[3])
    model = feed(classifier(), stop=100)
    with pytest.raises(ValueError, match="not the same as on last call"):
        model.partial_fit(X, Y, classes=[0, 1])
    with pytest.raises(ValueError, match="not in classes"):
        model.partial_fit(X[:2], [17, 18])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :2], Y)
    with pytest.raises(ValueError, match="needs all samples"):
        classifier(class_weight="balanced").partial_fit(X, Y, classes=CLASSES)
    regressor = feed(HDRegressor(ENCODER), stop=100)
    with pytest.raises(ValueError, match="y must have 1 targets as in the first batch, got 2"):
        regressor.partial_fit(X, np.stack([Y, Y], axis=1))


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The order of samples in each pass."""
    seen: list[list[int]] = []
    shuffled = LinearOnFeatures._shuffled

    def record(model: Any, features_of: Any, columns: Any, order: Any) -> Any:
        passed: list[int] = []
        seen.append(passed)

        def recorded(rows: Any) -> Any:
            passed.extend(rows.tolist())
            return features_of(rows)

        return shuffled(model, recorded, columns, order)

    monkeypatch.setattr(LinearOnFeatures, "_shuffled", record)
    return seen


MODELS = [classifier("online"), classifier("refined"), HDRegressor(ENCODER, training="online", random_state=0)]


@pytest.mark.parametrize("model", MODELS)
def test_every_epoch_has_an_order_of_its_own(model: Any, orders: list[list[int]]) -> None:
    noisy = np.random.default_rng(0).permutation(Y[:50])
    expected = clone(model).set_params(max_epochs=3).fit(X[:50], noisy).predict(XT)
    first = list(orders)
    orders.clear()
    assert len(first) == len({tuple(order) for order in first}) == 3
    assert all(sorted(order) == list(range(50)) for order in first)
    np.testing.assert_array_equal(clone(model).set_params(max_epochs=3).fit(X[:50], noisy).predict(XT), expected)
    assert orders == first  # an integer seed gives the same orders again


@pytest.mark.parametrize("model", MODELS)
def test_every_call_of_partial_fit_has_an_order_of_its_own(model: Any, orders: list[list[int]]) -> None:
    def orders_of_a_stream() -> list[list[int]]:
        orders.clear()
        feed(clone(model), stop=400)
        return list(orders)

    first = orders_of_a_stream()
    assert len(first) == len({tuple(order) for order in first}) >= 3
    assert orders_of_a_stream() == first
