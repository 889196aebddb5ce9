"""Word-level tokenizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ghrr.checks import check_integer, describe, names_errors, type_error, value_error
from ghrr_lab.lm.tokenizers.base import Tokenizer, check_text, check_training_text, split_lines

UNKNOWN, END_OF_LINE = "<unk>", "<eos>"
_SPECIAL = (UNKNOWN, END_OF_LINE)


@names_errors
class WordTokenizer(Tokenizer):
    r"""Tokenizer of words separated by whitespace; a newline becomes ``<eos>``.

    Words outside the vocabulary become ``<unk>``. Decoded text has one space between words. A file of n lines has n
    ``<eos>`` tokens, as is usual for word-level language models.

    Parameters
    ----------
    words
        Words in the order of their ids. The first two must be ``<unk>`` and ``<eos>``.

    Examples
    --------
    >>> from ghrr_lab.lm import WordTokenizer
    >>> tokenizer = WordTokenizer.build("the cat saw the dog\nthe dog ran\n")
    >>> tokenizer.vocab_size
    7
    >>> tokenizer.encode("the cat ran away\n")
    array([2, 4, 5, 0, 1], dtype=int32)
    >>> tokenizer.decode([2, 4, 5, 0, 1])
    'the cat ran <unk>\n'
    """

    KIND: ClassVar = "words"

    def __init__(self, words: Sequence[str]) -> None:
        self._words = _check_words(words)
        self._ids = {word: i for i, word in enumerate(self._words)}

    @classmethod
    def build(cls, text: str, limit: int | None = None) -> WordTokenizer:
        r"""Collect the vocabulary of a training text, the most frequent words first.

        Words of equal frequency are in alphabetical order, so equal texts give equal vocabularies.

        Parameters
        ----------
        text
            Training text.
        limit
            Maximum vocabulary size, including ``<unk>`` and ``<eos>``. The rarest words are left out. Default: no
            limit.

        Examples
        --------
        >>> from ghrr_lab.lm import WordTokenizer
        >>> WordTokenizer.build("the cat saw the dog\n", limit=3).state()["words"]
        ['<unk>', '<eos>', 'the']
        """
        counts: Counter[str] = Counter()
        for block in split_lines(check_training_text(text)):
            counts.update(block.split())
        if limit is not None:
            limit = check_integer("limit", limit, least=len(_SPECIAL) + 1)
        words = sorted(counts.keys() - set(_SPECIAL), key=lambda word: (-counts[word], word))
        return cls([*_SPECIAL, *words][:limit])

    @property
    def vocab_size(self) -> int:
        return len(self._words)

    def encode(self, text: str) -> NDArray[np.int32]:
        """Return the ids of the words of a text, and of ``<eos>`` for each newline.

        Shapes
        ------
        output: ``(count_words(text),)``
        """
        ids, unknown = self._ids, self._ids[UNKNOWN]
        blocks = (
            np.fromiter((ids.get(word, unknown) for word in block.replace("\n", f" {END_OF_LINE} ").split()), np.int32)
            for block in split_lines(check_text(text))
        )
        return np.concatenate([np.empty(0, dtype=np.int32), *blocks])

    def decode(self, ids: ArrayLike) -> str:
        """Return the words of token ids, separated by spaces, with a newline for ``<eos>``.

        Shapes
        ------
        ids: ``(n,)``
        """
        words = self._words
        text = " ".join("\n" if words[i] == END_OF_LINE else words[i] for i in self._check_ids(ids))
        return text.replace(" \n", "\n").replace("\n ", "\n")

    def state(self) -> dict[str, Any]:
        return {"kind": self.KIND, "words": list(self._words)}


def _check_words(words: Sequence[str]) -> list[str]:
    if isinstance(words, (str, Mapping)) or not all(isinstance(word, str) for word in words):
        raise type_error(f"words must be a list of strings, got {describe(words)}")
    words = list(words)
    if tuple(words[:2]) != _SPECIAL:
        raise value_error(f"the first two words must be {UNKNOWN} and {END_OF_LINE}, got {words[:2]!r}")
    if len(set(words)) != len(words):
        repeated = next(word for word, count in Counter(words).items() if count > 1)
        raise value_error(f"words must be unique, got {repeated!r} more than once")
    for word in words:
        if word.split() != [word]:
            raise value_error(f"words must be non-empty and without whitespace, got {word!r}")
    return words
