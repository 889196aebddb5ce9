"""Launching a GPU kernel a second time reuses the compiled kernel. Without a GPU: kernel and devices are replaced."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ghrr.ops.gpu import launch as launch_module
from ghrr.ops.gpu.launch import Launch


class FakeKernel:
    """Records launches by triton, ``("triton", tensors, ...)``, and direct ones, ``("direct", addresses, ...)``."""

    def __init__(self, compiles: bool = True) -> None:
        self.compiles = compiles
        self.launches: list[tuple[Any, ...]] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def launch(*arguments: Any, num_warps: int) -> Any:
            self.launches.append(("triton", grid, num_warps, *arguments))
            return self if self.compiles else None

        return launch

    function, packed_metadata = "function", "metadata"  # of a compiled kernel

    def run(self, *arguments: Any) -> None:
        self.launches.append(("direct", *arguments))

    @property
    def ways(self) -> list[str]:
        return [launch[0] for launch in self.launches]


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_module, "_current_device", lambda: -1)  # get_device() of a tensor on the CPU
    monkeypatch.setattr(launch_module, "_current_stream", lambda device: 5)


def aligned(count: int) -> Tensor:
    return torch.zeros(count, dtype=torch.complex64)  # PyTorch aligns new tensors to 64 bytes


def test_second_launch_passes_addresses_to_the_compiled_kernel() -> None:
    kernel, out, a = FakeKernel(), aligned(4), aligned(4)
    launch = Launch(kernel, (2,), (7, (1, 2), True), warps=4)
    launch(out, a)
    launch(out, a)
    first, second = kernel.launches
    assert first[:3] == ("triton", (2, 1, 1), 4)
    assert [x.dtype for x in first[3:5]] == [torch.int64] * 2  # complex numbers as words
    assert first[5:] == (7, (1, 2), True)
    assert second[:8] == ("direct", 2, 1, 1, 5, "function", "metadata", None)
    assert second[8:] == (None, None, out.data_ptr(), a.data_ptr(), 7, (1, 2), True)


def test_unaligned_tensors_are_launched_by_triton() -> None:
    kernel, out, a = FakeKernel(), aligned(4), aligned(5)
    launch = Launch(kernel, (2,), (), warps=4)
    launch(out, a[1:])
    launch(out, a[:4])
    launch(out, a[1:])
    launch(out, a[:4])
    assert kernel.ways == ["triton", "triton", "triton", "direct"]


def test_tensors_on_another_device_are_launched_by_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, out = FakeKernel(), aligned(4)
    launch = Launch(kernel, (2,), (), warps=4)
    launch(out)
    monkeypatch.setattr(launch_module, "_current_device", lambda: 1)
    launch(out)
    assert kernel.ways == ["triton", "triton"]


def test_interpreter_keeps_no_compiled_kernel() -> None:
    kernel, out = FakeKernel(compiles=False), aligned(4)
    launch = Launch(kernel, (2,), (), warps=4)
    launch(out)
    launch(out)
    assert kernel.ways == ["triton", "triton"]
