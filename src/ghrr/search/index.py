"""RecordIndex: search, match and de-duplicate nested records."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ghrr._checks import check_integer, check_real, describe
from ghrr.memory.labels import check_labels
from ghrr.memory.match import CONFIDENCE
from ghrr.search.aliases import find_aliases
from ghrr.search.calibration import PRIOR, damaged_examples, features, fit_parameters, probability
from ghrr.search.conditions import Conditions
from ghrr.search.duplicates import Cluster, connect, valley
from ghrr.search.encoder import Prepared, combine
from ghrr.search.fields import check_weights, list_names
from ghrr.search.folder import FolderStore
from ghrr.search.match import RecordMatch
from ghrr.search.paths import columns
from ghrr.search.store import BATCH, Document, as_list, id_of
from ghrr.search.weights import fit_weights

Floats = NDArray[np.float64]
_CANDIDATES = 50  # records whose documents are compared exactly
_CALIBRATION = 100  # examples
_EXAMPLES = 256  # examples whose candidates are compared at a time


class Explanation(NamedTuple):
    """Comparison of an example with a record: its score, and the score and the weight of each field.

    Fields that one of the two lacks have the score None. Weights are shares of the fields that the example has.

    Examples
    --------
    >>> import ghrr
    >>> index = ghrr.search.RecordIndex()
    >>> index.add([{"name": "Ada", "born": 1815}])
    >>> index.explain("0", {"name": "Ada"}).weights
    {'name': 1.0}
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


class RecordIndex(FolderStore):
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
    approximate
        Search faiss, Milvus or LanceDB by an HNSW index. It is faster for millions of records, but misses some, above
        all for examples with few or wrong values: :attr:`recall` measures how many.

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
            ``must_not`` may. Milvus and LanceDB use numbers, dates, categories and booleans as filters.
        weights
            Factors of the weights of fields by name; 0 leaves a field out.
        candidates
            Number of records whose documents are compared exactly, of those that fulfil the conditions. 0 ranks by the
            vectors alone; then must and must_not are not possible, and hits have no scores of fields.
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
        examples = as_list(operation, examples)
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
                f"{describe(examples[empty[0]])}; the fields are {list_names([field.name for field in self.fields])}"
            )
        conditions = Conditions(operation, self._encoder, must, must_not)
        queries = self._encoder.encode(prepared, factors=factors)
        if not candidates:
            return self._vector_hits(queries, k, threshold, confidence)
        found = self._candidates(prepared, queries, count=max(k, candidates), factors=factors, conditions=conditions)
        return [self._as_matches(one, k, threshold, confidence) for one in found]

    def _candidates(
        self,
        prepared: Prepared,
        queries: Tensor,
        *,
        count: int = _CANDIDATES,
        factors: Mapping[str, float] | None = None,
        conditions: Conditions | None = None,
    ) -> list[_Found]:
        """Return records by exact scores: the ``count`` nearest by vector among those that fulfil the conditions."""
        weights = self._encoder.weights(factors) * self._encoder.shares(prepared)
        bounds = conditions.bounds() if conditions and self._memory.can_filter else []
        nearest = self._nearest(queries, count, bounds)[0]
        results = []
        for rows in np.split(np.arange(len(queries)), range(_EXAMPLES, len(queries), _EXAMPLES)):
            labels, seen = [nearest[row] for row in rows], count
            found = self._compare(prepared, rows, labels, weights, conditions=conditions, count=count)
            while conditions and min(len(one.labels) for one in found) < count and len(labels[0]) == seen < len(self):
                seen = min(4 * seen, len(self))  # too few fulfil the conditions: look at more records
                labels = self._nearest(queries[rows], seen, bounds)[0]
                found = self._compare(prepared, rows, labels, weights, conditions=conditions, count=count)
            results += found
        return results

    def _compare(
        self,
        prepared: Prepared,
        rows: NDArray[np.int64],
        found: Sequence[Sequence[str]],
        weights: Floats,
        *,
        conditions: Conditions | None,
        count: int,
    ) -> list[_Found]:
        """Return the first ``count`` records of each example that fulfil the conditions, best first by exact scores."""
        labels = list(dict.fromkeys(itertools.chain.from_iterable(found)))
        documents = self._documents.get(labels)
        stored = self._encoder.prepare(documents)
        place = {label: row for row, label in enumerate(labels)}
        at = np.array([place[label] for own in found for label in own], dtype=np.int64)
        owner = np.repeat(np.arange(len(found)), [len(own) for own in found])
        if conditions:
            keep = np.flatnonzero(conditions.fulfilled(stored, at))
            first = np.searchsorted(owner[keep], np.arange(len(found)))
            keep = keep[np.arange(len(keep)) - first[owner[keep]] < count]
            at, owner = at[keep], owner[keep]
        fields = self._encoder.field_scores(prepared, rows[owner], stored, at)
        scores = combine(fields, weights[rows[owner]])
        results = []
        for own in np.split(np.arange(len(owner)), np.searchsorted(owner, range(1, len(found)))):
            best = own[np.argsort(-scores[own], kind="stable")]
            places = at[best].tolist()
            results.append(
                _Found([labels[i] for i in places], scores[best], fields[best], [documents[i] for i in places])
            )
        return results

    def _as_matches(self, found: _Found, k: int, threshold: float, confidence: float) -> list[RecordMatch]:
        if not len(found.scores):
            return []
        chances = probability(self._calibration, features(found.scores))
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
                    guess=id_of(found.labels[rank]),
                    score=score,
                    runner_up=id_of(found.labels[other]) if has_other else None,
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
        results = []
        for own, row in zip(*self._nearest(queries, max(k, _CANDIDATES)), strict=True):
            empty = np.empty((len(own), 0))
            found = _Found(own, np.clip(row, 0, 1), empty, self._documents.get(own))
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
        own = self._encoder.weights(factors) * self._encoder.shares(prepared)
        total = combine(scores, own)[0]
        names = [field.name for field in self._encoder.active]
        shares = own[0] / max(float(own.sum()), 1e-12)
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
            Minimum score of a pair. By default it is chosen in the valley between the scores of similar and of
            dissimilar pairs; see ``ghrr.search.duplicates.valley``.
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
        [Cluster('0', '2', score=0.614)]
        """
        operation = "RecordIndex.duplicates"
        if threshold is not None and rate is not None:
            raise ValueError(f"{operation}: give threshold or rate, got both; leave one of them out")
        neighbours = check_integer(operation, "neighbours", neighbours, least=1)
        pairs, scores = self.similar_pairs(neighbours)
        if rate is not None:
            wanted = round(check_real(operation, "rate", rate, low=0.0, high=float(neighbours)) * len(self))
            threshold = float(np.sort(scores)[::-1][min(wanted, len(scores)) - 1]) if wanted and len(scores) else 1.1
        elif threshold is None:
            threshold = valley(scores)
        else:
            threshold = check_real(operation, "threshold", threshold, low=0.0, high=1.0)
        chosen = scores >= threshold
        triples = zip(pairs[chosen, 0].tolist(), pairs[chosen, 1].tolist(), scores[chosen].tolist(), strict=True)
        return connect(self.ids, triples)

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
        for start in range(0, len(labels), BATCH // 4):
            own = labels[start : start + BATCH // 4]
            near = self._nearest(self._memory.vectors(own), neighbours + 1)[0]
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
            shares = weights * self._encoder.shares(stored)
            both = [combine(scores, shares[side]) for side in (a, b)]
            found.update(zip(((a, b) for a, b in fresh.tolist()), ((both[0] + both[1]) / 2).tolist(), strict=True))
        pairs = np.array(list(found), dtype=np.int64).reshape(-1, 2)
        return pairs, np.array(list(found.values()))

    # -------------------------------------------------------------------------------------------------------- learning

    def learn_weights(self, examples: Sequence[Document], ids: Sequence[str]) -> None:
        """Learn the weights of fields from examples and the ids of the records that they should find.

        Fields that records have under another name than the examples are found too (``ghrr.search.aliases``), and the
        text of all fields is limited to fields that examples have. All records are encoded again, and probabilities
        are calibrated on the examples.

        Parameters
        ----------
        examples
            Documents such as those to search for. A few hundred suffice.
        ids
            The right id of each example.

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
        examples = as_list(operation, examples)
        targets = [self._label_of(operation, name) for name in check_labels(operation, ids)]
        if not examples or len(targets) != len(examples):
            raise ValueError(
                f"{operation}: needs examples and one id for each, got {len(examples)} examples and {len(targets)} ids"
            )
        encoder = self._encoder
        before = encoder.aliases, encoder.whole_paths
        encoder.aliases = find_aliases(encoder.fields, examples, self._documents.get(targets))
        encoder.whole_paths = frozenset(columns(examples, operation)) | frozenset(encoder.aliases.values())
        prepared = encoder.prepare(examples)
        found = self._candidates(prepared, encoder.encode(prepared))
        size = min(len(one.labels) for one in found)
        places = [one.labels[:size] for one in found]
        right = np.array([own.index(x) if x in own else -1 for own, x in zip(places, targets, strict=True)])
        used = np.flatnonzero(right >= 0)
        if not len(used):
            encoder.aliases, encoder.whole_paths = before
            raise ValueError(f"{operation}: no example finds its record; check the ids and the fields")
        scores = np.stack([one.fields[:size] for one in found])
        new = fit_weights(scores[used], encoder.shares(prepared)[used], right[used], encoder.weights())
        for field, weight in zip(encoder.active, new, strict=True):
            field.weight = float(weight)
        with self._lock:
            targets = [id_of(label) for label in targets]
            self._encode_again()
            targets = [self._labels[name] for name in targets]
        self._calibrate_on(prepared, targets, labelled=True)

    def _encode_again(self) -> None:
        """Replace all vectors by those for the current weights."""
        items = list(self._labels.items())
        for start in range(0, len(items), BATCH):
            part = items[start : start + BATCH]
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
        used = [row for row, example in enumerate(examples) if example]
        prepared = self._encoder.prepare([examples[row] for row in used])
        self._calibrate_on(prepared, [chosen[row] for row in used], labelled=False)

    def _calibrate_on(self, prepared: Prepared, targets: Sequence[str], *, labelled: bool) -> None:
        best, is_right, missing = [], [], []
        for target, found in zip(targets, self._candidates(prepared, self._encoder.encode(prepared)), strict=True):
            own = np.array([label == target for label in found.labels])
            if not own.all():
                best.append(features(found.scores)[0])
                is_right.append(own[0])
                missing.append(features(found.scores[~own])[0])
        rows = (np.array(best).reshape(-1, 2), np.array(is_right, dtype=bool), np.array(missing).reshape(-1, 2))
        self._calibration = fit_parameters(*rows, labelled=labelled)
