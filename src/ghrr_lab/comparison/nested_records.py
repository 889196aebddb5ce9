"""Nested records: the leaf at the end of a path of keys."""

from __future__ import annotations

import math

import pandas as pd
import torch
from matplotlib.figure import Figure

from ghrr import capacity
from ghrr_lab.comparison.contestants import CORE, NOT_CLOSED, contestants, sized, title
from ghrr_lab.comparison.model_figures import draw_panels
from ghrr_lab.comparison.model_structures import best, encode_nested, read
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings, repeat
from ghrr_lab.paper.statistics import all_equal, rows_where

EXACT = ("fhrr", "hrr-unitary", "mbat", "smr", "ghrr-1", "ghrr-2", "ghrr-3", "ghrr-4")  # exact inverse, sums


def trials(settings: Settings) -> list[Params]:
    return repeat(contestants(name for name in CORE if name != NOT_CLOSED), settings["blocks"])


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    """Encode records in records, and read the leaf in the innermost one."""
    model = sized(params, settings)
    codebook = model.random(settings["candidates"], generator=generator)
    pool = model.random_keys(settings["keys"], generator=generator)
    rows = []
    for depth in range(1, settings["depth"] + 1):
        for _ in range(settings["records"]):
            chosen = torch.randint(settings["candidates"], (depth, settings["fields"]), generator=generator)
            fields = [torch.randperm(settings["keys"], generator=generator)[: settings["fields"]] for _ in chosen]
            levels = [(pool[k], codebook[c[1:]]) for k, c in zip(fields, chosen, strict=True)]
            leaf = chosen[-1, 0]
            record = encode_nested(model, levels, codebook[leaf], generator)
            answer = best(model, read(model, record, [pool[k[0]] for k in fields]), codebook)
            rows.append({**params, "task": "nested records", "x": depth, "value": float(answer == leaf)})
    return pd.DataFrame(rows)


def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    return draw_panels(data, x="depth of nesting", y="share read correctly", log=False)


def _equals_theory(data: pd.DataFrame, settings: Settings) -> list[Check]:
    """Compare with the theory of a flat record: after d levels of w fields, the leaf is one of wᵈ equal terms."""
    checks = []
    for name in EXACT:
        measured, errors, expected = [], [], []
        noise = sized({"model": name, "budget": "both"}, settings).noise_std
        for depth in range(1, settings["depth"] + 1):
            values = rows_where(data, model=name, x=depth)["value"]
            if not len(values):
                continue
            terms = settings["fields"] ** depth
            prediction = 1 - capacity.recall_error(terms, settings["candidates"], noise, noise)
            # The error of a share that is the predicted one; near 1 all answers may be correct.
            errors.append(math.sqrt(max(prediction * (1 - prediction), 1e-4) / len(values)))
            measured.append(float(values.mean()))
            expected.append(prediction)
        if measured:
            checks.append(all_equal(title(name, "both"), measured, errors, expected))
    return checks


CLAIMS = [
    Claim(
        "Theory of ghrr.capacity",
        "A leaf at depth d of records of w fields is read as well as one of wᵈ values in a flat record.",
        _equals_theory,
        comment="For models with sums and an exact inverse: every level divides the share of the leaf by w.",
    )
]

EXPERIMENT = Experiment(
    name="compare-nested-records",
    title="Nested records: the leaf at the end of a path",
    caption=(
        "Share of leaves that are read correctly, among 100 candidates, in records of three fields, one of which holds "
        "the next record. Bundles of sums are rescaled at each level. TPR is left out: values at different depths are "
        "tensors of different order, which cannot be added."
    ),
    settings={
        "quick": {**{"reals": 576, "candidates": 100, "fields": 3, "keys": 12, "depth": 8}, "records": 20, "blocks": 2},
        "full": {**{"reals": 576, "candidates": 100, "fields": 3, "keys": 12, "depth": 8}, "records": 50, "blocks": 10},
    },
    run_trial=run_trial,
    draw=draw,
    claims=CLAIMS,
    trials=trials,
)
