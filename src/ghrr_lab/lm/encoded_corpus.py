"""A corpus as token ids, the input of training and evaluation."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from ghrr.checks import names_errors, value_error
from ghrr_lab.lm.corpora import Corpus
from ghrr_lab.lm.tokenizers import BPETokenizer, Tokenizer, WordTokenizer


@names_errors
@dataclass(frozen=True)
class EncodedCorpus:
    r"""The training, validation and test text of a corpus as token ids, with their tokenizer.

    Attributes
    ----------
    name
        Name of the corpus, with the suffix ``-small`` for a limited vocabulary or ``-bpe`` for BPE tokens.
    tokenizer
        Tokenizer of the three texts.
    train
        Token ids of the training text.
    valid
        Token ids of the validation text.
    test
        Token ids of the test text.
    word_counts
        Number of words of each text, by ``"train"``, ``"valid"`` and ``"test"``.

    Shapes
    ------
    train, valid, test: ``(n,)``

    Examples
    --------
    >>> from ghrr_lab.lm import Corpus, encode_corpus
    >>> encoded = encode_corpus(Corpus("tiny", train="a b a\n", valid="a b\n", test="b\n"))
    >>> encoded.train, encoded.word_counts["train"]
    (tensor([2, 3, 2, 1]), 4)
    """

    name: str
    tokenizer: Tokenizer
    train: Tensor
    valid: Tensor
    test: Tensor
    word_counts: dict[str, int]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all token ids, which distinguishes texts of the same name."""
        digest = hashlib.sha256()
        for ids in (self.train, self.valid, self.test):
            digest.update(ids.numpy().data)
        return digest.hexdigest()


@names_errors
def encode_corpus(
    corpus: Corpus, tokenizer: Tokenizer | None = None, *, bpe: int | None = None, limit: int | None = None
) -> EncodedCorpus:
    """Convert a corpus to token ids.

    Parameters
    ----------
    corpus
        Training, validation and test text.
    tokenizer
        Tokenizer to use. Default: build one from the training text, of words unless ``bpe`` is given.
    bpe
        Train a BPE tokenizer with this vocabulary size.
    limit
        Limit the vocabulary of words to this size; see :meth:`WordTokenizer.build`.

    Examples
    --------
    >>> from ghrr_lab import lm
    >>> encoded = lm.encode_corpus(lm.load_corpus("grammar"), limit=100)
    >>> encoded.tokenizer.vocab_size, encoded.train.dtype
    (100, torch.int64)
    """
    if bpe is not None and limit is not None:
        raise value_error("expected bpe or limit, got both; limit applies to words only")
    if tokenizer is None:
        tokenizer = WordTokenizer.build(corpus.train, limit) if bpe is None else BPETokenizer.train(corpus.train, bpe)
    ids = {split: torch.from_numpy(tokenizer.encode(text)).long() for split, text in corpus.splits.items()}
    for split, tokens in ids.items():
        if len(tokens) < 2:
            raise value_error(f"the {split} text of {corpus.name} must have at least 2 tokens, got {len(tokens)}")
    suffix = "-small" if limit is not None else "-bpe" if bpe is not None else ""
    word_counts = {split: tokenizer.count_words(text) for split, text in corpus.splits.items()}
    return EncodedCorpus(corpus.name + suffix, tokenizer, **ids, word_counts=word_counts)
