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
    """Copy a function into the loop that calls it, for functions with few callers: numba processes every copy."""
    result: Function = numba.njit(function, inline="always")
    return result


def linked(function: Function) -> Function:
    """Compile a function of numbers once, for loops that call it several times; LLVM copies it into each call."""
    result: Function = numba.njit(function, forceinline=True)
    return result
