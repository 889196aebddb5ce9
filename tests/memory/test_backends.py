"""Every backend gives the answers of brute force, on the same cases; Milvus that is away is an error, not a wait."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr import Space
from ghrr.memory import ItemMemory, MilvusBackend, backend_milvus
from tests.helpers import gaussian, rounding
from tests.memory.test_item_memory import brute_force

SPACE = Space(20, 2)
NAMES = [f"item {i}" for i in range(40)]
BACKENDS = ("torch", "faiss", "milvus")

Maker = Callable[..., ItemMemory]


@pytest.fixture(params=BACKENDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Maker:
    uri = str(tmp_path / "items.db") if request.param == "milvus" else None
    return lambda *given, **more: ItemMemory(*given, backend=request.param, uri=uri, **more)


def assert_same(memory: ItemMemory, names: list[str], items: Tensor, queries: Tensor, k: int) -> None:
    found = memory.cleanup(queries, k)
    scores, places = brute_force(queries, items, min(k, len(names)))
    assert found.labels == [[names[place] for place in row] for row in places.tolist()]
    assert (found.scores - scores).abs().max() < rounding(torch.float32, scale=float(scores.abs().max()))


def test_random_items_removals_and_more(make: Maker) -> None:
    items, queries = (
        gaussian(45, *SPACE.shape, dtype=SPACE.dtype),
        gaussian(30, *SPACE.shape, dtype=SPACE.dtype, seed=1),
    )
    names = [f"i{i}" for i in range(45)]
    memory = make(SPACE, names[:40], items[:40])
    for k in (1, 5, 40, 100):
        assert_same(memory, names[:40], items[:40], queries, k)
    memory.remove(["i39", "i7", "i0"])
    left = [i for i in range(40) if i not in (0, 7, 39)]
    assert_same(memory, [names[i] for i in left], items[left], queries, 4)
    memory.add(names[40], items[40])
    memory.add(names[41:], items[41:])
    left += range(40, 45)
    assert_same(memory, [names[i] for i in left], items[left], queries, 4)
    assert len(memory) == 42
    assert torch.equal(memory.vectors(["i44", "i1"]), items[[44, 1]])
    memory.remove(memory.labels)
    assert memory.cleanup(queries, 3).scores.shape == (30, 0)
    memory.add("again", items[3])
    assert memory.cleanup(queries[0]).labels == ["again"]


def test_ties(make: Maker) -> None:
    """Numbers that are exact in floating point tie truly: the item added first comes first, on every backend."""
    eye = SPACE.identity()
    items = torch.stack([eye * (2 if i % 9 == 4 else 1) for i in range(40)])
    memory = make(SPACE, NAMES, items)
    queries = torch.stack([eye, -eye, 0 * eye])
    for k in (1, 3, 6, 39, 40):
        assert_same(memory, NAMES, items, queries, k)
    memory.remove([NAMES[4], NAMES[0]])
    assert memory.cleanup(queries, 1).labels == [[NAMES[13]], [NAMES[1]], [NAMES[1]]]


def test_empty(make: Maker) -> None:
    memory = make(SPACE)
    found = memory.cleanup(SPACE.identity(2), 3)
    assert found.labels == [[], []]
    assert found.scores.shape == (2, 0)


def test_saved_and_loaded_anywhere(make: Maker, tmp_path: Path) -> None:
    memory = make(SPACE, NAMES)
    memory.remove(NAMES[5])
    memory.save(tmp_path / "x.safetensors")
    memory.commit(tmp_path / "folder")
    for saved in ("x.safetensors", "folder"):
        for kind in ("torch", "faiss"):
            loaded = ItemMemory.load(tmp_path / saved, backend=kind)
            assert loaded.labels == memory.labels
            assert torch.equal(loaded.vectors(loaded.labels), SPACE.vectors(memory.labels))


def test_narrow_items_become_float32_in_faiss(tmp_path: Path) -> None:
    memory = ItemMemory(SPACE, NAMES, storage="int8")
    memory.commit(tmp_path / "x")
    loaded = ItemMemory.load(tmp_path / "x", backend="faiss")
    assert loaded.storage == "float32"
    assert torch.equal(loaded.vectors(NAMES), memory.vectors(NAMES))
    with pytest.raises(ValueError, match="holds other items than this memory knows of"):
        loaded.commit(tmp_path / "x")  # a folder is of one storage


# -------------------------------------------------------------------------------------------------------------- Milvus


def milvus(path: Path, space: Space = SPACE, **more: Any) -> ItemMemory:
    return ItemMemory(space, backend=MilvusBackend(str(path / "items.db"), space, **more))


def test_a_collection_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_milvus, "_MOST_ANSWERS", 16)  # as if the collection were large
    memory = milvus(tmp_path)
    memory.add(NAMES)
    memory.remove(NAMES[20:40])
    memory.add("late")
    again = milvus(tmp_path)
    assert again.labels == [*NAMES[:20], "late"]
    again.add("later")
    assert again.cleanup(SPACE.vectors(["late", "later"])).labels == [["late"], ["later"]]
    with pytest.raises(ValueError, match="Milvus gives 16 answers to a query at most, got k = 17"):
        again.cleanup(SPACE.identity(), 17)
    other = milvus(tmp_path, collection="other")
    assert len(other) == 0
    with pytest.raises(ValueError, match="the backend holds 22 items already; give an empty one"):
        memory.save(tmp_path / "x")
        ItemMemory.load(tmp_path / "x", backend="milvus", uri=str(tmp_path / "items.db"))


def test_a_collection_that_another_program_changed(tmp_path: Path) -> None:
    first, second = milvus(tmp_path), milvus(tmp_path)
    first.add(NAMES)
    with pytest.raises(RuntimeError, match=r"has 40 items, this memory knows of 0: another program changed it"):
        second.add("new")
    third = milvus(tmp_path)
    third.remove(NAMES[3])
    calls: list[Callable[[], object]] = [
        lambda: first.cleanup(SPACE.identity()),
        lambda: first.remove(NAMES[3]),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match=r"has 39 items, this memory knows of 40"):
            call()
    assert len(milvus(tmp_path)) == 39


def test_adding_that_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the rows are there when Milvus goes away: nothing is believed, nothing is found under a wrong name."""
    monkeypatch.setattr(backend_milvus, "_NUMBERS_AT_A_TIME", 20 * 2 * SPACE.total_dim)
    memory = milvus(tmp_path)
    backend: Any = memory._backend
    insert, calls = backend._client.insert, []

    def fails_the_second_time(*given: object, **more: object) -> object:
        calls.append(given)
        if len(calls) == 2:
            raise backend._milvus.MilvusException(message="server unavailable")
        return insert(*given, **more)

    monkeypatch.setattr(backend._client, "insert", fails_the_second_time)
    with pytest.raises(ConnectionError, match="server unavailable"):
        memory.add(NAMES)
    assert len(memory) == 0
    with pytest.raises(RuntimeError, match=r"has 20 items, this memory knows of 0: .* or adding was interrupted"):
        memory.add(NAMES)
    again = milvus(tmp_path)
    assert again.labels == NAMES[:20]
    again.add(NAMES[20:])
    assert again.cleanup(SPACE.vectors(NAMES)).labels == [[name] for name in NAMES]


def test_a_collection_of_another_space_is_refused(tmp_path: Path) -> None:
    milvus(tmp_path).add(NAMES)
    with pytest.raises(ValueError, match=r"holds items of another space than Space\(dim=20, m=2, seed=1\)"):
        milvus(tmp_path, Space(20, 2, seed=1))
    rotation = ghrr.unitary.haar(m=2, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="holds items of another space than"):
        milvus(tmp_path, Space(20, 2, rotation=rotation))


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("http://127.0.0.1:1", "Milvus at 'http://127.0.0.1:1' did not do what was asked (Fail connecting to server"),
        ("/no/such/folder/x.db", "did not do what was asked (Open local milvus failed"),
        ("elsewhere", "did not do what was asked (uri: elsewhere is illegal"),
    ],
)
def test_milvus_that_is_away(uri: str, message: str) -> None:
    with pytest.raises(ConnectionError, match=re.escape(message)) as caught:
        ItemMemory(SPACE, backend="milvus", uri=uri)
    assert "is it running, and is the address right?" in str(caught.value)


def test_milvus_that_does_not_answer() -> None:
    """Something listens there but never says a word: the time-out ends the wait."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        uri = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ConnectionError, match="is it running, and is the address right"):
            MilvusBackend(uri, SPACE, timeout=0.5)


def test_milvus_that_goes_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = milvus(tmp_path)
    memory.add(NAMES)
    backend: Any = memory._backend

    def gone(*given: object, **more: object) -> None:
        raise backend._milvus.MilvusException(message="server unavailable")

    for verb in ("insert", "delete", "search", "query"):
        monkeypatch.setattr(backend._client, verb, gone)
    calls: list[Callable[[], object]] = [
        lambda: memory.add("new"),
        lambda: memory.remove(NAMES[0]),
        lambda: memory.cleanup(SPACE.identity()),
        lambda: memory.vectors(NAMES),
    ]
    for call in calls:
        with pytest.raises(ConnectionError, match=r"did not do what was asked \(server unavailable\)"):
            call()
    assert memory.labels == NAMES  # what failed is not believed to have happened


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: ItemMemory(SPACE, backend="milvus"),
            TypeError,
            'backend="milvus" needs uri, a path such as',
        ),
        (lambda: MilvusBackend("x.db", SPACE, collection="a b"), ValueError, "collection must be a name of letters"),
        (
            lambda: MilvusBackend("x.db", Space(20_000, 1)),
            ValueError,
            "rows of at most 32768 numbers, but Space(",
        ),
    ],
)
def test_bad_settings_for_milvus(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_labels_too_long_for_milvus(tmp_path: Path) -> None:
    memory = milvus(tmp_path)
    with pytest.raises(ValueError, match="Milvus keeps labels of 65535 bytes at most, got 'ööö"):
        memory.add("ö" * 40_000)
    assert len(memory) == 0


@pytest.mark.parametrize(("backend", "package"), [("faiss", "faiss"), ("milvus", "pymilvus")])
def test_a_missing_package_is_named(backend: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"this backend needs {package}: pip install 'ghrr\[index\]'"):
        ItemMemory(SPACE, backend=backend, uri="x.db" if backend == "milvus" else None)


def test_packages_are_imported_only_when_their_backend_is_chosen() -> None:
    code = (
        "import sys, ghrr.memory\n"
        "space = ghrr.Space(4, 2)\n"
        "ghrr.memory.ItemMemory(space, ['a']).cleanup(space.identity())\n"
        "assert not {'faiss', 'pymilvus', 'milvus_lite'} & set(sys.modules)\n"
        "ghrr.memory.ItemMemory(space, ['a'], backend='faiss')\n"
        "assert 'faiss' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
