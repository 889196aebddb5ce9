"""Sampling by CPU kernels and by PyTorch gives the same matrices."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest
import torch

from ghrr import Space, ops
from ghrr.ops.cpu import unitary as cpu_unitary
from ghrr.ops.dispatch import OPERATIONS
from ghrr.unitary import is_unitary
from tests.helpers import generator


@pytest.fixture
def base_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The m of each call of a loop that makes base hypervectors."""
    seen: list[int] = []
    kernel = OPERATIONS["base_slots"].kernels[0]
    function = kernel.load()
    monkeypatch.setattr(kernel, "function", lambda *given: seen.append(given[2][-1]) or function(*given))  # type: ignore[func-returns-value]
    return seen


@pytest.mark.parametrize("phases", ["uniform", 4])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("m", [1, 2, 3, 8, 9])
def test_kernel_and_pytorch_give_the_same_hypervectors(
    m: int, dtype: torch.dtype, phases: str | int, base_calls: list[int]
) -> None:
    space = Space(1100, m, dtype=dtype, phases=phases)
    names = [f"name {i}" for i in range(8)]
    got = space.random(2, 4, generator=generator()), space.vectors(names)
    assert base_calls == [m, m]
    with ops.backend("torch"):
        want = space.random(2, 4, generator=generator()), space.vectors(names)
    assert base_calls == [m, m]
    tolerance = 2 * torch.finfo(dtype).eps if dtype == torch.complex64 else 4 * (m + 1) * torch.finfo(dtype).eps
    torch.testing.assert_close(got, want, rtol=0, atol=tolerance)
    assert not torch.allclose(got[0], space.random(2, 4, generator=generator(1)))  # negative control: other numbers


def test_threads_do_not_change_base_hypervectors(base_calls: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space(500, 2)
    want = space.random(20, generator=generator())
    monkeypatch.setattr(cpu_unitary, "_MIN_THREADED_SAMPLES", 1)
    assert torch.equal(space.random(20, generator=generator()), want)
    assert base_calls == [2, 2]


def test_small_rows_go_to_pytorch_unless_the_kernel_is_selected(base_calls: list[int]) -> None:
    space = Space(10, 3)
    want = space.random(4000, generator=generator()), space.vectors(["a"])
    assert base_calls == [3]  # random hypervectors are one row
    with ops.backend("numba"):
        got = space.vectors(["a"])
    assert base_calls == [3, 3]
    torch.testing.assert_close(got, want[1], rtol=0, atol=2 * torch.finfo(torch.float32).eps)


def test_fake_tensors_go_to_pytorch(base_calls: list[int]) -> None:
    space = Space(1000, 3, dtype=torch.complex128)
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        assert space.random(4, generator=generator()).shape == (4, 1000, 3, 3)
    assert base_calls == []


def test_results_are_complete() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        assert is_unitary(Space(33, 2).random(70, generator=generator()))
    finally:
        torch.use_deterministic_algorithms(False)


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


HIDE = "import importlib.util as u; find = u.find_spec; u.find_spec = lambda x: x != 'numba' and find(x) or None; "
SAMPLE = "import sys, torch, ghrr; x = ghrr.Space(1000, 3).random({count}, generator=torch.Generator()); "


@pytest.mark.slow
def test_numba_is_imported_only_for_many_numbers() -> None:
    few = SAMPLE.replace("1000", "50").format(count=1) + "print('numba' in sys.modules)"
    many = SAMPLE.format(count=1) + "print('numba' in sys.modules)"
    assert [run(few), run(many)] == ["False", "True"]


@pytest.mark.slow
def test_sampling_without_numba() -> None:
    assert run(HIDE + SAMPLE.format(count=20) + "print(ghrr.unitary.is_unitary(x))") == "True"


def test_default_device_does_not_matter(base_calls: list[int]) -> None:
    space, count = Space(1000, 3), 2
    want = space.random(count, generator=generator())
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("error")
        got = space.random(count, generator=generator())
    assert base_calls == [3, 3]
    assert torch.equal(got, want)
