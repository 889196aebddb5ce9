"""Items go in, come out and are found exactly; what does not fit is refused and changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import ghrr
from ghrr import Space
from ghrr.memory import ItemMemory, Match, TorchBackend, search, storage
from ghrr.memory.storage import Buffer, pack
from tests.helpers import gaussian, generator, rounding

SPACE = Space(40, 2, seed=0)
NAMES = [f"item {i}" for i in range(30)]


def wrong(value: object) -> Any:
    """A value of a type that the function does not take."""
    return value


def brute_force(queries: Tensor, items: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Scores and places by the plain formula in double precision, of equal scores the first."""
    scores = ghrr.pairwise_similarity(queries.to(torch.complex128), items.to(torch.complex128))
    ordered = scores.sort(dim=-1, descending=True, stable=True)
    return ordered.values[..., :k], ordered.indices[..., :k]


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("k", [1, 4])
def test_cleanup_is_brute_force(m: int, dtype: torch.dtype, k: int) -> None:
    space = Space(30, m, dtype=dtype)
    items = gaussian(50, 30, m, m, dtype=dtype)
    queries = gaussian(3, 5, 30, m, m, dtype=dtype, seed=1)
    memory = ItemMemory(space, [str(i) for i in range(50)], items)
    found = memory.cleanup(queries, k)
    scores, places = brute_force(queries, items, k)
    assert found.scores.shape == (3, 5, k)
    assert found.scores.dtype == dtype.to_real()
    assert (found.scores - scores).abs().max() < rounding(dtype.to_real(), terms=2)
    assert [[[int(label) for label in row] for row in rows] for rows in found.labels] == places.tolist()


def test_small_chunks_give_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_of_equal_scores_the_first_added_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "CHUNK_NUMBERS", 8 * 2 * SPACE.total_dim)  # eight items at a time
    eye = SPACE.identity()
    vectors = torch.stack([eye * (2 if i % 5 == 3 else 1) for i in range(30)])  # exact in floating point: true ties
    memory = ItemMemory(SPACE, NAMES, vectors)
    twos, ones = [i for i in range(30) if i % 5 == 3], [i for i in range(30) if i % 5 != 3]
    for k in (1, 2, 6, 7, 15, 29, 30):
        found = memory.cleanup(eye, k)
        assert found.labels == [NAMES[i] for i in (twos + ones)[:k]]
    assert memory.cleanup(torch.stack([0 * eye, eye]), 3).labels == [NAMES[:3], [NAMES[i] for i in twos[:3]]]


def test_atoms_by_name_and_noisy_queries() -> None:
    memory = ItemMemory(Space(300, 2), NAMES)
    query = ghrr.bundle(memory.space.vectors(["item 7", "x", "y"]))
    assert memory.cleanup(query).labels == ["item 7"]
    unrelated = memory.cleanup(memory.space.vectors(["z"])[0])
    assert unrelated.scores.item() < 5 * memory.space.noise_std  # the control: there is nothing to find


def test_add_remove_and_look_up() -> None:
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
    assert memory.vectors([]).shape == (0, *SPACE.shape)
    assert memory.cleanup(SPACE.vectors(["item 3"]), 50).labels[0] != ["item 3"]
    memory.add("item 3")
    assert memory.labels[-1] == "item 3"
    assert memory.cleanup(SPACE.vectors(["item 3"])).labels == [["item 3"]]


def test_removed_items_are_never_found_and_the_rest_always() -> None:
    """Remove in random order down to nothing: answers are those of brute force over what is left, at every step."""
    items = gaussian(60, *SPACE.shape, dtype=SPACE.dtype)
    memory = ItemMemory(SPACE, map(str, range(60)), items)
    queries = gaussian(4, *SPACE.shape, dtype=SPACE.dtype, seed=1)
    left = list(range(60))
    for place in torch.randperm(60, generator=generator()).tolist():
        memory.remove(str(place))
        left.remove(place)
        k = min(3, len(left))
        want = brute_force(queries, items[left], k)[1]
        assert memory.cleanup(queries, 3).labels == [[str(left[i]) for i in row] for row in want.tolist()]
    assert memory.cleanup(queries).scores.shape == (4, 0)


@pytest.mark.parametrize("batch", [(), (0,), (3,), (2, 3)])
def test_shapes_of_answers(batch: tuple[int, ...]) -> None:
    queries = SPACE.random(*batch, generator=SPACE.generator("q"))
    for labels, k, columns in ((NAMES[:2], 1, 1), (NAMES[:2], 5, 2), ([], 5, 0)):
        found = ItemMemory(SPACE, labels).cleanup(queries, k)
        assert found.scores.shape == (*batch, columns)
        want = (0,) if batch == (0,) else found.scores.shape  # a list of no lists has one axis only
        assert np.array(found.labels, dtype=object).shape == want


def test_growing_item_by_item_moves_each_item_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Amortised O(1): room doubles, so all moves together are fewer than twice the items."""
    moved: list[int] = []
    copied = Buffer.copy

    def counted(self: Buffer, places: slice | Tensor, room: int = 0) -> Buffer:
        moved.append(len(self.ids[places]))
        return copied(self, places, room)

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
    assert len(moved) > 5  # the control: rows were moved at all


def test_match_says_how_sure() -> None:
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


def test_gradients_and_conjugated_views_are_only_numbers() -> None:
    x = SPACE.random(4, generator=SPACE.generator("x")).requires_grad_()
    lazy = x.mH
    memory = ItemMemory(SPACE, list("abcd"), lazy)
    found = memory.cleanup(lazy)
    assert found.labels == [["a"], ["b"], ["c"], ["d"]]
    assert not found.scores.requires_grad
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(memory.cleanup(lazy).scores, found.scores)


def test_an_object_as_a_backend() -> None:
    backend = TorchBackend(2 * SPACE.total_dim, storage="bfloat16", device=torch.device("cpu"))
    memory = ItemMemory(SPACE, NAMES, backend=backend)
    assert memory.storage == "bfloat16"
    assert len(memory) == 30
    assert len(backend) == 0  # the memory works on a copy


BOOK = ItemMemory(SPACE, NAMES)
NAN = SPACE.vectors(["x"])[0].clone()
NAN[3, 0, 1] = torch.nan


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ItemMemory(wrong("space")), TypeError, "ItemMemory: needs a ghrr.Space, got str 'space'"),
        (lambda: ItemMemory(SPACE, vectors=SPACE.zeros(1)), ValueError, "vectors were given without labels"),
        (lambda: ItemMemory(SPACE, storage="int4"), ValueError, "storage must be one of 'float32', 'float64'"),
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
        (lambda: ItemMemory(SPACE, uri="x.db"), ValueError, "uri is for backend=\"milvus\", got 'x.db'"),
        (lambda: ItemMemory(SPACE, backend=wrong(3)), ValueError, "backend must keep rows of 320 numbers"),
        (
            lambda: BOOK.add("item 3"),
            ValueError,
            "'item 3' is there already, or given twice; labels must differ (1",
        ),
        (lambda: BOOK.add(["new", "new"]), ValueError, "'new' is there already, or given twice"),
        (lambda: BOOK.add(wrong([1])), TypeError, "ItemMemory.add: a label must be a string, got int 1"),
        (lambda: BOOK.add(wrong(1)), TypeError, "ItemMemory.add: labels must be strings, got int 1"),
        (lambda: BOOK.add(wrong(SPACE.zeros(2))), TypeError, "labels must be strings, got a complex64 tensor"),
        (lambda: BOOK.add(["\ud800"]), ValueError, "text that can be written as UTF-8"),
        (lambda: BOOK.add(["new"], SPACE.zeros(2)), ValueError, "1 labels need vectors of shape (1, 40, 2, 2), got a"),
        (lambda: BOOK.add(["new"], SPACE.zeros()), ValueError, "1 labels need vectors of shape (1, 40, 2, 2)"),
        (lambda: BOOK.add(["new"], Space(41, 2).zeros(1)), ValueError, "does not fit Space(dim=40, m=2, seed=0)"),
        (lambda: BOOK.add(["new"], wrong([1])), TypeError, "ItemMemory.add: x must be a complex tensor"),
        (lambda: BOOK.add("new", NAN), ValueError, "slot (0, 3) of vectors is not finite"),
        (lambda: BOOK.remove("new"), KeyError, "'new' is not among the 30 labels of this memory"),
        (lambda: BOOK.remove(["item 1", "item 1"]), ValueError, "'item 1' is given twice"),
        (lambda: BOOK.vectors(["item 1", "new"]), KeyError, "ItemMemory.vectors: 'new' is not among the 30 labels"),
        (lambda: BOOK.cleanup(Space(40, 3).zeros()), ValueError, "does not fit Space(dim=40, m=2, seed=0)"),
        (lambda: BOOK.cleanup(gaussian(40, 2, 2)), ValueError, "ItemMemory.cleanup: a complex128 tensor of shape"),
        (lambda: BOOK.cleanup(NAN), ValueError, "slot (3,) of queries is not finite"),
        (lambda: BOOK.cleanup(SPACE.zeros(), 0), ValueError, "k must be a whole number of at least 1, got 0"),
        (lambda: BOOK.cleanup(SPACE.zeros(), wrong(1.5)), TypeError, "k must be a whole number, got float 1.5"),
        (lambda: BOOK.match(SPACE.zeros(2, 2)), ValueError, "queries of shape (n, dim, m, m) or (dim, m, m)"),
        (lambda: ItemMemory(SPACE).match(SPACE.zeros()), ValueError, "a memory that is not empty"),
        (
            lambda: ItemMemory(SPACE, "a", 1e30 * SPACE.identity(1), storage="float16"),
            ValueError,
            "not fit into float16",
        ),
        (BOOK.commit, ValueError, "ItemMemory.commit: name a folder"),
    ],
)
def test_bad_input(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()
    assert BOOK.labels == NAMES  # nothing went in or out


def test_a_failed_add_leaves_the_memory_as_it_was() -> None:
    memory = ItemMemory(SPACE, NAMES, storage="float16")
    with pytest.raises(ValueError, match="does not fit into float16"):
        memory.add(["p", "q"], torch.stack([SPACE.identity(), 1e30 * SPACE.identity()]))
    assert memory.labels == NAMES
    assert memory.cleanup(SPACE.identity(), 40).scores.shape == (30,)


def test_working_memory_is_bounded_by_the_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No matrix product has more than a chunk of results, whatever the number of items and queries."""
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
    assert storage.CHUNK_NUMBERS * 4 < 40e6  # as it is: the results of a product take less than 40 MB


def test_rows_of_zeros_in_int8() -> None:
    stored = pack(torch.zeros(2, 6), "int8")
    assert stored.scales is not None
    assert not stored.scales.any()
    assert not stored.numbers.any()
