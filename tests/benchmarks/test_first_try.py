"""Benchmark of first tries: tables are what they say; measures tell a perfect contestant from a useless one."""

from __future__ import annotations

import datetime
import importlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("faker")
SIZE = 80


@pytest.fixture
def tables() -> ModuleType:
    return importlib.import_module("benchmarks.first_try.tables")


@pytest.fixture
def measure() -> ModuleType:
    return importlib.import_module("benchmarks.first_try.measure")


@pytest.fixture
def report() -> ModuleType:
    return importlib.import_module("benchmarks.first_try.report")


# --------------------------------------------------------------------------------------------------------------- tables


def test_generated_table_depends_on_its_seed_alone(tables: ModuleType) -> None:
    assert tables.generated(6, SIZE) == tables.generated(6, SIZE)
    assert tables.generated(6, SIZE).raw != tables.generated(20, SIZE).raw


def test_even_seeds_are_for_tuning_and_odd_ones_are_reported(tables: ModuleType) -> None:
    assert [tables.generated(seed, 30).half for seed in range(4)] == ["tuning", "reported"] * 2
    assert len(tables.SEEDS) >= 200


def test_every_truth_of_generators_occurs(tables: ModuleType) -> None:
    truths = set(tables.counts_of_truths([tables.generated(seed, 30) for seed in range(40)]))
    real_alone = {"integer"}
    assert truths == set(importlib.import_module("benchmarks.first_try.kinds").TRUTHS) - real_alone


def test_values_are_what_their_truth_says(tables: ModuleType) -> None:
    checks: dict[str, Callable[[Any], bool]] = {
        "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
        "money": lambda value: isinstance(value, float),
        "date": lambda value: isinstance(value, datetime.date),
        "flag": lambda value: isinstance(value, bool),
        "name": lambda value: isinstance(value, str) and len(value) > 1,
        "set": lambda value: isinstance(value, list) and len(value) >= 1,
    }
    for seed in range(24):
        table = tables.generated(seed, 40)
        for column in table.columns:
            check = checks.get(column.truth, lambda value: True)
            assert all(check(row[column.name]) for row in table.raw if column.name in row), (seed, column)


@pytest.mark.parametrize(
    ("truth", "style", "raw", "written"),
    [
        ("money", "{:,.2f} €", 1234.5, "1.234,50 €"),
        ("money", "${:,.2f}", 1234.5, "$1,234.50"),
        ("percent", "{:.0f} %", 12.0, "12 %"),
        ("date", "dmy/", datetime.date(2021, 3, 5), "05/03/2021"),
        ("date", "short", datetime.date(2021, 3, 5), "Mar 5, 2021"),
        ("flag", "0/1", True, 1),
        ("year", "string", 1999, "1999"),
        ("name", "", "Ada", "Ada"),
    ],
)
def test_values_are_written_in_the_style_of_their_column(truth: str, style: str, raw: Any, written: Any) -> None:
    assert importlib.import_module("benchmarks.first_try.columns").write(truth, style, raw) == written


@pytest.mark.parametrize("raw", [7, 2.5, 41_000, 0.001, -3])
def test_numbers_with_an_error_are_near_and_differ(raw: float) -> None:
    near = importlib.import_module("benchmarks.first_try.columns").near
    found = [near(raw, random.Random(seed)) for seed in range(50)]
    assert raw not in found
    unit = 1 if isinstance(raw, int) else 10.0 ** -len(str(raw).partition(".")[2])
    assert all(abs(value - raw) <= max(unit, 0.05 * abs(raw)) + unit / 2 for value in found)


def test_copies_differ_in_one_to_three_fields(tables: ModuleType) -> None:
    table = tables.generated(48, 120)
    documents, pairs = tables.with_copies(table)
    assert len(documents) == len(table.raw) + len(pairs)
    assert len(pairs) == round(0.05 * len(table.raw))
    keys = {column.name for column in table.columns if column.is_key}
    for a, b in pairs:
        names = (documents[a].keys() | documents[b].keys()) - keys
        differing = [name for name in names if documents[a].get(name) != documents[b].get(name)]
        assert 0 <= len(differing) <= 3, differing
    assert sum(documents[a] != documents[b] for a, b in pairs) >= 0.9 * len(pairs)


def test_tables_without_copies_have_no_equal_rows(tables: ModuleType) -> None:
    for seed in (0, 2, 16, 48):
        table = tables.generated(seed, 200)
        if tables.can_have_copies(table):
            rows = [json.dumps(row, default=str, sort_keys=True) for row in table.raw]
            assert len(set(rows)) == len(rows), seed


def test_damaged_examples_lack_some_values_and_differ_from_their_rows(tables: ModuleType) -> None:
    table = tables.generated(48, 120)
    examples, right = tables.damaged(table, 50)
    documents = table.documents()
    pairs = [(example, documents[row]) for example, row in zip(examples, right, strict=True)]
    assert all(example for example, _ in pairs)
    kept = sum(value == row[name] for example, row in pairs for name, value in example.items())
    total = sum(len(example) for example in examples)
    assert 0.3 < kept / total < 0.7
    assert total < 0.8 * sum(len(row) for _, row in pairs)


def test_keel_sets_are_in_one_half_and_new() -> None:
    halves = importlib.import_module("benchmarks.first_try.real").KEEL
    used = set(importlib.import_module("benchmarks.learn.data").SOURCES)
    tuning, reported = ({name.partition(":")[0] for name in halves[half]} for half in ("tuning", "reported"))
    assert not tuning & reported
    assert not (tuning | reported) & used
    assert len(halves["reported"]) >= 15


def test_keel_columns_have_the_types_of_their_values(tmp_path: Path) -> None:
    real = importlib.import_module("benchmarks.first_try.real")
    path = real.keel_path(tmp_path, "pima")
    path.parent.mkdir(parents=True)
    path.write_text("1, 0.5,a, positive\n2, 3,b, negative\n")
    assert real.read_keel(path) == [[1, 2], [0.5, 3.0], ["a", "b"], ["positive", "negative"]]


# ------------------------------------------------------------------------------------------------------------- measures


def test_kinds_that_are_the_truth_are_all_right_and_others_are_wrong(tables: ModuleType, measure: ModuleType) -> None:
    accepted = importlib.import_module("benchmarks.first_try.kinds").ACCEPTED
    table = tables.generated(48, 120)
    perfect = {one.name: sorted(accepted[one.truth])[0] for one in table.columns if accepted[one.truth]}
    right = measure.score_kinds(table, perfect, "search")
    assert right["right"] == right["columns"] == len(perfect)
    useless = measure.score_kinds(table, dict.fromkeys(perfect, "embedding"), "search")
    assert useless["right"] == 0
    assert {one["got"] for one in useless["wrong"]} == {"embedding"}


def test_recall_is_1_of_a_perfect_search_and_near_0_of_a_constant_one(tables: ModuleType, measure: ModuleType) -> None:
    table = tables.generated(48, 120)
    right = tables.damaged(table, 200)[1]
    assert measure.recall(table, lambda documents, examples: right)["recall@1"] == 1
    assert measure.recall(table, lambda documents, examples: [right[0]] * len(examples))["recall@1"] < 0.05


def test_f1_is_1_of_perfect_pairs_and_near_0_of_all_pairs(tables: ModuleType, measure: ModuleType) -> None:
    table = tables.generated(48, 120)
    right = tables.with_copies(table)[1]
    assert measure.f1_of_copies(table, lambda documents: right)["f1"] == 1
    everything = measure.f1_of_copies(table, lambda rows: {(a, b) for b in range(len(rows)) for a in range(b)})
    assert everything["recall"] == 1
    assert everything["f1"] < 0.01
    assert measure.f1_of_copies(table, lambda documents: set())["f1"] == 0


def test_pairs_without_copies_are_counted(tables: ModuleType, measure: ModuleType) -> None:
    table = tables.generated(48, 60)
    assert measure.pairs_without_copies(table, lambda documents: set())["found"] == 0
    assert measure.pairs_without_copies(table, lambda documents: {(0, 1), (1, 2)})["found"] == 2


def _by_brute_force(table: Any, measure: ModuleType) -> Callable[[Any, Any], list[Any]]:
    answers = [rows for _, _, rows in measure.conditions(table)]
    return lambda documents, asked: answers


def test_filters_of_brute_force_are_right_and_others_wrong(tables: ModuleType, measure: ModuleType) -> None:
    table = tables.generated(48, 60)
    found = measure.wrong_filters(table, _by_brute_force(table, measure))
    assert sum(found["asked"].values()) > 15
    assert sum(found["wrong"].values()) == 0
    useless = measure.wrong_filters(table, lambda documents, asked: [{-1}] * len(asked))
    assert sum(useless["wrong"].values()) == sum(useless["asked"].values())


def test_an_error_in_a_filter_counts_as_wrong(tables: ModuleType, measure: ModuleType) -> None:
    table = tables.generated(48, 60)
    found = measure.wrong_filters(table, lambda documents, asked: ["ValueError: no"] * len(asked))
    assert sum(found["wrong"].values()) == sum(found["asked"].values())


def test_tfidf_finds_rows_that_are_not_damaged(tables: ModuleType) -> None:
    peers = importlib.import_module("benchmarks.first_try.peers")
    documents = tables.generated(48, 60).documents()
    for method in peers.TFIDF:
        assert peers.tfidf_search(method)(documents, documents[:20]) == list(range(20))


def test_best_threshold_is_between_scores() -> None:
    best = importlib.import_module("benchmarks.first_try.peers").best_threshold
    assert best({(0, 1): 0.9, (2, 3): 0.8, (4, 5): 0.1}, {(0, 1), (2, 3)}) == 1
    assert best({(0, 1): 0.9, (2, 3): 0.9}, {(0, 1)}) == pytest.approx(2 / 3)  # equal scores cannot be told apart
    assert best({(0, 1): 0.9}, {(2, 3)}) == 0


def test_goal_depends_on_its_columns(tables: ModuleType, measure: ModuleType) -> None:
    from sklearn.dummy import DummyClassifier

    goals, peers = (
        importlib.import_module("benchmarks.first_try.goals"),
        importlib.import_module("benchmarks.first_try.peers"),
    )
    import pandas as pd

    goal = goals.with_target(tables.generated(100, 300), 100)
    estimator = peers.estimators(pd.DataFrame(goal.rows), goal.is_classes)["logistic regression"]
    chance = measure.fold_scores(goal, DummyClassifier())["score"]
    assert measure.fold_scores(goal, estimator)["score"] > chance + 0.15


@pytest.mark.slow
def test_ghrr_takes_part_in_all_measures(tables: ModuleType) -> None:
    main, table = importlib.import_module("benchmarks.first_try.__main__"), tables.generated(48, 25)
    assert all(0 <= one["recall@1"] <= 1 for one in main.measure_search(table).values())
    assert 0 <= main.measure_duplicates(table)["ghrr"]["f1"] <= 1
    assert main.measure_filters(table)["ghrr"]["asked"]


# --------------------------------------------------------------------------------------------------------------- report


def test_ranks_are_shared_by_equal_scores_and_a_failure_is_last(report: ModuleType) -> None:
    assert report.mean_ranks([0.9, 0.8, 0.9, None]) == [1.5, 3, 1.5, 4]


def test_run_resumes_from_its_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main = importlib.import_module("benchmarks.first_try.__main__").main
    arguments = ["run", "--out", str(tmp_path), "--measures", "kinds", "--rows", "30", "--seeds", "0", "1"]
    main(arguments)
    journal = tmp_path / "journal-all.jsonl"
    first = journal.read_text()
    journal.write_text(first + '{"table": "unfin')
    main(arguments)
    assert journal.read_text() == first
    assert len(first.splitlines()) == 2
    assert "search" in capsys.readouterr().out


def test_collect_stores_both_halves(tmp_path: Path) -> None:
    main = importlib.import_module("benchmarks.first_try.__main__").main
    main(["run", "--out", str(tmp_path), "--measures", "kinds", "--rows", "30", "--seeds", "0", "1"])
    main(["collect", str(tmp_path), "--out", str(tmp_path)])
    summary = json.loads((tmp_path / "summary.json").read_text())
    for half in ("tuning", "reported"):
        assert summary[half]["tables"] == 1
        assert 0 < summary[half]["kinds"]["search"]["right"] <= summary[half]["kinds"]["search"]["columns"]


def test_collect_keeps_what_was_not_measured_again(tmp_path: Path, report: ModuleType) -> None:
    main = importlib.import_module("benchmarks.first_try.__main__").main
    first, second = tmp_path / "first", tmp_path / "second"
    main(["run", "--out", str(first), "--measures", "kinds", "filters", "--rows", "30", "--seeds", "0", "1"])
    main(["collect", str(first), "--out", str(tmp_path)])
    stored = json.loads((tmp_path / "summary.json").read_text())
    main(["run", "--out", str(second), "--measures", "kinds", "--rows", "30", "--seeds", "1", "3"])
    main(["collect", str(second), "--out", str(tmp_path)])
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["tuning"] == stored["tuning"]
    assert summary["reported"]["filters"] == stored["reported"]["filters"]
    assert summary["reported"]["measured"]["filters"] == stored["reported"]["measured"]["filters"]
    assert summary["reported"]["measured"]["kinds"]["tables"] == 2
