"""What a method of ``learn/measure.py`` is: how to build a model, what to search, and how features are scaled.

A method builds a model with ``fit(samples, labels)`` and ``predict(samples)`` from a configuration. The search space is
a list of alternatives; each maps a setting to the values to choose from, or to a range on a logarithmic scale. Samples
of series are flattened for methods that take tables.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler

Config = dict[str, Any]
Space = Mapping[str, Any]
TABLES = ("table", "image", "series")


@dataclass(frozen=True)
class LogRange:
    """Numbers between two bounds, uniform in their logarithm."""

    low: float
    high: float


@dataclass(frozen=True)
class Context:
    """What a model is built for: kind of data, classes, size, seed and device."""

    kind: str
    n_classes: int
    total_dim: int
    seed: int
    device: str


Builder = Callable[[Config, Context], Any]


@dataclass(frozen=True)
class Method:
    """A method of the comparison.

    Attributes
    ----------
    name, family
        Family: ``"ghrr"``, ``"ghrr large"``, ``"torch-hd"``, ``"torch-hd documented"``, ``"published"``, ``"baseline"``
        or ``"order"``.
    kinds
        Kinds of data that it takes.
    build
        From a configuration to a model.
    spaces
        From a kind of data to alternatives of the search space. Without any, ``default`` is used as it is.
    default
        From a kind of data to the first configuration that is tried.
    on_gpu
        Whether the model computes on the device that was asked for.
    deterministic
        Whether seeds change nothing except the split.
    tuned_by
        Method whose best configuration is used instead of a search.
    sets
        Data sets, if not all of its kinds.
    drawn_as
        Name that seeds the random configurations, by default the name of the method. Methods of one name try the same.
    """

    name: str
    family: str
    kinds: tuple[str, ...]
    build: Builder
    spaces: Callable[[str], Sequence[Space]]
    default: Callable[[str], Config]
    on_gpu: bool = False
    deterministic: bool = False
    tuned_by: str | None = None
    sets: tuple[str, ...] | None = None
    drawn_as: str | None = None


def configurations(method: Method, kind: str, data: str, budget: int) -> list[Config]:
    """Return the configurations to try: the default, then random ones, the same in every run."""
    spaces = method.spaces(kind)
    if not spaces:
        return []
    source = random.Random(f"{data}/{method.drawn_as or method.name}")  # noqa: S311
    return [method.default(kind), *(_draw(source.choice(spaces), source) for _ in range(budget - 1))]


def _draw(space: Space, source: random.Random) -> Config:
    return {
        name: float(np.exp(source.uniform(np.log(values.low), np.log(values.high))))
        if isinstance(values, LogRange)
        else source.choice(values)
        for name, values in space.items()
    }


# ---------------------------------------------------------------------------------------------------------- scaling


def flatten(samples: Any) -> Any:
    """Return series as rows, 0 behind their end; other samples as they are."""
    return np.nan_to_num(samples.reshape(len(samples), -1)) if samples.ndim == 3 else samples


SCALERS: dict[str, Callable[[], Any]] = {
    "standard": StandardScaler,
    "minmax": lambda: MinMaxScaler((-1, 1)),
    "unit": lambda: MinMaxScaler((0, 1)),
    "none": FunctionTransformer,
}


class Scaled:
    """A model of tables behind the flattening of series and the scaling of features."""

    def __init__(self, scale: str, model: Any) -> None:
        self.scaler, self.model = SCALERS[scale](), model

    def fit(self, samples: Any, labels: Any) -> Scaled:
        """Fit the scaling and the model."""
        self.model.fit(self.scaler.fit_transform(flatten(samples)), labels)
        return self

    def predict(self, samples: Any) -> Any:
        """Predict classes."""
        return self.model.predict(self.scaler.transform(flatten(samples)))


def scales(kind: str) -> list[str]:
    """Return the scalings to choose from."""
    return ["standard", "none"] if kind == "image" else ["standard", "minmax"]


def always(config: Config) -> Callable[[str], Config]:
    """Return a default that is the same for every kind of data."""
    return lambda kind: config


def table_space(**space: Any) -> Callable[[str], list[Space]]:
    """Return a search space that includes the scaling of features."""
    return lambda kind: [{"scale": scales(kind), **space}]


def only(**space: Any) -> Callable[[str], list[Space]]:
    """Return a search space that is the same for every kind of data."""
    return lambda kind: [space]
