"""Explanations: how much features, n-grams, patches, steps, edges or neighbourhoods contribute to a class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from ghrr.checks import check_integer, install_hint, named, names_errors, type_error, value_error
from ghrr.learn.base import Effects, FeatureEncoder, check_reference, input_names, n_samples
from ghrr.learn.linear_model import LinearOnFeatures, take

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# Blue and vermilion of the palette of Okabe and Ito, distinct with colour blindness.
_FOR, _AGAINST = "#0072B2", "#D55E00"
_COLUMNS = 3  # panels beside each other


@names_errors("explain(model, X)")
def explain(model: Any, X: Any, *, reference: Any = None, top: int | None = None) -> pd.DataFrame:
    r"""Return the contribution of each feature to the predicted classes, by unbinding it from the class vectors.

    The score of class k for a sample with the features z is :math:`\langle z, c_k \rangle + b_k`. A feature f
    contributes the part of :math:`\langle z, c_k - \bar c \rangle` that is due to it. The mean :math:`\bar c` of the
    class vectors is subtracted so that a contribution counts for this class rather than for all. What is due to a
    feature depends on the encoder:

    - :class:`TextFeatures`: the weight of an n-gram in the text, times the similarity of its hypervector with
      :math:`c_k - \bar c`. The sum over n-grams is the score.
    - :class:`ImageFeatures`: the term of the patch at each position, less the mean of this term over ``reference``.
    - :class:`KernelFeatures`: the change of the score if feature f is replaced by its value in other samples, on
      average over ``reference``: the hypervector of the value is unbound, and the mean over ``reference`` is
      bound instead.
    - :class:`TableFeatures`: likewise for each column.
    - :class:`SeriesFeatures`: the term of the windows around each step, less the mean of this term over ``reference``.
    - :class:`GraphFeatures`: the weight of an edge or a neighbourhood in the graph, times the similarity of its
      hypervector with :math:`c_k - \bar c`. The sum is the score. A neighbourhood is shown by the labels at distance
      0, 1, …, such as ``"C | C O"``; different ones can have the same name, and ``index`` distinguishes them.
    - ``"passthrough"``: the same for a linear model, :math:`(z_f - \bar z_f)(c_k - \bar c)_f`.

    The table has the mean contribution over all samples that are predicted as class k. Give one sample to explain one
    prediction. For a regressor, targets take the place of classes, all samples count and nothing is subtracted.

    Parameters
    ----------
    model
        Fitted :class:`HDClassifier` or :class:`HDRegressor`, or a ``Pipeline`` that ends with one.
    X
        Samples to explain.
    reference
        Samples to compare with; ``TextFeatures`` and ``GraphFeatures`` need none. X by default; give the training data
        if X is a single sample. A few hundred are enough.
    top
        Return this many features per class, with the largest magnitudes. All by default.

    Returns
    -------
    pandas.DataFrame
        Columns ``class`` (or ``target``), ``feature``, ``contribution`` (mean over samples, in units of the score or of
        the target), ``magnitude`` (mean of the absolute value) and ``index``, the number of the feature in the encoder.
        Sorted by class and falling magnitude.

    Examples
    --------
    >>> from ghrr.learn import HDClassifier, TextFeatures, explain
    >>> texts = ["the cat sat", "the dog ran", "le chat noir", "le chien brun"] * 5
    >>> model = HDClassifier(TextFeatures(2000, n=3, random_state=0)).fit(texts, ["en", "en", "fr", "fr"] * 5)
    >>> explain(model, ["the cow"], top=1)[["class", "feature"]].values.tolist()
    [['en', 'the']]
    """
    try:
        import pandas as pd  # noqa: PLC0415 (optional)
    except ModuleNotFoundError as error:
        raise ImportError(named(f"pandas is not installed; {install_hint('learn')}")) from error
    if top is not None:
        check_integer("top", top, least=1)
    model, X, reference, names = _last_step(model, X, X if reference is None else reference)
    samples, others = model._check_samples(X), model._check_samples(reference)
    kind = "class" if is_classifier(model) else "target"
    parts = []
    for label, vector, rows in _groups(model, X):
        found = _effects(model, take(samples, rows), vector, others)
        part = pd.DataFrame(
            {
                kind: label,
                "feature": [names.get(name, name) for name in found.names],
                "contribution": found.mean.numpy(force=True).astype(np.float64),
                "magnitude": found.magnitude.numpy(force=True).astype(np.float64),
                "index": np.arange(len(found.mean)),
            }
        ).sort_values("magnitude", ascending=False, kind="stable", ignore_index=True)
        parts.append(part[:top])
    return pd.concat(parts, ignore_index=True)


def _last_step(model: Any, X: Any, reference: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Return the estimator at the end of a pipeline, its input, and the names of its columns that the pipeline knows.

    The names map names of the estimator (x0, x1, …) to names of the pipeline.
    """
    before = None
    if isinstance(model, Pipeline):
        check_is_fitted(model)
        if len(model) > 1:
            before = model[:-1]
            X, reference = before.transform(X), before.transform(reference)
        model = model[-1]
    if not isinstance(model, LinearOnFeatures):
        raise type_error(
            f"got {type(model).__name__}, expected HDClassifier, HDRegressor or a Pipeline that ends with one"
        )
    check_is_fitted(model)
    return model, X, reference, _pipeline_names(before, model)


def _pipeline_names(before: Any, model: Any) -> dict[str, Any]:
    if before is None or not hasattr(model, "n_features_in_"):  # texts and graphs have no columns
        return {}
    try:
        names = before.get_feature_names_out()
    except (AttributeError, ValueError):  # a step cannot name its output
        return {}
    return dict(zip(input_names(model), names, strict=True))


def _groups(model: Any, X: Any) -> Iterator[tuple[Any, Tensor, Any]]:
    """Yield each class, its vector less the mean of all, and the samples predicted as it; for numbers, each target."""
    if not is_classifier(model):
        for target, vector in enumerate(model.target_vectors_):
            yield target, vector, np.arange(n_samples(X))
        return
    chosen = model.predict(X)
    mean = model.class_vectors_.mean(dim=0)
    for label, vector in zip(model.classes_, model.class_vectors_, strict=True):
        rows = np.flatnonzero(chosen == label)
        if len(rows):
            yield label, vector - mean, rows


def _effects(model: Any, samples: Any, vector: Tensor, reference: Any) -> Effects:
    if model.encoder_ is None:
        return _linear_effects(model, samples, vector, reference)
    if not isinstance(model.encoder_, FeatureEncoder):
        raise type_error(
            f"the encoder {type(model.encoder_).__name__} has no explanations; use an encoder of "
            f"ghrr.learn, and put other transformers before the model in a Pipeline"
        )
    return model.encoder_.effects(samples, vector, reference)


def _linear_effects(model: Any, samples: Any, vector: Tensor, reference: Any) -> Effects:
    check_reference(reference)
    z, mean = model._features(samples).double(), model._features(reference).double().mean(dim=0)
    parts = (z - mean) * vector
    return Effects(input_names(model), parts.mean(dim=0), parts.abs().mean(dim=0))


@names_errors
def plot_explanation(
    table: pd.DataFrame, *, value: str = "contribution", grid: tuple[int, int] | None = None
) -> Figure:
    """Draw the result of :func:`explain`: bars of the features of each class, or maps of pixels and patches.

    Blue counts for a class and vermilion against it. Needs matplotlib.

    Parameters
    ----------
    table
        Result of :func:`explain`. Bars are readable for ``top`` up to about 20.
    value
        ``"contribution"`` or ``"magnitude"``, which shows what matters to a regressor over many samples, where
        contributions of both signs cancel.
    grid
        Height and width, to draw maps instead of bars: the size of images for pixels, ``encoder_.grid_`` for the
        patches of :class:`ImageFeatures`, ``(1, length)`` for the steps of :class:`SeriesFeatures`. The table must have
        all features.

    Returns
    -------
    matplotlib.figure.Figure
        Save it with ``figure.savefig("explanation.png")``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ghrr.learn import HDClassifier, KernelFeatures, explain, plot_explanation
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = HDClassifier(KernelFeatures(100, random_state=0)).fit(X, y)
    >>> len(plot_explanation(explain(model, X)).axes)
    3
    """
    try:
        from matplotlib.figure import Figure as NewFigure  # noqa: PLC0415 (optional)
    except ModuleNotFoundError as error:
        raise ImportError(named(f"matplotlib is not installed; {install_hint('paper')}")) from error
    if value not in ("contribution", "magnitude"):
        raise value_error(f"value must be 'contribution' or 'magnitude', got {value!r}")
    if table.empty:
        raise value_error("the table is empty, expected the result of explain for at least one sample")
    kind = table.columns[0]
    groups = list(table.groupby(kind, sort=False))
    columns = min(_COLUMNS, len(groups))
    rows = -(-len(groups) // columns)
    height = (1.9 if grid[0] == 1 else 2.4) if grid is not None else 0.9 + 0.22 * max(len(part) for _, part in groups)
    figure = NewFigure(figsize=(3.2 * columns, height * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    label = f"{value} ({'score of the class' if kind == 'class' else 'units of the target'})"
    drawn = None
    limit = float(table[value].abs().max()) or 1.0
    for axes, (name, part) in zip(panels, groups, strict=False):
        axes.set_title(f"{kind} {name}", loc="left", fontsize=10)
        if grid is None:
            _draw_bars(axes, part, value)
            axes.set_xlabel(label, fontsize=9)
        else:
            drawn = _draw_map(axes, part, value, grid, limit)
    for axes in panels[len(groups) :]:
        axes.remove()
    if drawn is not None:
        figure.colorbar(drawn, ax=list(panels[: len(groups)]), label=label.replace(" (", "\n("))
    return figure


def _draw_bars(axes: Any, part: pd.DataFrame, value: str) -> None:
    """Draw one bar per feature, the largest magnitude at the top."""
    colours = [_FOR if number >= 0 else _AGAINST for number in part[value]]
    # Quotation marks show the spaces of n-grams.
    labels = [repr(name) if isinstance(name, str) and name != name.strip() else str(name) for name in part["feature"]]
    axes.barh(range(len(part)), part[value], color=colours)
    axes.set_yticks(range(len(part)), labels, fontsize=9)
    axes.invert_yaxis()
    axes.axvline(0, color="#888888", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.locator_params(axis="x", nbins=4)


def _draw_map(axes: Any, part: pd.DataFrame, value: str, grid: tuple[int, int], limit: float) -> Any:
    """Draw the features of a grid as an image, with the same colours in all panels."""
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415 (optional)

    if len(part) != grid[0] * grid[1]:
        raise value_error(
            f"the table has {len(part)} features, expected {grid[0]} x {grid[1]} for the grid; call explain without top"
        )
    colours = LinearSegmentedColormap.from_list("for and against", [_AGAINST, "#FFFFFF", _FOR])
    pixels = part.sort_values("index")[value].to_numpy().reshape(grid)
    is_strip = grid[0] == 1
    axes.set_xlabel("step" if is_strip else "column", fontsize=9)
    if is_strip:
        axes.set_yticks([])
    else:
        axes.set_ylabel("row", fontsize=9)
    return axes.imshow(pixels, cmap=colours, vmin=-limit, vmax=limit, aspect="auto" if is_strip else "equal")
