"""The kernels of triton on real pairs: those of ``test_triton.py``, with other words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from ghrr import ops
from ghrr.ops import pairs, reference, triton_backend
from tests.ops.test_pairs import (
    DTYPES,
    LAYOUTS,
    OPERATIONS,
    assert_rounded_once,
    contiguous,
    drawn,
    parts_apart,
    specified,
    value_and_gradients,
)
from tests.ops.test_triton import DEVICE, FLAGS, SIZES, memory, pytestmark  # noqa: F401 (a fixture, and when to skip)

# The interpreter cuts numbers off where a GPU rounds to the nearest.
UNITS = 0.5 if DEVICE == "cuda" else 1.0


def check(name: str, given: list[Tensor], *flags: bool, layout: Callable[[Tensor], Tensor] = contiguous) -> None:
    want = getattr(reference, name)(*[x.double() for x in given], *flags)
    have = getattr(triton_backend, name)(*[layout(x.to(DEVICE)) for x in given], *flags)
    assert have.dtype == given[0].dtype
    assert have.is_contiguous()
    assert_rounded_once(have, want, m=given[0].shape[-2], units=UNITS)


@SIZES
def test_every_adjoint(m: int) -> None:
    for dtype in pairs.DTYPES if m < 4 else (torch.bfloat16,):
        for flags in FLAGS:
            check("bind_pairs", drawn(((), ()), m, dtype, dim=7), *flags)
            check("bind_bundle_pairs", drawn(((3,), (3,)), m, dtype), *flags)


@SIZES
def test_many_slots(m: int) -> None:
    check("bind_pairs", drawn(((), ()), m, torch.bfloat16, dim=1000 if m < 5 else 160), True, False)


@pytest.mark.parametrize("m", [1, 2, 3, 8], ids=lambda m: f"m{m}")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout(m: int, layout: Callable[[Tensor], Tensor]) -> None:
    for dtype in pairs.DTYPES if m < 4 else (torch.bfloat16,):
        check("bind_pairs", drawn(((2, 3), (2, 3)), m, dtype), True, False, layout=layout)
        check("bind_bundle_pairs", drawn(((2, 3), (2, 3)), m, dtype), False, True, layout=layout)


@pytest.mark.parametrize("m", [1, 3], ids=lambda m: f"m{m}")
def test_batches_broadcast_and_may_be_empty(m: int) -> None:
    for batches in [((4,), ()), ((3, 1), (2,)), ((2, 1, 3, 1), (2, 1, 2)), ((0,), ()), ((2, 0), (2, 1))]:
        check("bind_pairs", drawn(batches, m, torch.bfloat16), False, True)
    for batches in [((5,), (1,)), ((3, 1, 4), (2, 4)), ((0,), (0,)), ((0, 2), (2,))]:
        check("bind_bundle_pairs", drawn(batches, m, torch.bfloat16), True, False)


@DTYPES
def test_bundles_in_parts_are_rounded_once(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_backend, "_FEWEST_ITEMS", 2)
    check("bind_bundle_pairs", drawn(((2, 9), (2, 9)), 3, dtype), True, False)


@pytest.mark.parametrize("layout", [contiguous, parts_apart])
def test_a_repeated_operand_is_not_copied(layout: Callable[[Tensor], Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    key, values = (x.to(DEVICE) for x in drawn(((1,), (50,)), 2, torch.bfloat16))
    in_memory: list[int] = []
    launch = triton_backend._launch

    def noted(name: str, grid: tuple[int, ...], tensors: tuple[Tensor, ...], *rest: Any) -> None:
        in_memory.extend(x.untyped_storage().nbytes() // x.itemsize for x in tensors[1:])
        launch(name, grid, tensors, *rest)

    monkeypatch.setattr(triton_backend, "_launch", noted)
    triton_backend.bind_pairs(layout(key).expand(50, *key.shape[1:]), values)
    assert in_memory == [12, 600]  # one key and all values


@DTYPES
def test_gradients_through_the_dispatch(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a CPU, where these kernels are not offered: no warning says that torch stood in for them."""
    monkeypatch.setattr(triton_backend, "suits", lambda *_: True)
    for name, batches in [
        ("bind", ((2,), (2,))),
        ("bind adjoint left", ((3, 1), (2,))),
        ("bind adjoint right", ((2, 3, 2), (1, 3, 1))),
        ("bind_bundle", ((2, 3), (3,))),
    ]:
        for m in (1, 3):
            with ops.backend("triton"):
                got = value_and_gradients(OPERATIONS[name], [x.to(DEVICE) for x in drawn(batches, m, dtype)])
            for have, want in zip(got, specified(name, batches, m, dtype), strict=True):
                assert_rounded_once(have, want, m, units=UNITS)


@pytest.mark.parametrize("name", ["bind_pairs", "bind_bundle_pairs"])
def test_a_wrong_adjoint_would_be_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = getattr(triton_backend, name)
    monkeypatch.setattr(triton_backend, name, lambda *given: right(*given[:-1], not given[-1]))
    for m in (1, 2, 3):
        with pytest.raises(AssertionError):
            check(name, drawn(((2,), (2,)), m, torch.bfloat16), False, False)
