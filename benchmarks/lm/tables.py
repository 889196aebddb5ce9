"""Tables of the stored language models, for docs/results/language-models.md and docs/lm-log.md."""

from __future__ import annotations

import json
import math
import shlex
import statistics
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common.paths import ROOT
from ghrr_lab.lm.config import rename_settings, setting_names

_LM = ROOT / "results" / "lm"
_STEPS = ROOT / "results" / "benchmarks"

# Label and variant of a model in the stored runs, and its name in the tables.
_NAMES = {
    ("vanilla", ""): "vanilla, sinusoidal positions",
    ("rope", ""): "RoPE",
    ("rope-gain-0.5", ""): "RoPE, small Q and K at the start",
    ("ghrr-split-gain-0.25", "head fixed"): (
        "GHRR, Λ fixed, window 5, shared keys and values, split inputs, small Q and K at the start"
    ),
    ("ghrr-gain-0.125", "head fixed"): "GHRR, Λ fixed, window 5, small Q and K at the start",
    ("ghrr-gain-learned", "head fixed"): "GHRR, Λ learned, window 5, small Q and K at the start",
    ("ghrr-split", "head fixed"): "GHRR, Λ fixed, window 5, shared keys and values, split inputs",
    ("ghrr-grouped", "head fixed"): "GHRR, Λ fixed, window 3, shared keys and values",
    ("ghrr-window-5", "head trained"): "GHRR, Λ fixed, window 5, trained positions",
    ("ghrr-window-5", "head fixed"): "GHRR, Λ fixed, window 5",
    ("ghrr-window", "head fixed"): "GHRR, Λ fixed, window 3",
    ("ghrr-learned-0.6", "head trained"): "GHRR, Λ and positions learned, window 3",
    ("ghrr-learned", "head fixed"): "GHRR, Λ learned, window 3",
    ("ghrr-feature", "all fixed"): "GHRR, Λ fixed, no window",
    ("ghrr-row", "all fixed"): "GHRR, the paper's E_j literally",
}
_CORPORA = {"ptb": "PTB", "wikitext-2": "WikiText-2"}
_PAPER_GAIN = {"ptb": 3.4, "wikitext-2": 5.5}  # percent by which the paper's best model is below vanilla


class Model(NamedTuple):
    """A model on a corpus: means and standard deviations over seeds."""

    label: str
    variant: str
    seeds: int
    valid: float
    test: float
    std: float
    phases_trainable: bool | None  # None without GHRR


def _runs(folder: Path) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["runs"]
    return runs


def _models(folder: Path = _LM) -> dict[str, dict[tuple[str, str], Model]]:
    """Return the models of each corpus by label and variant."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for run in _runs(folder):
        groups.setdefault((run["dataset"], run["attention"], run["variant"]), []).append(run)
    found: dict[str, dict[tuple[str, str], Model]] = {}
    for (corpus, label, variant), runs in groups.items():
        test = [run["test_ppl"] for run in runs]
        valid = statistics.mean(run["valid_ppl"] for run in runs)
        std = statistics.stdev(test) if len(test) > 1 else math.nan
        model = Model(label, variant, len(runs), valid, statistics.mean(test), std, runs[0]["phases_trainable"])
        found.setdefault(corpus, {})[label, variant] = model
    return found


def perplexity() -> tuple[list[str], list[list[str]]]:
    """Return the test perplexity of every model: mean ± standard deviation over seeds."""
    tuned, slow = _models(), _models(_LM / "at-1e-3")
    columns = (tuned["ptb"], tuned["wikitext-2"], slow["wikitext-2"])
    rows = []
    for key, name in _NAMES.items():
        cells = [column.get(key) for column in columns]
        rows.append([name, *("" if model is None else f"{_perplexity(model)} ({model.seeds})" for model in cells)])
    return ["attention", "PTB", "WikiText-2", "WikiText-2, rate 1e-3"], rows


def _perplexity(model: Model) -> str:
    return f"{model.test:.1f}" + (f" ± {model.std:.1f}" if math.isfinite(model.std) else "")


def best(corpus: str, prefix: str, *, trainable: bool = False) -> Model:
    """Return the model with the lowest validation perplexity of the models with five seeds, with Λ fixed or learned."""
    models = [
        model
        for model in _models()[corpus].values()
        if model.seeds == 5 and model.label.startswith(prefix) and bool(model.phases_trainable) == trainable
    ]
    return min(models, key=lambda model: model.valid)


def gain(ours: Model, base: Model) -> str:
    """Return by how many percent a perplexity is below another, with its standard error."""
    ratio = ours.test / base.test
    error = ratio * math.hypot(*(model.std / model.test / math.sqrt(model.seeds) for model in (ours, base)))
    return f"{100 * (1 - ratio):.1f} ± {100 * error:.1f} %"


def comparison() -> tuple[list[str], list[list[str]]]:
    """Compare the best GHRR models, by validation perplexity, with vanilla attention and the best RoPE."""
    rows = []
    for corpus, title in _CORPORA.items():
        vanilla, rope = best(corpus, "vanilla"), best(corpus, "rope")
        for kind, trainable in (("Λ fixed", False), ("Λ learned", True)):
            ours = best(corpus, "ghrr", trainable=trainable)
            paper = "" if trainable else f"{_PAPER_GAIN[corpus]} %"
            rows.append([title, kind, _perplexity(ours), gain(ours, vanilla), paper, gain(ours, rope)])
    return ["corpus", "best GHRR", "perplexity", "below vanilla", "below vanilla in the paper", "below RoPE"], rows


def steps() -> tuple[list[str], list[list[str]]]:
    """Return the time of a training step, relative to vanilla attention."""
    names = {
        "vanilla": "vanilla",
        "rope": "RoPE",
        "ghrr-feature": "GHRR, no window",
        "ghrr-window": "GHRR, window 3",
        "ghrr-window-5": "GHRR, window 5",
        "ghrr-grouped": "GHRR, window 3, shared keys and values",
        "ghrr-split": "GHRR, window 5, shared keys and values, split inputs",
    }
    columns = []
    for path in (_STEPS / "lm_step.json", _STEPS / "wikitext-2" / "lm_step.json"):
        measured = json.loads(path.read_text(encoding="utf-8"))["rows"]
        columns.append({row["attention"]: f"{row['ratio']:.2f}" for row in measured})
    rows = [[name, *(column.get(label, "") for column in columns)] for label, name in names.items()]
    return ["attention", "PTB", "WikiText-2"], rows


def commands() -> str:
    """Return the commands of the best models with fixed Λ, first seed."""
    lines = []
    for corpus in _CORPORA:
        model = best(corpus, "ghrr")
        wanted = (corpus, model.label, model.variant, 0)
        [command] = [
            run["command"]
            for run in _runs(_LM)
            if (run["dataset"], run["attention"], run["variant"], run["seed"]) == wanted
        ]
        lines.append(_current_names(command))
    return "\n".join(["```", *lines, "```"])


def _current_names(command: str) -> str:
    """Translate the settings in a stored command of version 0.1."""
    words = shlex.split(command)
    settings = dict(word.removeprefix("--set=").split("=", 1) for word in words if word.startswith("--set="))
    model_settings = setting_names(old=True) - {"seed"}  # in a command, seed is a setting of the training
    model = {name: json.loads(value) for name, value in settings.items() if name in model_settings}
    training = {name: json.loads(value) for name, value in settings.items() if name not in model}
    renamed = {**rename_settings(model), **training}
    kept = [word for word in words if not word.startswith("--set=")]
    return shlex.join([*kept, *(f"--set={name}={json.dumps(value)}" for name, value in renamed.items())])


def design_effects(number: int) -> tuple[list[str], list[list[str]]]:
    """Return the effect of each change in a fractional factorial design on perplexity, by least squares, best first."""
    design = json.loads((_LM / "designs.json").read_text(encoding="utf-8"))["designs"][number]
    runs, changes = design["runs"], design["changes"]
    columns = [[1, *((change in run["changes"]) - 0.5 for change in changes), run["seed"] - 0.5] for run in runs]
    results = [[run["valid_ppl"], run["test_ppl"]] for run in runs]
    effects = np.linalg.lstsq(np.array(columns, dtype=float), np.array(results), rcond=None)[0][1:-1]
    ranked = sorted(zip(changes, effects.tolist(), strict=True), key=lambda entry: sum(entry[1]))
    return ["change", "valid", "test"], [[change, *(f"{effect:+.2f}" for effect in pair)] for change, pair in ranked]
