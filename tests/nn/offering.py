"""A GPU that is not there, and kernels for it that fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ghrr.ops import backends, tensor_state
from ghrr.ops.dispatch import OPERATIONS


def offer_failing_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """As if there were a GPU; the names of what is started there, all of which fails."""
    started: list[str] = []

    def failing(which: str) -> Callable[..., Any]:
        def start(*_: Any) -> Any:
            started.append(which)
            raise RuntimeError("out of luck")

        return start

    for which, operation in (("forward", OPERATIONS[name]), ("backward", OPERATIONS[f"{name}_backward"])):
        monkeypatch.setattr(operation.kernels[0], "function", failing(which))
    monkeypatch.setattr(tensor_state, "is_on_gpu", lambda _: True)
    monkeypatch.setitem(backends._installed, "triton", True)
    monkeypatch.setattr(backends, "_failures", {})
    return started
