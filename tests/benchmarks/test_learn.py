"""The report of the classifier benchmark: ranks, rows from journals, checked data, and a page that can be made."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchhd
from benchmarks.common.paths import RESULTS
from benchmarks.learn import data as data_sets
from benchmarks.learn import levels, ranks, schedule, search_space, tables, tasks, vsgraph
from benchmarks.learn import methods as learning_methods
from benchmarks.learn import report as learning_report
from benchmarks.learn import torchhd as torchhd_baselines

# ---------------------------------------------------------------------------------------------------------------- ranks


def test_mean_ranks_share_ties() -> None:
    accuracies = {"x": {"a": 0.9, "b": 0.8, "c": 0.7}, "y": {"a": 0.6, "b": 0.6, "c": 0.9}}
    found = ranks.mean_ranks(accuracies, ["a", "b", "c"])
    assert found == {"a": (1 + 2.5) / 2, "b": (2 + 2.5) / 2, "c": (3 + 1) / 2}


@pytest.mark.parametrize(("n_methods", "quantile"), [(2, 1.960), (5, 2.728), (10, 3.164)])
def test_critical_difference_equals_the_table_of_demsar(n_methods: int, quantile: float) -> None:
    expected = quantile * math.sqrt(n_methods * (n_methods + 1) / (6 * 30))
    assert ranks.critical_difference(n_methods, 30) == pytest.approx(expected, rel=1e-3)


def test_friedman_statistic_of_three_equal_orders() -> None:
    accuracies = {name: {"a": 0.9, "b": 0.8, "c": 0.7} for name in "xyz"}
    # 12 n / (k (k + 1)) * (1 + 4 + 9 - k (k + 1)^2 / 4) = 3 * (14 - 12) = 6; chi-squared with 2 degrees of freedom
    found = ranks.friedman(accuracies, ["a", "b", "c"])
    assert found["statistic"] == pytest.approx(6.0)
    assert found["p"] == pytest.approx(math.exp(-3.0))


def test_compare_takes_complete_data_sets_only() -> None:
    row = {"a": 0.9, "b": 0.8, "c": 0.7}
    found = ranks.compare({"x": row, "y": row, "z": {"a": 0.1, "b": 0.9}}, ["a", "b", "c"])
    assert found["sets"] == ["x", "y"]
    assert found["mean_ranks"] == {"a": 1, "b": 2, "c": 3}
    alone = ranks.compare({"x": row, "z": {"a": 0.1}}, ["a", "b", "c"])
    assert alone == {"methods": ["a", "b", "c"], "sets": ["x"]}


def test_wilcoxon_of_five_wins() -> None:
    test: Any = ranks.wilcoxon
    accuracies = {str(i): {"a": 0.9, "b": 0.9 - 0.01 * i} for i in range(1, 6)}
    found = test(accuracies, "a", "b")
    assert (found["sets"], found["wins"], found["losses"]) == (5, 5, 0)
    assert found["p"] == pytest.approx(2 / 2**5)
    assert test({"x": {"a": 0.5, "b": 0.5}}, "a", "b")["p"] == 1
    assert test({"x": {"a": 0.5}}, "a", "b") is None


def test_paired_test_of_three_seeds() -> None:
    test = ranks.paired_test
    found = test([0.3, 0.4, 0.5], [0.2, 0.2, 0.2])
    # differences 0.1, 0.2, 0.3: t = 0.2 / (0.1 / sqrt 3); with 2 degrees of freedom p = 1 - t / sqrt(t^2 + 2)
    t = 2 * math.sqrt(3)
    assert found["difference"] == pytest.approx(0.2)
    assert found["p"] == pytest.approx(1 - t / math.sqrt(t**2 + 2))
    assert test([0.5, 0.6], [0.5, 0.6])["p"] == 1
    assert test([0.75, 0.5], [0.5, 0.25])["p"] == 0


def test_holm_multiplies_by_the_number_of_remaining_tests() -> None:
    assert ranks.holm([0.04, 0.01, 0.9]) == pytest.approx([0.08, 0.03, 0.9])


# -------------------------------------------------------------------------------------------------------------- journal


def _entry(data: str, method: str, stage: str, index: int, accuracy: float = 0.9, **changes: Any) -> dict[str, Any]:
    entry = {"data": data, "method": method, "stage": stage, "index": index, "config": {"number": 1}}
    measured = {"device": "cpu", "accuracy": accuracy, "fit_s": 1.0 + index, "predict_s": 0.1, "status": "ok"}
    sizes = {"tested": 45, "trained": 105, "class_bytes": 12} if stage == "test" else {}
    return entry | measured | sizes | changes


def _collect(path: Path, entries: list[dict[str, Any]]) -> dict[tuple[str, str], Any]:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    rows = learning_report.collect([path])["rows"]
    return {(row["data"], row["method"]): row for row in rows}


def test_rows_hold_all_seeds_and_later_lines_replace_earlier_ones(tmp_path: Path) -> None:
    best = {"number": 2}
    entries = [
        _entry("iris", "HD ridge", "tune", 0, 0.8),
        _entry("iris", "HD ridge", "tune", 1, 0.9, config=best),
        _entry("iris", "HD ridge", "test", 0, 0.1, config={"number": 3}),
        *(_entry("iris", "HD ridge", "test", seed, 0.9 + 0.01 * seed, config=best) for seed in range(5)),
    ]
    row = _collect(tmp_path / "journal.jsonl", entries)["iris", "HD ridge"]
    assert (row["status"], row["tried"], row["config"], row["family"], row["kind"]) == (
        "complete",
        2,
        best,
        "ghrr",
        "table",
    )
    assert row["accuracies"] == pytest.approx([0.9, 0.91, 0.92, 0.93, 0.94])
    assert row["mean"] == pytest.approx(0.92)
    assert row["std"] == pytest.approx(0.01 * math.sqrt(2.5))
    assert row["seconds"] == {"cpu": {"fit_s": 3.0, "predict_s": 0.1}}
    assert (row["tested"], row["class_bytes"]) == (45, 12)


def test_pairs_that_were_cut_have_a_status(tmp_path: Path) -> None:
    slow: dict[str, Any] = {"status": "time limit", "limit_s": 60.0}
    entries = [
        *(_entry("iris", "Vanilla", "test", seed) for seed in range(3)),
        _entry("iris", "AdaptHD", "test", 0, **slow),
        *(_entry("iris", "IntRVFL", "tune", index, **slow) for index in range(3)),
        _entry("iris", "LeHDC", "test", 0, status="ValueError: no"),
        _entry("mnist", "RBF-SVC", "test", 0),
        _entry("mnist", "k-NN", "tune", 0, 0.5),
        _entry("mnist", "k-NN", "test", 0, config={"number": 2}),
        _entry("digits", "HD ridge", "tune", 0),
    ]
    rows = _collect(tmp_path / "journal.jsonl", entries)
    found = {name: rows[name]["status"] for name in rows if rows[name]["status"] != "not run"}
    assert found == {
        ("iris", "Vanilla"): "incomplete",
        ("iris", "AdaptHD"): "time limit",
        ("iris", "IntRVFL"): "time limit",
        ("iris", "LeHDC"): "failed",
        ("mnist", "RBF-SVC"): "complete",  # no randomness and one split: one test
        ("mnist", "k-NN"): "other configuration",
        ("digits", "HD ridge"): "incomplete",
    }
    assert rows["iris", "Vanilla"]["expected"] == 5
    assert rows["MUTAG", "HD ridge"]["expected"] == 10
    assert rows["iris", "AdaptHD"]["limit_s"] == 60.0
    assert rows["digits", "HD ridge, 4 x dimension"]["status"] == "not run"


def test_only_complete_rows_are_compared(tmp_path: Path) -> None:
    entries = [
        *(_entry("iris", "HD ridge", "test", seed, 0.9 + 0.01 * seed) for seed in range(5)),
        *(_entry("iris", "Vanilla", "test", seed, 0.95) for seed in range(5)),
        *(_entry("iris", "AdaptHD", "test", seed, 0.99) for seed in range(4)),
    ]
    path = tmp_path / "journal.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    report = learning_report.collect([path])
    assert [(test["data"], test["method"]) for test in report["paired"]] == [("iris", "Vanilla")]
    assert report["paired"][0]["difference"] == pytest.approx(-0.03)
    assert [test["other"] for test in report["wilcoxon"]] == ["Vanilla"]


def test_unknown_names_and_mixed_configurations_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown names"):
        _collect(tmp_path / "journal.jsonl", [_entry("iris", "HDridge", "test", 0)])
    mixed = [_entry("iris", "HD ridge", "test", seed, config={"number": seed}) for seed in range(2)]
    with pytest.raises(ValueError, match="different configurations"):
        _collect(tmp_path / "journal.jsonl", mixed)


def test_stored_journal_is_deterministic_and_can_be_collected(tmp_path: Path) -> None:
    source, first, second = (tmp_path / name for name in ("journal.jsonl", "a.jsonl.gz", "b.jsonl.gz"))
    source.write_text(json.dumps(_entry("iris", "HD ridge", "tune", 0)) + '\n{"data": "iris", "me')
    entries = learning_report.merge([source])
    for path in (first, second):
        learning_report.store_journal(entries, path)
    assert first.read_bytes() == second.read_bytes()
    assert learning_report.merge([first]) == entries
    assert len(entries) == 1


@pytest.mark.slow
def test_compiled_levels_equal_those_of_torch_hd() -> None:
    samples = torch.randn(20, 7, generator=torch.Generator().manual_seed(0))
    keys, steps = torchhd.embeddings.Random(7, 50), torchhd.embeddings.Level(10, 50, low=-2, high=2)
    expected = torchhd.hash_table(keys.weight, steps(samples))
    assert torch.equal(levels.level_sums(keys, steps)(samples), expected)
    assert not torch.equal(levels.level_sums(keys, steps)(samples.flip(1)), expected)  # negative control
    density = torchhd.embeddings.Density(7, 50)
    assert torch.equal(levels.level_sums(density.key, density.density_encoding)(samples), density(samples))
    with pytest.raises(ValueError, match="must be 1 or -1"):
        levels.level_sums(keys, torchhd.embeddings.Level(10, 50, vsa="FHRR"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Vanilla", "CompHD", "IntRVFL"])
def test_classifiers_of_torch_hd_learn_the_same_with_compiled_levels(name: str) -> None:
    samples = np.random.default_rng(0).normal(size=(30, 7)).astype(np.float32)
    labels = np.arange(30) % 3
    ours = torchhd_baselines.TorchHD(name, 64, 3, {}, seed=5, device="cpu").fit(samples, labels)
    torch.manual_seed(5)
    theirs = getattr(torchhd.classifiers, name)(7, 64, 3)
    theirs.fit([(torch.tensor(samples), torch.tensor(labels))])
    assert torch.equal(ours.class_vectors_, theirs.model.weight)
    np.testing.assert_array_equal(ours.predict(samples), theirs.predict(torch.tensor(samples)).numpy())


def test_vs_graph_mixes_vectors_of_ranks_with_the_largest_of_their_neighbours() -> None:
    star = np.array([[0, 1], [1, 0], [0, 2], [2, 0], [2, 3], [3, 2]])  # 1 - 0 - 2 - 3, and 4 alone
    assert vsgraph.spike_ranks(5, star, hops=1).tolist() == [0, 2, 1, 3, 4]  # degrees 2, 1, 2, 1, 0
    assert vsgraph.spike_ranks(5, star, hops=2).tolist() == [0, 2, 1, 3, 4]  # sums of degrees 3, 2, 3, 2, 0
    samples = [data_sets.Graph(np.zeros(5, dtype=int), star)]
    model = vsgraph.VSGraph(2, 1, 1, 0.25, dimensions=30, seed=0, device="cpu")
    model.prepare(samples)
    v = model.ranks[[0, 2, 1, 3, 4]]
    largest = np.stack([np.maximum(v[1], v[2]), v[0], np.maximum(v[0], v[3]), v[2], 0 * v[4]])
    expected = (0.25 * v + 0.75 * largest).mean(axis=0)
    found = model.encode(samples)[0].numpy()
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected), atol=1e-6)
    assert np.abs(found - v.mean(axis=0) / np.linalg.norm(v.mean(axis=0))).max() > 0.01  # negative control


def test_tasks_over_a_lower_time_limit_run_again(tmp_path: Path) -> None:
    journal, path = schedule.Journal, tmp_path / "journal.jsonl"
    states: list[dict[str, Any]] = [{"status": "time limit", "limit_s": 60.0}, {"status": "ValueError: no"}, {}]
    lines = [_entry("iris", "HD ridge", "test", seed, **state) for seed, state in enumerate(states)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def known(**settings: Any) -> list[int]:
        return [index for *_, index in journal(path, **settings).entries]

    assert known() == known(limit=60.0) == [0, 1, 2]
    assert known(limit=61.0) == [1, 2]
    assert known(limit=61.0, retry=True) == [2]


def test_best_configuration_may_come_from_a_larger_search(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    tried = [_entry("iris", "HD ridge", "tune", index, 0.1 * index, config={"number": index}) for index in (0, 1, 5)]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in tried))
    method = learning_methods.METHODS["HD ridge"]
    search = schedule.Search("iris", method, [{"number": 0}, {"number": 1}], seeds=2, large=False, size=1)
    tasks = search.next_tasks(schedule.Journal(path))
    assert [(task.stage, task.index, task.config) for task in tasks] == [("test", s, {"number": 5}) for s in (0, 1)]
    search.configs.append({"number": 2})  # negative control: a configuration is missing
    assert [(task.stage, task.index) for task in search.next_tasks(schedule.Journal(path))] == [("tune", 2)]


def test_workers_on_a_gpu_take_what_needs_it_first(tmp_path: Path) -> None:
    methods = learning_methods.METHODS
    chosen = [("wine", "k-NN", False), ("letter", "Vanilla", True), ("letter", "HD ridge", True)]
    pairs = [schedule.Search(data, methods[name], [], seeds=1, large=large, size=1) for data, name, large in chosen]
    cpu, cuda = (schedule.Worker(tasks.Setting(tmp_path, 64, 100, device), limit=1.0) for device in ("cpu", "cuda"))

    def order(worker: Any, workers: list[Any]) -> list[str]:
        waiting: Any = {(pair.data, pair.method.name): [pair.method.name] for pair in pairs}
        taken: list[Any] = []
        while waiting_tasks := schedule._choose(pairs, waiting, worker, workers):
            taken.append(waiting_tasks.pop())
        return taken

    assert order(cpu, [cpu]) == ["k-NN", "Vanilla", "HD ridge"]
    assert order(cpu, [cpu, cuda]) == ["k-NN", "Vanilla"]
    assert order(cuda, [cpu, cuda]) == ["HD ridge", "Vanilla", "k-NN"]


# ------------------------------------------------------------------------------------------------------------ data sets


def test_loader_refuses_data_with_another_hash(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"iris has SHA-256 .* expected 0000; the files differ"):
        data_sets.load("iris", tmp_path, hashes={"iris": "0000"})
    assert len(data_sets.load("iris", tmp_path).labels) == 150


def test_loader_refuses_a_changed_packed_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data_sets.pack("wine", tmp_path, tmp_path)
    assert len(data_sets.load("wine", tmp_path).labels) == 178
    kind, loader = data_sets.SOURCES["wine"]
    changed = loader("wine", tmp_path)
    changed["samples"] = changed["samples"] + np.float32(1)
    monkeypatch.setitem(data_sets.SOURCES, "wine", (kind, lambda name, folder: changed))
    data_sets.pack("wine", tmp_path, tmp_path)
    with pytest.raises(ValueError, match="the files differ"):
        data_sets.load("wine", tmp_path)


# -------------------------------------------------------------------------------------------------------------- methods


def test_orders_are_compared_with_the_same_configurations() -> None:
    drawn = {
        family: [
            search_space.configurations(method, "series", "GunPoint", 8)
            for method in learning_methods.METHODS.values()
            if method.family == family and "series" in method.kinds
        ]
        for family in ("order", "torch-hd")
    }
    assert len(drawn["order"]) == 5
    assert all(configs == drawn["order"][0] for configs in drawn["order"])
    assert drawn["torch-hd"][0] != drawn["torch-hd"][1]  # negative control: other methods draw their own


# ------------------------------------------------------------------------------------------------------- stored results


def test_stored_results_are_complete_enough_for_the_page() -> None:
    report = tables.report()
    for data in ("mnist", "fashion", "digits", "letter", "languages"):
        assert tables.mean_accuracy(data, "HD ridge") > 0.5
    assert len(report["ranks"][tables.WITH_TORCH_HD]["sets"]) >= 3
    assert all(row["status"] != "complete" or len(row["accuracies"]) >= row["expected"] for row in report["rows"])
    for make in tables.TABLES.values():
        head, rows = make()
        assert all(len(row) == len(head) for row in rows)
    for text in (*tables.TEXTS.values(), *tables.VALUES.values()):
        assert text()


@pytest.mark.slow
def test_stored_results_belong_to_the_stored_journal() -> None:
    journal = RESULTS / "learning_journal.jsonl.gz"
    rows = learning_report.collect([journal])["rows"]
    stored = json.loads((RESULTS / "learning.json").read_text(encoding="utf-8"))["rows"]
    assert rows == stored
    assert b"/" + b"work" not in gzip.decompress(journal.read_bytes())


def test_speed_table_works_with_the_files_that_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    assert tables.speed()[1] == []
    row = {"encoder": "KernelFeatures", "fit_seconds": 20.0, "predict_seconds": 1.0, "accuracy": 0.97}
    rows = [row | {"samples": count, "peak_megabytes": 900.0} for count in (1000, 60_000)]
    for device, machine in (("cpu", {"cores": 2}), ("cuda", {"cores": 16, "gpu": "H200"})):
        report = {"machine": machine, "rows": rows}
        (tmp_path / f"learning_speed_{device}.json").write_text(json.dumps(report))
        assert tables.speed()[1][-1][0] == machine.get("gpu", "2 CPU cores")
    assert [row[2] for row in tables.speed()[1]] == ["60,000", "60,000"]
