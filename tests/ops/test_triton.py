"""GPU kernels of the products equal the reference and write only to their results.

They run on a GPU where there is one, and otherwise on the CPU in triton's interpreter, if ``TRITON_INTERPRET=1``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from ghrr import ops
from ghrr.ops import reference
from ghrr.ops.dispatch import OPERATIONS
from tests.helpers import case_id, gaussian, pairwise, rounding

pytest.importorskip("triton")
from ghrr.ops.gpu import product_kernels
from ghrr.ops.gpu import products as gpu_products
from ghrr.ops.gpu.launch import Launch
from tests.untraced import interpret_untraced

interpret_untraced()
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = pytest.mark.skipif(
    DEVICE == "cpu" and os.environ.get("TRITON_INTERPRET") != "1",
    reason="needs a GPU, or TRITON_INTERPRET=1 before triton is imported",
)

SIZES = pytest.mark.parametrize("m", range(1, 9), ids=lambda m: f"m{m}")
# One m for each configuration of the kernels, even and odd.
CONFIGURATIONS = pytest.mark.parametrize("m", [1, 2, 3, 7, 8], ids=lambda m: f"m{m}")
FLAGS = [(False, False), (True, False), (False, True), (True, True)]
GUARD, UNTOUCHED = 64, 7
SPECIFIED: dict[str, Callable[..., Tensor]] = {
    "bind": reference.bind,
    "bind_bundle": reference.bind_bundle,
    "multibind": reference.multibind,
    "bind_similarity": reference.bind_similarity,
    "whole_power": reference.power,
}


def guarded(buffers: list[Tensor]) -> Callable[[tuple[int, ...], Tensor], Tensor]:
    """Allocate memory filled with NaN, between guard numbers that must not change."""

    def empty(shape: tuple[int, ...], like: Tensor) -> Tensor:
        size = torch.Size(shape).numel()
        buffer = torch.full((size + 2 * GUARD,), UNTOUCHED, dtype=like.dtype, device=like.device)
        buffer[GUARD : GUARD + size] = torch.nan
        buffers.append(buffer)
        return buffer[GUARD : GUARD + size].view(shape)

    return empty


def assert_untouched(buffers: list[Tensor]) -> None:
    for buffer in buffers:
        assert (buffer[:GUARD] == UNTOUCHED).all()
        assert (buffer[-GUARD:] == UNTOUCHED).all()


@pytest.fixture(autouse=True)
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Tensor]]:
    buffers: list[Tensor] = []
    monkeypatch.setattr(gpu_products, "_empty", guarded(buffers))
    yield buffers
    assert_untouched(buffers)


def contiguous(x: Tensor) -> Tensor:
    return x


def strided(x: Tensor) -> Tensor:
    """Every second slot of a larger tensor."""
    wide = x.new_full((*x.shape[:-3], 2 * x.shape[-3], *x.shape[-2:]), torch.nan)
    wide[..., ::2, :, :] = x
    return wide[..., ::2, :, :]


def transposed(x: Tensor) -> Tensor:
    return x.mT.contiguous().mT


def conjugated(x: Tensor) -> Tensor:
    return x.conj().resolve_conj().conj()


def lazy_adjoint(x: Tensor) -> Tensor:
    return x.mH.resolve_conj().contiguous().mH


def batch_last(x: Tensor) -> Tensor:
    """Axes before the slots in the reverse order in memory."""
    axes = [*reversed(range(x.ndim - 3)), x.ndim - 3, x.ndim - 2, x.ndim - 1]
    return x.permute(axes).contiguous().permute(axes)


def apart(x: Tensor) -> Tensor:
    """One number between two slots, so that steps are not whole slots."""
    flat = x.new_full((x.shape[:-2].numel(), x.shape[-1] ** 2 + 1), torch.nan)
    flat[:, :-1] = x.reshape(len(flat), -1)
    steps = [step // x.shape[-1] ** 2 * flat.shape[1] for step in x.contiguous().stride()[:-2]]
    return flat.as_strided(x.shape, (*steps, x.shape[-1], 1))


LAYOUTS = [contiguous, strided, transposed, conjugated, lazy_adjoint, batch_last, apart]


def check(name: str, exact: list[Tensor], *options: Any, layout: Callable[[Tensor], Tensor] = contiguous) -> None:
    """Compare a kernel with the reference in double precision."""
    single = [x.to(torch.complex64) for x in exact]
    want = SPECIFIED[name](*[x.to(torch.complex128) for x in single], *options)
    # Rounding is relative to the sum of absolute values, which the same operation on these bounds.
    sizes = [x.abs().to(torch.complex128) for x in single]
    bound = SPECIFIED[name](*sizes, *options).abs() + 1
    have = getattr(gpu_products, name)(*[layout(x.to(DEVICE)) for x in single], *options)
    assert have.shape == want.shape
    assert have.dtype == (torch.complex64 if want.is_complex() else torch.float32)
    assert not have.is_conj()
    assert ((have.cpu().to(want.dtype) - want).abs() <= rounding(torch.complex64) * bound).all()


def inputs(m: int, *batches: tuple[int, ...], dim: int = 3) -> list[Tensor]:
    return [gaussian(*batch, dim, m, m, seed=i) for i, batch in enumerate(batches)]


@SIZES
@pytest.mark.parametrize("dim", [1, 7])
def test_bind_with_every_adjoint(m: int, dim: int) -> None:
    for flags in FLAGS:
        check("bind", inputs(m, (), (), dim=dim), *flags)


@CONFIGURATIONS
def test_many_slots_equal_reference(m: int) -> None:
    check("bind", inputs(m, (), (), dim=1000 if m < 5 else 160), True, False)
    check("bind_similarity", inputs(m, (), (), (), dim=300 if m < 5 else 48), False, True)
    check("multibind", inputs(m, (3,), dim=300 if m < 5 else 64))


# Number of factors of each operation, and the options that follow them.
FACTORS: dict[str, tuple[int, tuple[Any, ...]]] = {
    "bind": (2, (True, False)),
    "bind_bundle": (2, (False, True)),
    "bind_similarity": (3, (True, False)),
    "multibind": (1, ()),
    "whole_power": (1, (3,)),
}


@pytest.mark.parametrize("case", pairwise(m=range(1, 9), layout=LAYOUTS, name=list(FACTORS)), ids=case_id)
def test_every_memory_layout(case: dict[str, Any]) -> None:
    count, options = FACTORS[case["name"]]
    check(case["name"], inputs(case["m"], *[(2, 3)] * count), *options, layout=case["layout"])


@pytest.mark.parametrize("m", [1, 3, 8], ids=lambda m: f"m{m}")
def test_batches_broadcast(m: int) -> None:
    for a, b in [((4,), ()), ((), (4,)), ((3, 1), (2,)), ((2, 1, 3, 1), (2, 1, 2))]:
        check("bind", inputs(m, a, b), False, True)
    for a, b in [((5,), (1,)), ((1,), (5,)), ((3, 1, 4), (2, 4)), ((2, 3), (3,))]:
        check("bind_bundle", inputs(m, a, b), True, False)
    for a, b, c in [((4,), (), (4,)), ((), (), (4,)), ((3, 1), (2,), ()), ((2, 1, 2), (2, 1), (2,))]:
        check("bind_similarity", inputs(m, a, b, c), False, True)


def test_expanded_operand_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    (key, values) = inputs(2, (1,), (50,))
    key = conjugated(key.to(DEVICE, torch.complex64)).expand(50, -1, -1, -1)
    in_memory: list[int] = []
    launch = Launch.__call__

    def noted(self: Launch, *tensors: Tensor) -> None:
        in_memory.extend(x.untyped_storage().nbytes() // x.itemsize for x in tensors[1:])
        launch(self, *tensors)

    monkeypatch.setattr(Launch, "__call__", noted)
    gpu_products.bind(key, values.to(DEVICE, torch.complex64))
    assert in_memory == [12, 600]  # one key and all values


@CONFIGURATIONS
def test_bind_bundle_with_every_adjoint_whole_and_split(m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for flags in FLAGS:
        check("bind_bundle", inputs(m, (2, 5), (2, 5)), *flags)
    monkeypatch.setattr(gpu_products, "_MIN_ITEMS", 2)
    check("bind_bundle", inputs(m, (2, 5), (2, 5)), True, True)


@pytest.mark.parametrize("m", [1, 2, 3], ids=lambda m: f"m{m}")
def test_bind_bundle_of_more_than_one_group(m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_products, "_MIN_ITEMS", 1000)
    check("bind_bundle", inputs(m, (131,), (131,), dim=1))


@CONFIGURATIONS
def test_bind_similarity_with_every_adjoint_whole_and_split(m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for flags in FLAGS:
        check("bind_similarity", inputs(m, (2,), (2,), (2,), dim=5), *flags)
    monkeypatch.setattr(gpu_products, "_PROGRAMS", 0)
    check("bind_similarity", inputs(m, (), (), (), dim=600 // m**2), False, False)


@CONFIGURATIONS
def test_chains_and_powers(m: int) -> None:
    for count in (0, 1, 2, 5):
        check("multibind", inputs(m, (count,)))
    for exponent in (0, 1, 2, gpu_products._LARGEST_CHAIN, gpu_products._LARGEST_CHAIN + 3):
        check("whole_power", [x / (2 * m) for x in inputs(m, (2,))], exponent)


@pytest.mark.parametrize("m", [1, 3, 8], ids=lambda m: f"m{m}")
def test_results_with_64_bit_offsets(m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_products, "_LARGEST_OFFSET", 0)
    check("bind", inputs(m, (3, 1), (2,)), False, True)
    check("bind_bundle", inputs(m, (2, 3), (3,)), True, False)
    check("bind_similarity", inputs(m, (3, 1), (2,), ()), True, False)
    check("multibind", inputs(m, (2, 3)))


def test_large_tensors_use_64_bit_offsets() -> None:
    far = ((2, 3, 1, 1), (1 << 31, 1, 1, 1))
    assert gpu_products._axes((2, 3, 1, 1), (), gpu_products._LARGEST_OFFSET, far).wide
    near = ((2, 3, 1, 1), (1 << 30, 1, 1, 1))
    assert not gpu_products._axes((2, 3, 1, 1), (), gpu_products._LARGEST_OFFSET, near).wide


@pytest.mark.parametrize("m", [1, 3])
def test_empty_tensors(m: int) -> None:
    check("bind", inputs(m, (0,), ()))
    check("bind", inputs(m, (2, 0), (2, 1)))
    check("bind_bundle", inputs(m, (0,), (0,)))
    check("bind_bundle", inputs(m, (0, 2), (2,)))
    check("bind_similarity", inputs(m, (0,), (), ()))
    check("multibind", inputs(m, (0, 2)))
    check("whole_power", inputs(m, (0,)), 3)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_gradients_use_kernels_and_equal_reference(m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a CPU, where these kernels are not offered: no warning says that torch stood in for them."""
    used = record_kernels(monkeypatch)
    for name, batches in [
        ("bind", ((2,), (2,))),
        ("bind", ((3, 1), (2,))),
        ("bind_bundle", ((2, 3), (3,))),
        ("bind_similarity", ((2,), (2,), ())),
        ("multibind", ((2, 3),)),
    ]:
        exact = inputs(m, *batches)
        expected = value_and_gradients("reference", name, exact)
        got = value_and_gradients("triton", name, [x.to(DEVICE, torch.complex64) for x in exact])
        for want, have in zip(expected, got, strict=True):
            assert have.shape == want.shape
            tolerance = rounding(torch.complex64, terms=8 * m, scale=1 + float(want.abs().max()))
            torch.testing.assert_close(have.cpu().to(want.dtype), want, atol=tolerance, rtol=0)
    assert used == {"bind", "bind_bundle", "bind_similarity"}


def record_kernels(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Offer the kernels for tensors on any device, and return the names of those that are launched."""
    names: set[str] = set()
    launch = Launch.__call__

    def noted(self: Launch, *tensors: Tensor) -> None:
        names.add(self._kernel.fn.__name__)
        launch(self, *tensors)

    monkeypatch.setattr(Launch, "__call__", noted)
    if DEVICE == "cpu":
        for operation in OPERATIONS.values():
            for kernel in operation.kernels:
                if kernel.backend == "triton":
                    monkeypatch.setattr(kernel, "supports", lambda *_: True)
    return names


def value_and_gradients(backend: str, name: str, given: list[Tensor]) -> list[Tensor]:
    leaves = [x.detach().requires_grad_() for x in given]
    with ops.backend(backend):
        out = getattr(ops, name)(*leaves)
        weights = gaussian(*out.shape, seed=77).to(out.device)
        weights = (weights if out.is_complex() else weights.real).to(out.dtype)
        return [out.detach(), *torch.autograd.grad(out, leaves, weights)]


@SIZES
def test_flat_bind_equals_bind(m: int) -> None:
    a, b = (x.to(DEVICE, torch.complex64) for x in inputs(m, (2,), (2,)))
    for flags in FLAGS:
        assert torch.equal(gpu_products.bind_flat(a, b, *flags), gpu_products.bind(a, b, *flags))


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
def test_kernel_is_chosen_for_small_complex64_slots_on_a_gpu() -> None:
    x = gaussian(2, 3, 3).to(DEVICE, torch.complex64)
    with ops.backend("triton"):
        assert OPERATIONS["bind"].choose_kernel(x, x, False, False) is not None
        for other in (x.to(torch.complex128), gaussian(2, 9, 9).to(DEVICE, torch.complex64), x.cpu()):
            assert OPERATIONS["bind"].choose_kernel(other, other, False, False) is None


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
def test_repeated_launches_and_unaligned_tensors_equal_pytorch() -> None:
    """The second launch reuses the compiled kernel; an address that is not aligned needs another one."""
    for m in (1, 2, 3):
        buffer = torch.randn(2 * 64 * m * m + 1, dtype=torch.complex64, device=DEVICE)
        whole = buffer[: 128 * m * m].view(2, 64, m, m)
        odd = buffer[1:].view(2, 64, m, m)
        for x in (whole, whole, odd, whole, odd):
            got = gpu_products.bind_flat(x[0], x[1], False, False)
            torch.testing.assert_close(got, x[0] @ x[1], atol=rounding(torch.complex64, terms=m, scale=20), rtol=0)


@pytest.mark.parametrize("name", ["bind", "bind_bundle", "bind_similarity"])
def test_wrong_adjoint_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = getattr(gpu_products, name)
    monkeypatch.setattr(gpu_products, name, lambda *given: right(*given[:-1], not given[-1]))
    batches = ((2,), (2,), (2,)) if name == "bind_similarity" else ((2,), (2,))
    for m in (1, 2, 3):
        with pytest.raises(AssertionError):
            check(name, inputs(m, *batches), False, False)


def test_write_beyond_the_end_is_noticed() -> None:
    """Call the kernel with a size that is too large by one."""
    buffers: list[Tensor] = []
    a, b = (torch.ones(4, 1, 1, dtype=torch.complex64, device=DEVICE) for _ in range(2))
    out = guarded(buffers)((3, 1, 1), a)
    axes, constants = ((3,), (1,), (1,)), (1, 1, 1, False, False, False, 16)
    Launch(product_kernels.bind, (1,), (3, *axes, *constants), 1)(out, a[:3], b[:3])
    assert_untouched(buffers)
    Launch(product_kernels.bind, (1,), (4, *axes, *constants), 1)(out, a[:3], b[:3])
    with pytest.raises(AssertionError):
        assert_untouched(buffers)
