"""RecordStore: documents with their hypervectors, which can be added, replaced, removed and counted."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr._checks import describe
from ghrr._locks import Lock
from ghrr.memory import Backend, Bound, ItemMemory
from ghrr.memory.labels import check_labels, repeated
from ghrr.search.calibration import PRIOR, damaged_examples
from ghrr.search.conditions import filter_columns
from ghrr.search.documents import DocumentStore, as_json
from ghrr.search.encoder import RecordEncoder
from ghrr.search.engines import make_engine
from ghrr.search.fields import Field, check_weights
from ghrr.search.paths import columns
from ghrr.space import Space, check_space

Document = Mapping[str, Any]
BATCH = 4096  # documents encoded at a time
SEPARATOR = ":"
RECALL_K = 10
_RECALL_SAMPLE = 100  # records


class RecordStore:
    """Base class of :class:`ghrr.search.RecordIndex`, which adds files and search and documents the parameters."""

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
        self._encoder = RecordEncoder(space, kinds=kinds, whole=whole)
        self._given_weights = dict(weights or {})
        check_weights("RecordIndex", weights, list(self._given_weights))
        self._engine = make_engine(space, storage, backend, uri, approximate=approximate)
        self._memory = ItemMemory(space, backend=self._engine)
        if len(self._memory):
            raise ValueError(
                f"RecordIndex: the engine must be empty, got one with {len(self._memory):,} vectors; use "
                f"RecordIndex.open with the folder of their index, or another uri or collection"
            )
        self._recall: float | None = None
        self._unsaved: set[str] = set()  # labels in the engine that are no records: added, but never saved
        self._documents = DocumentStore()
        self._labels: dict[str, str] = {}  # label in the item memory by id
        self._revision = itertools.count()
        self._calibration: np.ndarray[Any, np.dtype[np.float64]] = PRIOR.copy()
        self._removed: set[str] = set()  # labels in the files that are no longer in the index
        self._lock = Lock()

    # -------------------------------------------------------------------------------------------------------- contents

    def __len__(self) -> int:
        return len(self._labels)

    def __contains__(self, identifier: object) -> bool:
        return identifier in self._labels

    def __getitem__(self, identifier: str) -> Any:
        return self._documents.get([self._label_of("RecordIndex", identifier)])[0]

    def __repr__(self) -> str:
        width = torch.empty(0, dtype=getattr(torch, self._memory.storage)).element_size()
        size = 2 * self.space.total_dim * width
        text = f"{len(self):,} records, {len(self.fields)} fields, {size:,} bytes each"
        if self.is_approximate:
            text += ", approximate: " + (
                "recall not measured" if self._recall is None else f"recall@{RECALL_K} {self._recall:.3f}"
            )
        return f"RecordIndex({text})"

    @property
    def is_approximate(self) -> bool:
        """Whether the engine may miss records, because it was asked to be approximate."""
        return bool(getattr(self._engine, "approximate", False))

    @property
    def recall(self) -> float:
        """Share of the ten best records by vector that the engine finds; 1 for an exact engine.

        It is measured at the first access after a change, on up to 100 examples that are made from stored records:
        fields are dropped and letters are changed. All vectors are read. Noisier examples have a lower recall.
        """
        if not self.is_approximate or not len(self):
            return 1.0
        if self._recall is None:
            labels = list(self._labels.values())
            chosen = labels[:: max(1, len(labels) // _RECALL_SAMPLE)][:_RECALL_SAMPLE]
            examples = damaged_examples(self._documents.get(chosen))
            self._recall = self._memory.recall(self._encoder.encode(examples), RECALL_K)
        return self._recall

    @property
    def space(self) -> Space:
        """Space of the hypervectors."""
        return self._encoder.space

    @property
    def fields(self) -> list[Field]:
        """Fields with their kinds and weights."""
        return list(self._encoder.fields)

    @property
    def ids(self) -> list[str]:
        """Ids of the records, in the order in which they were added or last replaced."""
        return list(self._labels)

    def _label_of(self, operation: str, identifier: str) -> str:
        if identifier not in self._labels:
            raise KeyError(f"{operation}: there is no record {identifier!r} among the {len(self):,} of this index")
        return self._labels[identifier]

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
            Strings, all different and not in the index. By default the numbers from the length of the index on.

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
            self._insert(operation, documents, names, [], vectors)

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
            self._insert(operation, documents, names, [self._label_of(operation, name) for name in names])

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
        with self._lock:
            labels = [self._label_of(operation, name) for name in names]
            self._memory.remove(labels)
            self._recall = None
            self._forget(labels)
            for name in names:
                del self._labels[name]

    def _forget(self, labels: Sequence[str]) -> None:
        self._removed.update(labels)
        self._documents.discard(labels)

    def _new_ids(self, operation: str, documents: Sequence[Document], ids: Iterable[str] | None) -> list[str]:
        if ids is None:
            first = len(self._labels)
            while str(first) in self._labels:
                first += 1
            names = [str(number) for number in range(first, first + len(documents))]
        else:
            names = check_labels(operation, ids)
        if len(names) != len(documents):
            raise ValueError(f"{operation}: needs one id for each document, got {len(names)} for {len(documents)}")
        taken = [name for name in names if name in self._labels] or repeated(names)
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
        replaced: list[str],
        vectors: Tensor | None = None,
    ) -> None:
        """Encode and store documents, or store their ``vectors``, then drop the labels that they replace."""
        if not documents:
            return
        texts = as_json(documents, operation)
        is_first = not self._encoder.fields
        before = list(self._encoder.fields)
        labels = [f"{next(self._revision):x}{SEPARATOR}{name}" for name in names]
        try:
            self._add_vectors(operation, labels, documents, vectors)
        except BaseException:
            self._encoder.fields = before
            raise
        self._recall = None
        self._documents.add(labels, texts)
        if replaced:
            try:
                self._secure_documents(operation)
                self._memory.remove(replaced)
            except BaseException:
                self._unsaved.update(labels)  # their vectors are there, but the old records stay
                self._documents.discard(labels)
                raise
            self._forget(replaced)
        for name in names:
            self._labels.pop(name, None)  # a replaced record moves to the end
        self._labels.update(zip(names, labels, strict=True))
        if is_first:
            self._calibrate()

    def _add_vectors(self, operation: str, labels: list[str], documents: list[Document], given: Tensor | None) -> None:
        """Encode documents, after adding fields for their new paths, and add their vectors, unless they are given."""
        parts = [slice(start, start + BATCH) for start in range(0, len(documents), BATCH)]
        found = [columns(documents[part], operation, first=part.start) for part in parts]
        if given is None and not self._encoder.has_fields(itertools.chain.from_iterable(found)):
            self._set_given_weights(self._encoder.fit(documents))
        vectors = torch.empty(len(documents), *self.space.shape, dtype=self.space.dtype) if given is None else given
        filters: list[dict[str, NDArray[np.float64]]] = []
        for part, one in zip(parts, found, strict=True):
            prepared = self._encoder.prepare_columns(one, len(documents[part]))
            if given is None:
                vectors[part] = self._encoder.encode(prepared)
            if self._memory.can_filter:
                filters.append(filter_columns(self._encoder, prepared))
        merged = {name: np.concatenate([part[name] for part in filters]) for name in filters[0]} if filters else None
        self._memory.add(labels, vectors, columns=merged)

    def _set_given_weights(self, new: Sequence[Field]) -> None:
        for field in new:
            field.weight = float(self._given_weights.get(field.name, field.weight))

    def _secure_documents(self, operation: str) -> None:
        """Make sure that new documents survive a kill, before an engine forgets the vectors of those they replace."""

    def _calibrate(self) -> None:
        """Fit the calibration after the first documents were added."""

    def _nearest(
        self, queries: Tensor, count: int, where: Sequence[Bound] = ()
    ) -> tuple[list[list[str]], list[list[float]]]:
        """Return labels and scores of the records whose vectors are most similar to queries, best first."""
        found, scores = self._memory.cleanup(queries, k=count + len(self._unsaved), where=where)
        rows = scores.double().tolist()
        if self._unsaved:
            kept = [[place for place, label in enumerate(own) if label not in self._unsaved][:count] for own in found]
            found = [[own[place] for place in places] for own, places in zip(found, kept, strict=True)]
            rows = [[row[place] for place in places] for row, places in zip(rows, kept, strict=True)]
        return found, rows


def id_of(label: str) -> str:
    return label.partition(SEPARATOR)[2]


def as_list(operation: str, documents: Sequence[Document]) -> list[Document]:
    if isinstance(documents, Mapping | str | bytes) or not isinstance(documents, Iterable):
        raise TypeError(f"{operation}: needs a list of documents, got {describe(documents)}; put it into a list")
    return list(documents)
