"""Discussion: which binding operations are commutative, and which are associative."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from ghrr import models
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings
from ghrr_lab.paper.statistics import exceeds, is_close, mean_with_error, rows_where
from ghrr_lab.paper.style import BLUE, GREY, ORANGE, new_figure, style

HRR, VTB, MATRIX, GHRR = "HRR", "VTB", "matrices (SMR, MBAT)", "GHRR"
MODELS = (HRR, VTB, MATRIX, GHRR)
COMMUTES, ASSOCIATES = "|a * b - b * a|", "|(a * b) * c - a * (b * c)|"
_ROUNDING = 100 * torch.finfo(torch.float64).eps  # relative to the norm of a product
_DRAWN_ZERO = 1e-17  # where a difference of zero is drawn on a logarithmic axis


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    """Bind random triples in both orders and with both bracketings. The keys of MBAT compose as the matrices of SMR."""
    length, real = settings["length"], torch.float64
    bindings: dict[str, models.Architecture] = {
        HRR: models.HRR(length, real),
        VTB: models.VTB(length, real),
        MATRIX: models.SMR(length, real),
        GHRR: models.GHRR.sized(reals=2 * length, m=settings["m"], dtype=torch.complex128),
    }
    tables = []
    for name, model in bindings.items():
        a, b, c = model.random(3, settings["triples"], generator=generator)
        ab, ba, bc = model.bind(a, b), model.bind(b, a), model.bind(b, c)
        sides = {COMMUTES: (ab, ba), ASSOCIATES: (model.bind(ab, c), model.bind(a, bc))}
        for what, (one, two) in sides.items():
            value = (one - two).flatten(1).norm(dim=1) / one.flatten(1).norm(dim=1)
            tables.append(pd.DataFrame({"what": what, "model": name, "value": value}))
    return pd.concat(tables, ignore_index=True)


@style()
def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    order = list(MODELS)
    figure = new_figure(3.6)
    axis = figure.subplots()
    for offset, what, colour, marker in ((-0.12, COMMUTES, BLUE, "o"), (0.12, ASSOCIATES, ORANGE, "s")):
        rows = rows_where(data, what=what).groupby("model")["value"]
        middle, low, high = (x[order].clip(lower=_DRAWN_ZERO) for x in (rows.median(), rows.min(), rows.max()))
        y, errors = np.arange(len(order)) + offset, np.stack([middle - low, high - middle])
        axis.errorbar(middle, y, xerr=errors, fmt=marker, color=colour, capsize=3, label=what)
    axis.axvline(_ROUNDING, color=GREY, lw=1, ls=":", label="bound on rounding errors")
    axis.set(xscale="log", yticks=range(len(order)), yticklabels=order, ylim=(3.6, -0.6), xlim=(_DRAWN_ZERO / 5, 30))
    axis.set(xlabel="difference / norm of the product (median, range; zero at the left edge)", ylabel="model")
    axis.set_title("HRR is commutative and associative up to rounding")
    axis.legend(loc="center", bbox_to_anchor=(0.6, 0.5))
    return figure


def _obeys(data: pd.DataFrame, model: str, what: str) -> Check:
    values = rows_where(data, what=what, model=model)["value"]
    return is_close(f"{model}: largest {what}, relative", float(values.max()), 0.0, tolerance=_ROUNDING)


def _violates(data: pd.DataFrame, model: str, what: str) -> Check:
    values = rows_where(data, what=what, model=model)["value"]
    return exceeds(f"{model}: mean {what}, relative", *mean_with_error(values), _ROUNDING)


_WHERE = "Discussion, alternative non-commutative models"
CLAIMS = [
    Claim(
        _WHERE,
        "HRR with circular convolution is neither commutative nor associative.",
        lambda data, settings: [_violates(data, HRR, what) for what in (COMMUTES, ASSOCIATES)],
        corrected=lambda data, settings: [_obeys(data, HRR, what) for what in (COMMUTES, ASSOCIATES)],
        correction="Circular convolution is commutative and associative, as it is a product of Fourier coefficients.",
    ),
    Claim(
        _WHERE,
        "VTB, MBAT and SMR are not commutative, and VTB is not associative.",
        lambda data, settings: [
            *(_violates(data, model, COMMUTES) for model in (VTB, MATRIX)),
            _violates(data, VTB, ASSOCIATES),
        ],
    ),
    Claim(
        _WHERE,
        "GHRR is not commutative, but it is associative.",
        lambda data, settings: [_violates(data, GHRR, COMMUTES), _obeys(data, GHRR, ASSOCIATES)],
        comment="The same holds for products of square matrices: SMR corresponds to GHRR with D = 1.",
    ),
]

EXPERIMENT = Experiment(
    name="other-models",
    title="Which binding operations are commutative and associative",
    caption=(
        "Deviation from commutativity and associativity for random vectors or hypervectors of equal size. Values to "
        "the left of the dotted line are rounding errors in double precision."
    ),
    settings={
        "quick": {"length": 900, "m": 3, "triples": 50, "blocks": 4},
        "full": {"length": 900, "m": 3, "triples": 50, "blocks": 40},
    },
    run_trial=run_trial,
    draw=draw,
    claims=CLAIMS,
)
