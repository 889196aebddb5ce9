"""Counts of bits and bytes: kernels and PyTorch agree with a direct count."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import ghrr
from ghrr import models
from ghrr.models.counting import count_different_bits, count_equal_bytes, pack_bits

backends = pytest.mark.parametrize("backend", ["torch", "numba"])
sizes = st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 300))


@backends
@given(sizes, st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_counts_equal_a_direct_count(backend: str, size: tuple[int, int, int], seed: int) -> None:
    n, k, d = size
    generator = torch.Generator().manual_seed(seed)
    a, b = (torch.randint(0, 3, (rows, d), generator=generator, dtype=torch.uint8) for rows in (n, k))
    with ghrr.backend(backend):
        different, equal = count_different_bits(a > 0, b > 0), count_equal_bytes(a, b)
    assert torch.equal(different, ((a > 0)[:, None] != (b > 0)).sum(-1).int())
    assert torch.equal(equal, (a[:, None] == b).sum(-1).int())


@given(st.integers(1, 200), st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_packed_bits_unpack_to_the_same_bits(d: int, seed: int) -> None:
    x = torch.randint(0, 2, (3, d), generator=torch.Generator().manual_seed(seed)).bool()
    packed = pack_bits(x)
    bits = (packed.unsqueeze(-1) >> torch.arange(8)) & 1
    assert torch.equal(bits.flatten(-2)[:, :d].bool(), x)
    assert not bits.flatten(-2)[:, d:].any()


@backends
def test_rows_that_are_not_contiguous(backend: str) -> None:
    model = models.BSC(130)
    x = model.random(6, generator=torch.Generator().manual_seed(0))
    with ghrr.backend(backend):
        assert torch.equal(model.pairwise_similarity(x[::2], x[1::2]), model.similarity(x[::2, None], x[1::2]))
