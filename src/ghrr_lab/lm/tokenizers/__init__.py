"""Tokenizers: text to token ids and back, by words or by byte-pair encoding (BPE)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ghrr.checks import describe, names_errors, value_error, without_name
from ghrr_lab.lm.tokenizers.base import Tokenizer
from ghrr_lab.lm.tokenizers.bpe import BPETokenizer
from ghrr_lab.lm.tokenizers.words import WordTokenizer

__all__ = ["BPETokenizer", "Tokenizer", "WordTokenizer", "tokenizer_from_state"]


@names_errors
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
        raise value_error(f"damaged state of kind {kind!r} ({without_name(error)})") from error
    raise value_error(f"state must come from Tokenizer.state(), got {describe(state)}")
