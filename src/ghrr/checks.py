"""Input validation shared by all layers. Every error names the operation, the value it got and what it expected.

Checks read shapes and types, not values: they do not wait for a GPU, and they work under ``torch.vmap`` and
``torch.compile``. Only ``check_finite`` reads values. ``check_*`` functions raise; most return the checked value.
"""

from __future__ import annotations

import cmath
import math
import numbers
import operator
import os
import reprlib
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any, SupportsIndex

import torch
from torch import Tensor

from ghrr._calls import add_place, current_call, named, names_errors, type_error, value_error, warn, without_name
from ghrr._similar import did_you_mean

__all__ = [
    "add_place",
    "check_choice",
    "check_device",
    "check_flag",
    "check_generator",
    "check_integer",
    "check_known",
    "check_names",
    "check_path",
    "check_real",
    "current_call",
    "describe",
    "install_hint",
    "is_true",
    "named",
    "names_errors",
    "short_repr",
    "type_error",
    "value_error",
    "warn",
    "without_name",
]

_TOO_LARGE = 1 << 62  # sizes in torch have 64 bits
_COMPLEX = (torch.complex64, torch.complex128)
_STRIDED = torch.strided
# Raised by torch.linalg for a singular matrix.
LinAlgError: type[RuntimeError] = torch.linalg.LinAlgError  # type: ignore[attr-defined]


def describe(x: object) -> str:
    """Describe ``x`` in one line of an error message: its type and value or, for a tensor, its dtype and shape.

    Never raises, and takes the same time for large and deeply nested values as for small ones.
    """
    if isinstance(x, Tensor):
        layout = "" if x.layout == torch.strided else f"{str(x.layout).removeprefix('torch.')} "
        shape = "" if x.is_nested else f" of shape {tuple(x.shape)}"
        return f"a {layout}{str(x.dtype).removeprefix('torch.')} tensor{shape}"
    return f"{type(x).__name__} {short_repr(x)}"[:120]


class _ShortRepr(reprlib.Repr):
    """``repr`` of the first few items and characters of a value."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxlong, self.maxother = 4, 100, 40, 100

    def repr_int(self, x: int, level: int) -> str:
        return repr(x) if x.bit_length() < 128 else f"<int of {x.bit_length()} bits>"

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        return super().repr_dict(dict(islice(x.items(), self.maxdict + 1)), level)  # reprlib would sort all keys

    def repr_set(self, x: set[Any], level: int) -> str:
        return super().repr_set(set(islice(x, self.maxset + 1)), level)

    def repr_frozenset(self, x: frozenset[Any], level: int) -> str:
        return super().repr_frozenset(frozenset(islice(x, self.maxfrozenset + 1)), level)

    def repr_instance(self, x: Any, level: int) -> str:
        if isinstance(x, bytes) and len(x) <= self.maxstring:
            return repr(x)
        if isinstance(x, (str, bytes, bytearray, list, tuple, dict, set, frozenset)):  # a subclass, of any size
            return f"<{type(x).__name__} of length {len(x)}>"
        return super().repr_instance(x, level)


def short_repr(x: object) -> str:
    """Return ``repr(x)``, shortened. Never raises."""
    try:
        return _ShortRepr().repr(x)
    except Exception:  # raised by a method of the value
        return f"<{type(x).__name__} without repr>"


def install_hint(extra: str) -> str:
    """Return the commands that install an extra, for a released package and for a checkout.

    Examples
    --------
    >>> from ghrr.checks import install_hint
    >>> install_hint("fast")
    "pip install 'ghrr[fast]' or, from a checkout, pip install -e '.[fast]'"
    """
    return f"pip install 'ghrr[{extra}]' or, from a checkout, pip install -e '.[{extra}]'"


class TensorInSpace:
    """Base class of :class:`ghrr.Hypervector`, so that checks can replace it by its tensor."""

    __slots__ = ()

    tensor: Tensor
    space: Any


def check_hypervectors(**given: Any) -> Iterable[Tensor]:
    """Return the arguments as tensors, in the same order.

    Raises unless all are hypervectors ``(*batch, dim, m, m)`` with the same dim, m, dtype and device, and all
    :class:`ghrr.Hypervector` have the same space.
    """
    if not _fit(*given.values()):
        given = _unwrap(given)
        if not _fit(*given.values()):
            _explain(given)
    return given.values()


def _unwrap(given: dict[str, Any]) -> dict[str, Any]:
    wrapped = {name: x for name, x in given.items() if isinstance(x, TensorInSpace)}
    for name, x in wrapped.items():
        first = next(iter(wrapped))
        if x.space != wrapped[first].space:
            raise value_error(
                f"{first} and {name} belong to different spaces, {wrapped[first].space!r} and "
                f"{x.space!r}; create both in one space"
            )
    return {name: x.tensor if name in wrapped else x for name, x in given.items()}


def are_alike(a: Any, b: Any) -> bool:
    """Return whether two tensors are hypervectors of one shape, dtype and device: a quick test of the common case.

    If it returns False, the tensors may still fit together: use :func:`check_hypervectors`.
    """
    if type(a) is not Tensor or type(b) is not Tensor:
        return False
    shape, dtype = a.shape, a.dtype
    return (
        shape == b.shape
        and dtype is b.dtype
        and dtype in _COMPLEX
        and len(shape) > 2
        and shape[-1] == shape[-2] > 0 < shape[-3]
        and a.device == b.device
        and a.layout is _STRIDED
        and b.layout is _STRIDED
    )


def _fit(first: Tensor, *rest: Tensor) -> bool:
    """Return whether all fit together, quickly; :func:`_explain` finds the reason if not."""
    if not isinstance(first, Tensor) or first.dtype not in _COMPLEX or first.layout is not _STRIDED:
        return False
    shape = first.shape[-3:]
    if len(shape) < 3 or shape[1] != shape[2] or 0 in shape:
        return False
    return all(
        isinstance(x, Tensor)
        and x.layout is _STRIDED
        and x.shape[-3:] == shape
        and x.dtype == first.dtype
        and x.device == first.device
        for x in rest
    )


def _explain(given: dict[str, Tensor]) -> None:
    for name, x in given.items():
        _check_one(name, x)
    check_alike("hypervectors", -3, given)


def check_alike(kind: str, axis: int, given: dict[str, Tensor]) -> None:
    """Raise unless all have the same dim (at ``axis``), m (two axes later), dtype and device."""
    (first_name, first), *rest = given.items()
    for name, x in rest:
        for what, left, right in (
            ("m", first.shape[axis + 2], x.shape[axis + 2]),
            ("dim", first.shape[axis], x.shape[axis]),
            ("dtype", first.dtype, x.dtype),
            ("device", first.device, x.device),
        ):
            if left != right:
                raise value_error(
                    f"{first_name} and {name} differ in {what}: {left} and {right} "
                    f"({first_name} is {describe(first)} on {first.device}, {name} is {describe(x)} on {x.device}); "
                    f"{kind} must have the same dim, m, dtype and device"
                )


def _check_one(name: str, x: Any) -> None:
    if not isinstance(x, Tensor):
        raise type_error(f"{name} must be a complex tensor of shape (*batch, dim, m, m), got {describe(x)}")
    if x.dtype not in _COMPLEX:
        raise type_error(f"{name} must be complex (complex64 or complex128), got {describe(x)}")
    _check_dense(name, x)
    if x.ndim < 3 or x.shape[-1] != x.shape[-2] or x.shape[-1] < 1 or x.shape[-3] < 1:
        raise value_error(
            f"{name} must have shape (*batch, dim, m, m), square slots with m >= 1 and dim >= 1, got {describe(x)}"
        )


def _check_dense(name: str, x: Tensor) -> None:
    if x.layout is not _STRIDED:
        raise type_error(f"{name} must be a dense tensor, got {describe(x)}; use {name}.to_dense()")


def check_items(**given: Tensor) -> None:
    """Raise unless every hypervector has an item axis: ``(*batch, n, dim, m, m)``."""
    for name, x in given.items():
        if x.ndim < 4:
            raise value_error(
                f"{name} needs an axis of items before the slots, shape (*batch, n, dim, m, m); got {describe(x)}"
            )


def check_broadcast(**shapes: tuple[int, ...]) -> None:
    """Raise unless the named batch shapes broadcast together."""
    if len(set(shapes.values())) == 1:
        return
    longest = max(len(shape) for shape in shapes.values())
    for axis in range(1, longest + 1):
        sizes = [shape[-axis] for shape in shapes.values() if len(shape) >= axis]
        not_one = [size for size in sizes if size != 1]
        if any(size != not_one[0] for size in not_one[1:]):
            listed = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
            raise value_error(f"the batch shapes do not broadcast: {listed}; on each axis they must be equal or 1")


def check_batch(batch: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sizes of a batch as integers; raise unless they are integers of at least 0."""
    return tuple(check_integer("a batch size", size, least=0) for size in batch)


def check_square(x: Tensor, *, dims: int = 2) -> None:
    """Raise unless ``x`` is a tensor of square matrices, with at least ``dims`` axes."""
    if not isinstance(x, Tensor):
        raise type_error(f"needs a tensor of square matrices, got {describe(x)}")
    _check_dense("x", x)
    if x.ndim < dims or x.shape[-1] != x.shape[-2]:
        raise value_error(f"needs square matrices, ({'*, ' + 'dim, ' * (dims - 2)}m, m); got {describe(x)}")


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise unless ``value`` is one of the strings in ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise value_error(f"{name} must be one of {', '.join(map(repr, choices))}; got {short_repr(value)}")


def check_known(kind: str, name: object, known: Iterable[str]) -> None:
    """Raise unless a name is one of the known ones; the message suggests the most similar of them."""
    names = list(known)
    if name not in names:
        hint = did_you_mean(name, names, cutoff=0.3)
        raise value_error(f"unknown {kind} {short_repr(name)}, expected one of {', '.join(names)}{hint}")


def check_names(names: Iterable[str]) -> list[str]:
    """Return ``names`` as a list; raise for a single string and for anything but non-empty strings."""
    if isinstance(names, str | Tensor | TensorInSpace) or not isinstance(names, Iterable):
        raise type_error(f"give a list of names, as in ['a', 'b']; got {describe(names)}")
    names = list(names)
    for name in names:
        if not isinstance(name, str) or not name:
            raise type_error(f"a name must be a string that is not empty, got {describe(name)}")
    return names


def check_integer(name: str, value: SupportsIndex, *, least: int | None = None) -> int:
    """Return ``value`` as an int; raise unless it is a whole number of at least ``least``."""
    try:
        number = operator.index(value)
    except TypeError:
        raise type_error(f"{name} must be a whole number, got {describe(value)}") from None
    if isinstance(value, bool):
        raise type_error(f"{name} must be a whole number, got {describe(value)}")
    if abs(number) >= _TOO_LARGE:
        raise value_error(f"{name} must be below 2**62 in size, got an integer of {number.bit_length()} bits")
    if least is not None and number < least:
        raise value_error(f"{name} must be a whole number of at least {least}, got {number}")
    return number


def check_real(name: str, value: object, *, low: float, high: float, open_ends: bool = False) -> float:
    """Return ``value`` as a float; raise unless it lies in [low, high], or in (low, high) with ``open_ends``."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise type_error(f"{name} must be a real number, got {describe(value)}")
    try:
        number = float(value)
    except OverflowError:  # an integer or a fraction beyond the range of floats
        number = math.nan
    inside = low < number < high if open_ends else low <= number <= high
    if not inside or math.isnan(number):
        ends = "({}, {})" if open_ends else "[{}, {}]"
        raise value_error(f"{name} must lie in {ends.format(low, high)}, got {short_repr(value)}")
    return number


def check_flag(name: str, value: object) -> bool:
    """Return ``value``; raise unless it is True or False."""
    if not isinstance(value, bool):
        raise type_error(f"{name} must be True or False, got {describe(value)}")
    return value


def check_path(path: object) -> Path:
    """Return a path; raise unless it is a string or an object such as ``pathlib.Path``, and valid Unicode text."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise type_error(f"a path must be a string or a pathlib.Path, got {describe(path)}")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise value_error(f"a path must be valid Unicode text, got {describe(path)}") from None
    return Path(path)


def check_generator(generator: torch.Generator) -> torch.Generator:
    """Return ``generator``; raise unless it is a ``torch.Generator``."""
    if not isinstance(generator, torch.Generator):
        raise type_error(
            f"generator must be a torch.Generator, for example torch.Generator().manual_seed(0); "
            f"got {describe(generator)}"
        )
    return generator


def check_device(device: str | torch.device | None) -> torch.device:
    """Return the device of a tensor created on ``device``: "cuda" becomes "cuda:0", and None is the CPU.

    Raises if the device cannot be used.
    """
    try:
        found = torch.empty(0, device="cpu" if device is None else device).device
    except (RuntimeError, AssertionError, TypeError, ValueError, ImportError) as error:
        reason = str(error).partition("\n")[0]
        raise value_error(f"device {short_repr(device)} cannot be used ({reason:.200}); try 'cpu'") from error
    if found.type == "meta":
        raise value_error("device 'meta' stores no numbers; try 'cpu'")
    return found


def check_complex_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return ``dtype``; raise unless it is complex64 or complex128."""
    if dtype not in (torch.complex64, torch.complex128):
        raise value_error(f"dtype must be torch.complex64 or torch.complex128, got {dtype!r}")
    return dtype


def is_true(condition: Tensor) -> bool:
    """Return whether a condition on values holds; False under torch.compile and torch.vmap, which have no values."""
    if torch.compiler.is_compiling() or condition.device.type == "meta":
        return False
    try:
        return bool(condition)
    except RuntimeError:
        return False


def has_finite_sum(x: Tensor) -> bool:
    """Return whether the sum of ``x`` is finite: then all entries are. Much faster than testing each of them.

    False under torch.compile and torch.vmap, which have no values, and if the sum of finite entries overflows.
    """
    if torch.compiler.is_compiling() or x.device.type == "meta":
        return False
    try:
        return cmath.isfinite(x.detach().sum().item())
    except RuntimeError:
        return False


def check_finite(name: str, x: Tensor) -> None:
    """Raise for a NaN or an infinity."""
    if has_finite_sum(x):
        return
    if is_true(~torch.isfinite(x).all()):
        raise value_error(f"slot {first_nonfinite_slot(x)} of {name} is not finite; remove NaN and infinity")


def first_nonfinite_slot(x: Tensor) -> tuple[int, ...] | None:
    """Return the index ``(*batch, slot)`` of the first slot with a NaN or an infinity, or None."""
    bad = (~torch.isfinite(x)).any(dim=(-1, -2)).nonzero()
    return tuple(bad[0].tolist()) if len(bad) else None
