"""Results of many runs: stored in one JSON file, averaged over seeds, and formatted as a table."""

from __future__ import annotations

import json
import math
import os
import statistics
from pathlib import Path
from typing import Any

from ghrr.checks import names_errors, value_error, without_name
from ghrr.files import atomic_write, check_fields, read_bytes, read_json

_RESULT_FIELDS: dict[str, type | tuple[type, ...]] = {
    "dataset": str,
    "attention": str,
    "variant": str,
    "seed": int,
    "params": int,
    "valid_ppl": float,
    "test_ppl": float,
    "tokens_per_s": (float, type(None)),
    "command": (str, type(None)),
}
_COLUMNS = ("data", "attention", "variant", "seeds", "parameters", "valid", "test", "tokens/s", "command (first seed)")
_NOTE = "Perplexities: mean over seeds ± standard deviation. Tokens/s: median of runs that may have shared a device."


def add_results(path: str | os.PathLike[str], results: list[dict[str, Any]]) -> None:
    """Add results to a summary file. A result replaces an earlier one of the same run."""
    target = Path(path)
    keyed = {_key(run): run for run in [*stored_runs(target), *results]}
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(target) as temporary:
        lines = ",\n".join(json.dumps(keyed[key]) for key in sorted(keyed))
        temporary.write_text(f'{{"runs": [\n{lines}\n]}}\n', encoding="utf-8")


@names_errors
def average_over_seeds(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Average the results of runs that differ only in their seed.

    Parameters
    ----------
    runs
        Results of :func:`ghrr_lab.lm.compare`.

    Returns
    -------
    list of dict
        One row per dataset, attention and variant, with the number of seeds, the mean perplexities and the standard
        deviation of the test perplexity (NaN for one seed).

    Examples
    --------
    >>> from ghrr_lab.lm import average_over_seeds
    >>> run = {"dataset": "ptb", "attention": "rope", "variant": "", "params": 5, "tokens_per_s": 7, "valid_ppl": 1.0}
    >>> (row,) = average_over_seeds([{**run, "seed": seed, "test_ppl": 2.0 + seed} for seed in range(3)])
    >>> row["seeds"], row["test_ppl"], row["test_std"]
    (3, 3.0, 1.0)
    """
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault(_key(run)[:3], []).append(run)
    rows = []
    for (dataset, attention, variant), members in groups.items():
        valid, test = ([run[name] for run in members] for name in ("valid_ppl", "test_ppl"))
        rows.append(
            {
                "dataset": dataset,
                "attention": attention,
                "variant": variant,
                "seeds": len(members),
                "params": members[0]["params"],
                "valid_ppl": statistics.mean(valid),
                "test_ppl": statistics.mean(test),
                "test_std": statistics.stdev(test) if len(test) > 1 else math.nan,
                "tokens_per_s": round(statistics.median(run["tokens_per_s"] or 0 for run in members)),
            }
        )
    return rows


@names_errors
def markdown_table(runs: list[dict[str, Any]]) -> str:
    """Format results as a Markdown table with one line per dataset, attention and variant.

    Parameters
    ----------
    runs
        Results of :func:`ghrr_lab.lm.compare`.

    Examples
    --------
    >>> from ghrr_lab.lm import markdown_table
    >>> run = {"dataset": "ptb", "attention": "rope", "variant": "", "seed": 0, "params": 5000, "tokens_per_s": 7000}
    >>> print(markdown_table([{**run, "valid_ppl": 9.0, "test_ppl": 8.0, "command": "ghrr lm train ptb"}]))
    | data | attention | variant | seeds | parameters | valid | test | tokens/s | command (first seed) |
    | --- | --- | --- | --- | --- | --- | --- | --- | --- |
    | ptb | rope |  | 1 | 5,000 | 9.00 | 8.00 | 7,000 | `ghrr lm train ptb` |
    <BLANKLINE>
    Perplexities: mean over seeds ± standard deviation. Tokens/s: median of runs that may have shared a device.
    <BLANKLINE>
    """
    lines = [_COLUMNS, ("---",) * len(_COLUMNS)]
    for row in average_over_seeds(runs):
        group = tuple(row[name] for name in ("dataset", "attention", "variant"))
        members = sorted((run for run in runs if _key(run)[:3] == group), key=_key)
        sizes = sorted({run["params"] for run in members})
        test = f"{row['test_ppl']:.2f}" + (f" ± {row['test_std']:.2f}" if len(members) > 1 else "")
        speed = f"{row['tokens_per_s']:,}" if row["tokens_per_s"] else ""
        size = " to ".join(f"{n:,}" for n in sizes[:: max(1, len(sizes) - 1)])
        command = f"`{members[0]['command']}`"
        lines.append((*group, str(len(members)), size, f"{row['valid_ppl']:.2f}", test, speed, command))
    table = ["| " + " | ".join(" ".join(cell.split()).replace("|", r"\|") for cell in line) + " |" for line in lines]
    return "\n".join([*table, "", _NOTE, ""])


def stored_runs(path: Path) -> list[dict[str, Any]]:
    """Return the runs of a summary file, or an empty list if there is no file."""
    if not path.exists():
        return []
    try:
        runs = check_fields("summary", read_json(path), {"runs": list})["runs"]
        return [check_fields(f"run {number}", run, _RESULT_FIELDS) for number, run in enumerate(runs)]
    except ValueError as error:
        raise ValueError(f"{path} is not a summary of runs: {without_name(error)}; choose another file") from error


def check_summary(path: Path) -> None:
    """Raise ``ValueError`` if results cannot be added to a file, or if their table would overwrite another file."""
    if path.suffix.lower() in ("", ".md") or path.is_dir():
        raise value_error(f"summary must be a file that ends in .json, got {path}; the table is written next to it")
    stored_runs(path)
    table, header = path.with_suffix(".md"), f"| {' | '.join(_COLUMNS)} |"
    if table.exists() and not read_bytes(table).startswith(header.encode()):
        raise value_error(f"{table} would be overwritten, and it is not a table of runs; rename the summary")


def _key(run: dict[str, Any]) -> tuple[str, str, str, int]:
    return (run["dataset"], run["attention"], run["variant"], run["seed"])
