r"""The interface of all tokenizers, and the text handling that they share.

Every tokenizer maps a newline to one token of its own. Word perplexity therefore has one meaning for all of them: the
exponential of the loss of a text, in nats, divided by :meth:`Tokenizer.count_words` of that text.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ghrr.checks import describe, names_errors, type_error, value_error

_BLOCK = 1 << 20  # characters tokenized at a time; bounds the memory of their tokens as Python objects


@names_errors
class Tokenizer(ABC):
    r"""Base class of :class:`WordTokenizer` and :class:`BPETokenizer`.

    Two tokenizers are equal if they have the same vocabulary.

    Examples
    --------
    >>> from ghrr_lab.lm import Tokenizer, WordTokenizer
    >>> isinstance(WordTokenizer.build("a b b\n"), Tokenizer)
    True
    """

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """Number of distinct tokens. Ids run from 0 to ``vocab_size - 1``."""

    @abstractmethod
    def encode(self, text: str) -> NDArray[np.int32]:
        """Return the token ids of a text.

        Shapes
        ------
        output: ``(n,)``
        """

    @abstractmethod
    def decode(self, ids: ArrayLike) -> str:
        """Return the text of token ids.

        Shapes
        ------
        ids: ``(n,)``
        """

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return a JSON object from which :func:`tokenizer_from_state` rebuilds this tokenizer."""

    def count_words(self, text: str) -> int:
        r"""Count the words and newlines of a text; word perplexity divides by this number.

        The count is the same for every tokenizer.

        Examples
        --------
        >>> from ghrr_lab.lm import WordTokenizer
        >>> WordTokenizer.build("a b\n").count_words("a cat\n")
        3
        """
        text = check_text(text)
        return sum(len(block.split()) + block.count("\n") for block in split_lines(text))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of :meth:`state`."""
        text = json.dumps(self.state(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _check_ids(self, ids: ArrayLike) -> list[int]:
        array = np.asarray(ids)
        if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
            raise type_error(f"ids must be a list of whole numbers, got {describe(ids)}")
        if array.size and (array.min() < 0 or array.max() >= self.vocab_size):
            raise value_error(
                f"ids must lie in [0, {self.vocab_size - 1}], got {array.min()} to {array.max()}; use the "
                "tokenizer that made them"
            )
        checked: list[int] = array.tolist()
        return checked

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(vocab_size={self.vocab_size}, fingerprint={self.fingerprint[:8]})"


def split_lines(text: str, size: int = _BLOCK) -> Iterator[str]:
    """Yield a text in blocks of whole lines, each just over ``size`` characters; no token spans two lines."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + size) + 1 or len(text)
        yield text[start:end]
        start = end


def check_text(text: str) -> str:
    """Raise ``TypeError`` unless ``text`` is a string; return it."""
    if not isinstance(text, str):
        raise type_error(f"text must be a str, got {describe(text)}")
    return text


def check_training_text(text: str) -> str:
    """Raise unless ``text`` is a string with at least one word; return it."""
    if not check_text(text).strip():
        raise value_error("the text must have at least one word, got only whitespace")
    return text
