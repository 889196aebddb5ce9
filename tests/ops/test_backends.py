"""Selecting a backend: by name, by block, by the environment, and what is reported about it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
import torch

import ghrr
from ghrr import ops
from ghrr.ops import backends
from tests.helpers import gaussian

LARGE = gaussian(500, 3, 3)
ALL = "'auto', 'torch', 'numba', 'triton', 'reference'"


def run(code: str, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    return (result.stdout + result.stderr.splitlines()[-1] if result.returncode else result.stdout).strip()


@pytest.mark.parametrize("name", ["torch", "reference"])
def test_block_restores_selection_after_an_error(name: str) -> None:
    with pytest.raises(RuntimeError, match="on purpose"), ghrr.backend(name):
        assert backends.selected() == name
        raise RuntimeError("on purpose")
    assert backends.selected() == "auto"


def test_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match=rf"backend\(name\): name must be one of {ALL}; got 'cuda'"):
        ghrr.backend("cuda")
    assert backends.selected() == "auto"


def test_backend_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name, extra in (("numba", "fast"), ("triton", "gpu")):
        with pytest.raises(ImportError, match=rf"{name} is not installed; pip install 'ghrr\[{extra}\]'"):
            ghrr.backend(name)
    assert backends.selected() == "auto"


def test_backend_that_failed_before_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "_failures", {"numba": "OSError: no compiler"})
    with pytest.raises(RuntimeError, match=r"numba failed earlier in this process \(OSError: no compiler\)"):
        ghrr.backend("numba")
    assert backends.selected() == "auto"


@pytest.fixture
def _restored_selection(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_selections", "_selected", "_validated"):
        monkeypatch.setattr(backends, name, getattr(backends, name))


@pytest.mark.usefixtures("_restored_selection")
def test_plain_call_takes_effect_at_once_and_stays() -> None:
    for name in ("torch", "reference"):
        ghrr.backend(name)
        assert backends.selected() == name


@pytest.mark.usefixtures("_restored_selection")
def test_block_restores_the_plain_call_before_it() -> None:
    ghrr.backend("torch")
    with ghrr.backend("numba"):
        with ghrr.backend("reference"):
            assert backends.selected() == "reference"
        assert backends.selected() == "numba"
    with pytest.raises(RuntimeError, match="on purpose"), ghrr.backend("numba"):
        raise RuntimeError("on purpose")
    assert backends.selected() == "torch"


def test_block_drops_plain_calls_made_inside() -> None:
    with ghrr.backend("torch"):
        ghrr.backend("reference")
        assert backends.selected() == "reference"
    assert backends.selected() == "auto"


def test_block_can_be_reused_but_not_nested_in_itself() -> None:
    block = ghrr.backend("torch")
    for _ in range(2):
        with block:
            assert backends.selected() == "torch"
            with pytest.raises(RuntimeError, match="already active"):
                block.__enter__()
        assert backends.selected() == "auto"


@pytest.mark.usefixtures("_restored_selection")
def test_plain_calls_do_not_accumulate() -> None:
    for _ in range(10):
        ghrr.backend("torch")
        ghrr.backend("numba")
    assert len(backends._selections) == 1
    assert backends._selections[0]._replaced is not None
    assert backends._selections[0]._replaced._replaced is None


def test_overlapping_blocks_restore_the_first_selection() -> None:
    first, second = ops.backend("torch"), ops.backend("reference")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert backends.selected() == "reference"
    second.__exit__(None, None, None)
    assert backends.selected() == "auto"


def test_selection_counts_in_all_threads() -> None:
    seen = []
    with ghrr.backend("torch"):
        thread = threading.Thread(target=lambda: seen.append(backends.selected()))
        thread.start()
        thread.join()
    assert seen == ["torch"]


BIND = "import torch, ghrr; x = torch.ones(500, 3, 3, dtype=torch.complex64); {before}; ghrr.bind(x, x); {after}"


@pytest.mark.slow
def test_environment_variable_sets_the_initial_backend() -> None:
    code = BIND.format(before="pass", after="print(ghrr.ops.in_use()['cpu'])")
    assert run(code, GHRR_BACKEND="torch") == "torch: selected"


@pytest.mark.slow
def test_unknown_name_in_the_environment_is_an_error_at_first_use() -> None:
    code = BIND.format(before="print('imported')", after="pass")
    printed = run(code, GHRR_BACKEND="fast")
    assert printed.startswith("imported\n")
    assert printed.endswith(
        f"ValueError: bind(a, b): the environment variable GHRR_BACKEND: its value must be one of {ALL}; got 'fast'"
    )


def test_name_from_the_environment_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "_validated", False)
    monkeypatch.setattr(backends, "_selected", "fast")
    with pytest.raises(ValueError, match=r"GHRR_BACKEND: its value must be one of .* got 'fast'"):
        ops.bind(LARGE, LARGE)
    monkeypatch.setattr(backends, "_selected", "reference")
    assert backends.selected() == "reference"
    assert backends._validated


def test_in_use_names_the_backend_of_each_device(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(ops.in_use()) == {"cpu", "cuda"}
    assert ops.in_use()["cpu"].startswith("numba ")
    if not torch.cuda.is_available():
        assert ops.in_use()["cuda"] == "none: no GPU"
    for name in ("reference", "torch"):
        with ghrr.backend(name):
            assert ops.in_use()["cpu"] == f"{name}: selected"
    monkeypatch.setattr(backends, "_selected", "triton")
    assert ops.in_use()["cpu"] == "torch: triton is selected"


HIDE = "import importlib.util as u; find = u.find_spec; u.find_spec = lambda x: x != 'numba' and find(x) or None; "


@pytest.mark.slow
def test_without_numba_pytorch_computes() -> None:
    code = HIDE + BIND.format(before="pass", after="print(ghrr.ops.in_use()['cpu'])")
    assert run(code).startswith("torch: numba is not installed (pip install 'ghrr[fast]' or")


@pytest.mark.slow
def test_numba_that_cannot_be_imported_is_replaced_with_one_warning() -> None:
    code = (
        "import sys, warnings; sys.modules['llvmlite'] = None\n"
        "warnings.simplefilter('always'); log = []; warnings.showwarning = lambda text, *_: log.append(str(text))\n"
        + BIND.format(before="pass", after="y = ghrr.bind(x, x); print(len(log), log[0], ghrr.ops.in_use()['cpu'])")
    )
    printed = run(code)
    assert printed.startswith("1 numba backend failed (ModuleNotFoundError")
    assert "torch: numba failed (ModuleNotFoundError" in printed


@pytest.mark.slow
def test_import_and_small_products_import_neither_numba_nor_triton() -> None:
    code = (
        "import sys, torch, ghrr; x = torch.ones(50, 3, 3, dtype=torch.complex64); ghrr.bind(x, x); ghrr.ops.in_use(); "
        "print([name for name in ('numba', 'triton') if name in sys.modules])"
    )
    assert run(code) == "[]"
