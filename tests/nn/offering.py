"""A GPU that is not there, and kernels for it that fail."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from ghrr.nn import kernels as kernels_module
from ghrr.ops import choice


def offer_failing_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """As if there were a GPU; the names of what is started there, all of which fails."""
    started: list[str] = []

    def failing(which: str) -> Callable[..., Any]:
        def start(*_: Any) -> Any:
            started.append(which)
            raise RuntimeError("out of luck")

        return start

    kernels: Any = ModuleType(f"ghrr.nn.{name}")
    kernels.forward, kernels.backward = failing("forward"), failing("backward")
    monkeypatch.setitem(sys.modules, f"ghrr.nn.{name}", kernels)
    monkeypatch.setattr(kernels_module, "_on_gpu", lambda _: True)
    monkeypatch.setattr(kernels_module, "_TRITON_INSTALLED", True)
    monkeypatch.setattr(choice, "_failed", {})
    return started
