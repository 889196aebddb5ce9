"""Estimators choose an encoder that fits the samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ghrr import learn
from ghrr.learn import HDClassifier, HDRegressor
from ghrr.learn.auto_encoder import choose_encoder
from ghrr.learn.reports import cross_validated_report

pd = pytest.importorskip("pandas")
RNG = np.random.default_rng(0)
Y = np.arange(40) % 2
NUMBERS = RNG.normal(size=(40, 4)) + Y[:, None]
WORDS = np.array([("the cat", "le chat")[label] + f" {i % 7}" for i, label in enumerate(Y)], dtype=object)
IMAGES = RNG.random((40, 9, 12))
SERIES = [row[: 3 + i % 2] for i, row in enumerate(NUMBERS)]
GRAPHS = [(["a", "bc"[label]], [[0, 1]]) for label in Y]
TABLE = pd.DataFrame({"x": NUMBERS[:, 0], "colour": np.where(Y, "red", "blue"), "gap": [None, 1.0] * 20})


SAMPLES: list[tuple[Any, str]] = [
    (NUMBERS, "TableFeatures"),
    (NUMBERS.tolist(), "TableFeatures"),
    (TABLE, "TableFeatures"),
    ([[1, "a"], [2, "b"]] * 20, "TableFeatures"),
    ([("a", 1), ("b", 2)] * 20, "TableFeatures"),
    (scipy.sparse.csr_matrix(NUMBERS), "KernelFeatures"),
    (WORDS.tolist(), "TextFeatures"),
    (WORDS, "TextFeatures"),
    (pd.Series(WORDS), "TextFeatures"),
    ([["a"] * (1 + i % 3) + ["b"] * label for i, label in enumerate(Y)], "TextFeatures"),
    (IMAGES, "ImageFeatures"),
    (list(IMAGES), "ImageFeatures"),
    (IMAGES[:, :2], "SeriesFeatures"),
    (RNG.random((40, 8, 17)), "SeriesFeatures"),
    (SERIES, "SeriesFeatures"),
    (GRAPHS, "GraphFeatures"),
]


@pytest.mark.parametrize(("samples", "expected"), SAMPLES)
def test_encoder_fits_the_samples_before_and_after_saving(tmp_path: Path, samples: Any, expected: str) -> None:
    model = HDClassifier(random_state=0).fit(samples, Y)
    assert type(model.encoder_).__name__ == expected
    assert clone(model).encoder == "auto"
    learn.save(tmp_path / "m.safetensors", model)
    loaded = learn.load(tmp_path / "m.safetensors")
    assert (loaded.encoder, repr(loaded.encoder_)) == ("auto", repr(model.encoder_))
    np.testing.assert_array_equal(loaded.predict_proba(samples), model.predict_proba(samples))


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_tables_of_other_libraries_equal_those_of_pandas(library: str) -> None:
    pytest.importorskip(library)
    if library == "polars":
        import polars

        table: Any = polars.DataFrame(TABLE.to_dict("list"))
    else:
        import pyarrow

        table = pyarrow.Table.from_pandas(TABLE)
    model = HDRegressor(random_state=0).fit(table, Y)
    expected = HDRegressor(random_state=0).fit(TABLE, Y).predict(TABLE)
    np.testing.assert_array_equal(model.predict(table), expected)


def test_pipelines_and_streams_choose_an_encoder() -> None:
    model = make_pipeline(StandardScaler(), HDClassifier(random_state=0)).fit(NUMBERS, Y)
    assert model.score(NUMBERS, Y) > 0.8
    stream = HDClassifier(random_state=0)
    for rows in (slice(0, 20), slice(20, 40)):
        stream.partial_fit(WORDS[rows].tolist(), Y[rows], classes=[0, 1])
    assert stream.score(WORDS.tolist(), Y) == 1.0


def test_texts_that_identify_rows_are_ignored_and_those_that_tell_the_class_are_not() -> None:
    names = pd.DataFrame(
        {"x": RNG.normal(size=300), "name": ["".join(RNG.choice(list("abcdef"), 9)) for _ in range(300)]}
    )
    y = names["x"] > 0
    kinds = HDClassifier(random_state=0).fit(names, y).encoder_.columns_
    assert kinds == {"x": "number", "name": "ignore"}
    told = names.assign(
        name=[f"{name} {'yes' if label else 'no'}" for name, label in zip(names["name"], y, strict=True)]
    )
    assert HDClassifier(random_state=0).fit(told, y).encoder_.columns_["name"] == "text"


def test_categories_that_did_not_occur_in_training_are_missing() -> None:
    model = HDClassifier(random_state=0).fit(TABLE, Y)
    unknown, missing = (TABLE.assign(colour=value) for value in ("green", None))
    np.testing.assert_array_equal(model.predict_proba(unknown), model.predict_proba(missing))


def test_report_names_the_encoder() -> None:
    report = cross_validated_report(HDClassifier(random_state=0), WORDS, Y, folds=2)
    assert report.encoder == "TextFeatures(dim=2048, random_state=0, weighting='idf')"


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ("abc", "got one str"),
        ({"a": [1, 2]}, "got one dict"),
        ([{"a": 1}, {"a": 2}], "list of dicts"),
        (np.arange(2.0), "Expected 2D array"),
        ([np.zeros((2, 3)), np.zeros((3, 4, 5))], "different shapes|SeriesFeatures"),
        (np.zeros((2, 8, 8, 3)), "grey"),
    ],
)
def test_samples_of_no_encoder_are_refused(samples: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        choose_encoder(samples).fit(samples)
