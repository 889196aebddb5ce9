"""bind_bags: sums of bound pairs by index, for all bag sizes, layouts, chunks, threads and backends."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor

import ghrr
from ghrr import ops
from ghrr.ops import backends, reference, torch_implementation
from ghrr.ops.cpu import products as cpu_products
from ghrr.ops.dispatch import OPERATIONS
from tests.helpers import gaussian
from tests.ops.test_cpu_products import LAYOUTS, assert_equal
from tests.ops.test_parity import DTYPES, SIZES, LargestAllocation

pytestmark = pytest.mark.usefixtures("poisoned_memory")

BACKENDS = pytest.mark.parametrize("kernels", [torch_implementation, cpu_products], ids=["torch", "numba"])
SIZES_OF_BAGS = (3, 0, 1, 8, 0)

Bags = tuple[Tensor, Tensor, Tensor]


def bags(keys: int, values: int, sizes: tuple[int, ...] = SIZES_OF_BAGS, seed: int = 0) -> Bags:
    """Indices into two tables for bags of these sizes, and the offset of each bag."""
    generator = torch.Generator().manual_seed(seed)
    places = [torch.randint(0, size, (sum(sizes),), generator=generator) for size in (keys, values)]
    return places[0], places[1], torch.tensor([0, *sizes]).cumsum(0)


@BACKENDS
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("m", SIZES)
def test_bags_equal_reference(kernels: ModuleType, m: int, dtype: torch.dtype) -> None:
    for dim in (1, 7, 8192 // (8 * m * m) + 3):  # the last is more than one block
        keys, values, some = gaussian(4, dim, m, m), gaussian(6, dim, m, m, seed=1), bags(4, 6)
        want = reference.bind_bags(keys, values, *some)
        assert_equal(kernels.bind_bags(keys.to(dtype), values.to(dtype), *some), want, terms=8 * m)
        with pytest.raises(
            AssertionError
        ):  # negative control: factors do not commute, and places are not interchangeable
            other = (keys, values.flip(0)) if m == 1 else (keys.mT, values.mT)
            assert_equal(kernels.bind_bags(*other, *some), want, terms=8 * m)


@BACKENDS
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tables_in_every_memory_layout(kernels: ModuleType, layout: str) -> None:
    change, some = LAYOUTS[layout], bags(4, 6)
    for m in (1, 2, 3):
        a, b = gaussian(4, 5, m, m), gaussian(6, 5, m, m, seed=1)
        for keys, values in ((change(a), b), (a, change(b)), (change(a), change(b))):
            torch.testing.assert_close(kernels.bind_bags(keys, values, *some), reference.bind_bags(keys, values, *some))


@pytest.mark.parametrize(
    "kernels", [torch_implementation, cpu_products, reference], ids=["torch", "numba", "reference"]
)
def test_empty_bags_are_zero(kernels: ModuleType) -> None:
    none, table = torch.empty(0, dtype=torch.long), gaussian(2, 5, 3, 3)
    assert kernels.bind_bags(table, table, none, none, torch.tensor([0])).shape == (0, 5, 3, 3)
    for keys in (table, table[:0]):
        empty = kernels.bind_bags(keys, keys, none, none, torch.tensor([0, 0, 0]))
        assert torch.equal(empty, torch.zeros(2, 5, 3, 3, dtype=table.dtype))


BAD: dict[str, tuple[list[int], list[int], list[int], str]] = {
    "a key too far": ([0, 4], [0, 1], [0, 2], "key_indices must be from 0 to 3, got 0 to 4"),
    "a value too far": ([0, 1], [6, 1], [0, 2], "value_indices must be from 0 to 5, got 1 to 6"),
    "a key before the first": ([0, -1], [0, 1], [0, 2], "key_indices must be from 0 to 3, got -1 to 0"),
    "a value before the first": ([0, 1], [-2, -1], [0, 2], "value_indices must be from 0 to 5, got -2 to -1"),
    "fewer values than keys": ([0, 1], [0], [0, 2], "key_indices and value_indices must have one length, got 2 and 1"),
    "a late start": ([0, 1], [0, 1], [1, 2], r"offsets must ascend from 0 to 2, got \[1 2\]"),
    "an early end": ([0, 1], [0, 1], [0, 1], r"offsets must ascend from 0 to 2, got \[0 1\]"),
    "an end too far": ([0, 1], [0, 1], [0, 3], r"offsets must ascend from 0 to 2, got \[0 3\]"),
    "a start after the next": ([0, 1], [0, 1], [0, 5, 2], r"offsets must ascend from 0 to 2, got \[0 5 2\]"),
}


@pytest.mark.parametrize("backend", ["torch", "numba"])
@pytest.mark.parametrize("what", BAD)
def test_indices_outside_the_tables_are_refused(what: str, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "_failures", {})
    *places, message = BAD[what]
    with pytest.raises(IndexError, match=f"bind_bags: {message}"), ghrr.backend(backend):
        ops.bind_bags(gaussian(4, 5, 2, 2), gaussian(6, 5, 2, 2), *map(torch.tensor, places))
    assert backends._failures == {}  # the input is at fault, not the kernel


@pytest.mark.parametrize("pairs", [1, 3, 100])
def test_pytorch_stores_a_limited_number_of_pairs(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, values, some = gaussian(4, 50, 2, 2), gaussian(6, 50, 2, 2, seed=1), bags(4, 6, (9, 0, 30))
    want = reference.bind_bags(keys, values, *some)
    monkeypatch.setattr(torch_implementation, "_PAIR_NUMBERS", pairs * 200)
    monkeypatch.setattr(torch_implementation, "_CHUNK_NUMBERS", 2 * 200)
    with LargestAllocation() as memory:
        got = torch_implementation.bind_bags(keys, values, *some)
    torch.testing.assert_close(got, want)
    distinct = len(set(zip(some[0].tolist(), some[1].tolist(), strict=True)))
    assert memory.numbers == max(min(pairs, distinct) * 200, 2 * got.numel())  # pairs, or the sums as reals


def test_cpu_kernel_stores_no_pairs() -> None:
    keys, values, some = gaussian(4, 50, 3, 3), gaussian(6, 50, 3, 3, seed=1), bags(4, 6, (1, 40))
    with LargestAllocation() as memory:
        got = cpu_products.bind_bags(keys, values, *some)
    assert memory.numbers == got.numel()


def test_large_bags_keep_their_precision() -> None:
    """One by one the rounding of a long sum of equal terms would grow with their number."""
    n = 20_000
    table = torch.full((1, 1, 2, 2), 0.1, dtype=torch.complex64)
    places = torch.zeros(n, dtype=torch.long)
    got = cpu_products.bind_bags(table, table, places, places, torch.tensor([0, n]))
    exact = n * 2 * float(table[0, 0, 0, 0].real) ** 2
    eps = torch.finfo(torch.float32).eps
    assert abs(float(got[0, 0, 0, 0].real) / exact - 1) < 32 * eps
    one_by_one = np.cumsum(np.full(n, exact / n, dtype=np.float32), dtype=np.float32)[-1]
    assert abs(float(one_by_one) / exact - 1) > 32 * eps  # negative control


@pytest.mark.parametrize("threads", [1, 2, 3, 9])
def test_bags_in_threads_equal_reference(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_products, "MIN_THREADED", 1)
    torch.set_num_threads(threads)
    keys, values, some = gaussian(4, 7, 3, 3), gaussian(6, 7, 3, 3, seed=1), bags(4, 6)
    torch.testing.assert_close(cpu_products.bind_bags(keys, values, *some), reference.bind_bags(keys, values, *some))


def test_kernel_is_used_for_many_pairs() -> None:
    operation = OPERATIONS["bind_bags"]
    keys, values = gaussian(4, 50, 1, 1), gaussian(6, 50, 1, 1)
    few, many = bags(4, 6, (2, 1)), bags(4, 6, (20, 10))
    assert operation.choose_kernel(keys, values, *few) is None
    assert operation.choose_kernel(keys, values, *many) is operation.kernels[0]
    with ghrr.backend("numba"):
        assert operation.choose_kernel(keys, values, *few) is operation.kernels[0]
        assert ops.bind_bags(keys.clone().requires_grad_(), values, *few).requires_grad  # by PyTorch
    with ghrr.backend("reference"):
        assert operation.choose_kernel(keys, values, *many) is None
