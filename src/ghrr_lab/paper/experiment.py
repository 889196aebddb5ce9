"""Types: an experiment, the paper's claims about it, and what testing a claim gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
import torch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Settings = Mapping[str, Any]
Params = Mapping[str, Any]


@dataclass(frozen=True)
class Check:
    """One comparison of a measurement with a prediction."""

    what: str
    measured: float
    error: float
    expected: str
    holds: bool


Test = Callable[[pd.DataFrame, Settings], Sequence[Check]]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper and how to test it.

    Attributes
    ----------
    where, says
        The place in the paper, and the statement.
    test
        Maps table and settings to the checks that decide whether the claim holds as written.
    corrected, correction
        For claims that are wrong as written: the checks of the corrected statement, and that statement.
    rejected
        Checks of other interpretations of the paper, by name. The report shows them; they do not affect the verdict.
    comment
        Explanation for the reader of the report.
    as_printed
        Whether the test uses only numbers printed in the paper. The best verdict is then "consistent".
    """

    where: str
    says: str
    test: Test
    corrected: Test | None = None
    correction: str = ""
    rejected: Mapping[str, Test] = field(default_factory=dict)
    comment: str = ""
    as_printed: bool = False


def repeat(cases: Iterable[Params], blocks: int) -> list[Params]:
    """Repeat each case in this many independent trials, numbered by ``block``.

    Examples
    --------
    >>> repeat([{"m": 1}, {"m": 2}], 2)
    [{'m': 1, 'block': 0}, {'m': 1, 'block': 1}, {'m': 2, 'block': 0}, {'m': 2, 'block': 1}]
    """
    return [{**case, "block": block} for case in cases for block in range(blocks)]


@dataclass(frozen=True)
class Experiment:
    """One figure, table or section of the paper.

    Attributes
    ----------
    name, title, caption
        The name on the command line, the heading in the report, and the text below the figure.
    settings
        Settings for the sizes ``"quick"`` and ``"full"``: numbers, strings and lists of them.
    run_trial
        Computes one trial from settings, parameters of the trial, and a random generator. Returns a table with one row
        per measurement. Trials take a few seconds each: a stopped run loses at most the unfinished ones.
    draw
        Draws the figure from table and settings.
    claims
        The paper's claims that this experiment tests.
    trials
        Maps settings to the parameters of all trials, in order. By default, ``settings["blocks"]`` equal trials.
    exclusive
        Whether no other experiment may run at the same time, as for time measurements. Such an experiment runs in this
        process.
    inputs
        Maps settings to a fingerprint of the files that trials read. When it changes, stored trials are computed again.
    """

    name: str
    title: str
    caption: str
    settings: Mapping[str, Settings]
    run_trial: Callable[[Settings, Params, torch.Generator], pd.DataFrame]
    draw: Callable[[pd.DataFrame, Settings], Figure]
    claims: Sequence[Claim]
    trials: Callable[[Settings], list[Params]] = lambda settings: repeat([{}], settings["blocks"])
    exclusive: bool = False
    inputs: Callable[[Settings], str] = lambda _: ""


Verdict = Literal["reproduced", "consistent", "partly", "erratum", "not reproduced", "not measured"]


@dataclass(frozen=True)
class Finding:
    """The checks made for a claim."""

    claim: Claim
    checks: Sequence[Check]
    corrected: Sequence[Check] = ()
    rejected: Mapping[str, Sequence[Check]] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """The verdict on the claim.

        - ``reproduced``: all checks hold; ``consistent`` if they use only numbers printed in the paper.
        - ``erratum``: some check fails, and all checks of the correction hold.
        - ``partly``: some checks hold.
        - ``not reproduced``: no check holds.
        - ``not measured``: there are no data.
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
    """Test a claim on the table of its experiment."""
    return Finding(
        claim,
        claim.test(data, settings),
        () if claim.corrected is None else claim.corrected(data, settings),
        {name: test(data, settings) for name, test in claim.rejected.items()},
    )


@dataclass(frozen=True)
class Outcome:
    """The result of one experiment.

    Parameters
    ----------
    experiment
        The experiment.
    settings
        Sizes that were used.
    data
        One row per trial and measurement.
    findings
        The verdict of each claim.
    seconds
        Time that the trials took.

    Examples
    --------
    >>> import pandas as pd
    >>> from ghrr_lab import paper
    >>> experiment = paper.EXPERIMENTS["fixed-vs-varying"]
    >>> paper.Outcome(experiment, experiment.settings["quick"], pd.DataFrame(), [], seconds=1.5).seconds
    1.5
    """

    experiment: Experiment
    settings: Settings
    data: pd.DataFrame
    findings: list[Finding]
    seconds: float


def judge_all(experiment: Experiment, settings: Settings, data: pd.DataFrame, seconds: float) -> Outcome:
    """Test all claims about an experiment on its table."""
    return Outcome(experiment, settings, data, [judge(claim, data, settings) for claim in experiment.claims], seconds)
