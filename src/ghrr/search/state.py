"""State: everything that a search of an index reads. A change makes a new state and publishes it in one assignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ghrr.checks import describe, named, type_error, value_error
from ghrr.memory import Backend, Bound, ItemMemory
from ghrr.memory.labels import LabelTable
from ghrr.search.calibration import PRIOR
from ghrr.search.documents import DocumentStore
from ghrr.search.encoder import RecordEncoder
from ghrr.search.engines import may_miss
from ghrr.search.labels import id_of, label_of, number_of

BATCH = 4096  # documents read or encoded at a time


@dataclass(frozen=True, eq=False)
class State:
    """Records of an index at one moment. It never changes.

    The item memory and the documents are shared by all states. They may have more labels than the state has records:
    labels of other states, of a change that was interrupted, or of a program that was killed. These are leftovers.

    Parameters
    ----------
    encoder
        Fields, weights and aliases that encoded all records.
    engine
        Where the vectors are stored and searched.
    memory, documents
        Vectors and documents by label.
    calibration
        Parameters of probabilities.
    records
        Ids of the records and their numbers, ascending. A record exists if and only if its id is here.
    next_id
        Number from which default ids are chosen.
    recall
        Measured recall of an approximate engine.
    """

    encoder: RecordEncoder
    engine: Backend
    memory: ItemMemory
    documents: DocumentStore
    calibration: NDArray[np.float64]
    records: LabelTable
    next_id: int = 0
    recall: float | None = None

    def __len__(self) -> int:
        return len(self.records)

    @property
    def is_approximate(self) -> bool:
        """Whether the engine may miss records."""
        return may_miss(self.engine)

    @property
    def labels(self) -> list[str]:
        """Labels of the records, in the order of their ids."""
        return list(map(label_of, self.records.ids, self.records.names))

    def label_of(self, identifier: str) -> str:
        """Return the label of an id; raise KeyError if there is no such record."""
        if not isinstance(identifier, str):
            raise type_error(f"an id must be a string, got {describe(identifier)}")
        number = self.records.find(identifier)
        if number is None:
            raise KeyError(named(f"there is no record {identifier!r} among the {len(self):,} of this index"))
        return label_of(number, identifier)

    def has_label(self, label: str) -> bool:
        """Whether a label belongs to a record, and is not a leftover."""
        try:
            return self.records.name_of(number_of(label)) == id_of(label)
        except (KeyError, ValueError):  # ValueError: another program wrote it
            return False

    def nearest(
        self, queries: Tensor, count: int, where: Sequence[Bound] = ()
    ) -> tuple[list[list[str]], list[list[float]]]:
        """Return labels and scores of the records whose vectors are most similar to queries, best first."""
        count = min(count, len(self))
        width = count + min(count, len(self.memory) - len(self))
        while True:
            found, scores = self.memory.cleanup(queries, k=width, where=where)
            kept = [[place for place, label in enumerate(own) if self.has_label(label)][:count] for own in found]
            if all(len(places) == count for places in kept) or scores.shape[-1] < width:
                break
            width *= 4  # too many leftovers are among them
        rows = scores.double().tolist()
        labels = [[own[place] for place in places] for own, places in zip(found, kept, strict=True)]
        return labels, [[row[place] for place in places] for row, places in zip(rows, kept, strict=True)]


def empty_state(encoder: RecordEncoder, engine: Backend) -> State:
    """Return a state without records; raise ValueError if the engine has vectors."""
    memory = ItemMemory(encoder.space, backend=engine)
    if len(memory):
        raise value_error(
            f"the engine must be empty, got one with {len(memory):,} vectors; use RecordIndex.open with the folder of "
            f"their index, or another uri or collection"
        )
    return State(encoder, engine, memory, DocumentStore(), PRIOR.copy(), LabelTable())
