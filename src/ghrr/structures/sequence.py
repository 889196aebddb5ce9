r"""Sequence: elements by index, :math:`\sum_t R^t * x_t`, read at an index, in slices, or after an element.

Positions stand on the left: an element is read by unbinding :math:`R^t` from the left, an index by unbinding the
element from the right. Of n elements the right answer scores 1 within about :math:`\sqrt{n/(2Dm^2)}`. Positions and
elements are independent hypervectors, so no factor needs to be shifted, for any m.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Items
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ghrr._checks import check_integer, describe
from ghrr._locks import Lock
from ghrr.algebra import bind, pairwise_similarity, similarity, unbind
from ghrr.encoding import sequences
from ghrr.hypervector import Hypervector
from ghrr.memory.match import CONFIDENCE, Match, answer_noise, make_matches
from ghrr.space import Space
from ghrr.structures.base import Structure
from ghrr.structures.planning import answer_rate, smallest_space
from ghrr.structures.vocabulary import Name, Vocabulary, as_tensor, chunks, is_settled, one_of


class Sequence(Structure):
    r"""A list of names as one hypervector, :math:`\sum_t R^t * x_t`.

    Elements are names or hypervectors of your own. R is the base of :class:`ghrr.encoding.SequenceEncoder`, the layer
    that encodes tensors. The structure remembers names, and the length of the longest sequence.

    Parameters
    ----------
    space
        Space of the hypervectors.
    confidence
        Probability from which on a match is confident.

    Shapes
    ------
    encode: a list of names to ``(dim, m, m)``, n lists to ``(n, dim, m, m)``

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures import Sequence
    >>> words = Sequence(ghrr.Space(dim=300, m=3))
    >>> h = words.encode("to be or not to be".split())
    >>> words.item(h, 3)
    Match('not', score=1.032, margin=1.022, confident=True)
    >>> [match.label for match in words.read(h, 2, 5)]
    ['or', 'not', 'to']
    >>> words.next(h, "or").label
    'not'
    >>> last, h = words.pop(words.replace(words.append(h, "?"), 0, "To"))
    >>> last.label, words.item(h, 0).label
    ('?', 'To')
    """

    def __init__(self, space: Space, *, confidence: float = CONFIDENCE) -> None:
        super().__init__(space, confidence=confidence, permute=False)
        self.names = Vocabulary(space, "sequence element")
        self.encoder = sequences.SequenceEncoder(space)
        self.longest = 0
        self._lock = Lock()

    @classmethod
    def suggest(cls, length: int, *, names: int, m: int = 3, error: float = 0.01, **settings: Any) -> Space:
        """Return the smallest space in which a sequence answers with confidence and right.

        Parameters
        ----------
        length
            Number of elements.
        names
            Number of different names.
        m
            Size of the slots' matrices.
        error
            Share of elements that may be not confident or wrong.
        **settings
            Further arguments of :class:`ghrr.Space`.

        Examples
        --------
        >>> from ghrr.structures import Sequence
        >>> Sequence.suggest(200, names=1000)
        Space(dim=747, m=3, seed=0)
        """
        length = check_integer("Sequence.suggest", "length", length, least=1)
        names = check_integer("Sequence.suggest", "names", names, least=1)

        def rate(space: Space) -> float:
            return answer_rate(space, items=length, candidates=names)

        return smallest_space("Sequence.suggest", rate, m=m, error=error, settings=settings)

    def encode(self, items: Items[Name] | Items[Items[Name]]) -> Tensor:
        """Return the hypervector of a list of names, or of each of several lists."""
        many, single = lists_of_names("Sequence.encode", items, self.names)
        rows = torch.from_numpy(np.array(self.names.indices(chain.from_iterable(many)), dtype=np.int64))
        lengths = torch.tensor([len(one) for one in many], dtype=torch.long)
        total = self.encoder.powers.bundle_rows(self.encoder.positions.base, self.names.vectors, rows, lengths)
        self._remember_length(max(map(len, many), default=0))
        return total[0] if single else total

    def _remember_length(self, length: int) -> None:
        with self._lock:
            self.longest = max(self.longest, length)

    def item(self, h: Tensor | Hypervector, index: int) -> Match:
        """Return the element at an index, from 0."""
        index = check_integer("Sequence.item", "index", index, least=0)
        return self.read(one_of("Sequence.item", h, self.space), index, index + 1)[0]

    def read(self, h: Tensor | Hypervector, start: int, stop: int) -> list[Match]:
        """Return the elements from index ``start`` up to ``stop``, which is left out as in a slice."""
        x = one_of("Sequence.read", h, self.space)
        start = check_integer("Sequence.read", "start", start, least=0)
        stop = check_integer("Sequence.read", "stop", stop, least=start)
        found: list[Match] = []
        for chunk in chunks(stop - start, self.space):
            answers = unbind(x, self._keys(start + chunk.start, start + chunk.stop), side="left")
            found += self.names.match(answers, energy=similarity(x, x), confidence=self.confidence)
        return found

    def _keys(self, start: int, stop: int) -> Tensor:
        return self.encoder.keys(torch.arange(start, stop))

    def cut(self, h: Tensor | Hypervector, start: int) -> Tensor:
        """Return the sequence counted from ``start`` on: the element there is at index 0, those before are noise."""
        x = as_tensor("Sequence.cut", h, self.space)
        start = check_integer("Sequence.cut", "start", start, least=0)
        return self.encoder.item(x, start)

    def index(self, h: Tensor | Hypervector, name: Name) -> Match:
        """Return the index of an element; one that occurs twice is not confident."""
        x = one_of("Sequence.index", h, self.space)
        vector = self.names.lookup([self.names.resolve("Sequence.index", name)])
        answer = unbind(x, vector, side="right")
        count = max(1, self._indices_in_use(x))
        scores = torch.cat(
            [pairwise_similarity(answer, self._keys(part.start, part.stop)) for part in chunks(count, self.space)],
            dim=1,
        )
        top = scores.topk(min(2, count))
        noise = answer_noise(self.space, similarity(x, x))
        return make_matches(
            top.indices.tolist(), top.values, candidates=count, noise=noise, confidence=self.confidence
        )[0]

    def _indices_in_use(self, x: Tensor) -> int:
        """The length of the longest sequence; at least the energy of x, to which each element adds one."""
        energy = round(float(similarity(x, x)))
        if energy > max(self.longest, 2 * self.space.total_dim):  # noise would be larger than any score
            raise ValueError(
                f"Sequence: the hypervector has the energy of {energy:,} elements, more than {self.space!r} can hold; "
                f"it was scaled, or is no sequence"
            )
        return max(self.longest, energy)

    def next(self, h: Tensor | Hypervector, name: Name) -> Match:
        """Return the element after another one, which must occur once."""
        x = one_of("Sequence.next", h, self.space)
        found = self.index(x, name)
        if not found.confident:
            label = self.names.resolve("Sequence.next", name)
            raise KeyError(f"Sequence.next: the index of {label!r} is not certain: {found}")
        return self.item(x, found.guess + 1)

    def decode(self, h: Tensor | Hypervector) -> list[Match]:
        """Return all elements, from index 0 up to the first at which there is nothing."""
        x = one_of("Sequence.decode", h, self.space)
        if not x.any():
            return []
        found = []
        for match in self.read(x, 0, self._indices_in_use(x)):
            if match.unknown:
                break
            found.append(match)
        return found

    # Changes

    def append(self, h: Tensor | Hypervector, name: Name, *, at: int | None = None) -> Tensor:
        """Return the sequence with one more element.

        Parameters
        ----------
        h
            A sequence, ``(dim, m, m)``.
        name
            The new element.
        at
            Its index, which is the length of the sequence. By default the length is read from ``h``.

        Raises
        ------
        ValueError
            If the length cannot be read with certainty.
        """
        x = one_of("Sequence.append", h, self.space)
        label = self.names.resolve("Sequence.append", name)
        at = self._length("Sequence.append", x) if at is None else check_integer("Sequence.append", "at", at, least=0)
        longer = x + self._bound(at, label)
        self._remember_length(at + 1)
        return longer

    def pop(self, h: Tensor | Hypervector) -> tuple[Match, Tensor]:
        """Return the last element, and the sequence without it.

        Raises
        ------
        IndexError
            If the sequence is empty.
        ValueError
            If its length or its last element cannot be read with certainty.
        """
        x = one_of("Sequence.pop", h, self.space)
        length = self._length("Sequence.pop", x)
        if not length:
            raise IndexError("Sequence.pop: the sequence is empty")
        last = self._certain("Sequence.pop", x, length - 1)
        return last, x - self._bound(length - 1, last.guess)

    def replace(self, h: Tensor | Hypervector, index: int, name: Name, *, old: Name | None = None) -> Tensor:
        """Return the sequence with another element at an index.

        Parameters
        ----------
        h
            A sequence, ``(dim, m, m)``.
        index
            Index of the element to replace.
        name
            The new element.
        old
            The element that is there now. By default it is read from ``h``.

        Raises
        ------
        IndexError
            If there is nothing at the index.
        ValueError
            If the element cannot be read with certainty.
        """
        x = one_of("Sequence.replace", h, self.space)
        index = check_integer("Sequence.replace", "index", index, least=0)
        new = self.names.resolve("Sequence.replace", name)
        if old is None:
            gone = self._certain("Sequence.replace", x, index).guess
        else:
            gone = self.names.resolve("Sequence.replace", old)
        return x - self._bound(index, gone) + self._bound(index, new)

    def _bound(self, index: int, name: str) -> Tensor:
        return bind(self.encoder.keys(index), self.names.encode([name])[0])

    def _certain(self, operation: str, x: Tensor, index: int) -> Match:
        match = self.item(x, index)
        if match.confident:
            return match
        if is_settled(match):
            raise IndexError(f"{operation}: there is nothing at index {index}: {match}")
        raise ValueError(
            f"{operation}: the element at index {index} is not certain, got {match}; use replace(..., old=name), or a "
            f"larger space"
        )

    def _length(self, operation: str, x: Tensor) -> int:
        """The first index at which there is nothing."""
        if not x.any():
            return 0
        for index, match in enumerate(self.read(x, 0, self._indices_in_use(x) + 1)):
            if match.probability_unknown >= self.confidence:
                self._check_explained(operation, x, index)
                return index
            if match.probability_unknown > 1 - self.confidence:
                raise ValueError(
                    f"{operation}: the length is not certain, got {match} at index {index}; give the index as at=, or "
                    f"use a larger space"
                )
        return self._indices_in_use(x) + 1

    def _check_explained(self, operation: str, x: Tensor, length: int) -> None:
        """Raise if x holds more than so many elements: then one that is not in the vocabulary was read as nothing."""
        energy = float(similarity(x, x))
        error = math.sqrt(2) * length * self.space.noise_std  # of the energy of so many independent elements
        if energy > length + 0.5 + 5 * error:
            raise ValueError(
                f"{operation}: the sequence holds elements that are not in the vocabulary, about {energy - length:.0f} "
                f"after index {length}; read it with its vocabulary, Sequence.load(path), or give the index as at="
            )

    # Files

    def _settings(self) -> dict[str, Any]:
        return {"confidence": self.confidence}

    def _seen(self) -> int:
        return self.longest

    def _restore(self, seen: Any) -> None:
        self.longest = check_integer("Sequence", "longest", seen, least=0)


def lists_of_names(operation: str, items: object, names: Vocabulary) -> tuple[list[list[str]], bool]:
    """Return lists of names, and whether one list was given instead of several."""
    if isinstance(items, str) or not isinstance(items, Items):
        raise TypeError(f"{operation}: needs a list of names, got {describe(items)}")
    single = not items or isinstance(items[0], str | Tensor | Hypervector)
    return [names.resolve_all(operation, one) for one in ([items] if single else items)], single
