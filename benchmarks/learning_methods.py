"""Methods that ``benchmarks/learning.py`` compares: each with its search space and its default configuration.

A method builds a model with ``fit(samples, labels)`` and ``predict(samples)`` from a configuration. The search space is
a list of alternatives; each maps a setting to the values to choose from, or to a range on a logarithmic scale. Samples
of series are flattened for methods that take tables.

Equal total dimension: our class vectors have ``total_dim`` complex numbers, which are ``2 * total_dim`` real ones.
torch-hd's and the random features of scikit-learn get ``2 * total_dim`` real numbers, so features and class vectors
have the same number of bytes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import learning_structures as structures
import numpy as np
import torch
from learning_torchhd import DOCUMENTED, GraphHD, NgramHD, TorchHD
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler
from sklearn.svm import SVC
from torch import Tensor

from ghrr.learn import HDClassifier, ImageFeatures, KernelFeatures, TextFeatures

Config = dict[str, Any]
Space = Mapping[str, Any]
TABLES = ("table", "image", "series")
NYSTROEM_COMPONENTS = 1024  # its singular value decomposition is cubic in them


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
        Family: ``"ghrr"``, ``"ghrr large"``, ``"torch-hd"``, ``"torch-hd documented"``, ``"baseline"`` or ``"order"``.
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


def configurations(method: Method, kind: str, data: str, budget: int) -> list[Config]:
    """Return the configurations to try: the default, then random ones, the same in every run."""
    spaces = method.spaces(kind)
    if not spaces:
        return []
    source = random.Random(f"{data}/{method.name}")  # noqa: S311
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


def _scales(kind: str) -> list[str]:
    return ["standard", "none"] if kind == "image" else ["standard", "minmax"]


# ------------------------------------------------------------------------------------------------------------- ghrr

_KERNELS: dict[str, Any] = {
    "encoder": ["kernel"],
    "kernel": ["rbf", "matern-3/2"],
    "bandwidth_scale": LogRange(0.1, 2.0),
}
_PATCHES: dict[str, Any] = {
    "encoder": ["image"],
    "patch": [3, 4, 5, 6, 7],
    "bandwidth": LogRange(0.3, 1.5),
    "position_bandwidth": LogRange(1.0, 6.0),
}
_NGRAMS: dict[str, Any] = {
    "encoder": ["text"],
    "n": [3, 4, [2, 3], [3, 4], [2, 3, 4], [3, 4, 5], [2, 3, 4, 5]],
    "weighting": ["sqrt", "idf", "learned"],
}
_TRAINING: dict[str, dict[str, Any]] = {
    "ridge": {},
    "refined": {
        "learning_rate": LogRange(0.003, 0.1),
        "max_epochs": [5, 10, 20],
        "early_stopping": [False, True],
    },
    "online": {"learning_rate": LogRange(0.01, 3.0), "max_epochs": [5, 10, 20], "batch_size": [32, 256]},
    "centroid": {},
}


def _encoder_spaces(kind: str) -> list[dict[str, Any]]:
    if kind == "text":
        return [_NGRAMS | {"m": [1, 2, 3]}]
    if kind in ("series", "graph"):
        own = structures.encoder_space(kind)
        return [
            *([own | {"m": [1, 2, 3]}] if own else []),
            *([_KERNELS | {"scale": _scales(kind)}] if kind == "series" else []),
        ]
    return [_KERNELS | {"scale": _scales(kind)}, *([_PATCHES] if kind == "image" else [])]


def _encoder_default(kind: str) -> Config:
    if kind == "text":
        return {"encoder": "text", "n": 4, "weighting": "sqrt", "m": 1}
    if kind == "graph":
        return {"encoder": "graph", "m": 2, "radius": 2, "directed": True}
    if kind == "series" and structures.encoder_space(kind):
        return {"encoder": "series", "m": 1}
    return {"encoder": "kernel", "kernel": "rbf", "bandwidth_scale": 0.5, "scale": "standard"}


def _encoder(config: Config, context: Context) -> Any:
    settings = {name: value for name, value in config.items() if name not in ("encoder", "scale", "m", "shift")}
    common: Config = {"random_state": context.seed, "device": context.device}
    m = config.get("m", 1)
    dim = max(1, round(context.total_dim / m**2))
    if config["encoder"] == "text":
        kind = UnorderedText if config.get("shift") is False else TextFeatures
        return kind(dim, m=m, **settings, **common)
    if config["encoder"] == "image":
        return ImageFeatures(dim, **settings, **common)
    if config["encoder"] in ("series", "graph"):
        return structures.encoder(config["encoder"], dim, config, common)
    return KernelFeatures(dim, **settings, **common)


class UnorderedText(TextFeatures):
    """TextFeatures for m = 1 without shifts: the order of the symbols of an n-gram is lost."""

    def _columns(self, grams: Any) -> Iterator[tuple[slice, Tensor]]:
        """Yield products of the vectors of the symbols, for some slots at a time."""
        index = torch.as_tensor(grams, device=self._vectors.device)
        step = max(1, (1 << 21) // max(1, index.numel()))
        for start in range(0, self._vectors.shape[1], step):
            products = self._vectors[:, start : start + step][index].prod(dim=1)
            yield slice(2 * start, 2 * (start + products.shape[1])), torch.view_as_real(products).flatten(1)


def _hd(training: str) -> Builder:
    def build(config: Config, context: Context) -> Any:
        settings = {name: value for name, value in config.items() if name in _TRAINING[training]}
        rest = {name: value for name, value in config.items() if name not in settings}
        encoder = _encoder(rest, context)
        model = HDClassifier(encoder, training=training, random_state=context.seed, device=context.device, **settings)
        if config["encoder"] in ("graph", "series"):
            return structures.Converted(model)
        return Scaled(config.get("scale", "none"), model) if config["encoder"] == "kernel" else model

    return build


def _hd_method(training: str) -> Method:
    def spaces(kind: str) -> list[Space]:
        return [space | _TRAINING[training] | few(kind, [3, 5, 10]) for space in _encoder_spaces(kind)]

    def default(kind: str) -> Config:
        return _encoder_default(kind) | few(kind, 5)

    def few(kind: str, epochs: Any) -> dict[str, Any]:
        # Texts and graphs are encoded again in every epoch, which takes long.
        return {"max_epochs": epochs} if kind in ("text", "graph") and "max_epochs" in _TRAINING[training] else {}

    kinds = ("table", "image", "text", "series", *(("graph",) if structures.encoder_space("graph") else ()))

    return Method(f"HD {training}", "ghrr", kinds, _hd(training), spaces, default, on_gpu=True)


def _large_method(training: str, sets: tuple[str, ...]) -> Method:
    """Return our method at four times the total dimension, with the configuration found for the smaller one."""
    small = _hd_method(training)

    def build(config: Config, context: Context) -> Any:
        return small.build(config, replace(context, total_dim=4 * context.total_dim))

    name = f"{small.name}, 4 x dimension"
    return replace(small, name=name, family="ghrr large", build=build, tuned_by=small.name, sets=sets)


def _order_method(m: int, *, shift: bool) -> Method:
    fixed: Config = {"m": m} | ({} if m > 1 else {"shift": shift})

    def spaces(kind: str) -> list[Space]:
        own = _NGRAMS if kind == "text" else structures.encoder_space(kind)
        return [own | {name: [value] for name, value in fixed.items()}]

    def default(kind: str) -> Config:
        starts: dict[str, Config] = {
            "text": {"encoder": "text", "n": 4, "weighting": "sqrt"},
            "graph": {"encoder": "graph", "radius": 0, "directed": True},
            "series": {"encoder": "series"},
        }
        return starts[kind] | fixed

    kinds = ("text", *(kind for kind in ("series", "graph") if structures.encoder_space(kind)))
    name = f"order m={m}" + ("" if m > 1 else ", shifted" if shift else ", unordered")
    return Method(name, "order", kinds, _hd("ridge"), spaces, default, on_gpu=True)


# ------------------------------------------------------------------------------------------------------- baselines


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


def _always(config: Config) -> Callable[[str], Config]:
    return lambda kind: config


def _table_space(**space: Any) -> Callable[[str], list[Space]]:
    return lambda kind: [{"scale": _scales(kind), **space}]


def _only(**space: Any) -> Callable[[str], list[Space]]:
    return lambda kind: [space]


_GAMMA, _ALPHA = LogRange(0.05, 10.0), LogRange(1e-3, 10.0)
_TEXT_N = [[2, 2], [3, 3], [4, 4], [5, 5], [1, 3], [1, 4], [2, 4]]

BASELINES = [
    Method(
        "logistic regression",
        "baseline",
        TABLES,
        _logistic,
        _table_space(C=LogRange(1e-3, 1e3)),
        _always({"scale": "standard", "C": 1.0}),
        deterministic=True,
    ),
    Method(
        "k-NN",
        "baseline",
        TABLES,
        _nearest,
        _table_space(neighbors=[1, 3, 5, 7, 9, 11, 15, 21], weights=["uniform", "distance"]),
        _always({"scale": "standard", "neighbors": 1, "weights": "uniform"}),
        deterministic=True,
    ),
    Method(
        "RBF-SVC",
        "baseline",
        TABLES,
        _svc,
        _table_space(C=LogRange(0.1, 1e3), gamma=_GAMMA),
        _always({"scale": "standard", "C": 10.0, "gamma": 1.0}),
        deterministic=True,
    ),
    Method(
        "RBFSampler + ridge",
        "baseline",
        TABLES,
        _rbf_sampler,
        _table_space(gamma=_GAMMA, alpha=_ALPHA),
        _always({"scale": "standard", "gamma": 1.0, "alpha": 1.0}),
    ),
    Method(
        "Nystroem + ridge",
        "baseline",
        TABLES,
        _nystroem,
        _table_space(gamma=_GAMMA, alpha=_ALPHA),
        _always({"scale": "standard", "gamma": 1.0, "alpha": 1.0}),
    ),
    Method(
        "gradient boosting",
        "baseline",
        TABLES,
        _boosting,
        _only(
            learning_rate=LogRange(0.03, 0.3),
            max_iter=[50, 100, 200],
            max_leaf_nodes=[7, 15, 31],
            min_samples_leaf=[5, 20, 50],
            l2_regularization=[0.0, 1.0],
        ),
        _always({"learning_rate": 0.1, "max_iter": 100}),
        deterministic=True,
    ),
    Method(
        "naive Bayes, n-grams",
        "baseline",
        ("text",),
        _naive_bayes,
        _only(n=_TEXT_N, alpha=LogRange(1e-3, 1.0)),
        _always({"n": [4, 4], "alpha": 0.1}),
        deterministic=True,
    ),
    Method(
        "linear SVM, n-grams",
        "baseline",
        ("text",),
        _linear_text,
        _only(n=_TEXT_N, alpha=LogRange(1e-7, 1e-4)),
        _always({"n": [3, 3], "alpha": 1e-5}),
    ),
    Method(
        "1-NN, dynamic time warping",
        "baseline",
        ("series",),
        lambda config, context: structures.NearestSeries(config["window"], context.device),
        _only(window=[0.0, 0.03, 0.05, 0.1, 0.2, 0.3, 1.0]),
        _always({"window": 0.1}),
        on_gpu=True,
        deterministic=True,
    ),
    Method(
        "Weisfeiler-Lehman + SVC",
        "baseline",
        ("graph",),
        lambda config, context: structures.WeisfeilerLehman(config["rounds"], config["C"]),
        _only(rounds=[0, 1, 2, 3, 4, 5], C=LogRange(1e-2, 1e3)),
        _always({"rounds": 3, "C": 1.0}),
        deterministic=True,
    ),
    Method(
        "label histogram + RBF-SVC",
        "baseline",
        ("graph",),
        lambda config, context: structures.LabelHistogram(_svc(config, context)),
        _only(scale=["standard", "none"], C=LogRange(0.1, 1e3), gamma=_GAMMA),
        _always({"scale": "standard", "C": 10.0, "gamma": 1.0}),
        deterministic=True,
    ),
]


# --------------------------------------------------------------------------------------------------------- torch-hd

_EPOCHS: dict[str, Any] = {"epochs": [5, 10, 20], "lr": LogRange(0.01, 2.0), "batch_size": [32, 128, 512]}
_LEVELS: dict[str, Any] = {"n_levels": [20, 50, 100, 200], "level_range": [1, 2, 3]}
_TORCH_HD: dict[str, dict[str, Any]] = {
    "Vanilla": _LEVELS,
    "AdaptHD": _LEVELS | _EPOCHS,
    "OnlineHD": {"gain": LogRange(0.3, 10.0)} | _EPOCHS,
    "NeuralHD": {"gain": LogRange(0.3, 10.0), "regen_freq": [2, 5, 10], "regen_rate": LogRange(0.02, 0.3)} | _EPOCHS,
    "DistHD": {"regen_freq": [2, 5, 10], "regen_rate": LogRange(0.02, 0.3)} | _EPOCHS,
    "CompHD": _LEVELS | {"chunks": [2, 4, 8]},
    "SparseHD": _LEVELS | _EPOCHS | {"sparsity": [0.1, 0.3, 0.5, 0.8], "sparsity_type": ["dimension", "class"]},
    "QuantHD": _LEVELS | _EPOCHS,
    "LeHDC": _LEVELS
    | {
        "epochs": [5, 10, 20],
        "batch_size": [32, 128, 512],
        "lr": LogRange(1e-3, 0.1),
        "weight_decay": LogRange(1e-4, 0.1),
        "dropout_rate": [0.0, 0.3, 0.5],
    },
    "IntRVFL": {"kappa": [1, 3, 7, 15, None], "alpha": LogRange(1e-2, 1e4)},
}


def _torch_hd(name: str, *, documented: bool) -> Method:
    def build(config: Config, context: Context) -> Any:
        settings = {key: value for key, value in config.items() if key not in ("scale", "dimensions")}
        dimensions = config.get("dimensions", 2 * context.total_dim)
        model = TorchHD(name, dimensions, context.n_classes, settings, seed=context.seed, device=context.device)
        return Scaled(config["scale"], model)

    def spaces(kind: str) -> list[Space]:
        scales = ["unit", "none"] if name == "IntRVFL" and kind == "image" else _scales(kind)
        return [{"scale": ["unit", "standard"] if name == "IntRVFL" and kind != "image" else scales} | _TORCH_HD[name]]

    start = {"scale": "standard", "batch_size": 12} | DOCUMENTED[name]
    if documented:
        shown = f"{name} (documented)"
        whole = start | {"dimensions": 1024, "large_batch_size": 120}
        return Method(shown, "torch-hd documented", TABLES, build, lambda kind: [], _always(whole), on_gpu=True)
    return Method(name, "torch-hd", TABLES, build, spaces, _always(start | {"batch_size": 128}), on_gpu=True)


def _structured_torch_hd(model: type, kind: str, name: str, space: Space, documented: Config) -> list[Method]:
    def build(config: Config, context: Context) -> Any:
        settings = {"dimensions": 2 * context.total_dim} | config
        return model(context.n_classes, seed=context.seed, device=context.device, **settings)

    tuned = {key: value for key, value in documented.items() if key != "dimensions"}
    return [
        Method(
            f"{name} (documented)",
            "torch-hd documented",
            (kind,),
            build,
            lambda kind: [],
            _always(documented),
            on_gpu=True,
        ),
        Method(name, "torch-hd", (kind,), build, lambda kind: [space], _always(tuned), on_gpu=True),
    ]


_CENTROID = {"epochs": [0, 0, 5, 10, 20], "lr": LogRange(0.01, 2.0)}
METHODS: dict[str, Method] = {
    method.name: method
    for method in [
        *map(_hd_method, _TRAINING),
        _large_method("ridge", ("digits", "letter", "mnist", "fashion", "languages")),
        _large_method("refined", ("digits", "letter")),
        *BASELINES,
        *(_torch_hd(name, documented=False) for name in _TORCH_HD),
        *_structured_torch_hd(
            NgramHD,
            "text",
            "torch-hd n-grams",
            {"n": [2, 3, 4, 5], "quantize": [False, True], "most": [128, 256]} | _CENTROID,
            {"n": 3, "quantize": True, "most": 128, "dimensions": 10_000},
        ),
        *_structured_torch_hd(GraphHD, "graph", "GraphHD", _CENTROID, {"dimensions": 10_000}),
        *(_torch_hd(name, documented=True) for name in _TORCH_HD),
        _order_method(1, shift=False),
        *(_order_method(m, shift=True) for m in (1, 2, 3, 4)),
    ]
}
