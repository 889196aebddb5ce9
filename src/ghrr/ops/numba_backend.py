"""Operations for which numba has faster loops on the CPU, and which tensors they take.

Same names and meaning as :mod:`ghrr.ops.reference`; forward only, on plain numbers whose shapes fit. numba is optional:
``pip install 'ghrr[fast]'``. It is imported, and its loops compiled (then kept on disk), when the first tensor arrives
that is worth it. What goes wrong there is raised, and :mod:`ghrr.ops.choice` goes on with torch.
"""

from __future__ import annotations

import functools
import importlib.util
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr.ops import pairs, torch_backend, torch_polar
from ghrr.ops.strides import by_slots, table_of_axes
from ghrr.ops.threads import share_out

INSTALLED = importlib.util.find_spec("numba") is not None
# Loops are compiled for each m up to this; above it torch's matrix products are as quick.
LARGEST_M = 8
# Below so many numbers torch's own products are as quick as the way to a loop.
FEW_NUMBERS = 1 << 10
# So many numbers to multiply are shared out over threads: waking one takes as long as multiplying a part of them.
_SHARED = 1 << 19
# Results of so many numbers are put on huge pages.
_LARGE = 1 << 19
# Below so many phases torch has encoded before numba is imported.
_MANY_PHASES = 1 << 18
_BITS = {torch.complex64: 32, torch.complex128: 64}
_REAL_OF = {torch.complex64: torch.float32, torch.complex128: torch.float64}
_REALS: dict[torch.dtype, NDArray[Any]] = {
    torch.complex64: np.empty(0, dtype=np.float32),
    torch.complex128: np.empty(0, dtype=np.float64),
}


def suits(operation: str, *tensors: Tensor) -> bool:
    """Hypervectors on the CPU, of a precision and an m for which there are loops, and numba is there."""
    x = tensors[0]
    if operation == "polar" and x.shape[-2] == 4 and x.dtype == torch.complex128:
        return False  # its closed form would lose digits
    known = pairs.DTYPES if operation.endswith("_pairs") else _BITS
    largest = 4 if operation == "polar" else LARGEST_M
    return INSTALLED and x.is_cpu and x.shape[-2] <= largest and x.dtype in known


def pays(operation: str, *tensors: Tensor) -> bool:
    """Whether the loops are quicker than torch for tensors of this size."""
    if operation in ("bind", "bind_pairs") and tensors[0].shape[-2] == 1:
        return False
    if operation == "bind_bags":
        keys, _, places = tensors
        return len(places) * keys.shape[1:].numel() >= FEW_NUMBERS
    return max([x.numel() for x in tensors]) >= FEW_NUMBERS


def bind(a: Tensor, b: Tensor, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    a, adjoint_a = by_slots(a, adjoint_a)
    b, adjoint_b = by_slots(b, adjoint_b)
    out = _empty(_broadcast(a, b), a)
    places = out.data_ptr(), a.data_ptr(), b.data_ptr()
    _run("bind", (adjoint_a, adjoint_b, False), out.shape, (a, b), places, out, work=out.numel())
    return out


def bind_alike(a: Tensor, b: Tensor, adjoint_a: bool, adjoint_b: bool) -> Tensor:
    """:func:`bind` of two tensors of one shape that lie in memory as it says, with as little as possible before it."""
    size = a.numel()
    if size >= _SHARED:
        return bind(a, b, adjoint_a, adjoint_b)
    m = a.shape[-1]
    out = torch.empty_like(a)
    loop, product = _flat_product(a.dtype, m, adjoint_a, adjoint_b)
    loop(product, out.data_ptr(), a.data_ptr(), b.data_ptr(), size // (m * m), m * m * a.itemsize)
    return out


@functools.cache
def _flat_product(dtype: torch.dtype, m: int, adjoint_a: bool, adjoint_b: bool) -> tuple[Any, int]:
    loops, products = _loops()
    return loops.bind_flat, products(_BITS[dtype], m, adjoint_a, adjoint_b, False).address


def similarity(a: Tensor, b: Tensor) -> Tensor:
    """Of two tensors of one shape that lie in memory as it says."""
    shape = a.shape
    *batch, dim, m, _ = shape
    row = 2 * dim * m * m
    rows = 2 * a.numel() // row
    kind = _REALS[a.dtype]
    out = torch.empty(batch, dtype=_REAL_OF[a.dtype], device="cpu")
    loop = _loops()[0].similarity
    places = row, 1 / (m * dim), kind, out.data_ptr(), a.data_ptr(), b.data_ptr()
    if a.numel() < _SHARED:
        loop(0, rows, *places)
    else:
        _in_threads(lambda part: loop(part.start, part.stop, *places), rows, used=(out, a, b))
    return out


def bind_bundle(keys: Tensor, values: Tensor, adjoint_keys: bool = False, adjoint_values: bool = False) -> Tensor:
    a, adjoint_a = by_slots(keys, adjoint_keys)
    b, adjoint_b = by_slots(values, adjoint_values)
    *batch, items, dim, m, _ = _broadcast(a, b)
    if items == 0:
        return a.new_zeros((*batch, dim, m, m))
    (a, step_a), (b, step_b) = _first_item(a), _first_item(b)
    out = _empty((*batch, dim, m, m), a)
    places = torch.view_as_real(out).flatten().numpy(), items, a.data_ptr(), step_a, b.data_ptr(), step_b
    _run("bind_bundle", (adjoint_a, adjoint_b, True), out.shape, (a, b), places, out, work=items * out.numel())
    return out


def bind_pairs(a: Tensor, b: Tensor, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    return torch_backend.bind_pairs(a, b, adjoint_a, adjoint_b, bind)


def bind_bundle_pairs(keys: Tensor, values: Tensor, adjoint_keys: bool = False, adjoint_values: bool = False) -> Tensor:
    return torch_backend.bind_pairs(keys, values, adjoint_keys, adjoint_values, bind_bundle)


def bind_bags(keys: Tensor, values: Tensor, key_places: Tensor, value_places: Tensor, starts: Tensor) -> Tensor:
    torch_backend.check_places(keys, values, key_places, value_places, starts)
    a, adjoint_a = by_slots(keys)
    b, adjoint_b = by_slots(values)
    dim, m, _ = keys.shape[1:]
    loops, products = _loops()
    product = products(_BITS[a.dtype], m, adjoint_a, adjoint_b, True).address
    # On small pages: virtual machines that give free memory back to their host give huge pages back, and who makes a
    # large sum once waits for these (150 ms for 72 MB, against 35).
    out = a.new_empty((len(starts) - 1, dim, m, m))
    places = [torch.view_as_real(out).flatten().numpy(), dim, m * m * a.itemsize]
    for x in (a, b):
        places += [x.data_ptr(), x.stride(0) * x.itemsize, x.stride(1) * x.itemsize]
    places += [x.contiguous().numpy() for x in (key_places, value_places, starts)]
    if len(key_places) * out.shape[1:].numel() < _SHARED:
        loops.bind_bags(0, len(out), product, *places)
    else:
        _in_threads(lambda part: loops.bind_bags(part.start, part.stop, product, *places), len(out), used=(a, b, out))
    return out


def multibind(items: Tensor) -> Tensor:
    count = items.shape[-4]
    if count < 2:
        return torch_backend.multibind(items)
    a, step = _first_item(by_slots(items.resolve_conj())[0])
    out = _empty(a.shape, a)
    places = out.data_ptr(), count, a.data_ptr(), step
    _run("multibind", (False, False, False), out.shape, (a,), places, out, work=count * out.numel())
    return out


def whole_power(a: Tensor, exponent: int) -> Tensor:
    if exponent < 2:
        return torch_backend.whole_power(a, exponent)
    a, _ = by_slots(a.resolve_conj())
    out = _empty(a.shape, a)
    places = out.data_ptr(), exponent, a.data_ptr()
    work = exponent.bit_length() * out.numel()
    _run("whole_power", (False, False, False), out.shape, (a,), places, out, work=work)
    return out


def polar(x: Tensor) -> Tensor:
    """As the specification; slots that are singular or nearly so are left to torch."""
    from ghrr.ops import numba_polar  # noqa: PLC0415 (numba takes long to import)

    m = x.shape[-1]
    x = x.resolve_conj().contiguous()
    out = _empty(x.shape, x)
    left = np.zeros(x.shape[:-2].numel(), dtype=np.bool_)
    kernel = getattr(numba_polar, f"polar_{m}")
    source, to = _as_rows(x), _as_rows(out)
    unknown: list[int] = []

    def work(part: slice) -> None:
        unknown.append(kernel(part.start, part.stop, source, to, left))

    _share(work, len(source), out.numel())
    if any(unknown):
        places = torch.from_numpy(left)
        out.view(-1, m, m)[places] = torch_polar.polar_factor(x.view(-1, m, m)[places])
    return out


def unitary_power(a: Tensor, exponents: Tensor) -> Tensor | None:
    """Real powers of unitary slots; None where a slot is not unitary."""
    from ghrr.ops import numba_lanes, numba_power  # noqa: PLC0415 (numba takes long to import)

    dim, m = a.shape[-3], a.shape[-1]
    own = tuple(a.shape[:-3])
    batch, bases = np.broadcast_shapes(own, exponents.shape), math.prod(own)
    out = _empty((*batch, dim, m, m), a)
    # Powers in the order of their bases: to which exponent, where they go, and where those of each base start.
    base_of = np.broadcast_to(np.arange(bases).reshape(own), batch).ravel()
    targets = np.argsort(base_of, kind="stable")
    starts = np.searchsorted(base_of[targets], np.arange(bases + 1))
    numbers = np.broadcast_to(exponents.to(torch.float64).numpy(), batch).ravel()[targets]
    kernel, tolerance = numba_power.power_kernel(m), torch_polar.unitarity_tolerance(m, a.dtype)
    source, to = _as_rows(a.resolve_conj().contiguous()), _as_rows(out)
    unknown: list[int] = []
    _share(
        lambda part: unknown.append(
            kernel(part.start, part.stop, dim, source, tolerance, numbers, targets, starts, to)
        ),
        bases * -(-dim // numba_lanes.SLOTS),
        m * max(a.numel(), out.numel()),
    )
    return None if any(unknown) else out


def _as_rows(x: Tensor) -> NDArray[Any]:
    """Slots that lie one after the other as rows of reals, ``(slots, 2 m m)``."""
    rows: NDArray[Any] = torch.view_as_real(x.detach()).reshape(-1, 2 * x.shape[-1] ** 2).numpy()
    return rows


def _share(work: Callable[[slice], Any], rows: int, numbers: int) -> None:
    """Do the work here or, if there is much, in threads."""
    if numbers < _SHARED:
        work(slice(0, rows))
    else:
        _in_threads(work, rows)


def bind_similarity(a: Tensor, b: Tensor, c: Tensor, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    a, adjoint_a = by_slots(a, adjoint_a)
    b, adjoint_b = by_slots(b, adjoint_b)
    c, _ = by_slots(c.resolve_conj())
    shape = _broadcast(a, b, c)
    dim, m = shape[-3], shape[-1]
    sums = np.zeros(shape[:-3].numel())
    places = dim, sums, _REALS[a.dtype], a.data_ptr(), b.data_ptr(), c.data_ptr()
    kind = (adjoint_a, adjoint_b, False)
    _run("bind_similarity", kind, shape, (a, b, c), places, sums, work=shape.numel(), together=dim)
    return torch.from_numpy(sums / (m * dim)).to(a.dtype.to_real()).reshape(shape[:-3])


def _run(  # noqa: PLR0917
    name: str,
    kind: tuple[bool, bool, bool],
    shape: torch.Size,
    operands: tuple[Tensor, ...],
    places: tuple[Any, ...],
    out: object,
    *,
    work: int,
    together: int = 1,
) -> None:
    """Call a loop for all slots of the result, ``together`` so many in one thread."""
    loops, products = _loops()
    x, m, axes = operands[0], shape[-1], shape[:-2]
    item = x.itemsize
    slot, slots = m * m * item, axes.numel()
    table = table_of_axes(axes, item, *[(x.shape, x.stride()) for x in operands])
    product = products(_BITS[x.dtype], m, *kind).address
    loop = getattr(loops, name)
    if work < _SHARED:
        loop(0, slots, product, slot, table, *places)
    else:
        _in_threads(
            lambda part: loop(part.start * together, part.stop * together, product, slot, table, *places),
            slots // together,
            used=(out, operands),
        )


@functools.cache
def _loops() -> tuple[ModuleType, Callable[..., Any]]:
    from ghrr.ops import numba_loops, numba_products  # noqa: PLC0415 (numba takes long to import)

    return numba_loops, numba_products.products


def _first_item(x: Tensor) -> tuple[Tensor, int]:
    """The first of an axis of items, and the bytes to the next; 0 where it stands for all."""
    return x.select(-4, 0), x.stride(-4) * x.itemsize if x.shape[-4] > 1 else 0


def _broadcast(*tensors: Tensor) -> torch.Size:
    shapes = [x.shape for x in tensors]
    if shapes.count(shapes[0]) == len(shapes):
        return shapes[0]
    shape: torch.Size = torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call]
    return shape


def _empty(shape: tuple[int, ...], like: Tensor) -> Tensor:
    if math.prod(shape) < _LARGE:
        return like.new_empty(shape)
    return torch_backend.fresh(shape, like)


def suits_fractional_power(rotation: Tensor, frequencies: Tensor, x: Tensor) -> bool:
    """Single precision on the CPU, many phases, and numba is there."""
    phases = x.shape[:-1].numel() * frequencies.shape[-3:-1].numel()
    return (
        INSTALLED
        and phases >= _MANY_PHASES
        and {rotation.dtype, frequencies.dtype, x.dtype} == {torch.complex64, torch.float32}
        and {rotation.device.type, frequencies.device.type, x.device.type} == {"cpu"}
    )


def fractional_power(rotation: Tensor, frequencies: Tensor, x: Tensor) -> Tensor:
    """As the specification; angles so large that their sines need more than single precision are left to torch."""
    from ghrr.ops import numba_kernels  # noqa: PLC0415 (numba takes long to import)

    if not _largest_norm(frequencies) * _largest_norm(x) <= numba_kernels.LARGEST_ANGLE:  # also for NaN
        return torch_backend.fractional_power(rotation, frequencies, x)
    rotate = numba_kernels.rotate_kernel(rotation.shape[-1])
    q, iq = (torch.view_as_real(part).flatten().numpy() for part in (rotation.resolve_conj(), 1j * rotation))

    def fill(angles: Tensor, out: Tensor) -> None:
        from_angles, to = angles.numpy(), torch.view_as_real(out).flatten(start_dim=1).numpy()
        _in_threads(lambda part: rotate(from_angles[part], q, iq, to[part]), len(angles))

    return torch_backend.encode_rows(rotation, frequencies, x, fill)


def _largest_norm(rows: Tensor) -> float:
    return float(torch.linalg.vector_norm(rows, dim=-1).amax())


def _in_threads(work: Callable[[slice], Any], rows: int, used: tuple[object, ...] = ()) -> None:
    """Share rows out over threads; the loops release the interpreter's lock.

    ``used`` is what loops have no more than the address of: it lives as long as a thread may be at work.
    numba's own threads would end the process when two threads of the caller meet in them, or after a fork.
    """

    def keeping(part: slice, used: tuple[object, ...] = used) -> None:
        work(part)

    share_out(keeping, rows)
