"""Comparisons: every run of a plan once, with as many parameters each, in a summary that the paper's table reads."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch

from ghrr.lm import Model, ModelConfig, RunError, average, compare, generate_grammar_text, markdown_table
from ghrr.lm.plan import read_plan
from ghrr.lm.summary import add_results
from ghrr.paper.language_model_runs import read_runs

PARAMETERS = 20_000
KEYS = {"dataset", "attention", "variant", "seed", "params", "valid_ppl", "test_ppl", "tokens_per_s", "command"}
POSITIONS = {"position_sharing": "qkv", "trainable_positions": True}
PLAN: dict[str, Any] = {
    "parameters": PARAMETERS,
    "model": {"embed_dim": 16, "num_layers": 1, "num_heads": 2, "max_len": 8, "dropout": 0.1},
    "training": {"epochs": 1, "batch": 8, "warmup": 2},
    "runs": [
        {"label": "vanilla", "model": {"attention": "vanilla"}, "training": {"learning_rate": 0.01}, "seeds": [1]},
        {"label": "ghrr-feature", "variant": "qkv, trained", "model": POSITIONS, "seeds": [0, 1]},
    ],
}


def write_plan(folder: Path, **changes: Any) -> Path:
    """A plan for a small corpus in a folder called like the Penn Treebank, the real one being no one's to ship."""
    corpus = folder / "ptb"
    corpus.mkdir(exist_ok=True)
    for seed, split in enumerate(("train", "valid", "test")):
        (corpus / f"{split}.txt").write_text(generate_grammar_text(60, seed=seed))
    path = folder / "plan.json"
    path.write_text(json.dumps({"dataset": str(corpus), **PLAN, **changes}))
    return path


def test_a_plan_is_done_once_and_summarised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    plan, summary = write_plan(tmp_path), tmp_path / "results" / "lm.json"
    seen: list[tuple[dict[str, Any], int, int]] = []

    def note(result: dict[str, Any], done: int, total: int) -> None:
        stored = json.loads(summary.read_text())["runs"]
        assert result in stored
        assert len(stored) == done
        seen.append((result, done, total))

    results = compare(plan, tmp_path / "runs", summary=summary, jobs=2, device="cpu", on_result=note)
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
        assert [run for run in runs if json.loads(path.read_text()).items() <= run.items()]
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


def test_a_plan_in_order_of_seeds(tmp_path: Path) -> None:
    runs = read_plan(write_plan(tmp_path, tokens={"limit": 100}))
    assert [(run.label, run.training["seed"]) for run in runs] == [
        *(("ghrr-feature", 0), ("vanilla", 1), ("ghrr-feature", 1))
    ]
    assert runs[1].training == {"epochs": 1, "batch": 8, "warmup": 2, "learning_rate": 0.01, "seed": 1}
    assert runs[1].model == {**PLAN["model"], "attention": "vanilla"}
    assert [run.parameters for run in runs] == [PARAMETERS] * 3
    assert len({run.folder for run in runs}) == 3
    assert runs[0].folder.endswith("limit-100-ghrr-feature-qkv-trained-0")


def test_the_command_says_all_that_is_set(tmp_path: Path) -> None:
    run = read_plan(write_plan(tmp_path, tokens={"limit": 100}))[0]
    words = shlex.split(run.command)
    assert words[:6] == ["ghrr", "lm", "train", run.dataset, "--out", f"runs/{run.folder}"]
    assert {"--limit=100", f"--params={PARAMETERS}"} <= set(words)
    settings = dict(word.removeprefix("--set=").split("=") for word in words if word.startswith("--set="))
    assert {name: json.loads(value) for name, value in settings.items()} == {**run.model, **run.training}
    assert "--params" not in read_plan(write_plan(tmp_path, parameters=None))[0].command


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"run": []}, ValueError, "unknown ['run'], missing nothing; known are ['dataset', 'model', 'parameters',"),
        ({"runs": [{"label": "a"}]}, ValueError, "unknown nothing, missing ['seeds']; known are ['label', 'model',"),
        ({"runs": [{"label": "a", "seeds": [0], "lr": 1}]}, ValueError, "unknown ['lr'], missing nothing"),
        ({"runs": ["a"]}, ValueError, "expected an object with label, model, seeds, training, variant, got 'a'"),
        ({"runs": [{"label": "a", "seeds": [0, 0]}]}, ValueError, "a-0; give them different labels"),
        ({"runs": [{"label": "a", "seeds": [0]}, {"label": "a", "seeds": [1, 0]}]}, ValueError, "two runs are called"),
        ({"runs": [{"label": "a", "seeds": 3}]}, ValueError, "a: seeds must be a list of at least one number, got 3"),
        ({"runs": [{"label": "a", "seeds": []}]}, ValueError, "a: seeds must be a list of at least one number"),
        ({"runs": [{"label": 1, "seeds": [0]}]}, ValueError, "label and variant must be strings, got 1"),
        ({"model": [1]}, ValueError, "model must be an object of settings, got [1]"),
        ({"model": {"vocab_size": 7}}, ValueError, "vocab_size follows from the text; use tokens to limit it"),
        (
            {"runs": [{"label": "a", "model": {"window": 0}, "seeds": [0]}]},
            ValueError,
            "ModelConfig: window must be",
        ),
        (
            {"model": {"num_layers": 0}},
            ValueError,
            "ModelConfig: num_layers must be a whole number of at least 1",
        ),
        ({"model": {"window": 2}}, ValueError, "vanilla: ModelConfig: window=2 needs attention 'ghrr', got 'vanilla'"),
        ({"model": {"depth": 3}}, ValueError, "ModelConfig: unknown settings depth; known are attention,"),
        ({"model": {"attention": "none"}}, ValueError, "ModelConfig: attention must be one of"),
        ({"training": {"epoch": 3}}, ValueError, "unexpected keyword argument 'epoch'"),
        ({"training": {"epochs": 0}}, ValueError, "TrainConfig: epochs must be a whole number of at least 1"),
        ({"runs": [{"label": "a", "seeds": [-1]}]}, ValueError, "TrainConfig: seed must be"),
    ],
)
def test_a_plan_with_a_mistake_fails_before_anything_runs(
    tmp_path: Path, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    plan = write_plan(tmp_path, **changes)
    with pytest.raises(error, match=re.escape(message)):
        compare(plan, tmp_path / "runs", summary=tmp_path / "lm.json")
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "lm.json").exists()


def test_reading_a_plan_draws_nothing(tmp_path: Path) -> None:
    runs = [{"label": "unitary", "model": {"weights": "unitary"}, "seeds": [0]}]
    before = torch.get_rng_state()
    assert len(read_plan(write_plan(tmp_path, runs=runs))) == 1
    assert torch.equal(torch.get_rng_state(), before)


def test_a_plan_that_is_not_json(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{")
    with pytest.raises(ValueError, match=re.escape(f"read_plan({str(tmp_path / 'plan.json')!r}): not valid JSON")):
        read_plan(tmp_path / "plan.json")
    (tmp_path / "plan.json").write_text("[]")
    with pytest.raises(ValueError, match="expected an object with dataset, model, parameters"):
        read_plan(tmp_path / "plan.json")


def test_what_fails_in_a_run_comes_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    plan = write_plan(tmp_path, training={"batch": 10_000})
    with pytest.raises(RunError, match="too few for one batch of 10000 windows of 8"):
        compare(plan, tmp_path / "runs", summary=tmp_path / "lm.json", device="cpu")
    assert not (tmp_path / "lm.json").exists()


def result(seed: int, test: float, attention: str = "rope") -> dict[str, Any]:
    common = {"dataset": "ptb", "attention": attention, "variant": "", "params": 5, "tokens_per_s": 10 * seed}
    return {**common, "seed": seed, "valid_ppl": test + 1, "test_ppl": test, "command": f"ghrr {seed} '|'"}


def test_results_are_added_to_those_that_are_there(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lm.json"
    add_results(path, [result(1, 90.0)])
    add_results(path, [result(0, 80.0), result(0, 70.0, "vanilla")])
    assert json.loads(path.read_text())["runs"] == [result(0, 80.0), result(1, 90.0), result(0, 70.0, "vanilla")]
    add_results(path, [result(1, 85.0)])  # the same run again
    assert json.loads(path.read_text())["runs"] == [result(0, 80.0), result(1, 85.0), result(0, 70.0, "vanilla")]


def test_seeds_are_averaged() -> None:
    rows = average([result(1, 80.0), result(2, 84.0), result(3, 88.0), result(0, 70.0, "vanilla")])
    assert [(row["attention"], row["seeds"], row["test_ppl"], row["valid_ppl"]) for row in rows] == [
        *(("rope", 3, 84.0, 85.0), ("vanilla", 1, 70.0, 71.0))
    ]
    assert rows[0]["test_std"] == pytest.approx(4.0)
    assert rows[1]["test_std"] != rows[1]["test_std"]  # of one number there is none
    assert rows[0]["tokens_per_s"] == 20


def test_a_table_has_a_line_for_each_configuration() -> None:
    runs = [result(10, 84.0), result(2, 80.0), result(0, 70.0, "a|b\nc")]
    assert markdown_table([{**runs[0], "params": 5_000}, {**runs[1], "params": 12_000}, runs[2]]).splitlines() == [
        "| data | attention | variant | seeds | parameters | valid | test | tokens/s | command (first seed) |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        r"| ptb | rope |  | 2 | 5,000 to 12,000 | 83.00 | 82.00 ± 2.83 | 60 | `ghrr 2 '\|'` |",
        r"| ptb | a\|b c |  | 1 | 5 | 71.00 | 70.00 |  | `ghrr 0 '\|'` |",
        "",
        "Perplexities: mean over seeds ± standard deviation. Tokens/s: median of runs that may have shared a device.",
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("s.md", None, "results are JSON, and their table goes beside them; name a file that ends in .json"),
        ("s.MD", None, "results are JSON"),
        ("", None, "results are JSON"),
        ("s.json", "{", "s.json is no summary"),
        ("s.json", "[]", "s.json is no summary"),
        ("s.json", '{"runs": 3}', "s.json is no summary"),
        ("s.json", '{"runs": ["a"]}', "s.json is no summary"),
        (
            "s.json",
            '{"runs": [{"dataset": "ptb", "seed": 0}]}',
            "run 0: attention is missing",
        ),
    ],
)
def test_a_summary_that_cannot_be_added_to(tmp_path: Path, name: str, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=re.escape(message)):
        compare(write_plan(tmp_path), tmp_path / "runs", summary=tmp_path / name)
    assert not (tmp_path / "runs").exists()


def test_notes_beside_a_summary_are_not_replaced(tmp_path: Path) -> None:
    notes = tmp_path / "s.md"
    notes.write_text("# My notes\n")
    with pytest.raises(ValueError, match=r"s\.md is there and holds no table of runs, which would replace it; name"):
        compare(write_plan(tmp_path), tmp_path / "runs", summary=tmp_path / "s.json")
    assert notes.read_text() == "# My notes\n"
    assert not (tmp_path / "runs").exists()


def test_parameters_are_those_of_the_model(tmp_path: Path) -> None:
    """Without a wish for parameters the feed-forward nets are as they are set."""
    from ghrr.lm.compare import _do

    run = read_plan(write_plan(tmp_path, parameters=None, tokens={"limit": 100}))[1]
    done = _do(tmp_path / "runs", None, "cpu", run)
    assert done["params"] == Model(ModelConfig(vocab_size=100, **run.model)).parameter_count
    assert done["command"] == run.command
    assert done["dataset"] == "ptb-small"
