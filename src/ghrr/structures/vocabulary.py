"""Vocabulary: a growable table of named hypervectors, and the best matches in it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr._similar import did_you_mean
from ghrr.algebra import pairwise_similarity, similarity
from ghrr.checks import check_device, check_names, describe, names_errors, type_error, value_error
from ghrr.encoding.growing_table import NamedTable
from ghrr.hypervector import Hypervector
from ghrr.memory.match import CONFIDENCE, Match, answer_noise, make_matches, required_score
from ghrr.memory.search import keep_best
from ghrr.space import Space
from ghrr.structures.inputs import check_name, check_vector, chunks
from ghrr.unitary import unitarity_error

_CHUNK_SCORES = 1 << 22  # similarities computed at a time: 16 MiB
_MAX_UNUSED = 1024  # given hypervectors that are kept although they were only queried
_NOT_UNITARY = 1e-3  # error of |A^H A - I| above which a given hypervector is refused

Name = str | Tensor | Hypervector
Integers = NDArray[np.int64]


@names_errors
class Vocabulary:
    """Growable table of named hypervectors.

    Looking up a new name with :meth:`indices` or :meth:`encode` adds it; storage doubles when full, so adding is
    amortised O(1). A name stands for the atom that the space, the namespace and the name determine, unless
    :meth:`define` gave it another hypervector. The hypervectors are constants without gradients.

    Several threads may use one vocabulary. An interrupted call adds all of its names or none.

    Parameters
    ----------
    space
        Space of the hypervectors.
    namespace
        Vocabularies of different namespaces have different atoms for the same name.
    names
        The names to start with.
    device
        Device of the hypervectors, the CPU by default.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures import Vocabulary
    >>> space = ghrr.Space(dim=200, m=2)
    >>> colours = Vocabulary(space, "colour", ["red", "green"])
    >>> colours.indices(["green", "blue"])
    [1, 2]
    >>> colours.match(colours.vectors(["red"]) + colours.vectors(["green"]) * 0.1)
    [Match('red', score=1.002, margin=0.883, confident=True)]
    """

    def __init__(
        self,
        space: Space,
        namespace: str,
        names: Iterable[str] = (),
        *,
        device: torch.device | str | None = None,
    ) -> None:
        self.space, self.namespace = space, namespace
        self.device = check_device(device)
        self._table = NamedTable(space, device=self.device)
        self._given: dict[str, Tensor] = {}  # given hypervectors by name, encoded or only queried
        self._names_of_given: dict[str, str] = {}  # their names, by digest
        self.indices(names)

    def __len__(self) -> int:
        return len(self._table)

    def __contains__(self, name: object) -> bool:
        return name in self._table

    @property
    def names(self) -> list[str]:
        """The names, in the order in which they were added."""
        return self._table.names

    def vectors(self, names: Iterable[str] | None = None) -> Tensor:
        """Return the hypervectors of names without adding any, or of the whole vocabulary.

        Shapes
        ------
        output: ``(len(names), dim, m, m)``
        """
        if names is None:
            return self._table.rows
        names = list(names)
        rows = self._table.find(names)
        new = [name for name, row in zip(names, rows, strict=True) if row < 0]
        index = torch.tensor(rows, dtype=torch.long)
        if not new:
            return self._table.rows[index]
        known = index >= 0
        vectors = self._table.rows.new_empty((len(names), *self.space.shape))
        vectors[known] = self._table.rows[index[known]]
        vectors[~known] = self._make(new)
        return vectors

    def indices(self, names: Iterable[str]) -> list[int]:
        """Return the index of each name in the table; new names are added."""
        return self._table.indices(list(names), self._make)

    def encode(self, names: Iterable[str]) -> Tensor:
        """Return the hypervectors of names, ``(len(names), dim, m, m)``; new names are added."""
        index = self.indices(names)  # first, because it can replace the table
        return self._table.rows[torch.tensor(index, dtype=torch.long)]

    def _make(self, names: Sequence[str]) -> Tensor:
        """Return the hypervectors of names that are not in the table: given ones and atoms."""
        given = dict(self._given)  # another thread may add to it
        atoms = [name for name in names if name not in given]
        vectors = self.space.vectors(atoms, namespace=self.namespace).to(self.device)
        if len(atoms) == len(names):
            return vectors
        vector_of = dict(zip(atoms, vectors, strict=True)) | given
        return torch.stack([vector_of[name] for name in names])

    # Given hypervectors

    @names_errors("{self.namespace}: define")
    def define(self, name: str, vector: Tensor | Hypervector) -> None:
        """Use a given hypervector for a name instead of its atom.

        Parameters
        ----------
        name
            A name that is not in the vocabulary yet.
        vector
            A unitary hypervector, ``(dim, m, m)``, without gradients.

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
        x = self._checked(vector)
        with self._table.lock:
            row = self._table.index(check_name(name))
            if row >= 0:
                if torch.equal(self._table.rows[row], x):
                    return
                raise value_error(f"the name {name!r} already has a different hypervector; choose an unused name")
            self._register(name, x)
            self._table.append_named([name], x[None])

    def _register(self, name: str, x: Tensor) -> None:
        """Store a given hypervector; the caller holds the lock. Only those in the table are saved."""
        if len(self._given) > len(self) + _MAX_UNUSED:  # drop those that were only queried
            self._given = {name: vector for name, vector in self._given.items() if name in self}
            names = self._names_of_given.items()
            self._names_of_given = {digest: name for digest, name in names if name in self._given}
        self._given[name] = x
        self._names_of_given.setdefault(_digest(x), name)

    def _checked(self, vector: Tensor | Hypervector) -> Tensor:
        x = check_vector(vector, self.space, self.device)
        if x.requires_grad:
            raise value_error(
                "a vocabulary stores constants, got a hypervector that requires gradients; give "
                "x.detach(), or bind and bundle tensors with ghrr.bind and ghrr.bundle"
            )
        error = float(unitarity_error(x).max())
        if error > _NOT_UNITARY:
            raise value_error(
                f"the hypervector must be unitary, got |A^H A - I| up to {error:.2g}, expected at most "
                f'{_NOT_UNITARY}; use ghrr.normalize(x, to="unitary"), or encode its parts'
            )
        return x

    def resolve(self, name: Name) -> str:
        """Return a name as it is, and the name of a given hypervector.

        A :class:`ghrr.Hypervector` is named by its expression, ``#a * b``, a tensor by a digest of its content,
        ``#3f2a91bc``. Encoding adds this name to the vocabulary, querying does not.
        """
        if isinstance(name, str) and name:
            return name
        if not isinstance(name, Tensor | Hypervector):
            return check_name(name)
        x = self._checked(name)
        digest = _digest(x)
        with self._table.lock:
            label = self._names_of_given.get(digest)
            if label is None:
                label = f"#{name.expression if isinstance(name, Hypervector) else digest[:8]}"
                if label in self or label in self._given:
                    label = f"{label} #{digest[:8]}"  # another hypervector with the same expression
                self._register(label, x)
        return label

    def resolve_all(self, names: object) -> list[str]:
        """Return the names of a list of names and given hypervectors; raise for a single string."""
        if isinstance(names, str) or not isinstance(names, Iterable) or getattr(names, "ndim", 4) < 4:
            raise type_error(f"needs a list of strings, got {describe(names)}")
        return [self.resolve(name) for name in names]

    def resolve_lists(self, items: object) -> tuple[list[list[str]], bool]:
        """Return lists of names, and whether one list was given instead of several."""
        if isinstance(items, str) or not isinstance(items, Sequence):
            raise type_error(f"needs a list of names, got {describe(items)}")
        single = not items or isinstance(items[0], str | Tensor | Hypervector)
        return [self.resolve_all(names) for names in ([items] if single else items)], single

    def note(self, *names: str) -> str:
        """Return a note on the first name that is neither in the vocabulary nor given, or nothing if all are known."""
        for name in names:
            if name not in self and name not in self._given:
                return f"unknown name {name!r}{did_you_mean(name, self.names)}"
        return ""

    # Clean-up

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
        scores, rows = self.best(answers)
        names = self.names
        labels = [[names[row] for row in pair] for pair in rows.tolist()]
        return make_matches(labels, scores, candidates=len(self), noise=noise, confidence=confidence)

    def best(
        self, answers: Tensor, indices: Integers | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the scores and indices of the two names that are most similar to each answer, best first, on the CPU.

        Parameters
        ----------
        answers
            Hypervectors.
        indices
            Names to choose from, in ascending order; by default all.
        mask
            Which of these names are candidates for each answer; the score of other names is -inf.

        Shapes
        ------
        answers: ``(n, dim, m, m)``; indices: ``(k,)``; mask: ``(n, k)``; outputs: ``(n, min(2, k))``
        """
        found: tuple[Tensor, Tensor] | None = None
        for columns, rows, vectors in self.candidates(len(answers), indices):
            scores = pairwise_similarity(answers, vectors)
            if mask is not None:
                scores = scores.masked_fill(~mask[:, columns].to(scores.device), -torch.inf)
            found = keep_best(found, scores, rows, 2)
        if found is None:
            return answers.real.new_empty(len(answers), 0).cpu(), torch.empty(len(answers), 0, dtype=torch.long)
        return found[0].cpu(), found[1].cpu()

    def candidates(self, answers: int, indices: Integers | None = None) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Yield some of the names in chunks, which fit in memory together with their scores for so many answers.

        Yields
        ------
        columns, rows, vectors
            The names as a slice of ``indices``, their rows in the table, and their hypervectors.
        """
        table = self.vectors()
        count = len(table) if indices is None else len(indices)
        contiguous = indices is None or (count > 0 and indices[-1] - indices[0] == count - 1)  # no copy is needed
        first = 0 if indices is None or not count else int(indices[0])
        step = max(1, _CHUNK_SCORES // max(1, answers))
        if not contiguous:
            step = min(step, chunks(count, self.space)[0].stop if count else 1)
        for start in range(0, count, step):
            columns = slice(start, min(start + step, count))
            if indices is None or contiguous:
                rows = torch.arange(first + columns.start, first + columns.stop, device=table.device)
                yield columns, rows, table[first + columns.start : first + columns.stop]
            else:
                rows = torch.from_numpy(indices[columns]).to(table.device)
                yield columns, rows, table[rows]

    def members(
        self,
        answers: Tensor,
        *,
        energy: Tensor | None = None,
        confidence: float = CONFIDENCE,
        bound: bool = True,
        odds: float = 1.0,
    ) -> list[list[Match]]:
        """Return all names that are probably in each answer, best first.

        Each name is judged separately, with prior odds of one to the size of the vocabulary, times ``odds``: the prior
        odds that an answer has no name. A caller that tries many answers gives their number.
        """
        self.check_not_empty()
        table, names = self.vectors(), self.names
        energy = similarity(answers, answers) if energy is None else energy.expand(len(answers))
        noise = answer_noise(self.space, energy, bound=bound)
        odds = odds * len(table)
        threshold = required_score(noise.square(), odds=odds)
        step = max(1, _CHUNK_SCORES // len(table))
        found: list[list[Match]] = [[] for _ in range(len(answers))]
        for start in range(0, len(answers), step):
            scores = pairwise_similarity(answers[start : start + step], table)
            likely = (scores > threshold[start : start + step, None]).nonzero()
            rows, columns = likely[:, 0], likely[:, 1]
            matches = make_matches(
                [[names[column]] for column in columns.tolist()],
                scores[rows, columns][:, None],
                candidates=1,
                noise=noise[start + rows],
                confidence=confidence,
                odds=odds,
            )
            for row, match in zip(rows.tolist(), matches, strict=True):
                found[start + row].append(match)
        return [sorted(matches, key=lambda match: -match.score) for matches in found]

    def check_not_empty(self) -> None:
        """Raise if the vocabulary has no names."""
        if not len(self):
            raise value_error(
                f"{self.namespace}: the vocabulary is empty, so an answer has no candidates; encode data in this "
                f"process first (another process, such as a worker of a DataLoader, adds names to a copy of its own), "
                f"or load the structure together with its hypervectors with load(path)"
            )

    # Files

    def state(self) -> dict[str, Any]:
        """Return the names, and those with a given hypervector, as JSON."""
        return {"names": self.names, "given": sorted(self.given_vectors())}

    def given_vectors(self) -> dict[str, Tensor]:
        """Return the given hypervectors in the vocabulary, by name."""
        return {name: vector for name, vector in sorted(dict(self._given).items()) if name in self}

    def restore(self, state: Mapping[str, Any], given: Mapping[str, Tensor]) -> None:
        """Add the names of a state, and the given hypervectors."""
        names = state["names"]
        if not isinstance(names, list) or len(set(check_names(names))) < len(names):
            raise ValueError(f"{self.namespace}: needs a list of different names")
        if sorted(given) != sorted(state["given"]) or not set(given) <= set(names):
            raise ValueError(f"{self.namespace}: the given hypervectors do not fit the names")
        checked = {name: self._checked(vector.to(self.device)) for name, vector in given.items()}
        with self._table.lock:
            for name, vector in checked.items():
                self._register(name, vector)
            self._table.append_named(names, self._make(names))


def _digest(x: Tensor) -> str:
    return hashlib.sha256(torch.view_as_real(x.resolve_conj().contiguous()).cpu().numpy().tobytes()).hexdigest()
