"""Experiments give the same numbers for the same seed, verdicts follow from data, the report stands alone."""

from __future__ import annotations

import dataclasses
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
import torch

from ghrr import paper
from ghrr.paper import claims, report
from ghrr.paper.experiment import Check, Claim, Finding, all_equal, equals, exceeds, falls_below, share_with_error
from tests.helpers import generator
from tests.paper.conftest import FIRST, SMALL


@pytest.mark.usefixtures("small")
def test_same_seed_same_numbers(tmp_path: Path) -> None:
    tables = {}
    for name, seed in (("one", 1), ("two", 1), ("three", 2)):
        paper.run([], tmp_path / name, seed=seed)
        tables[name] = (tmp_path / name / "quasi-orthogonality.csv").read_text()
    assert tables["one"] == tables["two"]
    assert tables["one"] != tables["three"]


@pytest.mark.usefixtures("small")
def test_an_experiment_does_not_depend_on_the_others(tmp_path: Path) -> None:
    paper.run([], tmp_path / "all")
    paper.run(["fixed-vs-varying"], tmp_path / "one")
    both = [(tmp_path / folder / "fixed-vs-varying.csv").read_text() for folder in ("all", "one")]
    assert both[0] == both[1]


@pytest.mark.usefixtures("small")
def test_progress_is_reported_per_trial(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    paper.run([], tmp_path, on_progress=lambda step: seen.append((step.experiment.name, step.done, step.total)))
    assert seen[:2] == [(name, 0, 5) for name in FIRST]
    assert seen[2:] == [(name, done, 5) for name in FIRST for done in range(1, 6)]


@pytest.mark.usefixtures("small")
def test_the_verdicts_on_the_first_figures(tmp_path: Path) -> None:
    _, outcomes = paper.run([], tmp_path)
    verdicts = [finding.verdict for outcome in outcomes for finding in outcome.findings]
    assert verdicts == ["reproduced", "reproduced", "partly", "reproduced"]


@pytest.mark.usefixtures("small")
def test_verdicts_follow_from_the_data(tmp_path: Path) -> None:
    """The control: the same claims on data that contradict them."""
    _, outcomes = paper.run([], tmp_path)
    for outcome in outcomes:
        wrong = outcome.data.assign(similarity=3 * outcome.data["similarity"] + 0.5)
        for finding in claims.judge_all(outcome.experiment.name, wrong, SMALL):
            assert finding.verdict == "not reproduced"


class Page(HTMLParser):
    """Collects what a page would load and what it shows."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for key, value in attrs if key in ("src", "href", "xlink:href", "data")]


@pytest.mark.usefixtures("small")
def test_the_report_stands_alone(tmp_path: Path) -> None:
    path, outcomes = paper.run([], tmp_path, command="ghrr paper run <all>")
    text = path.read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    assert all(link.startswith("#") for link in page.links)
    assert not {"script", "iframe", "link", "img"} & set(page.tags)
    assert page.tags.count("svg") == 2
    assert "ghrr paper run &lt;all&gt;" in text
    assert not re.search(r"url\((?!#)", text)
    for outcome in outcomes:
        for finding in outcome.findings:
            assert finding.claim.says in text
        assert f"{outcome.experiment.name}.csv" in text


@pytest.mark.usefixtures("small")
def test_figures_have_axes_and_legends(tmp_path: Path) -> None:
    _, outcomes = paper.run([], tmp_path)
    for outcome in outcomes:
        figure = outcome.experiment.draw(outcome.data, outcome.settings)
        assert figure.get_supylabel()
        assert figure.axes[-1].get_xlabel()
        assert all(axis.get_legend() is not None and axis.get_title(loc="left") for axis in figure.axes)


@pytest.mark.usefixtures("small")
def test_the_manifest_holds_every_check(tmp_path: Path) -> None:
    paper.run([], tmp_path, seed=4, command="c")
    manifest = json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["seed"] == 4
    assert set(manifest["versions"]) == {"ghrr", "torch", "pandas", "python"}
    checks = [
        check for experiment in manifest["experiments"] for claim in experiment["claims"] for check in claim["checks"]
    ]
    assert len(checks) == 4 + 2 + 2 + 5
    assert all(set(check) == {"what", "measured", "error", "expected", "holds"} for check in checks)


@pytest.mark.usefixtures("small")
def test_plot_gives_the_same_report_from_the_tables_alone(tmp_path: Path) -> None:
    report_path, outcomes = paper.run([], tmp_path, command="c")
    first = report_path.read_text(encoding="utf-8")
    manifest = (tmp_path / "manifest.json").read_text(encoding="utf-8")
    for path in (report_path, *(tmp_path / "figures").iterdir(), *(tmp_path / "trials").rglob("*.jsonl")):
        path.unlink()
    _, again = paper.plot(tmp_path)
    assert report_path.read_text(encoding="utf-8") == first
    assert (tmp_path / "manifest.json").read_text(encoding="utf-8") == manifest
    assert [o.findings for o in again] == [o.findings for o in outcomes]
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {f"{name}.png" for name in FIRST}


@pytest.mark.usefixtures("small")
def test_plot_judges_what_is_in_the_tables(tmp_path: Path) -> None:
    """The control: other numbers in a table give other verdicts."""
    paper.run([], tmp_path)
    table = tmp_path / "fixed-vs-varying.csv"
    data = pd.read_csv(table)
    data.assign(similarity=3 * data["similarity"] + 0.5).to_csv(table, index=False)
    _, outcomes = paper.plot(tmp_path)
    assert [f.verdict for f in outcomes[1].findings] == ["not reproduced"]


@pytest.mark.usefixtures("small")
def test_plot_explains_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no results: there is no manifest\.json; make them with"):
        paper.plot(tmp_path)
    paper.run([], tmp_path)
    table = (tmp_path / "fixed-vs-varying.csv").read_bytes()
    for damaged in (table[: len(table) // 2], b"", table.replace(b"similarity", b"other")):
        (tmp_path / "fixed-vs-varying.csv").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"fixed-vs-varying\.csv is damaged, or of another version"):
            paper.plot(tmp_path)
    (tmp_path / "fixed-vs-varying.csv").unlink()
    with pytest.raises(ValueError, match=r"no fixed-vs-varying\.csv any more"):
        paper.plot(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["experiments"][0]["name"] = "another"
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="names experiments that this version does not have"):
        paper.plot(tmp_path)
    (tmp_path / "manifest.json").write_text('{"experiments": [')
    with pytest.raises(ValueError, match="is damaged"):
        paper.plot(tmp_path)


@pytest.mark.usefixtures("small")
def test_the_report_keeps_what_earlier_runs_finished(tmp_path: Path) -> None:
    paper.run(FIRST[:1], tmp_path)
    _, outcomes = paper.run(FIRST[1:], tmp_path)
    assert [outcome.experiment.name for outcome in outcomes] == FIRST
    notices: list[str] = []
    _, outcomes = paper.run(FIRST[1:], tmp_path, seed=1, on_notice=notices.append)
    assert [outcome.experiment.name for outcome in outcomes] == FIRST[1:]
    assert "holds a report of size quick and seed 0; this run replaces it, and its stored trials stay" in notices[0]


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
def test_verdicts(held: list[bool], corrected: list[bool], verdict: str) -> None:
    claim = Claim("x", "here", "something", lambda data, settings: [])
    first, second = ([Check("x", 1.0, 0.1, "1", holds) for holds in some] for some in (held, corrected))
    assert Finding(claim, first, second).verdict == verdict
    printed = Finding(dataclasses.replace(claim, as_printed=True), first, second).verdict
    assert printed == ("consistent" if verdict == "reproduced" else verdict)


def test_many_deviations_are_judged_together() -> None:
    """The bound is the quantile of the largest of n: about 4 for one, more for many."""
    assert all_equal("x", [3.9], [1.0], [0.0]).holds
    assert not all_equal("x", [4.1], [1.0], [0.0]).holds
    values = torch.randn(1000, generator=generator()).tolist()
    assert all_equal("x", values, [1.0] * 1000, [0.0] * 1000).holds
    assert not all_equal("x", [*values[:-1], 5.7], [1.0] * 1000, [0.0] * 1000).holds
    assert all_equal("x", [*values[:-1], 5.2], [1.0] * 1000, [0.0] * 1000).holds


def test_shares_have_an_error_where_all_agree() -> None:
    share, error = share_with_error(50, 100)
    assert share == 0.5
    assert error == pytest.approx(0.05, rel=0.01)
    share, error = share_with_error(100, 100)
    assert share == 1.0
    assert 0 < error < 0.02


def test_checks_use_their_standard_error() -> None:
    assert equals("x", 1.39, 0.1, 1.0).holds
    assert not equals("x", 1.41, 0.1, 1.0).holds
    assert exceeds("x", 1.41, 0.1, 1.0).holds
    assert not exceeds("x", 1.39, 0.1, 1.0).holds
    assert not equals("x", float("nan"), 0.1, 1.0).holds
    assert falls_below("x", 0.59, 0.1, 1.0).holds
    assert not falls_below("x", 0.61, 0.1, 1.0).holds
    assert equals("x", 1.29, 0.1, 1.0, within=3).holds
    assert not equals("x", 1.31, 0.1, 1.0, within=3).holds


@pytest.mark.parametrize(
    ("measured", "error", "shown"),
    [
        (0.0074512, 0.00012, "0.00745 ± 0.00012"),
        (31.62, 0.9, "31.62 ± 0.90"),
        (1.0, 0.0, "1"),
        (312.0, 14.0, "312 ± 14"),
    ],
)
def test_numbers_are_shown_to_two_digits_of_their_error(measured: float, error: float, shown: str) -> None:
    assert report.format_measured(Check("x", measured, error, "", True)) == shown


def test_choose_names_the_nearest() -> None:
    assert [e.name for e in paper.choose(["fixed-vs-varying", "fixed-vs-varying"])] == ["fixed-vs-varying"]
    with pytest.raises(ValueError, match="did you mean 'fixed-vs-varying'"):
        paper.choose(["fixed"])
    with pytest.raises(ValueError, match="no experiment is called 'zzz': there are"):
        paper.choose(["zzz"])


def test_every_experiment_has_claims_and_two_sizes() -> None:
    for experiment in paper.EXPERIMENTS.values():
        own = [claim for claim in paper.CLAIMS if claim.experiment == experiment.name]
        assert own
        assert all(claim.where and claim.says for claim in own)
        assert all((claim.corrected is None) == (claim.correction == "") for claim in own)
        assert experiment.caption.endswith(".")
        for size in ("quick", "full"):
            assert json.loads(json.dumps(experiment.settings[size])) == experiment.settings[size]
            assert experiment.trials(experiment.settings[size])
    assert {claim.experiment for claim in paper.CLAIMS} == set(paper.EXPERIMENTS)
    assert len({claim.says for claim in paper.CLAIMS}) == len(paper.CLAIMS)


def test_theory_lines_are_not_fitted() -> None:
    """The curves come from the settings alone, whatever the data."""
    experiment = paper.EXPERIMENTS["quasi-orthogonality"]
    kinds = ("fixed Q", "varying Q", "H₁ and H₁ * H₂", "one Q for all (not the paper's reading)")
    data = pd.concat([pd.DataFrame({"kind": kind, "similarity": [0.1, -0.2]}) for kind in kinds])
    empty = experiment.draw(data, SMALL)
    labels = empty.axes[0].get_legend_handles_labels()[1]
    assert f"theory, std {1 / (2 * 50 * 4) ** 0.5:.4f}" in labels
