"""Encoders and estimators give the same results on a GPU as on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

from ghrr import learn
from ghrr.learn.classifier import TRAINING

DEVICES = [pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]
ROWS = np.random.default_rng(0).random((40, 36)).astype(np.float32)
LABELS = (ROWS[:, 0] > 0.5).astype(int)
TEXTS = ["abc" * (1 + i % 3) + "xy"[label] for i, label in enumerate(LABELS)]
SERIES = [row[: 20 + i % 5] for i, row in enumerate(ROWS)]
GRAPHS = [(["a", "b", "c"], [[0, 1], [1 + label, 2 - label]]) for label in LABELS]
ENCODERS = [
    (learn.KernelFeatures(50, random_state=0), ROWS),
    (learn.KernelFeatures(50, m=2, bandwidth="cv", random_state=0), ROWS),
    (learn.KernelFeatures(20, m=2, adaptive=True, random_state=0), ROWS),
    (learn.TableFeatures(50, random_state=0), ROWS),
    (learn.ImageFeatures(50, patch=3, random_state=0), ROWS),
    *((learn.SeriesFeatures(50, m=m, positions="powers", random_state=0), SERIES) for m in (1, 2)),
    *((learn.TextFeatures(50, m=m, n=[1, 2], weighting="learned", random_state=0), TEXTS) for m in (1, 2)),
    *((learn.GraphFeatures(50, m=m, directed=True, random_state=0), GRAPHS) for m in (1, 2)),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("encoder", "samples"), ENCODERS)
def test_features_equal_those_of_the_cpu(encoder: Any, samples: Any, device: str) -> None:
    own, other = (clone(encoder).set_params(device=d).fit(samples, LABELS) for d in ("cpu", device))
    # Adaptive rotations are trained, which amplifies rounding.
    tolerance = 1e-2 if getattr(encoder, "adaptive", False) else 1e-4
    np.testing.assert_allclose(other.transform(samples), own.transform(samples), atol=tolerance)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("training", TRAINING)
def test_classifiers_predict_as_on_the_cpu(training: str, device: str, tmp_path: Path) -> None:
    encoder = learn.KernelFeatures(50, random_state=0)
    scores = {}
    for d in ("cpu", device):
        model = learn.HDClassifier(
            encoder.set_params(device=d), training=training, max_epochs=3, random_state=0, device=d
        )
        scores[d] = model.fit(ROWS, LABELS).decision_function(ROWS)
    np.testing.assert_allclose(scores[device], scores["cpu"], atol=1e-3 * np.abs(scores["cpu"]).max())
    learn.save(tmp_path / "model.safetensors", model)
    np.testing.assert_array_equal(learn.load(tmp_path / "model.safetensors").decision_function(ROWS), scores[device])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("training", ["ridge", "online"])
def test_regressors_predict_as_on_the_cpu(training: str, device: str) -> None:
    y = ROWS[:, 0] * ROWS[:, 1]
    found = {
        d: learn.HDRegressor(
            learn.KernelFeatures(50, random_state=0, device=d), training=training, max_epochs=5, device=d
        )
        .fit(ROWS, y)
        .predict(ROWS)
        for d in ("cpu", device)
    }
    np.testing.assert_allclose(found[device], found["cpu"], atol=1e-3)


@pytest.mark.parametrize(("encoder", "samples"), ENCODERS)
def test_unknown_devices_are_refused(encoder: Any, samples: Any) -> None:
    with pytest.raises(ValueError, match=f"{type(encoder).__name__}.fit: device 'abacus' cannot be used"):
        clone(encoder).set_params(device="abacus").fit(samples, LABELS)
