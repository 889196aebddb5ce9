"""Stop coverage where it is not measured: tracing makes tests a third slower, and doubles the time of kernels."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def untraced() -> Iterator[None]:
    """Stop coverage in this thread."""
    trace = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(trace)


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
    def run_untraced(*arguments: Any, **options: Any) -> Any:
        with untraced():
            return run(*arguments, **options)

    GridExecutor.__call__ = run_untraced
