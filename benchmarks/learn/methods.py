"""Methods that ``benchmarks/learn/measure.py`` compares: each with its search space and its default configuration.

Equal total dimension: our class vectors have ``total_dim`` complex numbers, which are ``2 * total_dim`` real ones.
torch-hd's and the random features of scikit-learn get ``2 * total_dim`` real numbers, so features and class vectors
have the same number of bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from benchmarks.learn import structures
from benchmarks.learn.baselines import BASELINES
from benchmarks.learn.search_space import (
    TABLES,
    Builder,
    Config,
    Context,
    LogRange,
    Method,
    Scaled,
    Space,
    always,
    only,
    scales,
)
from benchmarks.learn.torchhd import DOCUMENTED, GraphHD, NgramHD, TorchHD
from benchmarks.learn.vsgraph import VSGraph
from ghrr.learn import HDClassifier, ImageFeatures, KernelFeatures, TextFeatures

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


# The levels of torch-hd compare values by their absolute differences, and so does the Laplace kernel.
_LAPLACE: dict[str, Any] = {"kernel": ["rbf", "matern-3/2", "laplace"]}
# Levels of values with long tails need narrow kernels.
_BANDWIDTHS = {"series": {"bandwidth": [0.05, 0.1, 0.2, 0.4, 0.6, 0.9, 1.4]}}


def _encoder_spaces(kind: str) -> list[dict[str, Any]]:
    if kind == "text":
        return [_NGRAMS | {"m": [1, 2, 3]}]
    if kind in structures.ENCODER_SPACES:
        own = structures.ENCODER_SPACES[kind] | {"m": [1, 2, 3]} | _BANDWIDTHS.get(kind, {})
        return [own, *([_KERNELS | _LAPLACE | {"scale": scales(kind)}] if kind == "series" else [])]
    return [_KERNELS | {"scale": scales(kind)}, *([_PATCHES] if kind == "image" else [])]


def _encoder_default(kind: str) -> Config:
    if kind == "text":
        return {"encoder": "text", "n": 4, "weighting": "sqrt", "m": 1}
    if kind == "graph":
        return {"encoder": "graph", "m": 2, "radius": 2, "directed": True}
    if kind == "series":
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

    def _columns(self, grams: Any, slots: slice = slice(None)) -> Iterator[tuple[slice, Tensor]]:
        """Yield products of the vectors of the symbols, for some slots at a time."""
        index = torch.as_tensor(grams, device=self._vectors.device)
        step = max(1, (1 << 21) // max(1, index.numel()))
        first, last, _ = slots.indices(self._vectors.shape[1])
        for start in range(first, last, step):
            products = self._vectors[:, start : min(last, start + step)][index].prod(dim=1)
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

    kinds = ("table", "image", "text", "series", "graph")
    return Method(f"HD {training}", "ghrr", kinds, _hd(training), spaces, default, on_gpu=True)


def _large_method(training: str, sets: tuple[str, ...]) -> Method:
    """Return our method at four times the total dimension, with the configuration found for the smaller one."""
    small = _hd_method(training)

    def build(config: Config, context: Context) -> Any:
        return small.build(config, replace(context, total_dim=4 * context.total_dim))

    name = f"{small.name}, 4 x dimension"
    return replace(small, name=name, family="ghrr large", build=build, tuned_by=small.name, sets=sets)


def _order_method(m: int, *, shift: bool) -> Method:
    """Return ridge training with one m. All of them try the same configurations, so that only the order differs."""
    fixed: Config = {"m": m} | ({} if m > 1 else {"shift": shift})

    def spaces(kind: str) -> list[Space]:
        return [_NGRAMS if kind == "text" else structures.ENCODER_SPACES[kind]]

    def default(kind: str) -> Config:
        starts: dict[str, Config] = {
            "text": {"encoder": "text", "n": 4, "weighting": "sqrt"},
            "graph": {"encoder": "graph", "radius": 0, "directed": True},
            "series": {"encoder": "series"},
        }
        return starts[kind]

    def build(config: Config, context: Context) -> Any:
        return _hd("ridge")(config | fixed, context)

    kinds = ("text", "series", "graph")
    name = f"order m={m}" + ("" if m > 1 else ", shifted" if shift else ", unordered")
    return Method(name, "order", kinds, build, spaces, default, on_gpu=True, drawn_as="order")


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
        allowed = ["unit", "none"] if name == "IntRVFL" and kind == "image" else scales(kind)
        return [{"scale": ["unit", "standard"] if name == "IntRVFL" and kind != "image" else allowed} | _TORCH_HD[name]]

    start = {"scale": "standard", "batch_size": 12} | DOCUMENTED[name]
    if documented:
        shown = f"{name} (documented)"
        whole = start | {"dimensions": 1024, "large_batch_size": 120}
        return Method(shown, "torch-hd documented", TABLES, build, lambda kind: [], always(whole), on_gpu=True)
    return Method(name, "torch-hd", TABLES, build, spaces, always(start | {"batch_size": 128}), on_gpu=True)


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
            always(documented),
            on_gpu=True,
        ),
        Method(name, "torch-hd", (kind,), build, lambda kind: [space], always(tuned), on_gpu=True),
    ]


def _vs_graph(config: Config, context: Context) -> Any:
    return VSGraph(
        context.n_classes, dimensions=2 * context.total_dim, seed=context.seed, device=context.device, **config
    )


_CENTROID = {"epochs": [0, 0, 5, 10, 20], "lr": LogRange(0.01, 2.0)}
METHODS: dict[str, Method] = {
    method.name: method
    for method in [
        *map(_hd_method, _TRAINING),
        _large_method("ridge", ("digits", "letter", "languages")),
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
        Method(
            "VS-Graph",
            "published",
            ("graph",),
            _vs_graph,
            only(hops=[1, 2, 3, 4, 5], layers=[1, 2, 3], blend=[0.25, 0.5, 0.75], **_CENTROID),
            always({"hops": 3, "layers": 2, "blend": 0.5}),
        ),
        _order_method(1, shift=False),
        *(_order_method(m, shift=True) for m in (1, 2, 3, 4)),
    ]
}
