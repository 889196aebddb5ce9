"""Kinds of columns, inferred from their values and names."""

from __future__ import annotations

import datetime
import random
from typing import Any

import pytest

from ghrr.encoding.column_kinds import KINDS, infer_kind

RNG = random.Random(0)
SALARIES = [round(RNG.lognormvariate(10.7, 0.35)) for _ in range(300)]
COLUMNS: dict[str, tuple[str, list[Any], str]] = {
    "integer salaries": ("x", SALARIES, "number"),
    "salaries of one length": ("x", [s for s in SALARIES if 10_000 <= s < 100_000], "number"),
    "numbers as strings": ("x", [f"{n / 10}" for n in range(50)], "number"),
    "money": ("x", [f"${s:,.2f}" for s in SALARIES], "number"),
    "European money": ("x", ["1.250,00 €", "80,50 €"], "number"),
    "percentages": ("x", ["12.5%", "3 %"], "number"),
    "years": ("x", [1990, 1985, 2003, 1990], "number"),
    "years as strings": ("x", ["1990", "1985"], "number"),
    "dates": ("x", ["03.05.2021", "24.12.1999"], "date"),
    "written dates": ("x", ["May 3, 2021", "December 24, 1999"], "date"),
    "date objects": ("x", [datetime.date(2020, 1, 1), datetime.datetime(2021, 1, 1)], "date"),
    "compact dates": ("x", ["19830227", "20010101", "19991231"], "date"),
    "random identifiers": ("x", [RNG.randrange(10**6, 10**7) for _ in range(300)], "text"),
    "identifiers in order": ("x", [870_000 + 2 * n for n in range(100)], "text"),
    "identifiers with copies and errors": (
        "x",
        [*(870_000 + 2 * n for n in range(200)), 870_006, 8_700_014, 8701],
        "text",
    ),
    "random identifiers with errors": ("x", [*random.Random(1).sample(range(10**6, 10**7), 300), 12, 10**9], "text"),
    "row numbers": ("x", list(range(1, 101)), "text"),
    "rounded numbers": ("x", RNG.sample(range(10_000, 100_000, 10), 300), "number"),
    "points in time": ("Month", list(range(1, 101)), "number"),
    "identifiers with missing values": ("x", [float(RNG.randrange(10**6, 10**7)) for _ in range(300)], "text"),
    "rows of a large table": ("x", list(range(1, 20_001)), "text"),
    "months": ("x", ["2021-03", "2020-12"], "date"),
    "written months": ("x", ["Mar 2021", "December 2020"], "date"),
    "durations": ("x", [datetime.timedelta(days=2)], "date"),
    "flags as strings": ("x", ["0", "1", "1"], "boolean"),
    "decimal zeros and ones": ("x", [0.0, 1.0, 1.0], "boolean"),
    "words that are no pair": ("x", ["yes", "f"] * 10, "category"),
    "few categories of a few values": ("x", ["red", "red", "blue"], "category"),
    "a few names": ("x", ["Ann", "Bob", "Cid"], "text"),
    "leading zeros": ("x", ["00123", "17", "20"], "text"),
    "zip codes": ("zip_code", [10_115, 80_331, 20_095, 10_115], "text"),
    "zip codes with an error": ("zip", [*(str(n) for n in range(110, 900, 7)), "x1"], "text"),
    "telephone numbers in groups": ("phone", ["555 123 400", "555 987 600"], "text"),
    "totals of accounts": ("account_total", ["$1,250", "$18,300"], "number"),
    "balances of accounts": ("account", [12.5, 80.25], "number"),
    "telephone numbers": ("Phone", [5_551_234, 5_559_876], "text"),
    "codes": ("x", ["A-77", "B-12", "C-99"], "text"),
    "zeros and ones": ("x", [0, 1, 1, 0], "boolean"),
    "yes and no": ("x", ["Yes", "no", "yes"], "boolean"),
    "booleans": ("x", [True, False], "boolean"),
    "few categories": ("x", ["red", "green", "blue"] * 8, "category"),
    "names": ("x", [f"person {n}" for n in range(50)], "text"),
    "a constant": ("x", ["import"] * 30, "category"),
    "mixed types": ("x", [1, "two", 3.0, "four"], "text"),
    "lists": ("x", [["a"], ["b", "c"]], "set"),
    "points": ("location", [[52.5, 13.4], [48.1, 11.6]], "point"),
    "embeddings": ("x", [[0.5] * 16, [0.25] * 16], "embedding"),
    "nothing": ("x", [], "text"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_kind_is_inferred(name: str) -> None:
    column, values, kind = COLUMNS[name]
    assert infer_kind(column, values).kind == kind
    assert kind in KINDS


def test_name_decides_where_values_do_not() -> None:
    values = [RNG.randrange(30_000, 90_000) for _ in range(12)]
    assert infer_kind("customer_id", values).kind == "text"
    assert infer_kind("salary", values).kind == "number"
    assert infer_kind("customerId", values).kind == "text"


def test_doubt_is_stated() -> None:
    assert "day or month" in infer_kind("x", ["03/05/2021", "04/06/2021"]).doubt
    assert "identifiers" in infer_kind("x", list(range(1, 101))).doubt
    assert "numbers" in infer_kind("x", [*range(9), "unknown"]).doubt
    assert not infer_kind("x", ["2021-05-03"]).doubt


def test_a_few_wrong_values_do_not_change_the_kind() -> None:
    assert infer_kind("x", [*SALARIES, "unknown", "n/a"]).kind == "number"
    assert infer_kind("x", [*SALARIES[:30], *["unknown"] * 30]).kind != "number"


def test_identifiers_are_marked() -> None:
    def is_identifier(values: list[Any], name: str = "x") -> bool:
        return infer_kind(name, values).is_identifier

    codes = [f"{n * 7919 % 10_007:05d}" for n in range(100)]
    assert is_identifier(list(range(1, 101)))
    assert is_identifier([f"SKU-{code}" for code in codes])
    assert is_identifier([f"{RNG.getrandbits(64):016x}" for _ in range(100)])
    assert not is_identifier([f"SKU-{code}" for code in [*codes, codes[0]]])  # two are equal
    assert not is_identifier([f"{code[:3]}-{code}" for code in codes], "zip_code")
    assert not is_identifier([f"{n // 60:02d}:{n % 60:02d}:00" for n in range(100)])  # times
    assert not is_identifier([f"{code} {code}" for code in codes])
    assert not is_identifier(SALARIES)
