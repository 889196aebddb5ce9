"""Every estimator passes scikit-learn's own checks, without expected failures."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, Self

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import validate_data

from ghrr.learn import (
    GraphFeatures,
    HDClassifier,
    HDRegressor,
    ImageFeatures,
    KernelFeatures,
    SeriesFeatures,
    TableFeatures,
    TextFeatures,
    adaptive_rotations,
)
from ghrr.learn.classifier import TRAINING

pytestmark = pytest.mark.slow
SMALL = KernelFeatures(dim=64, random_state=0)


class RowsAsText(TextFeatures):
    """TextFeatures of rows of numbers, written as text: scikit-learn has no checks for lists of strings."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        validate_data(self, X, dtype=np.float64)
        return super().fit(X, y, sample_weight)

    def check_samples(self, X: Any) -> list[str]:
        fitted = hasattr(self, "n_features_in_")
        rows = validate_data(self, X, dtype=np.float64, reset=not fitted) if fitted else np.asarray(X)
        return ["".join(chr(97 + int(abs(10 * value)) % 26) for value in row) for row in rows]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.one_d_array, tags.input_tags.two_d_array = False, False, True
        return tags


class RowsAsGraphs(GraphFeatures):
    """GraphFeatures of rows of numbers, as paths through nodes with these labels."""

    def fit(self, X: Any, y: object = None) -> Self:
        validate_data(self, X, dtype=np.float64)
        return super().fit(X)

    def check_samples(self, X: Any) -> Any:
        fitted = hasattr(self, "n_features_in_")
        rows = validate_data(self, X, dtype=np.float64, reset=not fitted) if fitted else np.asarray(X)
        path = [[node, node + 1] for node in range(rows.shape[1] - 1)]
        return super().check_samples([((5 * row).astype(int), path) for row in rows])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


class PaddedImages(ImageFeatures):
    """ImageFeatures of rows that are padded to squares: the checks use any number of columns."""

    def fit(self, X: Any, y: object = None) -> Self:
        X = validate_data(self, X, dtype=[np.float32, np.float64])
        columns, names = X.shape[1], getattr(self, "feature_names_in_", None)
        super().fit(_pad(X))
        self.n_features_in_ = columns
        if names is not None:
            self.feature_names_in_ = names
        return self

    def check_samples(self, X: Any) -> Any:
        return _pad(super().check_samples(X))


def _pad(X: Any) -> Any:
    side = max(2, int(np.ceil(np.sqrt(X.shape[1]))))
    return np.pad(X, ((0, 0), (0, side**2 - X.shape[1])))


@parametrize_with_checks(
    [
        KernelFeatures(dim=16),
        SeriesFeatures(dim=16, window=3),
        TableFeatures(dim=16),
        KernelFeatures(dim=16, m=2, bandwidth="cv"),
        KernelFeatures(dim=4, m=2, adaptive=True),
        RowsAsText(dim=16, n=[1, 2]),
        PaddedImages(dim=16, patch=2),
        RowsAsGraphs(dim=16, radius=1),
        TableFeatures(dim=16, kernel="laplace", column_share=0.5, linear=True),
        HDClassifier(random_state=0),
        HDRegressor(random_state=0),
        *(HDClassifier(SMALL, training=training, random_state=0) for training in TRAINING),
        *(HDRegressor(SMALL, training=training, random_state=0) for training in ("ridge", "online")),
    ]
)
def test_scikit_learn_check(estimator: BaseEstimator, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adaptive_rotations, "_STEPS", 5)  # no check depends on the accuracy of rotations
    check(estimator)


def test_core_needs_no_scikit_learn_and_estimators_name_the_extra() -> None:
    code = (
        "import sys, importlib.abc\n"
        "class Refuse(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in {'sklearn', 'scipy'}:\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "import ghrr.learn.ridge, ghrr.learn.prototypes, ghrr.learn.gradient_training, ghrr.learn.probabilities\n"
        "try:\n"
        "    ghrr.learn.HDClassifier\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "ghrr[learn]" in done.stdout
