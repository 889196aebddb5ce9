"""Byte-level BPE tokenizer, on top of the package ``tokenizers``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ghrr.checks import check_integer, describe, install_hint, named, names_errors, type_error, value_error
from ghrr_lab.lm.tokenizers.base import Tokenizer, check_text, check_training_text, split_lines

if TYPE_CHECKING:
    import tokenizers

_BATCH = 1 << 14  # characters given to one thread
_BYTES = 256
_MIN_FREQUENCY = 2  # a pair that occurs only once does not generalise


@names_errors
class BPETokenizer(Tokenizer):
    r"""Tokenizer of subwords: bytes, and pairs of subwords merged by frequency. Decoding is exact for any text.

    Subwords span neither the space before a word nor a newline. Needs the package ``tokenizers``.

    Parameters
    ----------
    merges
        Pairs of subwords to merge, by priority, in the alphabet that byte-level BPE uses for bytes.

    Examples
    --------
    >>> from ghrr_lab.lm import BPETokenizer
    >>> tokenizer = BPETokenizer.train("the cat saw the other cats\n" * 10, vocab_size=265)
    >>> tokenizer.vocab_size
    265
    >>> ids = tokenizer.encode("the bat\n")
    >>> [tokenizer.decode([i]) for i in ids]
    ['the', ' ', 'b', 'at', '\n']
    >>> tokenizer.decode(ids)
    'the bat\n'
    """

    KIND: ClassVar = "bpe"

    def __init__(self, merges: Sequence[Sequence[str]]) -> None:
        self._merges = _check_merges(merges)
        self._tokenizer = _build_tokenizer(self._merges)

    @classmethod
    def train(cls, text: str, vocab_size: int) -> BPETokenizer:
        r"""Learn the merges from a training text. Equal texts give equal vocabularies.

        Parameters
        ----------
        text
            Training text.
        vocab_size
            Maximum number of tokens, including the 256 bytes. The vocabulary is smaller if no more pairs occur at
            least twice.

        Examples
        --------
        >>> from ghrr_lab.lm import BPETokenizer
        >>> BPETokenizer.train("ab ab ab\n", vocab_size=1000).vocab_size
        258
        """
        vocab_size = check_integer("vocab_size", vocab_size, least=_BYTES)
        text = _check_utf8(check_training_text(text))
        tokenizer = _build_tokenizer([])
        trainer = _import_tokenizers().trainers.BpeTrainer(
            vocab_size=vocab_size, min_frequency=_MIN_FREQUENCY, show_progress=False, initial_alphabet=_alphabet()
        )
        tokenizer.train_from_iterator(split_lines(text, _BATCH), trainer)
        return cls([tuple(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]])

    @property
    def vocab_size(self) -> int:
        return self._tokenizer.get_vocab_size()

    def encode(self, text: str) -> NDArray[np.int32]:
        """Return the ids of the subwords of a text.

        Shapes
        ------
        output: ``(n,)``
        """
        ids = [np.empty(0, dtype=np.int32)]
        for block in split_lines(_check_utf8(text)):
            encodings = self._tokenizer.encode_batch_fast(list(split_lines(block, _BATCH)))  # in parallel
            ids.extend(np.asarray(encoding.ids, dtype=np.int32) for encoding in encodings)
        return np.concatenate(ids)

    def decode(self, ids: ArrayLike) -> str:
        """Return the text of token ids; an incomplete character becomes the replacement character.

        Shapes
        ------
        ids: ``(n,)``
        """
        return self._tokenizer.decode(self._check_ids(ids), skip_special_tokens=False)

    def state(self) -> dict[str, Any]:
        return {"kind": self.KIND, "merges": [list(pair) for pair in self._merges]}


def _check_utf8(text: str) -> str:
    try:
        check_text(text).encode()
    except UnicodeEncodeError as error:
        raise value_error(f"the text cannot be encoded as UTF-8: {error.reason} at index {error.start}") from None
    return text


def _check_merges(merges: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    known, pairs = set(_alphabet()), []
    for pair in merges:
        if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(subword, str) for subword in pair):
            raise type_error(f"merges must be pairs of strings, got {describe(pair)}")
        left, right = pair
        if left not in known or right not in known:
            raise value_error(f"each merge must join bytes or results of earlier merges, got {describe(pair)}")
        known.add(left + right)
        pairs.append((left, right))
    return pairs


def _build_tokenizer(merges: Sequence[tuple[str, str]]) -> tokenizers.Tokenizer:
    library = _import_tokenizers()
    vocabulary: dict[str, int] = {}
    for subword in chain(_alphabet(), (left + right for left, right in merges)):
        vocabulary.setdefault(subword, len(vocabulary))  # two merges can give the same subword
    tokenizer: tokenizers.Tokenizer = library.Tokenizer(library.models.BPE(vocab=vocabulary, merges=list(merges)))
    # Splitting at newlines first keeps the tokens of a line independent of the whitespace of its neighbours.
    tokenizer.pre_tokenizer = library.pre_tokenizers.Sequence(
        [
            library.pre_tokenizers.Split("\n", "isolated"),
            library.pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = library.decoders.ByteLevel()
    return tokenizer


def _alphabet() -> list[str]:
    """Return the characters that byte-level BPE uses for the 256 bytes."""
    return sorted(_import_tokenizers().pre_tokenizers.ByteLevel.alphabet())


def _import_tokenizers() -> Any:
    try:
        import tokenizers  # noqa: PLC0415 (an optional dependency)
    except ImportError as error:
        raise ImportError(named(f"needs the package tokenizers; {install_hint('lm')}")) from error
    return tokenizers
