"""Items: the labels and rows of a memory, changed one change at a time while others read them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor

from ghrr._locks import Lock
from ghrr.checks import value_error
from ghrr.memory.backends import Backend, Columns, as_filtering, has_snapshots
from ghrr.memory.labels import LabelTable, repeated
from ghrr.memory.state import CommitPoint, State
from ghrr.memory.storage import Stored
from ghrr.space import Space


class Items:
    """Labels and rows. A change makes a new state and publishes it in one assignment.

    Parameters
    ----------
    space
        Space of the rows.
    backend
        Stores the rows. The labels that it has already are items.

    Attributes
    ----------
    state
        Current labels, rows and commit.
    lock
        Held while a new state is made.
    last_attempt
        The last commit that was begun.
    """

    def __init__(self, space: Space, backend: Backend) -> None:
        existing = backend.existing()
        next_id = max(max(existing.values(), default=-1) + 1, backend.first_id)
        self.lock = Lock()
        self.state = State(space, LabelTable(existing, existing.values()), backend, next_id)
        self.last_attempt = CommitPoint()

    def __getstate__(self) -> dict[str, Any]:
        with self.reading() as state:
            backend = state.backend if has_snapshots(state.backend) else copy.deepcopy(state.backend)
            return vars(self) | {"state": state._replace(backend=backend)}

    @contextmanager
    def reading(self) -> Iterator[State]:
        """Return a state that does not change inside a ``with`` block."""
        if has_snapshots(self.state.backend):
            yield self.state
        else:
            with self.lock:
                yield self.state

    def add(self, names: Sequence[str], stored: Stored, columns: Columns) -> None:
        """Add rows with new labels. If this raises, none is added."""
        with self.lock:
            labels, first = self.state.labels, self.state.next_id
            rejected = [name for name in names if labels.find(name) is not None] or repeated(names)
            if rejected:
                raise value_error(
                    f"labels must be new and all different, got {rejected[0]!r} ({len(rejected)} of "
                    f"{len(names)} are not); remove the old item first, or use another label"
                )
            if names:
                self.append(names, stored, torch.arange(first, first + len(names)), columns)

    def append(self, names: Sequence[str], stored: Stored, ids: Tensor, columns: Columns) -> None:
        """Add rows with new labels and ids, which are not checked; the caller holds the lock, or no other has these."""
        numbers = ids.tolist()
        before = self.state._replace(next_id=numbers[-1] + 1)
        self.state = before  # even if adding fails: the backend may have used the ids
        backend = before.backend_to_change()
        after = before._replace(labels=before.labels.added(names, numbers), backend=backend)
        try:
            if columns:
                as_filtering(backend).add(ids, names, stored, columns)
            else:
                backend.add(ids, names, stored)
            self.state = after
        except BaseException:
            if backend is before.backend and len(backend) > len(before.labels):
                with suppress(ConnectionError, RuntimeError):  # the first error is more informative
                    backend.remove(ids)
            raise

    def remove(self, names: Sequence[str]) -> None:
        """Remove rows by label. If this raises, none is removed."""
        with self.lock:
            before = self.state
            ids = before.ids_of(names)
            if repeated(names):
                raise value_error(f"labels must be different, got {repeated(names)[0]!r} twice")
            if not names:
                return
            backend = before.backend_to_change()
            after = before._replace(labels=before.labels.removed(names), backend=backend)
            try:
                backend.remove(ids.sort().values)
                self.state = after
            except BaseException:
                if backend is before.backend and len(backend) == len(after.labels):
                    self.state = after  # the error came after the items were removed
                raise
