r"""Sequence: elements by index, :math:`\sum_t R^t * x_t`.

Positions are bound on the left: an element is read by unbinding :math:`R^t` from the left, an index by unbinding the
element from the right. With n elements the correct answer scores 1 within about :math:`\sqrt{n/(2Dm^2)}`. Positions and
elements are independent hypervectors, so no factor needs to be shifted, for any m.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Sequence as Items
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ghrr._locks import Lock
from ghrr.algebra import bind, bind_bundle, pairwise_similarity, similarity, unbind
from ghrr.checks import check_integer, named, names_errors, value_error
from ghrr.encoding import sequences
from ghrr.hypervector import Hypervector
from ghrr.memory.match import CONFIDENCE, Match, answer_noise, make_matches
from ghrr.space import Space
from ghrr.structures.base import Structure
from ghrr.structures.certainty import is_settled
from ghrr.structures.inputs import chunks
from ghrr.structures.peel import peel
from ghrr.structures.reading import MatchList
from ghrr.structures.vocabulary import Name


@names_errors
class Sequence(Structure):
    r"""List of names as one hypervector, :math:`\sum_t R^t * x_t`.

    Elements are names or given hypervectors. R is as in :class:`ghrr.encoding.SequenceEncoder`, which encodes tensors
    with gradients. The structure stores the names and the length of the longest sequence.

    Parameters
    ----------
    space, confidence, device
        See :class:`ghrr.structures.base.Structure`.

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
    Match('not', score=1.011, margin=1.003, confident=True)
    >>> [match.label for match in words.read(h, 2, 5)]
    ['or', 'not', 'to']
    >>> words.next(h, "or").label
    'not'
    >>> last, h = words.pop(words.replace(words.append(h, "?"), 0, "To"))
    >>> last.label, words.item(h, 0).label
    ('?', 'To')
    """

    _SIZES = ("length", "names")

    def __init__(
        self, space: Space, *, confidence: float = CONFIDENCE, device: torch.device | str | None = None
    ) -> None:
        super().__init__(space, confidence=confidence, permute=False, device=device)

    def _create_tables(self) -> None:
        self.names = self._vocabulary("sequence element")
        self.encoder = sequences.SequenceEncoder(self.space).to(self.device)
        self.longest = 0
        self._lock = Lock()

    def encode(self, items: Items[Name] | Items[Items[Name]]) -> Tensor:
        """Return the hypervector of a list of names, or of each of several lists."""
        lists, single = self.names.resolve_lists(items)
        rows = torch.from_numpy(np.array(self.names.indices(chain.from_iterable(lists)), dtype=np.int64))
        lengths = torch.tensor([len(one) for one in lists], dtype=torch.long)
        self._warn_if_full(int(lengths.max()) if lists else 0, len(self.names))
        total = self.encoder.powers.bundle_rows(self.encoder.positions.base, self.names.vectors(), rows, lengths)
        self._remember_length(max(map(len, lists), default=0))
        return total[0] if single else total

    def _remember_length(self, length: int) -> None:
        with self._lock:
            self.longest = max(self.longest, length)

    def item(self, h: Tensor | Hypervector, index: int) -> Match:
        """Return the element at an index, from 0."""
        index = check_integer("index", index, least=0)
        return self._read(self._constant(h), [index])[0]

    def read(self, h: Tensor | Hypervector, start: int, stop: int) -> MatchList:
        """Return the elements from index ``start`` up to, but not including, ``stop``."""
        x = self._constant(h)
        start = check_integer("start", start, least=0)
        stop = check_integer("stop", stop, least=start)
        return self._found(x, self._read(x, range(start, stop)), len(self.names))

    def _read(self, x: Tensor, indices: Items[int]) -> list[Match]:
        found: list[Match] = []
        for chunk in chunks(len(indices), self.space):
            answers = unbind(x, self._keys(indices[chunk]), side="left")
            found += self.names.match(answers, energy=similarity(x, x), confidence=self.confidence)
        return found

    def _keys(self, indices: Items[int]) -> Tensor:
        return self.encoder.keys(torch.tensor(indices, dtype=torch.long))

    def cut(self, h: Tensor | Hypervector, start: int) -> Tensor:
        """Return the sequence from index ``start`` on, with earlier elements as noise. Differentiable w.r.t. ``h``."""
        x = self._vectors(h)
        start = check_integer("start", start, least=0)
        return self.encoder.item(x, start)

    def index(self, h: Tensor | Hypervector, name: Name) -> Match:
        """Return the index of an element; the match of an element that occurs twice is not confident."""
        x = self._constant(h)
        label = self.names.resolve(name)
        vector = self.names.vectors([label])
        answer = unbind(x, vector, side="right")
        count = max(1, self._length_bound(x))
        keys = (self._keys(range(count)[chunk]) for chunk in chunks(count, self.space))
        scores = torch.cat([pairwise_similarity(answer, chunk_keys) for chunk_keys in keys], dim=1)
        top = scores.topk(min(2, count))
        noise = answer_noise(self.space, similarity(x, x))
        [match] = make_matches(
            top.indices.tolist(), top.values, candidates=count, noise=noise, confidence=self.confidence
        )
        return self._noted(match, self.names.note(label))

    def _length_bound(self, x: Tensor) -> int:
        """Return the length of the longest sequence; at least the energy of x, which is about its length."""
        energy = round(float(similarity(x, x)))
        if energy > max(self.longest, 2 * self.space.total_dim):  # noise would be larger than any score
            raise value_error(
                f"the hypervector has the energy of {energy:,} elements, more than {self.space!r} can hold; "
                f"it was scaled, or is not a sequence"
            )
        return max(self.longest, energy)

    def next(self, h: Tensor | Hypervector, name: Name) -> Match:
        """Return the element after another one, which must occur once."""
        x = self._constant(h)
        found = self.index(x, name)
        if not found.confident:
            label = self.names.resolve(name)
            raise KeyError(named(f"the index of {label!r} is not certain, got {found}"))
        return self.item(x, found.guess + 1)

    def decode(self, h: Tensor | Hypervector) -> MatchList:
        """Return all elements from index 0 to the first index that is empty.

        Confident elements are subtracted, and the others are read again with less noise.
        """
        x = self._constant(h)
        if not x.any():
            return MatchList(unexplained=0.0)
        matches: dict[int, Match] = {}
        length = self._length_bound(x)

        def read(rest: Tensor, found: Mapping[int, Match]) -> dict[int, Match]:
            remaining = [index for index in range(length) if index not in found]
            if found and similarity(rest, rest) < 0.5:  # nothing is left
                return {}
            matches.update(zip(remaining, self._read(rest, remaining), strict=True))
            return {index: matches[index] for index in remaining if matches[index].confident}

        def remove(rest: Tensor, new: Mapping[int, Match]) -> Tensor:
            for chunk in chunks(len(new), self.space):
                names = [match.guess for match in new.values()][chunk]
                rest = rest - bind_bundle(self._keys(list(new)[chunk]), self.names.vectors(names))
            return rest

        _, rest = peel(x, read, remove)
        unknown = (index for index in range(length) if matches[index].unknown)
        return MatchList((matches[index] for index in range(next(unknown, length))), **self._left(rest))

    # Changes

    def append(self, h: Tensor | Hypervector, name: Name, *, at: int | None = None) -> Tensor:
        """Return the sequence with one more element. Differentiable with respect to ``h``.

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
            If the length cannot be read with certainty, or if there is an element at ``at``.
        """
        x = self._vector(h)
        label = self.names.resolve(name)
        at = self._length(x) if at is None else check_integer("at", at, least=0)
        if len(self.names) and (match := self.item(x, at)).confident:
            raise value_error(
                f"index {at} already has an element, got {match}; use replace(h, {at}, name), or the "
                f"length of the sequence as at="
            )
        longer = x + self._bound(at, label)
        self._warn_if_full(self._items(longer), len(self.names))
        self._remember_length(at + 1)
        return longer

    def pop(self, h: Tensor | Hypervector) -> tuple[Match, Tensor]:
        """Return the last element, and the sequence without it. The sequence is differentiable w.r.t. ``h``.

        Raises
        ------
        IndexError
            If the sequence is empty.
        ValueError
            If its length or its last element cannot be read with certainty.
        """
        x = self._vector(h)
        length = self._length(x)
        if not length:
            raise IndexError(named("the sequence is empty"))
        last = self._confident_item(x, length - 1)
        return last, x - self._bound(length - 1, last.guess)

    def replace(self, h: Tensor | Hypervector, index: int, name: Name, *, old: Name | None = None) -> Tensor:
        """Return the sequence with another element at an index. Differentiable with respect to ``h``.

        Parameters
        ----------
        h
            A sequence, ``(dim, m, m)``.
        index
            Index of the element to replace.
        name
            The new element.
        old
            The current element. By default it is read from ``h``.

        Raises
        ------
        IndexError
            If there is no element at the index.
        ValueError
            If the element cannot be read with certainty.
        """
        x = self._vector(h)
        index = check_integer("index", index, least=0)
        new = self.names.resolve(name)
        removed = self._confident_item(x, index).guess if old is None else self.names.resolve(old)
        return x - self._bound(index, removed) + self._bound(index, new)

    def _bound(self, index: int, name: str) -> Tensor:
        return bind(self.encoder.keys(index), self.names.encode([name])[0])

    def _confident_item(self, x: Tensor, index: int) -> Match:
        match = self.item(x, index)
        if match.confident:
            return match
        if is_settled(match):
            raise IndexError(named(f"there is no element at index {index}, got {match}"))
        raise value_error(
            f"the element at index {index} is not certain, got {match}; use replace(..., old=name), or a larger space"
        )

    def _length(self, x: Tensor) -> int:
        """Return the first empty index."""
        x = x.detach()
        if not x.any():
            return 0
        bound = self._length_bound(x)
        for index, match in enumerate(self._read(x, range(bound + 1))):
            if match.probability_unknown >= self.confidence:
                self._check_explained(x, index)
                return index
            if match.probability_unknown > 1 - self.confidence:
                raise value_error(
                    f"the length is not certain, got {match} at index {index}; give the index as at=, or "
                    f"use a larger space"
                )
        return bound + 1

    def _check_explained(self, x: Tensor, length: int) -> None:
        """Raise if the energy of x is larger than its length: an element that is not in the vocabulary looks empty."""
        energy = float(similarity(x, x))
        error = math.sqrt(2) * length * self.space.noise_std  # standard deviation of the energy
        if energy > length + 0.5 + 5 * error:
            raise value_error(
                f"the sequence has elements that are not in the vocabulary, about {energy - length:.0f} "
                f"from index {length} on; read it with its vocabulary, Sequence.load(path), or give the index as at="
            )

    # Files

    def _settings(self) -> dict[str, Any]:
        return {"confidence": self.confidence}

    def _seen(self) -> int:
        return self.longest

    def _restore(self, seen: Any) -> None:
        self.longest = check_integer("longest", seen, least=0)
