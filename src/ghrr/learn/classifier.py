"""Classifier: one hypervector per class."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_class_weight, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d
from torch import Tensor

from ghrr.learn.base import class_signs, seed_of
from ghrr.learn.gradient_training import GradientTraining, cross_entropy
from ghrr.learn.linear_model import Array, FeatureSource, LinearOnFeatures, checked_weights, take
from ghrr.learn.probabilities import fit_temperature
from ghrr.learn.prototypes import class_sums, cosines, online_update
from ghrr.learn.ridge import CLASS_PENALTIES, NormalEquations

_CALIBRATED = 10_000  # samples that the temperature is fitted to
TRAINING = ("ridge", "refined", "online", "centroid")
_LEARNING_RATES = {"refined": 0.02, "online": 1.0}


class HDClassifier(ClassifierMixin, LinearOnFeatures):  # type: ignore[misc]
    r"""Classify samples by one hypervector per class.

    An encoder turns samples into features; the score of a class is the inner product of the features with the vector of
    the class (plus a constant), and the class with the highest score is predicted. ``training`` is the method
    that finds the vectors:

    - ``"ridge"`` (default): least squares in closed form, with the penalty chosen by generalised cross-validation. The
      most accurate in most cases.
    - ``"refined"``: logistic regression by Adam, starting from the ridge solution.
    - ``"online"``: centroids, then updates on mistakes (OnlineHD), in batches.
    - ``"centroid"``: the sum of the samples of each class. One pass, the classical method.

    Features are made in batches. Only training in several epochs stores those of all samples, up to 512 MiB.

    Parameters
    ----------
    encoder
        Transformer to features, for example :class:`KernelFeatures`, or ``"passthrough"`` if the input is already
        encoded. By default a :class:`KernelFeatures` with 1,024 slots.
    training
        ``"ridge"``, ``"refined"``, ``"online"`` or ``"centroid"``.
    alpha
        Penalty of the ridge regression, in units of the mean squared length of the centred features, or ``"gcv"`` to
        choose it by generalised cross-validation.
    max_epochs
        Most passes over the data, for ``"refined"`` and ``"online"``.
    learning_rate
        Size of the updates. By default 0.02 for ``"refined"`` and 1 for ``"online"``.
    batch_size
        Samples per update, for ``"refined"`` and ``"online"``.
    early_stopping
        Hold out ``validation_fraction`` of the samples and stop when ``patience`` epochs bring no improvement.
    validation_fraction, patience
        Settings of early stopping.
    class_weight
        ``"balanced"``, or a dict of weights by class. None gives all classes the weight 1.
    random_state
        Seed of the default encoder and of the order of samples.
    device
        Device that trains and predicts, for example ``"cuda"``.
    verbose
        1 reports epochs, 2 also batches, on standard error.

    Attributes
    ----------
    classes_
        Labels of the classes.
    class_vectors_
        One vector per class, ``(classes, features)``.
    intercept_
        Constants of the scores, ``(classes,)``.
    encoder_
        The fitted encoder.
    temperature_
        Factor of the scores in :meth:`predict_proba`.
    alpha_
        Penalty that was chosen, for ``"ridge"`` and ``"refined"``.
    n_iter_
        Passes over the data.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from ghrr.learn import HDClassifier, KernelFeatures
    >>> X, y = load_digits(return_X_y=True)
    >>> X, Xt, y, yt = train_test_split(X, y, random_state=0)
    >>> model = HDClassifier(KernelFeatures(dim=1000, bandwidth_scale=0.5), random_state=0).fit(X, y)
    >>> model.score(Xt, yt) > 0.98
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "encoder": [StrOptions({"passthrough"}), None, object],
        "training": [StrOptions(set(TRAINING))],
        "alpha": [StrOptions({"gcv"}), Interval(Real, 0, None, closed="neither")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "patience": [Interval(Integral, 1, None, closed="left")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "random_state": ["random_state"],
        "device": [str, torch.device, None],
        "verbose": ["verbose"],
    }

    classes_: Array
    class_vectors_: Tensor
    intercept_: Tensor
    temperature_: float
    _sums: NormalEquations | None
    _prototypes: Tensor
    _penalties = CLASS_PENALTIES

    def __init__(
        self,
        encoder: Any = None,
        *,
        training: str = "ridge",
        alpha: Any = "gcv",
        max_epochs: int = 20,
        learning_rate: float | None = None,
        batch_size: int = 256,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 3,
        class_weight: Any = None,
        random_state: Any = None,
        device: Any = None,
        verbose: int = 0,
    ) -> None:
        self.encoder = encoder
        self.training = training
        self.alpha = alpha
        self.max_epochs = max_epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.class_weight = class_weight
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    # ------------------------------------------------------------------------------------------------------ training

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the vectors of the classes.

        Parameters
        ----------
        X
            Samples that the encoder takes; ``(n, features)`` for the default one.
        y
            Labels, ``(n,)``.
        sample_weight
            Weights of the samples, ``(n,)``.
        """
        self._validate_params()
        y = check_labels(self, X, y)
        weights = checked_weights(sample_weight, X, y)
        self.classes_, labels = np.unique(y[weights > 0], return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__}: y must have at least two classes, got one class; add samples of another class"
            )
        kept = np.flatnonzero(weights > 0)
        X = take(X, kept)
        weights = weights[kept] * compute_sample_weight(self.class_weight, y[kept])
        samples = self._fit_encoder(X, labels, weights)
        self._sums = None
        getattr(self, f"_fit_{self.training}")(samples, labels, weights)
        return self

    def _fit_ridge(self, samples: Any, labels: Array, weights: Array) -> None:
        solution = self._solve_ridge(samples, class_signs(labels, len(self.classes_)), weights)
        self.alpha_, self.n_iter_ = solution.alpha, 1
        self._set_vectors(solution.weights.mT, solution.intercept)
        self._calibrate(samples, labels, weights, solution.shrinkage)

    def _fit_centroid(self, samples: Any, labels: Array, weights: Array) -> None:
        self.n_iter_ = 1
        self._prototypes = self._sum_classes(samples, labels, weights)
        self._use_prototypes(samples, labels, weights)

    def _fit_online(self, samples: Any, labels: Array, weights: Array) -> None:
        train, held_out = self._split(labels)
        chosen, rows = take(samples, train), (labels[train], weights[train])
        self._prototypes = self._sum_classes(chosen, *rows)
        features_of = self._feature_source(chosen)
        best, kept, since = -1.0, self._prototypes, 0
        for epoch in range(1, self.max_epochs + 1):
            self.n_iter_ = epoch
            mistakes = self._online_epoch(features_of, *rows)
            self._report(f"epoch {epoch}: {mistakes:,} mistakes")
            if held_out is not None:
                since += 1
                right = self._share_right(take(samples, held_out), labels[held_out])
                if right > best:
                    best, kept, since = right, self._prototypes.clone(), 0
            if mistakes == 0 or since >= self.patience:
                break
        if held_out is not None:
            self._prototypes = kept
        self._use_prototypes(samples, labels, weights)

    def _fit_refined(self, samples: Any, labels: Array, weights: Array) -> None:
        train, held_out = self._split(labels)
        chosen, rows = take(samples, train), (labels[train], weights[train])
        self._fit_ridge(chosen, *rows)
        start = self.temperature_ * self.class_vectors_.mT, self.temperature_ * self.intercept_
        training = GradientTraining(*start, cross_entropy, rate=self._rate())
        self._train(training, samples, (labels, weights), train, held_out)
        self._set_vectors(training.weights.detach().mT, training.intercept.detach())
        self.temperature_ = 1.0
        if held_out is not None:
            self._calibrate(take(samples, held_out), labels[held_out], weights[held_out])

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from one more batch of samples, without forgetting the earlier ones.

        Ridge regression gives the same result as one fit on all batches, up to the encoder, which is fitted on the
        first batch, and the penalty, which is chosen again whenever the number of samples has doubled.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`.
        classes
            All labels that can occur. Required in the first call.
        """
        self._validate_params()
        y = check_labels(self, X, y)
        first = not hasattr(self, "encoder_")
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        if first:
            self.classes_ = np.unique(classes)
        elif classes is not None and not np.array_equal(self.classes_, np.unique(classes)):
            raise ValueError(f"`classes={classes!r}` is not the same as on last call to partial_fit, {self.classes_!r}")
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(
                f"partial_fit: y has labels {unknown} that are not in classes, {self.classes_}; pass all classes to "
                f"the first call"
            )
        labels = np.searchsorted(self.classes_, y)
        weights = checked_weights(sample_weight, X, y) * _class_weights(self.class_weight, y)
        samples = self._fit_encoder(X, labels, weights) if first else self._check_samples(X)
        if self.training == "ridge":
            self._add_to_ridge(samples, labels, weights)
        elif self.training == "refined":
            self._add_to_refined(samples, labels, weights)
        else:
            self._add_to_prototypes(samples, labels, weights)
        return self

    def _add_to_ridge(self, samples: Any, labels: Array, weights: Array) -> None:
        width = self._width(samples)
        sums = getattr(self, "_sums", None)
        if sums is None:
            sums, self._chosen_at = NormalEquations(width, len(self.classes_), self.device), 0.0
            self._sums = sums
        for features, goals, shares in self._batches(
            samples, class_signs(labels, len(self.classes_)), weights, width=width
        ):
            sums.add(features, goals, shares)
        count = float(sums.count)
        doubled = count >= 2 * self._chosen_at
        choose = isinstance(self.alpha, str) and doubled
        known = getattr(self, "alpha_", 0.0) if isinstance(self.alpha, str) else float(self.alpha)
        alphas = self._penalties if choose else [known]
        self._chosen_at = count if doubled else self._chosen_at
        solution = sums.solve(alphas)
        self.alpha_, self.n_iter_ = solution.alpha, getattr(self, "n_iter_", 0) + 1
        self._set_vectors(solution.weights.mT, solution.intercept)
        self._calibrate(samples, labels, weights, solution.shrinkage)

    def _add_to_refined(self, samples: Any, labels: Array, weights: Array) -> None:
        if getattr(self, "_descent", None) is None:
            zeros = torch.zeros(len(self.classes_), self._width(samples), device=self.device or "cpu")
            start = getattr(self, "class_vectors_", zeros).mT, getattr(self, "intercept_", zeros[:, 0])
            self._descent = GradientTraining(*start, cross_entropy, rate=self._rate())
        order = np.random.default_rng(seed_of(self.random_state))
        self._descent.epoch(self._shuffled(self._feature_source(samples), (labels, weights), order))
        self.n_iter_ = getattr(self, "n_iter_", 0) + 1
        self._set_vectors(self._descent.weights.detach().mT, self._descent.intercept.detach())
        self.temperature_ = 1.0

    def _add_to_prototypes(self, samples: Any, labels: Array, weights: Array) -> None:
        sums = self._sum_classes(samples, labels, weights)
        if getattr(self, "_prototypes", None) is None:
            self._prototypes = sums
        elif self.training == "centroid":
            self._prototypes = self._prototypes + sums
        else:
            self._online_epoch(self._feature_source(samples), labels, weights)
        self.n_iter_ = getattr(self, "n_iter_", 0) + 1
        self._use_prototypes(samples, labels, weights)

    # ----------------------------------------------------------------------------------------------------- prototypes

    def _sum_classes(self, samples: Any, labels: Array, weights: Array) -> Tensor:
        width = self._width(samples)
        batches = self._batches(samples, labels, weights, width=width)
        sums = torch.zeros(len(self.classes_), width, dtype=torch.float64, device=self.device or "cpu")
        for features, own, shares in batches:
            sums += class_sums(features, own, shares, len(self.classes_))
        return sums

    def _online_epoch(self, features_of: FeatureSource, labels: Array, weights: Array) -> int:
        order = np.random.default_rng(seed_of(self.random_state))
        batches = self._shuffled(features_of, (labels, weights), order)
        return sum(
            online_update(self._prototypes, features, own, shares, self._rate()) for features, own, shares in batches
        )

    def _share_right(self, samples: Any, labels: Array) -> float:
        batches = self._batches(samples, labels, width=self._width(samples))
        right = [(cosines(features, self._prototypes).argmax(dim=1) == own).sum() for features, own in batches]
        return float(sum(right)) / max(1, len(labels))

    def _use_prototypes(self, samples: Any, labels: Array, weights: Array) -> None:
        vectors = torch.nn.functional.normalize(self._prototypes, dim=1)
        self._set_vectors(vectors, vectors.new_zeros(len(vectors)))
        self._calibrate(samples, labels, weights)
        if self.training == "centroid":
            # The direction of a centroid does not depend on the weight of its class, so probabilities do.
            factors = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_[labels])
            logs = np.log(np.maximum(factors, np.finfo(float).tiny))
            self.intercept_ = torch.as_tensor(logs / self.temperature_).to(vectors)

    # ---------------------------------------------------------------------------------------------------------- parts

    def _rate(self) -> float:
        return _LEARNING_RATES[self.training] if self.learning_rate is None else self.learning_rate

    def _set_vectors(self, vectors: Tensor, intercept: Tensor) -> None:
        self.class_vectors_ = vectors.double().contiguous()
        self.intercept_ = intercept.double()

    def _calibrate(self, samples: Any, labels: Array, weights: Array, shrinkage: float = 0.0) -> None:
        """Fit the temperature to the scores of at most 10,000 samples.

        The scores of training data are too good. ``shrinkage`` undoes this on average: a residual grows by
        1 / (1 - shrinkage).
        """
        rows = np.unique(np.linspace(0, len(labels) - 1, min(len(labels), _CALIBRATED)).round().astype(int))
        chosen = take(samples, rows)
        batches = self._batches(chosen, labels[rows], width=self._width(chosen))
        scores = []
        for features, own in batches:
            fitted = self._scores(features)
            goals = 2.0 * torch.nn.functional.one_hot(own, len(self.classes_)) - 1
            scores.append(goals + (fitted - goals) / (1 - shrinkage) if shrinkage else fitted)
        own = torch.as_tensor(labels[rows]).to(scores[0].device)
        self.temperature_ = fit_temperature(torch.cat(scores), own, torch.as_tensor(weights[rows]).to(own.device))

    def _scores(self, features: Tensor) -> Tensor:
        return torch.addmm(self.intercept_, features.double(), self.class_vectors_.mT)

    # ----------------------------------------------------------------------------------------------------- prediction

    def decision_function(self, X: Any) -> Array:
        """Return the scores of all classes, ``(n, classes)``; for two classes the difference, ``(n,)``."""
        scores = self._apply(X, self._scores)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each sample, ``(n,)``."""
        chosen = self._apply(X, lambda features: self._scores(features).argmax(dim=1))
        labels: Array = self.classes_[chosen]
        return labels

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, ``(n, classes)``: a softmax of the scores, fitted to the data."""
        return self._apply(X, lambda features: torch.softmax(self.temperature_ * self._scores(features), dim=1))


def check_labels(estimator: Any, X: Any, y: Any) -> Array:
    """Return labels as an array ``(n,)``, one for each sample."""
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
    y = column_or_1d(y, warn=True)
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    check_consistent_length(X, y)
    if not len(y):
        name = type(estimator).__name__
        raise ValueError(f"Found array with 0 sample(s) while a minimum of 1 is required by {name}.")
    labels: Array = y
    return labels


def _class_weights(class_weight: Any, y: Array) -> Array:
    if isinstance(class_weight, str):
        raise ValueError(
            f"partial_fit: class_weight={class_weight!r} needs all samples at once; give a dict of weights by class"
        )
    weights: Array = compute_sample_weight(class_weight, y)
    return weights
