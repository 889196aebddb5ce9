"""Experiments give the same numbers for the same seed, verdicts follow from data, the report stands alone."""

from __future__ import annotations

import dataclasses
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from ghrr import paper
from ghrr.paper import claims, report
from ghrr.paper.experiment import Check, Claim, Finding, equals, exceeds

SMALL = {"dim": 50, "m": 2, "pairs": 40, "blocks": 5}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, experiment in paper.EXPERIMENTS.items():
        monkeypatch.setitem(
            paper.EXPERIMENTS, name, dataclasses.replace(experiment, settings={"quick": SMALL, "full": SMALL})
        )


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
def test_progress_is_reported_per_block(tmp_path: Path) -> None:
    seen: list[str] = []
    paper.run([], tmp_path, on_block=lambda experiment: seen.append(experiment.name))
    assert seen == ["quasi-orthogonality"] * 5 + ["fixed-vs-varying"] * 5


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
        for finding in claims.judge(outcome.experiment.name, wrong, SMALL):
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


@pytest.mark.parametrize(
    ("held", "verdict"),
    [([True, True], "reproduced"), ([True, False], "partly"), ([False, False], "not reproduced")],
)
def test_verdicts(held: list[bool], verdict: str) -> None:
    claim = Claim("x", "here", "something", lambda data, settings: [])
    assert Finding(claim, [Check("x", 1.0, 0.1, "1", holds) for holds in held]).verdict == verdict


def test_checks_use_their_standard_error() -> None:
    assert equals("x", 1.39, 0.1, 1.0).holds
    assert not equals("x", 1.41, 0.1, 1.0).holds
    assert exceeds("x", 1.41, 0.1, 1.0).holds
    assert not exceeds("x", 1.39, 0.1, 1.0).holds
    assert not equals("x", float("nan"), 0.1, 1.0).holds


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


def test_theory_lines_are_not_fitted() -> None:
    """The curves come from the settings alone, whatever the data."""
    experiment = paper.EXPERIMENTS["quasi-orthogonality"]
    kinds = ("fixed Q", "varying Q", "H₁ and H₁ * H₂", "one Q for all (not the paper's reading)")
    data = pd.concat([pd.DataFrame({"kind": kind, "similarity": [0.1, -0.2]}) for kind in kinds])
    empty = experiment.draw(data, SMALL)
    labels = empty.axes[0].get_legend_handles_labels()[1]
    assert f"theory, std {1 / (2 * 50 * 4) ** 0.5:.4f}" in labels
