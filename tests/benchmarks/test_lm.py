"""The stored language models belong to their plans and have the stored sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from ghrr_lab import lm
from ghrr_lab.lm.plan import read_plan

ROOT = Path(__file__).parents[2]

# Trained by an earlier version, in which a window had one more tap and values had positions without effect.
_EARLIER = {("ghrr-window", "head fixed"), ("ghrr-learned", "head fixed"), ("ghrr-learned-0.6", "head trained")}
_EARLIER |= {("ghrr-feature", "qkv trained"), ("ghrr-feature", "different trained"), ("ghrr-window-5", "head fixed")}
_VOCABULARY = {"ptb": 10_000, "wikitext-2": 33_278}
_LM = ROOT / "results" / "lm"
_LM_FOLDERS = {"tuned": _LM, "rate 1e-3": _LM / "at-1e-3", "once an epoch": _LM / "once-an-epoch"}


def _stored_runs(folder: Path) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["runs"]
    return runs


@pytest.mark.parametrize("folder", _LM_FOLDERS.values(), ids=list(_LM_FOLDERS))
def test_stored_runs_equal_their_plans(folder: Path) -> None:
    runs = _stored_runs(folder)
    planned = [run for plan in sorted((folder / "plans").glob("*.json")) for run in read_plan(plan)]
    assert sorted(run["command"] for run in runs) == sorted(run.command for run in planned)
    assert (folder / "summary.md").read_text(encoding="utf-8") == lm.markdown_table(runs)
    for run in runs:
        base = next(other for other in runs if (other["dataset"], other["attention"]) == (run["dataset"], "vanilla"))
        assert abs(run["params"] / base["params"] - 1) < 0.001
        assert run["steps"] == base["steps"]


@pytest.mark.parametrize("folder", _LM_FOLDERS.values(), ids=list(_LM_FOLDERS))
def test_stored_parameter_counts_equal_those_of_the_models(folder: Path) -> None:
    """Build the models of the stored commands, and count their parameters."""
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
