r"""The operations in plain torch: any device, differentiable, batched; the fallback below every faster kernel.

Same names and meaning as :mod:`ghrr.ops.reference`. What is done differently here, and why:

- m = 1 is elementwise: a batched matrix product of 1x1 matrices costs many times the multiplication.
- :math:`\mathrm{Re}\,\mathrm{tr}(A B^\dagger)` is the dot product of the two tensors seen as real vectors, so
  similarity is a real matrix product; broadcast axes become its rows and columns and nothing is expanded.
- Binding and bundling contracts the item axis together with the inner matrix axis: the bound items never exist.
- Where many sums are made of the same keys and values, each distinct pair of them is bound once.
- Phases are computed and rotated in chunks that stay in cache, straight into the result, unless something is to be
  differentiated.
- The nearest unitary matrix and powers have derivatives of their own: :mod:`ghrr.ops.torch_polar` and
  :mod:`ghrr.ops.torch_power`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from ghrr.ops import pairs, torch_polar, torch_power

# bind_bundle and bind_bags gather their operands chunk by chunk; a chunk of 4 MiB (complex64) stays in cache.
_CHUNK_NUMBERS = 1 << 19
# bind_bags holds so many numbers of bound pairs at a time: 64 MiB in complex64.
_PAIR_NUMBERS = 1 << 23
# fractional_power encodes so many phases at a time: products, sines and cosines then meet in cache.
_CHUNK_PHASES = 1 << 19


def bind(a: Tensor, b: Tensor, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    a, b = _or_adjoint(a, adjoint_a), _or_adjoint(b, adjoint_b)
    if a.shape[-1] == 1:
        return a * b
    return a @ b


bind_alike = bind  # numba has a shorter way for operands of one shape


def _or_adjoint(a: Tensor, wanted: bool) -> Tensor:
    return a.mH if wanted else a


def adjoint(a: Tensor) -> Tensor:
    # Resolved: a lazily conjugated tensor is refused by numpy(), view_as_real() and safetensors.
    return a.mH.resolve_conj()


def bundle(items: Tensor) -> Tensor:
    return items.sum(dim=-4)


def multibind(items: Tensor, product: Callable[[Tensor, Tensor], Tensor] = bind) -> Tensor:
    """Bind neighbours in pairs, then the pairs, and so on: log2(n) batched products instead of n - 1 small ones."""
    count = items.shape[-4]
    if count == 0:
        return _identity((*items.shape[:-4], *items.shape[-3:]), items)
    while count > 1:
        left = items[..., 0 : count - 1 : 2, :, :, :]
        right = items[..., 1:count:2, :, :, :]
        odd_one_out = items[..., count - count % 2 :, :, :, :]
        items = torch.cat([product(left, right), odd_one_out], dim=-4)
        count = items.shape[-4]
    return items[..., 0, :, :, :]


def bind_bundle(keys: Tensor, values: Tensor, adjoint_keys: bool = False, adjoint_values: bool = False) -> Tensor:
    keys, values = _or_adjoint(keys, adjoint_keys), _or_adjoint(values, adjoint_values)
    count = keys.shape[-4]
    if count != values.shape[-4]:  # one key for all values, or the other way round: binding distributes
        return bind(keys.sum(dim=-4), values.sum(dim=-4))
    largest = max(keys.numel(), values.numel()) // max(1, count)
    step = max(1, _CHUNK_NUMBERS // max(1, largest))
    parts = (
        torch.einsum(
            "...ndij,...ndjk->...dik",
            keys[..., start : start + step, :, :, :],
            values[..., start : start + step, :, :, :],
        )
        for start in range(0, max(1, count), step)
    )
    return functools.reduce(torch.add, parts)


def bind_pairs(
    a: Tensor, b: Tensor, adjoint_a: bool = False, adjoint_b: bool = False, product: Callable[..., Tensor] = bind
) -> Tensor:
    return pairs.rounded(product(pairs.widened(a), pairs.widened(b), adjoint_a, adjoint_b), a.dtype)


def bind_bundle_pairs(keys: Tensor, values: Tensor, adjoint_keys: bool = False, adjoint_values: bool = False) -> Tensor:
    return bind_pairs(keys, values, adjoint_keys, adjoint_values, bind_bundle)


def bind_bags(keys: Tensor, values: Tensor, key_places: Tensor, value_places: Tensor, starts: Tensor) -> Tensor:
    check_places(keys, values, key_places, value_places, starts)
    numbers = keys.shape[1:].numel()
    total = keys.new_zeros((len(starts) - 1, 2 * numbers), dtype=keys.dtype.to_real())
    pairs, which = torch.unique(key_places * len(values) + value_places, return_inverse=True)
    first = 0
    for some in pairs.split(max(1, _PAIR_NUMBERS // numbers)):
        chunks = some.split(max(1, _CHUNK_NUMBERS // numbers))
        bound = torch.cat([bind(keys[pair // len(values)], values[pair % len(values)]) for pair in chunks])
        here = (which >= first) & (which < first + len(some))
        before = torch.nn.functional.pad(here.cumsum(0), (1, 0))  # how many of these come before a place
        total = total + torch.nn.functional.embedding_bag(
            which[here] - first, _as_real_vectors(bound), before[starts], mode="sum", include_last_offset=True
        )
        first += len(some)
    return torch.view_as_complex(total.reshape(-1, *keys.shape[1:], 2))


def check_places(keys: Tensor, values: Tensor, key_places: Tensor, value_places: Tensor, starts: Tensor) -> None:
    """Raise unless bags name keys and values that are there: a kernel would read what lies beside them."""
    if len(key_places) != len(value_places):
        raise IndexError(f"bind_bags: {len(key_places)} places of keys and {len(value_places)} of values")
    for what, places, size in (("keys", key_places, len(keys)), ("values", value_places, len(values))):
        at = places.numpy(force=True)
        if at.size and not (at.min() >= 0 and at.max() < size):
            raise IndexError(f"bind_bags: places from {at.min()} to {at.max()} in a table of {size} {what}")
    at = starts.numpy(force=True)
    if at[0] != 0 or at[-1] != len(key_places) or (at[1:] < at[:-1]).any():
        raise IndexError(f"bind_bags: starts must rise from 0 to {len(key_places)}, got {at}")


def similarity(a: Tensor, b: Tensor) -> Tensor:
    dim, m = a.shape[-3], a.shape[-1]
    with _full_precision(a):
        return torch.einsum("...k,...k->...", _as_real_vectors(a), _as_real_vectors(b)) / (m * dim)


def bind_similarity(a: Tensor, b: Tensor, c: Tensor, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    return similarity(bind(a, b, adjoint_a, adjoint_b), c)


def pairwise_similarity(queries: Tensor, items: Tensor) -> Tensor:
    dim, m = queries.shape[-3], queries.shape[-1]
    with _full_precision(queries):
        return _as_real_vectors(queries) @ _as_real_vectors(items).mT / (m * dim)


def _full_precision(x: Tensor) -> AbstractContextManager[object]:
    """Autocast would round these real products to 16 bits, which is as coarse as the noise they measure."""
    if x.device.type not in ("cpu", "cuda") or not torch.is_autocast_enabled(x.device.type):
        return nullcontext()
    return torch.autocast(x.device.type, enabled=False)


def _as_real_vectors(x: Tensor) -> Tensor:
    return torch.view_as_real(x.resolve_conj()).flatten(start_dim=-4)


def shift(a: Tensor, steps: int) -> Tensor:
    return torch.roll(a, steps, dims=-3)


def fractional_power(rotation: Tensor, frequencies: Tensor, x: Tensor) -> Tensor:
    if needs_no_derivative(rotation, frequencies, x):
        return encode_rows(rotation, frequencies, x, functools.partial(rotate_phases, rotation))
    with _full_precision(x):
        angles = torch.einsum("...n,...jkn->...jk", x, frequencies.to(x.dtype))
    return rotation * _phasors(angles, rotation.dtype)[..., None, :]


def needs_no_derivative(*tensors: Tensor) -> bool:
    """Whether these are plain numbers: no derivative is asked for, nothing is being traced or vectorised."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active() or has_tangent(*tensors):
        return False
    for x in tensors:  # a loop is quicker than any(), and everything comes by here
        if x.requires_grad:
            return not torch.is_grad_enabled()
    return True


def has_tangent(*tensors: Tensor) -> bool:
    """Whether one of these carries a derivative in forward mode."""
    if forward_ad._current_level < 0:
        return False
    return any(forward_ad.unpack_dual(x).tangent is not None for x in tensors)  # type: ignore[no-untyped-call]


def encode_rows(rotation: Tensor, frequencies: Tensor, x: Tensor, fill: Callable[[Tensor, Tensor], None]) -> Tensor:
    """The encodings of all rows of x, chunk by chunk; ``fill(angles, out)`` turns angles into hypervectors."""
    rows = x.reshape(-1, x.shape[-1])
    shape = rotation.shape[-3:]
    out = fresh((len(rows), *shape), rotation)
    weights = frequencies.to(x.dtype).flatten(0, 1).mT
    step = max(1, _CHUNK_PHASES // weights.shape[-1])
    angles = x.new_empty((min(step, len(rows)), weights.shape[-1]))
    with _full_precision(x):
        for start in range(0, len(rows), step):
            chunk = rows[start : start + step]
            fill(torch.mm(chunk, weights, out=angles[: len(chunk)]), out[start : start + step])
    return out.reshape(*x.shape[:-1], *shape)


def rotate_phases(rotation: Tensor, angles: Tensor, out: Tensor) -> None:
    """Q · diag(e^{iθ}) of ``(rows, dim * m)`` angles, written to ``(rows, dim, m, m)``."""
    phasors = _phasors(angles, rotation.dtype).reshape(len(angles), *rotation.shape[-3:-1])
    for k in range(rotation.shape[-1]):  # all rows, then one product in place: nothing is broadcast within a slot
        out[..., k, :] = phasors
    out *= rotation


def _phasors(angles: Tensor, dtype: torch.dtype) -> Tensor:
    real = torch.empty(0, dtype=dtype).real.dtype
    return torch.complex(torch.cos(angles).to(real), torch.sin(angles).to(real))


def fresh(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Memory for a large result. NumPy asks for huge pages, torch does not: first touching them costs a third."""
    if like.device.type != "cpu" or torch.are_deterministic_algorithms_enabled():  # these fill new memory with NaN
        return like.new_empty(shape)
    return torch.from_numpy(np.empty(shape, dtype=str(like.dtype).removeprefix("torch.")))


def polar(x: Tensor) -> Tensor:
    return torch_polar.polar(x)


def power(a: Tensor, exponent: int | Tensor) -> Tensor:
    return torch_power.power(a, exponent, whole_power)


def whole_power(a: Tensor, exponent: int, product: Callable[[Tensor, Tensor], Tensor] = bind) -> Tensor:
    """A power from 0 on: squares of squares, and the product of those that the exponent is made of.

    Also for m = 1, where torch's own power takes a logarithm: that is slower by an order and loses digits.
    """
    if exponent == 0:
        return _identity(a.shape, a)
    square, result = a, None
    while exponent > 1:
        if exponent % 2:
            result = square if result is None else product(result, square)
        square = product(square, square)
        exponent //= 2
    return square.clone() if square is a else square if result is None else product(result, square)


def _identity(shape: tuple[int, ...], like: Tensor) -> Tensor:
    return torch.eye(shape[-1], dtype=like.dtype, device=like.device).expand(shape).clone()
