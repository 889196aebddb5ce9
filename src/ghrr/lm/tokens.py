r"""Text as numbers: whole words, or pieces of words by byte-level BPE. Two vocabularies, one interface.

In both, a newline is a token of its own, ``encode("\n")``. For words it is ``<eos>``, by the custom of word-level
models: a file of n lines has n of them, those of empty lines included. Word perplexity means the same for both: e to
the power of the loss of a text, in nats, over :meth:`Tokens.words` of that text.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ghrr._checks import check_integer, describe, install_hint

if TYPE_CHECKING:
    from tokenizers import Tokenizer

UNKNOWN, END = "<unk>", "<eos>"
_MARKS = (UNKNOWN, END)
_WORDS, _BPE = "words", "bpe"
_BLOCK = 1 << 20  # characters that are split at a time: bounds the memory that their tokens take as objects
_PART = 1 << 14  # characters that one thread splits
_BYTES = 256
_LEAST_COUNT = 2  # a pair seen once is a memory of the text, not a piece of words


class Tokens(ABC):
    """A vocabulary: :class:`WordTokens` or :class:`BPETokens`."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many different tokens there are; they are numbered from 0."""

    @abstractmethod
    def encode(self, text: str) -> NDArray[np.int32]:
        """The numbers of a text's tokens.

        Shapes
        ------
        output: ``(n,)``
        """

    @abstractmethod
    def decode(self, ids: ArrayLike) -> str:
        """The text of these numbers.

        Shapes
        ------
        ids: ``(n,)``
        """

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """All that :func:`tokens_from_state` needs, as JSON can hold it."""

    def words(self, text: str) -> int:
        """How many words and ends of lines a text has, whatever it is cut into: what word perplexity divides by."""
        text = _checked_text(f"{type(self).__name__}.words", text)
        return sum(len(block.split()) + block.count("\n") for block in _blocks(text))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of :meth:`state`: equal if and only if the vocabularies are."""
        text = json.dumps(self.state(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _checked_ids(self, ids: ArrayLike) -> list[int]:
        operation = f"{type(self).__name__}.decode"
        array = np.asarray(ids)
        if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
            raise TypeError(f"{operation}: ids must be a list of whole numbers, got {describe(ids)}")
        if array.size and (array.min() < 0 or array.max() >= self.size):
            raise ValueError(
                f"{operation}: ids must be from 0 to {self.size - 1}, got {array.min()} to {array.max()}; "
                f"they are of another vocabulary"
            )
        numbers: list[int] = array.tolist()
        return numbers

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokens) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size}, fingerprint={self.fingerprint[:8]})"


class WordTokens(Tokens):
    r"""A vocabulary of whole words, which are what whitespace separates; a newline is ``<eos>``.

    Words that it does not have become ``<unk>``. Text comes back with its words one space apart.

    Parameters
    ----------
    words
        The words in the order of their numbers. The first two are ``<unk>`` and ``<eos>``.

    Examples
    --------
    >>> tokens = WordTokens.build("the cat saw the dog\nthe dog ran\n")
    >>> tokens.size
    7
    >>> tokens.encode("the cat ran away\n")
    array([2, 4, 5, 0, 1], dtype=int32)
    >>> tokens.decode([2, 4, 5, 0, 1])
    'the cat ran <unk>\n'
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = _checked_words(words)
        self._number = {word: number for number, word in enumerate(self._words)}

    @classmethod
    def build(cls, text: str, limit: int | None = None) -> WordTokens:
        """The vocabulary of a training text: ``<unk>``, ``<eos>``, then its words, the most frequent first.

        Parameters
        ----------
        text
            Words of equal frequency follow the alphabet, so that equal texts give equal vocabularies.
        limit
            How large the vocabulary may become, with the two marks; the rarest words are left out.
        """
        counts: Counter[str] = Counter()
        for block in _blocks(_training_text("WordTokens.build", text)):
            counts.update(block.split())
        if limit is not None:
            limit = check_integer("WordTokens.build", "limit", limit, least=len(_MARKS) + 1)
        words = sorted(counts.keys() - set(_MARKS), key=lambda word: (-counts[word], word))
        return cls([*_MARKS, *words][:limit])

    @property
    def size(self) -> int:
        return len(self._words)

    def encode(self, text: str) -> NDArray[np.int32]:
        """The numbers of a text's words, and of ``<eos>`` for each newline; as many as :meth:`words` counts.

        Shapes
        ------
        output: ``(words(text),)``
        """
        number, unknown = self._number, self._number[UNKNOWN]
        blocks = (
            np.fromiter((number.get(word, unknown) for word in block.replace("\n", f" {END} ").split()), dtype=np.int32)
            for block in _blocks(_checked_text("WordTokens.encode", text))
        )
        return np.concatenate([np.empty(0, dtype=np.int32), *blocks])

    def decode(self, ids: ArrayLike) -> str:
        """The words of these numbers, one space apart, and a newline for ``<eos>``.

        Shapes
        ------
        ids: ``(n,)``
        """
        words = self._words
        text = " ".join("\n" if words[i] == END else words[i] for i in self._checked_ids(ids))
        return text.replace(" \n", "\n").replace("\n ", "\n")

    def state(self) -> dict[str, Any]:
        return {"kind": _WORDS, "words": list(self._words)}


class BPETokens(Tokens):
    r"""A vocabulary of pieces of words: bytes, and pairs of pieces merged by frequency. Any text comes back exactly.

    Pieces do not reach across a space before a word, nor across a newline. Needs the package ``tokenizers``.

    Parameters
    ----------
    merges
        The pairs that are merged, in order of priority, in the letters that stand for bytes in byte-level BPE.

    Examples
    --------
    >>> tokens = BPETokens.train("the cat saw the other cats\n" * 10, size=265)
    >>> tokens.size
    265
    >>> ids = tokens.encode("the bat\n")
    >>> [tokens.decode([i]) for i in ids]
    ['the', ' ', 'b', 'at', '\n']
    >>> tokens.decode(ids)
    'the bat\n'
    """

    def __init__(self, merges: Sequence[Sequence[str]]) -> None:
        self._merges = _checked_merges(merges)
        self._tokenizer = _byte_level(self._merges)

    @classmethod
    def train(cls, text: str, size: int) -> BPETokens:
        """Learn the merges of a training text; equal texts give equal vocabularies.

        Parameters
        ----------
        text
            What to learn from.
        size
            How many tokens to stop at, the 256 bytes included; fewer where no pair occurs twice any more.
        """
        size = check_integer("BPETokens.train", "size", size, least=_BYTES)
        text = _encodable_text("BPETokens.train", _training_text("BPETokens.train", text))
        tokenizer = _byte_level([])
        trainer = _import_tokenizers().trainers.BpeTrainer(
            vocab_size=size, min_frequency=_LEAST_COUNT, show_progress=False, initial_alphabet=_alphabet()
        )
        tokenizer.train_from_iterator(_blocks(text, _PART), trainer)
        return cls([tuple(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]])

    @property
    def size(self) -> int:
        return self._tokenizer.get_vocab_size()

    def encode(self, text: str) -> NDArray[np.int32]:
        """The numbers of a text's pieces.

        Shapes
        ------
        output: ``(n,)``
        """
        found = [np.empty(0, dtype=np.int32)]
        for block in _blocks(_encodable_text("BPETokens.encode", text)):
            pieces = self._tokenizer.encode_batch_fast(list(_blocks(block, _PART)))  # in parallel
            found.extend(np.asarray(piece.ids, dtype=np.int32) for piece in pieces)
        return np.concatenate(found)

    def decode(self, ids: ArrayLike) -> str:
        """The text of these numbers; a piece of a character alone becomes the replacement character.

        Shapes
        ------
        ids: ``(n,)``
        """
        return self._tokenizer.decode(self._checked_ids(ids), skip_special_tokens=False)

    def state(self) -> dict[str, Any]:
        return {"kind": _BPE, "merges": [list(pair) for pair in self._merges]}


def tokens_from_state(state: Mapping[str, Any]) -> Tokens:
    r"""The vocabulary whose :meth:`state` this is.

    Raises
    ------
    ValueError
        It is not one: some part is missing, of another kind, or contradicts another.

    Examples
    --------
    >>> tokens = WordTokens.build("a b b\n")
    >>> tokens_from_state(tokens.state()) == tokens
    True
    """
    kind = state.get("kind") if isinstance(state, Mapping) else None
    try:
        if kind == _WORDS:
            return WordTokens(state["words"])
        if kind == _BPE:
            return BPETokens(state["merges"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"tokens_from_state: a damaged vocabulary of kind {kind!r} ({error})") from error
    raise ValueError(f"tokens_from_state: state must be what state() of a vocabulary gave, got {describe(state)}")


def _blocks(text: str, size: int = _BLOCK) -> Iterator[str]:
    """A text in pieces of about this size, each up to the end of a line: tokens never reach across it."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + size) + 1 or len(text)
        yield text[start:end]
        start = end


def _checked_text(operation: str, text: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{operation}: text must be a str, got {describe(text)}")
    return text


def _training_text(operation: str, text: str) -> str:
    if not _checked_text(operation, text).strip():
        raise ValueError(f"{operation}: the text has no words to learn from")
    return text


def _encodable_text(operation: str, text: str) -> str:
    try:
        _checked_text(operation, text).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{operation}: the text has no form in UTF-8: {error.reason} at {error.start}") from None
    return text


def _checked_words(words: Sequence[str]) -> list[str]:
    if isinstance(words, (str, Mapping)) or not all(isinstance(word, str) for word in words):
        raise TypeError(f"WordTokens: words must be a list of strings, got {describe(words)}")
    words = list(words)
    if tuple(words[:2]) != _MARKS:
        raise ValueError(f"WordTokens: the first two words must be {UNKNOWN} and {END}, got {words[:2]!r}")
    if len(set(words)) != len(words):
        twice = next(word for word, count in Counter(words).items() if count > 1)
        raise ValueError(f"WordTokens: words must differ from each other, but {twice!r} is there twice")
    for word in words:
        if word.split() != [word]:
            raise ValueError(f"WordTokens: a word is not empty and has no whitespace in it, got {word!r}")
    return words


def _checked_merges(merges: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    known, pairs = set(_alphabet()), []
    for pair in merges:
        if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(piece, str) for piece in pair):
            raise TypeError(f"BPETokens: merges must be pairs of strings, got {describe(pair)}")
        left, right = pair
        if left not in known or right not in known:
            raise ValueError(f"BPETokens: a merge joins bytes or what was merged before, got {describe(pair)}")
        known.add(left + right)
        pairs.append((left, right))
    return pairs


def _byte_level(merges: Sequence[tuple[str, str]]) -> Tokenizer:
    tokenizers = _import_tokenizers()
    vocabulary: dict[str, int] = {}
    for piece in chain(_alphabet(), (left + right for left, right in merges)):
        vocabulary.setdefault(piece, len(vocabulary))  # two merges may give one piece
    tokenizer: Tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=list(merges)))
    # The newline first: without it, what a line is cut into would depend on the spaces around it in other lines.
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Split("\n", "isolated"),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    return tokenizer


def _alphabet() -> list[str]:
    """The letters that stand for the 256 bytes."""
    return sorted(_import_tokenizers().pre_tokenizers.ByteLevel.alphabet())


def _import_tokenizers() -> Any:
    try:
        import tokenizers  # noqa: PLC0415 (an extra: words do without it)
    except ImportError as error:
        raise ImportError(f"BPETokens needs the package tokenizers: {install_hint('lm')}") from error
    return tokenizers
