"""Download the files of a known corpus and check their hashes."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO

from ghrr.checks import describe, named, names_errors, value_error
from ghrr.files import atomic_write, check_regular
from ghrr_lab.lm.corpora import GRAMMAR
from ghrr_lab.lm.corpus_files import (
    SOURCES,
    CorpusFile,
    check_hash,
    corpus_folder,
    find_split,
    manual_instructions,
    read_verified,
)

_TIMEOUT = 30.0  # seconds without data
_CHUNK = 1 << 16

DownloadProgress = Callable[[str, int, int], None]  # file name, bytes done, bytes in total


@names_errors("fetch_corpus('{name}')")
def fetch_corpus(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    source: str | os.PathLike[str] | None = None,
    on_progress: DownloadProgress | None = None,
) -> Path:
    """Download the missing files of a corpus, check all files, and return their folder.

    A file is stored only when it is complete and has the expected hash. Existing files are checked and never
    overwritten.

    Parameters
    ----------
    name
        ``"ptb"`` or ``"wikitext-2"``.
    folder
        Folder for the files. Default: ``ghrr/lm/NAME`` in ``$XDG_CACHE_HOME`` or ``~/.cache``.
    source
        Folder to copy the files from, or base URL of ``train.txt``, ``valid.txt`` and ``test.txt``. Default: a public
        copy on the internet.
    on_progress
        Called with the file name, the bytes done and the size of the file.

    Raises
    ------
    OSError
        A file cannot be downloaded or copied; the message says how to get it by hand.
    ValueError
        A file has another hash than expected.

    Examples
    --------
    >>> from ghrr_lab.lm import fetch_corpus
    >>> folder = fetch_corpus("wikitext-2")  # doctest: +SKIP
    """
    if not isinstance(name, str) or name not in SOURCES:
        hint = "; the grammar corpus needs no files: use load_corpus('grammar')" if name == GRAMMAR else ""
        raise value_error(f"name must be one of {', '.join(SOURCES)}, got {describe(name)}{hint}")
    known = SOURCES[name]
    target = corpus_folder(name, folder)
    target.mkdir(parents=True, exist_ok=True)
    for split, expected in known.files.items():
        existing = find_split(target, known.names, split)
        if existing is not None:
            read_verified(existing, expected)
            continue
        origin = _origin(name, split, source)
        try:
            with _open(origin, known.names, split) as stream:
                _store(stream, str(origin), target / f"{split}.txt", expected, on_progress)
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            raise OSError(
                named(f"could not get the {split} text from {origin} ({error}); {manual_instructions(name, target)}")
            ) from error
    return target


def _origin(name: str, split: str, source: str | os.PathLike[str] | None) -> str | Path:
    """Return the URL of a file, or the folder to copy it from."""
    if source is not None and not (isinstance(source, str) and "://" in source):
        return corpus_folder(name, source)
    url = SOURCES[name].url.format(split=split) if source is None else f"{source.rstrip('/')}/{split}.txt"
    if not _is_safe(url):
        raise value_error(f"source must be a folder or an https URL, got {source!r}")
    return url


def _open(origin: str | Path, names: tuple[str, ...], split: str) -> IO[bytes]:
    if isinstance(origin, str):
        response: IO[bytes] = urllib.request.build_opener(_SafeRedirects).open(origin, timeout=_TIMEOUT)
        return response
    path = find_split(origin, names, split)
    if path is None:
        raise FileNotFoundError("no such file")
    check_regular(path)
    return open(path, "rb")


def _is_safe(url: str) -> bool:
    """Whether a URL is encrypted or on this machine."""
    parts = urllib.parse.urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost"))


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects to safe URLs only."""

    def redirect_request(  # noqa: PLR0917 (signature of urllib)
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if not _is_safe(newurl):
            raise urllib.error.HTTPError(newurl, code, f"redirected to {newurl}, which is not https", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _store(
    stream: IO[bytes], source: str, path: Path, expected: CorpusFile, on_progress: DownloadProgress | None
) -> None:
    """Write a stream to a file if it has the expected size and hash."""
    digest, done = hashlib.sha256(), 0
    with atomic_write(path) as temporary, open(temporary, "wb") as file:
        while done <= expected.size and (chunk := stream.read(_CHUNK)):
            file.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            if on_progress is not None:
                on_progress(path.name, done, expected.size)
        if done < expected.size:
            raise ConnectionError(f"got {done:,} bytes, expected {expected.size:,}")
        check_hash(source, digest.hexdigest(), done, expected)
