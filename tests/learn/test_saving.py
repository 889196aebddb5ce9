"""Fitted estimators survive saving and loading; damaged and foreign files do not load."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError

from ghrr import learn
from ghrr.encoding.kernels import SPECTRA, Spectrum
from ghrr.learn.classifier import TRAINING

X = np.random.default_rng(0).normal(size=(60, 4))
Y = np.array(["ant", "bee", "cow"])[np.arange(60) % 3]
TABLE = pd.DataFrame(
    {"x": X[:, 0], "kind": np.array(["a", "b", None])[np.arange(60) % 3], "odd": np.arange(60) % 2 > 0}
)
TEXTS = ["abc" * (i % 5 + 1) + "xyz"[i % 3] for i in range(60)]
SERIES = [row[: 2 + i % 3] for i, row in enumerate(X)]
GRAPHS = [(["a", "bc"[i % 2]], [[0, 1]], [str(i % 3)]) for i in range(60)]


@pytest.mark.parametrize(
    ("estimator", "samples"),
    [
        *[
            (learn.HDClassifier(learn.KernelFeatures(20, random_state=0), training=t, random_state=0), X)
            for t in TRAINING
        ],
        (learn.HDClassifier(learn.TextFeatures(20, n=(1, 2), weighting="idf", random_state=0)), TEXTS),
        (learn.HDClassifier(learn.TableFeatures(20, random_state=0)), TABLE),
        (
            learn.HDClassifier(learn.TableFeatures(20, columns={"note": "text", "id": "ignore"}, random_state=0)),
            pd.DataFrame({"note": TEXTS, "id": range(60)}),
        ),
        (learn.HDClassifier(learn.SeriesFeatures(20, random_state=0)), X),
        (learn.HDClassifier(learn.SeriesFeatures(5, m=2, positions="powers", random_state=0)), SERIES),
        (learn.HDClassifier(learn.TextFeatures(20, analyzer="token", random_state=0)), [list(text) for text in TEXTS]),
        (learn.HDClassifier(learn.GraphFeatures(20, random_state=0)), GRAPHS),
        (learn.HDClassifier(learn.KernelFeatures(8, m=2, adaptive=True, random_state=0)), X),
        (learn.HDClassifier("passthrough", class_weight={"ant": 2.0}), X),
        (learn.HDClassifier(learn.ImageFeatures(10, patch=2, image_shape=(2, 2), random_state=0)), X),
    ],
)
def test_loaded_classifier_predicts_the_same(tmp_path: Path, estimator: Any, samples: Any) -> None:
    model = estimator.fit(samples, Y)
    learn.save(tmp_path / "m.safetensors", model)
    loaded = learn.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(samples), model.predict_proba(samples))
    assert loaded.predict(samples).dtype == model.predict(samples).dtype
    assert repr(loaded) == repr(model)


@pytest.mark.parametrize("training", ["ridge", "online"])
def test_loaded_regressor_predicts_the_same_and_goes_on(tmp_path: Path, training: str) -> None:
    y = X @ [1.0, 2.0, 0.0, 0.5]
    model = learn.HDRegressor(learn.KernelFeatures(20, random_state=0), training=training).fit(X, y)
    learn.save(tmp_path / "m.safetensors", model)
    loaded = learn.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    with pytest.warns(match="forgets what fit learned") if training == "ridge" else nullcontext():
        assert loaded.partial_fit(X, y).score(X, y) > 0.5


def test_files_without_the_newer_settings_of_a_regressor_load(tmp_path: Path) -> None:
    model = learn.HDRegressor(learn.KernelFeatures(20, random_state=0)).fit(X, X[:, 0])
    expected = model.predict(X)
    for name in ("training", "max_epochs", "batch_size"):
        delattr(model, name)
    learn.save(tmp_path / "m.safetensors", model)
    loaded = learn.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(loaded.predict(X), expected)
    assert (loaded.training, loaded.max_epochs) == ("ridge", 100)
    del model.alpha  # negative control: a setting that every file has
    learn.save(tmp_path / "m.safetensors", model)
    with pytest.raises(ValueError, match="alpha"):
        learn.load(tmp_path / "m.safetensors")


def test_stream_continues_after_loading(tmp_path: Path) -> None:
    model = learn.HDClassifier(learn.KernelFeatures(20, random_state=0), alpha=0.1)
    model.partial_fit(X[:30], Y[:30], classes=np.unique(Y))
    learn.save(tmp_path / "m.safetensors", model)
    loaded = learn.load(tmp_path / "m.safetensors").partial_fit(X[30:], Y[30:])
    np.testing.assert_allclose(loaded.decision_function(X), model.partial_fit(X[30:], Y[30:]).decision_function(X))


def test_foreign_estimators_and_unfitted_ones_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="joblib"):
        learn.save(tmp_path / "m", PCA().fit(X))
    with pytest.raises(TypeError, match="cannot store a PCA"):
        learn.save(tmp_path / "m", learn.HDClassifier(PCA()).fit(X, Y))
    with pytest.raises(NotFittedError):
        learn.save(tmp_path / "m", learn.HDClassifier())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kernel", [SPECTRA["matern-3/2"], [SPECTRA["rbf"], "laplace"]])
def test_named_spectra_are_stored_by_name(tmp_path: Path, kernel: Any) -> None:
    m = len(kernel) if isinstance(kernel, list) else 1
    encoder = learn.KernelFeatures(20, m=m, kernel=kernel, random_state=0).fit(X)
    learn.save(tmp_path / "m.safetensors", encoder)
    loaded = learn.load(tmp_path / "m.safetensors")
    assert loaded.kernel == (["rbf", "laplace"] if m > 1 else "matern-3/2")
    np.testing.assert_array_equal(loaded.transform(X), encoder.transform(X))
    np.testing.assert_array_equal(loaded.fit(X).transform(X), encoder.transform(X))


def test_own_spectra_are_refused(tmp_path: Path) -> None:
    own = Spectrum("rbf", SPECTRA["cauchy"].frequencies, SPECTRA["cauchy"].kernel)
    with pytest.raises(TypeError, match="cannot store a Spectrum"):
        learn.save(tmp_path / "m", learn.KernelFeatures(5, kernel=own).fit(X))


def test_random_states_are_stored_as_none(tmp_path: Path) -> None:
    state = np.random.RandomState(0)
    model = learn.HDClassifier(learn.KernelFeatures(20, random_state=state), random_state=state).fit(X, Y)
    learn.save(tmp_path / "m.safetensors", model)
    loaded = learn.load(tmp_path / "m.safetensors")
    assert loaded.random_state is loaded.encoder.random_state is loaded.encoder_.random_state is None
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_dates_are_labels_and_bytes_are_refused(tmp_path: Path) -> None:
    days = np.array(["2024-01-01", "2024-02-01"], dtype="datetime64[D]")[np.arange(60) % 2]
    model = learn.HDClassifier(learn.KernelFeatures(20, random_state=0)).fit(X, days)
    learn.save(tmp_path / "m.safetensors", model)
    loaded = learn.load(tmp_path / "m.safetensors")
    assert loaded.classes_.dtype == days.dtype
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    model.classes_ = np.array([b"a", b"b"])
    with pytest.raises(TypeError, match=r"cannot store an array of dtype \|S1; use joblib"):
        learn.save(tmp_path / "m", model)


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8", "i2", "f2", "?"])
def test_labels_of_any_kind_of_number_keep_it(dtype: str, tmp_path: Path) -> None:
    labels = (np.arange(60) % 2).astype(dtype)
    labels[labels == 1] = np.iinfo(dtype).max if dtype.startswith("u") else 1
    model = learn.HDClassifier(learn.KernelFeatures(20, random_state=0)).fit(X, labels)
    learn.save(tmp_path / "m.safetensors", model)
    loaded = learn.load(tmp_path / "m.safetensors")
    assert loaded.classes_.dtype == labels.dtype
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    learn.save(path, learn.KernelFeatures(20).fit(X))
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="checksum"):
        learn.load(path)


def test_series_whose_steps_are_rounding_errors_can_be_saved(tmp_path: Path) -> None:
    levels = 1e20 * np.arange(20.0)[:, None]
    for series in (levels + np.zeros(8), levels * (1 + 1e-16 * np.arange(8))):
        encoder = learn.SeriesFeatures(8, random_state=0).fit(series)
        learn.save(tmp_path / "series.safetensors", encoder)
        shapes = np.cumsum(np.random.default_rng(0).normal(size=(5, 8)), axis=1) * 1e20
        loaded = learn.load(tmp_path / "series.safetensors").transform(shapes)
        assert np.isfinite(loaded).all()
        np.testing.assert_array_equal(loaded, encoder.transform(shapes))


def test_series_whose_steps_would_overflow_are_refused(tmp_path: Path) -> None:
    encoder = learn.SeriesFeatures(8, random_state=0).fit(np.random.default_rng(0).normal(size=(20, 8)))
    encoder.difference_scales_ = encoder.difference_scales_ * 1e-29
    learn.save(tmp_path / "series.safetensors", encoder)
    with pytest.raises(ValueError, match="difference_scales_ does not fit"):
        learn.load(tmp_path / "series.safetensors")
