"""Records: values of random keys in one vector."""

from __future__ import annotations

import pandas as pd
import torch
from matplotlib.figure import Figure

from ghrr_lab.comparison.contestants import CORE, DIAGONALITIES, contestants, sized
from ghrr_lab.comparison.model_figures import draw_panels
from ghrr_lab.comparison.model_structures import best, encode_record, read
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings, repeat
from ghrr_lab.paper.statistics import all_equal, difference_with_error, rows_where, share_with_error


def trials(settings: Settings) -> list[Params]:
    return repeat(contestants([*CORE, *DIAGONALITIES]), settings["blocks"])


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    """Encode records of several sizes, and read the value of every key."""
    model = sized(params, settings, order=2)
    codebook = model.random(settings["candidates"], generator=generator)
    pool = model.random_keys(max(settings["pairs"]), generator=generator)
    rows = []
    for pairs in settings["pairs"]:
        keys = pool[:pairs]
        for _ in range(settings["records"]):
            chosen = torch.randint(settings["candidates"], (pairs,), generator=generator)
            record = encode_record(model, keys, codebook[chosen], generator)
            answers = best(model, read(model, record, [keys]), codebook)
            correct = float((answers == chosen).double().mean())
            rows.append({**params, "task": "records", "x": pairs, "value": correct})
    return pd.DataFrame(rows)


def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    return draw_panels(data, x="pairs in the record", y="share read correctly", ticks=settings["pairs"])


def _m_does_not_matter(data: pd.DataFrame, settings: Settings) -> list[Check]:
    """Compare m = 2 to 4 with FHRR at every number of pairs: equal noise, so equal accuracy."""
    checks = []
    for name in ("ghrr-2", "ghrr-3", "ghrr-4"):
        differences = []
        for pairs in settings["pairs"]:
            shares = [rows_where(data, x=pairs, model=model)["value"] for model in (name, "fhrr")]
            if all(map(len, shares)):
                measured = [share_with_error(round(float(s.sum()) * pairs), len(s) * pairs) for s in shares]
                differences.append(difference_with_error(measured[0], measured[1]))
        if differences:
            means, errors = zip(*differences, strict=True)
            checks.append(all_equal(f"{name} minus fhrr: share read correctly", means, errors, [0.0] * len(means)))
    return checks


CLAIMS = [
    Claim(
        "Theory of ghrr.Space",
        "GHRR of any m reads as many pairs as FHRR with as many numbers.",
        _m_does_not_matter,
    )
]

EXPERIMENT = Experiment(
    name="compare-records",
    title="Records: values of keys",
    caption=(
        "Share of the values of a record that are read correctly, among 100 candidates. A record is the bundle of its "
        "keys bound with their values."
    ),
    settings={
        "quick": {"reals": 576, "candidates": 100, "pairs": [2, 4, 8, 16, 32, 64], "records": 6, "blocks": 2},
        "full": {"reals": 576, "candidates": 100, "pairs": [2, 4, 8, 16, 32, 64], "records": 20, "blocks": 10},
    },
    run_trial=run_trial,
    draw=draw,
    claims=CLAIMS,
    trials=trials,
)
