"""RecordIndex: search, match and de-duplicate nested records."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr._checks import check_integer, check_real, describe
from ghrr._locks import Lock
from ghrr.files import PathLike, lock_folder
from ghrr.memory import Backend, ItemMemory
from ghrr.memory.labels import check_labels, repeated
from ghrr.memory.match import CONFIDENCE
from ghrr.search.calibration import PRIOR, damaged_examples, fit_coefficients, probability
from ghrr.search.documents import DocumentStore, as_json
from ghrr.search.duplicates import Cluster, connect, valley
from ghrr.search.encoder import Prepared, RecordEncoder, combine
from ghrr.search.fields import Field, check_weights
from ghrr.search.match import RecordMatch
from ghrr.search.saving import NAME as FIELDS_NAME
from ghrr.search.saving import read_encoder, write_encoder
from ghrr.search.weights import fit_weights
from ghrr.space import Space, check_space

Document = Mapping[str, Any]
Floats = NDArray[np.float64]
_VECTORS = "vectors"  # the folder of the item memory
_BATCH = 4096  # documents encoded at a time
_CANDIDATES = 50  # records whose documents are compared exactly
_AGREE = 0.5  # from this score on a field agrees, for must and must_not
_SEPARATOR = ":"
_CALIBRATION = 100  # examples
_EXAMPLES = 64  # examples whose candidates are compared at a time


class Explanation(NamedTuple):
    """Comparison of an example with a record: its score, and the score and the weight of each field.

    Fields that one of the two lacks have the score None. Weights are shares of the fields that the example has.
    """

    score: float
    fields: dict[str, float | None]
    weights: dict[str, float]


class _Found(NamedTuple):
    """Candidates of one example, best first."""

    labels: list[str]
    scores: Floats
    fields: Floats
    documents: list[Any]


class RecordIndex:
    r"""Find records that are similar to an example, in any set of JSON-like documents.

    Each document becomes one hypervector: the value of each field, encoded by its type, is bound to its path, and all
    fields are bundled with weights. A search compares the hypervector of the example with all records, and then
    compares the documents of the best ``candidates`` exactly, field by field. Fields, their kinds and their weights
    are found in the data of the first :meth:`add`; see :attr:`fields`.

    Missing fields are neutral: they count neither for nor against a record, except that of two records that agree
    equally the more complete one comes first.

    Parameters
    ----------
    space
        Space of the hypervectors. By default ``Space(dim=256, m=2, seed=0)``: 2,048 bytes per record in int8.
    kinds
        Kinds of fields by name, where the inferred ones do not fit: ``{"zip": "text", "notes": "ignore"}``.
    weights
        Weights of fields by name, instead of the inferred ones.
    whole
        Whether the text of all fields is a field of its own, named ``"*"``. It finds values in another field.
    storage
        Number type of the vectors: ``"int8"`` takes one byte per number. faiss, Milvus and LanceDB use float32.
    backend, uri
        Where vectors are stored and searched, as in :class:`ghrr.ItemMemory`; ``"lancedb"`` too. All are exact.

    Examples
    --------
    >>> import ghrr
    >>> index = ghrr.search.RecordIndex()
    >>> index.add(
    ...     [
    ...         {"name": "Ada Lovelace", "born": {"year": 1815, "city": "London"}},
    ...         {"name": "Alan Turing", "born": {"year": 1912, "city": "London"}},
    ...         {"name": "Grace Hopper", "born": {"year": 1906, "city": "New York"}},
    ...     ],
    ...     ids=["ada", "alan", "grace"],
    ... )
    >>> index
    RecordIndex(3 records, 4 fields, 2,048 bytes each)
    >>> [hit.guess for hit in index.search({"born": {"city": "london", "year": 1910}}, k=2)]
    ['alan', 'ada']
    """

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
    ) -> None:
        space = Space(dim=256, m=2, seed=0) if space is None else check_space("RecordIndex", space)
        self._encoder = RecordEncoder(space, kinds=kinds, whole=whole)
        self._given_weights = dict(weights or {})
        check_weights("RecordIndex", weights, list(self._given_weights))
        self._memory = ItemMemory(space, **_memory_settings(space, storage, backend, uri))
        self._documents = DocumentStore()
        self._labels: dict[str, str] = {}  # label in the item memory by id
        self._revision = itertools.count()
        self._calibration = PRIOR.copy()
        self._folder: Path | None = None
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
        return f"RecordIndex({len(self):,} records, {len(self.fields)} fields, {size:,} bytes each)"

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
        """Ids of the records, in the order in which they were added."""
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
        documents = _as_list(operation, documents)
        with self._lock:
            names = self._new_ids(operation, documents, ids)
            self._insert(operation, documents, names, [])

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
        documents = _as_list(operation, documents)
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

    def _insert(self, operation: str, documents: list[Document], names: list[str], replaced: list[str]) -> None:
        """Encode and store documents, then drop the labels that they replace."""
        if not documents:
            return
        texts = as_json(documents, operation)
        is_first = not self._encoder.fields
        before = list(self._encoder.fields)
        labels = [f"{next(self._revision):x}{_SEPARATOR}{name}" for name in names]
        try:
            self._set_given_weights(self._encoder.fit(documents))
            vectors = [
                self._encoder.encode(self._encoder.prepare(documents[start : start + _BATCH], operation))
                for start in range(0, len(documents), _BATCH)
            ]
            self._memory.add(labels, torch.cat(vectors))
        except BaseException:
            self._encoder.fields = before
            raise
        if replaced:
            self._memory.remove(replaced)
            self._forget(replaced)
        self._documents.add(labels, texts)
        self._labels.update(zip(names, labels, strict=True))
        if is_first:
            self._calibrate()

    def _set_given_weights(self, new: Sequence[Field]) -> None:
        for field in new:
            field.weight = float(self._given_weights.get(field.name, field.weight))

    # ---------------------------------------------------------------------------------------------------------- search

    def search(
        self,
        example: Document,
        k: int = 10,
        *,
        threshold: float = 0.0,
        must: Document | None = None,
        must_not: Document | None = None,
        weights: Mapping[str, float] | None = None,
        candidates: int = _CANDIDATES,
        confidence: float = CONFIDENCE,
    ) -> list[RecordMatch]:
        """Return the records that are most similar to an example, best first.

        Parameters
        ----------
        example
            Any part of a document. Values need not be exact; :class:`ghrr.search.Range` stands for an interval.
        k
            Number of records.
        threshold
            Least score.
        must, must_not
            Parts of documents. All fields of ``must`` have to agree with a score of at least 0.5, and no field of
            ``must_not`` may. Both are checked on the documents.
        weights
            Factors of the weights of fields by name; 0 leaves a field out.
        candidates
            Number of records whose documents are compared exactly. 0 ranks by the vectors alone; then must and
            must_not are not possible, and hits have no scores of fields.
        confidence
            Probability from which a hit is ``confident``.

        Examples
        --------
        >>> import ghrr
        >>> index = ghrr.search.RecordIndex()
        >>> index.add([{"name": "lamp", "price": p, "brand": b} for p, b in [(20, "Arc"), (45, "Arc"), (50, "Bow")]])
        >>> [hit.guess for hit in index.search({"price": ghrr.search.Range(40, 60)}, k=3, must={"brand": "arc"})]
        ['1', '0']
        """
        found = self.search_many(
            [example],
            k,
            threshold=threshold,
            must=must,
            must_not=must_not,
            weights=weights,
            candidates=candidates,
            confidence=confidence,
        )
        return found[0]

    def search_many(
        self,
        examples: Sequence[Document],
        k: int = 10,
        *,
        threshold: float = 0.0,
        must: Document | None = None,
        must_not: Document | None = None,
        weights: Mapping[str, float] | None = None,
        candidates: int = _CANDIDATES,
        confidence: float = CONFIDENCE,
    ) -> list[list[RecordMatch]]:
        """Search for several examples at once, which is faster; parameters as in :meth:`search`.

        Examples
        --------
        >>> import ghrr
        >>> index = ghrr.search.RecordIndex()
        >>> index.add([{"name": "Ada"}, {"name": "Alan"}])
        >>> [hits[0].guess for hits in index.search_many([{"name": "alan"}, {"name": "ada"}], k=1)]
        ['1', '0']
        """
        operation = "RecordIndex.search"
        examples = _as_list(operation, examples)
        k = check_integer(operation, "k", k, least=1)
        candidates = check_integer(operation, "candidates", candidates, least=0)
        threshold = check_real(operation, "threshold", threshold, low=0.0, high=1.0)
        factors = check_weights(operation, weights, [field.name for field in self.fields])
        if not candidates and (must or must_not):
            raise ValueError(f"{operation}: must and must_not compare documents, got candidates=0; leave it out")
        if not len(self) or not examples:
            return [[] for _ in examples]
        prepared = self._encoder.prepare(examples, operation)
        empty = np.flatnonzero(~(prepared.rows >= 0).any(axis=0))
        if len(empty):
            raise ValueError(
                f"{operation}: example {empty[0]} has no value in a field of this index, got "
                f"{describe(examples[empty[0]])}; the fields are {', '.join(field.name for field in self.fields)}"
            )
        conditions = [
            (self._encoder.prepare([part], operation), wanted)
            for part, wanted in ((must, True), (must_not, False))
            if part
        ]
        queries = self._encoder.encode(prepared, factors=factors)
        if not candidates:
            return self._vector_hits(queries, k, threshold, confidence)
        results = []
        for start in range(0, len(examples), _EXAMPLES):
            rows = np.arange(start, min(start + _EXAMPLES, len(examples)))
            found = self._candidates(
                prepared,
                rows,
                queries[start : start + len(rows)],
                count=max(k, candidates),
                factors=factors,
                conditions=conditions,
                k=k,
            )
            results += [self._as_matches(one, k, threshold, confidence) for one in found]
        return results

    def _candidates(
        self,
        prepared: Prepared,
        rows: NDArray[np.int64],
        queries: Tensor,
        *,
        count: int = _CANDIDATES,
        factors: Mapping[str, float] | None = None,
        conditions: Sequence[tuple[Prepared, bool]] = (),
        k: int = 1,
    ) -> list[_Found]:
        """Return the best records of examples by exact scores; look at more records until k fulfil the conditions."""
        weights = self._encoder.weights(factors)
        while True:
            found = self._memory.cleanup(queries, k=count).labels
            labels = list(dict.fromkeys(itertools.chain.from_iterable(found)))
            documents = self._documents.get(labels)
            stored = self._encoder.prepare(documents)
            place = {label: row for row, label in enumerate(labels)}
            lengths = [len(own) for own in found]
            at = np.array([place[label] for own in found for label in own], dtype=np.int64)
            owner = np.repeat(np.arange(len(found)), lengths)
            keep = self._fulfilling(stored, at, conditions)
            at, owner = at[keep], owner[keep]
            fields = self._encoder.field_scores(prepared, rows[owner], stored, at)
            scores = combine(fields, weights, (prepared.rows >= 0).T[rows[owner]])
            results = []
            for number in range(len(found)):
                own = np.flatnonzero(owner == number)
                own = own[np.argsort(-scores[own], kind="stable")]
                texts = [labels[i] for i in at[own]]
                results.append(_Found(texts, scores[own], fields[own], [documents[i] for i in at[own]]))
            if not conditions or count >= len(self) or min(len(one.labels) for one in results) >= k:
                return results
            count = min(4 * count, len(self))

    def _fulfilling(
        self, stored: Prepared, at: NDArray[np.int64], conditions: Sequence[tuple[Prepared, bool]]
    ) -> NDArray[np.bool_]:
        """Return which records have all fields of ``must`` and none of ``must_not``."""
        keep = np.ones(len(at), dtype=bool)
        names = np.array([field.name != "*" for field in self._encoder.active])
        for part, wanted in conditions:
            scores = self._encoder.field_scores(part, np.zeros(len(at), dtype=np.int64), stored, at)
            has = (part.rows[:, 0] >= 0) & names
            agrees = np.nan_to_num(scores) >= _AGREE
            keep &= (agrees | ~has).all(axis=1) if wanted else ~(agrees & has).any(axis=1)
        return keep

    def _as_matches(self, found: _Found, k: int, threshold: float, confidence: float) -> list[RecordMatch]:
        if not len(found.scores):
            return []
        background = np.full(len(found.scores), np.median(found.scores))
        chances = probability(self._calibration, found.scores, background)
        names = [field.name for field in self._encoder.active]
        hits = []
        for rank in range(min(k, len(found.labels))):
            score = float(found.scores[rank])
            if score < threshold:
                break
            other = 1 if rank == 0 else 0
            has_other = len(found.labels) > 1
            fields = {name: float(s) for name, s in zip(names, found.fields[rank], strict=True) if np.isfinite(s)}
            hits.append(
                RecordMatch(
                    guess=_id_of(found.labels[rank]),
                    score=score,
                    runner_up=_id_of(found.labels[other]) if has_other else None,
                    margin=score - float(found.scores[other]) if has_other else score,
                    noise=self.space.noise_std,
                    candidates=len(self),
                    probability=float(chances[rank]),
                    probability_unknown=1 - float(chances[0]),
                    required_confidence=confidence,
                    document=found.documents[rank],
                    fields=fields,
                )
            )
        return hits

    def _vector_hits(self, queries: Tensor, k: int, threshold: float, confidence: float) -> list[list[RecordMatch]]:
        """Return hits by the dot product of vectors alone."""
        labels, scores = self._memory.cleanup(queries, k=max(k, 2))
        results = []
        for own, row in zip(labels, np.clip(scores.double().numpy(), 0, 1), strict=True):
            empty = np.empty((len(own), 0))
            found = _Found(own, row, empty, self._documents.get(own))
            hits = self._as_matches(
                found._replace(fields=np.full((len(own), len(self._encoder.active)), np.nan)), k, threshold, confidence
            )
            results.append(hits)
        return results

    def explain(self, identifier: str, example: Document, *, weights: Mapping[str, float] | None = None) -> Explanation:
        """Compare an example with one record, field by field.

        Examples
        --------
        >>> import ghrr
        >>> index = ghrr.search.RecordIndex()
        >>> index.add([{"name": "Ada", "born": 1815, "city": "London"}, {"name": "Alan", "born": 1912}], ids=["a", "b"])
        >>> index.explain("b", {"name": "Alan", "city": "London"}).fields
        {'name': 1.0, 'born': None, 'city': None, '*': 0.6325}
        """
        operation = "RecordIndex.explain"
        label = self._label_of(operation, identifier)
        factors = check_weights(operation, weights, [field.name for field in self.fields])
        prepared = self._encoder.prepare([example], operation)
        stored = self._encoder.prepare(self._documents.get([label]))
        zero = np.zeros(1, dtype=np.int64)
        scores = self._encoder.field_scores(prepared, zero, stored, zero)
        has = (prepared.rows >= 0).T
        own = self._encoder.weights(factors)
        total = combine(scores, own, has)[0]
        names = [field.name for field in self._encoder.active]
        shares = np.where(has[0], own, 0) / max(float(own @ has[0]), 1e-12)
        fields = {
            name: round(float(s), 4) if np.isfinite(s) else None for name, s in zip(names, scores[0], strict=True)
        }
        return Explanation(
            float(total), fields, {n: round(float(w), 4) for n, w in zip(names, shares, strict=True) if w}
        )

    # ------------------------------------------------------------------------------------------------------ duplicates

    def duplicates(
        self, threshold: float | None = None, *, rate: float | None = None, neighbours: int = 10
    ) -> list[Cluster]:
        """Group records that describe the same thing.

        Each record is compared with its nearest ``neighbours``, and pairs of at least ``threshold`` are connected.

        Parameters
        ----------
        threshold
            Least score of a pair. By default the valley between the scores of pairs that are alike and of pairs that
            are not (Otsu's criterion on the nearest neighbours).
        rate
            Expected number of pairs per record, instead of a threshold.
        neighbours
            Records that each record is compared with: at least the size of the largest group.

        Examples
        --------
        >>> import ghrr
        >>> index = ghrr.search.RecordIndex()
        >>> index.add([{"name": n} for n in ("Ada Lovelace", "Alan Turing", "Ada Lovelaec", "Grace Hopper")])
        >>> index.duplicates(threshold=0.5)
        [Cluster(ids=('0', '2'), score=0.6...)]
        """
        operation = "RecordIndex.duplicates"
        if threshold is not None and rate is not None:
            raise ValueError(f"{operation}: give threshold or rate, got both")
        neighbours = check_integer(operation, "neighbours", neighbours, least=1)
        pairs, scores = self.similar_pairs(neighbours)
        if rate is not None:
            wanted = round(check_real(operation, "rate", rate, low=0.0, high=float(neighbours)) * len(self))
            threshold = float(np.sort(scores)[::-1][min(wanted, len(scores)) - 1]) if wanted and len(scores) else 1.1
        elif threshold is None:
            threshold = valley(self._nearest(pairs, scores))
        else:
            threshold = check_real(operation, "threshold", threshold, low=0.0, high=1.0)
        chosen = scores >= threshold
        triples = zip(pairs[chosen, 0].tolist(), pairs[chosen, 1].tolist(), scores[chosen].tolist(), strict=True)
        return connect(self.ids, triples)

    def _nearest(self, pairs: NDArray[np.int64], scores: Floats) -> Floats:
        """Return the score of the nearest neighbour of each record."""
        best = np.zeros(len(self))
        for side in (0, 1):
            np.maximum.at(best, pairs[:, side], scores)
        return best

    def similar_pairs(self, neighbours: int = 10) -> tuple[NDArray[np.int64], Floats]:
        """Return pairs of near records as row numbers in :attr:`ids`, first below second, and their exact scores.

        Shapes
        ------
        outputs: ``(pairs, 2)`` and ``(pairs,)``
        """
        labels = list(self._labels.values())
        place = {label: row for row, label in enumerate(labels)}
        weights = self._encoder.weights()
        found: dict[tuple[int, int], float] = {}
        for start in range(0, len(labels), _BATCH // 4):
            own = labels[start : start + _BATCH // 4]
            near = self._memory.cleanup(self._memory.vectors(own), k=neighbours + 1).labels
            wanted = {
                (min(start + i, place[other]), max(start + i, place[other]))
                for i, others in enumerate(near)
                for other in others
                if place[other] != start + i
            }
            fresh = np.array(sorted(pair for pair in wanted if pair not in found), dtype=np.int64).reshape(-1, 2)
            rows, numbers = np.unique(fresh, return_inverse=True)
            stored = self._encoder.prepare(self._documents.get([labels[row] for row in rows]))
            a, b = numbers.reshape(-1, 2).T if len(fresh) else (np.empty(0, dtype=np.int64),) * 2
            scores = self._encoder.field_scores(stored, a, stored, b)
            both = [combine(scores, weights, (stored.rows >= 0).T[side]) for side in (a, b)]
            found.update(zip(map(tuple, fresh.tolist()), ((both[0] + both[1]) / 2).tolist(), strict=True))
        pairs = np.array(list(found), dtype=np.int64).reshape(-1, 2)
        return pairs, np.array(list(found.values()))

    # -------------------------------------------------------------------------------------------------------- learning

    def learn_weights(self, examples: Sequence[Document], ids: Sequence[str] | None = None) -> None:
        """Learn the weights of fields from examples, with or without the ids that they should find.

        All records are encoded again with the new weights, and probabilities are calibrated again: on the labelled
        examples, or on examples made from the records.

        Parameters
        ----------
        examples
            Documents such as those to search for. A few hundred suffice.
        ids
            The right id of each example. Without them, clear best answers count as right.

        Examples
        --------
        >>> import ghrr
        >>> index = ghrr.search.RecordIndex()
        >>> index.add([{"name": n, "note": f"see {i % 3}"} for i, n in enumerate(["Ada", "Alan", "Grace", "Kurt"])])
        >>> index.learn_weights([{"name": "ada", "note": "see 1"}, {"name": "kurt", "note": "see 2"}], ids=["0", "3"])
        >>> {field.name: field.weight > 1 for field in index.fields if field.name != "*"}
        {'name': True, 'note': False}
        """
        operation = "RecordIndex.learn_weights"
        examples = _as_list(operation, examples)
        targets = None if ids is None else [self._label_of(operation, name) for name in check_labels(operation, ids)]
        if not examples or not len(self) or (targets is not None and len(targets) != len(examples)):
            raise ValueError(
                f"{operation}: needs records, examples and one id for each, got {len(self)} records, {len(examples)} "
                f"examples and {'no' if targets is None else len(targets)} ids"
            )
        prepared = self._encoder.prepare(examples, operation)
        for _ in range(1 if targets is not None else 3):
            found = self._candidates(prepared, np.arange(len(examples)), self._encoder.encode(prepared))
            size = min(len(one.labels) for one in found)
            scores = np.stack([one.fields[:size] for one in found])
            right = _right_candidates(found, targets, size)
            used = np.flatnonzero(right >= 0)
            if not len(used):
                raise ValueError(f"{operation}: no example finds its record; check the ids and the fields")
            has = (prepared.rows >= 0).T
            new = fit_weights(scores[used], has[used], right[used], self._encoder.weights())
            for field, weight in zip(self._encoder.active, new, strict=True):
                field.weight = float(weight)
        with self._lock:
            self._encode_again()
        if targets is None:
            self._calibrate()
        else:
            self._calibrate_on(prepared, targets)

    def _encode_again(self) -> None:
        """Replace all vectors by those for the current weights."""
        items = list(self._labels.items())
        for start in range(0, len(items), _BATCH):
            part = items[start : start + _BATCH]
            documents = self._documents.get([label for _, label in part])
            self._insert("RecordIndex", documents, [name for name, _ in part], [label for _, label in part])

    def _calibrate(self) -> None:
        """Fit the calibration to examples made from the records."""
        labels = list(self._labels.values())
        if len(labels) < 20:
            self._calibration = PRIOR.copy()
            return
        chosen = labels[:: max(1, len(labels) // _CALIBRATION)][:_CALIBRATION]
        examples = damaged_examples(self._documents.get(chosen))
        prepared = self._encoder.prepare(examples)
        rows = np.flatnonzero((prepared.rows >= 0).any(axis=0))
        self._calibrate_on(prepared, chosen, rows=rows)

    def _calibrate_on(self, prepared: Prepared, targets: Sequence[str], rows: NDArray[np.int64] | None = None) -> None:
        rows = np.arange(prepared.count) if rows is None else rows
        vectors = self._encoder.encode(prepared)
        scores, background, right = [], [], []
        for start in range(0, len(rows), _EXAMPLES):
            part = rows[start : start + _EXAMPLES]
            for row, found in zip(part, self._candidates(prepared, part, vectors[part]), strict=True):
                others = [i for i, label in enumerate(found.labels) if label != targets[row]]
                for kept, answer in ((range(len(found.labels)), found.labels[0] == targets[row]), (others, False)):
                    if len(kept):
                        scores.append(found.scores[kept[0]])
                        background.append(np.median(found.scores[list(kept)]))
                        right.append(answer)
        self._calibration = fit_coefficients(np.array(scores), np.array(background), np.array(right))

    # ----------------------------------------------------------------------------------------------------------- files

    def save(self, folder: PathLike | None = None) -> None:
        """Write the changes since the last save to a folder, and wait until they are on disk.

        Documents are written first and vectors last, so a process that is killed leaves the state before or after. One
        process at a time can write.

        Parameters
        ----------
        folder
            A new folder, or the one that this index was opened from or last saved to, which is the default.

        Examples
        --------
        >>> import ghrr, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> index = ghrr.search.RecordIndex()
        >>> index.add([{"name": "Ada"}, {"name": "Alan"}])
        >>> index.save(folder)
        >>> ghrr.search.RecordIndex.open(folder).search({"name": "alan"})[0].document
        {'name': 'Alan'}
        """
        operation = "RecordIndex.save"
        with self._lock:
            path = self._folder if folder is None else Path(folder).resolve()
            if path is None:
                raise ValueError(f"{operation}: the first save needs a folder, got none")
            if self._memory.storage == "float32" and not _is_torch(self._memory):
                raise ValueError(
                    f"{operation}: only an index with the torch backend can be saved, got {self._memory!r}; the "
                    f"vectors of other backends are in their own store"
                )
            path.mkdir(parents=True, exist_ok=True)
            with lock_folder(path, operation):
                self._documents.write(path, self._labels.values())
                write_encoder(path / FIELDS_NAME, self._encoder, self._calibration)
                self._memory.commit(path / _VECTORS)
                self._documents.clean(path, self._removed)
                self._folder, self._removed = path, set()

    @classmethod
    def open(cls, folder: PathLike) -> Self:
        """Use a saved index without reading its vectors and documents into memory.

        Raises
        ------
        FileNotFoundError
            The folder has no index.
        ValueError
            A file is damaged, or was written by a newer version.

        Examples
        --------
        See :meth:`save`.
        """
        path = Path(folder).resolve()
        if not (path / FIELDS_NAME).exists():
            raise FileNotFoundError(f"RecordIndex.open({str(folder)!r}): the folder has no index")
        encoder, calibration = read_encoder(path / FIELDS_NAME)
        index = cls(encoder.space, whole=encoder.whole)
        index._encoder, index._calibration, index._folder = encoder, calibration, path
        index._memory = ItemMemory.open(path / _VECTORS, space=encoder.space)
        index._documents = DocumentStore(path)
        index._labels = {_id_of(label): label for label in index._memory.labels}
        last = max((int(label.partition(_SEPARATOR)[0], 16) for label in index._memory.labels), default=-1)
        index._revision = itertools.count(last + 1)
        return index


def _right_candidates(found: Sequence[_Found], targets: Sequence[str] | None, size: int) -> NDArray[np.int64]:
    """Return the index of the right candidate of each example, or -1. Without targets, that of a clear best answer."""
    if targets is not None:
        places = [one.labels[:size] for one in found]
        return np.array(
            [own.index(target) if target in own else -1 for own, target in zip(places, targets, strict=True)]
        )
    leads = np.array([one.scores[0] - one.scores[1] if size > 1 else 0.0 for one in found])
    return np.where(leads >= np.median(leads), 0, -1)


def _id_of(label: str) -> str:
    return label.partition(_SEPARATOR)[2]


def _is_torch(memory: ItemMemory) -> bool:
    return "TorchBackend" in repr(memory)


def _as_list(operation: str, documents: Sequence[Document]) -> list[Document]:
    if isinstance(documents, Mapping | str | bytes) or not isinstance(documents, Iterable):
        raise TypeError(f"{operation}: needs a list of documents, got {describe(documents)}; put it into a list")
    return list(documents)


def _memory_settings(space: Space, storage: str | None, backend: str | Backend, uri: str | None) -> dict[str, Any]:
    """Return the arguments of the item memory."""
    if backend == "lancedb":
        from ghrr.search.lance_backend import LanceBackend  # noqa: PLC0415 (an optional package)

        return {"backend": LanceBackend(2 * space.total_dim, uri)}
    settings: dict[str, Any] = {"backend": backend, "uri": uri}
    if backend == "torch":
        settings["storage"] = storage or "int8"
    elif storage is not None:
        settings["storage"] = storage
    return settings
