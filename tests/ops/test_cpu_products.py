"""CPU kernels of the products: memory layouts, sizes, rounding, threads, forks and the cache on disk."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import numpy as np
import pytest
import torch
from torch import Tensor

from ghrr.ops import reference, strides, torch_implementation
from ghrr.ops.cpu import loops, multiply
from ghrr.ops.cpu import products as cpu_products
from tests.helpers import gaussian, rounding
from tests.ops.test_parity import LargestAllocation
from tests.processes import HANG, needs_fork

pytestmark = pytest.mark.usefixtures("poisoned_memory")

SIZES = range(1, 9)
DTYPES = (torch.complex64, torch.complex128)


def assert_equal(got: Tensor, want: Tensor, *, terms: int) -> None:
    assert got.shape == want.shape
    scale = 1.0 + float(want.abs().max())
    torch.testing.assert_close(got.to(want.dtype), want, atol=rounding(got.dtype, terms=terms, scale=scale), rtol=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("m", SIZES)
def test_every_number_of_slots(m: int, dtype: torch.dtype) -> None:
    """Small m process several slots at a time, and results in blocks: incomplete last blocks must be right."""
    for dim in (*range(1, 10), 8192 // (16 * m * m) + 3):
        a, b = gaussian(2, 3, dim, m, m)
        want = a @ b
        x, y = a.to(dtype), b.to(dtype)
        assert_equal(cpu_products.bind(x, y), want, terms=m)
        assert_equal(cpu_products.bind_bundle(x, y), want.sum(0), terms=3 * m)
        assert_equal(cpu_products.multibind(torch.stack([x, y, y], dim=-4)), a @ b @ b, terms=m * m)
        assert_equal(cpu_products.whole_power(x, 3), a @ a @ a, terms=m * m)
        assert_equal(cpu_products.bind_similarity(x, y, x), torch_implementation.similarity(want, a), terms=m * m * dim)


# The same numbers in other places of memory: a view of a larger tensor whose other numbers are NaN.
def _inside(x: Tensor, *axes: int) -> Tensor:
    """Every second number along some axes, counted from the last."""
    sizes = [size * (2 if axis - x.ndim in axes else 1) for axis, size in enumerate(x.shape)]
    where = tuple(slice(None, None, 2 if axis - x.ndim in axes else 1) for axis in range(x.ndim))
    wide = torch.full(sizes, torch.nan, dtype=x.dtype)
    wide[where] = x
    return wide[where]


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "every second row of a batch": lambda x: _inside(x, -4),
    "every second slot": lambda x: _inside(x, -3),
    "every second row of a slot": lambda x: _inside(x, -2),
    "every second column": lambda x: _inside(x, -1),
    "slots before batch": lambda x: x.transpose(-3, -4).contiguous().transpose(-3, -4),
    "slots last": lambda x: x.movedim(-3, -1).contiguous().movedim(-1, -3),
    "transposed": lambda x: x.mT.contiguous().mT,
    "conjugated": lambda x: x.conj().resolve_conj().conj(),
    "adjoint": lambda x: x.mH.resolve_conj().contiguous().mH,
    "negated": lambda x: torch._neg_view(-x),
    "one slot for all": lambda x: x[..., :1, :, :].expand(x.shape),
    "one row for all": lambda x: x[:1].expand(x.shape),
    "one number for all": lambda x: x[:1, :1, :1, :1].expand(x.shape),
    "transposed and one row for all": lambda x: x[:1].mT.contiguous().mT.expand(x.shape),
}


@pytest.mark.parametrize("adjoint", [(False, False), (True, False), (False, True)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_memory_layout(layout: str, adjoint: tuple[bool, bool]) -> None:
    change = LAYOUTS[layout]
    for m in (1, 2, 3, 5):
        a, b = gaussian(2, 4, 6, m, m)
        for x, y in ((change(a), b), (a, change(b)), (change(a), change(b))):
            left, right = (z.resolve_conj().resolve_neg().contiguous() for z in (x, y))
            want = reference.bind(left, right, *adjoint)
            assert_equal(cpu_products.bind(x, y, *adjoint), want, terms=m)
            assert_equal(cpu_products.bind_bundle(x, y, *adjoint), want.sum(0), terms=4 * m)
            delta = torch_implementation.similarity(want, left)
            assert_equal(cpu_products.bind_similarity(x, y, x, *adjoint), delta, terms=6 * m**2)
            assert_equal(cpu_products.multibind(x), reference.multibind(left), terms=m**4)
            assert_equal(cpu_products.whole_power(y, 5), reference.power(right, 5), terms=m**5)


SHAPES = [
    ((3, 1), (2,)),
    ((), (5,)),
    ((2, 1, 3, 1), (2, 4, 1, 2)),
    ((2, 1, 2, 1, 2, 1), (1, 2, 1, 2, 1, 2)),
    ((0,), (1,)),
]


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
def test_broadcast_factors_are_not_expanded(left: tuple[int, ...], right: tuple[int, ...], m: int) -> None:
    a, b = gaussian(*left, 6, m, m), gaussian(*right, 6, m, m, seed=1)
    for x, y in ((a, b), (b, a)):
        with LargestAllocation() as memory:
            got = cpu_products.bind(x, y)
        torch.testing.assert_close(got, x @ y)
        assert memory.numbers <= got.numel()
        torch.testing.assert_close(
            cpu_products.bind_similarity(x, y, y), torch_implementation.similarity(x @ y, y), equal_nan=True
        )


def test_contiguous_axes_are_merged() -> None:
    whole = strides.broadcast_strides((4, 5, 6), 1, ((4, 5, 6, 2, 2), (120, 24, 4, 2, 1)))
    assert whole.tolist() == [[120], [4]]


@pytest.mark.parametrize("m", [1, 2, 3, 8])
def test_nan_stays_in_its_slot(m: int) -> None:
    a, b = gaussian(2, 3, 9, m, m, dtype=torch.complex64)
    for bad in (torch.nan, torch.inf):
        x = a.clone()
        x[1, 4, 0, 0] = bad
        results = (
            cpu_products.bind(x, b),
            cpu_products.bind(b, x, adjoint_b=True),
            cpu_products.whole_power(x, 2),
            cpu_products.bind_bundle(x[:, None], b[:, None]),
        )
        for got in results:
            touched = (~torch.isfinite(got)).any(dim=-1).any(dim=-1)
            assert touched.nonzero().tolist() == [[1, 4]]


@pytest.mark.parametrize("m", [1, 3])
def test_bind_bundle_does_not_store_products(m: int) -> None:
    keys, values = gaussian(400, 50, m, m), gaussian(400, 50, m, m, seed=1)
    with LargestAllocation() as fused:
        fast = cpu_products.bind_bundle(keys, values)
    torch.testing.assert_close(fast, (keys @ values).sum(0))
    assert fused.numbers == fast.numel()


def test_long_sums_keep_their_precision() -> None:
    """One by one the rounding of a long sum of equal terms would grow with their number."""
    items = 20_000
    keys = torch.full((items, 1, 2, 2), 0.1, dtype=torch.complex64)
    got = cpu_products.bind_bundle(keys, keys[:1])
    exact = items * 2 * float(keys[0, 0, 0, 0].real) ** 2
    eps = torch.finfo(torch.float32).eps
    assert abs(float(got[0, 0, 0].real) / exact - 1) < 32 * eps
    one_by_one = np.cumsum(np.full(items, exact / items, dtype=np.float32), dtype=np.float32)[-1]
    assert abs(float(one_by_one) / exact - 1) > 32 * eps  # negative control


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three threads for every product."""
    monkeypatch.setattr(cpu_products, "MIN_THREADED", 1)
    torch.set_num_threads(3)


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("batch", [(), (1,), (2,), (5,), (0,)], ids=str)
def test_results_in_threads_equal_pytorch(batch: tuple[int, ...]) -> None:
    a, b = gaussian(2, *batch, 7, 3, 3)
    torch.testing.assert_close(cpu_products.bind(a, b), a @ b)
    torch.testing.assert_close(cpu_products.bind_similarity(a, b, a), torch_implementation.similarity(a @ b, a))
    torch.testing.assert_close(cpu_products.whole_power(a, 4), torch.linalg.matrix_power(a, 4))
    stack = torch.stack([a, b, a], dim=-4)
    torch.testing.assert_close(cpu_products.multibind(stack), a @ b @ a)
    torch.testing.assert_close(cpu_products.bind_bundle(stack, stack), 2 * a @ a + b @ b)


@pytest.mark.usefixtures("shared")
def test_bind_from_several_threads() -> None:
    a, b = gaussian(2, 50, 3, 3)
    want = cpu_products.bind(a, b)
    with ThreadPoolExecutor(4) as pool:
        assert all(torch.equal(got, want) for got in pool.map(lambda _: cpu_products.bind(a, b), range(40)))


def _bind_in_child(a: Tensor, b: Tensor, queue: multiprocessing.Queue[list[float]]) -> None:
    queue.put(torch.view_as_real(cpu_products.bind(a, b)).flatten().tolist())


@needs_fork
@pytest.mark.usefixtures("shared")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
def test_bind_in_a_forked_process() -> None:
    a, b = gaussian(2, 50, 3, 3)
    want = torch.view_as_real(cpu_products.bind(a, b)).flatten().tolist()
    context = multiprocessing.get_context("fork")
    queue: multiprocessing.Queue[list[float]] = context.Queue()
    child = context.Process(target=_bind_in_child, args=(a, b, queue))
    child.start()
    assert queue.get(timeout=HANG) == want
    child.join(timeout=HANG)


def test_results_on_huge_pages_are_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.use_deterministic_algorithms(False)
    monkeypatch.setattr(cpu_products, "_MIN_HUGE", 1)
    a, b = gaussian(2, 50, 3, 3)
    torch.testing.assert_close(cpu_products.bind(a, b), a @ b)


@pytest.mark.parametrize("m", [2, 3])
def test_inner_loop_is_compiled_without_a_cache(m: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    compiled = multiply.multiply_loop.__wrapped__(64, m, False, True, True)
    assert compiled.cache_hits == 0
    a, b = gaussian(2, 7, m, m)
    out = torch.ones_like(a)
    step = m * m * 16
    compiled.ctypes(out.data_ptr(), a.data_ptr(), b.data_ptr(), 7, step, step, step)
    torch.testing.assert_close(out, 1 + a @ b.mH)


def test_loop_over_slots_is_compiled_without_a_cache() -> None:
    a, b = gaussian(2, 7, 3, 3)
    product = multiply.multiply_loop(64, 3, False, False, False)
    table = strides.broadcast_strides((7,), 16, *[((7, 3, 3), (9, 3, 1))] * 3)
    sums = np.zeros(1)
    loop = numba.njit(loops.bind_similarity.py_func)
    places = a.data_ptr(), b.data_ptr(), a.data_ptr()
    loop(0, 7, product.address, 144, table, 7, sums, np.empty(0), *places)
    torch.testing.assert_close(torch.from_numpy(sums / 21)[0], torch_implementation.similarity(a @ b, a))


FOUND = """
import numpy as np
from ghrr.ops.cpu import multiply, phasors
rotate = phasors.rotate_kernel(2)
rotate(*[np.zeros(shape, dtype=np.float32) for shape in ((1, 4), 16, 16, (1, 16))])
print(multiply.multiply_loop(32, 3, False, False, False).cache_hits, sum(rotate.stats.cache_hits.values()))
"""


@pytest.mark.slow
def test_second_process_loads_loops_from_disk(tmp_path: Path) -> None:
    """Their closures must be the same in every process."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", FOUND]
    shown = [subprocess.run(command, capture_output=True, text=True, check=True, env=environment) for _ in range(2)]
    assert [result.stdout for result in shown] == ["0 0\n", "1 1\n"]
