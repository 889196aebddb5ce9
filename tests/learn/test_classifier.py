"""HDClassifier: training methods, streams, weights, probabilities and wrong input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris, make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from ghrr.learn import HDClassifier, HDRegressor, KernelFeatures, TableFeatures
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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encoder": "kernel"}, "must be a str among .*'passthrough'.*, None or an object implementing 'fit'"),
        ({"device": "abacus"}, "HDClassifier.fit: device 'abacus' cannot be used"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str, blobs: tuple[Any, Any]) -> None:
    with pytest.raises(ValueError, match=message):
        HDClassifier(**settings).fit(*blobs)


@pytest.mark.parametrize("form", ["bsr", "csc", "coo"])
def test_sparse_matrices_of_any_form_pass_through(form: str, blobs: tuple[Any, Any]) -> None:
    X, y = blobs
    expected = HDClassifier("passthrough").fit(X, y).decision_function(X)
    sparse = scipy.sparse.csr_matrix(X).asformat(form)
    found = HDClassifier("passthrough").fit(sparse, y).decision_function(sparse)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("training", ["refined", "online"])
@pytest.mark.parametrize("count", [2, 5])
def test_early_stopping_holds_out_one_of_few_samples(training: str, count: int) -> None:
    X = np.arange(float(count))[:, None]
    assert small(training, early_stopping=True).fit(X, np.arange(count) % 2).n_iter_ >= 1


@pytest.mark.parametrize("fraction", [0.1, 0.3, 0.9])
def test_validation_fraction_is_held_out(fraction: float) -> None:
    labels = np.repeat([0, 1], [900, 100])
    held_out = small(early_stopping=True, validation_fraction=fraction)._held_out(labels)
    assert len(np.unique(held_out)) == len(held_out) == 1000 * fraction
    assert labels[held_out].mean() == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("rare", [1, 3])
def test_no_class_is_held_out_as_a_whole(rare: int) -> None:
    model = small("online", early_stopping=True, validation_fraction=0.9)
    for seed in range(20):
        labels = np.random.default_rng(seed).permutation([0] * 40 + [1] * rare + [2] * 40)
        held_out = model._held_out(labels)
        assert len(held_out)
        assert set(np.delete(labels, held_out)) == {0, 1, 2}


def test_online_training_with_early_stopping_is_not_too_certain() -> None:
    X, y = make_classification(1000, 20, n_informative=5, flip_y=0.3, random_state=0)
    gaps = []
    for early_stopping in (True, False):
        encoder = KernelFeatures(512, random_state=0)
        model = HDClassifier(encoder, training="online", early_stopping=early_stopping, random_state=0)
        model.fit(X[:500], y[:500])
        gaps.append(model.predict_proba(X[500:]).max(axis=1).mean() - model.score(X[500:], y[500:]))
    assert gaps[0] < 2 * np.sqrt(0.25 / 500) < gaps[1]  # negative control: scores of the training data


@pytest.mark.parametrize(
    "estimator",
    [HDClassifier(random_state=0), HDRegressor(random_state=0), TableFeatures(), HDClassifier("passthrough")],
)
def test_tensors_are_taken_as_arrays_or_refused(estimator: Any) -> None:
    X, y = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 2
    given = X.clone().requires_grad_()
    expected = clone(estimator).fit(X.numpy(), y.numpy())
    found = clone(estimator).fit(given, y)
    if hasattr(found, "predict"):
        assert (found.predict(given) == expected.predict(X.numpy())).all()
    for one, two in ((X.to("meta"), y), (X.to_sparse(), y), (X, y.to("meta"))):
        if two.device.type == "cpu" or hasattr(found, "predict"):
            with pytest.raises(TypeError, match="needs a dense tensor or an array, got a"):
                clone(estimator).fit(one, two)
