"""Which backend computes: by name, by the environment, by what is installed and what fails."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import ghrr
from ghrr import ops
from ghrr.ops import choice, numba_backend, reference, torch_backend
from tests.helpers import gaussian

LARGE, SMALL = gaussian(500, 3, 3), gaussian(5, 3, 3)
ALL = "'auto', 'torch', 'numba', 'triton', 'reference'"


def run(code: str, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    return (result.stdout + result.stderr.splitlines()[-1] if result.returncode else result.stdout).strip()


def test_auto_takes_numba_where_it_pays() -> None:
    assert choice.kernels_for("bind", LARGE, LARGE) is numba_backend
    assert choice.kernels_for("bind", LARGE, SMALL) is numba_backend
    assert choice.kernels_for("bind", SMALL, SMALL) is torch_backend
    fhrr = LARGE.reshape(-1, 1, 1)
    assert choice.kernels_for("bind", fhrr, fhrr) is torch_backend  # torch's elementwise product is as quick
    assert choice.kernels_for("bind_bundle", fhrr, fhrr) is numba_backend


def test_what_numba_cannot_take_goes_to_torch() -> None:
    with ghrr.backend("numba"):
        assert choice.kernels_for("bind", SMALL, SMALL) is numba_backend
        for other in (gaussian(2, 9, 9), SMALL.to("meta"), SMALL.real):
            assert choice.kernels_for("bind", other, other) is torch_backend
        big = gaussian(2, 9, 9)
        torch.testing.assert_close(ghrr.bind(big, big), big @ big)


@pytest.mark.parametrize(("name", "kernels"), [("torch", torch_backend), ("reference", reference)])
def test_a_backend_is_used_inside_its_block_only(name: str, kernels: object) -> None:
    with pytest.raises(RuntimeError, match="on purpose"), ghrr.backend(name):
        assert choice.kernels_for("bind", LARGE, LARGE) is kernels
        raise RuntimeError("on purpose")
    assert choice.kernels_for("bind", LARGE, LARGE) is numba_backend


def test_unknown_names_are_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=rf"backend\(name\): name must be one of {ALL}; got 'cuda'"):
        ghrr.backend("cuda")
    assert choice.chosen() == "auto"


def test_a_backend_that_is_not_installed_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name, extra in (("numba", "fast"), ("triton", "gpu")):
        with pytest.raises(ImportError, match=rf"{name} is not installed; pip install 'ghrr\[{extra}\]'"):
            ghrr.backend(name)
    assert choice.chosen() == "auto"


def test_a_backend_that_failed_before_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_failed", {"numba": "OSError: no compiler"})
    with pytest.raises(RuntimeError, match=r"numba failed earlier in this process \(OSError: no compiler\)"):
        ghrr.backend("numba")
    assert choice.chosen() == "auto"


@pytest.fixture
def _no_choice_left(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_choices", "_chosen", "_sure"):
        monkeypatch.setattr(choice, name, getattr(choice, name))


@pytest.mark.usefixtures("_no_choice_left")
def test_a_plain_call_takes_effect_at_once_and_stays() -> None:
    ghrr.backend("torch")
    assert choice.kernels_for("bind", LARGE, LARGE) is torch_backend
    ghrr.backend("reference")
    assert choice.kernels_for("bind", LARGE, LARGE) is reference


@pytest.mark.usefixtures("_no_choice_left")
def test_a_block_restores_the_plain_call_before_it() -> None:
    ghrr.backend("torch")
    with ghrr.backend("numba"):
        with ghrr.backend("reference"):
            assert choice.chosen() == "reference"
        assert choice.chosen() == "numba"
    with pytest.raises(RuntimeError, match="on purpose"), ghrr.backend("numba"):
        raise RuntimeError("on purpose")
    assert choice.chosen() == "torch"


def test_a_block_ends_the_plain_calls_inside_it() -> None:
    with ghrr.backend("torch"):
        ghrr.backend("reference")
        assert choice.chosen() == "reference"
    assert choice.chosen() == "auto"


def test_a_block_can_be_used_again_but_not_inside_itself() -> None:
    with ghrr.backend("torch") as _:
        pass
    block = ghrr.backend("torch")
    for _ in range(2):
        with block:
            assert choice.chosen() == "torch"
            with pytest.raises(RuntimeError, match="entered already"):
                block.__enter__()
        assert choice.chosen() == "auto"


@pytest.mark.usefixtures("_no_choice_left")
def test_plain_calls_do_not_pile_up() -> None:
    for _ in range(10):
        ghrr.backend("torch")
        ghrr.backend("numba")
    assert len(choice._choices) == 1
    assert choice._choices[0]._replaced is not None
    assert choice._choices[0]._replaced._replaced is None


def test_a_choice_counts_in_all_threads() -> None:
    seen = []
    with ghrr.backend("torch"):
        thread = threading.Thread(target=lambda: seen.append(choice.chosen()))
        thread.start()
        thread.join()
    assert seen == ["torch"]


BIND = "import torch, ghrr; x = torch.ones(500, 3, 3, dtype=torch.complex64); {before}; ghrr.bind(x, x); {after}"


def test_the_environment_names_the_backend_to_start_with() -> None:
    code = BIND.format(before="pass", after="print(ghrr.ops.in_use()['cpu'])")
    assert run(code, GHRR_BACKEND="torch") == "torch: asked for"


def test_an_unknown_name_in_the_environment_is_an_error_at_first_use() -> None:
    code = BIND.format(before="print('imported')", after="pass")
    said = run(code, GHRR_BACKEND="fast")
    assert said.startswith("imported\n")
    assert said.endswith(
        f"ValueError: the environment variable GHRR_BACKEND: its value must be one of {ALL}; got 'fast'"
    )


def test_the_environment_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_sure", False)
    monkeypatch.setattr(choice, "_chosen", "fast")
    with pytest.raises(ValueError, match=r"GHRR_BACKEND: its value must be one of .* got 'fast'"):
        ops.bind(LARGE, LARGE)
    monkeypatch.setattr(choice, "_chosen", "reference")
    assert choice.kernels_for("bind", LARGE, LARGE) is reference
    assert choice._sure


HIDE = "import importlib.util as u; find = u.find_spec; u.find_spec = lambda x: x != 'numba' and find(x) or None; "


def test_without_numba_torch_computes_and_says_so() -> None:
    code = HIDE + BIND.format(before="pass", after="print(ghrr.ops.in_use()['cpu'])")
    assert run(code).startswith("torch: numba is not installed (pip install 'ghrr[fast]' or")


def test_a_numba_that_cannot_be_imported_is_replaced_with_one_warning() -> None:
    code = (
        "import sys, warnings; sys.modules['llvmlite'] = None\n"
        "warnings.simplefilter('always'); log = []; warnings.showwarning = lambda text, *_: log.append(str(text))\n"
        + BIND.format(before="pass", after="y = ghrr.bind(x, x); print(len(log), log[0], ghrr.ops.in_use()['cpu'])")
    )
    said = run(code)
    assert said.startswith("1 numba backend failed (ModuleNotFoundError")
    assert "torch: numba failed (ModuleNotFoundError" in said


def test_a_loop_that_fails_to_compile_is_replaced_with_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_failed", {})

    def broken() -> None:
        raise OSError("no compiler")

    monkeypatch.setattr(numba_backend, "_loops", broken)
    numba_backend._flat_product.cache_clear()
    with pytest.warns(
        RuntimeWarning, match=r"numba backend failed \(OSError: no compiler\); falling back to PyTorch"
    ) as caught:
        first = ghrr.bind(LARGE, LARGE)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = ghrr.bind_bundle(LARGE[None], LARGE[None])
    assert torch.equal(first, LARGE @ LARGE)
    torch.testing.assert_close(second, LARGE @ LARGE)
    assert ops.in_use()["cpu"] == "torch: numba failed (OSError: no compiler)"


def test_an_error_that_torch_makes_too_is_not_the_fault_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_failed", {})
    with pytest.raises(RuntimeError, match="size"):
        ops.bind(gaussian(4, 500, 3, 3), gaussian(3, 500, 3, 3))
    assert choice._failed == {}


def test_a_gpu_is_served_by_triton_if_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_failed", {})
    on_gpu: Any = SimpleNamespace(is_cpu=False, is_cuda=True)
    kernels: Any = SimpleNamespace(suits=lambda *tensors: True, pays=lambda operation, *tensors: True)
    monkeypatch.setattr(choice, "_triton", lambda: kernels)
    assert choice.kernels_for("bind", on_gpu) is kernels
    monkeypatch.setattr(kernels, "pays", lambda operation, *tensors: False)
    assert choice.kernels_for("bind", on_gpu) is torch_backend
    monkeypatch.setattr(kernels, "pays", lambda operation, *tensors: True)
    monkeypatch.setattr(kernels, "suits", lambda *tensors: False)
    assert choice.kernels_for("bind", on_gpu) is torch_backend
    monkeypatch.setattr(choice, "_triton", lambda: None)
    assert choice.kernels_for("bind", on_gpu) is torch_backend


def test_a_triton_that_cannot_be_imported_is_left_out_with_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_failed", {})
    monkeypatch.setattr(choice, "_TRITON_INSTALLED", False)
    assert choice._triton() is None
    monkeypatch.setattr(choice, "_TRITON_INSTALLED", True)
    monkeypatch.setitem(sys.modules, "ghrr.ops.triton_backend", None)
    monkeypatch.delattr(ops, "triton_backend", raising=False)
    with pytest.warns(RuntimeWarning, match="triton backend failed"):
        assert choice._triton() is None
    assert choice.kernels_for("bind", SimpleNamespace(is_cpu=False, is_cuda=True)) is torch_backend  # type: ignore[arg-type]


def test_in_use_says_what_computes_where() -> None:
    assert set(ops.in_use()) == {"cpu", "cuda"}
    assert ops.in_use()["cpu"].startswith("numba ")
    if not torch.cuda.is_available():
        assert ops.in_use()["cuda"] == "none: no GPU"
    with ghrr.backend("reference"):
        assert ops.in_use()["cpu"] == "reference: asked for"
    with ghrr.backend("torch"):
        assert ops.in_use()["cpu"] == "torch: asked for"


def test_importing_and_small_products_do_not_import_numba_or_triton() -> None:
    code = (
        "import sys, torch, ghrr; x = torch.ones(50, 3, 3, dtype=torch.complex64); ghrr.bind(x, x); ghrr.ops.in_use(); "
        "print([name for name in ('numba', 'triton') if name in sys.modules])"
    )
    assert run(code) == "[]"


def test_blocks_that_overlap_leave_nothing_behind() -> None:
    first, second = ops.backend("torch"), ops.backend("reference")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert choice.chosen() == "reference"
    second.__exit__(None, None, None)
    assert choice.chosen() == "auto"


def test_tracing_goes_to_torch_and_gives_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_failed", {})
    a = gaussian(500, 3, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about shapes and about tracing
        traced = torch.jit.trace(ops.bind, (a, a))
    torch.testing.assert_close(traced(a, a), reference.bind(a, a))
    assert choice._failed == {}
