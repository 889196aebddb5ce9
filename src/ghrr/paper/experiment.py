"""What an experiment is: trials, a figure, and the paper's claims tested on its own data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Settings = Mapping[str, Any]
Params = Mapping[str, Any]

STANDARD_ERRORS = 4.0  # a check passes within this many standard errors: by chance it fails once in 16,000 times


def in_blocks(settings: Settings) -> list[Params]:
    """Trials that differ in nothing but their number: as many as the setting ``blocks`` says."""
    return [{"block": block} for block in range(settings["blocks"])]


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
        Settings by size, ``"quick"`` and ``"full"``: numbers, strings and lists of them.
    run_trial
        Computes one trial: settings, the parameters of the trial and a generator to a tidy table, a row per
        measurement. The generator depends on the seed, the experiment and the number of the trial alone. A trial is
        what is stored when it is done, and what is lost when a run is stopped: a few seconds of work.
    draw
        Table and settings to a figure.
    trials
        Settings to the parameters of all trials, in order.
    alone
        Whether nothing else may run meanwhile, as when time is measured; it then runs here, not on a cluster.
    inputs
        Settings to a word for what the trials read from outside; when it changes, stored trials do not count.
    """

    name: str
    title: str
    caption: str
    settings: Mapping[str, Settings]
    run_trial: Callable[[Settings, Params, torch.Generator], pd.DataFrame]
    draw: Callable[[pd.DataFrame, Settings], Figure]
    trials: Callable[[Settings], list[Params]] = in_blocks
    alone: bool = False
    inputs: Callable[[Settings], str] = lambda _: ""


@dataclass(frozen=True)
class Check:
    """One comparison of a measurement with what a claim predicts."""

    what: str
    measured: float
    error: float
    expected: str
    holds: bool


Test = Callable[[pd.DataFrame, Settings], Sequence[Check]]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and how it is tested.

    Attributes
    ----------
    experiment, where, says
        The experiment that tests it, its place in the paper, and what it says.
    test
        Table and settings to the comparisons on which the verdict rests, all of the claim as it is written.
    corrected, correction
        Where the claim is wrong as written but nearly right: comparisons for the corrected statement, and its words.
    rejected
        Comparisons for readings of the paper that do not fit, by name of the reading. They are shown and not counted.
    comment
        What a reader should know beside the numbers.
    as_printed
        Whether the test uses the paper's own numbers alone. It can then be consistent, but not reproduced.
    """

    experiment: str
    where: str
    says: str
    test: Test
    corrected: Test | None = None
    correction: str = ""
    rejected: Mapping[str, Test] = field(default_factory=dict)
    comment: str = ""
    as_printed: bool = False


@dataclass(frozen=True)
class Finding:
    """A claim after the run: the comparisons that were made."""

    claim: Claim
    checks: Sequence[Check]
    corrected: Sequence[Check] = ()
    rejected: Mapping[str, Sequence[Check]] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """``reproduced`` when all comparisons hold; ``erratum`` when they do not but those of the correction do;
        ``not reproduced`` when none holds, ``partly`` in between. Without any measurement, ``not measured``. What
        the paper's own numbers bear out is ``consistent``.
        """
        held = sum(check.holds for check in self.checks)
        if not self.checks:
            return "not measured"
        if held == len(self.checks):
            return "consistent" if self.claim.as_printed else "reproduced"
        if self.corrected and all(check.holds for check in self.corrected):
            return "erratum"
        return "partly" if held else "not reproduced"


def judge(claim: Claim, data: pd.DataFrame, settings: Settings) -> Finding:
    """Test a claim on the data of its experiment."""
    return Finding(
        claim,
        claim.test(data, settings),
        () if claim.corrected is None else claim.corrected(data, settings),
        {reading: test(data, settings) for reading, test in claim.rejected.items()},
    )


def equals(what: str, measured: float, error: float, expected: float, *, within: float = STANDARD_ERRORS) -> Check:
    """A check that a measurement equals a number within its standard error."""
    return Check(what, measured, error, f"{expected:.4g}", abs(measured - expected) <= within * error)


def equals_to(what: str, measured: float, expected: float, *, tolerance: float) -> Check:
    """A check that a number without a standard error equals another up to rounding or a stated tolerance."""
    return Check(what, measured, 0.0, f"{expected:.4g} ± {tolerance:.2g}", abs(measured - expected) <= tolerance)


def exceeds(what: str, measured: float, error: float, bound: float) -> Check:
    """A check that a measurement is above a number by more than its standard error explains."""
    return Check(what, measured, error, f"> {bound:.4g}", measured - bound > STANDARD_ERRORS * error)


def falls_below(what: str, measured: float, error: float, bound: float) -> Check:
    """A check that a measurement is below a number by more than its standard error explains."""
    return Check(what, measured, error, f"< {bound:.4g}", bound - measured > STANDARD_ERRORS * error)


def mean_with_error(values: pd.Series[float]) -> tuple[float, float]:
    """Mean and its standard error."""
    return float(values.mean()), float(values.std()) / math.sqrt(len(values))


def share_with_error(right: int, total: int) -> tuple[float, float]:
    """A share of successes and its standard error.

    One success and one failure are added for the error alone, so that it does not vanish where all trials agree.
    """
    smoothed = (right + 1) / (total + 2)
    return right / total, math.sqrt(smoothed * (1 - smoothed) / total)


def std_with_error(values: pd.Series[float]) -> tuple[float, float]:
    """Standard deviation about zero and its standard error, from the fourth moment, so that heavy tails count."""
    squares = np.square(values.to_numpy())
    std = math.sqrt(squares.mean())
    return std, float(squares.std()) / math.sqrt(len(squares)) / (2 * std)


def ratio_with_error(top: tuple[float, float], bottom: tuple[float, float]) -> tuple[float, float]:
    """Quotient of two independent measurements, with its standard error."""
    ratio = top[0] / bottom[0]
    return ratio, ratio * math.hypot(top[1] / top[0], bottom[1] / bottom[0])


def difference_with_error(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """Difference of two independent measurements, with its standard error."""
    return first[0] - second[0], math.hypot(first[1], second[1])


def all_equal(what: str, measured: Sequence[float], errors: Sequence[float], expected: Sequence[float]) -> Check:
    """A check that many measurements together follow a curve: the largest deviation, in standard errors.

    The bound grows with their number, so that by chance it fails as seldom as the check of a single one.
    """
    deviations = np.abs(np.asarray(measured) - np.asarray(expected)) / np.asarray(errors)
    once = math.erfc(STANDARD_ERRORS / math.sqrt(2))
    bound = -float(torch.special.ndtri(torch.tensor(once / (2 * len(deviations)), dtype=torch.float64)))
    worst = float(deviations.max())
    return Check(
        f"{what}: largest of {len(deviations)} deviations, in standard errors",
        worst,
        0.0,
        f"≤ {bound:.2f}",
        worst <= bound,
    )
