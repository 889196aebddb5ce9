"""Whole powers by repeated binding, and sums over them: exact to rounding for any exponent."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr import Space, ops
from ghrr.encoding import SequenceEncoder
from ghrr.encoding.bags import bind_rows
from ghrr.encoding.powers import Powers
from ghrr.unitary import unitarity_error
from tests.helpers import generator

SPACE = Space(4, 2, dtype=torch.complex128)
[BASE] = SPACE.vectors(["base"])


def direct(base: Tensor, exponents: list[int]) -> Tensor:
    return torch.stack([ghrr.power(base, exponent) for exponent in exponents])


@pytest.mark.parametrize("m", [1, 2, 3])
def test_powers_equal_repeated_binding(m: int) -> None:
    [base] = Space(4, m, dtype=torch.complex128).vectors(["base"])
    exponents = [0, 1, 15, 16, 17, 255, 256, 257, 5000]
    got = Powers()(base, torch.tensor(exponents))
    torch.testing.assert_close(got, direct(base, exponents), atol=1e-9, rtol=0)
    assert Powers()(base, torch.zeros(2, 3, dtype=torch.long)).shape == (2, 3, 4, m, m)
    assert Powers()(base, torch.zeros(0, dtype=torch.long)).shape == (0, 4, m, m)


def test_large_powers_stay_unitary_in_single_precision() -> None:
    [base] = Space(100, 2).vectors(["base"])
    million = Powers()(base, torch.tensor(10**6))
    assert unitarity_error(million).max() < 1e-5
    torch.testing.assert_close(million, ghrr.power(base, 10**6), atol=1e-5, rtol=0)
    squared = base
    for _ in range(20):
        squared = squared @ squared
    assert unitarity_error(squared).max() > 1e-3  # negative control: rounding errors grow


@pytest.mark.parametrize("lengths", [[0], [], [1, 0, 16], [17, 3], [300, 0, 257, 16]])
def test_sums_equal_their_definition(lengths: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    table = SPACE.random(7, generator=generator())
    rows = torch.randint(0, 7, (sum(lengths),), generator=generator(1))
    want = SPACE.zeros(len(lengths))
    for row, some in enumerate(rows.split(lengths)):
        want[row] = ghrr.bind_bundle(direct(BASE, list(range(len(some)))), table[some]) if len(some) else 0
    powers = Powers()
    torch.testing.assert_close(powers.bundle_rows(BASE, table, rows, torch.tensor(lengths, dtype=torch.long)), want)
    for one, some in zip(want, rows.split(lengths), strict=True):
        torch.testing.assert_close(powers.bundle(BASE, table[some]), one)
    monkeypatch.setattr("ghrr.encoding.powers._CHUNK_NUMBERS", 1)  # slot by slot
    torch.testing.assert_close(powers.bundle_rows(BASE, table, rows, torch.tensor(lengths, dtype=torch.long)), want)


def test_tables_are_small_and_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    powers = Powers()
    powers(BASE, torch.tensor([10**6]))
    tables = powers._digits(BASE, 10**6)
    assert sum(map(len, tables)) == 5 * 16
    monkeypatch.setattr(ops, "bind", None)
    assert all(a is b for a, b in zip(powers._digits(BASE, 10**6), tables, strict=True))


def test_tables_are_recomputed_when_the_base_changes() -> None:
    powers, base = Powers(), BASE.clone()
    powers(base, torch.tensor(3))
    [other] = SPACE.vectors(["other"])
    base.copy_(other)  # as when a state is loaded
    torch.testing.assert_close(powers(base, torch.tensor(3)), ghrr.power(other, 3))
    torch.testing.assert_close(powers(BASE, torch.tensor(3)), ghrr.power(BASE, 3))


def test_tables_computed_in_inference_mode_support_gradients() -> None:
    for m in (1, 2):
        space = Space(4, m)
        model, items = SequenceEncoder(space), space.random(20, generator=generator())
        with torch.inference_mode():
            model(items)
        items.requires_grad_()
        model(items).abs().sum().backward()
        assert items.grad is not None
    with torch.inference_mode():
        assert SequenceEncoder(SPACE)(SPACE.random(3, generator=generator())).shape == SPACE.shape


def test_threads_can_share_tables() -> None:
    powers, found = Powers(), []

    def work(number: int) -> None:
        found.append((number, powers(BASE, torch.tensor(16**number))))

    threads = [threading.Thread(target=work, args=(number % 4,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, power in found:
        torch.testing.assert_close(power, ghrr.power(BASE, 16**number), atol=1e-9, rtol=0)
    assert len(found) == 16


@pytest.mark.parametrize("shifted", [False, True])
def test_sums_of_rows_equal_their_definition(shifted: bool) -> None:
    keys, values = SPACE.random(2, 5, generator=generator())
    left, right, starts = (torch.tensor(at) for at in ([0, 1, 4, 4], [2, 2, 0, 3], [0, 1, 1, 4]))
    bound = ghrr.bind(keys[left], ghrr.shift(values, int(shifted))[right])
    want = torch.stack([bound[0], SPACE.zeros(), bound[1:].sum(dim=0)])
    torch.testing.assert_close(bind_rows(keys, values, left, right, starts, shifted=shifted), want)
