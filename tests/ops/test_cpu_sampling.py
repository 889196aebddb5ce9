"""Compiled loops of sampling: exact cosines and sines, Haar matrices in all slots, Philox numbers."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
import torch

from ghrr.ops.cpu import philox
from ghrr.ops.cpu import sampling as sampling_loops
from ghrr.ops.cpu.lanes import SLOTS
from ghrr.seeding import labelled_keys, slot_uniform
from tests.helpers import generator, haar_product

EPS = torch.finfo(torch.float64).eps
phase = sampling_loops._phase


@numba.njit
def compute_phases(turns: Any, out: Any) -> None:
    for row in range(len(turns)):
        phase(64, (turns[row].ctypes.data, out[row].ctypes.data), ())


@numba.njit
def fill_uniform(key: Any, first: int, out: Any) -> None:
    philox.fill(key[0], key[1], first, len(out), out.ctypes.data)  # type: ignore[call-arg]


def test_cos_sin_is_exact_to_rounding_for_angles_up_to_two_turns() -> None:
    eighths = torch.arange(17, dtype=torch.float64) / 8
    uniform = 2 * torch.rand(1 << 18, dtype=torch.float64, generator=generator())
    given = torch.cat([uniform, eighths, eighths + 2.0**-52, eighths - 2.0**-52])
    angles = torch.nn.functional.pad(given, (0, -len(given) % SLOTS)).numpy()
    exact = 8 * np.arctan(np.longdouble(1)) * angles.astype(np.longdouble)
    rows = np.empty((len(angles) // SLOTS, 2, SLOTS))
    compute_phases(angles.reshape(-1, SLOTS), rows)
    for got, want in ((rows[:, 0], np.cos(exact)), (rows[:, 1], np.sin(exact))):
        assert np.abs(got.ravel() - want).max() < 2 * EPS


@pytest.mark.parametrize("slots", [1, 7, 8, SLOTS - 1, SLOTS, SLOTS + 1, 3 * SLOTS - 6])
@pytest.mark.parametrize("m", [2, 3, 8, 11])
def test_only_chunks_from_start_to_stop_are_filled(m: int, slots: int) -> None:
    keys, chunks = labelled_keys(["a", "b", "c"], 3, "x"), -(-slots // SLOTS)
    out = np.full((3, slots, m * m), np.nan, dtype=np.complex128)
    single = np.empty((0, slots, m * m), dtype=np.complex64)
    sampling_loops.base_slots(m, chunks, 2 * chunks, slots, keys, keys[:0], 0, single, out)
    want = haar_product(slot_uniform(keys, slots, m * m)).numpy().reshape(out.shape)
    np.testing.assert_allclose(out[1], want[1], rtol=0, atol=4 * m * EPS)
    assert np.isnan(out[[0, 2]]).all()
    assert not np.allclose(out[1], want[0])  # negative control: numbers of another key


@pytest.mark.parametrize("numbers", [1, 2, 3, 8, 18])
def test_philox_equals_numpy(numbers: int) -> None:
    keys, first = labelled_keys(["a"], 3, "x"), 128
    out = np.empty((numbers, SLOTS))
    fill_uniform(keys[0], first, out)
    got = out.reshape(numbers, 8, SLOTS // 8).swapaxes(1, 2).reshape(numbers, SLOTS).T
    stream = slot_uniform(keys, first + SLOTS, numbers)[0].numpy()
    np.testing.assert_array_equal(got, stream[first:])
    assert not np.array_equal(got, stream[:SLOTS])  # negative control: other slots
