"""Compiled loops of sampling: exact cosines and sines, Haar matrices in all slots, Philox numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ghrr._random import labelled_keys, slot_uniform
from ghrr.ops.cpu import philox
from ghrr.ops.cpu import sampling as sampling_loops
from ghrr.ops.cpu.lanes import SLOTS
from tests.helpers import generator, haar_product

EPS = torch.finfo(torch.float64).eps


def test_cos_sin_is_exact_to_rounding_for_angles_up_to_two_turns() -> None:
    eighths = torch.arange(17, dtype=torch.float64) / 8
    uniform = 2 * torch.rand(1 << 18, dtype=torch.float64, generator=generator())
    angles = torch.cat([uniform, eighths, eighths + 2.0**-52, eighths - 2.0**-52]).numpy()
    exact = 8 * np.arctan(np.longdouble(1)) * angles.astype(np.longdouble)
    cos, sin = np.empty_like(angles), np.empty_like(angles)
    sampling_loops.cos_sin(angles, cos, sin)
    for got, want in ((cos, np.cos(exact)), (sin, np.sin(exact))):
        assert np.abs(got - want).max() < 2 * EPS


@pytest.mark.parametrize("slots", [1, 7, 8, SLOTS - 1, SLOTS, SLOTS + 1, 3 * SLOTS - 6])
@pytest.mark.parametrize("m", [2, 3, 8, 11])
def test_only_chunks_from_start_to_stop_are_filled(m: int, slots: int) -> None:
    keys, chunks = labelled_keys(["a", "b", "c"], 3, "x"), -(-slots // SLOTS)
    out = np.full((3, slots, m * m), np.nan, dtype=np.complex128)
    sampling_loops.base_slots(m, chunks, 2 * chunks, slots, keys, keys[:0], 0, out)
    want = haar_product(slot_uniform(keys, slots, m * m)).numpy().reshape(out.shape)
    np.testing.assert_allclose(out[1], want[1], rtol=0, atol=4 * m * EPS)
    assert np.isnan(out[[0, 2]]).all()
    assert not np.allclose(out[1], want[0])  # negative control: numbers of another key


@pytest.mark.parametrize("numbers", [1, 2, 3, 8, 18])
def test_philox_equals_numpy(numbers: int) -> None:
    keys, first = labelled_keys(["a"], 3, "x"), 128
    out = np.empty((numbers, SLOTS))
    philox.fill(keys[0], first, out)
    got = out.reshape(numbers, 8, SLOTS // 8).swapaxes(1, 2).reshape(numbers, SLOTS).T
    stream = slot_uniform(keys, first + SLOTS, numbers)[0].numpy()
    np.testing.assert_array_equal(got, stream[first:])
    assert not np.array_equal(got, stream[:SLOTS])  # negative control: other slots
