"""The public names, and what the documents say about the code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import ghrr
from ghrr import lm, ops, paper, testing, unitary
from ghrr.lm.compare import read_plan

ROOT = Path(__file__).parent.parent


def test_public_names_are_frozen() -> None:
    assert ghrr.__all__ == [
        "Hypervector",
        "ItemMemory",
        "Match",
        "Record",
        "Space",
        "__version__",
        "adjoint",
        "backend",
        "bind",
        "bind_bundle",
        "bundle",
        "commutativity",
        "commutator",
        "encoding",
        "load",
        "memory",
        "multibind",
        "nn",
        "normalize",
        "ops",
        "pairwise_similarity",
        "power",
        "resonator",
        "save",
        "shift",
        "similarity",
        "structures",
        "testing",
        "unbind",
        "unbind_similarity",
        "unitary",
    ]
    assert ops.__all__ == [
        "adjoint",
        "backend",
        "bind",
        "bind_bags",
        "bind_bundle",
        "bind_bundle_pairs",
        "bind_pairs",
        "bind_similarity",
        "bundle",
        "fractional_power",
        "in_use",
        "multibind",
        "pairwise_similarity",
        "power",
        "shift",
        "similarity",
    ]
    assert unitary.__all__ == [
        "check_unitary",
        "diagonality",
        "exp_hermitian",
        "haar",
        "orthonormalize",
        "polar",
        "unitarity_error",
        "with_diagonality",
    ]
    assert testing.__all__ == ["LAWS", "Law", "check_encoder", "check_laws", "check_quasi_orthogonal"]
    for module in (ghrr, ops, unitary, testing):
        assert all(hasattr(module, name) for name in module.__all__)


def test_public_functions_have_an_example_and_shapes() -> None:
    for name in ghrr.__all__:
        documented = getattr(ghrr, name)
        if callable(documented):
            assert ">>> " in documented.__doc__ or "See :func:`save`" in documented.__doc__, name
        if callable(documented) and documented.__module__ == "ghrr.algebra":
            assert "Shapes\n" in documented.__doc__, name


def test_backends_offer_the_same_operations() -> None:
    for name in ops.__all__:
        if name not in ("backend", "in_use"):
            assert callable(getattr(ops.reference, name))
            assert callable(getattr(ops.torch_backend, name))


def test_the_picture_of_the_layers_is_the_import_rule() -> None:
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [name for layer in rules[0]["layers"] for name in layer.split(" | ")]
    picture = re.findall(r'font-weight="600"[^>]*>([^<]+)<', (ROOT / "docs" / "layers.svg").read_text())
    drawn = [name for row in picture for name in row.split(" · ")]
    assert sorted(drawn) == sorted(layers)
    assert [name for name in drawn if not name.startswith("_")] == [n for n in layers if not n.startswith("_")]
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert all(f"`{name}`" in page for name in layers)


def test_versions_agree() -> None:
    assert f"\nversion: {ghrr.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"## {ghrr.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_core_needs_neither_command_line_nor_plotting() -> None:
    code = (
        "import sys, importlib.abc\n"
        "class Refuse(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in {'typer', 'rich', 'matplotlib', 'pandas', 'jinja2', 'torchhd'}:\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "import ghrr\n"
        "print(ghrr.Space(4, 2).atoms('a')[0])\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "Hypervector(a, dim=4, m=2, complex64)\n"


def test_the_readme_counts_the_verdicts_of_the_stored_run() -> None:
    manifest = json.loads((ROOT / "results" / "paper" / "manifest.json").read_text(encoding="utf-8"))
    counts = Counter(claim["verdict"] for experiment in manifest["experiments"] for claim in experiment["claims"])
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"Of {counts.total()} claims, {counts['reproduced']} are reproduced, {counts['erratum']} are errata" in text
    assert f"{counts['partly']} hold partly, {counts['consistent']} are consistent with the paper's own table" in text
    assert set(counts) == {"reproduced", "erratum", "partly", "consistent", "not reproduced"}
    verb = "is" if counts["not reproduced"] == 1 else "are"
    assert f"and {counts['not reproduced']} {verb} not reproduced: with our language models" in text
    assert f"(`{manifest['command']}`" in text
    assert [experiment["name"] for experiment in manifest["experiments"]] == list(paper.EXPERIMENTS)


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
_STEPS = {"ptb": ("lm_step.json", "ghrr-split"), "wikitext-2": ("wikitext-2/lm_step.json", "ghrr-window-5")}
_LM = ROOT / "results" / "lm"
_LM_FOLDERS = {"tuned": _LM, "rate 1e-3": _LM / "at-1e-3", "once an epoch": _LM / "once-an-epoch"}


def _stored_runs(folder: Path) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["runs"]
    return runs


def test_the_readme_shows_the_stored_perplexities() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows, slow = (
        {(row["dataset"], row["attention"], row["variant"]): row for row in lm.average(_stored_runs(folder))}
        for folder in (_LM_FOLDERS["tuned"], _LM_FOLDERS["rate 1e-3"])
    )
    lines = re.findall(r"^\| ([^|]+) \|" + r" ([^|]*?) ?\|" * 3 + "$", text, flags=re.MULTILINE)[1:]
    assert [name for name, *_ in lines] == list(_SHOWN)
    columns = ((rows, "ptb"), (rows, "wikitext-2"), (slow, "wikitext-2"))
    for name, *cells in lines:
        for cell, (stored, dataset) in zip(cells, columns, strict=True):
            row = stored.get((dataset, *_SHOWN[name]))
            expected = "" if row is None else f"{row['test_ppl']:.1f} ± {row['test_std']:.1f} ({row['seeds']})"
            assert cell == expected.replace(" ± nan", ""), (name, dataset)
    learned = {run["attention"] for run in _stored_runs(_LM) if run["phases_trainable"]}
    for dataset, words in (("ptb", "{:.1f} % below vanilla on PTB"), ("wikitext-2", "and {:.1f} % on WikiText-2")):
        base, best = (rows[dataset, *_SHOWN[name]]["test_ppl"] for name in (_BASE, _BEST[dataset]))
        of_five = [row for row in rows.values() if row["dataset"] == dataset and row["seeds"] == 5]
        fixed = [row for row in of_five if row["attention"].startswith("ghrr") and row["attention"] not in learned]
        ropes = [row for row in of_five if row["attention"].startswith("rope")]
        for shown, among in ((_BEST[dataset], fixed), (_BEST_ROPE, ropes)):
            assert rows[dataset, *_SHOWN[shown]] == min(among, key=lambda row: float(row["valid_ppl"]))
        assert words.format(100 * (1 - best / base)) in " ".join(text.split())
    for dataset, name, words in (
        ("ptb", _BEST["ptb"], "{:.1f} % below rope on PTB ({:.1f} ± {:.1f} against {:.1f} ± {:.1f})"),
        ("wikitext-2", _LEARNED, "{:.1f} % below rope on WikiText-2 ({:.1f} ± {:.1f} against {:.1f} ± {:.1f})"),
    ):
        ours, rope = rows[dataset, *_SHOWN[name]], rows[dataset, *_SHOWN[_BEST_ROPE]]
        numbers = [x for row in (ours, rope) for x in (row["test_ppl"], row["test_std"])]
        assert words.format(100 * (1 - ours["test_ppl"] / rope["test_ppl"]), *numbers) in " ".join(text.split())
    ratios = []
    for file, model in _STEPS.values():
        steps = json.loads((ROOT / "benchmarks" / "results" / file).read_text(encoding="utf-8"))["rows"]
        ratios.append(next(row["ratio"] for row in steps if row["attention"] == model))
    words = "A training step takes {:.2f} times as long as vanilla's for the best of PTB and {:.2f} times for that of"
    assert words.format(*ratios) in " ".join(text.split())


@pytest.mark.parametrize("folder", _LM_FOLDERS.values(), ids=list(_LM_FOLDERS))
def test_the_stored_language_models_are_those_of_the_plans(folder: Path) -> None:
    runs = _stored_runs(folder)
    planned = [run for plan in sorted((folder / "plans").glob("*.json")) for run in read_plan(plan)]
    assert sorted(run["command"] for run in runs) == sorted(run.command for run in planned)
    assert (folder / "summary.md").read_text(encoding="utf-8") == lm.markdown_table(runs) + "\n"
    for run in runs:
        base = next(other for other in runs if (other["dataset"], other["attention"]) == (run["dataset"], "vanilla"))
        assert abs(run["params"] / base["params"] - 1) < 0.001
        assert run["steps"] == base["steps"]


def test_the_readme_shows_the_stored_speeds() -> None:
    shown = {
        "H200, against a copy of as many bytes": ("speed_gpu", "bind", "copy"),
        "H200, against `torch.matmul`": ("speed_gpu", "bind", "matmul"),
        "two CPU cores, out of cache, against FHRR's product": ("speed", "bind, out of cache", "FHRR"),
        "two CPU cores, in cache, against `torch.matmul`": ("speed", "bind, in cache", "matmul"),
    }
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| ([^|]+) \|" + r" ([\d.]+) \|" * 8 + "$", text, flags=re.MULTILINE)
    assert [name for name, *_ in lines] == list(shown)
    for name, *cells in lines:
        file, group, rival = shown[name]
        stored = json.loads((ROOT / "benchmarks" / "results" / f"{file}.json").read_text(encoding="utf-8"))
        expected = [row["ratios"][rival]["median"] for row in stored["rows"] if row["group"] == group]
        assert cells == [f"{ratio:.2g}" if ratio < 9.95 else f"{ratio:.0f}" for ratio in expected], name
