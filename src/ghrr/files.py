"""Hypervectors in safetensors files that also hold their space, written atomically and checked when read.

Also the functions through which all layers read and write files. Nothing here uses pickle.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ghrr._checks import describe
from ghrr._disk import atomic_write, check_regular, lock_folder, open_to_append, read_bytes
from ghrr._json import check_fields, parse_json, read_json, write_json
from ghrr.hypervector import Hypervector
from ghrr.space import Space

__all__ = [
    "atomic_write",
    "check_fields",
    "check_regular",
    "load",
    "lock_folder",
    "open_to_append",
    "parse_json",
    "read_bytes",
    "read_container",
    "read_json",
    "read_tensors",
    "save",
    "write_container",
    "write_json",
    "write_tensors",
]

FORMAT = "ghrr-hypervectors"
VERSION = 1
_DTYPES = {"complex64": torch.complex64, "complex128": torch.complex128}
_ROTATION = "space.rotation"
_ITEM = "item."
_SINGLE = "x"
_LONGEST_HEADER = 100_000_000  # as safetensors has it

T = TypeVar("T")


def save(path: str | os.PathLike[str], x: Hypervector | Mapping[str, Hypervector]) -> None:
    """Write a hypervector, or several by name, to a safetensors file that also holds their space.

    The file is complete or not there: it is written beside the target and renamed. All hypervectors must be of one
    space.

    Parameters
    ----------
    path
        Where to; by custom ``*.safetensors``.
    x
        A :class:`Hypervector` (wrap tensors with ``space.wrap``) or a mapping of names to them.

    Examples
    --------
    >>> import ghrr, tempfile, pathlib
    >>> a, b = ghrr.Space(dim=100, m=2, seed=0).atoms("a", "b")
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "pair.safetensors"
    >>> ghrr.save(path, {"bound": a * b, "bundled": a + b})
    >>> ghrr.load(path)["bound"]
    Hypervector(a * b, dim=100, m=2, complex64)
    """
    if not isinstance(x, (Hypervector, Mapping)):
        raise TypeError(f"save(path, x): x must be a Hypervector or a mapping of names to them, got {describe(x)}")
    items = {_SINGLE: x} if isinstance(x, Hypervector) else dict(x)
    spaces = _spaces_of(items)
    if len(spaces) != 1:
        listed = ", ".join(map(repr, spaces)) or "no hypervector at all"
        raise ValueError(f"save(path, x): a file holds the hypervectors of one space, got {listed}")
    header = {
        "single": isinstance(x, Hypervector),
        "expressions": {name: item.expression for name, item in items.items()},
    }
    tensors = {_ITEM + name: item.tensor for name, item in items.items()}
    write_container(path, spaces[0], header, tensors, kind=FORMAT, version=VERSION, operation="save")


def write_container(
    path: str | os.PathLike[str],
    space: Space,
    header: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    kind: str,
    version: int,
    operation: str,
) -> None:
    """Write complex tensors of one space and a JSON header to a safetensors file with a checksum, atomically.

    Parameters
    ----------
    path
        Where to.
    space
        Its settings are part of the header.
    header
        JSON data.
    tensors
        Complex tensors by name.
    kind, version
        Format of the file; :func:`read_container` refuses any other.
    operation
        What errors are prefixed with.
    """
    stored = {name: _as_stored(tensor) for name, tensor in tensors.items()}
    if isinstance(space.rotation, Tensor):
        stored[_ROTATION] = _as_stored(space.rotation)
    whole = {"format": kind, "version": version, "space": _describe_space(space), **header}
    text = json.dumps(whole, sort_keys=True)
    metadata = {"ghrr": text, "sha256": _checksum(text, stored)}
    write_tensors(path, stored, metadata, operation=operation)


def write_tensors(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, str],
    *,
    operation: str,
    follow_links: bool = True,
) -> None:
    """Write contiguous tensors on the CPU and a header to a safetensors file, atomically. They may share memory."""
    seen: set[int] = set()
    apart: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        memory = tensor.untyped_storage().data_ptr()
        apart[name] = tensor.clone() if memory in seen else tensor
        seen.add(memory)
    with atomic_write(path, follow_links=follow_links) as temporary:
        try:
            save_file(apart, temporary, metadata=dict(metadata))
        except SafetensorError as error:
            raise OSError(f"{operation}({str(path)!r}): {error}") from error


def read_tensors(path: str | os.PathLike[str], *, operation: str) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Return the header and the tensors of a safetensors file.

    Raises
    ------
    OSError
        There is no such file, or it is not a regular file.
    ValueError
        It was cut short, is of another kind, or does not fit into memory.
    """
    check_regular(path, operation)
    operation = f"{operation}({str(path)!r})"
    _check_sizes(path, operation)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            # Cloned: the mapped file may change under the tensors, and does not align them for complex arithmetic.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, RuntimeError, MemoryError) as error:
        raise ValueError(f"{operation}: {_NOT_READABLE} ({error!s:.200})") from error
    return metadata, tensors


_NOT_READABLE = "not a readable safetensors file; it was cut short or is of another kind"


def _check_sizes(path: str | os.PathLike[str], operation: str) -> None:
    """Raise unless a safetensors file is as large as its header says, before anything of that size is allocated."""
    with open(path, "rb") as file:
        start, size = file.read(8), os.fstat(file.fileno()).st_size
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if not 2 <= length <= min(size - 8, _LONGEST_HEADER):
            raise ValueError(f"{operation}: {_NOT_READABLE} (header of {length:,} bytes in a file of {size:,})")
        try:
            header = parse_json(file.read(length), "header")
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
            claimed = 8 + length + max(ends, default=0)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise ValueError(f"{operation}: {_NOT_READABLE} ({error!s:.200})") from error
    if claimed != size:
        raise ValueError(f"{operation}: {_NOT_READABLE} (its header asks for {claimed:,} bytes, it has {size:,})")


def _spaces_of(items: Mapping[str, Hypervector]) -> list[Space]:
    spaces: list[Space] = []
    for name, item in items.items():
        if not isinstance(name, str) or not name.isprintable() or not isinstance(item, Hypervector):
            raise TypeError(
                f"save(path, x): x must be a Hypervector or map printable names to Hypervectors, but x[{name!r}] is a "
                f"{type(item).__name__}; space.wrap(tensor) makes a Hypervector"
            )
        if item.space not in spaces:
            spaces.append(item.space)
    return spaces


def load(path: str | os.PathLike[str]) -> Hypervector | dict[str, Hypervector]:
    """Read what :func:`save` wrote: a hypervector, or a dict of them, as it was saved.

    Raises
    ------
    OSError
        There is no such file, or it is a folder, a FIFO or a device.
    ValueError
        It is not a file of this library, or was cut short or changed since it was written.

    Examples
    --------
    See :func:`save`.
    """
    return read_container(path, _parse, kind=FORMAT, version=VERSION, operation="load")


def read_container(
    path: str | os.PathLike[str],
    parse: Callable[[Space, dict[str, Any], dict[str, Tensor]], T],
    *,
    kind: str,
    version: int,
    operation: str,
) -> T:
    """Read a file of :func:`write_container` and give space, header and tensors to ``parse``, whose result is returned.

    Any error of ``parse`` that inconsistent content can cause becomes a ValueError that names the file.
    """
    where = f"{operation}({str(path)!r})"
    metadata, tensors = read_tensors(path, operation=operation)
    try:
        if "ghrr" not in metadata:
            raise ValueError("a safetensors file, but not one that ghrr wrote")
        if any(tensor.dtype not in (torch.float32, torch.float64) for tensor in tensors.values()):
            raise ValueError("holds tensors of a kind that ghrr does not write")
        text = metadata["ghrr"]
        header = parse_json(text, "header")
        if not isinstance(header, dict) or header.get("format") != kind:
            found = header.get("format") if isinstance(header, dict) else None
            raise ValueError(f"a safetensors file of another kind, got format {found!r}, expected {kind!r}")
        if header.get("version") != version:
            raise ValueError(
                f"format version {header.get('version')!r}, this ghrr reads {version}; use the version that wrote it"
            )
        if _checksum(text, tensors) != metadata.get("sha256"):
            raise ValueError("the content does not match its checksum: the file was damaged or changed")
        space = _rebuild_space(header["space"], tensors)
        if isinstance(space.rotation, Tensor):
            del tensors[_ROTATION]
        return parse(space, header, {name: torch.view_as_complex(tensor) for name, tensor in tensors.items()})
    except _UNREADABLE as error:
        reason = str(error) if isinstance(error, ValueError) else f"inconsistent content ({error!r})"
        raise ValueError(f"{where}: {reason:.500}") from error


# What parsing a file can raise that is damaged, or was made to do harm.
_UNREADABLE = (LookupError, ValueError, TypeError, AttributeError, RuntimeError, OverflowError, MemoryError)


def _parse(space: Space, header: dict[str, Any], tensors: dict[str, Tensor]) -> Hypervector | dict[str, Hypervector]:
    """Hypervectors from header and tensors, each part of which may be wrong."""
    expressions = header["expressions"]
    wanted = {_ITEM + name for name in expressions}
    if set(tensors) != wanted or not all(isinstance(text, str) for text in expressions.values()):
        raise ValueError(f"the header names {sorted(wanted)}, but the file holds {sorted(tensors)}")
    items = {name: Hypervector(tensors[_ITEM + name], space, expression) for name, expression in expressions.items()}
    return items[_SINGLE] if header["single"] else items


def _checksum(text: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.numpy().data if tensor.numel() else b"")
    return digest.hexdigest()


def _as_stored(x: Tensor) -> Tensor:
    """Complex numbers as pairs of reals, which every reader of safetensors understands."""
    return torch.view_as_real(x.detach().cpu().resolve_conj()).contiguous()


def _describe_space(space: Space) -> dict[str, Any]:
    return {
        "dim": space.dim,
        "m": space.m,
        "rotation": space.rotation if isinstance(space.rotation, str) else {"tensor": _ROTATION},
        "diagonality": space.diagonality,
        "phases": space.phases,
        "seed": space.seed,
        "dtype": str(space.dtype).removeprefix("torch."),
    }


def _rebuild_space(stored: dict[str, Any], tensors: Mapping[str, Tensor]) -> Space:
    settings = dict(stored)
    settings["dtype"] = _DTYPES[settings["dtype"]]
    if isinstance(settings["rotation"], dict):
        settings["rotation"] = torch.view_as_complex(tensors[_ROTATION])
    return Space(**settings)
