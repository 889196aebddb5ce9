"""The files of the known corpora: names, public URLs and SHA-256 hashes.

The package contains hashes of these texts, not the texts. Loading a corpus by name gives exactly the file with that
hash. WikiText-2 comes from Wikipedia under the licence CC BY-SA. The Penn Treebank may not be redistributed; you need
the right to use its word-level texts before you download them.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from ghrr.checks import describe, type_error, value_error
from ghrr.files import read_bytes

SPLITS = ("train", "valid", "test")
ANY_NAMES = ("{split}.txt", "ptb.{split}.txt", "wiki.{split}.tokens", "wiki.{split}.raw")


class CorpusFile(NamedTuple):
    """Hash and size of a file."""

    sha256: str
    size: int


class CorpusSource(NamedTuple):
    """Public URL, usual file names and expected files of a corpus."""

    url: str
    names: tuple[str, ...]
    files: dict[str, CorpusFile]


SOURCES = {
    "ptb": CorpusSource(
        url="https://raw.githubusercontent.com/tomsercu/lstm/master/data/ptb.{split}.txt",
        names=("{split}.txt", "ptb.{split}.txt"),
        files={
            "train": CorpusFile("fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf", 5_101_618),
            "valid": CorpusFile("c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2", 399_782),
            "test": CorpusFile("dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0", 449_945),
        },
    ),
    "wikitext-2": CorpusSource(
        url="https://raw.githubusercontent.com/pytorch/examples/main/word_language_model/data/wikitext-2/{split}.txt",
        names=("{split}.txt", "wiki.{split}.tokens"),
        files={
            "train": CorpusFile("9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f", 10_797_148),
            "valid": CorpusFile("f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8", 1_121_681),
            "test": CorpusFile("d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0", 1_256_449),
        },
    ),
}


def corpus_folder(name: str, folder: str | os.PathLike[str] | None) -> Path:
    """Return the folder of a known corpus: ``folder/name`` if it exists, else ``folder``; by default in the cache."""
    if folder is None:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ghrr" / "lm" / name
    if not isinstance(folder, (str, os.PathLike)):
        raise type_error(f"folder must be a path, got {describe(folder)}")
    inner = Path(folder) / name
    return inner if inner.is_dir() else Path(folder)


def find_split(folder: Path, names: tuple[str, ...], split: str) -> Path | None:
    """Return the file of a split under one of its usual names, or None."""
    found = [path for path in (folder / name.format(split=split) for name in names) if path.exists()]
    if len(found) > 1:
        raise value_error(f"expected one {split} text, got {' and '.join(map(str, found))}; remove all but one")
    return found[0] if found else None


def read_verified(path: Path, expected: CorpusFile) -> bytes:
    """Return the content of a file after checking its hash."""
    content = read_bytes(path, limit=expected.size + 1)
    check_hash(str(path), hashlib.sha256(content).hexdigest(), len(content), expected)
    return content


def check_hash(source: str, sha256: str, size: int, expected: CorpusFile) -> None:
    """Raise ``ValueError`` unless a hash is the expected one. ``source`` begins the message."""
    if sha256 != expected.sha256:
        raise value_error(
            f"{source} is not the file of this corpus: got sha256 {sha256} ({size:,} bytes), expected "
            f"{expected.sha256} ({expected.size:,} bytes); the file was neither used nor changed"
        )


def manual_instructions(name: str, folder: Path) -> str:
    """Say which files to copy to a folder by hand."""
    files = SOURCES[name].files
    listed = "".join(f"\n  {split}.txt  sha256 {files[split].sha256}" for split in SPLITS)
    return f"copy these files to {folder}:{listed}"
