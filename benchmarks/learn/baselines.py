"""Baselines of ``benchmarks/learn/measure.py``: what most people would try first.

Random features of scikit-learn get ``2 * total_dim`` real numbers, as many as our class vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from benchmarks.learn import structures
from benchmarks.learn.search_space import (
    SCALERS,
    TABLES,
    Config,
    Context,
    LogRange,
    Method,
    Scaled,
    always,
    flatten,
    only,
    table_space,
)

NYSTROEM_COMPONENTS = 1024  # its singular value decomposition is cubic in them


class RelativeGamma:
    """Scaling and a model whose ``gamma`` is a multiple of 1 / (features x variance), scikit-learn's ``"scale"``."""

    def __init__(self, scale: str, factor: float, make: Callable[[float], Any]) -> None:
        self.scaler, self.factor, self.make = SCALERS[scale](), factor, make

    def fit(self, samples: Any, labels: Any) -> RelativeGamma:
        """Scale, choose gamma and fit."""
        rows = self.scaler.fit_transform(flatten(samples))
        self.model = self.make(self.factor / (rows.shape[1] * float(rows.var())))
        self.model.fit(rows, labels)
        return self

    def predict(self, samples: Any) -> Any:
        """Predict classes."""
        return self.model.predict(self.scaler.transform(flatten(samples)))


def _svc(config: Config, context: Context) -> Any:
    return RelativeGamma(config["scale"], config["gamma"], lambda g: SVC(C=config["C"], gamma=g, cache_size=500))


def _rbf_sampler(config: Config, context: Context) -> Any:
    width = 2 * context.total_dim
    return RelativeGamma(
        config["scale"],
        config["gamma"],
        lambda g: make_pipeline(
            RBFSampler(gamma=g, n_components=width, random_state=context.seed), RidgeClassifier(config["alpha"])
        ),
    )


def _nystroem(config: Config, context: Context) -> Any:
    def make(gamma: float) -> Any:
        features = Nystroem(gamma=gamma, n_components=NYSTROEM_COMPONENTS, random_state=context.seed)
        return make_pipeline(features, RidgeClassifier(config["alpha"]))

    return RelativeGamma(config["scale"], config["gamma"], make)


def _logistic(config: Config, context: Context) -> Any:
    return Scaled(config["scale"], LogisticRegression(C=config["C"], max_iter=300))


def _nearest(config: Config, context: Context) -> Any:
    model = KNeighborsClassifier(config["neighbors"], weights=config["weights"])
    return Scaled(config["scale"], model)


def _boosting(config: Config, context: Context) -> Any:
    settings = {name: value for name, value in config.items() if name != "scale"}
    return Scaled("none", HistGradientBoostingClassifier(early_stopping=False, random_state=context.seed, **settings))


def _naive_bayes(config: Config, context: Context) -> Any:
    counts = CountVectorizer(analyzer="char", ngram_range=tuple(config["n"]))
    return make_pipeline(counts, MultinomialNB(alpha=config["alpha"]))


def _linear_text(config: Config, context: Context) -> Any:
    counts = TfidfVectorizer(analyzer="char", ngram_range=tuple(config["n"]), sublinear_tf=True, dtype=np.float32)
    return make_pipeline(counts, SGDClassifier(alpha=config["alpha"], random_state=context.seed))


_GAMMA, _ALPHA = LogRange(0.05, 10.0), LogRange(1e-3, 10.0)
_TEXT_N = [[2, 2], [3, 3], [4, 4], [5, 5], [1, 3], [1, 4], [2, 4]]

BASELINES = [
    Method(
        "logistic regression",
        "baseline",
        TABLES,
        _logistic,
        table_space(C=LogRange(1e-3, 1e3)),
        always({"scale": "standard", "C": 1.0}),
        deterministic=True,
    ),
    Method(
        "k-NN",
        "baseline",
        TABLES,
        _nearest,
        table_space(neighbors=[1, 3, 5, 7, 9, 11, 15, 21], weights=["uniform", "distance"]),
        always({"scale": "standard", "neighbors": 1, "weights": "uniform"}),
        deterministic=True,
    ),
    Method(
        "RBF-SVC",
        "baseline",
        TABLES,
        _svc,
        table_space(C=LogRange(0.1, 1e3), gamma=_GAMMA),
        always({"scale": "standard", "C": 10.0, "gamma": 1.0}),
        deterministic=True,
    ),
    Method(
        "RBFSampler + ridge",
        "baseline",
        TABLES,
        _rbf_sampler,
        table_space(gamma=_GAMMA, alpha=_ALPHA),
        always({"scale": "standard", "gamma": 1.0, "alpha": 1.0}),
    ),
    Method(
        "Nystroem + ridge",
        "baseline",
        TABLES,
        _nystroem,
        table_space(gamma=_GAMMA, alpha=_ALPHA),
        always({"scale": "standard", "gamma": 1.0, "alpha": 1.0}),
    ),
    Method(
        "gradient boosting",
        "baseline",
        TABLES,
        _boosting,
        only(
            learning_rate=LogRange(0.03, 0.3),
            max_iter=[50, 100, 200],
            max_leaf_nodes=[7, 15, 31],
            min_samples_leaf=[5, 20, 50],
            l2_regularization=[0.0, 1.0],
        ),
        always({"learning_rate": 0.1, "max_iter": 100}),
        deterministic=True,
    ),
    Method(
        "naive Bayes, n-grams",
        "baseline",
        ("text",),
        _naive_bayes,
        only(n=_TEXT_N, alpha=LogRange(1e-3, 1.0)),
        always({"n": [4, 4], "alpha": 0.1}),
        deterministic=True,
    ),
    Method(
        "linear SVM, n-grams",
        "baseline",
        ("text",),
        _linear_text,
        only(n=_TEXT_N, alpha=LogRange(1e-7, 1e-4)),
        always({"n": [3, 3], "alpha": 1e-5}),
    ),
    Method(
        "1-NN, dynamic time warping",
        "baseline",
        ("series",),
        lambda config, context: structures.NearestSeries(config["window"], context.device),
        only(window=[0.0, 0.03, 0.05, 0.1, 0.2, 0.3, 1.0]),
        always({"window": 0.1}),
        on_gpu=True,
        deterministic=True,
    ),
    Method(
        "Weisfeiler-Lehman + SVC",
        "baseline",
        ("graph",),
        lambda config, context: structures.WeisfeilerLehman(config["rounds"], config["C"]),
        only(rounds=[0, 1, 2, 3, 4, 5], C=LogRange(1e-2, 1e3)),
        always({"rounds": 3, "C": 1.0}),
        deterministic=True,
    ),
    Method(
        "label histogram + RBF-SVC",
        "baseline",
        ("graph",),
        lambda config, context: structures.LabelHistogram(_svc(config, context)),
        only(scale=["standard", "none"], C=LogRange(0.1, 1e3), gamma=_GAMMA),
        always({"scale": "standard", "C": 10.0, "gamma": 1.0}),
        deterministic=True,
    ),
]
