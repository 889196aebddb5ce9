"""GrowingTable and NamedTable: appended rows, storage, gradients, and interrupted calls."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr import Space
from ghrr.encoding.growing_table import GrowingTable, NamedTable
from tests.helpers import generator

SPACE = Space(4, 2)
ROWS = SPACE.random(40, generator=generator())


def test_rows_equal_appended_rows() -> None:
    table = GrowingTable(SPACE)
    assert table.rows.shape == (0, 4, 2, 2)
    for size in (1, 0, 5, 34):
        table.append(ROWS[len(table) : len(table) + size])
        assert torch.equal(table.rows, ROWS[: len(table)])
    assert len(table) == 40


def test_storage_doubles_so_that_appending_is_amortised() -> None:
    table, addresses = GrowingTable(SPACE), set()
    for row in ROWS:
        table.append(row[None])
        addresses.add(table.rows.data_ptr())
    assert len(addresses) <= 8  # 1, 2, 4, …, 64 rows


def test_earlier_views_stay_valid_when_rows_are_appended() -> None:
    table = GrowingTable(SPACE)
    table.append(ROWS[:3])
    before = table.rows
    table.append(ROWS[3:])
    assert torch.equal(before, ROWS[:3])


def test_extend_computes_rows_from_earlier_rows() -> None:
    table = GrowingTable(SPACE)
    table.append(ROWS[:1])

    def powers(rows: Tensor) -> None:
        for at in range(1, 4):
            rows[at] = ghrr.bind(rows[at - 1], rows[0])

    table.extend(4, powers)
    torch.testing.assert_close(table.rows[3], ghrr.power(ROWS[0], 4))


def test_gradients_survive_a_later_append() -> None:
    table = GrowingTable(SPACE)
    table.append(ROWS[:5])
    table.append(ROWS[5:6])  # leaves free storage, which the next append writes to
    x = ROWS[7].clone().requires_grad_()
    scores = ghrr.pairwise_similarity(x, table.rows)
    table.append(ROWS[6:7])
    scores.sum().backward()
    torch.testing.assert_close(x.grad, torch.autograd.grad(ghrr.pairwise_similarity(x, ROWS[:6]).sum(), x)[0])


def test_appended_rows_are_constants() -> None:
    table = GrowingTable(SPACE)
    table.append(ROWS[:2].clone().requires_grad_())
    assert not table.rows.requires_grad


def test_rows_appended_in_inference_mode_can_be_used_with_gradients() -> None:
    table = GrowingTable(SPACE)
    with torch.inference_mode():
        table.append(SPACE.vectors(["a", "b"]))
    x = ROWS[0].clone().requires_grad_()
    ghrr.pairwise_similarity(x, table.rows).sum().backward()
    assert x.grad is not None


def test_an_interrupted_extend_leaves_the_table_unchanged() -> None:
    table = GrowingTable(SPACE)
    table.append(ROWS[:2])

    def interrupt(rows: Tensor) -> None:
        rows[2] = 0
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.extend(3, interrupt)
    assert torch.equal(table.rows, ROWS[:2])


def test_a_named_table_finds_names_and_makes_only_new_rows() -> None:
    table, made = NamedTable(SPACE), []

    def make(names: list[str]) -> Tensor:
        made.append(names)
        return SPACE.vectors(names)

    assert table.indices(["a", "b", "a"], make) == [0, 1, 0]
    assert table.indices(["b", "c", "c"], make) == [1, 2, 2]
    assert table.indices(["a", "c"], make) == [0, 2]
    assert made == [["a", "b"], ["c"]]
    assert table.names == ["a", "b", "c"]
    assert table.find(["c", "d"]) == [2, -1]
    assert "b" in table
    assert "d" not in table
    assert torch.equal(table.rows, SPACE.vectors(["a", "b", "c"]))


def test_names_of_an_interrupted_append_are_not_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    table = NamedTable(SPACE)
    table.indices(["a"], SPACE.vectors)
    with monkeypatch.context() as patch:
        patch.setattr(GrowingTable, "append", lambda *_: pytest.fail("interrupted"))
        with pytest.raises(pytest.fail.Exception):
            table.indices(["b", "c"], SPACE.vectors)
    assert (table.names, table.index("b"), "c" in table) == (["a"], -1, False)
    assert table.indices(["c", "a"], SPACE.vectors) == [1, 0]
    assert table.names == ["a", "c"]
    assert table.index("b") == -1
