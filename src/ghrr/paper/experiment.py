"""What an experiment is: it runs block by block, draws a figure, and tests the paper's claims on its own data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STANDARD_ERRORS = 4.0  # a check passes within this many standard errors: by chance it fails once in 16,000 times


@dataclass(frozen=True)
class Experiment:
    """One figure or table of the paper.

    Attributes
    ----------
    name, title
        For the command line and for the report.
    caption
        What the figure shows, in a sentence or two.
    settings
        Settings by size: ``"quick"`` and ``"full"``. Each holds ``blocks``, the number of independent pieces of work.
    run_block
        Computes one block: settings and generator to a tidy table, a row per measurement. The generator depends on the
        seed, the experiment and the number of the block alone.
    draw
        Table and settings to a figure.
    """

    name: str
    title: str
    caption: str
    settings: Mapping[str, Mapping[str, int]]
    run_block: Callable[[Mapping[str, int], torch.Generator], pd.DataFrame]
    draw: Callable[[pd.DataFrame, Mapping[str, int]], Figure]


@dataclass(frozen=True)
class Check:
    """One comparison of a measurement with what a claim predicts."""

    what: str
    measured: float
    error: float
    expected: str
    holds: bool


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and how it is tested: ``test`` gives the comparisons on which the verdict rests."""

    experiment: str
    where: str
    says: str
    test: Callable[[pd.DataFrame, Mapping[str, int]], list[Check]]
    comment: str = ""


@dataclass(frozen=True)
class Finding:
    """A claim after the run."""

    claim: Claim
    checks: list[Check]

    @property
    def verdict(self) -> str:
        """``reproduced`` when all comparisons hold, ``not reproduced`` when none does, ``partly`` in between."""
        held = sum(check.holds for check in self.checks)
        if held == len(self.checks):
            return "reproduced"
        return "partly" if held else "not reproduced"


def equals(what: str, measured: float, error: float, expected: float) -> Check:
    """A check that a measurement equals a number within its standard error."""
    return Check(what, measured, error, f"{expected:.4g}", abs(measured - expected) <= STANDARD_ERRORS * error)


def exceeds(what: str, measured: float, error: float, bound: float) -> Check:
    """A check that a measurement is above a number by more than its standard error explains."""
    return Check(what, measured, error, f"> {bound:.4g}", measured - bound > STANDARD_ERRORS * error)


def mean_with_error(values: pd.Series[float]) -> tuple[float, float]:
    """Mean and its standard error."""
    return float(values.mean()), float(values.std()) / math.sqrt(len(values))


def std_with_error(values: pd.Series[float]) -> tuple[float, float]:
    """Standard deviation about zero and its standard error, from the fourth moment, so that heavy tails count."""
    squares = np.square(values.to_numpy())
    std = math.sqrt(squares.mean())
    return std, float(squares.std()) / math.sqrt(len(squares)) / (2 * std)


def ratio_with_error(top: tuple[float, float], bottom: tuple[float, float]) -> tuple[float, float]:
    """Quotient of two independent measurements, with its standard error."""
    ratio = top[0] / bottom[0]
    return ratio, ratio * math.hypot(top[1] / top[0], bottom[1] / bottom[0])
