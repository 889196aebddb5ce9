"""RecordIndex: search, match and de-duplicate nested records."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ghrr.checks import check_integer, check_real, describe
from ghrr.files import parse_json
from ghrr.memory.labels import check_labels
from ghrr.memory.match import CONFIDENCE, check_confidence
from ghrr.search.aliases import find_aliases
from ghrr.search.candidates import CANDIDATES, as_matches, find_by_vector, find_candidates
from ghrr.search.conditions import Conditions
from ghrr.search.duplicates import Cluster, connect
from ghrr.search.encoder import Prepared, combine
from ghrr.search.evidence import logistic
from ghrr.search.fields import check_weights, list_names
from ghrr.search.folder import FolderStore
from ghrr.search.index_calibration import calibrate_on
from ghrr.search.match import RecordMatch
from ghrr.search.pairs import match_pairs
from ghrr.search.paths import columns
from ghrr.search.state import BATCH, State
from ghrr.search.store import Document, as_columns, as_list
from ghrr.search.weights import fit_weights

Floats = NDArray[np.float64]


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


class RecordIndex(FolderStore):
    r"""Find records that are similar to an example, in any set of JSON-like documents.

    Each document becomes one hypervector: the value of each field, encoded by its type, is bound to its path, and all
    fields are bundled with weights. A search compares the hypervector of the example with all records, and then
    compares the documents of the best ``candidates`` exactly, field by field. Fields, their kinds and their weights
    are found in the data of the first :meth:`add`; see :attr:`fields`.

    Missing fields are neutral: they count neither for nor against a record. Only, of two records that agree
    equally the more complete one comes first.

    Any number of threads can search while others change and save the index. Each call reads the records, fields and
    weights of one moment, and changes wait for each other.

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
        near: Document | None = None,
        weights: Mapping[str, float] | None = None,
        candidates: int = CANDIDATES,
        confidence: float = CONFIDENCE,
    ) -> list[RecordMatch]:
        """Return the records that are most similar to an example, best first.

        Of hits with equal scores, the one that was added first comes first. Hits do not depend on what else is searched
        for at the same time, as long as no more than 4,096 records have vectors as near as the last candidate.

        Parameters
        ----------
        example
            Any part of a document. Values need not be exact; :class:`ghrr.search.Range` stands for an interval. The key
            ``"*"`` is compared with the text of all fields.
        k
            Number of records.
        threshold
            Least score.
        must, must_not
            Parts of documents that hits have, or do not have, exactly: values, :class:`ghrr.search.Range`,
            :class:`ghrr.search.Contains`, None for a missing value, or a list of these, of which one must hold. A hit
            fulfils all fields of ``must`` and none of ``must_not``. There are fewer than ``k`` hits only if fewer
            records fulfil them. ``"*"`` stands for any field.
        near
            Part of a document: hits are similar to it in each of its fields. A number or a date is at most 1.18
            bandwidths away, and other fields have a score of at least 0.5.
        weights
            Factors of the weights of fields by name; 0 leaves a field out.
        candidates
            Number of records whose documents are compared exactly, of those that fulfil the conditions. 0 ranks by the
            vectors alone; then must and must_not are not possible, and hits have no scores of fields.
        confidence
            Probability between 0.5 and 1 from which a hit is ``confident``. None is if the index has too few different
            records to calibrate probabilities.

        Examples
        --------
        >>> import ghrr
        >>> index = ghrr.search.RecordIndex()
        >>> index.add([{"name": "lamp", "price": p, "brand": b} for p, b in [(20, "Arc"), (45, "Arc"), (50, "Bow")]])
        >>> [hit.guess for hit in index.search({"price": 48}, k=3, must={"brand": "arc"})]
        ['1', '0']
        >>> [hit.guess for hit in index.search({"price": 48}, k=3, must={"price": ghrr.search.Range(40, None)})]
        ['2', '1']
        """
        found = self._search(
            "RecordIndex.search", [example], k, threshold, must, must_not, near, weights, candidates, confidence
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
        near: Document | None = None,
        weights: Mapping[str, float] | None = None,
        candidates: int = CANDIDATES,
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
        operation = "RecordIndex.search_many"
        examples = as_list(operation, examples)
        return self._search(operation, examples, k, threshold, must, must_not, near, weights, candidates, confidence)

    def _search(  # noqa: PLR0917
        self,
        operation: str,
        examples: Sequence[Document],
        k: int,
        threshold: float,
        must: Document | None,
        must_not: Document | None,
        near: Document | None,
        weights: Mapping[str, float] | None,
        candidates: int,
        confidence: float,
    ) -> list[list[RecordMatch]]:
        k = check_integer(operation, "k", k, least=1)
        candidates = check_integer(operation, "candidates", candidates, least=0)
        threshold = check_real(operation, "threshold", threshold, low=0.0, high=1.0)
        confidence = check_confidence(operation, confidence)
        state = self._state
        encoder = state.encoder
        names = [field.name for field in encoder.fields]
        factors = check_weights(operation, weights, names)
        prepared = encoder.prepare(examples, operation, noun="example")
        if not len(state) or not examples:
            return [[] for _ in examples]
        empty = np.flatnonzero(~(prepared.rows >= 0).any(axis=0))
        if len(empty):
            raise ValueError(
                f"{operation}: example {empty[0]} has no value in a field of this index, got "
                f"{describe(examples[empty[0]])}; the fields are {list_names(names)}"
            )
        conditions = Conditions(operation, encoder, must, must_not, near)
        if not candidates and conditions:
            raise ValueError(f"{operation}: must, must_not and near compare documents, got candidates=0; leave it out")
        queries = encoder.encode(prepared, factors=factors)
        if not candidates:
            return find_by_vector(state, queries, k, threshold, confidence)
        found = find_candidates(
            state, prepared, queries, count=max(k, candidates), factors=factors, conditions=conditions
        )
        return [as_matches(state, one, k, threshold, confidence) for one in found]

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
        state = self._state
        label, encoder = state.label_of(operation, identifier), state.encoder
        factors = check_weights(operation, weights, [field.name for field in encoder.fields])
        prepared = encoder.prepare([example], operation, noun="example")
        stored = encoder.prepare(state.documents.get([label]))
        zero = np.zeros(1, dtype=np.int64)
        scores = encoder.field_scores(prepared, zero, stored, zero)
        own = encoder.weights(factors) * encoder.shares(prepared)
        total = combine(scores, own)[0]
        names = [field.name for field in encoder.active]
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

        Each record is compared with its nearest ``neighbours``. The agreement of their fields gives the probability
        that both are of the same thing, without labels (``ghrr.search.match_model``): rare values that agree count more
        than common ones, and values that differ count against it. Pairs of at least ``threshold`` are connected. Fields
        with weight 0 and the text of all fields do not count.

        Parameters
        ----------
        threshold
            Least probability of a pair, 0.5 by default.
        rate
            Number of pairs per record, the most probable ones, instead of a threshold.
        neighbours
            Records that each record is compared with: at least the size of the largest group.

        Examples
        --------
        >>> import ghrr
        >>> people = [{"name": f"person {i}", "city": f"city {i % 9}", "born": 1900 + i} for i in range(50)]
        >>> index = ghrr.search.RecordIndex()
        >>> index.add([*people, {"name": "persn 7", "city": "city 7", "born": 1907}])
        >>> [cluster.ids for cluster in index.duplicates()]
        [('7', '50')]
        """
        operation = "RecordIndex.duplicates"
        if threshold is not None and rate is not None:
            raise ValueError(f"{operation}: give threshold or rate, got both; leave one of them out")
        neighbours = check_integer(operation, "neighbours", neighbours, least=1)
        least = check_real(operation, "threshold", 0.5 if threshold is None else threshold, low=0.0, high=1.0)
        rate = None if rate is None else check_real(operation, "rate", rate, low=0.0, high=float(neighbours))
        state = self._state
        pairs, log_odds = match_pairs(state, neighbours)
        order = np.argsort(-log_odds, kind="stable")
        count = np.count_nonzero(logistic(log_odds) >= least) if rate is None else round(rate * len(state))
        chosen = order[:count]
        rows = zip(
            pairs[chosen, 0].tolist(), pairs[chosen, 1].tolist(), logistic(log_odds[chosen]).tolist(), strict=True
        )
        return connect(state.records.names, rows)

    def similar_pairs(self, neighbours: int = 10) -> tuple[NDArray[np.int64], Floats]:
        """Return pairs of near records as row numbers in :attr:`ids`, and the probabilities that both are of one thing.

        Shapes
        ------
        outputs: ``(pairs, 2)``, the first number below the second, and ``(pairs,)``
        """
        neighbours = check_integer("RecordIndex.similar_pairs", "neighbours", neighbours, least=1)
        pairs, log_odds = match_pairs(self._state, neighbours)
        return pairs, logistic(log_odds)

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
            The id of the record that each example should find.

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
        examples, names = as_list(operation, examples), check_labels(operation, ids)
        if not examples or len(names) != len(examples):
            raise ValueError(
                f"{operation}: needs examples and one id for each, got {len(examples)} examples and {len(names)} ids"
            )
        with self._lock:
            learned, prepared = self._learn(operation, self._state, examples, names)
            targets = [learned.label_of(operation, name) for name in names]
            calibration = calibrate_on(learned, prepared, targets, labelled=True)
            self._publish(replace(learned, calibration=calibration))

    def _learn(
        self, operation: str, state: State, examples: list[Document], names: list[str]
    ) -> tuple[State, Prepared]:
        """Return a state with aliases, weights and vectors that fit the examples, and these prepared."""
        targets = [state.label_of(operation, name) for name in names]
        encoder = copy.copy(state.encoder)
        paths = frozenset(columns(examples, operation, noun="example"))
        encoder.aliases = find_aliases(encoder.fields, examples, state.documents.get(targets))
        encoder.whole_paths = paths | frozenset(encoder.aliases.values())
        prepared = encoder.prepare(examples)
        found = find_candidates(replace(state, encoder=encoder), prepared, encoder.encode(prepared))
        size = min(len(one.labels) for one in found)
        places = [one.labels[:size] for one in found]
        right = np.array([own.index(x) if x in own else -1 for own, x in zip(places, targets, strict=True)])
        used = np.flatnonzero(right >= 0)
        if not len(used):
            raise ValueError(f"{operation}: no example finds its record; check the ids and the fields")
        scores = np.stack([one.fields[:size] for one in found])
        new = fit_weights(scores[used], encoder.shares(prepared)[used], right[used], encoder.weights())
        weights = dict(zip((field.path for field in encoder.active), map(float, new), strict=True))
        encoder.fields = [replace(field, weight=weights.get(field.path, field.weight)) for field in encoder.fields]
        return self._encoded_again(replace(state, encoder=encoder, recall=None)), prepared

    def _encoded_again(self, state: State) -> State:
        """Return a state whose vectors were made by its encoder."""
        labels, names = state.labels, state.records.names
        for start in range(0, len(labels), BATCH):
            part = slice(start, start + BATCH)
            texts = state.documents.texts(labels[part])
            documents = [parse_json(text, "RecordIndex") for text in texts]
            found = self._vectors(state, documents, as_columns("RecordIndex", documents))
            state = self._with_records(state, names[part], texts, *found)
        return state
