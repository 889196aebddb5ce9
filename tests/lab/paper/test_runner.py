"""Running experiments: the same seed gives the same numbers, and the report is complete and self-contained."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from ghrr_lab import paper
from ghrr_lab.paper.experiment import judge
from ghrr_lab.paper.experiments import quasi_orthogonality
from ghrr_lab.paper.report import format_measured
from tests.lab.paper.conftest import MODULES, NAMES, SMALL

pytestmark = pytest.mark.usefixtures("small")

Finished = tuple[Path, list[paper.Outcome]]


@pytest.mark.parametrize(("seed", "is_equal"), [(0, True), (2, False)])
def test_numbers_depend_on_seed_only(finished: Finished, tmp_path: Path, seed: int, is_equal: bool) -> None:
    paper.run(NAMES[1:], tmp_path, seed=seed)
    first, second = ((folder / f"{NAMES[1]}.csv").read_text() for folder in (finished[0], tmp_path))
    assert (first == second) is is_equal


@pytest.mark.parametrize("name", ["index.html", "manifest.json", f"{NAMES[0]}.csv", f"figures/{NAMES[0]}.png"])
def test_run_overwrites_no_file_of_another_program(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("[]")
    with pytest.raises(ValueError, match=rf"has no earlier run, and its file {name} would be overwritten"):
        paper.run(NAMES, tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [path]
    assert path.read_text() == "[]"


def test_run_keeps_other_files_in_its_folder(finished: Finished, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("keep")
    paper.run(NAMES[1:], tmp_path)
    paper.run(NAMES[1:], tmp_path)  # the folder has an earlier run
    assert (tmp_path / "notes.txt").read_text() == "keep"


def test_progress_is_reported_per_trial(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    paper.run([], tmp_path, on_progress=lambda step: seen.append((step.experiment.name, step.done, step.total)))
    assert seen[:2] == [(name, 0, 5) for name in NAMES]
    assert seen[2:] == [(name, done, 5) for name in NAMES for done in range(1, 6)]


def test_run_returns_verdicts(finished: Finished) -> None:
    verdicts = [finding.verdict for outcome in finished[1] for finding in outcome.findings]
    assert verdicts == ["reproduced", "reproduced", "partly", "reproduced"]


def test_contradicting_data_are_not_reproduced(finished: Finished) -> None:
    for outcome in finished[1]:
        wrong = outcome.data.assign(similarity=3 * outcome.data["similarity"] + 0.5)
        for claim in outcome.experiment.claims:
            assert judge(claim, wrong, SMALL).verdict == "not reproduced"


def test_run_of_one_experiment_imports_no_other(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from ghrr_lab import paper\n"
        "from ghrr_lab.paper import runner\n"
        "runner.to_svg, runner.to_png = (lambda _: ''), (lambda _: b'')\n"
        "paper.run(['perplexity'], Path(sys.argv[1]))\n"
        "print(*(name for name in sys.modules if name.startswith('ghrr_lab.paper.experiments.')))\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["ghrr_lab.paper.experiments.perplexity"]


def test_run_of_one_experiment_opens_no_journal_of_another(finished: Finished, tmp_path: Path) -> None:
    out = shutil.copytree(finished[0], tmp_path / "copy")
    other = out / "trials" / "quick-seed-0" / f"{NAMES[0]}.jsonl"
    other.unlink()
    other.mkdir()  # opening it would raise an error
    _, outcomes = paper.run(NAMES[1:], out)
    assert [outcome.experiment.name for outcome in outcomes] == NAMES[1:]
    assert NAMES[0] in (out / "index.html").read_text(encoding="utf-8")


class Page(HTMLParser):
    """Collects the tags of a page, the addresses it refers to, and the alternative texts of its images."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.alternatives: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for key, value in attrs if key in ("src", "href", "xlink:href", "data")]
        self.alternatives += [value or "" for key, value in attrs if key == "alt"]


def test_report_is_self_contained(finished: Finished) -> None:
    out, outcomes = finished
    text = (out / "index.html").read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    assert all(link.startswith(("#", "data:image/svg+xml;base64,")) for link in page.links)
    assert not {"iframe", "link", "svg"} & set(page.tags)
    assert "ghrr paper run &lt;all&gt;" in text
    assert not re.search(r"url\(", text)
    for outcome in outcomes:
        assert all(finding.claim.says in text for finding in outcome.findings)
        assert f"{outcome.experiment.name}.csv" in text
        assert any(outcome.experiment.caption in alternative for alternative in page.alternatives)


def test_figures_have_labels_titles_and_legends(finished: Finished) -> None:
    for outcome in finished[1]:
        figure = MODULES[outcome.experiment.name].draw(outcome.data, SMALL)
        assert figure.get_supylabel()
        assert figure.axes[-1].get_xlabel()
        assert all(axis.get_legend() is not None and axis.get_title(loc="left") for axis in figure.axes)


def test_manifest_contains_every_check(finished: Finished) -> None:
    manifest = json.loads((finished[0] / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["seed"] == 0
    assert set(manifest["versions"]) == {"ghrr", "torch", "pandas", "python"}
    checks = [
        check for experiment in manifest["experiments"] for claim in experiment["claims"] for check in claim["checks"]
    ]
    assert len(checks) == 4 + 2 + 2 + 5
    assert all(set(check) == {"what", "measured", "error", "expected", "holds"} for check in checks)


def test_plot_reproduces_report_from_tables(finished: Finished, tmp_path: Path) -> None:
    out = shutil.copytree(finished[0], tmp_path / "copy")
    for path in (out / "index.html", *(out / "figures").iterdir(), *(out / "trials").rglob("*.jsonl")):
        path.unlink()
    _, outcomes = paper.plot(out)
    for name in ("index.html", "manifest.json"):
        assert (out / name).read_text(encoding="utf-8") == (finished[0] / name).read_text(encoding="utf-8")
    assert [outcome.findings for outcome in outcomes] == [outcome.findings for outcome in finished[1]]
    figures = {f"{name}.{suffix}" for name in NAMES for suffix in ("png", "svg")}
    assert {path.name for path in (out / "figures").iterdir()} == figures


def test_plot_reads_folder_of_version_0_1(finished: Finished, tmp_path: Path) -> None:
    """Entries of such a manifest have no title, caption and code, and there are no SVG figures."""
    out = shutil.copytree(finished[0], tmp_path / "copy")
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    for entry in manifest["experiments"]:
        for key in ("title", "caption", "code"):
            del entry[key]
    (out / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    for path in (out / "figures").glob("*.svg"):
        path.unlink()
    _, outcomes = paper.plot(out)
    assert [outcome.findings for outcome in outcomes] == [outcome.findings for outcome in finished[1]]
    assert (out / "index.html").read_bytes() == (finished[0] / "index.html").read_bytes()


def test_plot_judges_the_numbers_in_the_tables(finished: Finished, tmp_path: Path) -> None:
    out = shutil.copytree(finished[0], tmp_path / "copy")
    table = out / "fixed-vs-varying.csv"
    data = pd.read_csv(table)
    data.assign(similarity=3 * data["similarity"] + 0.5).to_csv(table, index=False)
    _, outcomes = paper.plot(out)
    assert [finding.verdict for finding in outcomes[1].findings] == ["not reproduced"]


def test_plot_rejects_missing_and_damaged_files(finished: Finished, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no manifest\.json"):
        paper.plot(tmp_path)
    out = shutil.copytree(finished[0], tmp_path / "copy")
    table = (out / "fixed-vs-varying.csv").read_bytes()
    for damaged in (table[: len(table) // 2], b"", table.replace(b"similarity", b"other")):
        (out / "fixed-vs-varying.csv").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"fixed-vs-varying\.csv is damaged"):
            paper.plot(out)
    (out / "fixed-vs-varying.csv").unlink()
    with pytest.raises(ValueError, match=r"no fixed-vs-varying\.csv"):
        paper.plot(out)
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["experiments"][0]["name"] = "another"
    (out / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=r"unknown experiments \(another\)"):
        paper.plot(out)
    (out / "manifest.json").write_text('{"experiments": [')
    with pytest.raises(ValueError, match="is damaged"):
        paper.plot(out)


def test_report_keeps_results_of_earlier_runs(finished: Finished, tmp_path: Path) -> None:
    paper.run(NAMES[:1], tmp_path)
    notices: list[str] = []
    paper.run(NAMES[1:], tmp_path, command="ghrr paper run <all>", on_notice=notices.append)
    manifests = [json.loads((folder / "manifest.json").read_text()) for folder in (finished[0], tmp_path)]
    names = [[entry["name"] for entry in manifest["experiments"]] for manifest in manifests]
    claims = [[entry["claims"] for entry in manifest["experiments"]] for manifest in manifests]
    assert names[1] == NAMES
    assert claims[0] == claims[1]
    assert not notices


def test_report_drops_results_of_another_seed(finished: Finished, tmp_path: Path) -> None:
    out = shutil.copytree(finished[0], tmp_path / "copy")
    notices: list[str] = []
    paper.run(NAMES[1:], out, seed=1, on_notice=notices.append)
    assert [entry["name"] for entry in json.loads((out / "manifest.json").read_text())["experiments"]] == NAMES[1:]
    assert "replaces the report" in notices[0]
    assert "size quick and seed 0" in notices[0]


@pytest.mark.parametrize("change", [{"code": "other"}, {"title": None}, {"claims": [{"says": "x"}]}])
def test_report_drops_results_of_another_version(finished: Finished, tmp_path: Path, change: dict[str, object]) -> None:
    out = shutil.copytree(finished[0], tmp_path / "copy")
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["experiments"][0] |= change
    (out / "manifest.json").write_text(json.dumps(manifest))
    notices: list[str] = []
    paper.run(NAMES[1:], out, on_notice=notices.append)
    assert [entry["name"] for entry in json.loads((out / "manifest.json").read_text())["experiments"]] == NAMES[1:]
    assert f"does not show {NAMES[0]}" in notices[0]


@pytest.mark.parametrize(
    ("measured", "error", "shown"),
    [
        (0.0074512, 0.00012, "0.00745 ± 0.00012"),
        (31.62, 0.9, "31.62 ± 0.90"),
        (1.0, 0.0, "1"),
        (312.0, 14.0, "312 ± 14"),
    ],
)
def test_measurements_show_two_digits_of_the_error(measured: float, error: float, shown: str) -> None:
    assert format_measured(measured, error) == shown


def test_theory_lines_are_not_fitted() -> None:
    kinds = ("fixed Q", "varying Q", "H₁ and H₁ * H₂", "one Q for all (not the paper's reading)")
    data = pd.concat([pd.DataFrame({"kind": kind, "similarity": [0.1, -0.2]}) for kind in kinds])
    figure = quasi_orthogonality.draw(data, SMALL)
    labels = figure.axes[0].get_legend_handles_labels()[1]
    assert f"theory, std {1 / (2 * 50 * 4) ** 0.5:.4f}" in labels
