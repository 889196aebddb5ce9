"""Damaged and crafted files of estimators: loading refuses them and names the file, or what is loaded predicts.

A sample runs with the other tests, thousands of files by ``make fuzz``. Files are damaged as in
:mod:`tests.faults.test_files_campaign`. If bytes were changed, what is loaded must predict as what was saved. If values
were changed and the checksum renewed, it must

- predict finite numbers of the right shape, labels among the classes, probabilities that add up to 1, and scores that
  are the inner products of the features with the vectors; and
- predict as before, unless an entry was changed that decides the predictions and that nothing else in the file
  determines. ``DECISIVE`` lists these entries: such a file is what another estimator would have saved.

It may refuse the samples, by a ValueError, only if an entry was changed that describes them (``DESCRIBING``).
"""

from __future__ import annotations

import functools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from torch import Tensor

from ghrr import learn
from ghrr.learn import saving
from ghrr.learn.classifier import TRAINING
from tests.faults.damage import BYTES, bounded_memory, change_safetensors

SAMPLE, CAMPAIGN = 25, 600  # files per estimator
DECISIVE = {
    *("classes_", "class_vectors_", "intercept_", "temperature_", "target_vectors_", "_one_target", "_prototypes"),
    *("frequencies_", "rotations_", "_vectors", "symbols_", "_grams", "_gram_weights", "means_", "scales_"),
    *(
        "difference_scales_",
        "dilations_",
        "position_frequencies_",
        "scale_",
        "space_",
        "category_phases_",
        "text_keys_",
    ),
    *("patch_frequencies_", "position_phases_", "_center"),
    *("analyzer", "weighting", "lowercase", "window", "positions", "normalize", "radius", "directed"),
}
DESCRIBING = {"columns_", "categories_", "feature_names_in_", "n_features_in_", "handle_unknown", "analyzer", "columns"}

X = np.random.default_rng(0).normal(size=(30, 4))
Y = np.array(["ant", "bee", "cow"])[np.arange(30) % 3]
TEXTS = ["abc" * (i % 5 + 1) + "xyz"[i % 3] for i in range(30)]
TABLE = pd.DataFrame(
    {"x": X[:, 0], "kind": np.array(["a", "b", None])[np.arange(30) % 3], "odd": np.arange(30) % 2 > 0}
)
NOTES = pd.DataFrame({"note": TEXTS, "id": range(30), "day": pd.date_range("2024-01-01", periods=30)})
GRAPHS = [(["a", "bc"[i % 2]], [[0, 1]], [str(i % 3)]) for i in range(30)]
SERIES = [row[: 2 + i % 3] for i, row in enumerate(X)]


def kernel(**settings: Any) -> Any:
    return learn.KernelFeatures(8, random_state=0, **settings)


def classifier(encoder: Any, **settings: Any) -> Any:
    return learn.HDClassifier(encoder, random_state=0, **settings)


def trained(training: str) -> Any:
    return classifier(kernel(), training=training, max_epochs=2).fit(X, Y)


def stream() -> Any:
    return classifier(kernel(), alpha=0.1).partial_fit(X, Y, classes=np.unique(Y))


ESTIMATORS: dict[str, tuple[Callable[[], Any], Any]] = {
    **{training: (functools.partial(trained, training), X) for training in TRAINING},
    "stream": (stream, X),
    "default": (lambda: classifier("passthrough", class_weight={"ant": 2.0}).fit(X, Y), X),
    "adaptive": (lambda: learn.KernelFeatures(4, m=2, adaptive=True, random_state=0).fit(X, X[:, 0]), X),
    "kernels": (lambda: kernel(m=2, kernel=["rbf", "laplace"]).fit(X), X),
    "text": (lambda: classifier(learn.TextFeatures(8, n=(1, 2), weighting="idf", random_state=0)).fit(TEXTS, Y), TEXTS),
    "learned text": (lambda: learn.TextFeatures(8, m=2, weighting="learned", random_state=0).fit(TEXTS, Y), TEXTS),
    "words": (lambda: learn.TextFeatures(8, n=1, analyzer="word", random_state=0).fit(TEXTS), TEXTS),
    "table": (lambda: classifier(learn.TableFeatures(8, random_state=0)).fit(TABLE, Y), TABLE),
    "notes": (
        lambda: learn.TableFeatures(8, columns={"note": "text", "id": "ignore"}, random_state=0).fit(NOTES),
        NOTES,
    ),
    "series": (lambda: classifier(learn.SeriesFeatures(8, window=3, random_state=0)).fit(X, Y), X),
    "lists": (lambda: learn.SeriesFeatures(4, m=2, window=2, positions="powers", random_state=0).fit(SERIES), SERIES),
    "graph": (lambda: classifier(learn.GraphFeatures(8, random_state=0)).fit(GRAPHS, Y), GRAPHS),
    "image": (lambda: learn.ImageFeatures(8, patch=2, image_shape=(2, 2), random_state=0).fit(X), X),
    "regressor": (lambda: learn.HDRegressor(kernel()).fit(X, X[:, 0]), X),
    "online regressor": (lambda: learn.HDRegressor(kernel(), training="online", max_epochs=2).fit(X, X[:, :2]), X),
    "dates": (
        lambda: classifier(kernel()).fit(
            X, np.array(["2024-01-01", "2024-02-01"], dtype="datetime64[D]")[np.arange(30) % 2]
        ),
        X,
    ),
}


@functools.cache
def fitted(name: str) -> Any:
    return ESTIMATORS[name][0]()


def results(estimator: Any, samples: Any) -> list[Any]:
    """Return all predictions; fail for those that no estimator makes."""
    if not hasattr(estimator, "predict"):
        found = [estimator.transform(samples)]
        assert found[0].shape == (len(samples), estimator.n_features_out_)
        assert np.isfinite(found[0]).all()
        return found
    features = samples if estimator.encoder_ is None else estimator.encoder_.transform(samples)
    is_classifier = hasattr(estimator, "predict_proba")
    vectors = estimator.class_vectors_ if is_classifier else estimator.target_vectors_
    scores = features.astype(np.float64) @ vectors.numpy().T + estimator.intercept_.numpy()
    size = np.abs(vectors.numpy()).max() + np.abs(scores).max()
    if not is_classifier:
        found = [estimator.predict(samples)]
        np.testing.assert_allclose(found[0].reshape(scores.shape), scores, rtol=1e-4, atol=1e-4 * size)
        return found
    decisions = estimator.decision_function(samples)
    expected = scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores
    np.testing.assert_allclose(decisions, expected, rtol=1e-4, atol=1e-4 * size)
    found = [decisions, estimator.predict_proba(samples), estimator.predict(samples)]
    np.testing.assert_allclose(found[1].sum(axis=1), 1.0)
    assert set(found[2].tolist()) <= set(estimator.classes_.tolist())
    return found


def entries(estimator: Any) -> dict[tuple[str, ...], str]:
    """Return all entries of a saved estimator, by their path."""
    tensors: dict[str, Tensor] = {}

    def walk(packed: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
        if isinstance(packed, dict) and "class" in packed:
            for name, item in packed["state"].items():
                yield from walk(item, (*path, name))
        else:
            used = [value.numpy().tobytes().hex() for key, value in tensors.items() if f'"{key}"' in json.dumps(packed)]
            shown = packed if not used else {k: v for k, v in packed.items() if k != "tensor"} | {"values": used}
            yield path, json.dumps(shown)

    return dict(walk(saving._pack(estimator, tensors), ()))


def attack(name: str, content: bytes, path: Path, number: int) -> str:
    """Damage a file and load it; return the outcome, and fail for a wrong one."""
    rng, samples = random.Random(f"{name} {number}"), ESTIMATORS[name][1]
    is_sealed = rng.random() < 0.8
    mutation = change_safetensors if is_sealed else rng.choice(BYTES)
    path.write_bytes(mutation(rng, content))
    case = f"{name} {number} by {mutation.__name__}"
    try:
        loaded = learn.load(path)
    except (ValueError, OSError) as error:
        if str(path) not in str(error):
            raise AssertionError(f"{case}: the message does not name the file: {error!r:.500}") from error
        return "refused"
    except Exception as error:
        raise AssertionError(f"{case}: {error!r:.500}") from error
    own, saved = entries(loaded), entries(fitted(name))
    changed = {part for key in own.keys() | saved.keys() if own.get(key) != saved.get(key) for part in key}
    try:
        found = results(loaded, samples)
    except ValueError as error:
        if not (is_sealed and changed & DESCRIBING):
            raise AssertionError(f"{case}: {sorted(changed)} changed: {error!r:.500}") from error
        return "refused the samples"
    except Exception as error:
        raise AssertionError(f"{case}: {sorted(changed)} changed: {error!r:.500}") from error
    same = all(
        one.shape == other.shape and (np.allclose(one, other) if one.dtype.kind == "f" else (one == other).all())
        for one, other in zip(found, results(fitted(name), samples), strict=True)
    )
    assert same or (is_sealed and changed & (DECISIVE | DESCRIBING)), f"{case}: {sorted(changed)} changed"
    return "predicts as before" if same else "predicts by its values"


def campaign(name: str, folder: Path, count: int) -> Counter[str]:
    path = folder / "estimator.safetensors"
    learn.save(path, fitted(name))
    content = path.read_bytes()
    with bounded_memory():
        outcomes = Counter(attack(name, content, path, number) for number in range(count))
    assert outcomes["refused"] > count / 4  # negative control: files were damaged
    return outcomes


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_sample_of_damaged_estimators(name: str, tmp_path: Path) -> None:
    campaign(name, tmp_path, SAMPLE)


@pytest.mark.fuzz
@pytest.mark.parametrize("name", ESTIMATORS)
def test_thousands_of_damaged_estimators(name: str, tmp_path: Path) -> None:
    outcomes = campaign(name, tmp_path, CAMPAIGN)
    print(f"{name}: {dict(outcomes)}")  # noqa: T201 (shown by pytest -s)


def test_the_campaign_fails_for_state_that_is_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "check_state", lambda estimator: None)
    with pytest.raises(AssertionError, match="changed"):
        campaign("ridge", tmp_path, 4 * SAMPLE)
