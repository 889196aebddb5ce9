"""Backends: all find the items of brute force, on the same cases."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ghrr import Space
from ghrr.memory import ItemMemory
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
    scores, indices = brute_force(queries, items, min(k, len(names)))
    assert found.labels == [[names[index] for index in row] for row in indices.tolist()]
    assert (found.scores - scores).abs().max() < rounding(torch.float32, scale=float(scores.abs().max()))


def test_results_equal_brute_force_after_adds_and_removals(make: Maker) -> None:
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


def test_ties_are_broken_by_the_order_of_adding(make: Maker) -> None:
    """The scores are exact in floating point, so they are equal on every backend."""
    eye = SPACE.identity()
    items = torch.stack([eye * (2 if i % 9 == 4 else 1) for i in range(40)])
    memory = make(SPACE, NAMES, items)
    queries = torch.stack([eye, -eye, 0 * eye])
    for k in (1, 3, 6, 39, 40):
        assert_same(memory, NAMES, items, queries, k)
    memory.remove([NAMES[4], NAMES[0]])
    assert memory.cleanup(queries, 1).labels == [[NAMES[13]], [NAMES[1]], [NAMES[1]]]


def test_an_empty_memory_finds_nothing(make: Maker) -> None:
    memory = make(SPACE)
    found = memory.cleanup(SPACE.identity(2), 3)
    assert found.labels == [[], []]
    assert found.scores.shape == (2, 0)


def test_items_saved_from_one_backend_load_into_another(make: Maker, tmp_path: Path) -> None:
    memory = make(SPACE, NAMES)
    memory.remove(NAMES[5])
    memory.save(tmp_path / "x.safetensors")
    memory.commit(tmp_path / "folder")
    for saved in ("x.safetensors", "folder"):
        for kind in ("torch", "faiss"):
            loaded = ItemMemory.load(tmp_path / saved, backend=kind)
            assert loaded.labels == memory.labels
            assert torch.equal(loaded.vectors(), SPACE.vectors(memory.labels))


def test_narrow_items_become_float32_in_faiss(tmp_path: Path) -> None:
    memory = ItemMemory(SPACE, NAMES, storage="int8")
    memory.commit(tmp_path / "x")
    loaded = ItemMemory.load(tmp_path / "x", backend="faiss")
    assert loaded.storage == "float32"
    assert torch.equal(loaded.vectors(NAMES), memory.vectors(NAMES))
    with pytest.raises(ValueError, match=r"the folder .* changed"):
        loaded.commit(tmp_path / "x")  # a folder has one storage type


@pytest.mark.parametrize(("backend", "package"), [("faiss", "faiss"), ("milvus", "pymilvus")])
def test_the_error_names_a_missing_package(backend: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"this backend needs {package}; pip install 'ghrr\[index\]'"):
        ItemMemory(SPACE, backend=backend, uri="x.db" if backend == "milvus" else None)


@pytest.mark.slow
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
