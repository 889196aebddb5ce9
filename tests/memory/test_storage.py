"""Storage types: rounding errors are within the bound of the type, and not within the bound of a finer type."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr import Space
from ghrr.memory import ItemMemory
from tests.helpers import STANDARD_ERRORS, gaussian, rounding

SPACE = Space(100, 2)
KINDS = ("float32", "bfloat16", "float16", "int8")
# Half the distance to the next number, relative to the number.
HALF_GAP = {"float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11}


def as_rows(x: Tensor) -> Tensor:
    return torch.view_as_real(x).reshape(len(x), -1).double()


def errors_and_bounds(kind: str, bound_of: str, items: Tensor) -> tuple[Tensor, Tensor]:
    """Return the errors of the scores of stored items, and the bound from rounding every number as ``bound_of``."""
    memory = ItemMemory(SPACE, map(str, range(len(items))), items, storage=kind)
    kept, given = as_rows(memory.vectors()), as_rows(items)
    sizes = given.abs()
    if bound_of == "int8":  # half a level; the scale itself is rounded to single precision
        bound = sizes.sum(dim=1)[:, None] * sizes.amax(dim=1) * (0.5 + 127 * 2.0**-22) / 127
    else:
        bound = HALF_GAP[bound_of] * (sizes @ sizes.mT)
    scale = SPACE.m * SPACE.dim
    return (given @ (kept - given).mT).abs() / scale, bound / scale


ITEMS = (SPACE.vectors(list("abcdefgh")), 30 * gaussian(8, *SPACE.shape, dtype=SPACE.dtype))


@pytest.mark.parametrize("items", ITEMS, ids=["unitary", "arbitrary"])
@pytest.mark.parametrize("kind", KINDS)
def test_error_of_scores_is_bounded(kind: str, items: Tensor) -> None:
    error, bound = errors_and_bounds(kind, kind, items)
    assert (error <= bound).all()


@pytest.mark.parametrize("items", ITEMS, ids=["unitary", "arbitrary"])
@pytest.mark.parametrize(("kind", "finer"), [("bfloat16", "float32"), ("int8", "float16"), ("float16", "float32")])
def test_error_exceeds_the_bound_of_a_finer_type(kind: str, finer: str, items: Tensor) -> None:
    error, bound = errors_and_bounds(kind, finer, items)
    assert (error > bound).any()


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_the_rounded_items(kind: str) -> None:
    memory = ItemMemory(SPACE, list("abcdefgh"), storage=kind)
    queries = SPACE.vectors(["a", "b", "z"])
    found = memory.cleanup(queries, 8)
    exact = ghrr.pairwise_similarity(queries.to(torch.complex128), memory.vectors().to(torch.complex128))
    assert torch.allclose(found.scores.double(), exact.sort(descending=True).values, atol=rounding(torch.float32))


@pytest.mark.parametrize("kind", KINDS[1:])
def test_rounding_errors_are_small_against_the_noise(kind: str) -> None:
    """Errors of single numbers are independent, so the error of a score is their root sum of squares."""
    items = SPACE.vectors([str(i) for i in range(200)])
    memory = ItemMemory(SPACE, map(str, range(200)), items, storage=kind)
    kept = memory.vectors()
    each = (as_rows(kept) - as_rows(items)).square().mean().sqrt().item()
    scores = ghrr.pairwise_similarity(items, kept) - ghrr.pairwise_similarity(items, items)
    # A unitary hypervector has the squared norm mD: the deviation is the one of a single number over the root of mD.
    deviation = each / (SPACE.m * SPACE.dim) ** 0.5
    off_diagonal = scores[~torch.eye(200, dtype=torch.bool)].double()
    assert abs(off_diagonal.square().mean().sqrt().item() / deviation - 1) < STANDARD_ERRORS / 200  # 200 free rows
    assert deviation < 0.02 * SPACE.noise_std


@pytest.mark.parametrize("kind", KINDS)
def test_noisy_queries_find_their_items(kind: str) -> None:
    space = Space(300, 2)
    names = [str(i) for i in range(100)]
    noise = space.random(100, 5, generator=space.generator("noise")).sum(dim=1)
    memory = ItemMemory(space, names, storage=kind)
    assert memory.cleanup(space.vectors(names) + noise).labels == [[name] for name in names]


def test_double_precision_is_the_default_for_complex128() -> None:
    space = Space(50, 2, dtype=torch.complex128)
    memory = ItemMemory(space, list("abc"))
    assert memory.storage == "float64"
    assert torch.equal(memory.vectors(["b"]), space.vectors(["b"]))
    narrow = ItemMemory(space, list("abc"), storage="float32")
    assert not torch.equal(narrow.vectors(["b"]), space.vectors(["b"]))
    assert narrow.vectors(["b"]).dtype == torch.complex128
    assert narrow.cleanup(space.vectors(["b"])).labels == [["b"]]
