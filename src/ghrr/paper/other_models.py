"""Discussion: which models of binding commute, and which associate."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

import ghrr
from ghrr.paper.experiment import Check, Claim, Experiment, Params, Settings, equals_to, exceeds, mean_with_error
from ghrr.paper.style import BLUE, GREY, ORANGE, style

HRR, VTB, MATRIX, GHRR = "HRR", "VTB", "matrices (SMR, MBAT)", "GHRR"
MODELS = (HRR, VTB, MATRIX, GHRR)
COMMUTES, ASSOCIATES = "|a * b - b * a|", "|(a * b) * c - a * (b * c)|"
_ROUNDING = 100 * torch.finfo(torch.float64).eps  # relative to the norm of a product
_NONE = 1e-17  # where a difference of exactly zero is drawn on a logarithmic axis


def convolve(a: Tensor, b: Tensor) -> Tensor:
    """HRR: circular convolution of real vectors."""
    product: Tensor = torch.fft.irfft(torch.fft.rfft(a) * torch.fft.rfft(b), n=a.shape[-1])
    return product


def transform(a: Tensor, b: Tensor) -> Tensor:
    """VTB: b, as a matrix, applied to each of the √n pieces of a, n the length of both."""
    root = math.isqrt(a.shape[-1])
    pieces, matrix = (x.reshape(*x.shape[:-1], root, root) for x in (a, b))
    return math.sqrt(root) * (pieces @ matrix.mT).flatten(-2)


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """SMR: square matrices. MBAT's keys, applied one after the other, compose in the same way."""
    root = math.isqrt(a.shape[-1])
    left, right = (x.reshape(*x.shape[:-1], root, root) for x in (a, b))
    return (left @ right).flatten(-2)


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    vectors = torch.randn(3, settings["triples"], settings["length"], generator=generator, dtype=torch.float64)
    space = ghrr.Space.from_total(settings["length"], settings["m"], dtype=torch.complex128)
    hypervectors = space.random(3, settings["triples"], generator=generator)
    models: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Tensor]] = {
        HRR: (convolve, vectors),
        VTB: (transform, vectors),
        MATRIX: (multiply, vectors),
        GHRR: (ghrr.bind, hypervectors),
    }
    tables = []
    for model, (bind, (a, b, c)) in models.items():
        sides = {COMMUTES: (bind(a, b), bind(b, a)), ASSOCIATES: (bind(bind(a, b), c), bind(a, bind(b, c)))}
        for what, (one, two) in sides.items():
            value = (one - two).flatten(1).norm(dim=1) / one.flatten(1).norm(dim=1)
            tables.append(pd.DataFrame({"what": what, "model": model, "value": value}))
    return pd.concat(tables, ignore_index=True)


def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    order = list(MODELS)
    with style():
        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axis = figure.subplots()
        for offset, what, colour, marker in ((-0.12, COMMUTES, BLUE, "o"), (0.12, ASSOCIATES, ORANGE, "s")):
            rows = data.loc[data["what"] == what].groupby("model")["value"]
            middle, low, high = (x[order].clip(lower=_NONE) for x in (rows.median(), rows.min(), rows.max()))
            places, errors = np.arange(len(order)) + offset, np.stack([middle - low, high - middle])
            axis.errorbar(middle, places, xerr=errors, fmt=marker, color=colour, capsize=3, label=what)
        axis.axvline(_ROUNDING, color=GREY, lw=1, ls=":", label="bound on rounding")
        axis.set(xscale="log", yticks=range(len(order)), yticklabels=order, ylim=(3.6, -0.6), xlim=(_NONE / 5, 30))
        axis.set(xlabel="difference / norm of the product (median, range; zero at the left edge)", ylabel="model")
        axis.set_title("HRR commutes and associates, to rounding")
        axis.legend(loc="center", bbox_to_anchor=(0.6, 0.5))
    return figure


def _obeys(data: pd.DataFrame, model: str, what: str) -> Check:
    rows = data.loc[(data["what"] == what) & (data["model"] == model), "value"]
    return equals_to(f"{model}: largest {what}, relative", float(rows.max()), 0.0, tolerance=_ROUNDING)


def _breaks(data: pd.DataFrame, model: str, what: str) -> Check:
    rows = data.loc[(data["what"] == what) & (data["model"] == model), "value"]
    return exceeds(f"{model}: mean {what}, relative", *mean_with_error(rows), _ROUNDING)


EXPERIMENT = Experiment(
    name="other-models",
    title="Which models of binding commute and associate",
    caption=(
        "How far random vectors or hypervectors of equal size are from commuting and from associating. Left of the "
        "dotted line lies rounding in double precision."
    ),
    settings={
        "quick": {"length": 900, "m": 3, "triples": 50, "blocks": 4},
        "full": {"length": 900, "m": 3, "triples": 50, "blocks": 40},
    },
    run_trial=run_trial,
    draw=draw,
)

_WHERE = "Discussion, alternative non-commutative models"
CLAIMS = [
    Claim(
        EXPERIMENT.name,
        _WHERE,
        "HRR with circular convolution is not commutative, and not associative.",
        lambda data, settings: [_breaks(data, HRR, what) for what in (COMMUTES, ASSOCIATES)],
        corrected=lambda data, settings: [_obeys(data, HRR, what) for what in (COMMUTES, ASSOCIATES)],
        correction="Circular convolution is commutative and associative: a product of Fourier coefficients.",
    ),
    Claim(
        EXPERIMENT.name,
        _WHERE,
        "VTB, MBAT and SMR are not commutative, and VTB is not associative.",
        lambda data, settings: [
            *(_breaks(data, model, COMMUTES) for model in (VTB, MATRIX)),
            _breaks(data, VTB, ASSOCIATES),
        ],
    ),
    Claim(
        EXPERIMENT.name,
        _WHERE,
        "GHRR gives up commutativity and no more: it is associative.",
        lambda data, settings: [_breaks(data, GHRR, COMMUTES), _obeys(data, GHRR, ASSOCIATES)],
        comment="So do products of square matrices, of which GHRR keeps a list: SMR is GHRR with D = 1.",
    ),
]
