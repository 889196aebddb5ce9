"""The benchmarks run and write what they measured; how fast it was is not tested."""

from __future__ import annotations

import importlib
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

import ghrr

FOLDER = Path(__file__).parents[1] / "benchmarks"


def run_script(name: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", str(FOLDER / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_encoding(tmp_path: Path) -> None:
    sizes = ("--rows", "50", "--features", "3", "--total-dim", "64", "--repeats", "2")
    shown = run_script("encoding.py", *sizes, "--out", str(tmp_path))
    results = json.loads((tmp_path / "encoding.json").read_text())["results"]
    assert [result["m"] for result in results] == [1, 2, 4]
    assert all(result["ratio_to_unavoidable"]["median"] > 0 for result in results)
    assert "ratio" in shown


def test_kernel_error(tmp_path: Path) -> None:
    shown = run_script("kernel_error.py", "--dim", "64", "--seeds", "3", "--out", str(tmp_path))
    results = json.loads((tmp_path / "kernel_error.json").read_text())["results"]
    rbf = next(row for row in results if row["kernel"] == "rbf" and row["features"] == 4)
    assert rbf["qmc"] < rbf["orthogonal"] < rbf["random"]
    assert "matern-1/2" in shown


def test_peer_operations(tmp_path: Path) -> None:
    pytest.importorskip("torchhd")
    sizes = ("--quick", "--total-dim", "144", "--repeats", "2", "--m", "2")
    shown = run_script("peer_operations.py", *sizes, "--out", str(tmp_path))
    rows = json.loads((tmp_path / "peer_operations.json").read_text())["rows"]
    assert {row["operation"] for row in rows} >= {"random", "named atoms", "bind", "sequence", "3-grams", "resonator"}
    assert all(row["right"] and row["ratio"]["median"] > 0 and row["limit"] == 1.2 for row in rows)
    assert " 0 wrong, " in shown


def test_lm_step(tmp_path: Path) -> None:
    sizes = ("--vocab-size", "500", "--embed-dim", "64", "--num-layers", "2", "--max-len", "16", "--batch", "2")
    shown = run_script("lm_step.py", *sizes, "--rounds", "2", "--repeats", "1", "--out", str(tmp_path))
    rows = json.loads((tmp_path / "lm_step.json").read_text())["rows"]
    assert {row["attention"] for row in rows} >= {"vanilla", "rope", "ghrr-feature"}
    counts = [row["params"] for row in rows]
    assert max(counts) / min(counts) < 1.02
    assert "x vanilla" in shown


@pytest.fixture
def benchmark_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Scripts imported as they import one another, and forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(FOLDER)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "").parent == FOLDER:
            del sys.modules[name]


QUICK = ("--quick", "--total-dim", "90", "--batch", "4", "--repeats", "2", "--m", "3")


def test_speed_and_its_figures(tmp_path: Path) -> None:
    shown = run_script("speed.py", *QUICK, "--out", str(tmp_path))
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
    assert report["command"].startswith("python benchmarks/speed.py --quick")
    assert " 0 wrong" in shown
    run_script("figures.py", "--out", str(tmp_path))
    pictures = {path.name: path.read_bytes() for path in tmp_path.glob("*.png")}
    assert set(pictures) == {"speed_m.png", "speed_sizes.png"}
    assert all(picture.startswith(b"\x89PNG") for picture in pictures.values())
    run_script("figures.py", "--out", str(tmp_path))  # again, from the numbers alone
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.png")} == pictures


def test_first_calls_alone_take_their_place_in_the_table(
    tmp_path: Path, benchmark_modules: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    startup = benchmark_modules("startup")
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
    assert table["startup_command"] == "python benchmarks/startup.py --device cpu"
    assert table["startup_on"]["versions"]["torch"] == torch.__version__


def test_lm_step_says_which_model_failed() -> None:
    sizes = (
        "--vocab-size",
        "50",
        "--embed-dim",
        "36",
        "--num-layers",
        "1",
        "--max-len",
        "16",
        "--batch",
        "2",
        "--rounds",
        "1",
    )
    command = [sys.executable, str(FOLDER / "lm_step.py"), *sizes, "--models", "vanilla"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith("vanilla: its process has failed, see above\n")
    assert "width 36 must be a multiple of" in done.stderr
    twice = subprocess.run([*command, "vanilla"], capture_output=True, text=True, check=False)
    assert "--models: name each once" in twice.stderr


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
def test_a_wrong_kernel_gets_no_time(
    kernel: Callable[[Tensor, Tensor], Tensor],
    benchmark_modules: Callable[[str], ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    speed, products = benchmark_modules("speed"), benchmark_modules("products")
    space = ghrr.Space(10, 3)

    def cases(options: object) -> Iterator[object]:
        yield products.bind(space, 5, "cpu", "bind", {})
        yield products.bind_bundle(space, 5, "cpu", "bind_bundle", {})

    monkeypatch.setattr(speed, "cases", cases)
    monkeypatch.setattr(speed.startup, "measure", lambda *_: [])
    assert speed.main([*QUICK, "--out", str(tmp_path)]) == 0  # the control: nothing is wrong
    assert "wrong result" not in capsys.readouterr().out
    monkeypatch.setattr(ghrr, "bind", kernel)
    assert speed.main([*QUICK, "--out", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert shown.count("wrong result: no time given") == 1
    wrong, fine = json.loads((tmp_path / "speed.json").read_text())["rows"]
    assert not wrong["right"]
    assert "seconds" not in wrong
    assert fine["right"]
    assert fine["seconds"]["ours"]["median"] > 0


def test_every_case_sees_a_wrong_number_in_the_middle(benchmark_modules: Callable[[str], ModuleType]) -> None:
    products = benchmark_modules("products")
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
    assert benchmark_modules("measuring").error(torch.ones(1, 1), torch.ones(5, 3), 3) == math.inf


def test_a_part_of_the_work_is_scaled_up_and_the_table_says_so(
    benchmark_modules: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    measuring = benchmark_modules("measuring")
    taken = {"ours": [1.0, 1.0, 1.0], "theirs": [2.0, 2.0, 3.0]}
    monkeypatch.setattr(measuring, "in_turns", lambda *_, **__: taken)
    case = measuring.Case(
        "case", {"m": 2}, lambda: None, {"theirs": lambda: None}, lambda _: {}, {"theirs": 50.0}, {"theirs": 10.0}
    )
    row = measuring.run_case(case, 3)
    assert row["ratios"]["theirs"]["median"] == 20.0
    assert "theirs 20" in measuring.line(row)
    assert "wanted 50, from 1/10 of the work" in measuring.line(row)
    assert benchmark_modules("speed").missed(row) == ["theirs 20, wanted 50"]


def test_rivals_take_turns(benchmark_modules: Callable[[str], ModuleType]) -> None:
    calls: list[str] = []
    in_turns = benchmark_modules("measuring").in_turns
    seconds = in_turns({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 3, warm_up=False)
    assert calls == ["a", "b"] * 3
    assert [len(values) for values in seconds.values()] == [3, 3]


def test_bad_options_of_speed(
    benchmark_modules: Callable[[str], ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    speed = benchmark_modules("speed")
    options = [(["--repeats", "1"], "--repeats and --batch must be at least 2")]
    if not torch.cuda.is_available():
        options.append((["--device", "cuda"], "there is no GPU here"))
    for given, message in options:
        with pytest.raises(SystemExit):
            speed.main(given)
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit):
        benchmark_modules("figures").main(["--out", str(tmp_path)])
    assert "there is no speed.json in" in capsys.readouterr().err
