"""Shared by test files: random inputs, rounding errors, statistics with error bars, combinations of options."""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

import ghrr

STANDARD_ERRORS = 5.0  # chance of a false alarm: one in 1.7 million


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def gaussian(*shape: int, dtype: torch.dtype = torch.complex128, seed: int = 0) -> Tensor:
    """Arbitrary complex tensors: nothing about them is unitary."""
    return torch.randn(shape, dtype=dtype, generator=generator(seed))


def wrong(value: object) -> Any:
    """Return a value of a type that the function under test does not accept, hidden from the type checker."""
    return value


def saved(module: torch.nn.Module) -> dict[str, Any]:
    """Return the state of a module as it is read from a file."""
    buffer = io.BytesIO()
    torch.save(module.state_dict(), buffer)
    buffer.seek(0)
    state: dict[str, Any] = torch.load(buffer, weights_only=True)
    return state


def unitary(*shape: int, m: int, dtype: torch.dtype = torch.complex128, seed: int = 0) -> Tensor:
    return ghrr.unitary.haar(*shape, m=m, generator=generator(seed), dtype=dtype)


def rounding(dtype: torch.dtype, *, terms: int = 1, scale: float = 1.0) -> float:
    """Error that rounding explains in a sum of this many terms of this size."""
    return 20 * terms * scale * torch.finfo(dtype).eps


def assert_mean(values: Tensor, expected: float) -> None:
    """The mean of independent values is the expected one, within five standard errors."""
    error = values.double().std().item() / math.sqrt(values.numel())
    off = abs(values.double().mean().item() - expected)
    assert off <= STANDARD_ERRORS * error, f"mean {values.mean().item():.5g}, expected {expected:.5g} ± {error:.2g}"


def assert_std(values: Tensor, expected: float) -> None:
    """The standard deviation about zero is the expected one, within five standard errors from the fourth moment."""
    squares = values.double().square()
    error = squares.std().item() / math.sqrt(values.numel())
    off = abs(squares.mean().item() - expected**2)
    assert off <= STANDARD_ERRORS * error, f"std {squares.mean().sqrt().item():.5g}, expected {expected:.5g}"


def haar_product(u: Tensor, *, power: float = 0.5) -> Tensor:
    """Return the documented product of reflections and phases of uniform numbers: ``(*, m * m)`` to ``(*, m, m)``.

    For a negative control, take another power of the gaps than the square root; rows get unit length again.
    """
    m = math.isqrt(u.shape[-1])
    q = torch.ones(*u.shape[:-1], 0, 0, dtype=torch.complex128)
    for k in range(1, m + 1):
        points, turns = u[..., (k - 1) ** 2 : k * k].split([k - 1, k], dim=-1)
        ends = torch.zeros_like(turns[..., :1]), torch.ones_like(turns[..., :1])
        r = torch.cat([ends[0], points.sort(dim=-1).values, ends[1]], dim=-1).diff(dim=-1) ** power
        w = r / torch.linalg.vector_norm(r, dim=-1, keepdim=True)
        w[..., -1] += 1
        reflection = w[..., :, None] * w[..., None, :] / w[..., -1:, None] - torch.eye(k)
        bordered = torch.nn.functional.pad(q, (0, 1, 0, 1))
        bordered[..., -1, -1] = 1
        q = bordered @ (reflection * torch.polar(torch.ones_like(turns), 2 * math.pi * turns)[..., None, :])
    return q


def pairwise(
    *, valid: Callable[[dict[str, Any]], bool] = lambda case: True, **options: Sequence[Any]
) -> list[dict[str, Any]]:
    """Return few combinations of options in which every valid pair of values occurs; the first has all first values.

    Use it instead of a full product: most faults depend on one value or on two. ``valid`` excludes combinations.

    Examples
    --------
    >>> cases = pairwise(m=[1, 2, 3], adjoint=[False, True], batch=[(), (4,), (2, 1)])
    >>> len(cases), cases[0]
    (9, {'m': 1, 'adjoint': False, 'batch': ()})
    """
    names = list(options)
    places = [range(len(options[name])) for name in names]
    cases = [case for case in itertools.product(*places) if valid(_as_options(options, case))]
    missing = {pair for case in cases for pair in _pairs(case)}
    chosen: list[tuple[int, ...]] = []
    while missing:
        best = max(cases, key=lambda case: len(missing.intersection(_pairs(case)))) if chosen else cases[0]
        chosen.append(best)
        missing.difference_update(_pairs(best))
    return [_as_options(options, case) for case in chosen]


def case_id(case: dict[str, Any]) -> str:
    """Return an id of a combination of options; functions are shown by name, so that all processes agree."""
    return "-".join(getattr(value, "__name__", str(value)) for value in case.values())


def _pairs(case: tuple[int, ...]) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield all pairs of (option, place of its value); a single option counts as a pair."""
    entries = list(enumerate(case))
    return itertools.combinations(entries, min(2, len(entries)))


def _as_options(options: dict[str, Sequence[Any]], case: tuple[int, ...]) -> dict[str, Any]:
    return {name: options[name][place] for name, place in zip(options, case, strict=True)}
