"""Vocabulary: a growable table of named hypervectors, and the best matches in it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ghrr._checks import check_finite, describe
from ghrr._locks import Lock
from ghrr.algebra import pairwise_similarity, similarity
from ghrr.hypervector import Hypervector
from ghrr.memory.match import CONFIDENCE, Match, answer_noise, make_matches
from ghrr.space import Space
from ghrr.unitary import unitarity_error

_CHUNK_SCORES = 1 << 22  # similarities computed at a time: 16 MiB
_MOST_ASKED = 1024  # hypervectors that were only asked for and are kept
_NOT_UNITARY = 1e-3  # error of |A^H A - I| above which a given hypervector is refused
_CHUNK_NUMBERS = 1 << 22  # complex numbers in the answers computed at a time: 32 MiB in complex64

Name = str | Tensor | Hypervector


class Vocabulary:
    """Growable table of named hypervectors.

    Looking up a new name with :meth:`indices` or :meth:`encode` adds it; storage doubles when full, so adding is
    amortised O(1). A name stands for the atom that the space, the namespace and the name determine, unless
    :meth:`define` gave it another hypervector.

    Several threads may use one vocabulary. An interrupted call adds all of its names or none.

    Parameters
    ----------
    space
        Space of the hypervectors.
    namespace
        Vocabularies of different namespaces have different atoms for the same name.
    names
        The names to start with.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures import Vocabulary
    >>> space = ghrr.Space(dim=200, m=2)
    >>> colours = Vocabulary(space, "colour", ["red", "green"])
    >>> colours.indices(["green", "blue"])
    [1, 2]
    >>> colours.match(colours.vectors[:1] + colours.vectors[1:2] * 0.1)
    [Match('red', score=1.000, margin=0.901, confident=True)]
    """

    def __init__(self, space: Space, namespace: str, names: Iterable[str] = ()) -> None:
        self.space, self.namespace = space, namespace
        self._lock = Lock()
        self._names: list[str] = []
        self._index: dict[str, int] = {}
        self._given: dict[str, Tensor] = {}  # hypervectors by name, in the table or only asked for
        self._labels: dict[str, str] = {}  # a name of each of them, by digest
        # Names and index are extended first; setting this pair makes the new rows visible in one step.
        self._rows: tuple[int, Tensor] = 0, space.zeros(0)
        self.indices(names)

    def __len__(self) -> int:
        return self._rows[0]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._at(name) >= 0

    @property
    def names(self) -> list[str]:
        """The names, in the order in which they were added."""
        return self._names[: len(self)]

    @property
    def vectors(self) -> Tensor:
        """The hypervectors of all names, ``(n, dim, m, m)``."""
        count, room = self._rows
        return room[:count]

    def _at(self, name: str) -> int:
        """Index of a name, -1 if it is not in the table."""
        at = self._index.get(name, -1)
        return at if at < len(self) else -1

    def indices(self, names: Iterable[str]) -> list[int]:
        """Return the index of each name in the table; new names are added."""
        names = list(names)
        if any(self._at(name) < 0 for name in names):
            with self._lock:
                new = [name for name in dict.fromkeys(names) if self._at(name) < 0]
                self._append(new, self._make(new))
        return [self._index[name] for name in names]

    def _make(self, names: Sequence[str]) -> Tensor:
        """The hypervectors of names that are not in the table: given ones, and atoms."""
        given = dict(self._given)  # another thread may add to it
        atoms = [name for name in names if name not in given]
        vectors = self.space.vectors(atoms, namespace=self.namespace)
        if len(atoms) == len(names):
            return vectors
        made = dict(zip(atoms, vectors, strict=True))
        return torch.stack([given[name] if name in given else made[name] for name in names])

    def _append(self, new: list[str], vectors: Tensor) -> None:
        """Add rows; the caller holds the lock."""
        count, room = self._rows
        for name in self._names[count:]:  # left by an interrupted call
            self._index.pop(name, None)
        del self._names[count:]
        total = count + len(new)
        if total > len(room):
            larger = self.space.zeros(max(total, 2 * len(room)))
            larger[:count] = room[:count]
            room = larger
        room[count:total] = vectors
        self._names.extend(new)
        self._index.update({name: count + at for at, name in enumerate(new)})
        self._rows = total, room

    def define(self, name: str, vector: Tensor | Hypervector) -> None:
        """Give a name a hypervector of your own instead of its atom.

        Parameters
        ----------
        name
            A name that is not in the vocabulary yet.
        vector
            A unitary hypervector, ``(dim, m, m)``.

        Examples
        --------
        >>> import ghrr
        >>> from ghrr.structures import Graph
        >>> space = ghrr.Space(dim=300, m=3)
        >>> age = ghrr.encoding.FractionalPower(space, n_features=1, bandwidth=5)
        >>> people = Graph(space)
        >>> people.nodes.define("36 years", age([36]))
        >>> people.neighbours(people.encode([("Ada", "age", "36 years")]), "Ada", "age")[0].label
        '36 years'
        """
        operation = f"{self.namespace}: define"
        x = self._checked(operation, vector)
        with self._lock:
            if check_name(operation, name) in self:
                if torch.equal(self.vectors[self._index[name]], x):
                    return
                raise ValueError(
                    f"{operation}: the name {name!r} already has another hypervector; choose a name that is not in use"
                )
            self._register(name, x)
            self._append([name], x[None])

    def _register(self, name: str, x: Tensor) -> None:
        """Remember a given hypervector; the caller holds the lock. Only those in the table are saved."""
        if len(self._given) > len(self) + _MOST_ASKED:  # forget those that were only asked for
            self._given = {name: vector for name, vector in self._given.items() if self._at(name) >= 0}
            self._labels = {digest: name for digest, name in self._labels.items() if name in self._given}
        self._given[name] = x
        self._labels.setdefault(_digest(x), name)

    def _checked(self, operation: str, vector: Tensor | Hypervector) -> Tensor:
        x = one_of(operation, vector, self.space)
        error = float(unitarity_error(x).max())
        if error > _NOT_UNITARY:
            raise ValueError(
                f"{operation}: the hypervector must be unitary, got |A^H A - I| up to {error:.2g}, expected at most "
                f'{_NOT_UNITARY}; use ghrr.normalize(x, to="unitary"), or encode its parts'
            )
        return x

    def resolve(self, operation: str, name: Name) -> str:
        """Return the name of a name or of a given hypervector.

        A :class:`Hypervector` is called by its expression, ``#a * b``, a tensor by a digest of its content,
        ``#3f2a91bc``. Like any name, it joins the vocabulary when it is encoded, not when it is asked for.
        """
        if isinstance(name, str) and name:
            return name
        if not isinstance(name, Tensor | Hypervector):
            return check_name(operation, name)
        x = self._checked(operation, name)
        digest = _digest(x)
        with self._lock:
            label = self._labels.get(digest)
            if label is None:
                label = f"#{name.expression if isinstance(name, Hypervector) else digest[:8]}"
                if label in self or label in self._given:
                    label = f"{label} #{digest[:8]}"  # another hypervector of the same expression
                self._register(label, x)
        return label

    def resolve_all(self, operation: str, names: object) -> list[str]:
        """Return the names of names or given hypervectors; a string by itself is refused."""
        if isinstance(names, str) or not isinstance(names, Iterable) or getattr(names, "ndim", 4) < 4:
            raise TypeError(f"{operation}: needs a list of strings, got {describe(names)}")
        return [self.resolve(operation, name) for name in names]

    def encode(self, names: Iterable[str]) -> Tensor:
        """Return the hypervectors of names, ``(len(names), dim, m, m)``; new names are added."""
        at = self.indices(names)  # first, since it may replace the table
        return self.vectors[torch.tensor(at, dtype=torch.long)]

    def lookup(self, names: Iterable[str]) -> Tensor:
        """Return the hypervectors of names, in the vocabulary or not, without adding any."""
        names = list(names)
        table = self.vectors
        at = torch.tensor([self._at(name) for name in names], dtype=torch.long)
        at[at >= len(table)] = -1  # added by another thread meanwhile
        known = at >= 0
        if bool(known.all()):
            return table[at]
        vectors = self.space.zeros(len(names))
        vectors[known] = table[at[known]]
        vectors[~known] = self._make([name for name, there in zip(names, known.tolist(), strict=True) if not there])
        return vectors

    # Finding

    def best(self, answers: Tensor, k: int = 2) -> tuple[Tensor, list[list[str]]]:
        """Scores ``(n, k)`` and names of the k most similar hypervectors, best first; fewer if there are fewer."""
        table, names = self.vectors, self._names
        k = min(k, len(table))
        step = max(1, _CHUNK_SCORES // max(1, len(table)))
        found = [pairwise_similarity(part, table).topk(k) for part in torch.split(answers, step)]
        scores = torch.cat([answers.real.new_empty(0, k), *(one.values for one in found)])
        rows = [row for one in found for row in one.indices.tolist()]
        return scores, [[names[at] for at in row] for row in rows]

    def match(
        self,
        answers: Tensor,
        *,
        energy: Tensor | None = None,
        noise: Tensor | None = None,
        confidence: float = CONFIDENCE,
    ) -> list[Match]:
        """Return the best match of each answer ``(n, dim, m, m)``.

        ``noise`` is the standard deviation of the scores, by default :func:`ghrr.memory.match.answer_noise` for
        ``energy``, which by default is the energy of the answers.
        """
        self.check_not_empty()
        if noise is None:
            noise = answer_noise(self.space, similarity(answers, answers) if energy is None else energy)
        scores, names = self.best(answers)
        return make_matches(names, scores, candidates=len(self), noise=noise, confidence=confidence)

    def members(
        self, answers: Tensor, *, energy: Tensor | None = None, confidence: float = CONFIDENCE, bound: bool = True
    ) -> list[list[Match]]:
        """Return every name that is more likely than not to be in each answer, best first.

        Each name is judged by itself, with prior odds of one to the size of the vocabulary.
        """
        self.check_not_empty()
        table, names = self.vectors, self._names
        energy = similarity(answers, answers) if energy is None else energy.expand(len(answers))
        noise = answer_noise(self.space, energy, bound=bound)
        step = max(1, _CHUNK_SCORES // len(table))
        found: list[list[Match]] = []
        for part, deviation in zip(torch.split(answers, step), torch.split(noise, step), strict=True):
            scores = pairwise_similarity(part, table)
            for row, sigma in zip(scores, deviation, strict=True):
                # The odds are even at 1/2 + σ² log N: lower scores need not be judged.
                likely = (row > 0.5 + float(sigma) ** 2 * math.log(len(table))).nonzero()[:, 0]
                order = likely[row[likely].argsort(descending=True, stable=True)]
                labels = [[names[at]] for at in order.tolist()]
                found.append(
                    make_matches(
                        labels,
                        row[order, None],
                        candidates=1,
                        noise=sigma,
                        confidence=confidence,
                        odds=float(len(table)),
                    )
                )
        return found

    def check_not_empty(self) -> None:
        """Raise if there is no name to choose from."""
        if not len(self):
            raise ValueError(
                f"{self.namespace}: the vocabulary is empty, so no answer can be recognised; encode something first, "
                f"or read the structure together with its vectors from a file, with load(path)"
            )

    # Files

    def state(self) -> dict[str, Any]:
        """Return the names, as JSON, and which of them have a given hypervector."""
        return {"names": self.names, "given": sorted(self.given_vectors())}

    def given_vectors(self) -> dict[str, Tensor]:
        """Return the hypervectors that :meth:`define` gave, by name."""
        return {name: vector for name, vector in sorted(dict(self._given).items()) if self._at(name) >= 0}

    def restore(self, state: Mapping[str, Any], given: Mapping[str, Tensor]) -> None:
        """Add the names of a state, and the hypervectors that were given."""
        names = state["names"]
        if not isinstance(names, list) or len(set(check_names(self.namespace, names))) < len(names):
            raise ValueError(f"{self.namespace}: needs a list of different names")
        if sorted(given) != sorted(state["given"]) or not set(given) <= set(names):
            raise ValueError(f"{self.namespace}: the given hypervectors do not fit the names")
        checked = {name: self._checked(self.namespace, vector) for name, vector in given.items()}
        with self._lock:
            for name, vector in checked.items():
                self._register(name, vector)
            self._append(names, self._make(names))


def _digest(x: Tensor) -> str:
    return hashlib.sha256(torch.view_as_real(x.resolve_conj().contiguous()).numpy().tobytes()).hexdigest()


def chunks(count: int, space: Space, each: int = 1) -> list[slice]:
    """Slices of ``range(count)`` that fit in memory, where every index needs ``each`` hypervectors."""
    step = max(1, _CHUNK_NUMBERS // (each * space.total_dim))
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def sparse_odds(count: int, x: Tensor) -> float:
    """Prior odds that one of ``count`` keys holds nothing in x: the energy of x estimates how many are in use."""
    return max(1.0, count / max(1.0, float(similarity(x, x))) - 1)


def is_settled(match: Match) -> bool:
    """Whether an answer is certain, or it is certain that there is none: only then may something be changed."""
    return match.confident or match.probability_unknown >= match.required_confidence


def one_of(operation: str, x: Tensor | Hypervector, space: Space) -> Tensor:
    """Return one hypervector of a space as a tensor; raise for a batch."""
    one = as_tensor(operation, x, space)
    if one.ndim != 3:
        raise ValueError(f"{operation}: needs one hypervector, (dim, m, m), not a batch; got {describe(one)}")
    return one


def as_tensor(operation: str, x: Tensor | Hypervector, space: Space) -> Tensor:
    """Return a tensor or :class:`Hypervector` as a tensor on the CPU; raise if it is of another space."""
    tensor = space.check(x, operation)
    if tensor.is_meta:
        raise ValueError(f"{operation}: x must hold numbers, got {describe(tensor)} on the device 'meta'")
    check_finite(operation, "x", tensor)
    return tensor.detach().cpu()


def check_name(operation: str, name: object) -> str:
    """Return ``name``; raise unless it is a string that is not empty."""
    if not isinstance(name, str) or not name:
        raise TypeError(f"{operation}: needs a string that is not empty, or a hypervector, got {describe(name)}")
    return name


def check_names(operation: str, names: object) -> list[str]:
    """Return ``names`` as a list; raise unless they are several names, and not one string by itself."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TypeError(f"{operation}: needs a list of strings, got {describe(names)}")
    return [check_name(operation, name) for name in names]
