"""RecordStore: documents with their hypervectors, which can be added, replaced, removed and counted."""

from __future__ import annotations

import copy
import itertools
import secrets
import warnings
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr._locks import Lock
from ghrr._old_checks import check_flag, describe
from ghrr._old_files import Space, check_space
from ghrr._similar import did_you_mean
from ghrr.memory import Backend, ItemMemory
from ghrr.memory.backends import Columns as Filters
from ghrr.memory.labels import LabelTable, check_labels, repeated
from ghrr.search.calibration import LEAST_RECORDS, PRIOR, damaged_examples, is_fitted
from ghrr.search.documents import DocumentStore, as_json
from ghrr.search.encoder import RecordEncoder
from ghrr.search.engine_columns import filter_columns
from ghrr.search.engines import make_engine, may_miss
from ghrr.search.fields import Field, warn_of_doubts
from ghrr.search.index_calibration import calibrate
from ghrr.search.labels import label_of
from ghrr.search.paths import Column, Path, columns
from ghrr.search.state import BATCH, State

Document = Mapping[str, Any]
Columns = dict[Path, Column]
RECALL_K = 10
_RECALL_SAMPLE = 100  # records
_NUMBER_RANGE = 1 << 40  # of random numbers that labels start from


class RecordStore:
    """Base class of :class:`ghrr.search.RecordIndex`, which adds files and search and documents the parameters."""

    _state: State

    def __init__(
        self,
        space: Space | None = None,
        *,
        kinds: Mapping[str, str] | None = None,
        weights: Mapping[str, float] | None = None,
        whole: bool = True,
        storage: str | None = None,
        backend: str | Backend = "torch",
        uri: str | None = None,
        approximate: bool = False,
    ) -> None:
        space = Space(dim=256, m=2, seed=0) if space is None else check_space("RecordIndex", space)
        check_flag("RecordIndex", "whole", whole)
        check_flag("RecordIndex", "approximate", approximate)
        encoder = RecordEncoder(space, kinds=kinds, weights=weights, whole=whole)
        self._engine = make_engine(space, storage, backend, uri, approximate=approximate)
        memory = ItemMemory(space, backend=self._engine)
        if len(memory):
            raise ValueError(
                f"RecordIndex: the engine must be empty, got one with {len(memory):,} vectors; use "
                f"RecordIndex.open with the folder of their index, or another uri or collection"
            )
        self._lock = Lock()  # held while a new state is built
        self._states: weakref.WeakSet[State] = weakref.WeakSet()  # the current one and those that searches still read
        is_approximate = may_miss(self._engine)
        self._start(State(encoder, memory, DocumentStore(), PRIOR.copy(), LabelTable(), is_approximate=is_approximate))

    def _start(self, state: State) -> None:
        """Use a first state, and numbers for new labels that no other program has given."""
        first = max(state.records.ids, default=-1) + 1 + secrets.randbelow(_NUMBER_RANGE)
        self._numbers = itertools.count(first)
        self._publish(state)

    def _publish(self, state: State) -> None:
        """Make a state the one that later calls read. An interrupt before the last line leaves the old one."""
        self._states.add(state)
        self._state = state

    # -------------------------------------------------------------------------------------------------------- contents

    def __len__(self) -> int:
        return len(self._state)

    def __contains__(self, identifier: object) -> bool:
        return self._state.records.find(identifier) is not None

    def __getitem__(self, identifier: str) -> Any:
        state = self._state
        return state.documents.get([state.label_of("RecordIndex", identifier)])[0]

    def __repr__(self) -> str:
        state = self._state
        width = torch.empty(0, dtype=getattr(torch, state.memory.storage)).element_size()
        size = 2 * self.space.total_dim * width
        text = f"{len(state):,} records, {len(state.encoder.fields)} fields, {size:,} bytes each"
        if self.is_approximate:
            text += ", approximate: " + (
                "recall not measured" if state.recall is None else f"recall@{RECALL_K} {state.recall:.3f}"
            )
        return f"RecordIndex({text})"

    @property
    def is_approximate(self) -> bool:
        """Whether the engine may miss records, because it was asked to be approximate."""
        return self._state.is_approximate

    @property
    def recall(self) -> float:
        """Share of the ten best records by vector that the engine finds; 1 for an exact engine.

        It is measured at the first access after a change, on up to 100 examples that are made from stored records:
        fields are dropped and letters are changed. All vectors are read. Noisier examples have a lower recall.
        """
        state = self._state
        if not self.is_approximate or not len(state):
            return 1.0
        if state.recall is not None:
            return state.recall
        chosen = state.labels[:: max(1, len(state) // _RECALL_SAMPLE)][:_RECALL_SAMPLE]
        examples = damaged_examples(state.documents.get(chosen))
        measured = state.memory.recall(state.encoder.encode(examples), RECALL_K)
        with self._lock:
            if self._state is state:
                self._publish(replace(state, recall=measured))
        return measured

    @property
    def space(self) -> Space:
        """Space of the hypervectors."""
        return self._state.encoder.space

    @property
    def fields(self) -> list[Field]:
        """Fields with their kinds and weights."""
        return list(self._state.encoder.fields)

    @property
    def ids(self) -> list[str]:
        """Ids of the records, in the order in which they were added or last replaced."""
        return self._state.records.names

    # --------------------------------------------------------------------------------------------------------- changes

    def add(self, documents: Sequence[Document], ids: Iterable[str] | None = None) -> None:
        """Add documents. If this raises, none is added.

        The first call infers the fields and their statistics, so give it a sample that is large enough. Later calls
        add fields for paths that are new.

        Parameters
        ----------
        documents
            Dicts as from JSON, nested to any depth. None, NaN and empty strings count as missing.
        ids
            Strings, all different and not in the index. By default the numbers from the length of the index on that
            no record has; a number is not chosen twice.

        Examples
        --------
        >>> import ghrr
        >>> index = ghrr.search.RecordIndex()
        >>> index.add([{"name": "Ada"}, {"name": "Alan"}])
        >>> index.ids
        ['0', '1']
        """
        operation = "RecordIndex.add"
        documents = as_list(operation, documents)
        self._add(operation, documents, ids)

    def _add(
        self, operation: str, documents: list[Document], ids: Iterable[str] | None, vectors: Tensor | None = None
    ) -> None:
        with self._lock:
            names = self._new_ids(operation, documents, ids)
            next_id = int(names[-1]) + 1 if names and ids is None else self._state.next_id
            self._insert(operation, documents, names, vectors, next_id=next_id)

    def update(self, documents: Sequence[Document], ids: Iterable[str]) -> None:
        """Replace the documents of ids. If this raises, none is replaced.

        Examples
        --------
        >>> import ghrr
        >>> index = ghrr.search.RecordIndex()
        >>> index.add([{"name": "Ada"}], ids=["a"])
        >>> index.update([{"name": "Ada Lovelace"}], ids=["a"])
        >>> index["a"]
        {'name': 'Ada Lovelace'}
        """
        operation = "RecordIndex.update"
        documents = as_list(operation, documents)
        names = check_labels(operation, ids)
        if len(names) != len(documents) or repeated(names):
            raise ValueError(
                f"{operation}: needs one id for each document, all different, got {len(names)} ids for "
                f"{len(documents)} documents"
            )
        with self._lock:
            for name in names:
                self._state.label_of(operation, name)
            self._insert(operation, documents, names)

    def remove(self, ids: str | Iterable[str]) -> None:
        """Remove records. If this raises, none is removed.

        Examples
        --------
        >>> import ghrr
        >>> index = ghrr.search.RecordIndex()
        >>> index.add([{"name": "Ada"}, {"name": "Alan"}], ids=["ada", "alan"])
        >>> index.remove("ada")
        >>> index.ids
        ['alan']
        """
        operation = "RecordIndex.remove"
        names = check_labels(operation, ids)
        twice = repeated(names)
        if twice:
            raise ValueError(f"{operation}: ids must be all different, got {twice[0]!r} twice; name each record once")
        with self._lock:
            state = self._state
            for name in names:
                state.label_of(operation, name)
            if names:
                records = state.records.removed(names)
                calibration = state.calibration if len(records) >= LEAST_RECORDS else PRIOR.copy()
                self._publish(replace(state, records=records, calibration=calibration, recall=None))
                self._remove_many_leftovers()

    def _new_ids(self, operation: str, documents: Sequence[Document], ids: Iterable[str] | None) -> list[str]:
        records = self._state.records
        if ids is None:
            numbers = map(str, itertools.count(max(self._state.next_id, len(records))))
            free = (name for name in numbers if records.find(name) is None)
            return list(itertools.islice(free, len(documents)))
        names = check_labels(operation, ids)
        if len(names) != len(documents):
            raise ValueError(f"{operation}: needs one id for each document, got {len(names)} for {len(documents)}")
        taken = [name for name in names if records.find(name) is not None] or repeated(names)
        if taken:
            raise ValueError(
                f"{operation}: ids must be new and all different, got {taken[0]!r} ({len(taken)} of {len(names)} are "
                f"not); use RecordIndex.update to replace records"
            )
        return names

    def _insert(
        self,
        operation: str,
        documents: list[Document],
        names: list[str],
        vectors: Tensor | None = None,
        *,
        next_id: int | None = None,
    ) -> None:
        """Encode and store documents, or store their ``vectors``. Records of the same ids are replaced."""
        if not documents:
            return
        state = self._state
        texts = as_json(documents, operation)
        parts = as_columns(operation, documents)
        encoder = (
            state.encoder if vectors is not None else self._with_fields(operation, state.encoder, documents, parts)
        )
        new = replace(state, encoder=encoder, recall=None, next_id=state.next_id if next_id is None else next_id)
        new = self._with_records(new, names, texts, *self._vectors(new, documents, parts, vectors))
        if not is_fitted(state.calibration) and len(new).bit_length() > len(state).bit_length():  # their number doubled
            new = replace(new, calibration=calibrate(new))
        self._publish(new)
        self._remove_many_leftovers()

    def _with_records(
        self, state: State, names: list[str], texts: list[str], vectors: Tensor, filters: Filters | None
    ) -> State:
        """Store new records, and return a state with them. Those of the same ids are replaced and come last."""
        numbers = list(itertools.islice(self._numbers, len(names)))
        labels = list(map(label_of, numbers, names))
        state.memory.add(labels, vectors, columns=filters)
        state.documents.add(labels, texts)
        replaced = [name for name in names if state.records.find(name) is not None]
        records = state.records.removed(replaced) if replaced else state.records
        return replace(state, records=records.added(names, numbers))

    def _with_fields(
        self, operation: str, encoder: RecordEncoder, documents: list[Document], parts: list[Columns]
    ) -> RecordEncoder:
        """Return an encoder that has a field for each path of the documents."""
        if encoder.has_fields(itertools.chain.from_iterable(parts)):
            return encoder
        is_first = not encoder.fields
        encoder = copy.copy(encoder)
        warn_of_doubts(operation, encoder.fit(documents, parts))
        if is_first:
            _warn_of_unknown_names(operation, encoder)
        return encoder

    def _vectors(
        self, state: State, documents: list[Document], parts: list[Columns], given: Tensor | None = None
    ) -> tuple[Tensor, Filters | None]:
        """Return the vectors of documents, unless they are given, and numbers that the engine can filter by."""
        encoder = state.encoder
        vectors = (
            torch.empty(len(documents), *encoder.space.shape, dtype=encoder.space.dtype) if given is None else given
        )
        filters: list[dict[str, NDArray[np.float64]]] = []
        for start, found in zip(range(0, len(documents), BATCH), parts, strict=True):
            part = slice(start, min(start + BATCH, len(documents)))
            prepared = encoder.prepare_columns(found, part.stop - start)
            if given is None:
                vectors[part] = encoder.encode(prepared)
            if state.memory.can_filter:
                filters.append(filter_columns(encoder, prepared, found))
        merged = {name: np.concatenate([part[name] for part in filters]) for name in filters[0]} if filters else None
        return vectors, merged

    # ------------------------------------------------------------------------------------------------------- leftovers

    def _remove_many_leftovers(self) -> None:
        """Remove leftovers if there are more of them than records. A saved index does this when it is saved."""
        state = self._state
        if not self._may_be_in_a_folder and len(state.memory) > 2 * len(state) + BATCH:
            self._remove_leftover_vectors()
            labels = state.documents.new_labels
            state.documents.discard(self._unused(labels))

    @property
    def _may_be_in_a_folder(self) -> bool:
        """Whether a folder may need vectors that are not in the current state."""
        return False

    def _remove_leftover_vectors(self) -> bool:
        """Remove the vectors of labels that neither the current state nor a running search uses."""
        memory = self._state.memory
        unused = self._unused(memory.labels) if len(memory) > len(self._state) else []
        if unused:
            memory.remove(unused)
        return bool(unused)

    def _unused(self, labels: Iterable[str]) -> list[str]:
        rest = set(labels).difference(self._state.labels)
        return [label for label in rest if not self._is_used(label)]

    def _is_used(self, label: str) -> bool:
        return any(state.has_label(label) for state in list(self._states))


def as_list(operation: str, documents: Sequence[Document]) -> list[Document]:
    if isinstance(documents, Mapping | str | bytes | Tensor) or not isinstance(documents, Iterable):
        raise TypeError(f"{operation}: needs a list of documents, got {describe(documents)}; put it into a list")
    return list(documents)


def _warn_of_unknown_names(operation: str, encoder: RecordEncoder) -> None:
    names = [field.name for field in encoder.fields]
    for name in encoder.unknown_names():
        warnings.warn(
            f"{operation}: no document has the field {name!r}, which kinds or weights name; the setting waits for "
            f"later documents{did_you_mean(name, names)}",
            stacklevel=6,
        )


def as_columns(operation: str, documents: Sequence[Document]) -> list[Columns]:
    """Return the columns of each batch of documents."""
    starts = range(0, len(documents), BATCH)
    return [columns(documents[start : start + BATCH], operation, first=start) for start in starts]
