r"""Bags: fields whose values are sets of weighted features, such as the trigrams of a text.

A value becomes :math:`\sum_g w_g x_g / \lVert w \rVert` over its features g. The similarity of two values is the cosine
of their weights. Features and their hypervectors by kind:

- ``text``: trigrams of the letters and digits of each word, between two spaces, bound in order:
  :math:`x_a * y_b * z_c`, with different atoms at each position. A trigram that occurs c times has the weight
  :math:`(1 + \ln c)\,\mathrm{idf}^{1.5}`
- ``category``, ``boolean``: the value itself, an atom
- ``set``: the elements of a list, atoms; weight :math:`\sqrt{\mathrm{idf}}`
- ``sequence``: the elements, and the pairs of neighbours, bound in order
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr import ops
from ghrr.learn.ngram_vectors import ngram_vectors
from ghrr.space import Space

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
BAG_KINDS = ("text", "category", "boolean", "set", "sequence")
_WORD = re.compile(r"\w")  # other characters are removed: "PS-LX350H" and "PSLX350H" are the same word
_BITS = 21  # of a code point
_MASK = (1 << _BITS) - 1
_FEATURES = 1 << 12  # hypervectors of features made at a time
_TEXT_LIMIT = 20_000  # characters of a text that are compared


@dataclass(frozen=True)
class Bags:
    """Weighted features of several values, as a sparse matrix by rows, scaled to length 1.

    Parameters
    ----------
    offsets
        Row i has the entries from ``offsets[i]`` to ``offsets[i + 1]``.
    features
        Feature of each entry, an index into ``keys``; ascending in each row.
    weights
        Weight of each entry.
    keys
        Keys of all features, ascending.
    names
        For kinds other than text, the parts of each feature by key.
    """

    offsets: Integers
    features: Integers
    weights: Floats
    keys: Integers
    names: dict[int, tuple[str, ...]]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, rows: Integers) -> Bags:
        """Select rows."""
        entries, offsets = self.entries(rows)
        return replace(self, offsets=offsets, features=self.features[entries], weights=self.weights[entries])

    def entries(self, rows: Integers) -> tuple[Integers, Integers]:
        """Return the entries of rows, one row after the other, and the offsets of these rows among them."""
        lengths = np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return np.repeat(self.offsets[:-1][rows] - offsets[:-1], lengths) + np.arange(offsets[-1]), offsets


class BagField:
    """Encoder of one field of a bag kind. :meth:`fit` counts how rare features are; later values do not change it.

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.search.bags import BagField
    >>> field = BagField("text")
    >>> field.fit(["Sony PS-LX350H", "Sony turntable", "Bose speaker"])
    >>> a = field.prepare(["sony pslx350h"])
    >>> b = field.prepare(["Sony PS-LX350H", "Sony turntable"])
    >>> field.pair_scores(a, np.array([0, 0]), b, np.array([0, 1])).round(2)
    array([1.  , 0.17])
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.keys = np.empty(0, dtype=np.int64)  # features seen by fit, ascending
        self.idf = np.empty(0)
        self.unseen = 1.0  # the idf of other features

    def parse(self, value: Any) -> Any:
        """Return a value in the form that this kind compares."""
        if self.kind in ("set", "sequence"):
            elements = value if isinstance(value, list | tuple) else [value]
            return tuple(_fold(element) for element in elements)
        if isinstance(value, list | tuple):
            value = " ".join(map(str, value))
        return str(value)[:_TEXT_LIMIT] if self.kind == "text" else _fold(value)

    def fit(self, values: Sequence[Any]) -> None:
        """Count in how many values each feature occurs."""
        bags = self._count(values)
        self.keys, counts = bags.keys, np.bincount(bags.features, minlength=len(bags.keys))
        self.idf = np.log((1 + len(values)) / (1 + counts)) + 1
        self.unseen = float(np.log(1 + len(values)) + 1)

    def prepare(self, values: Sequence[Any]) -> Bags:
        """Return the weighted features of values."""
        bags = self._count(values)
        if self.kind == "text":
            weights = (1 + np.log(bags.weights)) * (self._rarity(bags.keys) ** 1.5)[bags.features]
        elif self.kind in ("set", "sequence"):
            weights = np.sqrt(self._rarity(bags.keys))[bags.features]
        else:
            weights = np.ones(len(bags.features))
        owner = np.repeat(np.arange(len(bags)), np.diff(bags.offsets))
        norms = np.sqrt(np.bincount(owner, weights**2, minlength=len(bags)))
        return replace(bags, weights=weights / np.maximum(norms, 1e-12)[owner])

    def _rarity(self, keys: Integers) -> Floats:
        if not len(self.keys):
            return np.ones(len(keys))
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.idf[at], self.unseen)

    def _count(self, values: Sequence[Any]) -> Bags:
        """Return the distinct features of each value; the weights are how often they occur."""
        parsed = [self.parse(value) for value in values]
        names: dict[int, tuple[str, ...]] = {}
        if self.kind == "text":
            owner, features, keys = _trigrams(parsed)
        else:
            owner, all_keys = _named_features(parsed, self.kind, names)
            keys, features = np.unique(all_keys, return_inverse=True)
        entries, counts = np.unique(owner * max(1, len(keys)) + features, return_counts=True)
        rows, features = np.divmod(entries, max(1, len(keys)))
        offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(parsed)))])
        return Bags(offsets, features, counts.astype(np.float64), keys, names)

    def pair_scores(self, a: Bags, a_rows: Integers, b: Bags, b_rows: Integers) -> Floats:
        """Return the cosine of row ``a_rows[p]`` of a and row ``b_rows[p]`` of b for each pair p."""
        if not len(a.keys) or not len(b.keys):
            return np.zeros(len(a_rows))
        at = np.minimum(np.searchsorted(b.keys, a.keys), len(b.keys) - 1)
        in_b = np.where(b.keys[at] == a.keys, at, -1)  # the feature of b for each feature of a
        a_entries, a_offsets = a.entries(a_rows)
        b_entries, b_offsets = b.entries(b_rows)
        features = in_b[a.features[a_entries]]
        pair = np.repeat(np.arange(len(a_rows)), np.diff(a_offsets))
        known = features >= 0
        wanted = pair[known] * len(b.keys) + features[known]
        present = np.repeat(np.arange(len(b_rows)), np.diff(b_offsets)) * len(b.keys) + b.features[b_entries]
        if not len(wanted) or not len(present):
            return np.zeros(len(a_rows))
        at = np.minimum(np.searchsorted(present, wanted), len(present) - 1)
        shared = present[at] == wanted
        products = a.weights[a_entries[known][shared]] * b.weights[b_entries[at[shared]]]
        return np.clip(np.bincount(pair[known][shared], products, minlength=len(a_rows)), 0, 1)

    def encode(self, space: Space, bags: Bags) -> Tensor:
        """Return the hypervectors of prepared values, ``(n, dim, m, m)``."""
        out = torch.zeros(len(bags), 2 * space.total_dim)
        used = np.flatnonzero(np.bincount(bags.features, minlength=len(bags.keys)))
        number = np.zeros(len(bags.keys), dtype=np.int64)
        number[used] = np.arange(len(used))
        numbers = number[bags.features]
        owner = np.repeat(np.arange(len(bags)), np.diff(bags.offsets))
        for start in range(0, len(used), _FEATURES):
            keys = bags.keys[used[start : start + _FEATURES]]
            entries = np.flatnonzero((numbers >= start) & (numbers < start + len(keys)))
            offsets = np.concatenate([[0], np.cumsum(np.bincount(owner[entries], minlength=len(bags)))])
            for columns, vectors in self._vectors(space, keys, bags.names):
                add_bags(out[:, columns], vectors, numbers[entries] - start, bags.weights[entries], offsets)
        return torch.view_as_complex(out.view(len(bags), *space.shape, 2)).to(space.dtype)

    def _vectors(
        self, space: Space, keys: Integers, names: dict[int, tuple[str, ...]]
    ) -> Iterator[tuple[slice, Tensor]]:
        """Yield real columns of the hypervectors of features, ``(k, columns)``."""
        width = 2 * space.m**2
        if self.kind == "text":
            points = np.stack([keys >> 2 * _BITS, keys >> _BITS & _MASK, keys & _MASK], axis=1)
            symbols, numbers = np.unique(points, return_inverse=True)
            names_of_symbols = [chr(point) for point in symbols]
            # Atoms by place: for m > 1 two orders of the same atoms, as in " by" and "by ", have a similarity of 1/m².
            atoms = torch.cat([space.vectors(names_of_symbols, namespace=f"character {place}") for place in range(3)])
            grams = numbers.reshape(points.shape) + len(symbols) * np.arange(3)
            for start, vectors in ngram_vectors(atoms, grams):
                yield slice(width * start, width * (start + vectors.shape[1])), _as_real(vectors)
            return
        parts = [names[key] for key in keys.tolist()]
        for n in (1, 2):
            rows = [row for row, part in enumerate(parts) if len(part) == n]
            if not rows:
                continue
            if len(rows) == len(parts) and n == 1:
                yield slice(None), _as_real(space.vectors([part[0] for part in parts], namespace="value"))
                continue
            vectors = torch.zeros(len(parts), *space.shape, dtype=space.dtype)
            factors = [space.vectors([parts[row][place] for row in rows], namespace="value") for place in range(n)]
            if n == 2:  # shifted, since the two orders of a product have a similarity of 1/m²
                factors[1] = factors[1].roll(1, dims=1)
            vectors[rows] = factors[0] if n == 1 else ops.bind(factors[0], factors[1])
            yield slice(None), _as_real(vectors)

    def state(self) -> dict[str, Tensor]:
        """Return what :meth:`fit` found, as tensors."""
        tensors = {"keys": torch.from_numpy(self.keys), "idf": torch.from_numpy(self.idf)}
        return {**tensors, "unseen": torch.tensor([self.unseen], dtype=torch.float64)}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Use what :meth:`state` returned."""
        keys, idf, unseen = state["keys"], state["idf"], state["unseen"]
        dtypes = (keys.dtype, idf.dtype, unseen.dtype)
        if dtypes != (torch.int64, torch.float64, torch.float64) or keys.shape != idf.shape or unseen.shape != (1,):
            raise ValueError("the statistics of a field have other types or shapes than RecordIndex writes")
        if keys.ndim != 1 or not bool((keys[1:] > keys[:-1]).all()) or not bool((idf >= 0).all()):
            raise ValueError("the statistics of a field must be sorted and not negative")
        self.keys, self.idf, self.unseen = keys.numpy(), idf.numpy(), float(unseen)


def add_bags(out: Tensor, vectors: Tensor, indices: Integers, weights: Floats, offsets: Integers) -> None:
    """Add to row i the vectors of ``indices[offsets[i]:offsets[i + 1]]``, weighted."""
    out += torch.nn.functional.embedding_bag(
        torch.from_numpy(indices),
        vectors,
        torch.from_numpy(offsets),
        mode="sum",
        per_sample_weights=torch.from_numpy(weights).to(vectors.dtype),
        include_last_offset=True,
    )


def _as_real(vectors: Tensor) -> Tensor:
    return torch.view_as_real(vectors).flatten(1).float().contiguous()


def _fold(value: Any) -> str:
    """Return a value as text without differences of case and of spaces around it."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip().casefold()


def _trigrams(texts: Sequence[str]) -> tuple[Integers, Integers, Integers]:
    """Return the text and the feature of every trigram, and the keys of all features.

    The middle of a trigram is a letter or a digit, and spaces are at the ends of words. Punctuation is removed, except
    from a text that has nothing else: it is a value too.
    """
    joined = "\0".join(["", *(text.replace("\0", " ") for text in texts), ""]).lower()
    points = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    counts = np.bincount(points)
    alphabet = np.flatnonzero(counts)
    counts[alphabet] = np.arange(len(alphabet))
    symbols = counts[points]
    letters = [chr(point) for point in alphabet]
    is_word = np.array([_WORD.match(letter) is not None for letter in letters])[symbols]
    is_space = np.array([letter < " " or letter.isspace() for letter in letters])[symbols]
    owner = np.cumsum(points == 0) - 1
    has_words = np.bincount(owner[is_word], minlength=len(texts) + 1) > 0
    kept = is_word | is_space | ~has_words[owner]
    symbols, is_space, owner = symbols[kept], is_space[kept], owner[kept]
    symbols[is_space], alphabet[0] = 0, ord(" ")
    middle = np.flatnonzero(~is_space)
    size = len(alphabet)
    codes = (symbols[middle - 1] * size + symbols[middle]) * size + symbols[middle + 1]
    distinct = np.unique(codes)
    first, second, third = (alphabet[distinct // size**power % size] for power in (2, 1, 0))
    keys = first << 2 * _BITS | second << _BITS | third
    return owner[middle], np.searchsorted(distinct, codes), keys


def _named_features(parsed: Sequence[Any], kind: str, names: dict[int, tuple[str, ...]]) -> tuple[Integers, Integers]:
    features: Callable[[Any], list[tuple[str, ...]]]
    if kind in ("category", "boolean"):
        features = lambda value: [(value,)]  # noqa: E731
    elif kind == "set":
        features = lambda value: [(element,) for element in dict.fromkeys(value)]  # noqa: E731
    else:
        features = lambda value: [*((e,) for e in value), *itertools.pairwise(value)]  # noqa: E731
    key_of: dict[tuple[str, ...], int] = {}
    owner, keys = [], []
    for row, value in enumerate(parsed):
        for feature in features(value):
            key = key_of.get(feature)
            if key is None:
                key = key_of[feature] = _key(feature)
                names[key] = feature
            owner.append(row)
            keys.append(key)
    return np.array(owner, dtype=np.int64), np.array(keys, dtype=np.int64)


def _key(feature: tuple[str, ...]) -> int:
    digest = hashlib.blake2b("\x1f".join(feature).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
