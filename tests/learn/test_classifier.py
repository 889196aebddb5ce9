"""HDClassifier: training methods, streams, weights, probabilities and wrong input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris, make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from ghrr.learn import HDClassifier, KernelFeatures
from ghrr.learn.classifier import TRAINING


@pytest.fixture(scope="module")
def blobs() -> tuple[Any, Any]:
    X, y = make_classification(600, 6, n_informative=5, n_redundant=0, n_classes=3, class_sep=1.5, random_state=0)
    return X, y


def small(training: str = "ridge", **settings: Any) -> HDClassifier:
    return HDClassifier(KernelFeatures(dim=100, random_state=0), training=training, random_state=0, **settings)


@pytest.mark.parametrize("training", TRAINING)
def test_every_training_learns(training: str, blobs: tuple[Any, Any]) -> None:
    X, y = blobs
    model = small(training).fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > (0.7 if training == "centroid" else 0.8)
    shuffled = np.random.default_rng(0).permutation(y[:400])  # negative control: nothing to learn
    assert small(training).fit(X[:400], shuffled).score(X[400:], y[400:]) < 0.55


def test_partial_fit_of_batches_equals_one_fit(blobs: tuple[Any, Any]) -> None:
    X, y = blobs
    encoder = KernelFeatures(dim=50, bandwidth=2.0, random_state=0)
    stream = HDClassifier(encoder, alpha=0.1)
    for start in range(0, 600, 150):
        stream.partial_fit(X[start : start + 150], y[start : start + 150], classes=[0, 1, 2])
    whole = HDClassifier(encoder, alpha=0.1).fit(X, y)
    np.testing.assert_allclose(stream.decision_function(X), whole.decision_function(X), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("training", TRAINING)
def test_partial_fit_learns_a_stream(training: str, blobs: tuple[Any, Any]) -> None:
    X, y = blobs
    model = small(training, learning_rate=0.5)
    for _ in range(3):
        for start in range(0, 400, 100):
            model.partial_fit(X[start : start + 100], y[start : start + 100], classes=[0, 1, 2])
    assert model.score(X[400:], y[400:]) > 0.7


def test_probabilities_are_calibrated() -> None:
    X, y = make_classification(4000, 8, n_informative=6, n_classes=3, flip_y=0.2, random_state=1)
    p = small().fit(X[:2000], y[:2000]).predict_proba(X[2000:])
    sure, right = p.max(axis=1), p.argmax(axis=1) == y[2000:]
    for low, high in ((0.34, 0.6), (0.6, 0.8), (0.8, 1.0)):
        inside = (sure >= low) & (sure < high)
        error = np.sqrt(0.25 / inside.sum())
        assert abs(sure[inside].mean() - right[inside].mean()) < 4 * error + 0.05


def test_class_weights_multiply_the_odds_of_centroids(blobs: tuple[Any, Any]) -> None:
    X, y = blobs
    model = small("centroid", class_weight={0: 5.0, 1: 1.0, 2: 1.0}).fit(X, y)
    odds = model.predict_proba(X)[:, 0] / model.predict_proba(X)[:, 1]
    model.intercept_.zero_()
    plain = model.predict_proba(X)[:, 0] / model.predict_proba(X)[:, 1]
    np.testing.assert_allclose(odds, 5 * plain, rtol=1e-9)


def test_class_weights_move_decisions_to_the_rare_class() -> None:
    X, y = make_classification(600, 4, weights=[0.9], n_informative=2, n_redundant=0, class_sep=0.5, random_state=0)
    plain, balanced = small().fit(X, y), small(class_weight="balanced").fit(X, y)
    assert (balanced.predict(X) == 1).sum() > 1.3 * (plain.predict(X) == 1).sum()


def test_early_stopping_stops_before_the_last_epoch(blobs: tuple[Any, Any]) -> None:
    X, y = blobs
    model = small("refined", early_stopping=True, patience=1, max_epochs=100, learning_rate=0.5).fit(X, y)
    assert model.n_iter_ < 100


def test_grid_search_and_column_transformer() -> None:
    pd = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True, as_frame=True)
    X = X.assign(colour=np.where(np.arange(150) % 2, "red", "blue"))
    columns = make_column_transformer((StandardScaler(), X.columns[:4].tolist()), (OneHotEncoder(), ["colour"]))
    pipeline = make_pipeline(columns, small())
    search = GridSearchCV(pipeline, {"hdclassifier__encoder__bandwidth_scale": [0.5, 1.0]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    assert isinstance(X, pd.DataFrame)


def test_feature_names_are_kept() -> None:
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = small().fit(X, y)
    assert list(model.feature_names_in_) == list(X.columns)
    names = KernelFeatures(dim=2).fit(X).set_output(transform="pandas").transform(X).columns
    assert list(names) == [f"kernelfeatures{i}" for i in range(4)]


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[0.0], [np.nan]], [0, 1], "NaN"),
        ([[0.0], [np.inf]], [0, 1], "infinity"),
        ([[0.0], [1.0]], [1, 1], "two classes"),
        ([["a"], ["b"]], [0, 1], "could not convert string"),
        (np.empty((0, 2)), [], "0 sample"),
        ([[0.0], [1.0]], [0, 1, 0], "inconsistent"),
    ],
)
def test_wrong_training_data_are_refused(X: Any, y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small().fit(X, y)


def test_wrong_streams_are_refused(blobs: tuple[Any, Any]) -> None:
    X, y = blobs
    with pytest.raises(ValueError, match="classes must be passed"):
        small().partial_fit(X, y)
    model = small().partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="not the same as on last call"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="not in classes"):
        model.partial_fit(X[:2], [7, 8])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :2], y)
    with pytest.raises(ValueError, match="needs all samples"):
        small(class_weight="balanced").partial_fit(X, y, classes=[0, 1, 2])
