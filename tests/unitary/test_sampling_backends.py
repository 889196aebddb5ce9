"""Sampling by CPU kernels and by PyTorch gives the same matrices."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable

import pytest
import torch

from ghrr import Space, ops
from ghrr.ops import backends
from ghrr.ops.cpu import sampling as sampling_loops
from ghrr.ops.cpu import unitary as cpu_unitary
from ghrr.ops.dispatch import OPERATIONS
from ghrr.unitary import is_unitary, sampling
from ghrr.unitary.sampling import draw_uniform, haar_from_uniform
from tests.helpers import generator


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The m of each call of a loop."""
    seen: list[int] = []
    loop = sampling_loops.haar_kernel
    monkeypatch.setattr(sampling_loops, "haar_kernel", lambda m: seen.append(m) or loop(m))  # type: ignore[func-returns-value]
    return seen


@pytest.fixture
def base_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The m of each call of a loop that makes base hypervectors."""
    seen: list[int] = []
    kernel = OPERATIONS["base_slots"].kernels[0]
    function = kernel.load()
    monkeypatch.setattr(kernel, "function", lambda *given: seen.append(given[2][-1]) or function(*given))  # type: ignore[func-returns-value]
    return seen


@pytest.fixture
def kernel_for_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_LEAST_NUMBERS", 0)


@pytest.mark.parametrize("phases", ["uniform", 4])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("m", [1, 2, 3])
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
    tolerance = 2 * torch.finfo(dtype).eps if dtype == torch.complex64 else 1e-11
    torch.testing.assert_close(got, want, rtol=0, atol=tolerance)
    assert not torch.allclose(got[0], space.random(2, 4, generator=generator(1)))  # negative control: other numbers


def test_threads_do_not_change_base_hypervectors(base_calls: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space(500, 2)
    want = space.random(20, generator=generator())
    monkeypatch.setattr(cpu_unitary, "_LEAST_THREADED_SAMPLES", 1)
    assert torch.equal(space.random(20, generator=generator()), want)
    assert base_calls == [2, 2]


def test_dependent_columns_of_base_hypervectors_go_to_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space(500, 3)
    with ops.backend("torch"):
        want = space.random(4, generator=generator())
    monkeypatch.setattr(sampling_loops, "base_kernel", lambda m: lambda *_: 1)
    assert torch.equal(space.random(4, generator=generator()), want)


def test_few_numbers_and_large_matrices_go_to_pytorch(calls: list[int]) -> None:
    few = draw_uniform(generator(), 10, 3, 3, 2)
    haar_from_uniform(few)
    with ops.backend("reference"):
        haar_from_uniform(few)
    with ops.backend("numba"):
        haar_from_uniform(draw_uniform(generator(), 10, 9, 9, 2))
        assert calls == []
        haar_from_uniform(few)
    assert calls == [3]


@pytest.mark.usefixtures("kernel_for_all_sizes")
def test_kernel_takes_any_memory_layout(calls: list[int]) -> None:
    u = draw_uniform(generator(), 4, 10, 3, 3, 2)
    together = haar_from_uniform(u)
    with torch.inference_mode():
        assert torch.equal(haar_from_uniform(u + 0), together)
    assert torch.equal(haar_from_uniform(u.clone().requires_grad_()), together)  # of which there is no derivative
    assert torch.equal(haar_from_uniform(u.mT.contiguous().mT), together)
    assert calls == [3] * 4


@pytest.mark.usefixtures("kernel_for_all_sizes")
def test_fake_tensors_go_to_pytorch(calls: list[int]) -> None:
    space = Space(10, 3, dtype=torch.complex128)
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        assert space.random(4, generator=generator()).shape == (4, 10, 3, 3)
    assert calls == []


@pytest.mark.usefixtures("kernel_for_all_sizes")
@pytest.mark.parametrize("turned", [False, True])
def test_equal_columns_go_to_pytorch(turned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    u, turns = draw_uniform(generator(), 500, 3, 3, 2), draw_uniform(generator(1), 500, 3) if turned else None
    u[7, :, 2] = u[7, :, 0]
    u[8, :, 1, 0] = 0
    monkeypatch.setattr(sampling, "_CHUNK_NUMBERS", (100 * 9, 100 * 9))
    got = haar_from_uniform(u, turns)
    with ops.backend("torch"):
        want = haar_from_uniform(u, turns)
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)
    assert is_unitary(got[9:])


@pytest.mark.usefixtures("kernel_for_all_sizes")
def test_results_are_complete() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        assert is_unitary(Space(33, 2).random(7, generator=generator()))
    finally:
        torch.use_deterministic_algorithms(False)


def test_uniform_numbers_do_not_depend_on_their_count(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = generator(), generator()
    want = torch.rand(50, 7, dtype=torch.float64, generator=one)
    monkeypatch.setattr(sampling, "_LEAST_NUMBERS", 0)
    assert torch.equal(draw_uniform(two, 50, 7), want)
    assert torch.equal(one.get_state(), two.get_state())


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


HIDE = "import importlib.util as u; find = u.find_spec; u.find_spec = lambda x: x != 'numba' and find(x) or None; "
SAMPLE = "import sys, torch, ghrr; x = ghrr.Space(1000, 3).random({count}, generator=torch.Generator()); "


def test_numba_is_imported_only_for_many_numbers() -> None:
    few = SAMPLE.replace("1000", "50").format(count=1) + "print('numba' in sys.modules)"
    many = SAMPLE.format(count=1) + "print('numba' in sys.modules)"
    assert [run(few), run(many)] == ["False", "True"]


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


@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_turns_of_the_wrong_shape_are_refused(backend: str) -> None:
    u, turns = draw_uniform(generator(), 40, 3, 3, 2), draw_uniform(generator(1), 7, 3)
    with pytest.raises(RuntimeError), ops.backend(backend):
        haar_from_uniform(u, turns)
    assert "numba" not in backends._failures


@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_nan_stays_in_its_slot(backend: str) -> None:
    u = draw_uniform(generator(), 40, 3, 3, 2)
    u[17, 1, 1, 0] = torch.nan
    with ops.backend(backend):
        out = haar_from_uniform(u)
    slots = out.isnan().any(dim=-1).any(dim=-1).nonzero().flatten()
    assert slots.tolist() == [17]


@pytest.mark.parametrize("place", [3, 36])
def test_dependent_columns_in_any_thread_go_to_pytorch(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_halves(work: Callable[[slice], None], count: int, **_: object) -> None:
        work(slice(0, count // 2))
        work(slice(count // 2, count))

    monkeypatch.setattr(cpu_unitary, "run_in_threads", in_halves)
    u = draw_uniform(generator(), 40, 3, 3, 2)
    u[place, :, 2] = u[place, :, 1] = 0.0  # radius 0: a column of zeros
    with ops.backend("torch"):
        want = haar_from_uniform(u)
    with ops.backend("numba"):
        torch.testing.assert_close(haar_from_uniform(u), want, rtol=0, atol=0, equal_nan=True)
