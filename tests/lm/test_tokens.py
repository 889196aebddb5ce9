"""Vocabularies: text comes back, words are counted alike, and a change of the vocabulary is seen."""

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

from ghrr.lm import tokens as module
from ghrr.lm.grammar import generate_grammar_text
from ghrr.lm.tokens import BPETokens, Tokens, WordTokens, tokens_from_state

TEXT = "the cat saw the dog\n\n the <unk> dog ran \nthe cat saw a bird\n"
GRAMMAR = generate_grammar_text(300, seed=0)
WORDS = WordTokens.build(TEXT)
BPE = BPETokens.train(GRAMMAR, 500)
BOTH = pytest.mark.parametrize("tokens", [WORDS, BPE], ids=["words", "bpe"])
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\n\r\t\0 \x85\u2028\ufeff")) | st.text(
    st.sampled_from("the dog\n ")
)


def test_words_are_numbered_by_frequency_then_alphabet() -> None:
    assert WORDS.state()["words"] == ["<unk>", "<eos>", "the", "cat", "dog", "saw", "a", "bird", "ran"]
    assert WORDS.size == 9
    shuffled = "".join(sorted(TEXT.splitlines(keepends=True), reverse=True))
    assert shuffled != TEXT
    assert WordTokens.build(shuffled) == WORDS


def test_each_newline_is_an_eos_those_of_empty_lines_too() -> None:
    ids = WORDS.encode(TEXT)
    assert ids.dtype == np.int32
    assert ids.tolist() == [2, 3, 5, 2, 4, 1, 1, 2, 0, 4, 8, 1, 2, 3, 5, 6, 7, 1]
    assert WORDS.decode(ids) == "the cat saw the dog\n\nthe <unk> dog ran\nthe cat saw a bird\n"
    assert WORDS.encode("\n").tolist() == [1]
    assert WORDS.encode("the cat").tolist() == [2, 3]  # a beginning to go on from has no end


def test_no_piece_reaches_across_a_newline() -> None:
    text = "a \n\n  \n b\n" * 20
    for tokens in (BPE, BPETokens.train(text, 300)):
        (end,) = tokens.encode("\n")
        assert int((tokens.encode(text) == end).sum()) == text.count("\n")
    lines = text.replace("\n", "_")  # the control: other signs are merged with what stands around them
    tokens = BPETokens.train(lines, 300)
    assert int((tokens.encode(lines) == tokens.encode("_")[0]).sum()) < lines.count("_")


def test_unknown_words() -> None:
    assert WORDS.decode(WORDS.encode("the wolf saw a bird\n")) == "the <unk> saw a bird\n"
    without = WordTokens.build("a b\n")
    assert without.size == 4
    assert without.encode("c").tolist() == [0]


def test_a_limit_keeps_the_most_frequent_words() -> None:
    small = WordTokens.build(TEXT, limit=5)
    assert small.state()["words"] == WORDS.state()["words"][:5]
    assert small.decode(small.encode("the cat saw the dog\n")) == "the cat <unk> the dog\n"
    assert WordTokens.build(TEXT, limit=1000) == WORDS


@given(st.lists(st.lists(st.sampled_from(WORDS.state()["words"][2:]))))
def test_words_of_the_vocabulary_come_back(lines: list[list[str]]) -> None:
    text = "".join(" ".join(line) + "\n" for line in lines)
    assert WORDS.decode(WORDS.encode(text)) == text
    with_others = "wolf " + text
    assert WORDS.decode(WORDS.encode(with_others)) != with_others  # the control


@given(ANY_TEXT)
def test_any_text_comes_back_from_bpe(text: str) -> None:
    assert BPE.decode(BPE.encode(text)) == text


@given(ANY_TEXT)
def test_both_count_the_same_words(text: str) -> None:
    count = len(text.split()) + text.count("\n")
    assert WORDS.words(text) == BPE.words(text) == count
    assert len(WORDS.encode(text)) == count


@BOTH
@given(ANY_TEXT, st.integers(1, 5))
def test_tokens_do_not_depend_on_the_blocks(tokens: Tokens, text: str, block: int) -> None:
    whole = tokens.encode(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module._blocks, "__defaults__", (block,))
        patch.setattr(module, "_PART", block)
        assert np.array_equal(tokens.encode(text), whole)
        assert tokens.words(text) == len(text.split()) + text.count("\n")


def test_bpe_has_pieces_of_many_letters() -> None:
    assert BPE.size == 500
    ids = BPE.encode(GRAMMAR)
    assert len(ids) < len(GRAMMAR) / 2
    assert " farmer" in {BPE.decode([i]) for i in ids}
    assert BPETokens.train(GRAMMAR, 256).encode("é\n").tolist() == BPETokens([]).encode("é\n").tolist()
    assert len(BPETokens([]).encode("é\n")) == 3  # the bytes
    assert BPETokens.train("ab ab\n", 5000).size < 300  # no more pairs to merge
    assert BPETokens([]).decode(BPETokens([]).encode("é")[:1]) == "\N{REPLACEMENT CHARACTER}"


def test_training_gives_the_same_in_another_process() -> None:
    program = (
        "from ghrr.lm.grammar import generate_grammar_text; from ghrr.lm.tokens import BPETokens;"
        "print(BPETokens.train(generate_grammar_text(300, seed=0), 500).fingerprint)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == BPE.fingerprint


@BOTH
def test_a_state_gives_the_same_vocabulary(tokens: Tokens) -> None:
    again = tokens_from_state(json.loads(json.dumps(tokens.state())))
    assert type(again) is type(tokens)
    assert again == tokens
    assert hash(again) == hash(tokens)
    assert again.fingerprint == tokens.fingerprint
    assert again.size == tokens.size
    assert np.array_equal(again.encode(TEXT), tokens.encode(TEXT))
    assert repr(tokens) == f"{type(tokens).__name__}(size={tokens.size}, fingerprint={tokens.fingerprint[:8]})"


def test_another_vocabulary_has_another_fingerprint() -> None:
    words, merges = WORDS.state()["words"], BPE.state()["merges"]
    others = [
        WordTokens([*words[:-2], words[-1], words[-2]]),
        WordTokens(words[:-1]),
        WordTokens([*words, "wolf"]),
        BPETokens(merges[:-1]),
        BPETokens([]),
        WORDS,
        BPE,
    ]
    assert len({tokens.fingerprint for tokens in others}) == len(others)
    assert len(set(others)) == len(others)
    assert WORDS != "words"


@BOTH
def test_decode_takes_lists_arrays_and_tensors(tokens: Tokens) -> None:
    ids = tokens.encode("the cat\n")
    for form in (ids, ids.tolist(), ids.astype(np.int64), torch.from_numpy(ids), tuple(ids)):
        assert tokens.decode(form) == "the cat\n"
    assert tokens.decode([]) == ""
    assert tokens.encode("").shape == (0,)
    assert tokens.words("") == 0


@BOTH
@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ([0.5], TypeError, "ids must be a list of whole numbers, got list [0.5]"),
        ([[1]], TypeError, "ids must be a list of whole numbers, got list [[1]]"),
        ("ab", TypeError, "ids must be a list of whole numbers, got str 'ab'"),
        ([True], TypeError, "ids must be a list of whole numbers, got list [True]"),
        ([3, -1], ValueError, "got -1 to 3; they are of another vocabulary"),
        ([2, 10**6], ValueError, "got 2 to 1000000; they are of another vocabulary"),
    ],
)
def test_bad_ids(tokens: Tokens, ids: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        tokens.decode(ids)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: WORDS.encode(b"a"), TypeError, "WordTokens.encode: text must be a str, got bytes b'a'"),  # type: ignore[arg-type]
        (lambda: BPE.encode(None), TypeError, "BPETokens.encode: text must be a str, got NoneType None"),  # type: ignore[arg-type]
        (lambda: BPE.encode("a\ud800"), ValueError, "BPETokens.encode: the text has no form in UTF-8: surrogates"),
        (lambda: WORDS.words(3), TypeError, "WordTokens.words: text must be a str, got int 3"),  # type: ignore[arg-type]
        (lambda: WordTokens.build(" \n"), ValueError, "WordTokens.build: the text has no words to learn from"),
        (lambda: WordTokens.build("a", limit=2), ValueError, "limit must be a whole number of at least 3, got 2"),
        (lambda: BPETokens.train("", 300), ValueError, "BPETokens.train: the text has no words to learn from"),
        (lambda: BPETokens.train("a b", 255), ValueError, "size must be a whole number of at least 256, got 255"),
        (lambda: BPETokens.train("a \udfff", 300), ValueError, "BPETokens.train: the text has no form in UTF-8"),
        (lambda: WordTokens("abc"), TypeError, "words must be a list of strings, got str 'abc'"),
        (lambda: WordTokens(["<unk>", "<eos>", 3]), TypeError, "words must be a list of strings"),  # type: ignore[list-item]
        (lambda: WordTokens(["a", "b"]), ValueError, "the first two words must be <unk> and <eos>, got ['a', 'b']"),
        (lambda: WordTokens(["<unk>", "<eos>", "a", "a"]), ValueError, "'a' is there twice"),
        (lambda: WordTokens(["<unk>", "<eos>", "a b"]), ValueError, "has no whitespace in it, got 'a b'"),
        (lambda: WordTokens(["<unk>", "<eos>", ""]), ValueError, "a word is not empty"),
        (lambda: BPETokens([("a", "b", "c")]), TypeError, "merges must be pairs of strings, got tuple"),
        (lambda: BPETokens(["ab"]), TypeError, "merges must be pairs of strings, got str 'ab'"),
        (lambda: BPETokens([("ab", "c")]), ValueError, "a merge joins bytes or what was merged before"),
    ],
)
def test_bad_arguments(call: Callable[[], Any], error: type[Exception], message: str) -> None:
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
def test_damaged_states(state: Any) -> None:
    with pytest.raises(ValueError, match="tokens_from_state"):
        tokens_from_state(state)


def test_without_tokenizers_words_work_and_bpe_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert WordTokens.build(TEXT) == WORDS
    for call in (lambda: BPETokens.train(TEXT, 300), lambda: tokens_from_state(BPE.state())):
        with pytest.raises(ImportError, match=re.escape("pip install 'ghrr[lm]'")):
            call()
