"""Downloading corpora: only complete files with the correct hash are stored, and existing files are kept."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ghrr_lab.lm import corpus_download, fetch_corpus, load_corpus
from ghrr_lab.lm.corpus_files import SOURCES, SPLITS
from tests.lab.lm.small_corpus import TEXTS, replace_ptb, write_texts


class Server(ThreadingHTTPServer):
    """Local server that records the requested paths. The folder in the path selects how it misbehaves."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[str] = []
        self.files = {f"/good/{split}.txt": text.encode() for split, text in TEXTS.items()}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        self.server.requests.append(self.path)
        folder, name = self.path[1:].split("/")
        content = self.server.files[f"/good/{name}"]
        if folder == "gone":
            self.send_error(404)
            return
        self.send_response(302 if folder.startswith("moved") else 200)
        if folder == "moved":
            self.send_header("Location", f"/good/{name}")
        if folder == "moved-away":
            self.send_header("Location", f"http://example.invalid/{name}")
        if folder != "endless":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if folder == "wrong":
            content = content.replace(b"the", b"teh", 1)
        if folder == "cut":
            content = content[:-1000]
        if folder == "endless":
            content *= 100
        with contextlib.suppress(ConnectionError):  # the client may stop reading
            self.wfile.write(content)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the terminal quiet."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def small_ptb(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_ptb(monkeypatch)


def test_fetch_corpus_downloads_and_reports_progress(tmp_path: Path, server: Server) -> None:
    seen: list[tuple[str, int, int]] = []
    folder = fetch_corpus(
        "ptb", tmp_path / "new" / "ptb", source=server.url + "/good/", on_progress=lambda *args: seen.append(args)
    )
    assert folder == tmp_path / "new" / "ptb"
    assert load_corpus("ptb", folder).splits == TEXTS
    assert server.requests == [f"/good/{split}.txt" for split in SPLITS]
    for split, text in TEXTS.items():
        sizes = [done for name, done, total in seen if (name, total) == (f"{split}.txt", len(text.encode()))]
        assert len(sizes) > 1
        assert sizes == sorted(sizes)
        assert sizes[-1] == len(text.encode())
    assert len(list(folder.iterdir())) == 3


def test_fetch_corpus_downloads_only_missing_files(tmp_path: Path, server: Server) -> None:
    (write_texts(tmp_path) / "valid.txt").unlink()
    fetch_corpus("ptb", tmp_path, source=server.url + "/good")
    assert server.requests == ["/good/valid.txt"]
    fetch_corpus("ptb", tmp_path, source=server.url + "/gone")
    assert server.requests == ["/good/valid.txt"]


def test_fetch_corpus_keeps_an_existing_file_with_another_hash(tmp_path: Path, server: Server) -> None:
    write_texts(tmp_path, test="mine")
    with pytest.raises(ValueError, match=r"fetch_corpus\('ptb'\): .*test\.txt is not the file .*neither used nor"):
        fetch_corpus("ptb", tmp_path, source=server.url + "/good")
    assert (tmp_path / "test.txt").read_text() == "mine"
    assert server.requests == []


@pytest.mark.parametrize(
    ("folder", "error", "message"),
    [
        ("wrong", ValueError, "is not the file of this corpus: got sha256"),
        ("endless", ValueError, "is not the file of this corpus: got sha256"),
        ("gone", OSError, "HTTP Error 404"),
        ("cut", OSError, "could not get the train text"),
        ("moved-away", OSError, "redirected to http://example.invalid/train.txt, which is not https"),
    ],
)
def test_fetch_corpus_stores_no_wrong_file(
    tmp_path: Path, server: Server, folder: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)) as caught:
        fetch_corpus("ptb", tmp_path, source=f"{server.url}/{folder}")
    assert f"{server.url}/{folder}/train.txt" in str(caught.value)
    assert SOURCES["ptb"].files["train"].sha256 in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    assert server.requests == [f"/{folder}/train.txt"]


def test_fetch_corpus_stops_reading_after_the_expected_size(tmp_path: Path, server: Server) -> None:
    seen: list[int] = []
    with pytest.raises(ValueError, match="is not the file of this corpus"):
        fetch_corpus(
            "ptb", tmp_path, source=server.url + "/endless", on_progress=lambda name, done, total: seen.append(done)
        )
    assert max(seen) <= len(TEXTS["train"].encode()) + corpus_download._CHUNK


def test_fetch_corpus_reports_an_incomplete_file(tmp_path: Path) -> None:
    whole = TEXTS["train"].encode()
    source = write_texts(tmp_path / "source", train=whole[:-7])
    with pytest.raises(OSError, match=f"got {len(whole) - 7:,} bytes, expected {len(whole):,}"):
        fetch_corpus("ptb", tmp_path / "target", source=source)
    assert list((tmp_path / "target").iterdir()) == []


def test_fetch_corpus_follows_safe_redirects(tmp_path: Path, server: Server) -> None:
    fetch_corpus("ptb", tmp_path, source=server.url + "/moved")
    assert load_corpus("ptb", tmp_path).splits == TEXTS


def test_fetch_corpus_without_network_lists_files_to_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as unused:  # a port where no server listens
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(OSError, match=r"could not get the train text .*refused") as error:
            fetch_corpus("ptb", tmp_path, source=f"http://127.0.0.1:{unused.getsockname()[1]}")
    for split in SPLITS:
        assert f"{split}.txt  sha256 {SOURCES['ptb'].files[split].sha256}" in str(error.value)
    assert f"copy these files to {tmp_path}" in str(error.value)


@pytest.mark.parametrize("inner", [".", "ptb"])
def test_fetch_corpus_copies_from_a_folder(tmp_path: Path, inner: str) -> None:
    write_texts(tmp_path / "source" / inner, "ptb.{split}.txt")
    folder = fetch_corpus("ptb", tmp_path / "target", source=tmp_path / "source")
    assert load_corpus("ptb", folder).splits == TEXTS
    with pytest.raises(
        OSError, match=r"could not get the train text from .*nowhere \(no such file\); copy these files"
    ):
        fetch_corpus("ptb", tmp_path / "other", source=str(tmp_path / "nowhere"))


def test_interrupted_download_leaves_no_file(tmp_path: Path, server: Server) -> None:
    def stop(*args: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_corpus("ptb", tmp_path, source=server.url + "/good", on_progress=stop)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_default_urls_use_https(name: str) -> None:
    for split in SPLITS:
        url = corpus_download._origin(name, split, None)
        assert isinstance(url, str)
        assert url.startswith("https://")
        assert url.endswith(f"{split}.txt")


@pytest.mark.parametrize("source", ["http://example.invalid/data", "ftp://127.0.0.1/data", "file:///data"])
def test_fetch_corpus_rejects_unencrypted_sources(tmp_path: Path, source: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"source must be a folder or an https URL, got {source!r}")):
        fetch_corpus("ptb", tmp_path, source=source)
