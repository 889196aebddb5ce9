r"""The operations in PyTorch: any device, differentiable, batched. Every kernel falls back to these.

Same names and meaning as :mod:`ghrr.ops.reference`. The differences are for speed and memory:

- m = 1 is an elementwise product; a batched product of 1x1 matrices takes many times as long. On a GPU, where libraries
  are slow for small matrices, so is every product up to m = 8: a sum of m elementwise products.
- :math:`\mathrm{Re}\,\mathrm{tr}(A B^\dagger)` is the dot product of the two tensors as real vectors, so similarity is
  a real matrix product. Broadcast axes become its rows and columns and are not expanded.
- ``bind_bundle`` contracts the item axis together with the inner matrix axis; the products are never stored.
- ``bind_bags`` binds each distinct pair of key and value once.
- ``fractional_power`` writes encodings into the result in chunks that fit in the cache, if no derivative is needed.

The nearest unitary matrix and powers are in :mod:`ghrr.ops.torch_polar` and :mod:`ghrr.ops.torch_power`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from torch import Tensor

from ghrr.checks import named
from ghrr.ops.tensor_state import needs_no_derivative

# Numbers that bind_bundle and bind_bags gather at a time: 4 MiB in complex64, to stay in the cache.
_CHUNK_NUMBERS = 1 << 19
# Numbers of bound pairs that bind_bags stores at a time: 64 MiB in complex64.
_PAIR_NUMBERS = 1 << 23
# Phases that fractional_power computes at a time, to stay in the cache.
_CHUNK_PHASES = 1 << 19
# Up to this m, elementwise products take a GPU less time than cuBLAS.
_LARGEST_ELEMENTWISE = 8


def bind(a: Tensor, b: Tensor, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    a, b = _or_adjoint(a, adjoint_a), _or_adjoint(b, adjoint_b)
    if a.shape[-1] == 1:
        return a * b
    if a.is_cuda and a.shape[-1] <= _LARGEST_ELEMENTWISE:
        return elementwise_bind(a, b)
    return a @ b


def elementwise_bind(a: Tensor, b: Tensor) -> Tensor:
    """Bind by m elementwise products of a column of A with a row of B."""
    total = a[..., :, :1] * b[..., :1, :]
    for n in range(1, a.shape[-1]):
        total = torch.addcmul(total, a[..., :, n : n + 1], b[..., n : n + 1, :])
    return total


def _or_adjoint(a: Tensor, adjoint: bool) -> Tensor:
    return a.mH if adjoint else a


def adjoint(a: Tensor) -> Tensor:
    # numpy(), view_as_real() and safetensors refuse lazily conjugated tensors.
    return a.mH.resolve_conj()


def bundle(items: Tensor) -> Tensor:
    return items.sum(dim=-4)


def multibind(items: Tensor, product: Callable[[Tensor, Tensor], Tensor] = bind) -> Tensor:
    """Multiply neighbours in pairs, then the pairs, and so on: log2(n) batched products instead of n - 1 small ones."""
    count = items.shape[-4]
    if count == 0:
        return _identity((*items.shape[:-4], *items.shape[-3:]), items)
    while count > 1:
        left = items[..., 0 : count - 1 : 2, :, :, :]
        right = items[..., 1:count:2, :, :, :]
        last_if_odd = items[..., count - count % 2 :, :, :, :]
        items = torch.cat([product(left, right), last_if_odd], dim=-4)
        count = items.shape[-4]
    return items[..., 0, :, :, :]


def bind_bundle(keys: Tensor, values: Tensor, adjoint_keys: bool = False, adjoint_values: bool = False) -> Tensor:
    keys, values = _or_adjoint(keys, adjoint_keys), _or_adjoint(values, adjoint_values)
    count = keys.shape[-4]
    if count != values.shape[-4]:  # one key for all values or one value for all keys: binding distributes
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


def bind_bags(keys: Tensor, values: Tensor, key_indices: Tensor, value_indices: Tensor, offsets: Tensor) -> Tensor:
    check_bags(keys, values, key_indices, value_indices, offsets)
    numbers = keys.shape[1:].numel()
    total = keys.new_zeros((len(offsets) - 1, 2 * numbers), dtype=keys.dtype.to_real())
    pairs, pair_of_item = torch.unique(key_indices * len(values) + value_indices, return_inverse=True)
    first = 0
    for stored in pairs.split(max(1, _PAIR_NUMBERS // numbers)):
        chunks = stored.split(max(1, _CHUNK_NUMBERS // numbers))
        bound = torch.cat([bind(keys[pair // len(values)], values[pair % len(values)]) for pair in chunks])
        is_stored = (pair_of_item >= first) & (pair_of_item < first + len(stored))
        count_before = torch.nn.functional.pad(is_stored.cumsum(0), (1, 0))
        total = total + torch.nn.functional.embedding_bag(
            pair_of_item[is_stored] - first,
            _as_real_vectors(bound),
            count_before[offsets],
            mode="sum",
            include_last_offset=True,
        )
        first += len(stored)
    return torch.view_as_complex(total.reshape(-1, *keys.shape[1:], 2))


def check_bags(keys: Tensor, values: Tensor, key_indices: Tensor, value_indices: Tensor, offsets: Tensor) -> None:
    """Raise unless all indices are inside their tables: a kernel would read other memory."""
    if len(key_indices) != len(value_indices):
        raise IndexError(
            named(
                f"key_indices and value_indices must have one length, got {len(key_indices)} and {len(value_indices)}"
            )
        )
    for name, indices, size in (("key_indices", key_indices, len(keys)), ("value_indices", value_indices, len(values))):
        array = indices.numpy(force=True)
        if array.size and not (array.min() >= 0 and array.max() < size):
            raise IndexError(named(f"{name} must be from 0 to {size - 1}, got {array.min()} to {array.max()}"))
    array = offsets.numpy(force=True)
    if array[0] != 0 or array[-1] != len(key_indices) or (array[1:] < array[:-1]).any():
        raise IndexError(named(f"offsets must ascend from 0 to {len(key_indices)}, got {array}"))


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
    """Disable autocast, which would round these products to 16 bits: an error as large as crosstalk noise."""
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


def encode_rows(rotation: Tensor, frequencies: Tensor, x: Tensor, fill: Callable[[Tensor, Tensor], None]) -> Tensor:
    """Encode all rows of x in chunks; ``fill(angles, out)`` computes hypervectors from angles."""
    rows = x.reshape(-1, x.shape[-1])
    shape = rotation.shape[-3:]
    out = allocate((len(rows), *shape), rotation)
    weights = frequencies.to(x.dtype).flatten(0, 1).mT
    step = max(1, _CHUNK_PHASES // weights.shape[-1])
    angles = x.new_empty((min(step, len(rows)), weights.shape[-1]))
    with _full_precision(x):
        for start in range(0, len(rows), step):
            chunk = rows[start : start + step]
            fill(torch.mm(chunk, weights, out=angles[: len(chunk)]), out[start : start + step])
    return out.reshape(*x.shape[:-1], *shape)


def rotate_phases(rotation: Tensor, angles: Tensor, out: Tensor) -> None:
    """Write Q · diag(e^{iθ}) for angles ``(rows, dim * m)`` to ``out``, ``(rows, dim, m, m)``."""
    phasors = _phasors(angles, rotation.dtype).reshape(len(angles), *rotation.shape[-3:-1])
    for k in range(rotation.shape[-1]):  # then one product in place, without broadcasting inside a slot
        out[..., k, :] = phasors
    out *= rotation


def cos_sin(angles: Tensor) -> Tensor:
    if not needs_no_derivative(angles):
        return torch.stack([torch.cos(angles), torch.sin(angles)], dim=-2)
    out = allocate((*angles.shape[:-1], 2, angles.shape[-1]), angles)
    torch.cos(angles, out=out[..., 0, :])
    torch.sin(angles, out=out[..., 1, :])
    return out


def _phasors(angles: Tensor, dtype: torch.dtype) -> Tensor:
    real = torch.empty(0, dtype=dtype).real.dtype
    return torch.complex(torch.cos(angles).to(real), torch.sin(angles).to(real))


def allocate(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Allocate a large result. On a CPU by NumPy, which uses huge pages: first access takes a third less time."""
    if like.device.type != "cpu" or torch.are_deterministic_algorithms_enabled():  # these fill new memory with NaN
        return like.new_empty(shape)
    return torch.from_numpy(np.empty(shape, dtype=str(like.dtype).removeprefix("torch.")))


def whole_power(a: Tensor, exponent: int, product: Callable[[Tensor, Tensor], Tensor] = bind) -> Tensor:
    """Raise to a power of at least 0 by repeated squaring.

    Also for m = 1, where ``torch.pow`` computes a logarithm: ten times slower and less exact.
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
