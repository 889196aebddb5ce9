"""Hypervectors on disk: safetensors with the space inside, written atomically, checked when read. Never pickle."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ghrr._checks import describe
from ghrr.hypervector import Hypervector
from ghrr.space import Space

FORMAT = "ghrr-hypervectors"
VERSION = 1
_DTYPES = {"complex64": torch.complex64, "complex128": torch.complex128}
_ROTATION = "space.rotation"
_ITEM = "item."
_SINGLE = "x"

T = TypeVar("T")


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside ``path`` to write to; on success it takes the place of ``path`` in one step.

    When anything goes wrong, a keyboard interrupt included, the temporary file goes and the old one stays as it was.
    """
    target = Path(os.path.realpath(path))  # a link stays a link: what it points to is replaced
    if target.is_dir():
        raise IsADirectoryError(f"cannot write to {str(path)!r}: it is a folder; name a file in it")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        temporary.touch(exist_ok=False)  # where nothing can be written, this says so first
        mode = (target if target.exists() else temporary).stat().st_mode
        yield temporary
        temporary.chmod(mode)  # as before, or as a new file has it: some writers close theirs to others
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


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
    with atomic_write(path) as temporary:
        try:
            save_file(stored, temporary, metadata={"ghrr": text, "sha256": _checksum(text, stored)})
        except SafetensorError as error:
            raise OSError(f"{operation}({str(path)!r}): {error}") from error


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
    FileNotFoundError
        There is no such file.
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
    if not Path(path).exists():
        raise FileNotFoundError(f"{operation}({str(path)!r}): no such file")
    try:
        text, tensors, checksum = _read(path)
        header = json.loads(text)
        if not isinstance(header, dict) or header.get("format") != kind:
            found = header.get("format") if isinstance(header, dict) else None
            raise ValueError(f"a safetensors file of another kind, got format {found!r}, expected {kind!r}")
        if header.get("version") != version:
            raise ValueError(
                f"format version {header.get('version')!r}, this ghrr reads {version}; use the version that wrote it"
            )
        if _checksum(text, tensors) != checksum:
            raise ValueError("the content does not match its checksum: the file was damaged or changed")
        space = _rebuild_space(header["space"], tensors)
        if isinstance(space.rotation, Tensor):
            del tensors[_ROTATION]
        return parse(space, header, {name: torch.view_as_complex(tensor) for name, tensor in tensors.items()})
    except _UNREADABLE as error:
        reason = str(error) if isinstance(error, ValueError) else f"inconsistent content ({error!r})"
        raise ValueError(f"{operation}({str(path)!r}): {reason:.500}") from error


# What reading a file can raise that is damaged, or was made to do harm.
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RuntimeError, RecursionError, OverflowError)


def _read(path: str | os.PathLike[str]) -> tuple[str, dict[str, Tensor], str]:
    """Header, tensors and checksum of a file that says it is ours."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if "ghrr" not in metadata:
                raise ValueError("a safetensors file, but not one that ghrr wrote")
            # Cloned: the mapped file may change under the tensors, and does not align them for complex arithmetic.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        raise ValueError(
            f"not a readable safetensors file; it was cut short or is of another kind ({error})"
        ) from error
    if any(tensor.dtype not in (torch.float32, torch.float64) for tensor in tensors.values()):
        raise ValueError("holds tensors of a kind that ghrr does not write")
    return metadata["ghrr"], tensors, metadata.get("sha256", "")


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
