"""What a backend of :class:`ghrr.memory.ItemMemory` can do: keep rows by id and find the best, exactly."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor

from ghrr._checks import install_hint
from ghrr.memory.storage import Stored


class Backend(Protocol):
    """Rows of ``width`` real numbers by id. Ids are whole numbers; those added later are larger."""

    width: int
    storage: str
    first_id: int
    """Id for the first item that is added: larger than every id that was in use before the backend was made."""

    def __len__(self) -> int:
        """How many rows there are."""

    def existing(self) -> dict[str, int]:
        """Labels and ids that were there already when the backend was made, in the order of ids."""

    def add(self, ids: Tensor, labels: Sequence[str], stored: Stored) -> None:
        """Put in rows, packed as ``storage`` says."""

    def remove(self, ids: Tensor) -> None:
        """Take out rows; all of these ids are there."""

    def stored(self, ids: Tensor) -> Stored:
        """Rows by ascending id, as they are kept, on the CPU."""

    def search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k best dot products for each query and their ids: highest first, of equal ones the lowest id.

        Shapes
        ------
        queries: ``(q, width)``, real; both outputs: ``(q, k)``; k is at most the number of rows
        """


def import_extra(name: str) -> Any:
    """Import a package that only some backends need."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"ItemMemory: this backend needs {name}: {install_hint('index')}") from error
