"""Tasks and baselines of path attention: groups, the flip-flop language, DeltaProduct, PaTH, and the programs."""

from __future__ import annotations

import importlib
import itertools
import json
from pathlib import Path

import pytest
import torch
from benchmarks.nn.flip_flop import flip_flop
from benchmarks.nn.groups import GROUPS, multiplication_table, word_problem
from benchmarks.nn.play_models import shuffles
from benchmarks.nn.recurrent import delta_product, path_scores
from torch import Tensor

from ghrr_lab.lm.plan import read_plan
from ghrr_lab.play.cups import MOVES, ORDERS, START, follow
from tests.helpers import generator

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", GROUPS)
def test_table_is_that_of_a_group(name: str) -> None:
    table = multiplication_table(name)
    n = len(table)
    assert n == {"S3": 6, "A4": 12, "S4": 24, "A5": 60, "S5": 120, "Z60": 60}[name]
    numbers = torch.arange(n)
    assert torch.equal(table[0], numbers)
    assert torch.equal(table[:, 0], numbers)
    assert torch.equal(table.sort(dim=0).values, numbers[:, None].expand(n, n))  # every element has an inverse
    a, b, c = torch.randint(n, (3, 500), generator=generator())
    assert torch.equal(table[table[a, b], c], table[a, table[b, c]])
    assert torch.equal(table, table.T) == (name == "Z60")


def test_targets_are_products_of_all_elements_so_far() -> None:
    table = multiplication_table("A4")
    tokens, targets = word_problem("A4", 3, 10, generator())
    assert (tokens[:, 0] == 12).all()
    assert (targets[:, 0] == -1).all()
    for row, states in zip(tokens[:, 1:].tolist(), targets[:, 1:].tolist(), strict=True):
        state = 0
        for element, target in zip(row, states, strict=True):
            state = int(table[element, state])
            assert state == target


def test_shuffles_of_cups_follow_the_rule_of_the_playground() -> None:
    names = {ORDERS.index(order): name for name, order in MOVES.items()}
    moves, orders = shuffles(20, 6, generator())
    assert (moves[:, 0] == START).all()
    checked = 0
    for row, states in zip(moves[:, 1:].tolist(), orders[:, 1:].tolist(), strict=True):
        if all(move in names for move in row):
            assert follow([names[move] for move in row]) == states
            checked += 1
    assert checked > 2


def test_bits_after_read_are_those_last_written() -> None:
    tokens, targets = flip_flop(8, 64, generator())
    assert tokens.shape == targets.shape == (8, 63)
    for row, wanted in zip(tokens.tolist(), targets.tolist(), strict=True):
        assert row[0] == 2
        last = row[1]
        for t in range(0, 63, 2):
            instruction = row[t]
            assert (wanted[t] >= 0) == (instruction == 3)
            if instruction == 3:
                assert wanted[t] == last
            elif instruction == 2:
                last = row[t + 1]
        assert wanted[-1] >= 0


def test_delta_product_equals_products_of_matrices() -> None:
    shape = (2, 5, 3, 2, 4)  # batch, tokens, factors, heads, features
    q = torch.randn(2, 5, 2, 4, dtype=torch.float64, generator=generator(1))
    k = torch.nn.functional.normalize(torch.randn(shape, dtype=torch.float64, generator=generator(2)), dim=-1)
    v = torch.randn(shape, dtype=torch.float64, generator=generator(3))
    beta = 2 * torch.rand(shape[:-1], dtype=torch.float64, generator=generator(4))
    out = delta_product(q, k, v, beta)
    eye = torch.eye(4, dtype=torch.float64)
    for b, h in itertools.product(range(2), range(2)):
        state = torch.zeros(4, 4, dtype=torch.float64)
        for t in range(5):
            for r in range(3):
                key, value, size = k[b, t, r, h], v[b, t, r, h], beta[b, t, r, h]
                state = (eye - size * torch.outer(key, key)) @ state + size * torch.outer(key, value)
            torch.testing.assert_close(out[b, t, h], state.T @ q[b, t, h])


def test_scores_of_path_equal_products_of_matrices() -> None:
    q, k, w = torch.randn(3, 1, 2, 5, 4, dtype=torch.float64, generator=generator(1)).unbind()
    beta = 2 * torch.rand(1, 2, 5, dtype=torch.float64, generator=generator(2))
    scores = path_scores(q, k, w, beta)
    eye = torch.eye(4, dtype=torch.float64)
    for h, i, j in itertools.product(range(2), range(5), range(5)):
        if j > i:
            assert scores[0, h, i, j] == 0
            continue
        product: Tensor = eye
        for s in range(j + 1, i + 1):
            product = (eye - beta[0, h, s] * torch.outer(w[0, h, s], w[0, h, s])) @ product
        torch.testing.assert_close(scores[0, h, i, j], q[0, h, i] @ product @ k[0, h, j])


@pytest.mark.parametrize("task", ["S3", "flip-flop"])
def test_tracking_trains_and_stores_each_model(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = ["path-sharp", "m-1", "rope-gate", "lstm", "deltaproduct-2", "householder"]
    words = f"--steps 4 --batch 2 --length 8 --test 8 16 --count 4 --embed-dim 16 --seeds 0 --out {tmp_path}".split()
    monkeypatch.setattr("sys.argv", ["tracking", "--task", task, "--models", *models, *words])
    importlib.import_module("benchmarks.nn.tracking").main()
    rows = json.loads((tmp_path / "tracking.json").read_text())["rows"]
    assert [row["model"] for row in rows] == models
    assert all([test["length"] for test in row["tests"]] == [8, 16] for row in rows)


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks" / "nn" / "plans").glob("*.json")), ids=lambda p: p.stem)
def test_plans_are_valid(path: Path) -> None:
    assert read_plan(path)
