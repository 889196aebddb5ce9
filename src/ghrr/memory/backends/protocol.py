"""Backend: the methods that :class:`ghrr.memory.ItemMemory` needs to store rows by id and to search them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Protocol, Self, TypeGuard

import torch
from torch import Tensor

from ghrr.checks import install_hint, named, names_errors, value_error
from ghrr.memory.backends.bounds import Bound, Columns
from ghrr.memory.segment import Segment
from ghrr.memory.storage import Stored


@names_errors
class Backend(Protocol):
    """Store of rows of real numbers by id, with exact search.

    Pass an object with these methods as ``ItemMemory(..., backend=)`` to store items elsewhere. Ids are whole numbers;
    later ids are larger. Rows and queries are real: a hypervector of ``Space(dim, m)`` has a row of ``2 * dim * m * m``
    numbers.

    Attributes
    ----------
    width
        Numbers per row.
    storage
        Number type of the rows, such as ``"float32"``.
    first_id
        Id for the first item that is added. Must be larger than all ids used before.

    Examples
    --------
    A backend that keeps its rows in a dict:

    >>> import ghrr, torch
    >>> from ghrr.memory.storage import Stored
    >>> class DictBackend:
    ...     storage, first_id = "float32", 0
    ...     def __init__(self, width):
    ...         self.width, self.rows = width, {}
    ...     def __len__(self):
    ...         return len(self.rows)
    ...     def existing(self):
    ...         return {}
    ...     def add(self, ids, labels, stored):
    ...         self.rows |= dict(zip(ids.tolist(), stored.numbers))
    ...     def remove(self, ids):
    ...         for number in ids.tolist():
    ...             del self.rows[number]
    ...     def stored(self, ids):
    ...         return Stored(torch.stack([self.rows[number] for number in ids.tolist()]))
    ...     def search(self, queries, k):
    ...         scores = queries.float() @ torch.stack(list(self.rows.values())).mT
    ...         best = scores.sort(dim=1, descending=True, stable=True)
    ...         return best.values[:, :k], torch.tensor(list(self.rows))[best.indices[:, :k]]
    >>> space = ghrr.Space(dim=100, m=2, seed=0)
    >>> memory = ghrr.ItemMemory(space, ["a", "b"], backend=DictBackend(2 * space.total_dim))
    >>> memory.cleanup(space.vectors(["b"])).labels
    [['b']]
    """

    width: int
    storage: str
    first_id: int

    def __len__(self) -> int:
        """Return the number of rows."""

    def existing(self) -> dict[str, int]:
        """Return labels and ids that were stored before the backend object was made, in the order of ids."""

    def add(self, ids: Tensor, labels: Sequence[str], stored: Stored) -> None:
        """Add rows, packed as ``storage``."""

    def remove(self, ids: Tensor) -> None:
        """Remove rows; all of these ids are present."""

    def stored(self, ids: Tensor) -> Stored:
        """Return the rows of ascending ids, on the device of the backend."""

    def search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return the k largest dot products of each query, largest first, and their ids.

        Of equal products the row with the lowest id comes first. Queries may be on any device.

        Shapes
        ------
        queries: ``(q, width)``, real; outputs: ``(q, k)``; k is at most the number of rows
        """


class FilteringBackend(Backend, Protocol):
    """Backend that stores numbers by name with its rows, and can search only rows whose numbers are within bounds.

    Its attribute ``can_filter`` is True.
    """

    can_filter: bool

    def add(self, ids: Tensor, labels: Sequence[str], stored: Stored, columns: Columns | None = None) -> None:
        """Add rows with their columns."""

    def search(self, queries: Tensor, k: int, where: Sequence[Bound] = ()) -> tuple[Tensor, Tensor]:
        """Return the k largest dot products among the rows within bounds; fewer if there are fewer rows."""


def can_filter(backend: Backend) -> TypeGuard[FilteringBackend]:
    """Return whether a backend stores columns and can search within bounds."""
    return bool(getattr(backend, "can_filter", False))


def as_filtering(backend: Backend) -> FilteringBackend:
    """Return a backend that can search within bounds; raise ValueError if it cannot."""
    if not can_filter(backend):
        raise value_error(f"{type(backend).__name__} has no columns to filter by; use Milvus")
    return backend


class SnapshotBackend(Backend, Protocol):
    """Backend whose rows at one moment stay readable while it is changed, and can stay in files.

    Its attribute ``has_snapshots`` is True.
    """

    has_snapshots: bool
    device: torch.device

    @property
    def segments(self) -> list[Segment]:
        """Files that hold rows of this backend."""

    def snapshot(self) -> Self:
        """Return a backend with the same rows. Changes of one do not affect the other; only one may be changed."""

    def use_segments(self, segments: Sequence[Segment], removed: frozenset[int]) -> None:
        """Replace all rows by the rows of files, without removed ids."""


def has_snapshots(backend: Backend) -> TypeGuard[SnapshotBackend]:
    """Return whether the state of a backend at one moment can be kept."""
    return bool(getattr(backend, "has_snapshots", False))


def import_extra(name: str) -> Any:
    """Import a package that only some backends need."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(named(f"this backend needs {name}; {install_hint('index')}")) from error
