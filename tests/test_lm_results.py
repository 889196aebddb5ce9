"""The stored language models: what README and the log say of them, their plans, their sizes."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from ghrr import lm
from ghrr.lm.plan import read_plan

ROOT = Path(__file__).parents[1]

_BASE = "vanilla, sinusoidal positions"
_BEST = {  # of those with Λ fixed, by the validation text
    "ptb": "GHRR, Λ fixed, window of 5, keys and values shared, inputs split, Q and K small at first",
    "wikitext-2": "GHRR, Λ fixed, window of 5, Q and K small at first",
}
_BEST_ROPE = "rope, Q and K small at first"
_LEARNED = "GHRR, Λ learned, window of 5, Q and K small at first"
_SHOWN = {
    _BASE: ("vanilla", ""),
    "rope": ("rope", ""),
    _BEST_ROPE: ("rope-gain-0.5", ""),
    _BEST["ptb"]: ("ghrr-split-gain-0.25", "head fixed"),
    _BEST["wikitext-2"]: ("ghrr-gain-0.125", "head fixed"),
    _LEARNED: ("ghrr-gain-learned", "head fixed"),
    "GHRR, Λ fixed, window of 5, keys and values shared, inputs split": ("ghrr-split", "head fixed"),
    "GHRR, Λ fixed, window of 3, keys and values shared": ("ghrr-grouped", "head fixed"),
    "GHRR, Λ fixed, window of 5, positions trained": ("ghrr-window-5", "head trained"),
    "GHRR, Λ fixed, window of 5": ("ghrr-window-5", "head fixed"),
    "GHRR, Λ fixed, window of 3": ("ghrr-window", "head fixed"),
    "GHRR, Λ and positions learned, window of 3": ("ghrr-learned-0.6", "head trained"),
    "GHRR, Λ learned, window of 3": ("ghrr-learned", "head fixed"),
    "GHRR, Λ fixed, plain": ("ghrr-feature", "all fixed"),
    "GHRR, the paper's E_j literally": ("ghrr-row", "all fixed"),
}
_STEPS = {  # where the step of a model is measured, and its name there
    "ghrr-split-gain-0.25": ("lm_step.json", "ghrr-split"),
    "ghrr-gain-0.125": ("wikitext-2/lm_step.json", "ghrr-window-5"),
}
# Made when a window had a tap for the token itself too, and values had positions, trained and without effect.
_EARLIER = {("ghrr-window", "head fixed"), ("ghrr-learned", "head fixed"), ("ghrr-learned-0.6", "head trained")}
_EARLIER |= {("ghrr-feature", "qkv trained"), ("ghrr-feature", "different trained"), ("ghrr-window-5", "head fixed")}
_VOCABULARY = {"ptb": 10_000, "wikitext-2": 33_278}
_LM = ROOT / "results" / "lm"
_LM_FOLDERS = {"tuned": _LM, "rate 1e-3": _LM / "at-1e-3", "once an epoch": _LM / "once-an-epoch"}


def _stored_runs(folder: Path) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["runs"]
    return runs


def below(ours: dict[str, Any], base: dict[str, Any]) -> tuple[float, float]:
    """By how many percent, and the standard error of that."""
    ratio = ours["test_ppl"] / base["test_ppl"]
    errors = (row["test_std"] / row["test_ppl"] / math.sqrt(row["seeds"]) for row in (ours, base))
    return 100 * (1 - ratio), 100 * ratio * math.hypot(*errors)


def _averages(folder: Path) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {
        (row["dataset"], row["attention"], row["variant"]): row for row in lm.average_over_seeds(_stored_runs(folder))
    }


def _words_of_readme() -> str:
    return " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


def test_the_readme_shows_the_stored_perplexities() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows, slow = _averages(_LM), _averages(_LM_FOLDERS["rate 1e-3"])
    lines = re.findall(r"^\| ([^|]+) \|" + r" ([^|]*?) ?\|" * 3 + "$", text, flags=re.MULTILINE)[1:]
    assert [name for name, *_ in lines] == list(_SHOWN)
    columns = ((rows, "ptb"), (rows, "wikitext-2"), (slow, "wikitext-2"))
    for name, *cells in lines:
        for cell, (stored, dataset) in zip(cells, columns, strict=True):
            row = stored.get((dataset, *_SHOWN[name]))
            expected = "" if row is None else f"{row['test_ppl']:.1f} ± {row['test_std']:.1f} ({row['seeds']})"
            assert cell == expected.replace(" ± nan", ""), (name, dataset)


@pytest.mark.parametrize(
    ("dataset", "words"),
    [("ptb", "{:.1f} ± {:.1f} % below vanilla on PTB"), ("wikitext-2", "and {:.1f} ± {:.1f} % on WikiText-2")],
)
def test_the_readme_compares_the_best_by_validation_with_vanilla(dataset: str, words: str) -> None:
    rows, learned = _averages(_LM), {run["attention"] for run in _stored_runs(_LM) if run["phases_trainable"]}
    base, best = (rows[dataset, *_SHOWN[name]] for name in (_BASE, _BEST[dataset]))
    of_five = [row for row in rows.values() if row["dataset"] == dataset and row["seeds"] == 5]
    fixed = [row for row in of_five if row["attention"].startswith("ghrr") and row["attention"] not in learned]
    ropes = [row for row in of_five if row["attention"].startswith("rope")]
    for shown, among in ((_BEST[dataset], fixed), (_BEST_ROPE, ropes)):
        assert rows[dataset, *_SHOWN[shown]] == min(among, key=lambda row: float(row["valid_ppl"]))
    assert words.format(*below(best, base)) in _words_of_readme()


@pytest.mark.parametrize(
    ("dataset", "name", "corpus"), [("ptb", _BEST["ptb"], "PTB"), ("wikitext-2", _LEARNED, "WikiText-2")]
)
def test_the_readme_compares_with_the_better_rope(dataset: str, name: str, corpus: str) -> None:
    rows = _averages(_LM)
    ours, rope = rows[dataset, *_SHOWN[name]], rows[dataset, *_SHOWN[_BEST_ROPE]]
    words = "{:.1f} ± {:.1f} % below rope on " + corpus + " ({:.1f} ± {:.1f} against {:.1f} ± {:.1f})"
    numbers = [x for row in (ours, rope) for x in (row["test_ppl"], row["test_std"])]
    assert words.format(*below(ours, rope), *numbers) in _words_of_readme()


def test_the_readme_tells_steps_and_commands_of_the_best() -> None:
    ratios = []
    for dataset, name in _BEST.items():
        label, variant = _SHOWN[name]
        file, model = _STEPS[label]
        steps = json.loads((ROOT / "benchmarks" / "results" / file).read_text(encoding="utf-8"))["rows"]
        ratios.append(next(row["ratio"] for row in steps if row["attention"] == model))
        wanted = (dataset, label, variant, 0)
        run = next(r for r in _stored_runs(_LM) if (r["dataset"], r["attention"], r["variant"], r["seed"]) == wanted)
        assert f"\n{run['command']}\n" in (ROOT / "README.md").read_text(encoding="utf-8")
    words = "A training step takes {:.2f} times as long as vanilla's for the best of PTB and {:.2f} times for that of"
    assert words.format(*ratios) in _words_of_readme()


@pytest.mark.parametrize("folder", _LM_FOLDERS.values(), ids=list(_LM_FOLDERS))
def test_the_stored_language_models_are_those_of_the_plans(folder: Path) -> None:
    runs = _stored_runs(folder)
    planned = [run for plan in sorted((folder / "plans").glob("*.json")) for run in read_plan(plan)]
    assert sorted(run["command"] for run in runs) == sorted(run.command for run in planned)
    assert (folder / "summary.md").read_text(encoding="utf-8") == lm.markdown_table(runs)
    for run in runs:
        base = next(other for other in runs if (other["dataset"], other["attention"]) == (run["dataset"], "vanilla"))
        assert abs(run["params"] / base["params"] - 1) < 0.001
        assert run["steps"] == base["steps"]


@pytest.mark.parametrize("folder", _LM_FOLDERS.values(), ids=list(_LM_FOLDERS))
def test_the_stored_sizes_are_those_of_the_models(folder: Path) -> None:
    """Of the commands, as they make models today."""
    stored = {run["command"]: run for run in _stored_runs(folder)}
    counts: dict[str, int] = {}
    for plan in sorted((folder / "plans").glob("*.json")):
        for run in read_plan(plan):
            kind = json.dumps([run.dataset, run.tokens, run.parameters, run.model])
            if kind not in counts:
                with torch.device("meta"):
                    vocabulary = run.tokens.get("limit", _VOCABULARY[run.dataset])
                    config = lm.ModelConfig.from_dict({"vocab_size": vocabulary, **run.model})
                    config = config if run.parameters is None else lm.match_parameters(config, run.parameters)
                    counts[kind] = lm.Model(config).parameter_count
            found = stored[run.command]
            assert found["model"] == run.model
            if (run.label, run.variant) in _EARLIER and run.parameters is not None:
                assert abs(found["params"] / counts[kind] - 1) < 0.0005
            else:
                assert found["params"] == counts[kind]


def test_the_log_shows_the_effects_of_the_designs() -> None:
    """Least squares: the mean, each change, and the seed."""
    log = (ROOT / "docs" / "lm-log.md").read_text(encoding="utf-8").replace("**", "")
    for design in json.loads((_LM / "designs.json").read_text(encoding="utf-8"))["designs"]:
        runs, changes = design["runs"], design["changes"]
        columns = [[1, *((c in run["changes"]) - 0.5 for c in changes), run["seed"] - 0.5] for run in runs]
        results = [[run["valid_ppl"], run["test_ppl"]] for run in runs]
        found = torch.linalg.lstsq(torch.tensor(columns).double(), torch.tensor(results).double()).solution
        for change, effects in zip(changes, found[1:-1].tolist(), strict=True):
            assert "| {} | {:+.2f} | {:+.2f} |".format(change, *effects) in log
