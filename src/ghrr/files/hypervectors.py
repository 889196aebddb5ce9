"""Save and load hypervectors together with their space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ghrr.checks import describe, names_errors, type_error, value_error
from ghrr.files.filesystem import PathLike
from ghrr.files.spaces import read_container, write_container
from ghrr.hypervector import Hypervector
from ghrr.space import Space

FORMAT = "ghrr-hypervectors"
VERSION = 2
_ITEM = "item."
_SINGLE = "x"


@names_errors("save(path, x)")
def save(path: PathLike, x: Hypervector | Mapping[str, Hypervector]) -> None:
    """Write a hypervector, or several by name, and their space to one safetensors file.

    The file is written completely or not at all. Gradients are not saved.

    Parameters
    ----------
    path
        File to write, usually ``*.safetensors``.
    x
        A :class:`Hypervector` or a mapping of names to hypervectors of one space. Use ``space.wrap(tensor)`` to make
        a Hypervector from a tensor.

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
        raise type_error(f"x must be a Hypervector or a mapping of names to them, got {describe(x)}")
    items = {_SINGLE: x} if isinstance(x, Hypervector) else dict(x)
    spaces = _spaces_of(items)
    if len(spaces) != 1:
        listed = ", ".join(map(repr, spaces)) or "no hypervectors"
        raise value_error(f"all hypervectors of a file must be of one space, got {listed}")
    header = {
        "single": isinstance(x, Hypervector),
        "expressions": {name: item.expression for name, item in items.items()},
    }
    tensors = {_ITEM + name: item.tensor for name, item in items.items()}
    write_container(path, spaces[0], header, tensors, kind=FORMAT, version=VERSION)


@names_errors
def load(path: PathLike) -> Hypervector | dict[str, Hypervector]:
    """Read a file that :func:`save` wrote: a hypervector, or a dict of them. They are on the CPU.

    Raises
    ------
    OSError
        There is no such file, or it is a folder, a FIFO or a device.
    ValueError
        The file is not from :func:`save`, or it was truncated or changed.

    Examples
    --------
    >>> import ghrr, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.safetensors"
    >>> ghrr.save(path, ghrr.Space(dim=100, m=2, seed=0).atoms("a")[0])
    >>> ghrr.load(path)
    Hypervector(a, dim=100, m=2, complex64)
    """
    return read_container(path, _parse, kind=FORMAT, version=VERSION)


def _spaces_of(items: Mapping[str, Hypervector]) -> list[Space]:
    spaces: list[Space] = []
    for name, item in items.items():
        if not isinstance(name, str) or not name.isprintable() or not isinstance(item, Hypervector):
            raise type_error(
                f"x must be a Hypervector or map printable names to Hypervectors, but x[{name!r}] is a "
                f"{type(item).__name__}; space.wrap(tensor) makes a Hypervector"
            )
        if item.space not in spaces:
            spaces.append(item.space)
    return spaces


def _parse(space: Space, header: dict[str, Any], tensors: dict[str, Tensor]) -> Hypervector | dict[str, Hypervector]:
    """Build hypervectors from header and tensors, each of which may be wrong."""
    expressions = header["expressions"]
    expected = {_ITEM + name for name in expressions}
    if set(tensors) != expected or not all(isinstance(text, str) for text in expressions.values()):
        raise ValueError(f"the header names {sorted(expected)}, but the file holds {sorted(tensors)}")
    items = {name: Hypervector(tensors[_ITEM + name], space, expression) for name, expression in expressions.items()}
    return items[_SINGLE] if header["single"] else items
