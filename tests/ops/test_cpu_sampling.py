"""Compiled loops of sampling: exact logarithms and sines, Haar matrices in all slots, Philox numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from ghrr._random import labelled_keys, philox_uniform
from ghrr.ops.cpu import philox
from ghrr.ops.cpu import sampling as sampling_loops
from ghrr.unitary import orthonormalize
from tests.helpers import generator

EPS = torch.finfo(torch.float64).eps


def uniform(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(shape, dtype=torch.float64, generator=generator(seed))


def test_radii_are_exact_to_rounding() -> None:
    tiny = 2.0**-53
    powers = 2.0 ** -torch.arange(1, 53, dtype=torch.float64)
    others = torch.tensor([0.0, tiny, 1 - tiny, 1 - 0.5**0.5], dtype=torch.float64)
    u = torch.cat([uniform(1 << 18), powers, 1 - powers, others])
    exact = np.sqrt(-2 * np.log1p(-u.numpy().astype(np.longdouble)))
    got = u.numpy().copy()
    sampling_loops.radii(got)
    assert (np.abs(got - exact) <= 4 * EPS * exact).all()


def test_turn_is_exact_to_rounding_for_angles_up_to_two_turns() -> None:
    eighths = torch.arange(17, dtype=torch.float64) / 8
    angles = torch.cat([2 * uniform(1 << 18), eighths, eighths + 2.0**-52, eighths - 2.0**-52])
    exact = 8 * np.arctan(np.longdouble(1)) * angles.numpy().astype(np.longdouble)
    cos, sin = np.ones(len(angles)), angles.numpy() / 2
    sampling_loops.turn(cos, sin, angles.numpy() / 2)
    for got, want in ((cos, np.cos(exact)), (sin, np.sin(exact))):
        assert np.abs(got - want).max() < 2 * EPS


def expected_haar(u: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    radius, angle = torch.sqrt(-2 * torch.log1p(-u[..., 0])), 2 * torch.pi * (u[..., 1] + turns[:, None, :])
    return orthonormalize(torch.polar(radius, angle))


@pytest.mark.parametrize("slots", [1, 31, 32, 33, 70])
@pytest.mark.parametrize("m", [1, 2, 8])
def test_only_slots_from_start_to_stop_are_filled(m: int, slots: int) -> None:
    u, turns = uniform(slots + 5, m, m, 2), uniform(slots + 5, m, seed=1)
    out = torch.full((slots + 5, m, m), torch.nan, dtype=torch.complex128)
    numbers, to = u.flatten(1).numpy(), torch.view_as_real(out).flatten(1).numpy()
    sampling_loops.haar_kernel(m)(3, 3 + slots, numbers, turns.numpy(), to)
    inside = slice(3, 3 + slots)
    torch.testing.assert_close(out[inside], expected_haar(u, turns)[inside], rtol=0, atol=1e-11)
    assert out[:3].isnan().all()
    assert out[3 + slots :].isnan().all()
    with pytest.raises(AssertionError):  # negative control: angles of other slots
        torch.testing.assert_close(out[inside], expected_haar(u, turns.roll(1, 0))[inside], rtol=0, atol=1e-11)


def test_linearly_dependent_columns_are_counted() -> None:
    u = uniform(40, 3, 3, 2)
    u[[4, 37], :, 1, 0] = 0
    out = np.empty((40, 18), dtype=np.float32)
    kernel = sampling_loops.haar_kernel(3)
    assert kernel(0, 37, u.flatten(1).numpy(), np.zeros((1, 3)), out) == 1
    assert kernel(5, 37, u.flatten(1).numpy(), np.zeros((1, 3)), out) == 0


def test_loop_is_compiled_without_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    kernel = sampling_loops.haar_kernel.__wrapped__(1)
    out = np.empty((1, 2))
    kernel(0, 1, np.array([[0.5, 0.25]]), np.array([[0.25]]), out)
    np.testing.assert_allclose(out, [[-1, 0]], atol=1e-15)


@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("numbers", [1, 2, 3, 8, 18])
def test_philox_equals_numpy(numbers: int, halves: bool) -> None:
    keys, slots, first = labelled_keys(["a"], 3, "x"), 64, 128
    out = np.empty((numbers, slots))
    philox.fill(keys[0], first, halves, out)
    got = out[:, philox.columns(numbers, halves, slots)].T
    stream = philox_uniform(keys, (first + slots) * numbers, halves=halves).reshape(-1, numbers)
    np.testing.assert_array_equal(got, stream[first:])
    assert not np.array_equal(got, stream[:slots])  # negative control: other slots


def test_halves_are_the_lower_and_upper_half_of_a_word() -> None:
    keys = labelled_keys(["a"], 0)
    word = int(np.random.Philox(key=keys[0]).random_raw(1)[0])
    assert philox_uniform(keys, 2, halves=True).tolist() == [[(word % 2**32) / 2**32, (word >> 32) / 2**32]]
