"""Corpora for training: Penn Treebank, WikiText-2, the grammar of :mod:`ghrr_lab.lm.grammar`, or a folder of texts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ghrr.checks import describe, named, names_errors, value_error
from ghrr.files import read_bytes
from ghrr_lab.lm.corpus_files import (
    ANY_NAMES,
    SOURCES,
    SPLITS,
    corpus_folder,
    find_split,
    manual_instructions,
    read_verified,
)
from ghrr_lab.lm.grammar import generate_grammar_text

GRAMMAR = "grammar"
CORPORA = (*SOURCES, GRAMMAR)
_GRAMMAR_SENTENCES = {"train": 20_000, "valid": 2_000, "test": 2_000}


@names_errors
@dataclass(frozen=True, repr=False)
class Corpus:
    r"""Training, validation and test text.

    Parameters
    ----------
    name
        Name of the corpus.
    train, valid, test
        Texts.

    Examples
    --------
    >>> from ghrr_lab.lm import Corpus
    >>> Corpus("tiny", train="a b a\n", valid="a b\n", test="b\n")
    <Corpus 'tiny', characters in train: 6, valid: 4, test: 2>
    """

    name: str
    train: str
    valid: str
    test: str

    @property
    def splits(self) -> dict[str, str]:
        """The texts by name, in the order train, valid, test."""
        return {"train": self.train, "valid": self.valid, "test": self.test}

    def __repr__(self) -> str:
        sizes = ", ".join(f"{split}: {len(text):,}" for split, text in self.splits.items())
        return f"<Corpus {self.name!r}, characters in {sizes}>"


@names_errors("load_corpus('{name}')")
def load_corpus(name: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> Corpus:
    """Load a corpus. Files of known corpora are checked against their hashes.

    Parameters
    ----------
    name
        ``"ptb"``, ``"wikitext-2"``, ``"grammar"`` (generated, needs no files), or the path of a folder with
        ``train.txt``, ``valid.txt`` and ``test.txt``.
    folder
        Folder with the files of ``ptb`` or ``wikitext-2``, or its parent folder. Default: where :func:`fetch_corpus`
        puts them.

    Raises
    ------
    FileNotFoundError
        A text is missing; the message says how to get it.
    ValueError
        A file has another hash than expected, is empty, or is not UTF-8 text.

    Examples
    --------
    >>> from ghrr_lab.lm import load_corpus
    >>> load_corpus("grammar")
    <Corpus 'grammar', characters in train: 1,091,596, valid: 109,980, test: 110,363>
    """
    if isinstance(name, str) and name == GRAMMAR:
        if folder is not None:
            raise value_error(f"the grammar corpus is generated, got folder={folder!r}; leave folder out")
        texts = {split: generate_grammar_text(_GRAMMAR_SENTENCES[split], seed=i) for i, split in enumerate(SPLITS)}
        return Corpus(GRAMMAR, **texts)
    if isinstance(name, str) and name in SOURCES:
        return _load_known(name, corpus_folder(name, folder))
    if not isinstance(name, (str, os.PathLike)) or not Path(name).is_dir() or folder is not None:
        raise value_error(
            f"name must be one of {', '.join(map(repr, CORPORA))}, or the path of a folder without the "
            f"argument folder; got {describe(name)}" + ("" if folder is None else f" and folder={folder!r}")
        )
    return _load_folder(Path(name))


def _load_known(name: str, folder: Path) -> Corpus:
    source, texts = SOURCES[name], {}
    for split, expected in source.files.items():
        path = find_split(folder, source.names, split)
        if path is None:
            raise FileNotFoundError(
                named(
                    f"the {split} text is missing; download it with fetch_corpus({name!r}), or "
                    f"{manual_instructions(name, folder)}"
                )
            )
        texts[split] = _decode(path, read_verified(path, expected))
    return Corpus(name, **texts)


def _load_folder(folder: Path) -> Corpus:
    texts = {}
    for split in SPLITS:
        path = find_split(folder, ANY_NAMES, split)
        if path is None:
            names = ", ".join(name.format(split=split) for name in ANY_NAMES)
            raise FileNotFoundError(named(f"the folder has no {split} text, expected one of {names}"))
        texts[split] = _decode(path, read_bytes(path))
    return Corpus(folder.resolve().name, **texts)


def _decode(path: Path, content: bytes) -> str:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise value_error(f"{path} is not UTF-8 text ({error.reason} at byte {error.start})") from None
    if "\0" in text:
        raise value_error(f"{path} is not text, got a NUL byte at byte {content.index(0)}")
    if not text.strip():
        raise value_error(f"{path} is empty, expected at least one word")
    return text
