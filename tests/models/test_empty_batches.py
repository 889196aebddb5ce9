"""Every operation of every model on batches without vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from ghrr import models

NAMES = tuple(models.MODELS)
BATCHES = [((0,), (0,)), ((0,), ()), ((), (0,)), ((0,), (1,)), ((3, 0), (3, 1)), ((0, 3), (3,))]
Operation = Callable[[Any, Tensor, Tensor], Tensor]
OPERATIONS: dict[str, Operation] = {
    "bind": lambda model, key, value: model.bind(key, value),
    "unbind left": lambda model, key, value: model.unbind(model.bind(key, value), key, side="left"),
    "similarity": lambda model, key, value: model.similarity(value, value),
    "pairwise similarity": lambda model, key, value: model.pairwise_similarity(value, model.random(0)),
    "normalize": lambda model, key, value: model.normalize(value),
    "bundle": lambda model, key, value: model.bundle(model.random(*value.shape[: -len(model.shape)], 0)),
    "shift": lambda model, key, value: model.shift(value),
}


def result(model: Any, operation: str, batches: tuple[tuple[int, ...], tuple[int, ...]]) -> Tensor:
    return OPERATIONS[operation](model, model.random_keys(*batches[0]), model.random(*batches[1]))


@pytest.mark.parametrize("batches", BATCHES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_products_of_empty_batches_are_empty(name: str, batches: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    model = models.make(name, reals=36)
    shape = tuple(torch.broadcast_shapes(*batches))
    product = result(model, "bind", batches)
    assert product.shape[: len(shape)] == shape
    assert product.dtype == model.dtype
    if "left" in model.facts.sides:
        assert result(model, "unbind left", batches).shape == (*shape, *model.shape)


@pytest.mark.parametrize("operation", ["similarity", "pairwise similarity", "normalize", "bundle", "shift"])
@pytest.mark.parametrize("name", NAMES)
def test_operations_accept_empty_batches(name: str, operation: str) -> None:
    model = models.make(name, reals=36)
    for batch in ((0,), (3, 0)):
        found = result(model, operation, (batch, batch))
        assert found.numel() == 0
        assert found.shape[: len(batch)] == batch
    assert result(model, operation, ((), ())).shape[:1] != (0,) or operation == "pairwise similarity"


def test_gradients_flow_through_empty_convolutions() -> None:
    model = models.HRR(9)
    a, b = model.random(0).requires_grad_(), model.random().requires_grad_()
    model.bind(a, b).sum().backward()
    assert a.grad is not None
    assert a.grad.shape == (0, 9)
    assert b.grad is not None
    assert torch.equal(b.grad, torch.zeros(9))
