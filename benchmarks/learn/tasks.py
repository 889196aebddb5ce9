"""One measurement of ``benchmarks/learn/measure.py``: fit a configuration of a method to a data set and score it."""

from __future__ import annotations

import functools
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.learn.data import Array, Dataset, load, stratified, train_and_test
from benchmarks.learn.methods import METHODS
from benchmarks.learn.search_space import Context

_FEW = 1000  # training samples below which configurations are scored by three folds


@dataclass(frozen=True)
class Task:
    """A fit: of configuration ``index`` in stage ``"tune"``, with seed ``index`` in stage ``"test"``."""

    data: str
    method: str
    stage: str
    index: int
    config: dict[str, Any]

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What identifies the task in a journal."""
        return self.data, self.method, self.stage, self.index


@dataclass(frozen=True)
class Setting:
    """What all tasks of a run share."""

    folder: Path
    total_dim: int
    tune_samples: int
    device: str


def measure(task: Task, setting: Setting) -> dict[str, Any]:
    """Return the entry of a task for the journal: status, accuracy and times."""
    entry: dict[str, Any] = asdict(task) | {"device": setting.device if METHODS[task.method].on_gpu else "cpu"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return entry | _scores(task, setting) | {"status": "ok"}
    except Exception as error:  # a method that fails is stored as such
        return entry | {"status": f"{type(error).__name__}: {error}"[:300]}
    finally:
        if setting.device == "cuda":
            torch.cuda.empty_cache()


def _scores(task: Task, setting: Setting) -> dict[str, Any]:
    data = cached(task.data, setting.folder)
    if task.stage == "test":
        return _fit_and_predict(task, setting, data, *train_and_test(data, task.index), seed=task.index)
    parts = [
        _fit_and_predict(task, setting, data, *split, seed=0) for split in tuning_splits(data, setting.tune_samples)
    ]
    return {name: float(np.mean([part[name] for part in parts])) for name in ("accuracy", "fit_s", "predict_s")}


@functools.lru_cache(maxsize=4)
def cached(name: str, folder: Path) -> Dataset:
    """Return a data set, labelled from 0, kept for the next task."""
    data = load(name, folder)
    labels = np.unique(data.labels, return_inverse=True)[1]
    return Dataset(data.name, data.kind, data.samples, labels, data.splits)


def tuning_splits(data: Dataset, most: int) -> list[tuple[Array, Array]]:
    """Return the splits that score configurations, all inside the training part of the first split."""
    rows, _ = train_and_test(data, 0)
    if len(rows) > most:
        _, rows = stratified(data.labels, rows, most / len(rows), 0)
    if len(rows) >= _FEW:
        return [stratified(data.labels, rows, 0.25, 0)]
    first, rest = stratified(data.labels, rows, 2 / 3, 0)
    second, third = stratified(data.labels, rest, 0.5, 0)
    return [(np.setdiff1d(rows, part), part) for part in (first, second, third)]


def _fit_and_predict(
    task: Task, setting: Setting, data: Dataset, train: Array, test: Array, *, seed: int
) -> dict[str, Any]:
    method = METHODS[task.method]
    context = Context(data.kind, int(data.labels.max()) + 1, setting.total_dim, seed, setting.device)
    samples, goals = data.take(train), data.labels[train]
    asked = data.take(test)
    model = method.build(task.config, context)
    start = time.perf_counter()
    model.fit(samples, goals)
    if setting.device == "cuda":
        torch.cuda.synchronize()
    fitted = time.perf_counter()
    predicted = model.predict(asked)
    done = time.perf_counter()
    return {
        "accuracy": float((np.asarray(predicted) == data.labels[test]).mean()),
        "fit_s": round(fitted - start, 4),
        "predict_s": round(done - fitted, 4),
        "tested": len(test),
        "trained": len(train),
        "class_bytes": _class_bytes(model),
    }


def _class_bytes(model: Any) -> int | None:
    """Return the bytes of the class vectors in single precision, if the model has any."""
    vectors = getattr(getattr(model, "model", model), "class_vectors_", getattr(model, "class_vectors_", None))
    return None if vectors is None else 4 * int(vectors.numel())
