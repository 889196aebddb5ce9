"""Texts to learn from: Penn Treebank, WikiText-2, the grammar of :mod:`ghrr.lm.grammar`, or a folder of one's own.

The library holds hashes of these texts, not the texts: what is loaded under the name of a corpus is that corpus, to
the byte. WikiText-2 is from Wikipedia, under the Creative Commons licence BY-SA (attribution, share alike). The Penn
Treebank may not be redistributed; whoever fetches its word-level texts needs a right to use them.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from ghrr._checks import describe
from ghrr.files import atomic_write, check_regular, read_bytes
from ghrr.lm.grammar import generate_grammar_text

SPLITS = ("train", "valid", "test")
GRAMMAR = "grammar"
_GRAMMAR_SENTENCES = {"train": 20_000, "valid": 2_000, "test": 2_000}
_TIMEOUT = 30.0  # seconds without a byte
_CHUNK = 1 << 16

Progress = Callable[[str, int, int], None]


class _File(NamedTuple):
    sha256: str
    size: int


class _Source(NamedTuple):
    url: str
    names: tuple[str, ...]
    files: dict[str, _File]


_SOURCES = {
    "ptb": _Source(
        url="https://raw.githubusercontent.com/tomsercu/lstm/master/data/ptb.{split}.txt",
        names=("{split}.txt", "ptb.{split}.txt"),
        files={
            "train": _File("fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf", 5_101_618),
            "valid": _File("c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2", 399_782),
            "test": _File("dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0", 449_945),
        },
    ),
    "wikitext-2": _Source(
        url="https://raw.githubusercontent.com/pytorch/examples/main/word_language_model/data/wikitext-2/{split}.txt",
        names=("{split}.txt", "wiki.{split}.tokens"),
        files={
            "train": _File("9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f", 10_797_148),
            "valid": _File("f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8", 1_121_681),
            "test": _File("d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0", 1_256_449),
        },
    ),
}
CORPORA = (*_SOURCES, GRAMMAR)
_ANY_NAMES = ("{split}.txt", "ptb.{split}.txt", "wiki.{split}.tokens", "wiki.{split}.raw")


@dataclass(frozen=True, repr=False)
class Corpus:
    """Three texts, as they are: to learn from, to choose by, and to measure on.

    Attributes
    ----------
    name
        What it is called.
    train, valid, test
        The texts.
    unit
        ``"word"`` where spaces stand between words and punctuation already, and perplexity is by custom that of words;
        ``"character"`` where nothing is known.
    """

    name: str
    train: str
    valid: str
    test: str
    unit: str

    @property
    def splits(self) -> dict[str, str]:
        """The texts by name, in the order train, valid, test."""
        return {"train": self.train, "valid": self.valid, "test": self.test}

    def __repr__(self) -> str:
        sizes = ", ".join(f"{split}: {len(text):,}" for split, text in self.splits.items())
        return f"<Corpus {self.name!r} of {self.unit}s, characters in {sizes}>"


def load_corpus(name: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> Corpus:
    """The texts of a corpus, checked.

    Parameters
    ----------
    name
        ``"ptb"``, ``"wikitext-2"``, ``"grammar"``, or a path to a folder with three texts.
    folder
        Where the files of ``ptb`` and ``wikitext-2`` are, or a folder that has them in one called like the corpus. By
        default where :func:`fetch_corpus` puts them.

    Raises
    ------
    FileNotFoundError
        A text is missing; the message says which, and what would be right.
    ValueError
        A file is not the one of that corpus, is empty, or is not text.

    Examples
    --------
    >>> load_corpus("grammar")
    <Corpus 'grammar' of words, characters in train: 1,091,596, valid: 109,980, test: 110,363>
    """
    operation = f"load_corpus({str(name)!r})"
    if isinstance(name, str) and name == GRAMMAR:
        if folder is not None:
            raise ValueError(f"{operation}: it is generated, not read; leave out folder={folder!r}")
        texts = {split: generate_grammar_text(_GRAMMAR_SENTENCES[split], seed=i) for i, split in enumerate(SPLITS)}
        return Corpus(GRAMMAR, **texts, unit="word")
    if isinstance(name, str) and name in _SOURCES:
        return _load_known(operation, name, _folder_of(operation, name, folder))
    if not isinstance(name, (str, os.PathLike)) or not Path(name).is_dir() or folder is not None:
        raise ValueError(
            f"load_corpus: name must be one of {', '.join(map(repr, CORPORA))}, or the path of a folder and then the "
            f"only argument; got {describe(name)}" + ("" if folder is None else f" and folder={folder!r}")
        )
    return _load_folder(operation, Path(name))


def fetch_corpus(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    source: str | os.PathLike[str] | None = None,
    on_progress: Progress | None = None,
) -> Path:
    """Get the files of a corpus that are not there yet, and check all of them. Gives the folder.

    A file takes its place when it is complete and its hash is right. What is there and right is left alone; what is
    there and wrong is reported, never overwritten.

    Parameters
    ----------
    name
        ``"ptb"`` or ``"wikitext-2"``.
    folder
        Where to put them; by default ``ghrr/lm/NAME`` in ``$XDG_CACHE_HOME`` or ``~/.cache``.
    source
        Where to get them: a folder, or a URL below which they are called ``train.txt``, ``valid.txt``, ``test.txt``. By
        default a public copy on the internet.
    on_progress
        Called with the name of a file, the bytes that are there and the bytes that it has.

    Raises
    ------
    OSError
        A file could not be had; the message says what to put where by hand.
    ValueError
        A file is not the one of that corpus.
    """
    if not isinstance(name, str) or name not in _SOURCES:
        hint = "; the grammar is generated: load_corpus('grammar')" if name == GRAMMAR else ""
        raise ValueError(f"fetch_corpus: name must be one of {', '.join(_SOURCES)}; got {describe(name)}{hint}")
    operation, known = f"fetch_corpus({name!r})", _SOURCES[name]
    target = _folder_of(operation, name, folder)
    target.mkdir(parents=True, exist_ok=True)
    for split, expected in known.files.items():
        there = _find(operation, target, known.names, split)
        if there is not None:
            _read(operation, there, expected)
            continue
        origin = _origin(operation, name, split, source)
        try:
            with _open(operation, origin, known.names, split) as stream:
                _receive(stream, f"{operation}: {origin}", target / f"{split}.txt", expected, on_progress)
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            raise OSError(
                f"{operation}: could not get the {split} text from {origin} ({error}); to do without, "
                f"{_by_hand(name, target)}"
            ) from error
    return target


def _folder_of(operation: str, name: str, folder: str | os.PathLike[str] | None) -> Path:
    if folder is None:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ghrr" / "lm" / name
    if not isinstance(folder, (str, os.PathLike)):
        raise TypeError(f"{operation}: a folder must be given by its path, got {describe(folder)}")
    inner = Path(folder) / name
    return inner if inner.is_dir() else Path(folder)


def _load_known(operation: str, name: str, folder: Path) -> Corpus:
    known, texts = _SOURCES[name], {}
    for split, expected in known.files.items():
        path = _find(operation, folder, known.names, split)
        if path is None:
            raise FileNotFoundError(
                f"{operation}: the {split} text is not there; fetch_corpus({name!r}) gets what is missing, or "
                f"{_by_hand(name, folder)}"
            )
        texts[split] = _decode(operation, path, _read(operation, path, expected))
    return Corpus(name, **texts, unit="word")


def _load_folder(operation: str, folder: Path) -> Corpus:
    texts = {}
    for split in SPLITS:
        path = _find(operation, folder, _ANY_NAMES, split)
        if path is None:
            names = ", ".join(name.format(split=split) for name in _ANY_NAMES)
            raise FileNotFoundError(f"{operation}: there is no {split} text in that folder; it may be called {names}")
        texts[split] = _decode(operation, path, read_bytes(path, "load_corpus"))
    return Corpus(folder.resolve().name, **texts, unit="character")


def _find(operation: str, folder: Path, names: tuple[str, ...], split: str) -> Path | None:
    """The file of a split, by one of its usual names."""
    found = [path for path in (folder / name.format(split=split) for name in names) if path.exists()]
    if len(found) > 1:
        raise ValueError(
            f"{operation}: which is the {split} text? There are {' and '.join(map(str, found))}; leave one"
        )
    return found[0] if found else None


def _read(operation: str, path: Path, expected: _File) -> bytes:
    content = read_bytes(path, "load_corpus", limit=expected.size + 1)
    _check_digest(f"{operation}: {path}", hashlib.sha256(content).hexdigest(), len(content), expected)
    return content


def _check_digest(what: str, found: str, size: int, expected: _File) -> None:
    if found != expected.sha256:
        raise ValueError(
            f"{what} is not the file of that corpus: expected sha256 {expected.sha256} ({expected.size:,} bytes), "
            f"found {found} ({size:,} bytes); it was left as it is, and not used"
        )


def _decode(operation: str, path: Path, content: bytes) -> str:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{operation}: {path} is not a text in UTF-8 ({error.reason} at {error.start})") from None
    if "\0" in text:
        raise ValueError(f"{operation}: {path} is not a text, it has a NUL byte at {content.index(0)}")
    if not text.strip():
        raise ValueError(f"{operation}: {path} is empty; each of the three texts needs words")
    return text


def _origin(operation: str, name: str, split: str, source: str | os.PathLike[str] | None) -> str | Path:
    """The URL of a file, or the folder that has it."""
    if source is not None and not (isinstance(source, str) and "://" in source):
        return _folder_of(operation, name, source)
    url = _SOURCES[name].url.format(split=split) if source is None else f"{source.rstrip('/')}/{split}.txt"
    if not _is_safe(url):
        raise ValueError(f"{operation}: source must be a folder or an https URL, got {source!r}")
    return url


def _open(operation: str, origin: str | Path, names: tuple[str, ...], split: str) -> IO[bytes]:
    if isinstance(origin, str):
        response: IO[bytes] = urllib.request.build_opener(_SafeRedirects).open(origin, timeout=_TIMEOUT)
        return response
    path = _find(operation, origin, names, split)
    if path is None:
        raise FileNotFoundError("it is not there")
    check_regular(path, operation)
    return open(path, "rb")


def _is_safe(url: str) -> bool:
    """Whether nobody on the way can read or change what comes from there."""
    parts = urllib.parse.urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost"))


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(  # noqa: PLR0917 (as urllib has it)
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if not _is_safe(newurl):
            raise urllib.error.HTTPError(newurl, code, f"sent on to {newurl}, which is not https", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _receive(stream: IO[bytes], what: str, path: Path, expected: _File, on_progress: Progress | None) -> None:
    """Write a stream to its place if it is what it should be."""
    digest, done = hashlib.sha256(), 0
    with atomic_write(path) as temporary, open(temporary, "wb") as file:
        while done <= expected.size and (chunk := stream.read(_CHUNK)):
            file.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            if on_progress is not None:
                on_progress(path.name, done, expected.size)
        if done < expected.size:
            raise ConnectionError(f"it ended after {done:,} of {expected.size:,} bytes")
        _check_digest(what, digest.hexdigest(), done, expected)


def _by_hand(name: str, folder: Path) -> str:
    files = _SOURCES[name].files
    listed = "".join(f"\n  {split}.txt  sha256 {files[split].sha256}" for split in SPLITS)
    return f"put these files into {folder}:{listed}"
