"""Classifier: one hypervector per class."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.class_weight import compute_class_weight, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d
from torch import Tensor

from ghrr.checks import check_device, names_errors, value_error
from ghrr.learn.base import as_array, class_signs
from ghrr.learn.gradient_training import GradientTraining, cross_entropy
from ghrr.learn.linear_model import Array, FeatureSource, LinearOnFeatures, checked_weights, take
from ghrr.learn.probabilities import fit_temperature
from ghrr.learn.prototypes import class_sums, cosines, left_out_scores, online_update
from ghrr.learn.repeats import left_out_weights, sample_keys
from ghrr.learn.ridge import CLASS_PENALTIES, RidgeSolution

_CALIBRATED = 10_000  # samples that the temperature is fitted to
_KEPT_SCORES = 1_000  # of earlier batches of a stream, for the temperature
TRAINING = ("ridge", "refined", "online", "centroid")
_LEARNING_RATES = {"refined": 0.02, "online": 1.0}


@names_errors
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

    Features are made in batches. Those of all samples are stored only for training in several epochs, up to 512 MiB,
    and for a ridge regression of fewer samples than features. Probabilities are calibrated by generalised
    cross-validation for ``"ridge"``, and for ``"centroid"`` on training samples that are left out of their class one at
    a time; copies of a sample, with equal features and equal targets, are left out with it. For ``"refined"`` and
    ``"online"`` they are calibrated on held-out samples with ``early_stopping``, and too certain without it; copies are
    held out together.

    Parameters
    ----------
    encoder
        ``"auto"`` (default) chooses an encoder that fits the samples: arrays, tables, texts, images, series or graphs
        (see :func:`ghrr.learn.auto_encoder.choose_encoder`). Otherwise a transformer to features, for example
        :class:`KernelFeatures`, or ``"passthrough"`` if the input is already encoded. None is a
        :class:`KernelFeatures` with 1,024 slots.
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
        For ``"refined"`` and ``"online"``: hold out ``validation_fraction`` of the samples, stop when ``patience``
        epochs bring no improvement, and calibrate the probabilities on them.
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
        The fitted encoder, None for ``"passthrough"``.
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
        "encoder": [StrOptions({"auto", "passthrough"}), None, HasMethods(["fit", "transform"])],
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
    _prototypes: Tensor | None = None
    _descent: GradientTraining | None = None
    _kept_scores: Tensor
    _penalties = CLASS_PENALTIES

    def __init__(
        self,
        encoder: Any = "auto",
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
            Samples that the encoder takes.
        y
            Labels, ``(n,)``.
        sample_weight
            Weights of the samples, ``(n,)``. A weight of 2 counts as two samples, so weights that add up to 1 count as
            one sample: give them a mean of 1.
        """
        self._validate_params()
        y = check_labels(self, X, y)
        weights = checked_weights(sample_weight, X, y)
        self.classes_, labels = np.unique(y[weights > 0], return_inverse=True)
        self._check_classes("y", self.classes_)
        kept = np.flatnonzero(weights > 0)
        X = take(X, kept)
        weights = weights[kept] * compute_sample_weight(self.class_weight, y[kept])
        samples = self._fit_encoder(X, labels, weights)
        self._sums = self._prototypes = self._descent = None
        fit, _ = self._methods[self.training]
        fit(self, samples, labels, weights)
        return self

    def _fit_ridge(self, samples: Any, labels: Array, weights: Array) -> None:
        solution = self._solve_ridge(samples, class_signs(labels, len(self.classes_)), weights)
        self.n_iter_ = 1
        self._use_ridge(solution)
        self._calibrate(self._judge(samples, labels, weights, shrinkage=solution.shrinkage))

    def _fit_centroid(self, samples: Any, labels: Array, weights: Array) -> None:
        self.n_iter_ = 1
        sums, left_out = self._sum_classes(samples, labels, weights)
        self._use_prototypes(sums)
        self._calibrate(self._judge(samples, labels, weights, left_out=left_out))
        self._weigh_classes(labels)

    def _fit_online(self, samples: Any, labels: Array, weights: Array) -> None:
        train, held_out = self._split(samples, labels, weights)
        chosen, rows = take(samples, train), (labels[train], weights[train])
        prototypes, _ = self._sum_classes(chosen, *rows)
        features_of = self._feature_source(chosen)
        best, kept, since = -1.0, prototypes, 0
        for epoch in range(1, self.max_epochs + 1):
            self.n_iter_ = epoch
            mistakes = self._online_epoch(prototypes, features_of, *rows, self._order(epoch))
            self._report(f"epoch {epoch}: {mistakes:,} mistakes")
            if held_out is not None:
                since += 1
                accuracy = self._accuracy_on(prototypes, take(samples, held_out), labels[held_out])
                if accuracy > best:
                    best, kept, since = accuracy, prototypes.clone(), 0
            if mistakes == 0 or since >= self.patience:
                break
        self._use_prototypes(prototypes if held_out is None else kept)
        judged = np.arange(len(labels)) if held_out is None else held_out
        self._calibrate(self._judge(take(samples, judged), labels[judged], weights[judged]))

    def _fit_refined(self, samples: Any, labels: Array, weights: Array) -> None:
        train, held_out = self._split(samples, labels, weights)
        chosen, rows = take(samples, train), (labels[train], weights[train])
        self._start_at_ridge(chosen, *rows)
        training = self._descend(chosen, rows[1])
        self._train(training, samples, (labels, weights), train, held_out)
        self._use_descent(training)
        if held_out is not None:
            self._calibrate(self._judge(take(samples, held_out), labels[held_out], weights[held_out]))

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from one more batch of samples, without forgetting the earlier ones.

        Ridge regression gives the same result as one fit on all batches, up to the encoder, which is fitted on the
        first batch, and the penalty, which is chosen again whenever the number of samples has doubled. After
        :meth:`fit`, which keeps no sums of its samples, it starts anew with a warning; the other trainings continue.
        Probabilities are calibrated on each batch before it is learned, and copies in other batches count as new
        samples: passing the same samples again makes probabilities too certain. ``"refined"`` starts at the ridge
        solution of the first batch, and learns slowly if this is a poor start: give it several samples of each class
        first.

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
            self._check_classes("classes", np.unique(classes))
            self.classes_ = np.unique(classes)
        elif classes is not None and not np.array_equal(self.classes_, np.unique(classes)):
            raise ValueError(f"`classes={classes!r}` is not the same as on last call to partial_fit, {self.classes_!r}")
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise value_error(
                f"y has labels {unknown} that are not in classes, {self.classes_}; pass all classes to the first call"
            )
        labels = np.searchsorted(self.classes_, y)
        weights = checked_weights(sample_weight, X, y) * _class_weights(self.class_weight, y)
        samples = self._fit_encoder(X, labels, weights) if first else self._check_samples(X)
        scores = None if first else self._judge(samples, labels, weights)
        passes = getattr(self, "n_iter_", 0) + 1
        _, add = self._methods[self.training]
        unfair = add(self, samples, labels, weights, passes)
        self.n_iter_ = passes
        if scores is not None:
            self._calibrate(torch.cat([getattr(self, "_kept_scores", scores[:0]), scores]))
        elif self.training != "refined":
            self._calibrate(self._judge(samples, labels, weights, **unfair))
        if self.training == "centroid":
            self._weigh_classes(labels)
        return self

    def _check_classes(self, name: str, classes: Array) -> None:
        if len(classes) < 2:
            raise value_error(f"{name} must have at least two classes, got one class; add another class")

    # Each returns what `_judge` needs to know to judge samples that were just learned.

    def _add_to_ridge(self, samples: Any, labels: Array, weights: Array, passes: int) -> dict[str, Any]:
        solution = self._add_to_sums(samples, class_signs(labels, len(self.classes_)), weights)
        self._use_ridge(solution)
        return {"shrinkage": solution.shrinkage}

    def _add_to_refined(self, samples: Any, labels: Array, weights: Array, passes: int) -> dict[str, Any]:
        if not hasattr(self, "class_vectors_"):
            self._start_at_ridge(samples, labels, weights)
        if self._descent is None:
            self._descent = self._descend(samples, weights)
        features_of = self._feature_source(samples)
        self._descent.epoch(self._shuffled(features_of, (labels, weights), self._order(passes)))
        self._use_descent(self._descent)
        return {}

    def _add_to_online(self, samples: Any, labels: Array, weights: Array, passes: int) -> dict[str, Any]:
        if self._prototypes is None:
            return self._add_to_centroid(samples, labels, weights, passes)
        self._online_epoch(self._prototypes, self._feature_source(samples), labels, weights, self._order(passes))
        self._use_prototypes(self._prototypes)
        return {}

    def _add_to_centroid(self, samples: Any, labels: Array, weights: Array, passes: int) -> dict[str, Any]:
        sums, left_out = self._sum_classes(samples, labels, weights)
        self._use_prototypes(sums if self._prototypes is None else self._prototypes + sums)
        return {"left_out": left_out}

    _methods: ClassVar[dict[str, tuple[Callable[..., None], Callable[..., dict[str, Any]]]]] = {
        "ridge": (_fit_ridge, _add_to_ridge),
        "refined": (_fit_refined, _add_to_refined),
        "online": (_fit_online, _add_to_online),
        "centroid": (_fit_centroid, _add_to_centroid),
    }

    # ----------------------------------------------------------------------------------------------------- prototypes

    def _sum_classes(self, samples: Any, labels: Array, weights: Array) -> tuple[Tensor, Array]:
        """Return the sum of each class, and the weight to leave out of it with each sample."""
        width = self._width(samples)
        batches = self._batches(samples, labels, weights, width=width)
        sums = torch.zeros(len(self.classes_), width, dtype=torch.float64, device=check_device(self.device))
        keys = []
        for features, own, shares in batches:
            sums += class_sums(features, own, shares, len(self.classes_))
            keys.append(sample_keys(features))
        left_out: Array = left_out_weights(torch.cat(keys), *self._on_device(labels, weights)).numpy(force=True)
        return sums, left_out

    def _online_epoch(
        self,
        prototypes: Tensor,
        features_of: FeatureSource,
        labels: Array,
        weights: Array,
        order: np.random.Generator,
    ) -> int:
        """Update the prototypes in place; return the number of mistakes."""
        batches = self._shuffled(features_of, (labels, weights), order)
        return sum(online_update(prototypes, *batch, self._rate()) for batch in batches)

    def _accuracy_on(self, prototypes: Tensor, samples: Any, labels: Array) -> float:
        batches = self._batches(samples, labels, width=self._width(samples))
        correct = [(cosines(features, prototypes).argmax(dim=1) == own).sum() for features, own in batches]
        return float(sum(correct)) / max(1, len(labels))

    # ---------------------------------------------------------------------------------------------------------- parts

    def _held_out(self, goals: Array) -> Array:
        """Also leave a sample of each class to train on, if another one is left to hold out."""
        held_out = np.sort(super()._held_out(goals))
        lost = held_out[~np.isin(goals[held_out], np.delete(goals, held_out))]
        returned = lost[np.unique(goals[lost], return_index=True)[1]]
        return held_out if len(returned) == len(held_out) else np.setdiff1d(held_out, returned)

    def _rate(self) -> float:
        return _LEARNING_RATES[self.training] if self.learning_rate is None else self.learning_rate

    def _set_vectors(self, vectors: Tensor, intercept: Tensor) -> None:
        self.class_vectors_ = vectors.double().contiguous()
        self.intercept_ = intercept.double()

    def _use_ridge(self, solution: RidgeSolution) -> None:
        self.alpha_ = solution.alpha
        self._set_vectors(solution.weights.mT, solution.intercept)

    def _use_prototypes(self, prototypes: Tensor) -> None:
        self._prototypes = prototypes
        vectors = torch.nn.functional.normalize(prototypes, dim=1)
        self._set_vectors(vectors, vectors.new_zeros(len(vectors)))

    def _start_at_ridge(self, samples: Any, labels: Array, weights: Array) -> None:
        """Fit a ridge regression whose scores are logits."""
        self._fit_ridge(samples, labels, weights)
        self._set_vectors(self.temperature_ * self.class_vectors_, self.temperature_ * self.intercept_)
        self._kept_scores[:, :-2] *= self.temperature_
        self.temperature_ = 1.0

    def _descend(self, samples: Any, weights: Array) -> GradientTraining:
        """Return logistic regression that starts at the present vectors."""
        start, center = (self.class_vectors_.mT, self.intercept_), self._feature_center(samples, weights)
        return GradientTraining(*start, cross_entropy, rate=self._rate(), center=center)

    def _use_descent(self, training: GradientTraining) -> None:
        weights, intercept = training.solution()
        self._set_vectors(weights.mT, intercept)

    def _judge(
        self, samples: Any, labels: Array, weights: Array, *, shrinkage: float = 0.0, left_out: Array | None = None
    ) -> Tensor:
        """Return the scores of at most 10,000 samples, their labels and their weights, ``(n, classes + 2)``.

        The scores of training data are too good. For a ridge regression ``shrinkage`` undoes this on average: a
        residual grows by 1 / (1 - shrinkage). For centroids each sample is left out of its own class, with the weight
        ``left_out``.
        """
        rows = np.unique(np.linspace(0, len(labels) - 1, min(len(labels), _CALIBRATED)).round().astype(int))
        chosen = take(samples, rows)
        parts = []
        columns = labels[rows], weights[rows], (np.zeros(len(labels)) if left_out is None else left_out)[rows]
        for features, own, shares, without in self._batches(chosen, *columns, width=self._width(chosen)):
            if left_out is not None and self._prototypes is not None:
                scores = left_out_scores(features, self._prototypes, own, without)
            else:
                scores = features.double() @ self.class_vectors_.mT
            if self.training != "centroid":  # its constants follow from the temperature
                scores += self.intercept_
            if shrinkage:
                goals = 2.0 * torch.nn.functional.one_hot(own, len(self.classes_)) - 1
                scores = goals + (scores - goals) / (1 - shrinkage)
            parts.append(torch.cat([scores, own[:, None].double(), shares[:, None].double()], dim=1))
        return torch.cat(parts)

    def _calibrate(self, judged: Tensor) -> None:
        """Fit the temperature to scores of :meth:`_judge`, and keep some of them for the next batch of a stream."""
        self.temperature_ = fit_temperature(judged[:, :-2], judged[:, -2].long(), judged[:, -1])
        self._kept_scores = judged[:: -(-len(judged) // _KEPT_SCORES)].clone()

    def _weigh_classes(self, labels: Array) -> None:
        """Set the constants of centroids: their directions do not depend on the weights of the classes."""
        factors = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_[labels])
        logs = np.log(np.maximum(factors, np.finfo(float).tiny))
        self.intercept_ = torch.as_tensor(logs / self.temperature_).to(self.class_vectors_)

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
    y = column_or_1d(as_array(y), warn=True)
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
        raise value_error(f"class_weight={class_weight!r} needs all samples at once; give a dict of weights by class")
    weights: Array = compute_sample_weight(class_weight, y)
    return weights
