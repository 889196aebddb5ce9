"""Corpora: what has the name of a corpus is that corpus, and nothing that is wrong takes its place."""

from __future__ import annotations

import contextlib
import hashlib
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ghrr.lm import corpora
from ghrr.lm.corpora import SPLITS, Corpus, fetch_corpus, load_corpus
from ghrr.lm.grammar import grammar_perplexity
from ghrr.lm.tokens import WordTokens

# What word-level papers report: tokens of the training text with <eos>, and types.
COUNTS = {"ptb": (929_589, 10_000), "wikitext-2": (2_088_628, 33_278)}
TEXTS = {split: f" the {split} text \n with é\n" * 5000 for split in SPLITS}  # several chunks long


class Server(ThreadingHTTPServer):
    """A server on this machine that answers each path as it is told to, and notes what was asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.files = {f"/good/{split}.txt": text.encode() for split, text in TEXTS.items()}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        self.server.asked.append(self.path)
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
        with contextlib.suppress(ConnectionError):  # whoever asked may have had enough
            self.wfile.write(content)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Not to the terminal."""


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
    """A small corpus of our own under the name ptb, since the real one is not ours to ship."""
    contents = {split: text.encode() for split, text in TEXTS.items()}
    files = {split: corpora._File(hashlib.sha256(data).hexdigest(), len(data)) for split, data in contents.items()}
    monkeypatch.setitem(corpora._SOURCES, "ptb", corpora._SOURCES["ptb"]._replace(files=files))


def write(folder: Path, pattern: str = "{split}.txt", **texts: str | bytes) -> Path:
    """Put the three texts into a folder, some of them replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, text in (TEXTS | texts).items():
        (folder / pattern.format(split=split)).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


@pytest.mark.parametrize("pattern", ["{split}.txt", "ptb.{split}.txt"])
@pytest.mark.parametrize("inner", [".", "ptb"])
def test_a_corpus_is_loaded_by_its_usual_names(tmp_path: Path, pattern: str, inner: str) -> None:
    write(tmp_path / inner, pattern)
    assert load_corpus("ptb", tmp_path) == Corpus("ptb", **TEXTS, unit="word")
    assert load_corpus("ptb", str(tmp_path)).splits == TEXTS


def test_by_default_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    write(tmp_path / "ghrr" / "lm" / "ptb")
    assert load_corpus("ptb").splits == TEXTS
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    write(tmp_path / "home" / ".cache" / "ghrr" / "lm" / "ptb")
    assert load_corpus("ptb").splits == TEXTS


@pytest.mark.parametrize("split", SPLITS)
def test_another_text_is_not_that_corpus(tmp_path: Path, split: str) -> None:
    other = TEXTS[split].replace("é", "e", 1)
    write(tmp_path, **{split: other})
    found, expected = hashlib.sha256(other.encode()).hexdigest(), corpora._SOURCES["ptb"].files[split].sha256
    pattern = rf"load_corpus\('ptb'\): .*{split}\.txt is not the file .* expected sha256 {expected} .* found {found}"
    with pytest.raises(ValueError, match=pattern):
        load_corpus("ptb", tmp_path)


def test_any_folder_with_three_texts(tmp_path: Path) -> None:
    for pattern in corpora._ANY_NAMES:
        folder = write(tmp_path / pattern.replace("{split}", "x"), pattern)
        for name in (folder, str(folder)):
            assert load_corpus(name) == Corpus(folder.name, **TEXTS, unit="character")


def test_a_path_is_a_path_whatever_it_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write(tmp_path / "grammar").parent)
    assert load_corpus(Path("grammar")).splits == TEXTS
    assert load_corpus("./grammar").splits == TEXTS
    assert load_corpus("grammar").splits != TEXTS


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"valid\.txt is empty"),
        (b" \n\n", r"valid\.txt is empty"),
        (b"a\0b", r"valid\.txt is not a text, it has a NUL byte at 1"),
        (b"ab\xff\xfe", r"valid\.txt is not a text in UTF-8 \(invalid start byte at 2\)"),
    ],
)
def test_what_is_not_text(tmp_path: Path, content: bytes, message: str) -> None:
    write(tmp_path, valid=content)
    with pytest.raises(ValueError, match=r"load_corpus\(.*" + message):
        load_corpus(tmp_path)


@pytest.mark.parametrize("split", SPLITS)
def test_a_missing_text(tmp_path: Path, split: str) -> None:
    (write(tmp_path) / f"{split}.txt").unlink()
    with pytest.raises(FileNotFoundError, match=rf"there is no {split} text in that folder; .* wiki\.{split}\.tokens"):
        load_corpus(tmp_path)
    with pytest.raises(FileNotFoundError, match=rf"the {split} text is not there; fetch_corpus\('ptb'\)") as error:
        load_corpus("ptb", tmp_path)
    assert all(file.sha256 in str(error.value) for file in corpora._SOURCES["ptb"].files.values())
    assert str(tmp_path) in str(error.value)


def test_two_texts_where_one_should_be(tmp_path: Path) -> None:
    write(write(tmp_path), "ptb.{split}.txt")
    for call in (lambda: load_corpus(tmp_path), lambda: load_corpus("ptb", tmp_path)):
        with pytest.raises(ValueError, match=r"which is the train text\? There are .*train\.txt and .*ptb\.train\.txt"):
            call()


def test_the_grammar_is_three_texts_of_it() -> None:
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


def test_fetching_from_a_server(tmp_path: Path, server: Server) -> None:
    seen: list[tuple[str, int, int]] = []
    folder = fetch_corpus(
        "ptb", tmp_path / "new" / "ptb", source=server.url + "/good/", on_progress=lambda *args: seen.append(args)
    )
    assert folder == tmp_path / "new" / "ptb"
    assert load_corpus("ptb", folder).splits == TEXTS
    assert server.asked == [f"/good/{split}.txt" for split in SPLITS]
    for split, text in TEXTS.items():
        steps = [done for name, done, total in seen if (name, total) == (f"{split}.txt", len(text.encode()))]
        assert len(steps) > 1
        assert steps == sorted(steps)
        assert steps[-1] == len(text.encode())
    assert len(list(folder.iterdir())) == 3


def test_what_is_there_and_right_is_not_fetched_again(tmp_path: Path, server: Server) -> None:
    (write(tmp_path) / "valid.txt").unlink()
    fetch_corpus("ptb", tmp_path, source=server.url + "/good")
    assert server.asked == ["/good/valid.txt"]
    fetch_corpus("ptb", tmp_path, source=server.url + "/gone")
    assert server.asked == ["/good/valid.txt"]


def test_what_is_there_and_wrong_is_reported_and_kept(tmp_path: Path, server: Server) -> None:
    write(tmp_path, test="mine")
    with pytest.raises(ValueError, match=r"fetch_corpus\('ptb'\): .*test\.txt is not the file .*left as it is"):
        fetch_corpus("ptb", tmp_path, source=server.url + "/good")
    assert (tmp_path / "test.txt").read_text() == "mine"
    assert server.asked == []


@pytest.mark.parametrize(
    ("folder", "error", "message"),
    [
        ("wrong", ValueError, "is not the file of that corpus: expected sha256"),
        ("endless", ValueError, "is not the file of that corpus: expected sha256"),
        ("gone", OSError, "HTTP Error 404"),
        ("cut", OSError, "could not get the train text"),
        ("moved-away", OSError, "sent on to http://example.invalid/train.txt, which is not https"),
    ],
)
def test_nothing_wrong_takes_its_place(
    tmp_path: Path, server: Server, folder: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)) as caught:
        fetch_corpus("ptb", tmp_path, source=f"{server.url}/{folder}")
    assert f"{server.url}/{folder}/train.txt" in str(caught.value)
    assert corpora._SOURCES["ptb"].files["train"].sha256 in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    assert server.asked == [f"/{folder}/train.txt"]


def test_what_is_too_long_is_not_read_to_its_end(tmp_path: Path, server: Server) -> None:
    seen: list[int] = []
    with pytest.raises(ValueError, match="is not the file of that corpus"):
        fetch_corpus(
            "ptb", tmp_path, source=server.url + "/endless", on_progress=lambda name, done, total: seen.append(done)
        )
    assert max(seen) <= len(TEXTS["train"].encode()) + corpora._CHUNK


def test_a_text_that_was_cut_short_says_so(tmp_path: Path) -> None:
    whole = TEXTS["train"].encode()
    source = write(tmp_path / "source", train=whole[:-7])
    with pytest.raises(OSError, match=f"it ended after {len(whole) - 7:,} of {len(whole):,} bytes"):
        fetch_corpus("ptb", tmp_path / "target", source=source)
    assert list((tmp_path / "target").iterdir()) == []


def test_a_server_may_send_on(tmp_path: Path, server: Server) -> None:
    fetch_corpus("ptb", tmp_path, source=server.url + "/moved")
    assert load_corpus("ptb", tmp_path).splits == TEXTS


def test_without_a_network_it_says_what_to_put_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as nobody:  # a port at which nobody listens
        nobody.bind(("127.0.0.1", 0))
        with pytest.raises(OSError, match=r"could not get the train text .*refused") as error:
            fetch_corpus("ptb", tmp_path, source=f"http://127.0.0.1:{nobody.getsockname()[1]}")
    for split in SPLITS:
        assert f"{split}.txt  sha256 {corpora._SOURCES['ptb'].files[split].sha256}" in str(error.value)
    assert f"put these files into {tmp_path}" in str(error.value)


@pytest.mark.parametrize("inner", [".", "ptb"])
def test_fetching_from_a_folder(tmp_path: Path, inner: str) -> None:
    write(tmp_path / "source" / inner, "ptb.{split}.txt")
    folder = fetch_corpus("ptb", tmp_path / "target", source=tmp_path / "source")
    assert load_corpus("ptb", folder).splits == TEXTS
    with pytest.raises(OSError, match=r"could not get the train text from .*nowhere \(it is not there\); .*put these"):
        fetch_corpus("ptb", tmp_path / "other", source=str(tmp_path / "nowhere"))


def test_an_interrupted_transfer_leaves_nothing(tmp_path: Path, server: Server) -> None:
    def stop(*args: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_corpus("ptb", tmp_path, source=server.url + "/good", on_progress=stop)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", sorted(corpora._SOURCES))
def test_public_copies_are_asked_for_by_https(name: str) -> None:
    for split in SPLITS:
        url = corpora._origin("test", name, split, None)
        assert isinstance(url, str)
        assert url.startswith("https://")
        assert url.endswith(f"{split}.txt")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: load_corpus("ptv"), ValueError, "must be one of 'ptb', 'wikitext-2', 'grammar', or the path"),
        (lambda: load_corpus(5), ValueError, "got int 5"),  # type: ignore[arg-type]
        (lambda: load_corpus(".", "x"), ValueError, "and folder='x'"),
        (lambda: load_corpus("grammar", "x"), ValueError, "it is generated, not read; leave out folder='x'"),
        (lambda: load_corpus("ptb", 3), TypeError, "a folder must be given by its path, got int 3"),  # type: ignore[arg-type]
        (lambda: fetch_corpus("grammar"), ValueError, "the grammar is generated: load_corpus('grammar')"),
        (lambda: fetch_corpus("ptv"), ValueError, "name must be one of ptb, wikitext-2; got str 'ptv'"),
    ],
)
def test_bad_arguments(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()


@pytest.mark.parametrize("source", ["http://example.invalid/data", "ftp://127.0.0.1/data", "file:///data"])
def test_sources_that_others_could_change_are_refused(tmp_path: Path, source: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"source must be a folder or an https URL, got {source!r}")):
        fetch_corpus("ptb", tmp_path, source=source)


@pytest.mark.parametrize("name", COUNTS)
def test_the_real_texts_have_the_tokens_and_types_that_papers_report(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    try:
        corpus = load_corpus(name)
    except FileNotFoundError:
        pytest.skip(f"fetch_corpus({name!r}) was not called on this machine")
    tokens = WordTokens.build(corpus.train)
    assert (len(tokens.encode(corpus.train)), tokens.size) == COUNTS[name]
    assert not (tokens.encode(corpus.test) >= tokens.size).any()
