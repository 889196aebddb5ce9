"""Tokenizers: decoding inverts encoding, all count the same words, and a fingerprint identifies a vocabulary."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ghrr_lab.lm import BPETokenizer, Tokenizer, WordTokenizer, generate_grammar_text, tokenizer_from_state
from ghrr_lab.lm.tokenizers import base, bpe

TEXT = "the cat saw the dog\n\n the <unk> dog ran \nthe cat saw a bird\n"
GRAMMAR = generate_grammar_text(300, seed=0)
WORDS = WordTokenizer.build(TEXT)
BPE = BPETokenizer.train(GRAMMAR, 500)
EACH_TOKENIZER = pytest.mark.parametrize("tokenizer", [WORDS, BPE], ids=["words", "bpe"])
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\n\r\t\0 \x85\u2028\ufeff")) | st.text(
    st.sampled_from("the dog\n ")
)


def test_words_are_sorted_by_frequency_then_alphabet() -> None:
    assert WORDS.state()["words"] == ["<unk>", "<eos>", "the", "cat", "dog", "saw", "a", "bird", "ran"]
    assert WORDS.vocab_size == 9
    shuffled = "".join(sorted(TEXT.splitlines(keepends=True), reverse=True))
    assert shuffled != TEXT
    assert WordTokenizer.build(shuffled) == WORDS


def test_each_newline_becomes_eos() -> None:
    ids = WORDS.encode(TEXT)
    assert ids.dtype == np.int32
    assert ids.tolist() == [2, 3, 5, 2, 4, 1, 1, 2, 0, 4, 8, 1, 2, 3, 5, 6, 7, 1]
    assert WORDS.decode(ids) == "the cat saw the dog\n\nthe <unk> dog ran\nthe cat saw a bird\n"
    assert WORDS.encode("\n").tolist() == [1]
    assert WORDS.encode("the cat").tolist() == [2, 3]  # no newline, no <eos>


def test_no_bpe_token_spans_a_newline() -> None:
    text = "a \n\n  \n b\n" * 20
    for tokenizer in (BPE, BPETokenizer.train(text, 300)):
        (end,) = tokenizer.encode("\n")
        assert int((tokenizer.encode(text) == end).sum()) == text.count("\n")
    lines = text.replace("\n", "_")  # control: another character is merged with its neighbours
    tokenizer = BPETokenizer.train(lines, 300)
    assert int((tokenizer.encode(lines) == tokenizer.encode("_")[0]).sum()) < lines.count("_")


def test_unknown_words_become_unk() -> None:
    assert WORDS.decode(WORDS.encode("the wolf saw a bird\n")) == "the <unk> saw a bird\n"
    without = WordTokenizer.build("a b\n")
    assert without.vocab_size == 4
    assert without.encode("c").tolist() == [0]


def test_limit_keeps_the_most_frequent_words() -> None:
    small = WordTokenizer.build(TEXT, limit=5)
    assert small.state()["words"] == WORDS.state()["words"][:5]
    assert small.decode(small.encode("the cat saw the dog\n")) == "the cat <unk> the dog\n"
    assert WordTokenizer.build(TEXT, limit=1000) == WORDS


@given(st.lists(st.lists(st.sampled_from(WORDS.state()["words"][2:]))))
def test_word_decode_inverts_encode_for_known_words(lines: list[list[str]]) -> None:
    text = "".join(" ".join(line) + "\n" for line in lines)
    assert WORDS.decode(WORDS.encode(text)) == text
    unknown = "wolf " + text
    assert WORDS.decode(WORDS.encode(unknown)) != unknown  # control


@given(ANY_TEXT)
def test_bpe_decode_inverts_encode_for_any_text(text: str) -> None:
    assert BPE.decode(BPE.encode(text)) == text


@given(ANY_TEXT)
def test_all_tokenizers_count_the_same_words(text: str) -> None:
    count = len(text.split()) + text.count("\n")
    assert WORDS.count_words(text) == BPE.count_words(text) == count
    assert len(WORDS.encode(text)) == count


@EACH_TOKENIZER
@given(ANY_TEXT, st.integers(1, 5))
def test_tokens_do_not_depend_on_block_size(tokenizer: Tokenizer, text: str, block: int) -> None:
    whole = tokenizer.encode(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base.split_lines, "__defaults__", (block,))
        patch.setattr(bpe, "_BATCH", block)
        assert np.array_equal(tokenizer.encode(text), whole)
        assert tokenizer.count_words(text) == len(text.split()) + text.count("\n")


def test_bpe_learns_whole_words() -> None:
    assert BPE.vocab_size == 500
    ids = BPE.encode(GRAMMAR)
    assert len(ids) < len(GRAMMAR) / 2
    assert " farmer" in {BPE.decode([i]) for i in ids}
    assert BPETokenizer.train(GRAMMAR, 256).encode("é\n").tolist() == BPETokenizer([]).encode("é\n").tolist()
    assert len(BPETokenizer([]).encode("é\n")) == 3  # one token per byte
    assert BPETokenizer.train("ab ab\n", 5000).vocab_size < 300  # no pair is left that occurs twice
    assert BPETokenizer([]).decode(BPETokenizer([]).encode("é")[:1]) == "\N{REPLACEMENT CHARACTER}"


@pytest.mark.slow
def test_training_in_another_process_gives_the_same_vocabulary() -> None:
    program = (
        "from ghrr_lab.lm import BPETokenizer, generate_grammar_text;"
        "print(BPETokenizer.train(generate_grammar_text(300, seed=0), 500).fingerprint)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == BPE.fingerprint


@EACH_TOKENIZER
def test_tokenizer_from_state_restores_tokenizer(tokenizer: Tokenizer) -> None:
    again = tokenizer_from_state(json.loads(json.dumps(tokenizer.state())))
    assert type(again) is type(tokenizer)
    assert again == tokenizer
    assert hash(again) == hash(tokenizer)
    assert again.fingerprint == tokenizer.fingerprint
    assert again.vocab_size == tokenizer.vocab_size
    assert np.array_equal(again.encode(TEXT), tokenizer.encode(TEXT))
    assert (
        repr(tokenizer)
        == f"{type(tokenizer).__name__}(vocab_size={tokenizer.vocab_size}, fingerprint={tokenizer.fingerprint[:8]})"
    )


def test_different_vocabularies_have_different_fingerprints() -> None:
    words, merges = WORDS.state()["words"], BPE.state()["merges"]
    others = [
        WordTokenizer([*words[:-2], words[-1], words[-2]]),
        WordTokenizer(words[:-1]),
        WordTokenizer([*words, "wolf"]),
        BPETokenizer(merges[:-1]),
        BPETokenizer([]),
        WORDS,
        BPE,
    ]
    assert len({tokenizer.fingerprint for tokenizer in others}) == len(others)
    assert len(set(others)) == len(others)
    assert WORDS != "words"


@EACH_TOKENIZER
def test_decode_accepts_lists_arrays_and_tensors(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("the cat\n")
    for form in (ids, ids.tolist(), ids.astype(np.int64), torch.from_numpy(ids), tuple(ids)):
        assert tokenizer.decode(form) == "the cat\n"
    assert tokenizer.decode([]) == ""
    assert tokenizer.encode("").shape == (0,)
    assert tokenizer.count_words("") == 0


@EACH_TOKENIZER
@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ([0.5], TypeError, "ids must be a list of whole numbers, got list [0.5]"),
        ([[1]], TypeError, "ids must be a list of whole numbers, got list [[1]]"),
        ("ab", TypeError, "ids must be a list of whole numbers, got str 'ab'"),
        ([True], TypeError, "ids must be a list of whole numbers, got list [True]"),
        ([3, -1], ValueError, "got -1 to 3; use the tokenizer that made them"),
        ([2, 10**6], ValueError, "got 2 to 1000000; use the tokenizer that made them"),
    ],
)
def test_decode_rejects_invalid_ids(tokenizer: Tokenizer, ids: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        tokenizer.decode(ids)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: WORDS.encode(b"a"), TypeError, "WordTokenizer.encode: text must be a str, got bytes b'a'"),  # type: ignore[arg-type]
        (lambda: BPE.encode(None), TypeError, "BPETokenizer.encode: text must be a str, got NoneType None"),  # type: ignore[arg-type]
        (
            lambda: BPE.encode("a\ud800"),
            ValueError,
            "BPETokenizer.encode: the text cannot be encoded as UTF-8: surrogates",
        ),
        (lambda: WORDS.count_words(3), TypeError, "WordTokenizer.count_words: text must be a str, got int 3"),  # type: ignore[arg-type]
        (lambda: WordTokenizer.build(" \n"), ValueError, "WordTokenizer.build: the text must have at least one word"),
        (lambda: WordTokenizer.build("a", limit=2), ValueError, "limit must be a whole number of at least 3, got 2"),
        (lambda: BPETokenizer.train("", 300), ValueError, "BPETokenizer.train: the text must have at least one word"),
        (
            lambda: BPETokenizer.train("a b", 255),
            ValueError,
            "vocab_size must be a whole number of at least 256, got 255",
        ),
        (
            lambda: BPETokenizer.train("a \udfff", 300),
            ValueError,
            "BPETokenizer.train: the text cannot be encoded as UTF-8",
        ),
        (lambda: WordTokenizer("abc"), TypeError, "words must be a list of strings, got str 'abc'"),
        (lambda: WordTokenizer(["<unk>", "<eos>", 3]), TypeError, "words must be a list of strings"),  # type: ignore[list-item]
        (lambda: WordTokenizer(["a", "b"]), ValueError, "the first two words must be <unk> and <eos>, got ['a', 'b']"),
        (
            lambda: WordTokenizer(["<unk>", "<eos>", "a", "a"]),
            ValueError,
            "words must be unique, got 'a' more than once",
        ),
        (lambda: WordTokenizer(["<unk>", "<eos>", "a b"]), ValueError, "non-empty and without whitespace, got 'a b'"),
        (lambda: WordTokenizer(["<unk>", "<eos>", ""]), ValueError, "non-empty and without whitespace, got ''"),
        (lambda: BPETokenizer([("a", "b", "c")]), TypeError, "merges must be pairs of strings, got tuple"),
        (lambda: BPETokenizer(["ab"]), TypeError, "merges must be pairs of strings, got str 'ab'"),
        (lambda: BPETokenizer([("ab", "c")]), ValueError, "each merge must join bytes or results of earlier merges"),
    ],
)
def test_tokenizers_reject_invalid_arguments(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()


@pytest.mark.parametrize(
    "state",
    [
        {},
        [],
        None,
        {"kind": "letters"},
        {"kind": "words"},
        {"kind": "words", "words": None},
        {"kind": "words", "words": [1, 2]},
        {"kind": "words", "words": ["a"]},
        {"kind": "bpe"},
        {"kind": "bpe", "merges": 3},
        {"kind": "bpe", "merges": [[["a"], "b"]]},
        {"kind": "bpe", "merges": [["a", "bcd"]]},
    ],
)
def test_tokenizer_from_state_rejects_damaged_state(state: Any) -> None:
    with pytest.raises(ValueError, match="tokenizer_from_state"):
        tokenizer_from_state(state)


def test_only_bpe_needs_the_package_tokenizers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert WordTokenizer.build(TEXT) == WORDS
    for call in (lambda: BPETokenizer.train(TEXT, 300), lambda: tokenizer_from_state(BPE.state())):
        with pytest.raises(ImportError, match=re.escape("pip install 'ghrr[lm]'")):
            call()
