"""Tokenizers: text to token ids and back, by words or by byte-pair encoding (BPE)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ghrr._old_checks import describe
from ghrr_lab.lm.tokenizers.base import Tokenizer
from ghrr_lab.lm.tokenizers.bpe import BPETokenizer
from ghrr_lab.lm.tokenizers.words import WordTokenizer

__all__ = ["BPETokenizer", "Tokenizer", "WordTokenizer", "tokenizer_from_state"]


def tokenizer_from_state(state: Mapping[str, Any]) -> Tokenizer:
    r"""Rebuild a tokenizer from what its :meth:`~Tokenizer.state` returned.

    Raises
    ------
    ValueError
        The state is incomplete or contradicts itself.

    Examples
    --------
    >>> from ghrr_lab.lm import WordTokenizer, tokenizer_from_state
    >>> tokenizer = WordTokenizer.build("a b b\n")
    >>> tokenizer_from_state(tokenizer.state()) == tokenizer
    True
    """
    kind = state.get("kind") if isinstance(state, Mapping) else None
    try:
        if kind == WordTokenizer.KIND:
            return WordTokenizer(state["words"])
        if kind == BPETokenizer.KIND:
            return BPETokenizer(state["merges"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"tokenizer_from_state: damaged state of kind {kind!r} ({error})") from error
    raise ValueError(f"tokenizer_from_state: state must come from Tokenizer.state(), got {describe(state)}")
