"""Cosines and sines of rows of angles: PyTorch, derivatives and the CPU kernel equal the reference."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ghrr import ops
from ghrr.ops import operations
from ghrr.ops.cpu import encoding, phasors
from tests.helpers import generator, rounding

SHAPES = [(1,), (5, 33), (2, 3, 17), (0, 4), (4, 0)]


def random_angles(shape: tuple[int, ...], largest: float = 30.0) -> Tensor:
    return largest * (2 * torch.rand(shape, dtype=torch.float64, generator=generator(1)) - 1)


def expected(angles: Tensor) -> Tensor:
    with ops.backend("reference"):
        return ops.cos_sin(angles.double())


@pytest.fixture
def kernel_calls(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Use the kernel for any number of angles, in two threads; return the angles that it computed."""
    calls: list[Tensor] = []
    loop = phasors.cos_sin_rows

    def recorded(angles: Any, out: Any) -> None:
        calls.append(angles)
        loop(angles, out)

    monkeypatch.setattr(operations, "_MIN_ANGLES", 1)
    torch.set_num_threads(2)
    monkeypatch.setattr(phasors, "cos_sin_rows", recorded)
    return calls


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pytorch_equals_the_reference(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    angles = random_angles(shape).to(dtype)
    got = ops.cos_sin(angles)
    assert got.dtype == dtype
    torch.testing.assert_close(got.double(), expected(angles), atol=rounding(dtype, terms=2), rtol=0)


@pytest.mark.parametrize("largest", [1.0, 30.0, 0.99 * phasors.LARGEST_ANGLE])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_kernel_equals_the_reference(shape: tuple[int, ...], largest: float, kernel_calls: list[Tensor]) -> None:
    angles = random_angles(shape, largest).float()
    torch.testing.assert_close(
        ops.cos_sin(angles).double(), expected(angles), atol=rounding(torch.float32, terms=2), rtol=0
    )
    assert sum(map(len, kernel_calls)) == _rows(shape)


def _rows(shape: tuple[int, ...]) -> int:
    return torch.Size(shape[:-1]).numel() if torch.Size(shape).numel() else 0


@pytest.mark.parametrize("bad", [2 * phasors.LARGEST_ANGLE, float("nan"), float("inf")])
def test_kernel_leaves_angles_to_pytorch_that_single_precision_cannot_reduce(
    bad: float, kernel_calls: list[Tensor]
) -> None:
    angles = random_angles((4, 9)).float()
    angles[2, 3] = bad
    assert encoding.cos_sin(angles) is None
    want = torch.stack([torch.cos(angles), torch.sin(angles)], dim=-2)
    assert torch.equal(ops.cos_sin(angles).nan_to_num(), want.nan_to_num())
    assert kernel_calls == []


def test_kernel_takes_angles_that_are_not_contiguous(kernel_calls: list[Tensor]) -> None:
    angles = random_angles((33, 6)).float()
    torch.testing.assert_close(ops.cos_sin(angles.mT), ops.cos_sin(angles.mT.contiguous()), atol=0, rtol=0)
    assert kernel_calls


def test_derivative_is_that_of_cosine_and_sine() -> None:
    angles = random_angles((3, 4)).requires_grad_()
    assert torch.autograd.gradcheck(ops.cos_sin, angles)
