"""The benchmark of search: its scores, and a run on small generated data."""

from __future__ import annotations

import gzip
import importlib
import json
from pathlib import Path

import pytest

pytest.importorskip("sklearn")


def test_scores_of_pairs() -> None:
    search = importlib.import_module("benchmarks.search.measure")
    right = search.pairs_of([["a", "b", "c"]])
    assert right == {("a", "b"), ("a", "c"), ("b", "c")}
    scores = search.pair_scores({("a", "b"), ("x", "y")}, right)
    assert scores == pytest.approx({"precision": 1 / 2, "recall": 1 / 3, "f1": 2 / 5})
    assert search.recall([["a", "b"], ["c"], []], ["b", "c", "d"]) == pytest.approx(
        {"recall@1": 1 / 3, "recall@10": 2 / 3}
    )


def test_linkage_compares_all_methods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = importlib.import_module("benchmarks.search.measure")
    monkeypatch.setattr(search, "SEEDS", (0,))
    monkeypatch.setattr(search, "LABELLED", 10)
    rows = [f"product {i * 7919 % 1000} model x{i}" for i in range(30)]
    folder = tmp_path / "abt-buy"
    folder.mkdir()
    for side, names in (("left", rows), ("right", [row.upper() for row in rows])):
        text = "id|name|price\n" + "".join(f"{i}|{name}|{i + 10}\n" for i, name in enumerate(names))
        (folder / f"{side}.csv.gz").write_bytes(gzip.compress(text.encode()))
    pairs = "D1|D2\n" + "".join(f"{i}|{i}\n" for i in range(30))
    (folder / "matches.csv.gz").write_bytes(gzip.compress(pairs.encode()))
    found = {row["method"]: row["recall@1"] for row in search.linkage(tmp_path, "abt-buy")}
    assert len(found) == 8
    assert found["vectors and documents"] == 1


def test_speed_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    speed = importlib.import_module("benchmarks.search.speed")
    monkeypatch.setattr(speed, "BATCH", 200)
    monkeypatch.setattr(speed, "REPEATS", 2)
    folder, out = str(tmp_path / "index"), str(tmp_path)
    for count in ("200", "300"):  # the second run goes on with the index of the first
        speed.main(["index", "--records", count, "--folder", folder, "--out", out])
    rows = json.loads((tmp_path / "search_speed.json").read_text())["index"]["rows"]
    assert [row["records"] for row in rows] == [200, 300]
    assert all(row["found_first"] > 0.9 and row["among_top_k"] > 0.9 for row in rows)


def test_stored_figure_is_current(tmp_path: Path) -> None:
    figures = importlib.import_module("benchmarks.search.figures")
    [drawn] = figures.main(["--out", str(tmp_path)])
    assert drawn.read_text() == (figures.FOLDER / drawn.name).read_text(), "run python -m benchmarks search.figures"
