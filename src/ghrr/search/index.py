"""RecordIndex: search, match and de-duplicate nested records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ghrr.checks import check_flag, check_integer, check_path, check_real, names_errors, value_error
from ghrr.files import PathLike
from ghrr.memory import Backend
from ghrr.memory.match import CONFIDENCE
from ghrr.memory.storage import DTYPES
from ghrr.search.candidates import CANDIDATES
from ghrr.search.duplicates import Cluster, connect
from ghrr.search.encoder import RecordEncoder
from ghrr.search.engines import make_engine
from ghrr.search.evidence import logistic
from ghrr.search.explanation import Explanation, explain
from ghrr.search.fields import Field
from ghrr.search.folder import IndexFolder, open_index
from ghrr.search.learning import learn
from ghrr.search.match import RecordMatch
from ghrr.search.pairs import match_pairs
from ghrr.search.query import search
from ghrr.search.records import RECALL_K, Document, Records, as_list
from ghrr.search.state import empty_state
from ghrr.space import Space, check_space

Floats = NDArray[np.float64]


@names_errors
class RecordIndex:
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
        space = Space(dim=256, m=2, seed=0) if space is None else check_space(space)
        check_flag("whole", whole)
        check_flag("approximate", approximate)
        encoder = RecordEncoder(space, kinds=kinds, weights=weights, whole=whole)
        engine = make_engine(space, storage, backend, uri, approximate=approximate)
        self._records = Records(empty_state(encoder, engine))
        self._folder = IndexFolder(self._records)

    def __len__(self) -> int:
        return len(self._records.state)

    def __contains__(self, identifier: object) -> bool:
        return self._records.state.records.find(identifier) is not None

    def __getitem__(self, identifier: str) -> Any:
        state = self._records.state
        return state.documents.get([state.label_of(identifier)])[0]

    def __repr__(self) -> str:
        state = self._records.state
        size = 2 * self.space.total_dim * DTYPES[state.memory.storage].itemsize
        text = f"{len(state):,} records, {len(state.encoder.fields)} fields, {size:,} bytes each"
        if state.is_approximate:
            recall = "recall not measured" if state.recall is None else f"recall@{RECALL_K} {state.recall:.3f}"
            text += f", approximate: {recall}"
        return f"RecordIndex({text})"

    @property
    def is_approximate(self) -> bool:
        """Whether the engine may miss records, because it was asked to be approximate."""
        return self._records.state.is_approximate

    @property
    def recall(self) -> float:
        """Share of the ten best records by vector that the engine finds; 1 for an exact engine.

        It is measured at the first access after a change, on up to 100 examples that are made from stored records:
        fields are dropped and letters are changed. All vectors are read. Noisier examples have a lower recall.
        """
        return self._records.recall()

    @property
    def space(self) -> Space:
        """Space of the hypervectors."""
        return self._records.state.encoder.space

    @property
    def fields(self) -> list[Field]:
        """Fields with their kinds and weights."""
        return list(self._records.state.encoder.fields)

    @property
    def ids(self) -> list[str]:
        """Ids of the records, in the order in which they were added or last replaced."""
        return self._records.state.records.names

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
        self._records.add(documents, ids)

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
        self._records.update(documents, ids)

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
        self._records.remove(ids)

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
        state = self._records.state
        return search(state, [example], k, threshold, must, must_not, near, weights, candidates, confidence)[0]

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
        state = self._records.state
        return search(state, as_list(examples), k, threshold, must, must_not, near, weights, candidates, confidence)

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
        return explain(self._records.state, identifier, example, weights)

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
        if threshold is not None and rate is not None:
            raise value_error("give threshold or rate, got both; leave one of them out")
        neighbours = check_integer("neighbours", neighbours, least=1)
        least = check_real("threshold", 0.5 if threshold is None else threshold, low=0.0, high=1.0)
        rate = None if rate is None else check_real("rate", rate, low=0.0, high=float(neighbours))
        state = self._records.state
        pairs, log_odds = match_pairs(state, neighbours)
        chances = logistic(log_odds)
        count = np.count_nonzero(chances >= least) if rate is None else round(rate * len(state))
        chosen = np.argsort(-log_odds, kind="stable")[:count]
        rows = zip(*pairs[chosen].T.tolist(), chances[chosen].tolist(), strict=True)
        return connect(state.records.names, rows)

    def similar_pairs(self, neighbours: int = 10) -> tuple[NDArray[np.int64], Floats]:
        """Return pairs of near records as row numbers in :attr:`ids`, and the probabilities that both are of one thing.

        Shapes
        ------
        outputs: ``(pairs, 2)``, the first number below the second, and ``(pairs,)``
        """
        neighbours = check_integer("neighbours", neighbours, least=1)
        pairs, log_odds = match_pairs(self._records.state, neighbours)
        return pairs, logistic(log_odds)

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
        learn(self._records, examples, ids)

    def save(self, folder: PathLike | None = None) -> None:
        """Write the changes since the last save to a folder, and wait until they are on disk.

        From then on the index reads vectors and documents from the folder, so memory stays small if you save often.

        A save takes effect in one step: a process that is killed leaves the state before or after. One process at a
        time can write.

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
        self._folder.save(folder)

    def verify(self) -> None:
        """Read all vectors and documents and compare them with their checksums; raise ValueError for damage.

        :meth:`open` compares the fields and the table of records, and every document is compared when it is read. The
        vectors of the torch engine are read in parts, so only this method notices damage in them. Milvus and LanceDB
        have no checksums of vectors: all documents are encoded again, and the vectors must be the same.

        Examples
        --------
        >>> import ghrr, tempfile
        >>> index = ghrr.search.RecordIndex()
        >>> index.add([{"name": "Ada"}, {"name": "Alan"}])
        >>> folder = tempfile.mkdtemp()
        >>> index.save(folder)
        >>> ghrr.search.RecordIndex.open(folder).verify()
        """
        self._folder.verify()

    @classmethod
    def open(cls, folder: PathLike, *, uri: str | None = None) -> Self:
        """Use a saved index without reading its vectors and documents into memory.

        Opening changes nothing. With Milvus and LanceDB, the vectors are in their own store. Records that a program
        added there and did not save, because it was killed, are not part of the index; the next save removes them.

        If another program saves to the folder meanwhile, this index keeps the state that it opened, as long as its
        documents are there; its own save is refused.

        Parameters
        ----------
        folder
            As given to :meth:`save`.
        uri
            Address of Milvus or LanceDB. It is needed unless their data are inside the folder: a file from elsewhere
            must not decide where to connect.

        Raises
        ------
        FileNotFoundError
            The folder has no index, or its vectors are not there.
        ValueError
            A file is damaged, belongs to another index, or was written by a newer version; vectors of records are
            missing; or the vectors are outside the folder and ``uri`` was not given.
        """
        index = cls.__new__(cls)
        index._records, index._folder = open_index(check_path(folder).resolve(), uri)
        return index
