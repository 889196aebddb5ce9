"""Containers whose tensors belong to one space: the header holds the settings of the space."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from ghrr.files.container import prefix_errors, read_tensors, write_tensors
from ghrr.files.filesystem import PathLike
from ghrr.space import Space

_DTYPES = {"complex64": torch.complex64, "complex128": torch.complex128}
_ROTATION = "space.rotation"

T = TypeVar("T")


def write_container(
    path: PathLike, space: Space, header: Mapping[str, Any], tensors: Mapping[str, Tensor], *, kind: str, version: int
) -> None:
    """Write complex tensors of one space and a JSON header to a container, atomically.

    Parameters
    ----------
    path
        File to write.
    space
        Space of the tensors. Its settings become part of the header.
    header
        JSON data.
    tensors
        Complex tensors by name.
    kind, version
        Format of the content; see :func:`read_container`.
    """
    settings, rotation = space_header(space)
    stored = {name: as_real_pairs(tensor) for name, tensor in tensors.items()} | rotation
    write_tensors(path, {"space": settings, **header}, stored, kind=kind, version=version)


def read_container(
    path: PathLike,
    parse: Callable[[Space, dict[str, Any], dict[str, Tensor]], T],
    *,
    kind: str,
    version: int,
) -> T:
    """Read a file of :func:`write_container` and return ``parse(space, header, tensors)``.

    Parameters
    ----------
    path
        File to read.
    parse
        Builds the result. Any error that inconsistent content can cause becomes a ValueError that names the file.
    kind, version
        Expected format of the content, and its latest version that ``parse`` can read.
    """
    header, stored = read_tensors(path, kind=kind, version=version)
    with prefix_errors(path):
        if any(tensor.dtype not in (torch.float32, torch.float64) for tensor in stored.values()):
            raise ValueError("the file holds tensors of a dtype that ghrr does not write")
        space = restore_space(header["space"], stored)
        if isinstance(space.rotation, Tensor):
            del stored[_ROTATION]
        return parse(space, header, {name: torch.view_as_complex(tensor) for name, tensor in stored.items()})


def as_real_pairs(x: Tensor) -> Tensor:
    """Return complex numbers as pairs of reals, because safetensors files have no complex dtypes."""
    return torch.view_as_real(x.detach().cpu().resolve_conj()).contiguous()


def space_header(space: Space) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the settings of a space as JSON, and its rotation as a tensor to store if it is one."""
    rotation = {_ROTATION: as_real_pairs(space.rotation)} if isinstance(space.rotation, Tensor) else {}
    settings = {
        "dim": space.dim,
        "m": space.m,
        "rotation": {"tensor": _ROTATION} if rotation else space.rotation,
        "diagonality": space.diagonality,
        "phases": space.phases,
        "seed": space.seed,
        "dtype": str(space.dtype).removeprefix("torch."),
        "atom_version": space.atom_version,
    }
    return settings, rotation


def restore_space(settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Space:
    """Return the space of :func:`space_header`. ``tensors`` must hold the stored rotation, if there is one."""
    given = dict(settings)
    given.setdefault("atom_version", 1)  # files of ghrr 0.1 have no such entry
    given["dtype"] = _DTYPES[given["dtype"]]
    if isinstance(given["rotation"], dict):
        given["rotation"] = torch.view_as_complex(tensors[_ROTATION])
    return Space(**given)
