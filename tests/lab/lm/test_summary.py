"""Summaries: results are added to a file, averaged over seeds and formatted as a table."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from ghrr_lab.lm import average_over_seeds, markdown_table
from ghrr_lab.lm.summary import add_results


def result(seed: int, test: float, attention: str = "rope") -> dict[str, Any]:
    common = {"dataset": "ptb", "attention": attention, "variant": "", "params": 5, "tokens_per_s": 10 * seed}
    return {**common, "seed": seed, "valid_ppl": test + 1, "test_ppl": test, "command": f"ghrr {seed} '|'"}


def test_add_results_keeps_earlier_results(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lm.json"
    add_results(path, [result(1, 90.0)])
    add_results(path, [result(0, 80.0), result(0, 70.0, "vanilla")])
    assert json.loads(path.read_text())["runs"] == [result(0, 80.0), result(1, 90.0), result(0, 70.0, "vanilla")]
    add_results(path, [result(1, 85.0)])  # replaces the earlier result of this run
    assert json.loads(path.read_text())["runs"] == [result(0, 80.0), result(1, 85.0), result(0, 70.0, "vanilla")]


def test_average_over_seeds_has_one_row_per_configuration() -> None:
    rows = average_over_seeds([result(1, 80.0), result(2, 84.0), result(3, 88.0), result(0, 70.0, "vanilla")])
    assert [(row["attention"], row["seeds"], row["test_ppl"], row["valid_ppl"]) for row in rows] == [
        *(("rope", 3, 84.0, 85.0), ("vanilla", 1, 70.0, 71.0))
    ]
    assert rows[0]["test_std"] == pytest.approx(4.0)
    assert math.isnan(rows[1]["test_std"])  # one seed has no standard deviation
    assert rows[0]["tokens_per_s"] == 20


def test_markdown_table_has_one_line_per_configuration() -> None:
    runs = [result(10, 84.0), result(2, 80.0), result(0, 70.0, "a|b\nc")]
    assert markdown_table([{**runs[0], "params": 5_000}, {**runs[1], "params": 12_000}, runs[2]]).splitlines() == [
        "| data | attention | variant | seeds | parameters | valid | test | tokens/s | command (first seed) |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        r"| ptb | rope |  | 2 | 5,000 to 12,000 | 83.00 | 82.00 ± 2.83 | 60 | `ghrr 2 '\|'` |",
        r"| ptb | a\|b c |  | 1 | 5 | 71.00 | 70.00 |  | `ghrr 0 '\|'` |",
        "",
        "Perplexities: mean over seeds ± standard deviation. Tokens/s: median of runs that may have shared a device.",
    ]
