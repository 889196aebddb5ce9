"""Loading corpora: known names give exactly the known files, and folders of texts are checked."""

from __future__ import annotations

import hashlib
import re
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

from ghrr_lab.lm import Corpus, WordTokenizer, fetch_corpus, grammar_perplexity, load_corpus
from ghrr_lab.lm.corpus_files import ANY_NAMES, SOURCES, SPLITS
from tests.lab.lm.small_corpus import TEXTS, replace_ptb, write_texts

# Tokens of the training text with <eos>, and vocabulary sizes, as reported in the literature.
COUNTS = {"ptb": (929_589, 10_000), "wikitext-2": (2_088_628, 33_278)}


@pytest.fixture(autouse=True)
def small_ptb(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_ptb(monkeypatch)


@pytest.mark.parametrize("pattern", ["{split}.txt", "ptb.{split}.txt"])
@pytest.mark.parametrize("inner", [".", "ptb"])
def test_load_corpus_accepts_usual_file_names(tmp_path: Path, pattern: str, inner: str) -> None:
    write_texts(tmp_path / inner, pattern)
    assert load_corpus("ptb", tmp_path) == Corpus("ptb", **TEXTS)
    assert load_corpus("ptb", str(tmp_path)).splits == TEXTS


def test_load_corpus_uses_the_cache_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    write_texts(tmp_path / "ghrr" / "lm" / "ptb")
    assert load_corpus("ptb").splits == TEXTS
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    write_texts(tmp_path / "home" / ".cache" / "ghrr" / "lm" / "ptb")
    assert load_corpus("ptb").splits == TEXTS


@pytest.mark.parametrize("split", SPLITS)
def test_load_corpus_rejects_a_file_with_another_hash(tmp_path: Path, split: str) -> None:
    other = TEXTS[split].replace("é", "e", 1)
    write_texts(tmp_path, **{split: other})
    found, expected = hashlib.sha256(other.encode()).hexdigest(), SOURCES["ptb"].files[split].sha256
    pattern = rf"load_corpus\('ptb'\): .*{split}\.txt is not the file .* got sha256 {found} .* expected {expected}"
    with pytest.raises(ValueError, match=pattern):
        load_corpus("ptb", tmp_path)


def test_load_corpus_accepts_any_folder_with_three_texts(tmp_path: Path) -> None:
    for pattern in ANY_NAMES:
        folder = write_texts(tmp_path / pattern.replace("{split}", "x"), pattern)
        for name in (folder, str(folder)):
            assert load_corpus(name) == Corpus(folder.name, **TEXTS)


def test_path_takes_precedence_over_corpus_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write_texts(tmp_path / "grammar").parent)
    assert load_corpus(Path("grammar")).splits == TEXTS
    assert load_corpus("./grammar").splits == TEXTS
    assert load_corpus("grammar").splits != TEXTS


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"valid\.txt is empty"),
        (b" \n\n", r"valid\.txt is empty"),
        (b"a\0b", r"valid\.txt is not text, got a NUL byte at byte 1"),
        (b"ab\xff\xfe", r"valid\.txt is not UTF-8 text \(invalid start byte at byte 2\)"),
    ],
)
def test_load_corpus_rejects_files_that_are_not_text(tmp_path: Path, content: bytes, message: str) -> None:
    write_texts(tmp_path, valid=content)
    with pytest.raises(ValueError, match=r"load_corpus\(.*" + message):
        load_corpus(tmp_path)


@pytest.mark.parametrize("split", SPLITS)
def test_load_corpus_names_a_missing_text(tmp_path: Path, split: str) -> None:
    (write_texts(tmp_path) / f"{split}.txt").unlink()
    with pytest.raises(
        FileNotFoundError, match=rf"the folder has no {split} text, expected one of .* wiki\.{split}\.tokens"
    ):
        load_corpus(tmp_path)
    with pytest.raises(FileNotFoundError, match=rf"the {split} text is missing; .*fetch_corpus\('ptb'\)") as error:
        load_corpus("ptb", tmp_path)
    assert all(file.sha256 in str(error.value) for file in SOURCES["ptb"].files.values())
    assert str(tmp_path) in str(error.value)


def test_load_corpus_rejects_ambiguous_files(tmp_path: Path) -> None:
    write_texts(write_texts(tmp_path), "ptb.{split}.txt")
    for call in (lambda: load_corpus(tmp_path), lambda: load_corpus("ptb", tmp_path)):
        with pytest.raises(ValueError, match=r"expected one train text, got .*train\.txt and .*ptb\.train\.txt"):
            call()


def test_grammar_corpus_has_three_different_texts() -> None:
    corpus = load_corpus("grammar")
    assert [text.count("\n") for text in corpus.splits.values()] == [20_000, 2_000, 2_000]
    assert len(set(corpus.splits.values())) == 3
    assert not corpus.train.startswith(corpus.valid[:200])
    assert not corpus.test.startswith(corpus.valid[:200])
    assert set(corpus.test.split()) <= set(corpus.train.split())
    assert grammar_perplexity(corpus.test) == pytest.approx(grammar_perplexity(), rel=0.05)
    assert len(repr(corpus)) < 120
    with pytest.raises(FrozenInstanceError):
        corpus.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: load_corpus("ptv"), ValueError, "must be one of 'ptb', 'wikitext-2', 'grammar', or the path"),
        (lambda: load_corpus(5), ValueError, "got int 5"),  # type: ignore[arg-type]
        (lambda: load_corpus(".", "x"), ValueError, "and folder='x'"),
        (
            lambda: load_corpus("grammar", "x"),
            ValueError,
            "the grammar corpus is generated, got folder='x'; leave folder out",
        ),
        (lambda: load_corpus("ptb", 3), TypeError, "folder must be a path, got int 3"),  # type: ignore[arg-type]
        (lambda: fetch_corpus("grammar"), ValueError, "the grammar corpus needs no files: use load_corpus('grammar')"),
        (lambda: fetch_corpus("ptv"), ValueError, "name must be one of ptb, wikitext-2, got str 'ptv'"),
    ],
)
def test_corpus_functions_reject_invalid_arguments(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()


@pytest.mark.parametrize("name", COUNTS)
def test_real_corpora_have_the_published_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    try:
        corpus = load_corpus(name)
    except FileNotFoundError:
        pytest.skip(f"{name} is not in the cache; fetch_corpus({name!r}) downloads it")
    tokenizer = WordTokenizer.build(corpus.train)
    assert (len(tokenizer.encode(corpus.train)), tokenizer.vocab_size) == COUNTS[name]
