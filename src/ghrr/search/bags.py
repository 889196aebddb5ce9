r"""Bags: fields whose values are sets of weighted features, such as the trigrams of a text.

A value becomes :math:`\sum_g w_g x_g / \lVert w \rVert` over its features g. The similarity of two values is the cosine
of their weights. Features and their hypervectors by kind:

- ``text``: trigrams of the letters and digits of each word, between two spaces, bound in order:
  :math:`x_a * y_b * z_c`, with different atoms at each position. A trigram that occurs c times has the weight
  :math:`(1 + \ln c)\,\mathrm{idf}^{1.5}`
- ``category``, ``boolean``: the value itself, an atom. A rare category that differs from a frequent one by a typing
  error counts as that one.
- ``set``: the elements of a list, atoms; weight :math:`\sqrt{\mathrm{idf}}`
- ``sequence``: the elements, and the pairs of neighbours, bound in order
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr import ops
from ghrr.encoding.bags import weighted_bags
from ghrr.encoding.ngram_counts import Integers, count_pairs, find_keys, number_keys
from ghrr.encoding.ngram_vectors import ngram_vectors
from ghrr.search.values import Range, as_text, fold
from ghrr.space import Space

Floats = NDArray[np.float64]
BAG_KINDS = ("text", "category", "boolean", "set", "sequence")
_WORD = re.compile(r"\w")  # other characters are removed: "PS-LX350H" and "PSLX350H" are the same word
_BITS = 21  # of a code point
_MASK = (1 << _BITS) - 1
_FEATURES = 1 << 12  # hypervectors of features made at a time
_TEXT_LIMIT = 20_000  # characters of a text that are compared
_FREQUENT = 0.005  # least share of a category that values with typing errors are taken for
_MOST_FREQUENT = 1_000
_SIMILAR_CATEGORY = 0.8  # ratio of difflib
_LONGEST_CATEGORY = 64  # letters
_CORRECTED = 10_000  # values remembered
_NO_DIGIT = re.compile(r"\D")
_NO_BYTES = torch.empty(0, dtype=torch.uint8)


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

    @property
    def present(self) -> NDArray[np.bool_]:
        """Whether each row has features."""
        return np.diff(self.offsets) > 0

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
        self.frequent: tuple[str, ...] = ()  # categories that values with a typing error stand for
        self._corrected: dict[str, str] = {}

    def parse(self, value: Any) -> Any:
        """Return a value in the form that this kind compares. A range is empty: only numbers and dates have order."""
        is_range = isinstance(value, Range)
        if self.kind in ("set", "sequence"):
            elements = value if isinstance(value, list | tuple) else [value]
            return () if is_range else tuple(fold(element) for element in elements)
        if is_range:
            return ""
        return as_text(value)[:_TEXT_LIMIT] if self.kind == "text" else self._correct(fold(value))

    def _correct(self, value: str) -> str:
        """Return the frequent category that a value with a typing error stands for, or the value."""
        if not self.frequent or value in self._corrected:
            return self._corrected.get(value, value)
        similar = difflib.get_close_matches(value[:_LONGEST_CATEGORY], self.frequent, n=1, cutoff=_SIMILAR_CATEGORY)
        is_typing_error = similar and _NO_DIGIT.sub("", similar[0]) == _NO_DIGIT.sub("", value)
        if len(self._corrected) >= _CORRECTED:
            self._corrected.clear()
        return self._corrected.setdefault(value, similar[0] if is_typing_error else value)

    def _set_frequent(self, frequent: Sequence[str]) -> None:
        self.frequent = tuple(frequent)
        self._corrected = {value: value for value in frequent}

    def fit(self, values: Sequence[Any]) -> None:
        """Count in how many values each feature occurs."""
        if self.kind == "category":
            counted = Counter(map(fold, values))
            frequent = [value for value, count in counted.items() if count >= max(2, _FREQUENT * len(values))]
            self._set_frequent(sorted(frequent) if len(frequent) <= _MOST_FREQUENT else [])
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
        at = find_keys(self.keys, keys)
        return np.where(at >= 0, self.idf[at], self.unseen)

    def _count(self, values: Sequence[Any]) -> Bags:
        """Return the distinct features of each value; the weights are how often they occur."""
        parsed = [self.parse(value) for value in values]
        names: dict[int, tuple[str, ...]] = {}
        if self.kind == "text":
            owner, codes, alphabet = _trigrams(parsed)
        else:
            owner, codes = _named_features(parsed, self.kind, names)
        first, rows, features, counts = count_pairs(owner, codes)
        keys = codes[first]
        if self.kind == "text":
            a, b, c = (alphabet[keys // len(alphabet) ** power % len(alphabet)] for power in (2, 1, 0))
            keys = a << 2 * _BITS | b << _BITS | c
        offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(parsed)))])
        return Bags(offsets, features, counts.astype(np.float64), keys, names)

    def pair_scores(self, a: Bags, a_rows: Integers, b: Bags, b_rows: Integers) -> Floats:
        """Return the cosine of row ``a_rows[p]`` of a and row ``b_rows[p]`` of b for each pair p."""
        in_b = find_keys(b.keys, a.keys)  # the feature of b for each feature of a
        a_entries, a_offsets = a.entries(a_rows)
        b_entries, b_offsets = b.entries(b_rows)
        features = in_b[a.features[a_entries]]
        pair = np.repeat(np.arange(len(a_rows)), np.diff(a_offsets))
        known = features >= 0
        wanted = pair[known] * len(b.keys) + features[known]
        present = np.repeat(np.arange(len(b_rows)), np.diff(b_offsets)) * len(b.keys) + b.features[b_entries]
        at = find_keys(present, wanted)
        shared = at >= 0
        products = a.weights[a_entries[known][shared]] * b.weights[b_entries[at[shared]]]
        sums = np.bincount(pair[known][shared], products, minlength=len(a_rows))
        return np.clip(sums, 0.0, 1.0)  # as floats: without any pair, sums are integers

    def encode(self, space: Space, bags: Bags) -> Tensor:
        """Return the hypervectors of prepared values, ``(n, dim, m, m)``."""
        out = torch.zeros(len(bags), *space.shape, dtype=torch.complex64)
        first, numbers = number_keys(bags.features)
        used = bags.keys[bags.features[first]]
        owner = np.repeat(np.arange(len(bags)), np.diff(bags.offsets))
        for rows, sums in weighted_bags(owner, numbers, bags.weights, _FEATURES, out):
            for slots, vectors in self._vectors(space, used[rows], bags.names):
                sums.add_to(out[:, slots], vectors)
        return out.to(space.dtype)

    def _vectors(
        self, space: Space, keys: Integers, names: dict[int, tuple[str, ...]]
    ) -> Iterator[tuple[slice, Tensor]]:
        """Yield the hypervectors of features for some slots at a time."""
        if self.kind == "text":
            points = np.stack([keys >> 2 * _BITS, keys >> _BITS & _MASK, keys & _MASK], axis=1)
            symbols, numbers = np.unique(points, return_inverse=True)
            names_of_symbols = [chr(point) for point in symbols]
            # Atoms by place: for m > 1 two orders of the same atoms, as in " by" and "by ", have a similarity of 1/m².
            atoms = torch.cat([space.vectors(names_of_symbols, namespace=f"character {place}") for place in range(3)])
            grams = numbers.reshape(points.shape) + len(symbols) * np.arange(3)
            yield from ngram_vectors(atoms, grams)
            return
        parts = [names[key] for key in keys.tolist()]
        for n in (1, 2):
            rows = [row for row, part in enumerate(parts) if len(part) == n]
            if not rows:
                continue
            if len(rows) == len(parts) and n == 1:
                yield slice(None), space.vectors([part[0] for part in parts], namespace="value")
                continue
            vectors = torch.zeros(len(parts), *space.shape, dtype=space.dtype)
            factors = [space.vectors([parts[row][place] for row in rows], namespace="value") for place in range(n)]
            if n == 2:  # shifted, since the two orders of a product have a similarity of 1/m²
                factors[1] = factors[1].roll(1, dims=1)
            vectors[rows] = factors[0] if n == 1 else ops.bind(factors[0], factors[1])
            yield slice(None), vectors

    def state(self) -> dict[str, Tensor]:
        """Return what :meth:`fit` found, as tensors."""
        tensors = {"keys": torch.from_numpy(self.keys), "idf": torch.from_numpy(self.idf)}
        frequent = "\0".join(self.frequent).encode("utf-8", "surrogatepass")
        tensors["frequent"] = torch.frombuffer(bytearray(frequent), dtype=torch.uint8) if frequent else _NO_BYTES
        return {**tensors, "unseen": torch.tensor([self.unseen], dtype=torch.float64)}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Use what :meth:`state` returned."""
        keys, idf, unseen = state["keys"], state["idf"], state["unseen"]
        dtypes = (keys.dtype, idf.dtype, unseen.dtype)
        if dtypes != (torch.int64, torch.float64, torch.float64) or keys.shape != idf.shape or unseen.shape != (1,):
            raise ValueError("the statistics of a field have other types or shapes than RecordIndex writes")
        if keys.ndim != 1 or not bool((keys[1:] > keys[:-1]).all()) or not bool((idf >= 0).all()):
            raise ValueError("the statistics of a field must be sorted and not negative")
        frequent = state.get("frequent", _NO_BYTES)  # earlier files have none
        if frequent.dtype != torch.uint8 or frequent.ndim != 1:
            raise ValueError("the categories of a field must be text")
        self.keys, self.idf, self.unseen = keys.numpy(), idf.numpy(), float(unseen)
        text = frequent.numpy().tobytes().decode("utf-8", "surrogatepass")
        self._set_frequent(text.split("\0") if text else ())


def _trigrams(texts: Sequence[str]) -> tuple[Integers, Integers, Integers]:
    """Return the text and the code of every trigram, and the alphabet whose indices are the digits of codes.

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
    return owner[middle], codes, alphabet


def _named_features(parsed: Sequence[Any], kind: str, names: dict[int, tuple[str, ...]]) -> tuple[Integers, Integers]:
    features: Callable[[Any], list[tuple[str, ...]]]
    if kind in ("category", "boolean"):
        features = lambda value: [(value,)] if value else []  # noqa: E731
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
