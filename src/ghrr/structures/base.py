"""Structure: settings, validation, devices and files that all structures share."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from ghrr.algebra import shift, similarity
from ghrr.checks import check_device, check_integer, check_names, describe, type_error, value_error, warn, without_name
from ghrr.files import read_container, write_container
from ghrr.hypervector import Hypervector
from ghrr.memory.match import CONFIDENCE, Match, check_confidence, required_score
from ghrr.space import Space, check_space
from ghrr.structures.fullness import is_full, warn_of_full_space
from ghrr.structures.inputs import check_vector, check_vectors
from ghrr.structures.permuted_paths import PermutedPaths
from ghrr.structures.planning import answer_rate, suggest_space
from ghrr.structures.reading import HALF, MatchList
from ghrr.structures.vocabulary import Vocabulary

_FORMAT, _VERSION = "ghrr-structure", 1
_VECTORS, _GIVEN = "vectors.", "given."
_SINGLE = "x"
_MAX_DECODED = 1000
TOO_SMALL = "the space is too small for what the hypervector contains, so answers are missing"

Vectors = Tensor | dict[str, Tensor] | None


class Structure:
    """Base class of all structures.

    A structure encodes Python data as one hypervector and reads it again. It stores the vocabulary of all data that it
    has encoded, because reading compares with known names. Names can be replaced by given unitary hypervectors
    everywhere.

    ===========  =======================================================================================
    method       result
    ===========  =======================================================================================
    ``encode``   hypervector, ``(dim, m, m)``
    queries      a :class:`ghrr.Match` if there is one answer, a list of them, best first, if there can be several
    ``decode``   Record and Tree: a :class:`ghrr.structures.Reading`; Sequence, Chain and Stack: a
                 :class:`ghrr.structures.MatchList`, by index; HashTable, Set, NGrams, Graph and Automaton: a
                 :class:`ghrr.structures.MatchDict` by key, member, n-gram, edge or transition. All say whether they
                 are ``complete``.
    changes      the changed hypervector; the argument is not modified
    ===========  =======================================================================================

    If the space is too small for the data, encoding warns with :class:`ghrr.structures.CapacityWarning`. A query with a
    name that is not in the vocabulary says so in the ``note`` of its answer, with similar names.

    The score of a match is a similarity with the expected value 1. For n-grams and set members it is a count.

    Hypervectors in the vocabulary are constants, and matches are Python numbers: neither has gradients. Changes, and
    methods that return a part of a structure as a tensor, are differentiable with respect to the given hypervector.

    Parameters
    ----------
    space
        Space of the hypervectors.
    confidence
        Probability from which a match is confident.
    permute
        Shift the factor at position j of a product by j slots before binding, so that the order of factors matters. By
        default only for m = 1, where binding commutes. For larger m binding alone distinguishes orders, but products
        of the same factors in another order keep a similarity of about 1/m². With shifts they are independent, which
        gives more confident answers at small m.
    device
        Device of the vocabulary and of all results, the CPU by default. Hypervectors to read must be on it.
    """

    _SIZES: ClassVar[tuple[str, str]]  # arguments of ``suggest``: number of items, and of candidates for an answer
    _DEFAULT_CANDIDATES: ClassVar[int | None] = None
    _SEVERAL: ClassVar[bool] = False  # whether a query can have several answers

    def __init__(
        self,
        space: Space,
        *,
        confidence: float = CONFIDENCE,
        permute: bool | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        if permute is not None and not isinstance(permute, bool):
            raise type_error(f"permute must be True, False or None, got {describe(permute)}")
        self.space = check_space(space)
        self.confidence = check_confidence(confidence)
        self.permute = space.m == 1 if permute is None else permute
        self.device = check_device(device)
        self.permuted: PermutedPaths | None = None
        self._create_tables()

    def _create_tables(self) -> None:
        """Create the vocabularies and other tables of a subclass; the settings are already set."""

    def _vocabulary(self, namespace: str) -> Vocabulary:
        return Vocabulary(self.space, namespace, device=self.device)

    def _permuted_paths(self, vectors: Callable[[Sequence[Any]], Tensor]) -> PermutedPaths:
        return PermutedPaths(self.space, vectors, independent=self.permute, device=self.device)

    def _zeros(self, *batch: int) -> Tensor:
        return self.space.zeros(*batch).to(self.device)

    # Input

    def _vectors(self, h: Tensor | Hypervector) -> Tensor:
        """Return hypervectors of any batch shape as a tensor, with their gradients."""
        return check_vectors(h, self.space, self.device)

    def _vector(self, h: Tensor | Hypervector) -> Tensor:
        """Return one hypervector as a tensor, with its gradients."""
        return check_vector(h, self.space, self.device)

    def _constant(self, h: Tensor | Hypervector) -> Tensor:
        """Return one hypervector as a tensor without gradients, for results that are Python numbers."""
        return self._vector(h).detach()

    def _shift(self, x: Tensor, position: int) -> Tensor:
        """Shift the factor at a position of a product; a negative position undoes the shift."""
        if not self.permute or not position:
            return x
        if abs(position) >= self.space.dim:
            raise value_error(
                f"a shift by {abs(position)} slots equals a shift by "
                f"{abs(position) % self.space.dim} in a space of {self.space.dim} slots; use a larger dim, or "
                f"permute=False"
            )
        return shift(x, position)

    @staticmethod
    def _limit(limit: int | None) -> int:
        """Return the maximum number of elements that ``decode`` reads."""
        return _MAX_DECODED if limit is None else check_integer("limit", limit, least=0)

    @staticmethod
    def _warn_if_cut(count: int, limit: int | None) -> None:
        """Warn that ``decode`` stopped at its default limit."""
        if limit is None and count >= _MAX_DECODED:
            warn(
                f"stopped after {_MAX_DECODED} elements, there may be more; pass limit= to read more, or to silence "
                f"this warning"
            )

    # Capacity and results

    @classmethod
    def suggest(cls, items: int | None = None, *, m: int = 3, error: float = 0.01, **sizes_and_settings: Any) -> Space:
        """Return the smallest space in which a structure answers confidently and correctly.

        Every structure has its own names for the two sizes of its data, the first of which can be positional:

        =========  ===========================================  =============================================
        structure  number of items in one hypervector           number of candidates for an answer
        =========  ===========================================  =============================================
        Record     ``leaves``: values of the largest record     ``values``: most different values at one path
        Tree       ``nodes``                                    ``labels``: different labels
        Sequence   ``length``                                   ``names``: different names
        Chain      ``length``                                   ``names``: different names
        Stack      ``size``: elements                           ``names``: different names
        HashTable  ``entries``                                  ``values``: different values
        Set        ``members``; for a multiset, the sum of the  ``names``: different members that ``decode`` tries;
                   squared counts                               by default 1, for queries of single members
        NGrams     ``grams``; for repeated n-grams, the sum of  ``names``: different elements
                   the squared counts
        Graph      ``edges``                                    ``nodes``
        Automaton  ``transitions``                              ``states``
        =========  ===========================================  =============================================

        Parameters
        ----------
        items
            The first size.
        m
            Size of the matrix in each slot.
        error
            Largest accepted share of answers that are missed, unconfident or wrong. For a chain each element is read
            after those before it.
        **sizes_and_settings
            The sizes by name, and further arguments of :class:`ghrr.Space`.

        Examples
        --------
        >>> from ghrr.structures import Graph, Record, Set
        >>> Record.suggest(20, values=1000)
        Space(dim=74, m=3, seed=0)
        >>> Graph.suggest(edges=288, nodes=176, m=3)
        Space(dim=854, m=3, seed=0)
        >>> Set.suggest(100, names=1000, seed=7)
        Space(dim=324, m=3, seed=7)
        """
        if items is not None:
            if cls._SIZES[0] in sizes_and_settings:
                raise type_error(f"{cls._SIZES[0]} must be given once, got it by position and by name")
            sizes_and_settings[cls._SIZES[0]] = items
        if cls._DEFAULT_CANDIDATES is not None:
            sizes_and_settings.setdefault(cls._SIZES[1], cls._DEFAULT_CANDIDATES)
        missing = [name for name in cls._SIZES if name not in sizes_and_settings]
        if missing:
            raise type_error(f"needs {' and '.join(cls._SIZES)}, got no {' and no '.join(missing)}")
        count, candidates = (check_integer(one, sizes_and_settings.pop(one), least=1) for one in cls._SIZES)
        return suggest_space(
            lambda space: cls._rate(space, count, candidates), m=m, error=error, settings=sizes_and_settings
        )

    @classmethod
    def _rate(cls, space: Space, items: int, candidates: int) -> float:
        """Return the expected share of queries that are answered confidently and correctly."""
        return answer_rate(space, items=items, candidates=candidates, several=cls._SEVERAL)

    def _warn_if_full(self, items: int, candidates: int, *, bound: bool = True) -> None:
        """Warn if the space cannot hold this many items; see :mod:`ghrr.structures.fullness`.

        Every method that encodes calls this, with the largest number of items in one hypervector and the number of
        candidates for an answer.
        """
        if is_full(self.space, items, candidates, confidence=self.confidence, bound=bound):
            candidates = max(1, candidates)
            warn_of_full_space(self.space, items, candidates, lambda: self._large_enough(items, candidates))

    def _large_enough(self, items: int, candidates: int) -> Space:
        """Return the space that ``suggest`` recommends, with the settings of this one."""
        settings = {f.name: getattr(self.space, f.name) for f in fields(self.space) if f.init}
        if isinstance(settings["rotation"], Tensor) and settings["rotation"].ndim == 3:  # of this dim only
            settings["rotation"] = "shared"
        del settings["dim"]
        space = type(self).suggest(**dict(zip(self._SIZES, (items, candidates), strict=True)), **settings)
        # ``suggest`` is for the default confidence; a stricter one bounds the variance of the noise in proportion.
        required, usual = (required_score(1.0, odds=candidates, confidence=c) for c in (self.confidence, CONFIDENCE))
        return replace(space, dim=math.ceil(space.dim * max(1.0, required / usual)))

    @staticmethod
    def _items(x: Tensor) -> int:
        """Return the number of items in hypervectors, at most, by their energy."""
        energy = similarity(x.detach(), x.detach())
        return max(1, round(float(energy.max()))) if energy.numel() else 1

    def _can_hold(self, x: Tensor, candidates: int) -> bool:
        """Return whether the space can hold what a hypervector contains, by its energy."""
        return not is_full(self.space, float(similarity(x, x)), candidates, confidence=self.confidence)

    def _found(self, x: Tensor, matches: Sequence[Match], candidates: int, note: str = "") -> MatchList:
        """Return the answers of a query that can have several."""
        complete = self._can_hold(x, candidates)
        if not complete:
            note = f"{note}; {TOO_SMALL}" if note else TOO_SMALL
        return MatchList(matches, complete=complete, note=note)

    @staticmethod
    def _noted(match: Match, note: str) -> Match:
        """Return a match with a note, unless it is confident."""
        return replace(match, note=note) if note and not match.confident else match

    @staticmethod
    def _left(rest: Tensor) -> dict[str, Any]:
        """Return ``complete`` and ``unexplained`` for what is left of a decoded hypervector."""
        energy = float(similarity(rest, rest))
        return {"complete": energy < HALF, "unexplained": energy}

    # Files

    def save(
        self, path: str | os.PathLike[str], vectors: Tensor | Hypervector | Mapping[str, Any] | None = None
    ) -> None:
        """Write the structure with its vocabulary, and hypervectors, to one safetensors file, atomically.

        Parameters
        ----------
        path
            File to write, usually ``*.safetensors``.
        vectors
            A hypervector, a batch, or a mapping of names to them; None to write only the vocabulary.

        Examples
        --------
        >>> import ghrr, tempfile, pathlib
        >>> from ghrr.structures import Graph
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "family.safetensors"
        >>> family = Graph(ghrr.Space(dim=300, m=3))
        >>> family.save(path, family.encode([("Byron", "father of", "Ada")]))
        >>> family, h = Graph.load(path)
        >>> family.neighbours(h, "Byron", "father of")[0].label
        'Ada'
        """
        items = {} if vectors is None else vectors if isinstance(vectors, Mapping) else {_SINGLE: vectors}
        tensors: dict[str, Tensor] = {}
        for name, x in items.items():
            if not isinstance(name, str) or not name.isprintable():
                raise type_error(f"the name of a hypervector must be a printable string, got {name!r:.80}")
            tensors[_VECTORS + name] = self._vectors(x).detach().cpu()
        for kind, vocabulary in self._vocabularies().items():
            given = vocabulary.given_vectors()
            tensors |= {f"{_GIVEN}{kind}.{name}": vector.cpu() for name, vector in given.items()}
        form = "none" if vectors is None else "mapping" if isinstance(vectors, Mapping) else "single"
        header = {"state": self.state(), "vectors": form}
        write_container(path, self.space, header, tensors, kind=_FORMAT, version=_VERSION)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, device: torch.device | str | None = None) -> tuple[Self, Any]:
        """Read a file that :meth:`save` wrote.

        Returns
        -------
        structure, vectors
            The structure with its vocabulary, and the hypervectors as they were given to :meth:`save`: a tensor, a
            dict of tensors, or None. All are on ``device``, the CPU by default.
        """

        def parse(space: Space, header: dict[str, Any], tensors: dict[str, Tensor]) -> tuple[Self, Vectors]:
            given = {name: tensor for name, tensor in tensors.items() if name.startswith(_GIVEN)}
            structure = cls.from_state(space, header["state"], given=given, device=device)
            items = {name.removeprefix(_VECTORS): x for name, x in tensors.items() if name.startswith(_VECTORS)}
            if len(items) + len(given) < len(tensors):
                raise ValueError(f"the file contains tensors with unknown names, {sorted(tensors)}")
            items = {name: structure._vectors(x.to(structure.device)) for name, x in items.items()}
            match header["vectors"]:
                case "none" if not items:
                    return structure, None
                case "single" if items.keys() == {_SINGLE}:
                    return structure, items[_SINGLE]
                case "mapping":
                    return structure, items
            raise ValueError(f"the header lists {header['vectors']!r} vectors, but the file has {sorted(items)}")

        return read_container(path, parse, kind=_FORMAT, version=_VERSION)

    def state(self) -> dict[str, Any]:
        """Return everything needed to read hypervectors later, except the space and given hypervectors, as JSON."""
        return {
            "structure": type(self).__name__,
            "settings": self._settings(),
            "vocabulary": {kind: vocabulary.state() for kind, vocabulary in self._vocabularies().items()},
            "seen": self._seen(),
        }

    @classmethod
    def from_state(
        cls,
        space: Space,
        state: Mapping[str, Any],
        *,
        given: Mapping[str, Tensor] | None = None,
        device: torch.device | str | None = None,
    ) -> Self:
        """Return the structure with a state from :meth:`state`, in the same space.

        ``given`` maps ``given.<vocabulary>.<name>`` to the given hypervectors.

        Examples
        --------
        >>> import ghrr, json
        >>> from ghrr.structures import Set
        >>> space = ghrr.Space(dim=300, m=3)
        >>> fruit = Set(space)
        >>> h = fruit.encode(["apple", "plum"])
        >>> sorted(Set.from_state(space, json.loads(json.dumps(fruit.state()))).decode(h))
        ['apple', 'plum']
        """
        try:
            if state["structure"] != cls.__name__:
                raise ValueError(f"state of a {state['structure']}, expected a {cls.__name__}")
            structure = cls(space, **state["settings"], device=device)
            tables = structure._vocabularies()
            if state["vocabulary"].keys() != tables.keys():
                raise ValueError(f"vocabularies {sorted(state['vocabulary'])}, expected {sorted(tables)}")
            for kind, table in tables.items():
                prefix = f"{_GIVEN}{kind}."
                given_here = {
                    name.removeprefix(prefix): x for name, x in (given or {}).items() if name.startswith(prefix)
                }
                table.restore(state["vocabulary"][kind], given_here)
            structure._restore(state["seen"])
        except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
            raise value_error(f"not the state of a {cls.__name__} of this version ({without_name(error)})") from error
        return structure

    def _vocabularies(self) -> dict[str, Vocabulary]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Vocabulary)}

    def _settings(self) -> dict[str, Any]:
        """Return the arguments of the constructor, except space and device, as JSON."""
        return {"confidence": self.confidence, "permute": self.permute}

    def _seen(self) -> Any:
        """Return what the structure stores besides its vocabulary, as JSON: by default the permuted paths."""
        return None if self.permuted is None else [list(path) for path in self.permuted.seen]

    def _restore(self, seen: Any) -> None:
        """Restore what :meth:`_seen` returned."""
        if self.permuted is not None:
            self.permuted.add(tuple(check_names(path)) for path in seen)
