"""A corpus as tokens: what training and evaluation read."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from ghrr.lm.corpora import Corpus
from ghrr.lm.tokens import BPETokens, Tokens, WordTokens


@dataclass(frozen=True)
class Text:
    """The three texts as tensors of tokens ``(length,)``, their vocabulary, and how many words each has."""

    name: str
    tokens: Tokens
    train: Tensor
    valid: Tensor
    test: Tensor
    words: dict[str, int]

    @property
    def fingerprint(self) -> str:
        """A hash of all tokens: another text of the same name has another."""
        digest = hashlib.sha256()
        for part in (self.train, self.valid, self.test):
            digest.update(part.numpy().data)
        return digest.hexdigest()


def encode_corpus(
    corpus: Corpus, tokens: Tokens | None = None, *, bpe: int | None = None, limit: int | None = None
) -> Text:
    """Turn a corpus into tokens.

    Parameters
    ----------
    corpus
        Three texts.
    tokens
        A vocabulary that is there already; otherwise one is built from the training text.
    bpe
        Byte-pair tokens, so many; otherwise words.
    limit
        Words: keep the most frequent ones alone.

    Examples
    --------
    >>> import ghrr.lm
    >>> text = ghrr.lm.encode_corpus(ghrr.lm.load_corpus("grammar"), limit=100)
    >>> text.tokens.size, text.train.dtype
    (100, torch.int64)
    """
    if bpe is not None and limit is not None:
        raise ValueError("encode_corpus: byte-pair tokens have no word limit; give bpe or limit")
    if tokens is None:
        tokens = WordTokens.build(corpus.train, limit) if bpe is None else BPETokens.train(corpus.train, bpe)
    encoded = {name: torch.from_numpy(tokens.encode(part)).long() for name, part in corpus.splits.items()}
    for name, part in encoded.items():
        if len(part) < 2:
            raise ValueError(f"the {name} text of {corpus.name} has {len(part)} tokens; there is nothing to predict")
    suffix = "-small" if limit is not None else "-bpe" if bpe is not None else ""
    return Text(
        corpus.name + suffix, tokens, **encoded, words={n: tokens.words(part) for n, part in corpus.splits.items()}
    )
