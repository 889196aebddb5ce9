r"""Record: nested data in one hypervector, read by path.

A leaf v under the path :math:`k_1, \dots, k_d` is :math:`K_1 * \dots * K_d * V`, and a record is the bundle of its
leaves. Keys stand on the left: reading unbinds from the left, the outermost key first. A path in another order is
another product, unless m = 1, where "a, b" and "b, a" are the same. Each other leaf adds crosstalk of deviation
``space.crosstalk_std`` to an answer: of n leaves the right one scores 1 within about :math:`\sqrt{n/(2Dm^2)}`. A record
that was scaled or normalised must be scaled back before it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from torch import Tensor

from ghrr._checks import describe
from ghrr.hypervector import Hypervector
from ghrr.memory.match import Match
from ghrr.space import Space
from ghrr.structures.batch import Batch
from ghrr.structures.codec import Codec
from ghrr.structures.layout import Layout, Part, Path, check_path, show
from ghrr.structures.leaves import Scale, value_of
from ghrr.structures.reading import MISSING, Reading
from ghrr.structures.vocabulary import as_tensor, one_of, sparse_odds

_FORMAT = {"format": "ghrr-record", "version": 1}


class Record(Codec):
    r"""Nested dicts and lists as one hypervector: :math:`\sum_{\text{leaves}} K_1 * \dots * K_d * V`.

    Leaves are strings, numbers, booleans, None, and empty dicts and lists. The codec remembers the paths and the
    values that it has encoded: from these it reads.

    Parameters
    ----------
    space
        Where the hypervectors live.
    numbers
        A :class:`Scale` to encode numbers by fractional power; by default each number is an atom of its own.
    level
        From which probability on a match is confident.

    Shapes
    ------
    documents: any JSON; output: ``(dim, m, m)`` for one, ``(n, dim, m, m)`` for a list of them

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures import Record
    >>> codec = Record(ghrr.Space(dim=500, m=3))
    >>> h = codec.encode({"name": "Ada", "born": {"year": 1815, "city": "London"}, "tags": ["poet", "countess"]})
    >>> codec.query(h, "born", "city")
    Match('London', score=0.980, margin=0.952, confident=True)
    >>> codec.query(h, "city", "born").unknown
    True
    >>> codec.query(h, "tags")
    Reading(['poet', 'countess'], confident=2/2, unexplained=2.9)
    """

    # Writing

    def encode(self, document: Any) -> Tensor:
        """The hypervector of one document: ``(dim, m, m)``."""
        return self.encode_many([document])[0]

    def encode_many(self, documents: Iterable[Any]) -> Tensor:
        """The hypervectors of many documents: ``(n, dim, m, m)``.

        Paths and values are looked up together for all documents, and bound and bundled in one go.

        Examples
        --------
        >>> import ghrr
        >>> from ghrr.structures import Record
        >>> codec = Record(ghrr.Space(dim=500, m=3))
        >>> people = codec.encode_many([{"name": "Ada", "sex": "f"}, {"name": "Charles", "sex": "m"}])
        >>> [match.label for [match] in codec.query_many(people, [["name"]])]
        ['Ada', 'Charles']
        """
        if isinstance(documents, (str, dict)):
            raise TypeError(f"Record.encode_many: needs a list of documents, got {describe(documents)}")
        return self._bundle(list(documents))

    # Reading

    def query(self, h: Tensor | Hypervector, *path: Part) -> Match | Reading:
        """What is at a path: a :class:`Match` for a leaf, a :class:`Reading` where there is more below.

        Parameters
        ----------
        h
            A record, ``(dim, m, m)``.
        *path
            Keys of dicts (strings) and places in lists (whole numbers), outermost first.
        """
        x = one_of("Record.query", h, self.space)
        where = check_path("Record.query", path)
        [match] = self._match(x[None], self.layout.orders.apart([where]))
        if not match.unknown:
            return match
        reading = self._read_below(x, where)
        return reading if reading.matches else match

    def query_many(self, h: Tensor | Hypervector, paths: Sequence[Sequence[Part]]) -> list[Any]:
        """The leaf at each of many paths, in each of many records.

        Shapes
        ------
        h: ``(dim, m, m)`` gives a list of matches, one per path; ``(n, dim, m, m)`` n such lists
        """
        operation = "Record.query_many"
        x = as_tensor(operation, h, self.space)
        if x.ndim > 4:
            raise ValueError(f"{operation}: needs one record or a list of them, (n, dim, m, m); got {describe(x)}")
        keys = self.layout.orders.apart([check_path(operation, path) for path in paths])
        found = self._match(x.reshape(-1, *self.space.shape), keys)
        rows = [found[start : start + len(paths)] for start in range(0, len(found), max(1, len(paths)))]
        return found if x.ndim == 3 else rows or [[] for _ in x]

    def decode(self, h: Tensor | Hypervector, like: Any = MISSING) -> Reading:
        """The whole record as Python data, with a match for every leaf.

        Leaves that are certain are taken out of the record, and the others read again from what is left: their
        noise is then smaller.

        Parameters
        ----------
        h
            A record, ``(dim, m, m)``.
        like
            A document with the same paths: what is asked for, whatever its values. Without it all paths are tried
            that the codec knows, and those kept at which there certainly is something. If that does not explain the
            record, known keys are tried in new combinations too, up to 4096 of them.

        Examples
        --------
        >>> import ghrr
        >>> from ghrr.structures import Record
        >>> codec = Record(ghrr.Space(dim=500, m=3))
        >>> h = codec.encode({"name": "Ada", "born": {"year": 1815}})
        >>> codec.decode(h)
        Reading({'name': 'Ada', 'born': {'year': 1815}}, confident=2/2, unexplained=0.0)
        >>> codec.decode(h, like={"name": "", "died": 0}).value
        {'name': 'Ada', 'died': MISSING}
        """
        x = one_of("Record.decode", h, self.space)
        if like is MISSING:
            return self._explore(x)
        asked = Batch(Layout(self.space), [like])
        return self._read(x, [asked.layout.path(node) for node in asked.nodes], sparse=False)

    # Changing

    def update(self, h: Tensor | Hypervector, path: Sequence[Part], value: Any, *, old: Any = MISSING) -> Tensor:
        """The record with another value at a path; what was there is read and taken out first.

        Parameters
        ----------
        h
            A record, ``(dim, m, m)``.
        path
            Where. What is above it and is no dict or list, or an empty one, gives way.
        value
            A leaf, or nested data.
        old
            What is there now, if it cannot be read with certainty or is known anyway.

        Examples
        --------
        >>> import ghrr
        >>> from ghrr.structures import Record
        >>> codec = Record(ghrr.Space(dim=500, m=3))
        >>> h = codec.encode({"name": "Ada", "born": {"year": 1815}})
        >>> codec.decode(codec.update(h, ["born"], "London")).value
        {'name': 'Ada', 'born': 'London'}
        """
        x = one_of("Record.update", h, self.space)
        where = check_path("Record.update", path)
        if old is MISSING:
            above = [where[:depth] for depth in range(len(where))]
            x, _ = self._clear("Record.update", x, {where, *above, *self.layout.leaves(where)})
        else:
            x = x - self._bundle([old], where)[0]
        return x + self._bundle([value], where)[0]

    def delete(self, h: Tensor | Hypervector, path: Sequence[Part], *, old: Any = MISSING) -> Tensor:
        """The record without what is at a path and under it. A dict or list that held nothing else is gone too.

        Examples
        --------
        >>> import ghrr
        >>> from ghrr.structures import Record
        >>> codec = Record(ghrr.Space(dim=500, m=3))
        >>> h = codec.encode({"name": "Ada", "born": {"year": 1815}})
        >>> codec.decode(codec.delete(h, ["born"])).value
        {'name': 'Ada'}
        """
        x = one_of("Record.delete", h, self.space)
        where = check_path("Record.delete", path)
        if old is not MISSING:
            return x - self._bundle([old], where)[0]
        x, found = self._clear("Record.delete", x, {where, *self.layout.leaves(where)})
        if not found:
            raise KeyError(f"Record.delete: there is nothing at {show(where)}")
        return x

    def merge(self, first: Tensor | Hypervector, second: Tensor | Hypervector) -> Tensor:
        """Both records in one, leaf by leaf; where both have something at a path, the second one's stays.

        Examples
        --------
        >>> import ghrr
        >>> from ghrr.structures import Record
        >>> codec = Record(ghrr.Space(dim=500, m=3))
        >>> a, b = codec.encode_many([{"name": "Ada", "age": 35}, {"age": 36, "city": "London"}])
        >>> codec.decode(codec.merge(a, b)).value
        {'name': 'Ada', 'age': 36, 'city': 'London'}
        """
        x, y = (one_of("Record.merge", h, self.space) for h in (first, second))
        known = self.layout.leaves()
        _, taken = self._clear("Record.merge", y, set(known))
        prefixes = {path[:depth] for path in taken for depth in range(len(path))}
        x, _ = self._clear("Record.merge", x, {p for p in known if p in prefixes or _starts_with_one_of(p, set(taken))})
        return x + y

    def _clear(self, operation: str, x: Tensor, paths: set[Path]) -> tuple[Tensor, list[Path]]:
        """What is left of x without the leaves at these paths, and the paths at which there were some.

        Raises unless it is certain that nothing was overlooked: of many paths each may look empty while some are not,
        so that the chances of all of them count together.
        """
        found, rest = self._cancel(x, sorted(paths, key=str), odds=sparse_odds(len(paths), x))
        doubts = {path: 1 - match.probability_unknown for path, match in found.items() if not match.confident}
        if sum(doubts.values()) > 1 - self.level:
            path = max(doubts, key=lambda path: doubts[path])
            hint = "use a larger space" if operation == "Record.merge" else "give it as old=, or use a larger space"
            raise ValueError(
                f"{operation}: what is at {show(path)}, if anything, cannot be told with certainty ({found[path]}); "
                f"{hint}"
            )
        return rest, [path for path, match in found.items() if match.confident]

    # Keeping

    def state(self) -> dict[str, Any]:
        """All that is needed to read records later, besides the space: settings, known paths and values, as JSON."""
        return {
            **_FORMAT,
            "numbers": self.leaves.numbers and asdict(self.leaves.numbers),
            "level": self.level,
            "paths": [list(path) for path in self.layout.leaves()],
            "values": list(self.leaves.atoms.names),
        }

    @classmethod
    def from_state(cls, space: Space, state: dict[str, Any]) -> Record:
        """The codec that gave this state, in the same space.

        Examples
        --------
        >>> import ghrr, json
        >>> from ghrr.structures import Record
        >>> space = ghrr.Space(dim=500, m=3)
        >>> codec = Record(space)
        >>> h = codec.encode({"name": "Ada"})
        >>> later = Record.from_state(space, json.loads(json.dumps(codec.state())))
        >>> later.query(h, "name").label
        'Ada'
        """
        try:
            return cls._restore(space, state)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"Record.from_state: not the state of a record of this version ({error})") from error

    @classmethod
    def _restore(cls, space: Space, state: dict[str, Any]) -> Record:
        if any(state[key] != value for key, value in _FORMAT.items()):
            raise ValueError(f"it says { ({key: state[key] for key in _FORMAT}) }, wanted is {_FORMAT}")
        codec = cls(space, numbers=state["numbers"] and Scale(**state["numbers"]), level=state["level"])
        for path in state["paths"]:
            codec.layout.mark_leaf(codec.layout.insert(check_path("path", path)))
        codec.layout.check_places()
        for name in state["values"]:
            value_of(name)
        codec.leaves.atoms.indices(state["values"])
        return codec


def _starts_with_one_of(path: Path, starts: set[Path]) -> bool:
    return any(path[:depth] in starts for depth in range(len(path) + 1))
