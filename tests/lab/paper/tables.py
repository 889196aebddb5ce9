"""Helpers to run a small experiment in a test, alter its table, and judge its claims."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Sequence
from typing import Any

import pandas as pd

from ghrr_lab.paper.experiment import Claim, Experiment, Finding, judge
from tests.helpers import generator


def run(experiment: Experiment, settings: dict[str, Any], *, seed: int = 0) -> pd.DataFrame:
    """Return the table of all trials. The generator of trial n has the seed ``seed + n``."""
    trials = enumerate(experiment.trials(settings))
    tables = [experiment.run_trial(settings, params, generator(seed + n)).assign(trial=n) for n, params in trials]
    return pd.concat(tables, ignore_index=True)


def findings(claims: Sequence[Claim], data: pd.DataFrame, settings: dict[str, Any]) -> list[Finding]:
    return [judge(claim, data, settings) for claim in claims]


def verdicts(claims: Sequence[Claim], data: pd.DataFrame, settings: dict[str, Any]) -> list[str]:
    return [finding.verdict for finding in findings(claims, data, settings)]


def scaled(data: pd.DataFrame, factor: float, offset: float = 0.0, **where: object) -> pd.DataFrame:
    """Scale and shift ``value`` in the rows in which the named columns have the given values."""
    chosen = pd.Series(True, index=data.index)
    for column, entry in where.items():
        chosen &= data[column] == entry
    assert chosen.any()
    return data.assign(value=data["value"].where(~chosen, factor * data["value"] + offset))


def assert_survives_files(claims: Sequence[Claim], data: pd.DataFrame, settings: dict[str, Any]) -> None:
    """Assert that the table gives the same verdicts after a round trip through CSV, and that checks fit into JSON."""
    again = pd.read_csv(io.StringIO(data.to_csv(index=False)), keep_default_na=False, na_values=[""])
    before, after = (findings(claims, table, settings) for table in (data, again))
    assert [finding.verdict for finding in before] == [finding.verdict for finding in after]
    for finding in before:
        rejected = [check for checks in finding.rejected.values() for check in checks]
        for check in (*finding.checks, *finding.corrected, *rejected):
            assert json.loads(json.dumps(dataclasses.asdict(check)))["holds"] is check.holds
