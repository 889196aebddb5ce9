"""Decorators that compile functions with numba."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function, fastmath: AbstractSet[str] = frozenset({"contract"})) -> Function:
    """Compile a loop that releases the interpreter's lock, and store it on disk.

    ``"contract"`` allows fused multiply-add, which is more exact.
    """
    result: Function = numba.njit(function, nogil=True, fastmath=set(fastmath), error_model="numpy", cache=True)
    return result


def inlined(function: Function) -> Function:
    """Inline a function into the loops that call it before they are compiled, so that m is a constant there.

    Call large functions from the loop, not from each other: numba copies a function at each level, in time that grows
    with the square of its size.
    """
    result: Function = numba.njit(function, inline="always")
    return result
