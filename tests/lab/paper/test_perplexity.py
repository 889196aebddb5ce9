"""Perplexity: the published table agrees with the text of the paper, and files of our runs are validated."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ghrr_lab.paper import language_model_runs as lm
from ghrr_lab.paper.experiments import perplexity
from tests.lab.paper.tables import assert_survives_files, findings, run, verdicts

PUBLISHED = ["consistent", "partly", "consistent", "consistent", "erratum"]
GOOD = {"dataset": "ptb", "attention": "vanilla", "seed": 0, "test_ppl": 90.0, "params": 1000}


def write(path: Path, runs: list[Any]) -> dict[str, Any]:
    path.write_text(json.dumps({"runs": runs}), encoding="utf-8")
    return {"results": str(path)}


def make_runs(gain: float = 2.75, same: float = 2.5, trained: float = 0.0, bigger: float = 1.0) -> list[dict[str, Any]]:
    """Make runs with a gain of GHRR in percent, a loss without variation, and a gain from training positions."""
    rng = np.random.default_rng(0)
    runs = []
    for seed in range(5):
        runs.append({**GOOD, "seed": seed, "test_ppl": 100 + 0.1 * rng.normal()})
        runs.append({**GOOD, "seed": seed, "attention": "rope", "test_ppl": 95 + 0.1 * rng.normal()})
        for sharing in lm.SHARING:
            for trainable in (False, True):
                # Two of eight configurations have no variation. The mean gain is ``gain``.
                value = 100 - gain - same / 4 + (same if sharing == "all" else 0) - trained * (trainable - 0.5)
                run = {**GOOD, "seed": seed, "attention": "ghrr-x", "test_ppl": value + 0.1 * rng.normal()}
                run |= {"position_sharing": sharing, "trainable_positions": trainable}
                runs.append({**run, "params": int(bigger * 1000) + 50 * trainable})
    return runs


@pytest.fixture
def published(tmp_path: Path) -> pd.DataFrame:
    return run(perplexity.EXPERIMENT, {"results": str(tmp_path / "missing.json")})


def test_verdicts_without_our_runs(published: pd.DataFrame) -> None:
    assert verdicts(perplexity.CLAIMS, published, {}) == PUBLISHED + ["not measured"] * 5
    assert_survives_files(perplexity.CLAIMS, published, {})
    assert len(published) == 18
    assert len(perplexity.EXPERIMENT.trials({})) == 1


def test_percentages_follow_from_the_table(published: pd.DataFrame) -> None:
    """The sums of the columns are 220.48 and 737.36 for all eight variants, and 549.45 for the six with variation."""
    found = findings(perplexity.CLAIMS, published, {})
    measured = [check.measured for check in found[3].checks]
    by_hand = [1 - 220.48 / 8 / 29.16, 1 - 27.54 / 29.16, 1 - 737.36 / 8 / 94.78, 1 - 91.51 / 94.78]
    assert measured == pytest.approx([100 * x for x in by_hand])
    assert [round(x, 2) for x in measured] == [5.49, 5.56, 2.75, 3.45]  # as in the comment
    assert found[4].checks[0].measured == pytest.approx(100 * (1 - 549.45 / 6 / 93.955))
    assert found[4].corrected[0].measured == pytest.approx(100 * (1 - 91.55 / 93.955))


def test_numbers_in_comment_on_trained_positions(published: pd.DataFrame) -> None:
    cells = perplexity.average_runs(published).query("data == 'ptb' and sharing not in ('all', 'none')")
    fixed, trained = (perplexity.mean_of(cells.query(f"positions == '{x}'")) for x in (lm.FIXED, lm.TRAINED))
    assert round(fixed[0] - trained[0], 2) == 0.11
    assert round((fixed[0] - trained[0]) / math.hypot(fixed[1], trained[1]), 1) == 3.8


def test_verdicts_change_with_altered_published_numbers(published: pd.DataFrame) -> None:
    def altered(factor: float, **where: str) -> list[str]:
        chosen = np.logical_and.reduce([published[column] == entry for column, entry in where.items()])
        table = published.assign(perplexity=published["perplexity"].where(~chosen, factor * published["perplexity"]))
        return verdicts(perplexity.CLAIMS, table, {})

    assert altered(0.9, model="vanilla")[0] == "not reproduced"
    assert altered(1.05, data="wikitext-2", sharing="all")[1] == "consistent"
    assert altered(1.01, positions=lm.FIXED)[2] == "not reproduced"
    assert altered(1.001, model="vanilla")[3] == "not reproduced"
    assert altered(0.999, data="ptb", sharing="all")[4] == "not reproduced"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["reproduced"] * 5),
        ({"gain": -5.0}, ["not reproduced", "reproduced", "reproduced", "not reproduced", "reproduced"]),
        ({"same": 0.0}, ["reproduced", "not reproduced", "reproduced", "reproduced", "reproduced"]),
        ({"trained": 1.0}, ["reproduced", "reproduced", "not reproduced", "reproduced", "reproduced"]),
        ({"bigger": 2.0}, ["reproduced", "reproduced", "reproduced", "reproduced", "not reproduced"]),
    ],
)
def test_verdicts_on_our_runs(tmp_path: Path, changes: dict[str, float], expected: list[str]) -> None:
    settings = write(tmp_path / "summary.json", make_runs(**changes))
    data = run(perplexity.EXPERIMENT, settings)
    assert verdicts(perplexity.CLAIMS, data, settings) == PUBLISHED + expected
    assert_survives_files(perplexity.CLAIMS, data, settings)


def test_single_seed_gives_no_verdict_on_perplexity(tmp_path: Path) -> None:
    """A single seed has no standard error. The claim about sizes needs none."""
    settings = write(tmp_path / "summary.json", [x for x in make_runs() if x["seed"] == 0])
    data = run(perplexity.EXPERIMENT, settings)
    assert verdicts(perplexity.CLAIMS, data, settings) == [*PUBLISHED, *["not measured"] * 4, "reproduced"]
    assert len(perplexity.EXPERIMENT.draw(data, settings).axes) == 3


def test_small_vocabulary_is_compared_with_wikitext(tmp_path: Path) -> None:
    runs = [{**x, "dataset": "wikitext-2-small"} for x in make_runs(gain=5.47)]
    settings = write(tmp_path / "summary.json", runs)
    found = findings(perplexity.CLAIMS, run(perplexity.EXPERIMENT, settings), settings)
    assert found[8].verdict == "reproduced"
    assert "small vocabulary" in found[8].checks[0].what


def test_average_runs_returns_mean_and_error(tmp_path: Path) -> None:
    runs = [{**GOOD, "seed": seed, "test_ppl": value} for seed, value in enumerate([90.0, 92.0, 94.0])]
    data = run(perplexity.EXPERIMENT, write(tmp_path / "summary.json", runs))
    ours = perplexity.average_runs(data).query("source == 'ours'")
    assert ours["perplexity"].tolist() == [92.0]
    assert ours["error"].tolist() == pytest.approx([2 / math.sqrt(3)])
    base = perplexity.average_runs(data).query("source == 'paper' and data == 'ptb' and model == 'vanilla'")
    assert base["error"].tolist() == pytest.approx([0.23 / math.sqrt(5)])
    assert perplexity.gain((100.0, 0.0), (95.0, 1.0)) == pytest.approx((5.0, 1.0))


def test_printed_gain_allows_for_rounding() -> None:
    assert perplexity.gain_as_printed("x", 10.0, 9.0, 10.0).holds
    lowest, highest = (100 * (1 - after / before) for before, after in ((9.995, 9.005), (10.005, 8.995)))
    for printed, holds in ((lowest, True), (highest, True), (lowest - 0.01, False), (highest + 0.01, False)):
        assert perplexity.gain_as_printed("x", 10.0, 9.0, printed).holds is holds


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dataset": "enwik8"}, "dataset must be one of ptb, wikitext-2, wikitext-2-small, got 'enwik8'"),
        ({"dataset": None}, "dataset must be a string, got None"),
        ({"seed": "0"}, "seed must be an integer, got '0'"),
        ({"seed": True}, "seed must be an integer, got True"),
        ({"params": 1.5}, "params must be an integer, got 1.5"),
        ({"params": 0}, "params must be at least 1, got 0"),
        ({"test_ppl": "90"}, "test_ppl must be a number, got '90'"),
        ({"test_ppl": math.nan}, "test_ppl must be finite and at least 1, got nan"),
        ({"test_ppl": 0.5}, "test_ppl must be finite and at least 1, got 0.5"),
        ({"attention": "ghrr-x"}, "position_sharing is missing"),
        ({"attention": "ghrr-x", "position_sharing": "some"}, "position_sharing must be one of all, qkv, head, "),
        (
            {"attention": "ghrr-x", "position_sharing": "all", "trainable_positions": 1},
            "trainable_positions must be true",
        ),
    ],
)
def test_malformed_run_is_rejected(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    settings = write(tmp_path / "summary.json", [{**GOOD, "seed": 1}, {**GOOD, **change}])
    with pytest.raises(ValueError, match=r"summary\.json, run 1: ") as caught:
        run(perplexity.EXPERIMENT, settings)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "runs"),
        ('{"runs": {}}', "runs"),
        ('{"runs": [3]}', "run 0: expected an object, got 3"),
        (json.dumps({"runs": [GOOD, GOOD]}), "run 1: same configuration and seed as run 0"),
    ],
)
def test_malformed_file_is_rejected(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "summary.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        lm.read_runs(path)
    assert str(path) in str(caught.value)


def test_file_that_is_not_text_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    path.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(ValueError, match="not valid JSON"):
        lm.read_runs(path)


def test_figure_is_complete(published: pd.DataFrame, tmp_path: Path) -> None:
    settings = write(tmp_path / "summary.json", make_runs())
    for data, panels in ((published, 2), (run(perplexity.EXPERIMENT, settings), 3)):
        axes = perplexity.EXPERIMENT.draw(data, settings).axes
        assert len(axes) == panels
        assert all(axis.get_xlabel() and axis.get_ylabel() and axis.get_title(loc="left") for axis in axes)
        assert axes[0].get_legend() is not None


def test_outlier_does_not_change_the_scale(tmp_path: Path) -> None:
    far = {**GOOD, "attention": "ghrr-row", "position_sharing": "all", "position_trainable": False, "test_ppl": 150.0}
    widths = []
    for runs in (make_runs(), [*make_runs(), far]):
        settings = write(tmp_path / "summary.json", runs)
        axis = perplexity.EXPERIMENT.draw(run(perplexity.EXPERIMENT, settings), settings).axes[2]
        low, high = axis.get_xlim()
        widths.append(high - low)
        words = [text.get_text() for text in axis.texts]
    assert words == ["150.0 →"]
    assert [label.get_text() for label in axis.get_yticklabels()].count("ghrr-row, all same") == 1
    assert widths[0] == pytest.approx(widths[1])
