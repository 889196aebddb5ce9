"""Cross-validated reports: scores with their standard deviation over folds, beside a baseline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    f1_score,
    log_loss,
    mean_absolute_error,
    precision_recall_fscore_support,
    r2_score,
    root_mean_squared_error,
)
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from ghrr.checks import names_errors, value_error

Array = NDArray[Any]


@dataclass(frozen=True)
class Score:
    """A score: mean and standard deviation over folds, and the mean of the baseline."""

    name: str
    mean: float
    std: float
    baseline: float


@dataclass(frozen=True)
class ClassScore:
    """Scores of one class over all folds together."""

    label: Any
    precision: float
    recall: float
    f1: float
    count: int


@dataclass(frozen=True)
class Report:
    """Scores of a model on rows that it was not fitted on.

    Attributes
    ----------
    scores
        Classification: accuracy, balanced accuracy, macro F1, log-loss. Regression: R², mean absolute and root mean
        squared error.
    classes
        Scores of each class; empty for a regression.
    baseline
        Which baseline the scores are compared with.
    folds
        Number of folds.
    encoder
        The encoder with its settings, in one line; from the last fold if the model chooses one.
    """

    scores: list[Score]
    classes: list[ClassScore]
    baseline: str
    folds: int
    encoder: str


@names_errors("report")
def cross_validated_report(
    model: Any, X: Any, y: Array, *, folds: int = 5, seed: int = 0, on_fold: Callable[[int], None] = lambda fold: None
) -> Report:
    """Fit a model on all folds but one, score it on that one, and repeat for each fold.

    Parameters
    ----------
    model
        Classifier or regressor; it is not changed.
    X, y
        Samples and targets.
    folds
        Number of folds. Folds of a classification have the classes in equal proportion.
    seed
        Seed of the folds.
    on_fold
        Called after each fold with its number.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ghrr.learn import HDClassifier
    >>> from ghrr.learn.reports import cross_validated_report
    >>> report = cross_validated_report(HDClassifier(random_state=0), *load_iris(return_X_y=True))
    >>> [score.name for score in report.scores], f"{report.scores[0].baseline:.2f}"
    (['accuracy', 'balanced accuracy', 'macro F1', 'log-loss'], '0.33')
    >>> report.scores[0].mean > 0.9
    True
    """
    classify = is_classifier(model)
    check_folds(y, folds, classify=classify)
    splitter = (StratifiedKFold if classify else KFold)(folds, shuffle=True, random_state=seed)
    baseline = DummyClassifier(strategy="prior") if classify else DummyRegressor()
    score = _score_classes if classify else _score_numbers
    found: list[dict[str, float]] = []
    basic: list[dict[str, float]] = []
    predicted = np.empty_like(y)
    for fold, (train, test) in enumerate(splitter.split(np.zeros(len(y)), y), start=1):
        rows, held_out = _safe_indexing(X, train), _safe_indexing(X, test)
        fitted = clone(model).fit(rows, y[train])
        predicted[test], scores = score(fitted, held_out, y[test])
        found.append(scores)
        basic.append(score(baseline.fit(np.zeros((len(train), 1)), y[train]), np.zeros((len(test), 1)), y[test])[1])
        on_fold(fold)
    values = {name: np.array([scores[name] for scores in found]) for name in found[0]}
    summary = [
        Score(name, float(v.mean()), float(v.std(ddof=1)), float(np.mean([b[name] for b in basic])))
        for name, v in values.items()
    ]
    name = "most frequent class" if classify else "mean of the target"
    return Report(summary, _score_each_class(y, predicted) if classify else [], name, folds, _describe_encoder(fitted))


def _describe_encoder(model: Any) -> str:
    """Return the encoder of a model in one line, for a pipeline from its last step; "" if there is none."""
    last = model[-1] if isinstance(model, Pipeline) else model
    encoder = getattr(last, "encoder_", None)
    return "" if encoder is None else " ".join(repr(encoder).split())


@names_errors("report")
def check_folds(y: Array, folds: int, *, classify: bool) -> None:
    """Raise unless every fold can have a row and, for a classification, a row of each class."""
    if folds < 2:
        raise value_error(f"folds must be at least 2, got {folds}")
    if not classify:
        if len(y) < 2 * folds:
            raise value_error(
                f"{len(y)} rows are too few for {folds} folds, expected at least {2 * folds}; use fewer folds"
            )
        return
    labels, counts = np.unique(y, return_counts=True)
    rarest = int(counts.argmin())
    if counts[rarest] < folds:
        few = f"the class {labels[rarest]!s} has {counts[rarest]} {'row' if counts[rarest] == 1 else 'rows'}"
        fix = f"use {counts[rarest]} folds, or " if counts[rarest] > 1 else ""
        if len(labels) > 2 and _are_numbers(labels):
            fix = f"the target has {len(labels):,} different numbers: use --task regression to predict them, or {fix}"
        raise value_error(
            f"{few}, expected at least {folds}, one per fold; {fix}remove the class or join it with another"
        )


def _are_numbers(labels: Array) -> bool:
    """Return whether all labels are numbers, or strings of numbers."""
    try:
        labels.astype(np.float64)
    except ValueError:
        return False
    return True


def _score_classes(model: Any, X: Any, y: Array) -> tuple[Array, dict[str, float]]:
    probabilities = model.predict_proba(X)
    predicted = model.classes_[probabilities.argmax(axis=1)]
    return predicted, {
        "accuracy": float(accuracy_score(y, predicted)),
        "balanced accuracy": float(balanced_accuracy_score(y, predicted)),
        "macro F1": float(f1_score(y, predicted, average="macro", zero_division=0.0)),
        "log-loss": float(log_loss(y, probabilities, labels=model.classes_)),
    }


def _score_numbers(model: Any, X: Any, y: Array) -> tuple[Array, dict[str, float]]:
    predicted = model.predict(X)
    return predicted, {
        "R²": float(r2_score(y, predicted)),
        "mean absolute error": float(mean_absolute_error(y, predicted)),
        "root mean squared error": float(root_mean_squared_error(y, predicted)),
    }


def _score_each_class(y: Array, predicted: Array) -> list[ClassScore]:
    labels = np.unique(y)
    columns = precision_recall_fscore_support(y, predicted, labels=labels, zero_division=0.0)
    return [
        ClassScore(label, float(precision), float(recall), float(f1), int(count))
        for label, precision, recall, f1, count in zip(labels.tolist(), *columns, strict=True)
    ]
