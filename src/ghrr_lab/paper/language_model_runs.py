"""Results of language models: those published in the paper, and ours, read from the summary of ``ghrr lm compare``.

The summary is a JSON file::

    {"runs": [{"dataset": "ptb", "attention": "ghrr-feature", "position_sharing": "qkv", "trainable_positions": true,
               "seed": 0, "test_ppl": 91.5, "params": 5390000}, ...]}

``tokens_per_s`` and ``command`` are optional. Models without GHRR positions ("vanilla", "rope") have no
``position_sharing`` and ``trainable_positions``, or null values. Files of ghrr 0.1 say ``position_trainable``.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ghrr.checks import names_errors
from ghrr.files import check_fields, read_json

DATA = {"ptb": "Penn Treebank", "wikitext-2": "WikiText-2", "wikitext-2-small": "WikiText-2, small vocabulary"}
SHARING = {"all": "all same", "qkv": "Q, K, V differ", "head": "heads differ", "different": "all different"}
NONE, FIXED, TRAINED = "none", "fixed", "trained"
VANILLA = "vanilla"
# Sharing, positions, and mean and standard deviation of five runs on WikiText-2 and on the Penn Treebank.
_PUBLISHED = (
    (NONE, NONE, (29.16, 0.13), (94.78, 0.23)),
    ("all", FIXED, (27.54, 0.08), (93.93, 0.09)),
    ("qkv", FIXED, (27.60, 0.10), (91.63, 0.04)),
    ("head", FIXED, (27.55, 0.06), (91.68, 0.11)),
    ("different", FIXED, (27.56, 0.09), (91.58, 0.08)),
    ("all", TRAINED, (27.54, 0.08), (93.98, 0.12)),
    ("qkv", TRAINED, (27.57, 0.12), (91.51, 0.08)),
    ("head", TRAINED, (27.56, 0.07), (91.53, 0.09)),
    ("different", TRAINED, (27.56, 0.05), (91.52, 0.05)),
)


def published_results() -> list[dict[str, Any]]:
    """Return the paper's table: data, model, sharing, positions, mean perplexity and standard deviation per cell."""
    rows = []
    for sharing, positions, *results in _PUBLISHED:
        for data, (mean, std) in zip(("wikitext-2", "ptb"), results, strict=True):
            row = {"data": data, "model": VANILLA if sharing == NONE else "ghrr", "sharing": sharing}
            rows.append({**row, "positions": positions, "perplexity": mean, "std": std})
    return rows


@names_errors
def read_runs(path: Path) -> list[dict[str, Any]]:
    """Read the runs in a file: data, model, sharing, positions, seed, perplexity and parameters per run.

    Returns an empty list if the file does not exist.

    Raises
    ------
    ValueError
        If the file is malformed. The message names the file and the run.
    """
    if not path.exists():
        return []
    content = check_fields(str(path), read_json(path), {"runs": list})
    runs: dict[tuple[object, ...], dict[str, Any]] = {}
    for number, run in enumerate(content["runs"]):
        where = f"{path}, run {number}"
        row = _read_run(where, run)
        key = tuple(row[name] for name in ("data", "model", "sharing", "positions", "seed"))
        if key in runs:
            raise ValueError(f"{where}: same configuration and seed as run {list(runs).index(key)}")
        runs[key] = row
    return list(runs.values())


def _read_run(where: str, run: object) -> dict[str, Any]:
    if not isinstance(run, dict):
        raise ValueError(f"{where}: expected an object, got {run!r}")
    row: dict[str, Any] = {
        "data": _get(where, run, "dataset", str, one_of=DATA),
        "model": _get(where, run, "attention", str),
        "sharing": NONE,
        "positions": NONE,
        "seed": _get(where, run, "seed", int),
        "perplexity": float(_get(where, run, "test_ppl", float)),
        "parameters": _get(where, run, "params", int),
        "tokens_per_s": run.get("tokens_per_s"),
        "command": run.get("command", ""),
    }
    if not (math.isfinite(row["perplexity"]) and row["perplexity"] >= 1):
        raise ValueError(f"{where}: test_ppl must be finite and at least 1, got {row['perplexity']}")
    if row["parameters"] < 1:
        raise ValueError(f"{where}: params must be at least 1, got {row['parameters']}")
    if row["model"].startswith("ghrr"):
        row["sharing"] = _get(where, run, "position_sharing", str, one_of=SHARING)
        trainable = "position_trainable" if "position_trainable" in run else "trainable_positions"
        row["positions"] = TRAINED if _get(where, run, trainable, bool) else FIXED
    return row


def _get(where: str, run: dict[str, Any], key: str, kind: type, one_of: dict[str, str] | None = None) -> Any:
    """Return the value of a key after checking its type and, if given, that it is one of the allowed values."""
    names = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}
    if key not in run:
        raise ValueError(f"{where}: {key} is missing")
    value = run[key]
    allowed = (int, float) if kind is float else kind
    if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{where}: {key} must be {names[kind]}, got {value!r}")
    if one_of is not None and value not in one_of:
        raise ValueError(f"{where}: {key} must be one of {', '.join(one_of)}, got {value!r}")
    return value
