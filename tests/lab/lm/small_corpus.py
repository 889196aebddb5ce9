"""A small corpus that takes the name of the Penn Treebank, which may not be redistributed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from ghrr_lab.lm.corpus_files import SOURCES, SPLITS, CorpusFile

TEXTS = {split: f" the {split} text \n with é\n" * 5000 for split in SPLITS}  # longer than one download chunk


def replace_ptb(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expect the hashes of the small texts for ``ptb``."""
    contents = {split: text.encode() for split, text in TEXTS.items()}
    files = {split: CorpusFile(hashlib.sha256(data).hexdigest(), len(data)) for split, data in contents.items()}
    monkeypatch.setitem(SOURCES, "ptb", SOURCES["ptb"]._replace(files=files))


def write_texts(folder: Path, pattern: str = "{split}.txt", **texts: str | bytes) -> Path:
    """Write the three texts to a folder, some of them replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, text in (TEXTS | texts).items():
        (folder / pattern.format(split=split)).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder
