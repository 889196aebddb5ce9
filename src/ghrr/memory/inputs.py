"""What people give to a memory, checked: labels, and hypervectors as rows of real numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from ghrr._checks import check_finite, describe


def as_rows(operation: str, name: str, x: Tensor) -> Tensor:
    """Hypervectors as rows of real numbers, a view where that is possible; raises for NaN and infinity."""
    if x.is_meta:
        raise TypeError(f"{operation}: {name} must hold numbers, got {describe(x)} on the device 'meta'")
    rows = torch.view_as_real(x.detach().resolve_conj()).reshape(-1, 2 * x.shape[-3:].numel())
    # The extremes take one pass; isfinite of all numbers would take as long as a search among a thousand items.
    if len(rows) and not torch.isfinite(torch.stack(rows.aminmax())).all():
        check_finite(operation, name, x)
    return rows


def checked_labels(operation: str, labels: str | Iterable[str]) -> list[str]:
    """Labels as a list; one string is one label."""
    if isinstance(labels, str):
        labels = [labels]
    if isinstance(labels, Tensor) or not isinstance(labels, Iterable):
        raise TypeError(f"{operation}: labels must be strings, got {describe(labels)}")
    names = list(labels)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{operation}: a label must be a string, got {describe(name)}")
    names = list(map(str.__str__, names))  # members of a StrEnum become plain strings, which always compare by text
    try:
        "".join(names).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{operation}: a label must be text that can be written as UTF-8: {error}") from None
    return names


def repeated(names: Sequence[str]) -> list[str]:
    """The names that are there more than once."""
    return [name for name, count in Counter(names).items() if count > 1]
