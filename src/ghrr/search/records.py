"""Records: the records of an index, changed one change at a time while others search them."""

from __future__ import annotations

import copy
import itertools
import secrets
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr._locks import Lock
from ghrr._similar import did_you_mean
from ghrr.checks import describe, type_error, value_error, warn
from ghrr.files import parse_json
from ghrr.memory.backends import Columns as Filters
from ghrr.memory.labels import check_labels, repeated
from ghrr.search.calibration import LEAST_RECORDS, PRIOR, damaged_examples, is_fitted
from ghrr.search.documents import as_json
from ghrr.search.encoder import RecordEncoder
from ghrr.search.engine_columns import filter_columns
from ghrr.search.fields import warn_of_doubts
from ghrr.search.index_calibration import calibrate
from ghrr.search.labels import label_of
from ghrr.search.paths import Leaves, as_columns, split
from ghrr.search.state import BATCH, State

Document = Mapping[str, Any]
RECALL_K = 10
_RECALL_SAMPLE = 100  # records
_NUMBER_RANGE = 1 << 40  # of random numbers that labels start from


class Records:
    """Records of an index. A change makes a new state and publishes it in one assignment.

    Parameters
    ----------
    state
        The first state.

    Attributes
    ----------
    state
        The state that calls read from now on.
    lock
        Held while a new state is made.
    numbers
        Numbers of new labels, which no other program has given.
    may_be_saved
        Whether a folder may need vectors that are not in the current state.
    """

    state: State

    def __init__(self, state: State) -> None:
        self.lock = Lock()
        self.may_be_saved = False
        self.numbers = itertools.count(max(state.records.ids, default=-1) + 1 + secrets.randbelow(_NUMBER_RANGE))
        self._states: weakref.WeakSet[State] = weakref.WeakSet()  # the current one and those that searches still read
        self.publish(state)

    def publish(self, state: State) -> None:
        """Make a state the one that later calls read. An interrupt before the last line leaves the old one."""
        self._states.add(state)
        self.state = state

    def add(self, documents: Sequence[Document], ids: Iterable[str] | None, vectors: Tensor | None = None) -> None:
        """Add documents, and encode them unless their vectors are given. If this raises, none is added."""
        documents = as_list(documents)
        with self.lock:
            state = self.state
            names = _new_ids(state, len(documents), ids)
            next_id = int(names[-1]) + 1 if names and ids is None else state.next_id
            self._insert(replace(state, next_id=next_id), documents, names, vectors)

    def update(self, documents: Sequence[Document], ids: Iterable[str]) -> None:
        """Replace the documents of ids. If this raises, none is replaced."""
        documents, names = as_list(documents), check_labels(ids)
        if len(names) != len(documents) or repeated(names):
            raise value_error(
                f"needs one id for each document, all different, got {len(names)} ids for {len(documents)} documents"
            )
        with self.lock:
            for name in names:
                self.state.label_of(name)
            self._insert(self.state, documents, names)

    def remove(self, ids: str | Iterable[str]) -> None:
        """Remove records. If this raises, none is removed."""
        names = check_labels(ids)
        twice = repeated(names)
        if twice:
            raise value_error(f"ids must be all different, got {twice[0]!r} twice; name each record once")
        with self.lock:
            state = self.state
            for name in names:
                state.label_of(name)
            if names:
                records = state.records.removed(names)
                calibration = state.calibration if len(records) >= LEAST_RECORDS else PRIOR.copy()
                self.publish(replace(state, records=records, calibration=calibration, recall=None))
                self._remove_many_leftovers()

    def recall(self) -> float:
        """Return the recall of the engine, and measure it unless that has been done."""
        state = self.state
        if not state.is_approximate or not len(state):
            return 1.0
        if state.recall is not None:
            return state.recall
        chosen = state.labels[:: max(1, len(state) // _RECALL_SAMPLE)][:_RECALL_SAMPLE]
        examples = damaged_examples(state.documents.get(chosen))
        measured = state.memory.recall(state.encoder.encode(examples), RECALL_K)
        with self.lock:
            if self.state is state:
                self.publish(replace(state, recall=measured))
        return measured

    def _insert(self, state: State, documents: list[Document], names: list[str], vectors: Tensor | None = None) -> None:
        """Publish a state with new documents. Records of the same ids are replaced."""
        if not documents:
            return
        texts, parts = as_json(documents), split(documents)
        if vectors is None:
            state = replace(state, encoder=_with_fields(state.encoder, parts))
        new = self._with_records(replace(state, recall=None), names, texts, parts, vectors)
        if not is_fitted(state.calibration) and len(new).bit_length() > len(state).bit_length():  # their number doubled
            new = replace(new, calibration=calibrate(new))
        self.publish(new)
        self._remove_many_leftovers()

    def _with_records(
        self, state: State, names: list[str], texts: list[str], parts: list[Leaves], vectors: Tensor | None = None
    ) -> State:
        """Store new records, and return a state with them. Those of the same ids are replaced and come last."""
        vectors, filters = _encoded(state, parts, vectors)
        numbers = list(itertools.islice(self.numbers, len(names)))
        labels = list(map(label_of, numbers, names))
        state.memory.add(labels, vectors, columns=filters)
        state.documents.add(labels, texts)
        replaced = [name for name in names if state.records.find(name) is not None]
        records = state.records.removed(replaced) if replaced else state.records
        return replace(state, records=records.added(names, numbers))

    def encoded_again(self, state: State) -> State:
        """Return a state whose vectors were made by its encoder; the caller holds the lock."""
        labels, names = state.labels, state.records.names
        for start in range(0, len(labels), BATCH):
            part = slice(start, start + BATCH)
            texts = state.documents.texts(labels[part])
            parts = split([parse_json(text, "document") for text in texts])
            state = self._with_records(state, names[part], texts, parts)
        return state

    # ------------------------------------------------------------------------------------------------------- leftovers

    def _remove_many_leftovers(self) -> None:
        """Remove leftovers if there are more of them than records. A saved index does this when it is saved."""
        state = self.state
        if not self.may_be_saved and len(state.memory) > 2 * len(state) + BATCH:
            self.remove_leftover_vectors()
            state.documents.discard(self._unused(state.documents.new_labels))

    def remove_leftover_vectors(self) -> bool:
        """Remove the vectors of labels that neither the current state nor a running search uses."""
        memory = self.state.memory
        unused = self._unused(memory.labels) if len(memory) > len(self.state) else []
        if unused:
            memory.remove(unused)
        return bool(unused)

    def _unused(self, labels: Iterable[str]) -> list[str]:
        rest = set(labels).difference(self.state.labels)
        return [label for label in rest if not self.is_used(label)]

    def is_used(self, label: str) -> bool:
        """Whether the current state or a running search may read the vector and the document of a label."""
        return any(state.has_label(label) for state in list(self._states))


def as_list(documents: Sequence[Document]) -> list[Document]:
    """Return documents as a list; raise TypeError for a single document."""
    if isinstance(documents, Mapping | str | bytes | Tensor) or not isinstance(documents, Iterable):
        raise type_error(f"needs a list of documents, got {describe(documents)}; put it into a list")
    return list(documents)


def _new_ids(state: State, count: int, ids: Iterable[str] | None) -> list[str]:
    """Return the ids of new documents, which no record has."""
    records = state.records
    if ids is None:
        numbers = map(str, itertools.count(max(state.next_id, len(records))))
        free = (name for name in numbers if records.find(name) is None)
        return list(itertools.islice(free, count))
    names = check_labels(ids)
    if len(names) != count:
        raise value_error(f"needs one id for each document, got {len(names)} for {count}")
    taken = [name for name in names if records.find(name) is not None] or repeated(names)
    if taken:
        raise value_error(
            f"ids must be new and all different, got {taken[0]!r} ({len(taken)} of {len(names)} are "
            f"not); use RecordIndex.update to replace records"
        )
    return names


def _with_fields(encoder: RecordEncoder, parts: Sequence[Leaves]) -> RecordEncoder:
    """Return an encoder that has a field for each path of documents."""
    known = {one.path for one in encoder.fields}
    if all(known.issuperset(leaves) for leaves in parts):
        return encoder
    encoder = copy.copy(encoder)
    warn_of_doubts(encoder.add_fields(parts))
    if not known:
        names = [field.name for field in encoder.fields]
        for name in encoder.unknown_names():
            warn(
                f"no document has the field {name!r}, which kinds or weights name; the setting waits for later "
                f"documents{did_you_mean(name, names)}"
            )
    return encoder


def _encoded(state: State, parts: Sequence[Leaves], given: Tensor | None = None) -> tuple[Tensor, Filters | None]:
    """Return the vectors of documents, unless they are given, and numbers that the engine can filter by."""
    encoder, can_filter = state.encoder, state.memory.can_filter
    vectors = torch.empty(len(parts), *encoder.space.shape, dtype=encoder.space.dtype) if given is None else given
    filters: list[dict[str, NDArray[np.float64]]] = []
    for start in range(0, len(parts) if given is None or can_filter else 0, BATCH):
        part = parts[start : start + BATCH]
        found = as_columns(part)
        prepared = encoder.prepare_columns(found, len(part))
        if given is None:
            vectors[start : start + BATCH] = encoder.encode(prepared)
        if can_filter:
            filters.append(filter_columns(encoder, prepared, found))
    merged = {name: np.concatenate([part[name] for part in filters]) for name in filters[0]} if filters else None
    return vectors, merged
