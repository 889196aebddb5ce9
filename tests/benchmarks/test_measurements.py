"""The benchmarks run and store their measurements; speed itself is not tested."""

from __future__ import annotations

import importlib
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.__main__ import find_benchmarks
from benchmarks.__main__ import main as run_by_name
from benchmarks.common import measuring
from torch import Tensor

import ghrr
from ghrr.files import read_tensors, write_tensors
from tests.relations.common import people_graph, permutation_graph, write_graph

RANKS: dict[str, Any] = {"kind": "ghrr-relation-ranks", "version": 1}


@pytest.fixture
def run_benchmark(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a benchmark in this process and return its output."""

    def run(name: str, *arguments: str) -> str:
        importlib.import_module(f"benchmarks.{name}").main(arguments)
        return capsys.readouterr().out

    return run


def test_encoding_benchmark_stores_a_ratio_for_each_m(run_benchmark: Callable[..., str], tmp_path: Path) -> None:
    sizes = ("--rows", "50", "--features", "3", "--total-dim", "64", "--repeats", "2")
    shown = run_benchmark("encoding.numbers", *sizes, "--out", str(tmp_path))
    results = json.loads((tmp_path / "encoding.json").read_text())["results"]
    assert [result["m"] for result in results] == [1, 2, 4]
    assert all(result["ratio_to_unavoidable"]["median"] > 0 for result in results)
    assert "ratio" in shown


def test_kernel_error_is_smallest_for_quasi_random_frequencies(
    run_benchmark: Callable[..., str], tmp_path: Path
) -> None:
    shown = run_benchmark("encoding.kernel_error", "--dim", "64", "--seeds", "3", "--out", str(tmp_path))
    results = json.loads((tmp_path / "kernel_error.json").read_text())["results"]
    rbf = next(row for row in results if row["kernel"] == "rbf" and row["features"] == 4)
    assert rbf["qmc"] < rbf["orthogonal"] < rbf["random"]
    assert "matern-1/2" in shown


@pytest.mark.slow
def test_peer_operations_agree_with_the_peers(run_benchmark: Callable[..., str], tmp_path: Path) -> None:
    pytest.importorskip("torchhd")
    sizes = ("--quick", "--total-dim", "144", "--repeats", "2", "--m", "2")
    shown = run_benchmark("ops.peers", *sizes, "--out", str(tmp_path))
    rows = json.loads((tmp_path / "peer_operations.json").read_text())["rows"]
    assert {row["operation"] for row in rows} >= {"random", "named atoms", "bind", "sequence", "3-grams", "resonator"}
    assert all(row["right"] and row["ratio"]["median"] > 0 and row["limit"] == 1.2 for row in rows)
    assert " 0 wrong, " in shown


@pytest.mark.parametrize("name", find_benchmarks())
@pytest.mark.slow
def test_every_benchmark_has_help(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["python -m benchmarks", name, "--help"])
    with pytest.raises(SystemExit, match="0"):
        run_by_name()
    assert capsys.readouterr().out.startswith(f"usage: python -m benchmarks {name} ")


LM_STEP = [sys.executable, "-W", "error", "-m", "benchmarks", "lm.measure", "--max-len", "16", "--batch", "2"]


@pytest.mark.slow
def test_models_agree_with_the_peers(run_benchmark: Callable[..., str], tmp_path: Path) -> None:
    pytest.importorskip("torchhd")
    run_benchmark("models.peers", "--repeats", "2", "--out", str(tmp_path))
    rows = json.loads((tmp_path / "peer_models.json").read_text())["rows"]
    assert len(rows) == 6 * 3
    assert all(row["right"] and row["ratio"]["median"] > 0 for row in rows)


@pytest.mark.slow
def test_wrong_results_of_models_are_found() -> None:
    pytest.importorskip("torchhd")
    peer_models = importlib.import_module("benchmarks.models.peers")
    for name in peer_models.MODELS:
        for operation, (ours, theirs) in peer_models.calls(name).items():
            right = ours()
            wrong = right.roll(1, -1) if operation != "pairwise similarity" else right + 0.1
            assert peer_models.is_correct(name, operation, right, theirs()), (name, operation)
            assert not peer_models.is_correct(name, operation, wrong, theirs()), (name, operation)


@pytest.mark.slow
def test_lm_step_compares_models_of_equal_size(tmp_path: Path) -> None:
    sizes = ("--vocab-size", "500", "--embed-dim", "64", "--num-layers", "2", "--rounds", "2", "--repeats", "1")
    models = ("vanilla", "ghrr-feature")
    command = [*LM_STEP, *sizes, "--out", str(tmp_path), "--models", *models]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = json.loads((tmp_path / "lm_step.json").read_text())["rows"]
    assert tuple(row["attention"] for row in rows) == models
    counts = [row["params"] for row in rows]
    assert max(counts) / min(counts) < 1.02
    assert "x vanilla" in shown


QUICK = ("--quick", "--total-dim", "90", "--batch", "4", "--repeats", "2", "--m", "3")


@pytest.mark.slow
def test_speed_benchmark_finds_no_wrong_result_and_draws_figures(
    run_benchmark: Callable[..., str], tmp_path: Path
) -> None:
    shown = run_benchmark("ops.speed", *QUICK, "--out", str(tmp_path))
    report = json.loads((tmp_path / "speed.json").read_text())
    groups = {row["group"] for row in report["rows"]}
    assert groups >= {"bind, in cache", "bind, out of cache", "gradient by a", "gradient by b", "both gradients"}
    assert groups >= {"bind_bundle", "multibind", "unbind_similarity", "power", "single bind", "cleanup", "sampling"}
    for row in report["rows"]:
        assert row["right"]
        assert set(row["targets"]) <= set(row["ratios"])
        for ratio in row["ratios"].values():
            assert 0 < ratio["low"] <= ratio["median"] <= ratio["high"]
    assert {row["what"] for row in report["startup"]} >= {"import beyond torch", "first call"}
    assert report["versions"]["torch"] == torch.__version__
    assert report["command"].startswith("python -m benchmarks ops.speed --quick")
    assert " 0 wrong" in shown
    run_benchmark("ops.figures", "--out", str(tmp_path))
    pictures = {path.name: path.read_bytes() for path in tmp_path.glob("*.png")}
    assert set(pictures) == {"speed_m.png", "speed_sizes.png"}
    assert all(picture.startswith(b"\x89PNG") for picture in pictures.values())
    run_benchmark("ops.figures", "--out", str(tmp_path))  # again, from the stored numbers alone
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.png")} == pictures


def test_startup_benchmark_replaces_its_rows_in_the_stored_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    startup = importlib.import_module("benchmarks.ops.startup")
    row = {"what": "first call", "operation": "bind", "seconds": 0.5, "most_seconds": 10.0}
    monkeypatch.setattr(startup, "measure", lambda device, repeats: [row])
    monkeypatch.setattr(sys, "argv", ["startup.py", "--out", str(tmp_path)])
    with pytest.raises(SystemExit):  # there is no table yet
        startup.main()
    (tmp_path / "speed.json").write_text(json.dumps({"rows": [1, 2], "startup": []}))
    startup.main()
    table = json.loads((tmp_path / "speed.json").read_text())
    assert table["rows"] == [1, 2]
    assert table["startup"] == [row]
    assert table["startup_command"] == "python -m benchmarks ops.startup --device cpu"
    assert table["startup_on"]["versions"]["torch"] == torch.__version__


@pytest.mark.slow
def test_lm_step_names_the_model_that_failed() -> None:
    sizes = ("--vocab-size", "50", "--embed-dim", "36", "--num-layers", "1", "--rounds", "1")
    command = [*LM_STEP, *sizes, "--models", "vanilla"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "vanilla: its process failed" in done.stderr
    assert "multiple of" in done.stderr


def test_lm_step_refuses_a_model_named_twice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["lm_step.py", "--models", "rope", "rope"])
    with pytest.raises(SystemExit):
        importlib.import_module("benchmarks.lm.measure").main()
    assert "each model may be given only once" in capsys.readouterr().err


def swapped(a: Tensor, b: Tensor) -> Tensor:
    return b @ a


def off_in_one_number(a: Tensor, b: Tensor) -> Tensor:
    product = a @ b
    product.view(-1)[product.numel() // 2] += 1e-2
    return product


def with_a_hole(a: Tensor, b: Tensor) -> Tensor:
    product = a @ b
    product.view(-1)[-1] = torch.nan
    return product


@pytest.mark.parametrize("kernel", [swapped, off_in_one_number, with_a_hole])
def test_speed_benchmark_reports_no_time_for_a_wrong_kernel(
    kernel: Callable[[Tensor, Tensor], Tensor],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    speed = importlib.import_module("benchmarks.ops.speed")
    products = importlib.import_module("benchmarks.ops.products")
    space = ghrr.Space(10, 3)

    def cases(options: object) -> Iterator[object]:
        yield products.bind(space, 5, "cpu", "bind", {})
        yield products.bind_bundle(space, 5, "cpu", "bind_bundle", {})

    monkeypatch.setattr(speed, "cases", cases)
    monkeypatch.setattr(speed.startup, "measure", lambda *_: [])
    assert speed.main([*QUICK, "--out", str(tmp_path)]) == 0  # negative control: nothing is wrong
    assert "wrong result" not in capsys.readouterr().out
    monkeypatch.setattr(ghrr, "bind", kernel)
    assert speed.main([*QUICK, "--out", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert shown.count("wrong result, not timed") == 1
    wrong, fine = json.loads((tmp_path / "speed.json").read_text())["rows"]
    assert not wrong["right"]
    assert "seconds" not in wrong
    assert fine["right"]
    assert fine["seconds"]["ours"]["median"] > 0


def test_every_speed_case_detects_one_wrong_entry() -> None:
    products = importlib.import_module("benchmarks.ops.products")
    space = ghrr.Space(10, 3)
    cases = [
        products.bind(space, 5, "cpu", "bind", {}),
        *products.gradients(space, 5, "cpu", {}),
        products.bind_bundle(space, 5, "cpu", "bind_bundle", {}),
        products.multibind(space, 5, 4, "cpu"),
        products.unbind_similarity(space, 5, "cpu"),
        products.power(space, 5, 13, "cpu"),
    ]
    for case in cases:
        got = case.ours()
        assert max(case.errors(got).values()) < 1
        results = got if isinstance(got, tuple) else (got,)
        for place in range(len(results)):
            spoilt = [x.clone() for x in results]
            spoilt[place].view(-1)[spoilt[place].numel() // 2] += 0.1
            assert max(case.errors(spoilt if isinstance(got, tuple) else spoilt[0]).values()) > 1, case.group
    assert measuring.error(torch.ones(1, 1), torch.ones(5, 3), 3) == math.inf


def test_time_of_partial_work_is_scaled_and_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = {"ours": [1.0, 1.0, 1.0], "theirs": [2.0, 2.0, 3.0]}
    monkeypatch.setattr(measuring, "time_alternately", lambda *_, **__: taken)
    case = measuring.Case(
        "case", {"m": 2}, lambda: None, {"theirs": lambda: None}, lambda _: {}, {"theirs": 50.0}, {"theirs": 10.0}
    )
    row = measuring.run_case(case, 3)
    assert row["ratios"]["theirs"]["median"] == 20.0
    assert "theirs 20" in measuring.line(row)
    assert "target 50, measured on 1/10 of the work" in measuring.line(row)
    assert importlib.import_module("benchmarks.ops.speed").missed(row) == ["theirs 20, target 50"]


def test_functions_are_timed_alternately() -> None:
    calls: list[str] = []
    time_alternately = importlib.import_module("benchmarks.common.measuring").time_alternately
    seconds = time_alternately({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 3, warm_up=False)
    assert calls == ["a", "b"] * 3
    assert [len(values) for values in seconds.values()] == [3, 3]


def test_speed_benchmark_rejects_bad_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    speed = importlib.import_module("benchmarks.ops.speed")
    options = [(["--repeats", "1"], "--repeats and --batch must be at least 2")]
    if not torch.cuda.is_available():
        options.append((["--device", "cuda"], "there is no GPU here"))
    for given, message in options:
        with pytest.raises(SystemExit):
            speed.main(given)
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit):
        importlib.import_module("benchmarks.ops.figures").main(["--out", str(tmp_path)])
    assert "there is no speed.json in" in capsys.readouterr().err


@pytest.mark.slow
def test_learning_speed_stores_a_row_per_size_and_draws_a_figure(
    run_benchmark: Callable[..., str], tmp_path: Path
) -> None:
    pytest.importorskip("sklearn")
    generator = np.random.default_rng(0)
    for part, count in (("train", 1200), ("t10k", 300)):
        labels = generator.integers(0, 3, count).astype(np.uint8)
        images = generator.integers(0, 50, (count, 28, 28)).astype(np.uint8)
        for label in range(3):
            images[labels == label, 8 * label : 8 * label + 8, 10:18] += 150
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(bytes(16) + images.tobytes())
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(bytes(8) + labels.tobytes())
    sizes = ("--dim", "32", "--sizes", "300", "900", "1200")
    run_benchmark("learn.speed", str(tmp_path), *sizes, "--out", str(tmp_path))
    report = json.loads((tmp_path / "learning_speed_cpu.json").read_text())
    assert [row["samples"] for row in report["rows"]] == 2 * [300, 900, 1200]
    assert report["rows"][-1]["accuracy"] > 0.9
    assert str(tmp_path) not in json.dumps(report["command"].split(" --out")[0])
    assert (tmp_path / "learning_speed_cpu.png").stat().st_size > 1000


@pytest.mark.slow
def test_relation_benchmark_times_epochs_and_resumes_runs(run_benchmark: Callable[..., str], tmp_path: Path) -> None:
    write_graph(tmp_path / "permutations", permutation_graph())
    common = ("--data", str(tmp_path), "--graph", "permutations", "--total", "36", "--batch", "50", "--device", "cpu")
    folders = ("--out", str(tmp_path / "out"), "--work", str(tmp_path / "work"))
    shown = run_benchmark("relations.measure", "time", *common, *folders, "--m", "1", "3", "--repeats", "2")
    report = json.loads((tmp_path / "out" / "relations_time_permutations.json").read_text())
    assert [row["dim"] for row in report["rows"]] == [36, 4]
    assert all(row["ratio_to_first"]["median"] > 0 for row in report["rows"])
    assert report["command"].startswith("python -m benchmarks relations.measure time --data DATA")
    assert "torch.matmul" in shown
    runs = ("train", *common, *folders, "--m", "3", "--seeds", "0", "1", "--epochs", "10")
    assert "out of time before the first checkpoint" in run_benchmark("relations.measure", *runs, "--limit", "0")
    assert run_benchmark("relations.measure", *runs).count("finished True") == 2
    stored = json.loads((tmp_path / "out" / "permutations-m3-seed1.json").read_text())
    assert (stored["config"]["seed"], stored["finished"], len(stored["history"])) == (1, True, 2)
    assert (tmp_path / "out" / "permutations-m3-seed1.safetensors").exists()
    assert list((tmp_path / "work").iterdir()) == []  # no weights are kept
    assert run_benchmark("relations.measure", *runs).count("is finished") == 2


@pytest.mark.slow
def test_ranks_of_unseen_entities_do_not_need_the_weights(run_benchmark: Callable[..., str], tmp_path: Path) -> None:
    graph = people_graph()
    write_graph(tmp_path / "people", graph)
    common = ("--data", str(tmp_path), "--graph", "people", "--out", str(tmp_path))
    sizes = ("--total", "36", "--m", "3", "--epochs", "5", "--device", "cpu", "--work", str(tmp_path / "work"))
    run_benchmark("relations.measure", "train", *common, *sizes)
    path, file = tmp_path / "people-m3-seed0.json", tmp_path / "people-m3-seed0.safetensors"
    trained, (_, ranks) = json.loads(path.read_text()), read_tensors(file, **RANKS)
    assert trained["unseen_triples"] == {"valid": 3, "test": 3}
    assert trained["test"] != trained["vectors_alone"]["test"]
    # As an earlier version stored it: other ranks of the questions about unseen people.
    older = {key: value for key, value in trained.items() if key not in ("unseen_triples", "vectors_alone")}
    path.write_text(json.dumps(older))
    write_tensors(file, {}, {split: torch.stack([0 * r[:, 0] + 30, r[:, 1]], 1) for split, r in ranks.items()}, **RANKS)
    run_benchmark("relations.measure", "unseen", *common)
    again, (_, found) = json.loads(path.read_text()), read_tensors(file, **RANKS)
    assert torch.equal(found["test"], ranks["test"])
    assert (again["test"], again["unseen_triples"]) == (trained["test"], trained["unseen_triples"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_relation_benchmark_compares_with_pykeen(run_benchmark: Callable[..., str], tmp_path: Path) -> None:
    sizes = ("--total", "36", "--m", "3", "--repeats", "2", "--batch", "2000", "--epochs", "1", "--triples", "900")
    assert "PyKEEN ComplEx" in run_benchmark("relations.peers", *sizes, "--out", str(tmp_path))
    report = json.loads((tmp_path / "relations_peers_kinships.json").read_text())
    assert [row["model"] for row in report["rows"]] == ["m = 3", "PyKEEN ComplEx"]
    assert (report["triples"], report["entities"]) == (900, 104)
