"""Check the state of an estimator that was read from a file.

A file can be damaged or crafted. The checks hold for every estimator that ``fit`` or ``partial_fit`` made: which
entries there are, their types, dtypes and shapes, and what follows from other entries. Numbers that nothing else in the
file determines, such as the vectors of classes, must be finite. An estimator that passes can predict.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ghrr.encoding.ngram_counts import as_keys
from ghrr.learn.base import FeatureEncoder
from ghrr.learn.ridge import NormalEquations
from ghrr.learn.state_checks import (
    MOST_SINGLE,
    MOST_STEPS,
    check_array,
    check_close,
    check_names,
    check_positive,
    check_scales,
    check_space,
    check_tensor,
    check_that,
    check_unitary,
    check_whole,
)
from ghrr.learn.table_columns import KINDS, NUMERIC, TEXTUAL
from ghrr.learn.text_features import TextFeatures
from ghrr.space import Space

_COMPARED = 32  # vectors of symbols that are computed again
_SINGLE, _COMPLEX = torch.float32, torch.complex64
# Entries beside the settings: those that every file has, and those that only some have.
_ENTRIES: dict[str, tuple[str, str]] = {
    "KernelFeatures": (
        "n_features_in_ frequencies_ bandwidth_ n_features_out_ rotations_",
        "feature_names_in_ _center",
    ),
    "TextFeatures": ("symbols_ space_ _vectors n_features_out_ _grams _gram_weights", ""),
    "SeriesFeatures": (
        "n_channels_ means_ scales_ difference_scales_ dilations_ space_ frequencies_ position_frequencies_ _rotations "
        "n_features_out_",
        "n_features_in_ feature_names_in_",
    ),
    "GraphFeatures": ("space_ n_features_out_ scale_", ""),
    "ImageFeatures": (
        "n_features_in_ image_shape_ positions_ grid_ patch_frequencies_ position_phases_ n_features_out_",
        "feature_names_in_",
    ),
    "TableFeatures": (
        "n_features_in_ columns_ categories_ means_ scales_ bandwidth_ frequencies_ category_phases_ _first_codes "
        "text_encoders_ text_keys_ n_features_out_",
        "feature_names_in_ doubts_ notations_ unread_ logarithmic_",
    ),
    "HDClassifier": (
        "classes_ encoder_ n_iter_ class_vectors_ intercept_ temperature_",
        "n_features_in_ feature_names_in_ _sums _chosen_at _prototypes _kept_scores alpha_",
    ),
    "HDRegressor": (
        "encoder_ n_iter_ target_vectors_ intercept_ _one_target",
        "n_features_in_ feature_names_in_ _sums _chosen_at _center _scale alpha_",
    ),
}


def check_state(estimator: Any) -> None:
    """Raise ValueError unless an estimator whose attributes were read from a file is one that can predict."""
    name = type(estimator).__name__
    if name not in _CHECKS:
        raise ValueError(f"it holds a {name}, expected one of {', '.join(_CHECKS)}")
    state = vars(estimator)
    required, optional = (set(entries.split()) for entries in _ENTRIES[name])
    settings = set(estimator.get_params(deep=False))
    missing, unknown = (settings | required) - set(state), set(state) - settings - required - optional
    if missing or unknown:
        wrong = f"lacks {sorted(missing)}" if missing else f"has unknown entries {sorted(unknown)}"
        raise ValueError(f"{name} {wrong}; save it anew with this version")
    estimator._validate_params()
    _check_columns(estimator)
    _CHECKS[name](estimator)


def _check_columns(estimator: Any) -> None:
    state = vars(estimator)
    if "n_features_in_" in state:
        check_whole("n_features_in_", state["n_features_in_"])
    if "feature_names_in_" in state:
        check_names("feature_names_in_", state["feature_names_in_"], state.get("n_features_in_", -1))


def _check_width(encoder: Any, width: int) -> None:
    check_that("n_features_out_", encoder.n_features_out_, encoder.n_features_out_ == width, str(width))


# ------------------------------------------------------------------------------------------------------------- encoders


def _check_kernel(encoder: Any) -> None:
    dim, m, n = int(encoder.dim), int(encoder.m), encoder.n_features_in_
    check_tensor("frequencies_", encoder.frequencies_, (dim * m, n), _SINGLE)
    check_that("bandwidth_", encoder.bandwidth_, isinstance(encoder.bandwidth_, np.ndarray), "an array")
    check_array("bandwidth_", encoder.bandwidth_, (m if len(encoder.bandwidth_) == m else 1, n), least=0.0)
    if encoder._center is not None:
        check_array("_center", encoder._center, (n,), _SINGLE)
    rotations = encoder.rotations_
    is_learned = isinstance(rotations, tuple) and len(rotations) == 3
    check_that("rotations_", rotations, is_learned if encoder.adaptive else rotations is None, "to fit adaptive")
    if rotations is not None:
        _check_rotations(*rotations, dim=dim, m=m, n=n)
    _check_width(encoder, 2 * dim * m * (1 if rotations is None else m))


def _check_rotations(weights: Any, biases: Any, axes: Any, *, dim: int, m: int, n: int) -> None:
    both = [part for part in (weights, biases) if isinstance(part, list) and part]
    check_that("rotations_", weights, len(both) == 2 and len(weights) == len(biases), "a bias for each weight")
    width = n
    for weight, bias in zip(weights, biases, strict=True):
        rows = len(weight) if isinstance(weight, Tensor) and weight.ndim == 2 else 0
        check_tensor("rotations_", weight, (rows, width), _SINGLE)
        check_tensor("rotations_", bias, (rows,), _SINGLE)
        width = rows
    check_tensor("rotations_", axes, (width, dim, m, m), _COMPLEX)
    check_close("rotations_", axes, axes.mH, "Hermitian axes")


def _check_text(encoder: Any) -> None:
    dim, m, symbols = int(encoder.dim), int(encoder.m), encoder.symbols_
    lengths = encoder._lengths()
    check_that("n", encoder.n, max(lengths) <= MOST_STEPS, f"at most {MOST_STEPS}")
    are_texts = isinstance(symbols, list) and symbols and all(isinstance(symbol, str) for symbol in symbols)
    check_that("symbols_", symbols, are_texts, "a list of strings")
    check_that("symbols_", symbols, all(a < b for a, b in itertools.pairwise(symbols)), "sorted strings")
    if encoder.analyzer == "char":
        check_that("symbols_", symbols, all(len(symbol) == 1 for symbol in symbols), "characters")
    space = check_space("space_", encoder.space_, dim, m)
    vectors = check_tensor("_vectors", encoder._vectors, (len(symbols), dim, m, m), _COMPLEX)
    check_unitary("_vectors", vectors)
    rows = torch.linspace(0, len(symbols) - 1, min(len(symbols), _COMPARED)).long()
    again = space.vectors([symbols[row] for row in rows.tolist()], namespace="symbol")
    check_close("_vectors", vectors[rows], again, "the hypervectors of the symbols")
    _check_width(encoder, 2 * space.total_dim)
    tables = [encoder._grams, encoder._gram_weights]
    count = len(lengths) if encoder.weighting in ("idf", "learned") else 0
    for name, table in zip(("_grams", "_gram_weights"), tables, strict=True):
        check_that(name, table, isinstance(table, list) and len(table) == count, f"a list of {count} arrays")
    for n, grams, weights in zip(lengths, *tables, strict=bool(count)):
        size = len(grams) if isinstance(grams, np.ndarray) and grams.ndim == 2 else 0
        check_array("_grams", grams, (size, n), torch.int64, least=0)
        check_that("_grams", grams, grams.max(initial=0) < len(symbols), "rows of symbols")
        keys = as_keys(grams).tolist()
        check_that("_grams", grams, all(a < b for a, b in itertools.pairwise(keys)), "in ascending order")
        check_array("_gram_weights", weights, (size,), least=0.0, most=MOST_SINGLE)


def _check_series(encoder: Any) -> None:
    dim, m = int(encoder.dim), int(encoder.m)
    channels = check_whole("n_channels_", encoder.n_channels_)
    means = check_array("means_", encoder.means_, (channels, 1))
    check_scales("scales_", encoder.scales_, means)
    check_scales("difference_scales_", encoder.difference_scales_, encoder.scales_)
    is_step = encoder.scales_ <= MOST_SINGLE * encoder.difference_scales_
    check_that("difference_scales_", encoder.difference_scales_, is_step.all(), "steps that fit scales_")
    dilations = encoder.dilations_
    is_list = isinstance(dilations, list) and 1 <= len(dilations) <= 30
    check_that("dilations_", dilations, is_list and dilations == [1 << k for k in range(len(dilations))], "1, 2, 4, …")
    check_that("window", encoder.window, encoder.window <= MOST_STEPS, f"at most {MOST_STEPS}")
    space = check_space("space_", encoder.space_, dim, m)
    places = int(encoder.window) if m == 1 else 1
    check_tensor("frequencies_", encoder.frequencies_, (places, dim, m, 2 * channels), _SINGLE)
    check_tensor("position_frequencies_", encoder.position_frequencies_, (dim,), _SINGLE)
    rotations = check_tensor("_rotations", encoder._rotations, (dim, m, m), _COMPLEX)
    again = space.rotations(["series"], namespace="window")[0]
    check_close("_rotations", rotations, again, "the rotations of the space")
    _check_width(encoder, 2 * space.total_dim)


def _check_graph(encoder: Any) -> None:
    space = check_space("space_", encoder.space_, int(encoder.dim), int(encoder.m))
    check_that("radius", encoder.radius, encoder.radius <= MOST_STEPS, f"at most {MOST_STEPS}")
    check_positive("scale_", encoder.scale_)
    check_that("scale_", encoder.scale_, 1e-30 < encoder.scale_ < 1e30, "a factor of single precision")
    _check_width(encoder, 2 * space.total_dim)


def _check_image(encoder: Any) -> None:
    dim, shape = int(encoder.dim), encoder.image_shape_
    is_shape = isinstance(shape, tuple) and len(shape) == 2
    check_that("image_shape_", shape, is_shape, "height and width")
    height, width = (check_whole("image_shape_", size, least=encoder.patch) for size in shape)
    check_that("image_shape_", shape, height * width == encoder.n_features_in_, f"{encoder.n_features_in_} pixels")
    given = encoder.image_shape
    check_that("image_shape", given, given is None or list(given) == list(shape), f"{shape}")
    rows, columns = (range(0, size - encoder.patch + 1, encoder.stride) for size in shape)
    check_that("grid_", encoder.grid_, encoder.grid_ == (len(rows), len(columns)), "the patches of the images")
    positions = encoder.positions_
    count = len(rows) * len(columns)
    is_list = isinstance(positions, list) and len(positions) == count
    check_that("positions_", positions, is_list and positions == [[i, j] for i in rows for j in columns], "the patches")
    check_tensor("patch_frequencies_", encoder.patch_frequencies_, (dim, encoder.patch**2), _SINGLE)
    check_tensor("position_phases_", encoder.position_phases_, (count, dim), _SINGLE)
    _check_width(encoder, 2 * dim)


def _check_table(encoder: Any) -> None:
    dim, kinds, categories = int(encoder.dim), encoder.columns_, encoder.categories_
    is_dict = isinstance(kinds, dict) and len(kinds) == encoder.n_features_in_
    check_that("columns_", kinds, is_dict and all(kind in KINDS for kind in kinds.values()), "a kind for each column")
    names = list(getattr(encoder, "feature_names_in_", ())) or None
    are_named = all(isinstance(column, str) for column in kinds)
    check_that("feature_names_in_", names, names == (list(kinds) if are_named else None), "the names in columns_")
    given = encoder.columns or {}
    check_that("columns", given, all(kinds.get(column) == kind for column, kind in given.items()), "as in columns_")
    listed = isinstance(categories, dict) and list(categories) == encoder._columns_of("category")
    check_that("categories_", categories, listed, "a list for each column of categories")
    for values in categories.values():
        _check_categories(values)
    sizes = [len(values) for values in categories.values()]
    _check_readings(encoder)
    numbers = len(encoder._columns_of(*NUMERIC))
    check_scales("scales_", encoder.scales_, check_array("means_", encoder.means_, (numbers,)))
    check_positive("bandwidth_", encoder.bandwidth_)
    check_tensor("frequencies_", encoder.frequencies_, (dim, numbers), most=MOST_SINGLE)
    phases = check_tensor("category_phases_", encoder.category_phases_, (sum(sizes) + 1, dim), most=MOST_SINGLE)
    check_that("category_phases_", phases, not phases[-1].any(), "0 for missing values")
    first = check_array("_first_codes", encoder._first_codes, (len(sizes),), torch.int64)
    check_that("_first_codes", first, np.array_equal(first, np.cumsum([0, *sizes])[:-1]), "the first of each column")
    texts, encoders = [str(name) for name in encoder._columns_of(*TEXTUAL)], encoder.text_encoders_
    are_encoders = isinstance(encoders, list) and all(
        isinstance(one, TextFeatures) and (one.dim, one.m, one.analyzer) == (encoder.dim, 1, "char") for one in encoders
    )
    check_that("text_encoders_", encoders, are_encoders and len(encoders) == len(texts), "one for each column of texts")
    keys = check_tensor("text_keys_", encoder.text_keys_, (len(texts), dim, 1, 1), _COMPLEX)
    if texts:
        space = Space(dim=dim, m=1, seed=encoders[0].space_.seed)
        check_close("text_keys_", keys, space.vectors(texts, namespace="column"), "the keys of the columns")
    _check_width(encoder, 2 * dim + encoder._n_linear())


def _check_readings(encoder: Any) -> None:
    """Check how the columns of a table are read; version 0.3 did not store this."""
    state, numeric = vars(encoder), set(encoder._columns_of(*NUMERIC))
    doubts, notations, unread = (state.get(name, {}) for name in ("doubts_", "notations_", "unread_"))
    are_texts = isinstance(doubts, dict) and all(isinstance(doubt, str) for doubt in doubts.values())
    check_that("doubts_", doubts, are_texts and doubts.keys() <= encoder.columns_.keys(), "a sentence by column")
    marks = {(mark, *flags) for mark in ".," for flags in itertools.product((False, True), repeat=2)}
    are_marks = isinstance(notations, dict) and all(
        isinstance(one, tuple) and [*map(type, one)] == [str, bool, bool] and one in marks for one in notations.values()
    )
    check_that("notations_", notations, are_marks and notations.keys() <= numeric, "decimal mark, order, compactness")
    are_lists = isinstance(unread, dict) and all(
        isinstance(values, list) and all(isinstance(value, str) for value in values) for values in unread.values()
    )
    check_that("unread_", unread, are_lists and unread.keys() <= numeric, "lists of strings by column")
    logarithmic = state.get("logarithmic_", {})
    is_dict = isinstance(logarithmic, dict) and logarithmic.keys() <= numeric
    check_that("logarithmic_", logarithmic, is_dict, "a number by column")
    for smallest in logarithmic.values():
        check_positive("logarithmic_", smallest)


def _check_categories(values: Any) -> None:
    is_list = isinstance(values, list) and all(isinstance(value, Hashable) and value == value for value in values)  # noqa: PLR0124 (NaN)
    distinct = is_list and None not in values and len(set(values)) == len(values)
    check_that("categories_", values, distinct, "different values")


# ----------------------------------------------------------------------------------------------------------- estimators


def _check_encoder(model: Any) -> int:
    """Check the encoder of an estimator; return the number of features."""
    given, fitted = model.encoder, model.encoder_
    if isinstance(given, str) and given == "passthrough":
        check_that("encoder_", fitted, fitted is None, "none for passthrough")
        return check_whole("n_features_in_", getattr(model, "n_features_in_", None))
    check_that("encoder_", fitted, isinstance(fitted, FeatureEncoder), "a fitted encoder")
    if not isinstance(given, str):  # "auto" can be any
        kind = "KernelFeatures" if given is None else type(given).__name__
        check_that("encoder_", fitted, type(fitted).__name__ == kind, f"a fitted {kind}")
    if isinstance(given, FeatureEncoder):
        check_that("encoder_", fitted, repr(fitted.get_params()) == repr(given.get_params()), "the settings of encoder")
    for name in ("n_features_in_", "feature_names_in_"):
        own, other = (getattr(one, name, None) for one in (model, fitted))
        check_that(name, own, np.array_equal(own, other), "the encoder's own")  # type: ignore[arg-type]
    return int(fitted.n_features_out_)


def _check_linear(model: Any, outputs: int, vectors: Any, name: str) -> int:
    """Check the state that classifier and regressor share; return the number of features."""
    width = _check_encoder(model)
    check_tensor(name, vectors, (outputs, width))
    check_tensor("intercept_", model.intercept_, (outputs,))
    check_whole("n_iter_", model.n_iter_)
    if hasattr(model, "alpha_") or model.training in ("ridge", "refined"):
        check_positive("alpha_", getattr(model, "alpha_", None))
    if model._sums is not None:
        check_that("_sums", model._sums, isinstance(model._sums, NormalEquations), "sums of a stream")
        _check_sums(model._sums, width, outputs)
        check_positive("_chosen_at", getattr(model, "_chosen_at", None) or 1.0)
    return width


def _check_sums(sums: NormalEquations, width: int, outputs: int) -> None:
    shapes: dict[str, tuple[int, ...]] = {
        "gram": (width, width),
        "cross": (width, outputs),
        "feature_sum": (width,),
        "target_sum": (outputs,),
        "feature_shift": (width,),
        "target_shift": (outputs,),
        "target_squares": (),
        "count": (),
    }
    numbers = ("rounding", "independent")
    names = {*shapes, *numbers}
    check_that("_sums", sorted(vars(sums)), set(vars(sums)) == names, ", ".join(sorted(names)))
    for name, shape in shapes.items():
        check_tensor(name, getattr(sums, name), shape)
    check_that("gram", sums.gram, (sums.gram.diagonal() >= 0).all(), "squares on the diagonal")
    check_positive("count", float(sums.count))
    check_that("rounding", sums.rounding, isinstance(sums.rounding, float) and 0 <= sums.rounding < 1, "a share")
    check_that(
        "independent",
        sums.independent,
        isinstance(sums.independent, float) and 0 <= sums.independent < np.inf,
        "a number",
    )


def _check_classifier(model: Any) -> None:
    classes = model.classes_
    is_array = isinstance(classes, np.ndarray) and classes.ndim == 1 and len(classes) > 1
    check_that("classes_", classes, is_array and not _has_missing(classes), "an array of at least two labels")
    check_that("classes_", classes, np.array_equal(np.unique(classes), classes), "different labels in sorted order")
    count = len(classes)
    width = _check_linear(model, count, model.class_vectors_, "class_vectors_")
    check_positive("temperature_", model.temperature_)
    is_sum = model.training in ("online", "centroid")
    check_that("_prototypes", model._prototypes, (model._prototypes is not None) == is_sum, "sums of classes")
    if is_sum:
        prototypes = check_tensor("_prototypes", model._prototypes, (count, width))
        directions = torch.nn.functional.normalize(prototypes, dim=1)
        check_close("class_vectors_", model.class_vectors_, directions, "the directions of _prototypes")
    kept = getattr(model, "_kept_scores", None)
    if kept is not None:
        rows = len(kept) if isinstance(kept, Tensor) and kept.ndim == 2 else 0
        check_tensor("_kept_scores", kept, (rows, count + 2))
        labels = kept[:, -2]
        are_labels = (labels == labels.round()).all() and (labels >= 0).all() and (labels < count).all()
        check_that("_kept_scores", kept, are_labels and (kept[:, -1] >= 0).all(), "labels and weights")


def _has_missing(labels: Any) -> bool:
    return bool((labels != labels).any()) or (labels.dtype == object and any(label is None for label in labels))  # noqa: PLR0124


def _check_regressor(model: Any) -> None:
    vectors = model.target_vectors_
    outputs = len(vectors) if isinstance(vectors, Tensor) and vectors.ndim == 2 else 0
    check_that("target_vectors_", vectors, outputs > 0, "a vector for each target")
    _check_linear(model, outputs, vectors, "target_vectors_")
    is_one = model._one_target
    check_that(
        "_one_target", is_one, isinstance(is_one, bool) and (outputs == 1 or not is_one), "whether y had one axis"
    )
    if hasattr(model, "_scale") or hasattr(model, "_center"):
        check_array("_center", getattr(model, "_center", None), (outputs,))
        check_array("_scale", getattr(model, "_scale", None), (outputs,), least=float(np.finfo(np.float64).tiny))


_CHECKS: dict[str, Callable[[Any], None]] = {
    "GraphFeatures": _check_graph,
    "HDClassifier": _check_classifier,
    "HDRegressor": _check_regressor,
    "ImageFeatures": _check_image,
    "KernelFeatures": _check_kernel,
    "SeriesFeatures": _check_series,
    "TableFeatures": _check_table,
    "TextFeatures": _check_text,
}
