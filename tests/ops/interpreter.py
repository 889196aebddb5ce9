"""Triton's interpreter of kernels."""

from __future__ import annotations

import functools
import sys
from typing import Any

from triton.runtime.interpreter import GridExecutor


def run_kernels_untraced() -> None:
    """Stop coverage while a kernel is interpreted: it doubles the time, and kernels are not measured."""
    run = GridExecutor.__call__
    if hasattr(run, "__wrapped__"):
        return

    @functools.wraps(run)
    def untraced(*arguments: Any, **options: Any) -> Any:
        trace = sys.gettrace()
        sys.settrace(None)
        try:
            return run(*arguments, **options)
        finally:
            sys.settrace(trace)

    GridExecutor.__call__ = untraced
