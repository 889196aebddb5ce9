"""``compare``: each run of a plan once, and a summary that the paper's table reads."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ghrr_lab.lm import Model, ModelConfig, RunError, compare, markdown_table
from ghrr_lab.lm.comparison import _do_run
from ghrr_lab.lm.plan import read_plan
from ghrr_lab.lm.run_folder import read_result
from ghrr_lab.paper.language_model_runs import read_runs
from tests.lab.lm.plans import PARAMETERS, PLAN, POSITIONS, write_plan

KEYS = {"dataset", "attention", "variant", "seed", "params", "valid_ppl", "test_ppl", "tokens_per_s", "command"}


def test_compare_does_each_run_once_and_writes_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    plan, summary = write_plan(tmp_path), tmp_path / "results" / "lm.json"
    seen: list[tuple[dict[str, Any], int, int]] = []

    def check(result: dict[str, Any], done: int, total: int) -> None:
        stored = json.loads(summary.read_text())["runs"]
        assert result in stored
        assert len(stored) == done
        seen.append((result, done, total))

    results = compare(plan, tmp_path / "runs", summary=summary, jobs=2, device="cpu", on_result=check)
    assert [(done, total) for _, done, total in seen] == [(1, 3), (2, 3), (3, 3)]
    assert [result for result, _, _ in seen] == results
    content = json.loads(summary.read_text())
    assert content.keys() == {"runs"}
    runs = content["runs"]
    assert [(run["attention"], run["variant"], run["seed"]) for run in runs] == [
        ("ghrr-feature", "qkv, trained", 0),
        ("ghrr-feature", "qkv, trained", 1),
        ("vanilla", "", 1),
    ]
    for run in runs:
        assert run.keys() >= KEYS
        assert run["dataset"] == "ptb"
        assert abs(run["params"] / PARAMETERS - 1) < 0.02
    assert runs[0]["test_ppl"] != runs[1]["test_ppl"]
    for path in (tmp_path / "runs").glob("*/result.json"):
        assert [run for run in runs if read_result(path.parent).items() <= run.items()]
    assert [run["position_sharing"] for run in runs] == ["qkv", "qkv", None]
    assert [run["learning_rate"] for run in runs] == [0.001, 0.001, 0.01]
    assert [run["model"] for run in runs] == [{**PLAN["model"], **POSITIONS}] * 2 + [
        {**PLAN["model"], "attention": "vanilla"}
    ]
    assert summary.with_suffix(".md").read_text(encoding="utf-8") == markdown_table(runs)

    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*")}
    assert len({path.parent for path in before}) == 4
    text = summary.read_text()
    again = compare(plan, tmp_path / "runs", summary=summary, jobs=1, device="cpu")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*")} == before
    assert summary.read_text() == text
    assert sorted(map(json.dumps, again)) == sorted(map(json.dumps, results))

    read = read_runs(summary)
    assert [(row["model"], row["sharing"], row["positions"], row["seed"]) for row in read] == [
        ("ghrr-feature", "qkv", "trained", 0),
        ("ghrr-feature", "qkv", "trained", 1),
        ("vanilla", "none", "none", 1),
    ]
    assert [row["parameters"] for row in read] == [run["params"] for run in runs]


def test_compare_raises_error_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    plan = write_plan(tmp_path, training={"batch": 10_000})
    with pytest.raises(RunError, match="must fill one batch of 10000 windows of 8"):
        compare(plan, tmp_path / "runs", summary=tmp_path / "lm.json", device="cpu")
    assert not (tmp_path / "lm.json").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("s.md", None, "compare: summary must be a file that ends in .json"),
        ("s.MD", None, "must be a file that ends in .json"),
        ("", None, "must be a file that ends in .json"),
        ("s.json", "{", "s.json is not a summary"),
        ("s.json", "[]", "s.json is not a summary"),
        ("s.json", '{"runs": 3}', "s.json is not a summary"),
        ("s.json", '{"runs": ["a"]}', "s.json is not a summary"),
        (
            "s.json",
            '{"runs": [{"dataset": "ptb", "seed": 0}]}',
            "run 0: attention is missing",
        ),
    ],
)
def test_compare_rejects_invalid_summary_before_any_run(
    tmp_path: Path, name: str, content: str | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=re.escape(message)):
        compare(write_plan(tmp_path), tmp_path / "runs", summary=tmp_path / name)
    assert not (tmp_path / "runs").exists()


def test_compare_does_not_overwrite_a_file_beside_the_summary(tmp_path: Path) -> None:
    notes = tmp_path / "s.md"
    notes.write_text("# My notes\n")
    with pytest.raises(ValueError, match=r"s\.md would be overwritten, and it is not a table of runs"):
        compare(write_plan(tmp_path), tmp_path / "runs", summary=tmp_path / "s.json")
    assert notes.read_text() == "# My notes\n"
    assert not (tmp_path / "runs").exists()


def test_plan_without_parameters_keeps_ffn_dim(tmp_path: Path) -> None:
    run = read_plan(write_plan(tmp_path, parameters=None, tokens={"limit": 100}))[1]
    done = _do_run(tmp_path / "runs", None, "cpu", run)
    assert done["params"] == Model(ModelConfig(vocab_size=100, **run.model)).parameter_count
    assert done["command"] == run.command
    assert done["dataset"] == "ptb-small"
