"""Simulate a GPU whose kernels fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ghrr.ops import backends, tensor_state
from ghrr.ops.dispatch import OPERATIONS


def use_failing_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Treat CPU tensors as GPU tensors, and make all kernels of an operation fail.

    Returns a list to which each launch adds the name of its kernel.
    """
    launched: list[str] = []

    def failing(which: str) -> Callable[..., Any]:
        def launch(*_: Any) -> Any:
            launched.append(which)
            raise RuntimeError("kernel failed")

        return launch

    for which, operation in (("forward", OPERATIONS[name]), ("backward", OPERATIONS[f"{name}_backward"])):
        monkeypatch.setattr(operation.kernels[0], "function", failing(which))
    monkeypatch.setattr(tensor_state, "is_on_gpu", lambda _: True)
    monkeypatch.setitem(backends._installed, "triton", True)
    monkeypatch.setattr(backends, "_failures", {})
    return launched
