"""Stop coverage while kernels are compiled or interpreted: tracing doubles the time, and kernels are not measured."""

from __future__ import annotations

import functools
import importlib.util
import sys
from typing import Any


def compile_untraced() -> None:
    """Stop coverage while numba compiles a kernel."""
    if importlib.util.find_spec("numba") is None:
        return
    from numba.core import event

    class Untraced(event.Listener):
        """Compilations are nested: the first one that starts and the last one that ends count."""

        def __init__(self) -> None:
            self.depth, self.trace = 0, sys.gettrace()

        def on_start(self, event: Any) -> None:
            if not self.depth:
                self.trace = sys.gettrace()
                sys.settrace(None)
            self.depth += 1

        def on_end(self, event: Any) -> None:
            self.depth -= 1
            if not self.depth:
                sys.settrace(self.trace)

    event.register("numba:compile", Untraced())


def interpret_untraced() -> None:
    """Stop coverage while triton interprets a kernel."""
    from triton.runtime.interpreter import GridExecutor

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
