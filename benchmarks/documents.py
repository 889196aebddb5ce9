"""Write the numbers of the documents from stored results.

README.md and the Markdown files under docs/ mark tables, and single numbers inside a sentence::

    <!-- table: calibration -->
    ...
    <!-- end of table -->

    <!-- value: paper-claims -->77<!-- end of value --> claims

This command replaces the text between the markers; a test checks that all documents are current::

    python -m benchmarks documents
"""

from __future__ import annotations

import argparse
import functools
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.paths import ROOT
from benchmarks.concepts import tables as concept_tables
from benchmarks.faults import tables as fault_tables
from benchmarks.first_try import report as first_try_report
from benchmarks.learn import tables as learning_tables
from benchmarks.lm import tables as lm_tables
from benchmarks.models import tables as compare_tables
from benchmarks.nn import tables as path_tables
from benchmarks.ops import first_use
from benchmarks.paper import tables as paper_tables
from benchmarks.reasoning import tables as reasoning_tables
from benchmarks.relations import chain_tables
from benchmarks.relations import peer_tables as relations_peer_tables
from benchmarks.relations import tables as relations_tables
from benchmarks.search import tables as search_tables
from benchmarks.structures.calibration import default_permute

RESULTS = ROOT / "results" / "benchmarks"
_BLOCK = re.compile(r"(<!-- table: (?P<name>[\w-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
_VALUE = re.compile(r"(<!-- value: (?P<name>[\w-]+) -->).*?(<!-- end of value -->)")


def stored(name: str) -> Any:
    """Read a stored result."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def formatted(make: Callable[[], tuple[Sequence[str], Sequence[Sequence[str]]]]) -> str:
    """Format the table that a function returns as head and rows; a sentence if it has no rows."""
    head, rows = make()
    return table(head, rows) if rows else "Nothing of this was measured."


def calibration() -> str:
    """Return the number of confident answers of every structure, and how many of them are correct."""
    rows = [row for row in stored("calibration")["rows"] if row["permute"] == "default"]
    names = list(dict.fromkeys(row["structure"] for row in rows))
    cells = {(row["structure"], row["m"]): f"{row['right']:,} of {row['confident']:,}" for row in rows}
    return table(
        ["structure", *(f"m = {m}" for m in (1, 2, 3, 4))],
        [[f"`{name}`", *(cells[name, m] for m in (1, 2, 3, 4))] for name in names],
    )


def calibration_permute() -> str:
    """Return the share of encoded items that are answered confidently, without and with shifts."""
    rows = stored("calibration")["rows"]
    names = [name for name in dict.fromkeys(row["structure"] for row in rows) if name not in ("Sequence", "Stack")]
    shares = {
        (
            row["structure"],
            row["m"],
            default_permute(row["structure"], row["m"]) if row["permute"] == "default" else row["permute"],
        ): f"{row['answered']:.0%}"
        for row in rows
    }
    return table(
        ["structure", *(f"m = {m}" for m in (1, 2, 3, 4))],
        [
            [f"`{name}`", *(f"{shares[name, m, False]} / {shares[name, m, True]}" for m in (1, 2, 3, 4))]
            for name in names
        ],
    )


def peer_operations() -> str:
    """Return our time divided by torch-hd's for every operation, in version 0.1 and now."""
    cells: dict[tuple[str, int], list[str]] = {}
    for name in ("peer_operations_before", "peer_operations"):
        for row in stored(name)["rows"]:
            setting = dict(row["setting"])
            m = setting.pop("m")
            what = row["operation"] + ("" if setting.get("batch", 1) == 1 else f", batch {setting['batch']}")
            cells.setdefault((what, m), []).append(f"{row['ratio']['median']:.2g}" if row["right"] else "wrong")
    names = list(dict.fromkeys(what for what, _ in cells))
    return table(
        ["operation", *(f"m = {m}" for m in (1, 2, 3, 4))],
        [[what, *(" → ".join(cells[what, m]) for m in (1, 2, 3, 4))] for what in names],
    )


def peer_models() -> str:
    """Return the time of our models divided by torch-hd's, for every model that both have."""
    rows = stored("peer_models")["rows"]
    operations = list(dict.fromkeys(row["operation"] for row in rows))
    cells = {
        (row["model"], row["operation"]): f"{row['ratio']['median']:.2g}" if row["right"] else "wrong" for row in rows
    }
    names = list(dict.fromkeys(row["model"] for row in rows))
    return table(
        ["model", *operations], [[name, *(cells[name, operation] for operation in operations)] for name in names]
    )


def memory_backends() -> str:
    """Return the time to add and to search items, for each backend."""
    rows = stored("memory_backends")["seconds"]
    return table(
        ["items", "backend", "add all", "100 queries", "1 query"],
        [
            [f"{row['items']:,}", row["backend"], *(_seconds(row[key]) for key in ("add", "query", "query 1"))]
            for row in rows
        ],
    )


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.2g} s"


def paper_errata() -> str:
    """Return the claims that are wrong as written, with their corrections: a heading and a table per experiment."""
    return "\n\n".join(f"## {heading}\n\n{table(*content)}" for heading, content in paper_tables.errata().items())


def paper_experiment(name: str) -> str:
    """Return source, command, figure and verdicts of an experiment."""
    return f"{paper_tables.introduction(name)}\n\n{table(*paper_tables.claims(name))}"


def speed_bind() -> str:
    """Return how many times faster ``bind`` is than other implementations, for m = 1 to 8."""
    measured = {
        "H200, against a copy of the same size": ("speed_gpu", "bind", "copy"),
        "H200, against `torch.matmul`": ("speed_gpu", "bind", "matmul"),
        "2 CPU cores, in cache, against `torch.matmul`": ("speed", "bind, in cache", "matmul"),
        "2 CPU cores, out of cache, against `torch.matmul`": ("speed", "bind, out of cache", "matmul"),
        "2 CPU cores, out of cache, against the elementwise product of FHRR": ("speed", "bind, out of cache", "FHRR"),
        "2 CPU cores, in cache, against the elementwise product of FHRR": ("speed", "bind, in cache", "FHRR"),
    }
    rows = [[name, *(_ratio(ratio) for ratio in _ratios(*where))] for name, where in measured.items()]
    return table(["", *(f"m = {m}" for m in range(1, 9))], rows)


def speed_gpu() -> str:
    """Return the speed of all products on a GPU, relative to a copy of the same size and to torch.matmul."""
    return _operations("speed_gpu", ("bind", "gradient by a", "gradient by b", "both gradients", "bind_bundle"))


def speed_cpu() -> str:
    """Return the speed of all products on two CPU cores, relative to a copy of the same size and to torch.matmul."""
    return _operations("speed", ("bind, in cache", "gradient by a", "gradient by b", "both gradients", "bind_bundle"))


def _operations(file: str, groups: Sequence[str]) -> str:
    rows = []
    for group in (*groups, "multibind", "unbind_similarity", "power"):
        copy, matmul = (_ratios(file, group, other)[:4] for other in ("copy", "matmul"))
        rows.append([group, *(f"{_ratio(a)} / {_ratio(b)}" for a, b in zip(copy, matmul, strict=True))])
    return table(["operation", *(f"m = {m}" for m in range(1, 5))], rows)


def _ratios(file: str, group: str, other: str) -> list[float]:
    return [row["ratios"][other]["median"] for row in stored(file)["rows"] if row["group"] == group]


def _ratio(value: float) -> str:
    return f"{value:.2g}" if value < 9.95 else f"{value:.0f}"


def speed_start() -> str:
    """Return the time of imports and first calls."""
    columns = [{_what(row): row["seconds"] for row in stored(file)["startup"]} for file in ("speed", "speed_gpu")]
    rows = [
        [what, *(f"{column[what]:.2g} s" if what in column else "" for column in columns)]
        for what in dict.fromkeys(what for column in columns for what in column)
    ]
    return table(["", "2 CPU cores", "H200"], rows)


def gpu_host_time() -> str:
    """Return the host time per call on a GPU, in version 0.1 and now."""
    before, now = (stored(name)["host_us"] for name in ("gpu_overhead_before", "gpu_overhead"))
    names = [name.removeprefix("m=3 ") for name in now if name.startswith("m=3 ")]
    names = [name for name in names if name not in ("empty_like", "ghrr.ops.bind")]
    return table(
        ["call, m = 3", "0.1", "now"],
        [[f"`{name}`", f"{before[f'm=3 {name}']:.0f} µs", f"{now[f'm=3 {name}']:.0f} µs"] for name in names],
    )


def _what(row: Any) -> str:
    return f"{row['what']}: `{row['operation']}`" if "operation" in row else str(row["what"])


TABLES: dict[str, Callable[[], str]] = {
    "peer-operations": peer_operations,
    "memory-backends": memory_backends,
    "calibration": calibration,
    "calibration-permute": calibration_permute,
    "paper-verdicts": lambda: table(*paper_tables.verdicts()),
    "paper-errata": paper_errata,
    "speed-bind": speed_bind,
    "speed-gpu": speed_gpu,
    "speed-cpu": speed_cpu,
    "speed-start": speed_start,
    "first-use": lambda: table(*first_use.table()),
    "gpu-host-time": gpu_host_time,
    "lm-perplexity": lambda: table(*lm_tables.perplexity()),
    "lm-comparison": lambda: table(*lm_tables.comparison()),
    "lm-steps": lambda: table(*lm_tables.steps()),
    "lm-commands": lm_tables.commands,
    "lm-design-1": lambda: table(*lm_tables.design_effects(0)),
    "lm-design-2": lambda: table(*lm_tables.design_effects(1)),
    "reasoning-attributes": lambda: table(*reasoning_tables.attributes()),
    "reasoning-transferred": lambda: table(*reasoning_tables.transferred()),
    "reasoning-x": lambda: table(*reasoning_tables.long_rows()),
    "reasoning-exact": lambda: table(*reasoning_tables.exactness()),
    "reasoning-moves": lambda: table(*reasoning_tables.moves()),
    "reasoning-confidence": lambda: table(*reasoning_tables.confidence()),
    "reasoning-calibration": lambda: table(*reasoning_tables.calibration()),
    "reasoning-undecidable": lambda: table(*reasoning_tables.undecidable()),
    "reasoning-images": lambda: table(*reasoning_tables.pixels()),
    "reasoning-published": lambda: table(*reasoning_tables.published()),
    "relations-metrics": lambda: table(*relations_tables.metrics()),
    "relations-unseen": lambda: table(*relations_tables.unseen()),
    "relations-length-penalties": lambda: table(*relations_tables.length_penalties()),
    "relations-settings": lambda: table(*relations_tables.settings()),
    "relations-tuning": lambda: table(*relations_tables.tuning()),
    "relations-times": lambda: table(*relations_tables.times()),
    "search-linkage": lambda: table(*search_tables.linkage()),
    "search-calibration": lambda: table(*search_tables.calibration()),
    "search-febrl": lambda: table(*search_tables.febrl()),
    "search-orders": lambda: table(*search_tables.orders()),
    "search-countries": lambda: table(*search_tables.countries()),
    "search-speed": lambda: table(*search_tables.speed()),
    "search-workers": lambda: table(*search_tables.workers()),
    "search-sizes": lambda: table(*search_tables.sizes()),
    "relations-peers": lambda: table(*relations_peer_tables.speed()),
    **{f"learning-{name}": functools.partial(formatted, make) for name, make in learning_tables.TABLES.items()},
    **{f"learning-{name}": make for name, make in learning_tables.TEXTS.items()},
    **{f"first-try-{name}": functools.partial(formatted, make) for name, make in first_try_report.TABLES.items()},
    **{f"compare-{name}": functools.partial(formatted, make) for name, make in compare_tables.TABLES.items()},
    "peer-models": peer_models,
    "path-gate": lambda: table(*path_tables.gate()),
    "path-S3": lambda: table(*path_tables.tracking("S3")),
    "faults": lambda: table(*fault_tables.campaigns()),
    "concept-capacity": lambda: table(*concept_tables.capacity()),
    "concept-rotations": lambda: table(*concept_tables.rotations()),
    "concept-suggest": lambda: table(*concept_tables.suggested()),
    "concept-cost": lambda: table(*concept_tables.cost()),
    "chains-2-3": lambda: table(*chain_tables.accuracy("train-2-3", "path")),
    "chains-2-4": lambda: table(*chain_tables.accuracy("train-2-3-4", "path")),
    "chains-errors-2-3": lambda: table(*chain_tables.errors("train-2-3")),
    "chains-errors-2-4": lambda: table(*chain_tables.errors("train-2-3-4")),
    "chains-lstm": lambda: table(*chain_tables.lstm_tuning()),
    "chains-generated": lambda: table(*chain_tables.generated()),
    "chains-held-out": lambda: table(*chain_tables.held_out()),
    "chains-calibration": lambda: table(*chain_tables.calibration()),
    "chains-unnamed": lambda: table(*chain_tables.unnamed()),
    "chains-complex": lambda: table(*chain_tables.complex_slots()),
    "chains-seconds": lambda: table(*chain_tables.seconds()),
    **{f"paper-{name}": functools.partial(paper_experiment, name) for name in paper_tables.names()},
}


def _range(ratios: Sequence[float]) -> str:
    return f"{_ratio(min(ratios))} to {_ratio(max(ratios))}"


def _lm_gain(corpus: str, base: str = "vanilla") -> str:
    return lm_tables.gain(lm_tables.best(corpus, "ghrr"), lm_tables.best(corpus, base))


def _peer_model(model: str, operation: str) -> float:
    rows = stored("peer_models")["rows"]
    return float(next(r["ratio"]["median"] for r in rows if (r["model"], r["operation"]) == (model, operation)))


def _confident_answers(key: str) -> str:
    return f"{sum(row[key] for row in stored('calibration')['rows'] if row['permute'] == 'default'):,}"


VALUES: dict[str, Callable[[], str]] = {
    "fault-runs": fault_tables.seeds,
    "compare-command": compare_tables.command,
    **{
        f"compare-bind-{model}": functools.partial(compare_tables.bind_time, model)
        for model in ("ghrr-4", "smr", "mbat")
    },
    "bsc-similarity": lambda: f"{1 / _peer_model('BSC', 'pairwise similarity'):.0f}",
    **learning_tables.VALUES,
    **{f"first-try-{name}": make for name, make in first_try_report.VALUES.items()},
    "calibration-confident": lambda: _confident_answers("confident"),
    "calibration-right": lambda: _confident_answers("right"),
    "paper-claims": lambda: str(paper_tables.count_verdicts().total()),
    "paper-reproduced": lambda: str(paper_tables.count_verdicts()["reproduced"]),
    "paper-errata": lambda: str(paper_tables.count_verdicts()["erratum"]),
    "paper-not-reproduced": lambda: str(paper_tables.count_verdicts()["not reproduced"]),
    "speed-gpu-copy": lambda: _range(_ratios("speed_gpu", "bind", "copy")),
    "speed-gpu-matmul": lambda: _range(_ratios("speed_gpu", "bind", "matmul")),
    "speed-cpu-matmul": lambda: _range(_ratios("speed", "bind, in cache", "matmul")),
    "reasoning-given": reasoning_tables.worst_given,
    "reasoning-picture-seeds": reasoning_tables.picture_seeds,
    "reasoning-learnt": reasoning_tables.mean_learnt,
    "reasoning-pixels": reasoning_tables.mean_pixels,
    "reasoning-ms": reasoning_tables.milliseconds,
    "relations-epoch": relations_tables.seconds_per_epoch,
    "relations-wn18rr-mrr": lambda: relations_tables.precise_mean("WN18RR", 10, "mrr"),
    "relations-wn18rr-hits": lambda: relations_tables.precise_mean("WN18RR", 10, "hits_at_10"),
    "chains-2-3": lambda: chain_tables.value("train-2-3", "chart", 8),
    "chains-2-3-m1": lambda: chain_tables.value("train-2-3", "chart", 1),
    "chains-product": lambda: chain_tables.value("train-2-3-4", "product", 8),
    "search-febrl-links": search_tables.febrl_links,
    "search-speed-load": search_tables.speed_load,
    "chains-100": lambda: chain_tables.value("train-2-3-4", "chart", 8, "generated", [100]),
    "chains-lstm-parameters": chain_tables.lstm_parameters,
    "path-norm-with": lambda: path_tables.norm("with"),
    "path-norm-without": lambda: path_tables.norm("without"),
    "path-S3-settings": lambda: path_tables.settings("S3"),
    "lm-ptb-gain": lambda: _lm_gain("ptb"),
    "lm-ptb-gain-rope": lambda: _lm_gain("ptb", "rope"),
    "lm-wikitext-2-gain": lambda: _lm_gain("wikitext-2"),
}


def render(text: str) -> str:
    """Return a document with all its tables and values replaced."""
    text = _BLOCK.sub(lambda match: f"{match[1]}\n{TABLES[match['name']]()}\n\n{match[3]}", text)
    return _VALUE.sub(lambda match: f"{match[1]}{VALUES[match['name']]()}{match[3]}", text)


def documents() -> list[Path]:
    """Return all Markdown files that can contain tables."""
    docs = ROOT / "docs"
    written = [path for path in docs.rglob("*.md") if path.relative_to(docs).parts[0] not in ("_build", "generated")]
    return sorted([ROOT / "README.md", *written])


def main() -> int:
    """Write all documents whose tables changed."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    for path in documents():
        text = path.read_text(encoding="utf-8")
        new = render(text)
        if new != text:
            path.write_text(new, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 0
