"""Other ways to do the same: TF-IDF, recordlinkage, and the estimators of scikit-learn with their defaults.

Nothing here imports ghrr: recordlinkage needs an older pandas and so an environment of its own.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from .kinds import IDENTIFYING
from .tables import Document, Table

Pairs = dict[tuple[int, int], float]
_NEIGHBOURS = 10
_ROWS_AT_A_TIME = 500
VECTORIZERS: dict[str, dict[str, Any]] = {
    "words": {"token_pattern": r"\w+"},
    "characters": {"analyzer": "char", "ngram_range": (2, 4)},
}
TFIDF = ("words", "characters", "per field")


# --------------------------------------------------------------------------------------------------------------- TF-IDF


def _texts(documents: Sequence[Document], names: Sequence[str]) -> list[str]:
    return [" ".join(_text(one.get(name)) for name in names) for one in documents]


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "" if value is None else str(value)


def tfidf_vectors(method: str, documents: Sequence[Document], examples: Sequence[Document]) -> tuple[Any, Any]:
    """Return the sparse vectors of documents and of examples; ``per field`` weighs all fields equally."""
    names = list(dict.fromkeys(key for one in documents for key in one))
    groups = [[name] for name in names] if method == "per field" else [names]
    settings = VECTORIZERS["characters" if method == "per field" else method]
    sides: tuple[list[Any], list[Any]] = ([], [])
    for group in groups:
        texts, asked = _texts(documents, group), _texts(examples, group)
        vectorizer = TfidfVectorizer(sublinear_tf=True, **settings)
        try:
            vectorizer.fit([*texts, *asked])
        except ValueError:  # no letters at all
            continue
        sides[0].append(vectorizer.transform(texts))
        sides[1].append(vectorizer.transform(asked))
    return sparse.hstack(sides[0]).tocsr(), sparse.hstack(sides[1]).tocsr()


def tfidf_search(method: str) -> Callable[[Sequence[Document], Sequence[Document]], list[int]]:
    """Return a contestant that finds the most similar document of each example."""

    def search(documents: Sequence[Document], examples: Sequence[Document]) -> list[int]:
        stored, asked = tfidf_vectors(method, documents, examples)
        found: list[int] = []
        for start in range(0, asked.shape[0], _ROWS_AT_A_TIME):
            scores = (asked[start : start + _ROWS_AT_A_TIME] @ stored.T).toarray()
            found += np.argmax(scores, axis=1).tolist()
        return found

    return search


def tfidf_pairs(method: str, documents: Sequence[Document]) -> Pairs:
    """Return the ten nearest of each document, as scored pairs."""
    vectors, _ = tfidf_vectors(method, documents, documents[:1])
    lengths = np.sqrt(np.asarray(vectors.multiply(vectors).sum(axis=1)).ravel())
    vectors = sparse.diags(1 / np.maximum(lengths, 1e-12)) @ vectors
    pairs: Pairs = {}
    for start in range(0, vectors.shape[0], _ROWS_AT_A_TIME):
        scores = (vectors[start : start + _ROWS_AT_A_TIME] @ vectors.T).toarray()
        scores[np.arange(len(scores)), start + np.arange(len(scores))] = -1
        near = np.argpartition(-scores, min(_NEIGHBOURS, scores.shape[1] - 1), axis=1)[:, :_NEIGHBOURS]
        for row, others in enumerate(near.tolist()):
            for other in others:
                pairs[min(start + row, other), max(start + row, other)] = float(scores[row, other])
    return pairs


# ------------------------------------------------------------------------------------------------------- recordlinkage


def recordlinkage_pairs(table: Table, documents: Sequence[Document]) -> set[tuple[int, int]]:
    """Return the pairs that recordlinkage's ECM finds, without labels.

    It gets what a user would tell it: which columns are texts, numbers and others. Pairs that agree in a value that at
    most 50 rows share, or whose first identifying values are next to each other in the alphabet, are compared. Texts
    agree by Jaro-Winkler from 0.85, numbers within 5 %, and others if they are equal.
    """
    import pandas as pd  # noqa: PLC0415
    import recordlinkage as rl  # noqa: PLC0415

    truths = {one.name: one.truth for one in table.columns if not one.is_key}
    frame = pd.DataFrame([{name: _text(one.get(name)) or None for name in truths} for one in documents])
    indexer = rl.Index()
    blocks = [name for name in truths if _largest_group(frame[name]) <= 50 and frame[name].nunique() > 1]
    for name in blocks:
        indexer.block(name)
    first = next((name for name in truths if truths[name] in IDENTIFYING), next(iter(truths)))
    indexer.add(rl.index.SortedNeighbourhood(first, window=5))
    pairs = indexer.index(frame)
    pairs = pairs.drop_duplicates()
    compare = rl.Compare()
    numbers = ("number", "money", "percent", "number string", "coordinate", "integer")
    for name, truth in truths.items():
        if truth in numbers:
            frame[name] = [_number(value) for value in frame[name]]
            compare.add(_Near(name, name, label=name))
        elif truth in ("name", "text", "many categories", "email", "few categories", "code", "phone", "unclear", "set"):
            compare.string(name, name, method="jarowinkler", threshold=0.85, label=name)
        elif not truth.startswith("constant"):
            compare.exact(name, name, label=name)
    features = compare.compute(pairs, frame)
    found = rl.ECMClassifier(binarize=0.8).fit_predict(features)
    return {(min(a, b), max(a, b)) for a, b in found}


def _largest_group(column: Any) -> int:
    counts = column.value_counts()
    return int(counts.iloc[0]) if len(counts) else 0


def _number(value: Any) -> float:
    digits = re.sub(r"[^\d.,-]", "", str(value))
    if re.search(r",\d{2}$", digits):
        digits = digits.replace(".", "").replace(",", ".")
    try:
        return float(digits.replace(",", ""))
    except ValueError:
        return float("nan")


def _Near(left: str, right: str, label: str) -> Any:  # noqa: N802 (a class that needs recordlinkage)
    from recordlinkage.base import BaseCompareFeature  # noqa: PLC0415

    class Near(BaseCompareFeature):  # type: ignore[misc]
        def _compute_vectorized(self, a: Any, b: Any) -> Any:
            return ((a - b).abs() <= 0.05 * np.maximum(a.abs(), b.abs())).astype(float)

    return Near(left, right, label=label)


# --------------------------------------------------------------------------------------------------------- scikit-learn


def estimators(frame: Any, is_classes: bool) -> dict[str, Any]:
    """Return the estimators of scikit-learn with defaults, behind the usual encoders: scaled numbers and one-hot."""
    from sklearn.compose import make_column_transformer  # noqa: PLC0415
    from sklearn.ensemble import (  # noqa: PLC0415
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
    )
    from sklearn.impute import SimpleImputer  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression, RidgeCV  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import OneHotEncoder, StandardScaler  # noqa: PLC0415
    from sklearn.svm import SVC, SVR  # noqa: PLC0415

    numbers = [name for name in frame if frame[name].dtype.kind in "iufb"]
    others = [name for name in frame if name not in numbers]

    def encoder() -> Any:
        one_hot = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=100, sparse_output=False)
        scaled = make_pipeline(SimpleImputer(), StandardScaler())
        return make_column_transformer((scaled, numbers), (make_pipeline(_AsText(), one_hot), others))

    models = (
        {
            "RBF-SVC": SVC(),
            "random forest": RandomForestClassifier(random_state=0),
            "histogram boosting": HistGradientBoostingClassifier(random_state=0),
            "logistic regression": LogisticRegression(max_iter=1000),
        }
        if is_classes
        else {
            "RBF-SVC": SVR(),
            "random forest": RandomForestRegressor(random_state=0),
            "histogram boosting": HistGradientBoostingRegressor(random_state=0),
            "logistic regression": RidgeCV(),
        }
    )
    return {name: make_pipeline(encoder(), model) for name, model in models.items()}


def _AsText() -> Any:  # noqa: N802 (a transformer)
    from sklearn.preprocessing import FunctionTransformer  # noqa: PLC0415

    return FunctionTransformer(_as_text, feature_names_out="one-to-one")


def _as_text(frame: Any) -> Any:
    return frame.astype(object).where(frame.notna(), "").astype(str)


def best_threshold(pairs: Pairs, right: set[tuple[int, int]]) -> float:
    """Return the best F1 that any threshold reaches, as only somebody with all answers could choose it."""
    ordered = sorted(pairs.items(), key=lambda item: -item[1])
    hits = np.cumsum([pair in right for pair, _ in ordered])
    scores: NDArray[np.float64] = np.array([score for _, score in ordered])
    usable = np.append(scores[1:] < scores[:-1], True) if len(scores) else np.zeros(0, bool)
    values = 2 * hits / (np.arange(1, len(hits) + 1) + len(right))
    return float(max(itertools.chain([0.0], values[usable].tolist())))
