"""ItemMemory: exact search, adding and removing, devices, and rejection of bad input."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import ghrr
from ghrr import Space
from ghrr.memory import ItemMemory, Match, TorchBackend, search, storage
from ghrr.memory.storage import Buffer, pack
from tests.helpers import gaussian, generator, rounding, wrong

SPACE = Space(40, 2, seed=0)
NAMES = [f"item {i}" for i in range(30)]


def brute_force(queries: Tensor, items: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return scores and indices by the definition in double precision; of equal scores the first."""
    scores = ghrr.pairwise_similarity(queries.to(torch.complex128), items.to(torch.complex128))
    ordered = scores.sort(dim=-1, descending=True, stable=True)
    return ordered.values[..., :k], ordered.indices[..., :k]


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("k", [1, 4])
def test_cleanup_equals_brute_force(m: int, dtype: torch.dtype, k: int) -> None:
    space = Space(30, m, dtype=dtype)
    items = gaussian(50, 30, m, m, dtype=dtype)
    queries = gaussian(3, 5, 30, m, m, dtype=dtype, seed=1)
    memory = ItemMemory(space, [str(i) for i in range(50)], items)
    found = memory.cleanup(queries, k)
    scores, indices = brute_force(queries, items, k)
    assert found.scores.shape == (3, 5, k)
    assert found.scores.dtype == dtype.to_real()
    assert (found.scores - scores).abs().max() < rounding(dtype.to_real(), terms=2)
    assert [[[int(label) for label in row] for row in rows] for rows in found.labels] == indices.tolist()


def test_small_chunks_give_the_same_results(monkeypatch: pytest.MonkeyPatch) -> None:
    items, queries = (
        gaussian(97, *SPACE.shape, dtype=SPACE.dtype),
        gaussian(23, *SPACE.shape, dtype=SPACE.dtype, seed=1),
    )
    memory = ItemMemory(SPACE, map(str, range(97)), items)
    want = memory.cleanup(queries, 5)
    for numbers in (1, 7 * 320, 10_000):
        monkeypatch.setattr(search, "CHUNK_NUMBERS", numbers)
        found = memory.cleanup(queries, 5)
        assert found.labels == want.labels
        assert torch.allclose(found.scores, want.scores, atol=rounding(torch.float32))


def test_of_equal_scores_the_item_added_first_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "CHUNK_NUMBERS", 8 * 2 * SPACE.total_dim)  # eight items at a time
    eye = SPACE.identity()
    vectors = torch.stack([eye * (2 if i % 5 == 3 else 1) for i in range(30)])  # exact in floating point: true ties
    memory = ItemMemory(SPACE, NAMES, vectors)
    twos, ones = [i for i in range(30) if i % 5 == 3], [i for i in range(30) if i % 5 != 3]
    for k in (1, 2, 6, 7, 15, 29, 30):
        found = memory.cleanup(eye, k)
        assert found.labels == [NAMES[i] for i in (twos + ones)[:k]]
    assert memory.cleanup(torch.stack([0 * eye, eye]), 3).labels == [NAMES[:3], [NAMES[i] for i in twos[:3]]]


def test_a_noisy_query_finds_its_item() -> None:
    memory = ItemMemory(Space(300, 2), NAMES)
    query = ghrr.bundle(memory.space.vectors(["item 7", "x", "y"]))
    assert memory.cleanup(query).labels == ["item 7"]
    unrelated = memory.cleanup(memory.space.vectors(["z"])[0])
    assert unrelated.scores.item() < 5 * memory.space.noise_std  # negative control: nothing similar is stored


def test_items_are_added_removed_and_returned() -> None:
    memory = ItemMemory(SPACE)
    assert len(memory) == 0
    memory.add(NAMES)
    memory.add("one", SPACE.vectors(["other"])[0])
    memory.add([])
    memory.remove("item 3")
    memory.remove(["item 9", "item 0"])
    memory.remove([])
    left = [name for name in [*NAMES, "one"] if name not in ("item 3", "item 9", "item 0")]
    assert memory.labels == left
    assert len(memory) == len(left) == 28
    assert "item 3" not in memory
    assert "one" in memory
    assert torch.equal(memory.vectors(["one", "item 4", "one"]), SPACE.vectors(["other", "item 4", "other"]))
    assert torch.equal(memory.vectors("one"), memory.vectors(["one"])[0])
    assert memory.vectors([]).shape == (0, *SPACE.shape)
    assert memory.cleanup(SPACE.vectors(["item 3"]), 50).labels[0] != ["item 3"]
    memory.add("item 3")
    assert memory.labels[-1] == "item 3"
    assert memory.cleanup(SPACE.vectors(["item 3"])).labels == [["item 3"]]


def test_removed_items_are_not_found() -> None:
    """After each removal in random order, the results equal brute force over the remaining items."""
    items = gaussian(60, *SPACE.shape, dtype=SPACE.dtype)
    memory = ItemMemory(SPACE, map(str, range(60)), items)
    queries = gaussian(4, *SPACE.shape, dtype=SPACE.dtype, seed=1)
    left = list(range(60))
    for index in torch.randperm(60, generator=generator()).tolist():
        memory.remove(str(index))
        left.remove(index)
        k = min(3, len(left))
        want = brute_force(queries, items[left], k)[1]
        assert memory.cleanup(queries, 3).labels == [[str(left[i]) for i in row] for row in want.tolist()]
    assert memory.cleanup(queries).scores.shape == (4, 0)


@pytest.mark.parametrize("batch", [(), (0,), (3,), (2, 3)])
def test_results_have_the_batch_shape_of_the_queries(batch: tuple[int, ...]) -> None:
    queries = SPACE.random(*batch, generator=SPACE.generator("q"))
    for labels, k, columns in ((NAMES[:2], 1, 1), (NAMES[:2], 5, 2), ([], 5, 0)):
        found = ItemMemory(SPACE, labels).cleanup(queries, k)
        assert found.scores.shape == (*batch, columns)
        want = (0,) if batch == (0,) else found.scores.shape  # an empty list has one axis
        assert np.array(found.labels, dtype=object).shape == want


def test_adding_one_by_one_is_amortised_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Capacity doubles, so fewer than twice as many rows are copied as items are added."""
    moved: list[int] = []
    copied = Buffer.copy

    def counted(self: Buffer, indices: slice | Tensor, capacity: int = 0) -> Buffer:
        moved.append(len(self.ids[indices]))
        return copied(self, indices, capacity)

    monkeypatch.setattr(Buffer, "copy", counted)
    memory = ItemMemory(SPACE)
    vectors = SPACE.vectors(NAMES)
    for i in range(1000):
        memory.add(str(i), vectors[i % 30])
    assert sum(moved) < 2 * 1000
    moved.clear()
    for i in range(1000):
        memory.remove(str(i))
    assert sum(moved) < 2 * 1000
    assert len(moved) > 5  # negative control: rows were moved at all


def test_match_is_confident_for_an_item_and_unknown_for_noise() -> None:
    space = Space(300, 2)
    memory = ItemMemory(space, NAMES)
    a, unrelated = space.vectors(["item 5", "nothing"])
    match = memory.match(a + space.vectors(["noise"])[0])
    assert isinstance(match, Match)
    assert (match.label, match.confident, match.candidates) == ("item 5", True, 30)
    unknown = memory.match(unrelated[None])
    assert isinstance(unknown, list)
    assert unknown[0].unknown
    assert ItemMemory(space, ["alone"]).match(space.vectors(["alone"])[0]).label == "alone"  # type: ignore[union-attr]


def test_gradients_are_not_recorded_and_views_are_resolved() -> None:
    x = SPACE.random(4, generator=SPACE.generator("x")).requires_grad_()
    lazy = x.mH
    memory = ItemMemory(SPACE, list("abcd"), lazy)
    found = memory.cleanup(lazy)
    assert found.labels == [["a"], ["b"], ["c"], ["d"]]
    assert not found.scores.requires_grad
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(memory.cleanup(lazy).scores, found.scores)


def test_vectors_without_labels_returns_all_items_in_order() -> None:
    memory = ItemMemory(SPACE, NAMES)
    memory.remove("item 3")
    assert torch.equal(memory.vectors(), SPACE.vectors(memory.labels))
    memory.remove(memory.labels)
    assert memory.vectors().shape == (0, *SPACE.shape)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("items_on", ["cpu", "cuda"])
@pytest.mark.parametrize("queries_on", ["cpu", "cuda"])
def test_scores_are_on_the_device_of_the_queries_and_vectors_on_that_of_the_memory(
    items_on: str, queries_on: str, tmp_path: Path
) -> None:
    memory = ItemMemory(SPACE, NAMES, SPACE.vectors(NAMES).to(queries_on), device=items_on)
    memory.save(tmp_path / "x")
    memory.commit(tmp_path / "folder")
    queries = SPACE.vectors(NAMES[:3]).to(queries_on)
    memories = [memory, ItemMemory.load(tmp_path / "x", device=items_on)]
    memories += [ItemMemory.open(tmp_path / path, device=items_on) for path in ("x", "folder")]
    for each in memories:
        found = each.cleanup(queries)
        assert found.labels == [[name] for name in NAMES[:3]]
        assert found.scores.device.type == queries_on
        assert each.vectors().device.type == items_on
        assert each.vectors([]).device.type == items_on
        assert torch.equal(each.vectors().cpu(), SPACE.vectors(NAMES))
        matches = each.match(queries)
        assert isinstance(matches, list)
        assert [match.label for match in matches] == NAMES[:3]


def test_a_backend_object_is_copied() -> None:
    backend = TorchBackend(2 * SPACE.total_dim, storage="bfloat16", device=torch.device("cpu"))
    memory = ItemMemory(SPACE, NAMES, backend=backend)
    assert memory.storage == "bfloat16"
    assert len(memory) == 30
    assert len(backend) == 0  # the memory works on a copy


MEMORY = ItemMemory(SPACE, NAMES)
NAN = SPACE.vectors(["x"])[0].clone()
NAN[3, 0, 1] = torch.nan


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ItemMemory(wrong("space")), TypeError, "ItemMemory: needs a ghrr.Space, got str 'space'"),
        (
            lambda: ItemMemory(SPACE, vectors=SPACE.zeros(1)),
            ValueError,
            "vectors need labels",
        ),
        (lambda: ItemMemory(SPACE, storage="int4"), ValueError, "storage must be one of 'float32', 'float64'"),
        (lambda: ItemMemory(SPACE, storage=""), ValueError, "storage must be one of 'float32', 'float64'"),
        (
            lambda: ItemMemory(SPACE, backend="annoy"),
            ValueError,
            "backend (or an object) must be one of 'torch'",
        ),
        (
            lambda: ItemMemory(SPACE, backend="faiss", storage="int8"),
            ValueError,
            "storage with FaissBackend must be",
        ),
        (lambda: ItemMemory(SPACE, uri="x.db"), ValueError, "uri needs backend=\"milvus\", got uri 'x.db'"),
        (lambda: ItemMemory(SPACE, backend=wrong(3)), ValueError, "backend must have width 320"),
        (
            lambda: MEMORY.add("item 3"),
            ValueError,
            "labels must be new and all different, got 'item 3' (1",
        ),
        (lambda: MEMORY.add(["new", "new"]), ValueError, "labels must be new and all different, got 'new'"),
        (lambda: MEMORY.add(wrong([1])), TypeError, "ItemMemory.add: a label must be a string, got int 1"),
        (lambda: MEMORY.add(wrong(1)), TypeError, "ItemMemory.add: labels must be strings, got int 1"),
        (lambda: MEMORY.add(wrong(SPACE.zeros(2))), TypeError, "labels must be strings, got a complex64 tensor"),
        (lambda: MEMORY.add(["\ud800"]), ValueError, "labels must be valid Unicode text"),
        (
            lambda: MEMORY.add(["new"], SPACE.zeros(2)),
            ValueError,
            "vectors must have shape (1, 40, 2, 2) for 1",
        ),
        (lambda: MEMORY.add(["new"], SPACE.zeros()), ValueError, "vectors must have shape (1, 40, 2, 2)"),
        (lambda: MEMORY.add(["new"], Space(41, 2).zeros(1)), ValueError, "does not fit Space(dim=40, m=2, seed=0)"),
        (lambda: MEMORY.add(["new"], wrong([1])), TypeError, "ItemMemory.add: x must be a complex tensor"),
        (lambda: MEMORY.add("new", NAN), ValueError, "slot (0, 3) of vectors is not finite"),
        (lambda: MEMORY.remove("new"), KeyError, "'new' is not among the 30 labels of this memory"),
        (lambda: MEMORY.remove(["item 1", "item 1"]), ValueError, "labels must be different, got 'item 1' twice"),
        (
            lambda: MEMORY.vectors(["item 1", "new"]),
            KeyError,
            "ItemMemory.vectors: label 'new' is not among",
        ),
        (lambda: MEMORY.cleanup(Space(40, 3).zeros()), ValueError, "does not fit Space(dim=40, m=2, seed=0)"),
        (lambda: MEMORY.cleanup(gaussian(40, 2, 2)), ValueError, "ItemMemory.cleanup: a complex128 tensor of shape"),
        (lambda: MEMORY.cleanup(NAN), ValueError, "slot (3,) of queries is not finite"),
        (lambda: MEMORY.cleanup(SPACE.zeros(), 0), ValueError, "k must be a whole number of at least 1, got 0"),
        (lambda: MEMORY.cleanup(SPACE.zeros(), wrong(1.5)), TypeError, "k must be a whole number, got float 1.5"),
        (lambda: MEMORY.match(SPACE.zeros(2, 2)), ValueError, "queries of shape (n, dim, m, m) or (dim, m, m)"),
        (lambda: ItemMemory(SPACE).match(SPACE.zeros()), ValueError, "a memory with items, got"),
        (
            lambda: ItemMemory(SPACE, "a", 1e30 * SPACE.identity(1), storage="float16"),
            ValueError,
            "must fit into float16",
        ),
        (MEMORY.commit, ValueError, "ItemMemory.commit: the first commit needs a folder"),
    ],
)
def test_bad_input(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()
    assert MEMORY.labels == NAMES  # no item was added or removed


def test_a_failed_add_changes_nothing() -> None:
    memory = ItemMemory(SPACE, NAMES, storage="float16")
    with pytest.raises(ValueError, match="must fit into float16"):
        memory.add(["p", "q"], torch.stack([SPACE.identity(), 1e30 * SPACE.identity()]))
    assert memory.labels == NAMES
    assert memory.cleanup(SPACE.identity(), 40).scores.shape == (30,)


def test_search_memory_is_bounded_by_the_chunk_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """No matrix product has more than one chunk of results, for any number of items and queries."""
    sizes = []
    product = torch.mm

    def watched(a: Tensor, b: Tensor, *, out: Tensor) -> Tensor:
        sizes.append(out.numel())
        return product(a, b, out=out)

    monkeypatch.setattr(search, "CHUNK_NUMBERS", 3200)
    monkeypatch.setattr(torch, "mm", watched)
    memory = ItemMemory(SPACE, map(str, range(200)), gaussian(200, *SPACE.shape, dtype=SPACE.dtype))
    memory.cleanup(gaussian(1000, *SPACE.shape, dtype=SPACE.dtype))
    assert max(sizes) <= 3200
    assert sum(sizes) == 200 * 1000
    assert storage.CHUNK_NUMBERS * 4 < 40e6  # by default, the results of a product take less than 40 MB


def test_int8_stores_rows_of_zeros() -> None:
    stored = pack(torch.zeros(2, 6), "int8")
    assert stored.scales is not None
    assert not stored.scales.any()
    assert not stored.numbers.any()
