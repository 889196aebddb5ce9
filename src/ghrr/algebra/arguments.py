"""Input validation of functions that take several hypervectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from torch import Tensor

from ghrr.checks import (
    TensorInSpace,
    check_broadcast,
    check_hypervectors,
    check_items,
    describe,
    type_error,
    value_error,
)

if TYPE_CHECKING:
    from ghrr.hypervector import Hypervector

    Items: TypeAlias = Tensor | Hypervector | Sequence[Tensor | Hypervector]

SIDES = ("left", "right")


def check_together(**given: Tensor | Hypervector) -> Iterable[Tensor]:
    """Return hypervectors as tensors; raise unless they fit together and their batches broadcast."""
    tensors = check_hypervectors(**given)
    if len({x.shape[:-3] for x in tensors}) > 1:
        check_broadcast(**{name: x.shape[:-3] for name, x in zip(given, tensors, strict=True)})
    return tensors


def check_many(items: Items, others: tuple[object, ...]) -> Tensor | list[Tensor]:
    """Return a tensor with an axis of items, or a list of tensors that fit together.

    ``others`` are further positional arguments, which raise: ``bundle(a, b)`` should be ``bundle([a, b])``.
    """
    if others or not isinstance(items, (Tensor, TensorInSpace, list, tuple)):
        raise type_error(
            "give a list, [a, b], or one tensor with an axis of items, (*batch, n, dim, m, m); "
            f"got {1 + len(others)} argument{'s' * bool(others)}, the first {describe(items)}"
        )
    if isinstance(items, (Tensor, TensorInSpace)):
        (stack,) = check_hypervectors(items=items)
        check_items(items=stack)
        return stack
    if not items:
        raise value_error("an empty list has no shape; use a tensor of shape (0, dim, m, m) instead")
    return list(check_together(**{f"items[{i}]": x for i, x in enumerate(items)}))
