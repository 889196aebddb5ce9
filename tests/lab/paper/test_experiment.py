"""Verdicts follow from checks, and checks from measurements and their standard errors."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from ghrr_lab.paper.experiment import Check, Claim, Finding
from ghrr_lab.paper.statistics import all_equal, equals, exceeds, falls_below, share_with_error
from tests.helpers import generator


@pytest.mark.parametrize(
    ("held", "corrected", "verdict"),
    [
        ([True, True], [], "reproduced"),
        ([True, False], [], "partly"),
        ([False, False], [], "not reproduced"),
        ([], [], "not measured"),
        ([True, False], [True, True], "erratum"),
        ([False, False], [True], "erratum"),
        ([False, False], [True, False], "not reproduced"),
        ([True, True], [True], "reproduced"),
    ],
)
def test_verdict_follows_from_checks(held: list[bool], corrected: list[bool], verdict: str) -> None:
    claim = Claim("here", "something", lambda data, settings: [])
    checks, corrections = ([Check("x", 1.0, 0.1, "1", holds) for holds in values] for values in (held, corrected))
    assert Finding(claim, checks, corrections).verdict == verdict
    printed = Finding(dataclasses.replace(claim, as_printed=True), checks, corrections).verdict
    assert printed == ("consistent" if verdict == "reproduced" else verdict)


def test_bound_of_all_equal_grows_with_number_of_measurements() -> None:
    assert all_equal("x", [3.9], [1.0], [0.0]).holds
    assert not all_equal("x", [4.1], [1.0], [0.0]).holds
    values = torch.randn(1000, generator=generator()).tolist()
    assert all_equal("x", values, [1.0] * 1000, [0.0] * 1000).holds
    assert not all_equal("x", [*values[:-1], 5.7], [1.0] * 1000, [0.0] * 1000).holds
    assert all_equal("x", [*values[:-1], 5.2], [1.0] * 1000, [0.0] * 1000).holds


def test_share_has_positive_error_if_all_trials_agree() -> None:
    share, error = share_with_error(50, 100)
    assert share == 0.5
    assert error == pytest.approx(0.05, rel=0.01)
    share, error = share_with_error(100, 100)
    assert share == 1.0
    assert 0 < error < 0.02


def test_checks_allow_four_standard_errors() -> None:
    assert equals("x", 1.39, 0.1, 1.0).holds
    assert not equals("x", 1.41, 0.1, 1.0).holds
    assert exceeds("x", 1.41, 0.1, 1.0).holds
    assert not exceeds("x", 1.39, 0.1, 1.0).holds
    assert not equals("x", float("nan"), 0.1, 1.0).holds
    assert falls_below("x", 0.59, 0.1, 1.0).holds
    assert not falls_below("x", 0.61, 0.1, 1.0).holds
    assert equals("x", 1.29, 0.1, 1.0, within=3).holds
    assert not equals("x", 1.31, 0.1, 1.0, within=3).holds
