"""Estimators inside scikit-learn's tools: pipelines, searches, tables, copies, files, streams and progress."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris, make_regression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from ghrr.learn import (
    GraphFeatures,
    HDClassifier,
    HDRegressor,
    ImageFeatures,
    KernelFeatures,
    SeriesFeatures,
    TableFeatures,
    TextFeatures,
)
from ghrr.learn.classifier import TRAINING

pd = pytest.importorskip("pandas")
X, Y = load_iris(return_X_y=True)
TEXTS = [("aab" if i % 2 else "bba") * (1 + i % 3) for i in range(20)]
IMAGES = np.random.default_rng(0).random((20, 16)).astype(np.float32)
ENCODERS = [
    (KernelFeatures(10, random_state=0), X),
    (KernelFeatures(10, m=2, kernel=["rbf", "laplace"], bandwidth="cv", random_state=0), X),
    (TextFeatures(10, n=[1, 2], random_state=0), TEXTS),
    (TextFeatures(10, weighting="learned", random_state=0), TEXTS),
    (ImageFeatures(10, patch=2, random_state=0), IMAGES),
]


def small(**settings: Any) -> HDClassifier:
    return HDClassifier(KernelFeatures(50, random_state=0), random_state=0, **settings)


@pytest.mark.parametrize(("encoder", "samples"), ENCODERS)
def test_clones_and_dumps_of_encoders_give_the_same_features(tmp_path: Path, encoder: Any, samples: Any) -> None:
    y = np.arange(len(samples)) % 2
    features = encoder.fit(samples, y).transform(samples)
    np.testing.assert_array_equal(clone(encoder).fit(samples, y).transform(samples), features)
    joblib.dump(encoder, tmp_path / "encoder.joblib")
    np.testing.assert_array_equal(joblib.load(tmp_path / "encoder.joblib").transform(samples), features)
    other = clone(encoder).set_params(random_state=1).fit(samples, y).transform(samples)  # negative control
    assert np.abs(other - features).max() > 1e-3


@pytest.mark.parametrize(("encoder", "samples"), ENCODERS)
def test_encoders_name_their_output(encoder: Any, samples: Any) -> None:
    table = clone(encoder).set_output(transform="pandas").fit(samples, np.arange(len(samples)) % 2).transform(samples)
    prefix = type(encoder).__name__.lower()
    assert isinstance(table, pd.DataFrame)
    assert table.columns.tolist() == [f"{prefix}{i}" for i in range(table.shape[1])]


@pytest.mark.parametrize("training", ["ridge", "refined", "online", "centroid"])
def test_dumped_classifier_predicts_the_same(tmp_path: Path, training: str) -> None:
    model = small(training=training).fit(X, Y)
    joblib.dump(model, tmp_path / "model.joblib")
    loaded = joblib.load(tmp_path / "model.joblib")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_cross_val_score_of_a_pipeline() -> None:
    scores = cross_val_score(make_pipeline(StandardScaler(), small()), X, Y, cv=5)
    assert scores.shape == (5,)
    assert scores.mean() > 0.9


def test_grid_search_tunes_settings_of_the_encoder() -> None:
    x = np.random.default_rng(0).uniform(0, 10, (200, 1))
    search = GridSearchCV(
        HDRegressor(KernelFeatures(100, random_state=0)), {"encoder__bandwidth": [0.01, 0.5, 100.0]}, cv=3
    )
    assert search.fit(x, np.sin(3 * x[:, 0])).best_params_ == {"encoder__bandwidth": 0.5}


SERIES = [np.sin(np.arange(12 + i % 3) / (1 + i % 2)) for i in range(20)]
GRAPHS = [(["a", "b", "c"], [[0, 1], [1 + i % 2, 2 - i % 2]]) for i in range(20)]


@pytest.mark.parametrize(
    ("encoder", "samples", "grid"),
    [
        (TextFeatures(20, random_state=0), TEXTS, {"n": [1, 2], "weighting": ["sqrt", "learned"]}),
        (SeriesFeatures(20, random_state=0), SERIES, {"window": [2, 3], "positions": ["neighbours", "powers"]}),
        (GraphFeatures(20, random_state=0), GRAPHS, {"radius": [0, 1], "directed": [True, False]}),
        (ImageFeatures(20, random_state=0), IMAGES, {"patch": [2, 3]}),
    ],
)
def test_searches_tune_encoders_of_lists_and_arrays(encoder: Any, samples: Any, grid: dict[str, Any]) -> None:
    model = make_pipeline(HDClassifier(encoder))
    named = {f"hdclassifier__encoder__{name}": values for name, values in grid.items()}
    search = GridSearchCV(model, named, cv=2, error_score="raise").fit(samples, np.arange(20) % 2)
    assert len(search.cv_results_["params"]) == np.prod([len(values) for values in grid.values()])
    assert search.predict(samples[:3]).shape == (3,)


def test_column_transformer_mixes_texts_and_numbers() -> None:
    frame = pd.DataFrame({"text": TEXTS, "number": np.arange(20.0), "colour": ["red", "blue"] * 10})
    columns = make_column_transformer(
        (TextFeatures(30, n=2, random_state=0), "text"),
        (make_pipeline(StandardScaler(), KernelFeatures(10, random_state=0)), ["number"]),
        (OneHotEncoder(handle_unknown="ignore"), ["colour"]),
    )
    model = make_pipeline(columns, HDClassifier("passthrough")).fit(frame, np.arange(20) % 2)
    assert model.score(frame, np.arange(20) % 2) == 1.0
    unseen = frame.assign(colour="green")  # an unseen category does not stop the prediction
    assert len(model.predict(unseen)) == 20


def test_union_of_encoders_is_an_encoder() -> None:
    union = make_union(KernelFeatures(20, random_state=0), KernelFeatures(20, kernel="laplace", random_state=0))
    model = HDClassifier(union).fit(X, Y)
    assert model.class_vectors_.shape == (3, 80)
    assert model.score(X, Y) > 0.9


def test_names_of_columns_are_checked() -> None:
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = small().fit(frame, Y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("badc")])
    with pytest.raises(ValueError, match="4 features"):
        small().fit(X, Y).predict(X[:, :3])


def test_verbose_reports_epochs_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    small(training="refined", max_epochs=3, verbose=1).fit(X, Y)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"[HDClassifier] epoch {epoch}" for epoch in (1, 2, 3)]
    small(training="refined", max_epochs=3).fit(X, Y)  # silent by default
    assert capsys.readouterr().err == ""


def test_several_targets_are_predicted_together_as_alone() -> None:
    x, y = make_regression(200, 4, n_targets=3, random_state=0)
    encoder = KernelFeatures(100, random_state=0)
    together = HDRegressor(encoder, alpha=1e-3).fit(x, y).predict(x)
    alone = [HDRegressor(encoder, alpha=1e-3).fit(x, column).predict(x) for column in y.T]
    assert together.shape == (200, 3)
    np.testing.assert_allclose(together, np.stack(alone, axis=1), rtol=1e-6, atol=1e-6 * np.abs(y).max())


def test_regression_of_batches_equals_one_fit() -> None:
    x, y = make_regression(300, 3, random_state=0)
    encoder = KernelFeatures(40, bandwidth=2.0, random_state=0)
    stream = HDRegressor(encoder, alpha=1e-3)
    for rows in np.array_split(np.arange(300), 4):
        stream.partial_fit(x[rows], y[rows])
    whole = HDRegressor(encoder, alpha=1e-3).fit(x, y).predict(x)
    np.testing.assert_allclose(stream.predict(x), whole, rtol=1e-6, atol=1e-6 * np.abs(y).max())
    part = HDRegressor(encoder, alpha=1e-3).fit(x[:75], y[:75]).predict(x)  # negative control: the first batch alone
    assert np.abs(part - whole).max() > 0.01 * np.abs(y).max()


def wave(count: int, seed: int) -> tuple[Any, Any]:
    x = np.random.default_rng(seed).uniform(-3, 3, (count, 1))
    return x, 50 + 7 * np.sin(2 * x[:, 0])


def online(**settings: Any) -> HDRegressor:
    return HDRegressor(KernelFeatures(60, bandwidth=0.5, random_state=0), training="online", random_state=0, **settings)


def test_online_regression_learns() -> None:
    (x, y), (xt, yt) = wave(200, 0), wave(100, 1)
    assert online(batch_size=100).fit(x, y).score(xt, yt) > 0.95
    shuffled = np.random.default_rng(0).permutation(y)  # negative control: nothing to learn
    assert online(batch_size=100).fit(x, shuffled).score(xt, yt) < 0.1


def test_online_regression_learns_a_stream() -> None:
    x, y = wave(300, 0)
    model, scores = online(batch_size=50), []
    for _ in range(4):
        for rows in np.array_split(np.arange(300), 3):
            model.partial_fit(x[rows], y[rows])
        scores.append(model.score(x, y))
    assert scores[-1] > max(0.9, scores[0])
    assert model.n_iter_ == 12


def test_online_regression_stops_early() -> None:
    x, y = wave(300, 0)
    noise = y + np.random.default_rng(0).normal(scale=50.0, size=300)
    model = online(early_stopping=True, max_epochs=500).fit(x, noise)
    assert model.n_iter_ < 500
    assert online(max_epochs=30).fit(x, noise).n_iter_ == 30  # negative control


def test_probabilities_equal_those_of_the_distribution() -> None:
    """Two Gaussian classes: the probability is a logistic function of a linear score, so every bin must fit."""
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 20_000)
    x = random.normal(size=(20_000, 3)) + y[:, None] * [1.0, 0.5, 0.0]
    model = HDClassifier("passthrough").fit(x[:10_000], y[:10_000])

    def worst_bin() -> float:
        """Return the largest difference of a bin, in standard errors of its binomial share."""
        p, right = model.predict_proba(x[10_000:])[:, 1], y[10_000:]
        bins = (10 * p).astype(int)
        excess, variance = np.bincount(bins, p - right), np.bincount(bins, p * (1 - p))
        return float((np.abs(excess) / np.sqrt(variance))[np.bincount(bins) > 50].max())

    assert worst_bin() < 4
    model.temperature_ *= 1.5  # negative control: too confident
    assert worst_bin() > 4


def test_sample_weights_equal_repeated_samples() -> None:
    counts = np.arange(150) % 3
    weighted = small(alpha=0.1).fit(X, Y, sample_weight=counts)
    repeated = small(alpha=0.1).fit(np.repeat(X, counts, axis=0), np.repeat(Y, counts))
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), rtol=1e-4, atol=1e-4)
    plain = small(alpha=0.1).fit(X, Y)  # negative control
    assert np.abs(plain.decision_function(X) - weighted.decision_function(X)).max() > 1e-2


@pytest.mark.parametrize("weighting", ["idf", "learned"])
def test_weights_of_texts_equal_repeated_texts(weighting: str) -> None:
    counts = np.arange(20) % 3
    y = np.arange(20) % 2
    texts = [text + "xyz"[i % 3] for i, text in enumerate(TEXTS)]
    encoder = TextFeatures(50, n=2, weighting=weighting, random_state=0)
    weighted = clone(encoder).fit(texts, y, sample_weight=counts).transform(texts)
    repeated = clone(encoder).fit(
        [t for t, c in zip(texts, counts, strict=True) for _ in range(c)], np.repeat(y, counts)
    )
    np.testing.assert_allclose(weighted, repeated.transform(texts), atol=1e-6)
    assert np.abs(weighted - clone(encoder).fit(texts, y).transform(texts)).max() > 1e-3  # negative control


@pytest.mark.parametrize("training", ["ridge", "online"])
def test_refused_batch_does_not_change_a_regression(training: str) -> None:
    model = HDRegressor(KernelFeatures(10, random_state=0), training=training).partial_fit(X, X[:, 0])
    before = model.predict(X)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :2], X[:, :1])
    with pytest.raises(ValueError, match="targets"):
        model.partial_fit(X, X[:, :2])
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize(("encoder", "samples"), ENCODERS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(encoder: Any, samples: Any, value: float) -> None:
    if isinstance(samples, list):
        pytest.skip("texts are not numbers")
    wrong = samples.copy()
    wrong[0, 0] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        clone(encoder).fit(wrong, np.arange(len(samples)) % 2)
    fitted = clone(encoder).fit(samples, np.arange(len(samples)) % 2)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        fitted.transform(wrong)


@pytest.mark.parametrize(
    "encoder",
    [KernelFeatures(10, random_state=0), TableFeatures(10, random_state=0), ImageFeatures(10, patch=2, random_state=0)],
)
def test_numbers_too_large_for_features_are_refused(encoder: Any) -> None:
    X = np.random.default_rng(0).random((20, 4))
    y = np.arange(20) % 2
    model = HDClassifier(encoder).fit(X, y)
    for estimator in (model, model.encoder_):
        predict = estimator.predict_proba if estimator is model else estimator.transform
        assert np.isfinite(predict(1e6 * X)).all()  # negative control
        name = f"{type(estimator).__name__}.{predict.__name__}"
        with pytest.raises(ValueError, match=f"{name}: the features contain NaN or infinity"):
            predict(1e300 * X)


@pytest.mark.parametrize("training", TRAINING)
def test_missing_values_that_an_encoder_lets_pass_are_refused(training: str) -> None:
    X = np.random.default_rng(0).random((20, 4))
    y = np.arange(20) % 2
    wrong = np.where(X > 0.9, np.nan, X)
    model = HDClassifier(StandardScaler(), training=training, random_state=0)
    with pytest.raises(ValueError, match=r"HDClassifier\.fit: the features contain NaN or infinity"):
        clone(model).fit(wrong, y)
    model.fit(X, y)
    with pytest.raises(ValueError, match=r"HDClassifier\.predict: the features contain NaN or infinity"):
        model.predict(wrong)
    with pytest.raises(ValueError, match="too large for single precision"):
        HDClassifier("passthrough", training=training).fit(1e39 * X, y)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([[0.0], [1.0]], [0.0, np.inf], "infinity"),
        ([[0.0], [1.0]], [0.0, np.nan], "NaN"),
        ([[0.0], [np.inf]], [0.0, 1.0], "infinity"),
        ([[0.0], [1.0]], ["a", "b"], "could not convert"),
        (np.empty((0, 2)), np.empty(0), "0 sample"),
        ([[0.0], [1.0]], [0.0], "inconsistent"),
        ([[0.0], [1.0]], None, "requires y"),
    ],
)
def test_wrong_data_of_a_regression_are_refused(x: Any, y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HDRegressor().fit(x, y)
