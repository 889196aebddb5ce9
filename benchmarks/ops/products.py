"""Cases for binding, its gradients and fused operations, on a CPU or a GPU.

Each operation is compared with

- copy: ``torch.Tensor.copy_`` of as many bytes as the operation must read and write, the physical limit;
- FHRR: the elementwise product of as many complex numbers, the same operation at m = 1 and equal total_dim;
- matmul, einsum: PyTorch functions that compute the same.

Every call allocates its result. ghrr allocates large results on huge pages if the system has them, PyTorch does not;
this explains a part of the speed-up for results that do not fit in the cache.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

import ghrr
from benchmarks.common.measuring import Case, Function, error
from ghrr import ops
from ghrr.ops import reference, torch_implementation

EXACT = torch.complex128


def draw(space: ghrr.Space, *batch: int, count: int, device: str) -> tuple[Tensor, ...]:
    """Draw tensors of complex Gaussian numbers, which are not unitary."""
    generator = torch.Generator(device).manual_seed(0)
    shape = (*batch, *space.shape)
    return tuple(torch.randn(shape, dtype=space.dtype, device=device, generator=generator) for _ in range(count))


def copy_of(numbers: int, device: str) -> Function:
    """Return a copy that reads and writes ``numbers`` complex numbers in total."""
    source = torch.ones(numbers // 2, dtype=torch.complex64, device=device)
    return functools.partial(torch.empty_like(source).copy_, source)


def sizes(space: ghrr.Space, **more: int) -> dict[str, Any]:
    """Return the setting of a case, for the table."""
    return {"m": space.m, "dim": space.dim, **more}


def ends(x: Tensor) -> Tensor:
    """Return the first and the last item of a batch, in double precision."""
    return x[[0, -1]].to(EXACT)


def bind(space: ghrr.Space, batch: int, device: str, group: str, targets: Mapping[str, float]) -> Case:
    """Compute C = A B."""
    a, b = draw(space, batch, count=2, device=device)
    flat_a, flat_b = a.flatten(), b.flatten()
    return Case(
        group,
        sizes(space, batch=batch),
        lambda: ghrr.bind(a, b),
        {
            "copy": copy_of(3 * a.numel(), device),
            "FHRR": lambda: flat_a * flat_b,
            "matmul": lambda: a @ b,
            "einsum": lambda: torch.einsum("...ij,...jk->...ik", a, b),
        },
        lambda got: {
            "reference": error(got[[0, -1]], reference.bind(ends(a), ends(b)), space.m),
            "matmul": error(got, a @ b, space.m),
        },
        dict(targets),
        repeat_factor=5 if device == "cpu" and a.numel() > 1 << 22 else 1,
    )


def gradients(space: ghrr.Space, batch: int, device: str, targets: Mapping[str, float]) -> Iterator[Case]:
    """Compute G_A = G B† and G_B = A† G: each alone, then both by autograd."""
    a, b, g = draw(space, batch, count=3, device=device)
    flat_a, flat_b, flat_g = a.flatten(), b.flatten(), g.flatten()
    limits = {"copy": copy_of(3 * a.numel(), device)}

    def errors_of(got_a: Tensor | None, got_b: Tensor | None) -> dict[str, float]:
        found: dict[str, float] = {}
        if got_a is not None:
            want = reference.bind(ends(g), reference.adjoint(ends(b)))
            found |= {"by a": error(got_a[[0, -1]], want, space.m), "matmul by a": error(got_a, g @ b.mH, space.m)}
        if got_b is not None:
            want = reference.bind(reference.adjoint(ends(a)), ends(g))
            found |= {"by b": error(got_b[[0, -1]], want, space.m), "matmul by b": error(got_b, a.mH @ g, space.m)}
        return found

    yield Case(
        "gradient by a",
        sizes(space, batch=batch),
        lambda: ops.bind(g, b, False, True),
        limits | {"FHRR": lambda: flat_g * flat_b.conj(), "matmul": lambda: g @ b.mH},
        lambda got: errors_of(got, None),
        dict(targets),
    )
    yield Case(
        "gradient by b",
        sizes(space, batch=batch),
        lambda: ops.bind(a, g, True, False),
        limits | {"FHRR": lambda: flat_a.conj() * flat_g, "matmul": lambda: a.mH @ g},
        lambda got: errors_of(None, got),
        dict(targets),
    )
    leaves = [x.detach().requires_grad_() for x in (a, b)]
    ours, theirs = ghrr.bind(*leaves), leaves[0] @ leaves[1]
    yield Case(
        "both gradients",
        sizes(space, batch=batch),
        lambda: torch.autograd.grad(ours, leaves, g, retain_graph=True),
        {
            "copy": copy_of(6 * a.numel(), device),
            "matmul": lambda: torch.autograd.grad(theirs, leaves, g, retain_graph=True),
        },
        lambda got: errors_of(*got),
        dict(targets),
    )


def bind_bundle(space: ghrr.Space, items: int, device: str, group: str, targets: Mapping[str, float]) -> Case:
    """Sum the products of keys and values. The copy moves twice as many bytes as needed, as it writes all it reads."""
    keys, values = draw(space, items, count=2, device=device)
    flat_keys, flat_values = keys.flatten(1), values.flatten(1)
    slots = torch.linspace(0, space.dim - 1, 16, device=device).long()

    def errors_of(got: Tensor) -> dict[str, float]:
        want = reference.bind_bundle(keys[:, slots].to(EXACT), values[:, slots].to(EXACT))
        return {
            "reference": error(got[slots], want, space.m),  # rounding errors grow in proportion to the sum
            "matmul": error(got, (keys @ values).sum(dim=0), space.m),
        }

    return Case(
        group,
        sizes(space, items=items),
        lambda: ghrr.bind_bundle(keys, values),
        {
            "copy": copy_of(2 * keys.numel(), device),
            "FHRR": lambda: (flat_keys * flat_values).sum(dim=0),
            "matmul": lambda: (keys @ values).sum(dim=0),
        },
        errors_of,
        dict(targets),
        measure_memory=True,
    )


def multibind(space: ghrr.Space, batch: int, items: int, device: str) -> Case:
    """Multiply many hypervectors in order."""
    generator = torch.Generator(device).manual_seed(0)
    x = space.random(batch, items, generator=generator)
    flat = x.flatten(2)

    def one_by_one() -> Tensor:
        return functools.reduce(torch.matmul, x.unbind(dim=1))

    return Case(
        "multibind",
        sizes(space, batch=batch, items=items),
        lambda: ghrr.multibind(x),
        {
            "copy": copy_of(x.numel() + x.numel() // items, device),
            "FHRR": lambda: flat.prod(dim=1),
            "matmul": one_by_one,
        },
        lambda got: {
            "reference": error(got[[0, -1]], reference.multibind(ends(x)), items * space.m),
            "matmul": error(got, one_by_one(), items * space.m),
        },
    )


def unbind_similarity(space: ghrr.Space, batch: int, device: str) -> Case:
    """Compute the similarity of an unbound hypervector with a value, δ(K† X, V)."""
    x, key, value = draw(space, batch, count=3, device=device)
    flat = [part.flatten(1) for part in (x, key, value)]

    def with_matmul() -> Tensor:
        return ((key.mH @ x) * value.conj()).real.sum(dim=(-1, -2, -3)) / (space.m * space.dim)

    def errors_of(got: Tensor) -> dict[str, float]:
        unbound = reference.bind(reference.adjoint(ends(key)), ends(x))
        want = reference.similarity(unbound, ends(value))
        return {
            "reference": error(got[[0, -1]], want, space.m),
            "matmul": error(got, with_matmul(), space.m),
        }

    return Case(
        "unbind_similarity",
        sizes(space, batch=batch),
        lambda: ghrr.unbind_similarity(x, key, value, side="left"),
        {
            "copy": copy_of(3 * x.numel(), device),
            "FHRR": lambda: (flat[1].conj() * flat[0] * flat[2].conj()).real.sum(dim=-1),
            "matmul": with_matmul,
            "our torch": lambda: torch_implementation.bind_similarity(key, x, value, True, False),
        },
        errors_of,
    )


def power(space: ghrr.Space, batch: int, exponent: int, device: str) -> Case:
    """Raise to an integer power by repeated binding."""
    x = space.random(batch, generator=torch.Generator(device).manual_seed(0))
    flat = x.reshape(-1, 1, 1)
    many = reference.multibind(ends(x)[:, None].expand(-1, exponent, -1, -1, -1))
    return Case(
        "power",
        sizes(space, batch=batch, exponent=exponent),
        lambda: ghrr.power(x, exponent),
        {
            "copy": copy_of(2 * x.numel(), device),
            "FHRR": lambda: torch_implementation.whole_power(
                flat, exponent
            ),  # flat**exponent computes a logarithm, which is far slower
            "matmul": lambda: torch.linalg.matrix_power(x, exponent),
        },
        lambda got: {
            "reference": error(got[[0, -1]], many, exponent * space.m),
            "matmul": error(got, torch.linalg.matrix_power(x, exponent), exponent * space.m),
        },
    )


def on_cpu(total: int, large: int, ms: Sequence[int]) -> Iterator[Case]:
    """Yield the cases for a CPU; ``large`` is a batch size that does not fit into any cache."""
    for m in ms:
        space = ghrr.Space.from_total(total, m)
        yield bind(space, 16, "cpu", "bind, in cache", {"matmul": 3.0} if m in (2, 3, 4) else {})
    for m in ms:
        space = ghrr.Space.from_total(total, m)
        yield bind(space, large, "cpu", "bind, out of cache", {"FHRR": 1 / 1.3} if m in (2, 3, 4) else {})
    for m in ms:
        yield from gradients(ghrr.Space.from_total(total, m), 16, "cpu", {})
    for m in [m for m in ms if m <= 4]:
        space, small = ghrr.Space.from_total(total, m), ghrr.Space.from_total(max(m * m, total // 10), m)
        yield bind_bundle(space, large, "cpu", "bind_bundle", {"matmul": 3.0} if m > 1 else {})
        yield multibind(small, 16, 16, "cpu")
        yield unbind_similarity(space, max(2, large // 4), "cpu")
        yield power(space, 16, 13, "cpu")


def on_gpu(total: int, batch: int, ms: Sequence[int]) -> Iterator[Case]:
    """Yield the cases for a GPU."""
    for m in ms:
        space = ghrr.Space.from_total(total, m)
        targets = {"copy": 0.8 if m <= 4 else 0.6} | ({"matmul": 30.0} if m in (2, 3) else {})
        yield bind(space, batch, "cuda", "bind", targets)
        yield from gradients(space, batch, "cuda", targets)
    for m in [m for m in ms if m <= 4]:
        space = ghrr.Space.from_total(total, m)
        yield bind_bundle(space, batch, "cuda", "bind_bundle", {})
        yield multibind(space, max(2, batch // 16), 16, "cuda")
        yield unbind_similarity(space, batch, "cuda")
        yield power(space, batch, 13, "cuda")


def curves(
    total: int, batches: Sequence[int], dims: Sequence[int], items: Sequence[int], device: str
) -> Iterator[Case]:
    """Yield the cases of the figures that vary batch size, dim and number of items, at m = 3."""
    for batch in batches:
        yield bind(ghrr.Space.from_total(total, 3), batch, device, "bind by batch", {})
    for dim in dims:
        yield bind(ghrr.Space(dim, 3), 16, device, "bind by dim", {})
    for count in items:
        yield bind_bundle(ghrr.Space.from_total(max(9, total // 10), 3), count, device, "bind_bundle by items", {})
