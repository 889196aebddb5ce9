"""The tables of the documents are those of the stored results."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
tables = importlib.import_module("tables")
sys.path.pop(0)


@pytest.mark.parametrize("path", tables.documents(), ids=lambda path: path.name)
def test_tables_are_current(path: Path) -> None:
    text = path.read_text()
    assert tables.render(text) == text, "run python benchmarks/tables.py"


def test_every_table_is_shown_once() -> None:
    shown = [match["name"] for path in tables.documents() for match in tables._BLOCK.finditer(path.read_text())]
    assert sorted(shown) == sorted(tables.TABLES)
