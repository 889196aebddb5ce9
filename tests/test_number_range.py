"""Similarities of very large and very small hypervectors: correct, or an error, and never NaN."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr import models
from tests.helpers import gaussian

FUNCTIONS: dict[str, tuple[int, Callable[[Tensor, Tensor], Tensor]]] = {  # with the degree in each argument
    "similarity": (1, ghrr.similarity),
    "pairwise_similarity": (1, lambda a, b: ghrr.pairwise_similarity(a, b[None])),
    "unbind_similarity": (1, lambda a, b: ghrr.unbind_similarity(a, b, b.conj() / scale_of(b), side="left")),
    "commutator": (1, ghrr.commutator),
    "commutativity": (2, ghrr.commutativity),
}
DTYPES = (torch.complex64, torch.complex128)


def scale_of(x: Tensor) -> float:
    return float(x.abs().max())


def hypervectors(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    a, b = gaussian(2, 20, 3, 3, dtype=torch.complex128)
    return a.to(dtype), b.to(dtype)


@pytest.mark.parametrize("scales", [(1e30, 1e-30), (1e-30, 1e30), (1e18, 1e18), (3e-10, 1e-10)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_within_range_are_right(name: str, dtype: torch.dtype, scales: tuple[float, float]) -> None:
    degree, function = FUNCTIONS[name]
    if degree == 2 and dtype == torch.complex64 and scales[0] * scales[1] not in (1.0, 1e30 * 1e-30):
        scales = (scales[0] ** 0.5, scales[1] ** 0.5)
    a, b = hypervectors(dtype)
    expected = function(a.to(torch.complex128), b.to(torch.complex128)) * (scales[0] * scales[1]) ** degree
    found = function(a * scales[0], b * scales[1])
    largest = float(expected.abs().max())
    torch.testing.assert_close(found.to(expected.dtype) / largest, expected / largest, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_beyond_the_range_raise(name: str, dtype: torch.dtype) -> None:
    scale = 1e30 if dtype == torch.complex64 else 1e200
    a, b = hypervectors(dtype)
    with pytest.raises(ValueError, match=rf"{name}\(.*beyond the range of torch.*, got numbers up to .*; normalize"):
        FUNCTIONS[name][1](scale * a, scale * b)
    assert torch.isfinite(torch.view_as_real(FUNCTIONS[name][1](a, b) + 0j)).all()  # negative control


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nan_in_gives_nan_out(name: str) -> None:
    a, b = hypervectors(torch.complex64)
    a[0, 0, 0] = torch.nan
    assert torch.isnan(FUNCTIONS[name][1](a, b)).any()


def test_small_products_of_three_are_right() -> None:
    a, b = hypervectors(torch.complex64)
    found = ghrr.unbind_similarity(1e-30 * a, 1e-30 * b, 1e38 * b.conj() / scale_of(b), side="left")
    expected = ghrr.unbind_similarity(a, b, b.conj() / scale_of(b), side="left")
    assert float(found / expected) == pytest.approx(1e-22, rel=1e-5)


def test_gradients_of_large_similarities_are_right() -> None:
    a, b = (1e18 * x for x in hypervectors(torch.complex64))
    a.requires_grad_()
    ghrr.similarity(a, 30 * b).backward()
    assert a.grad is not None
    torch.testing.assert_close(a.grad, 30 * b / 60)


@pytest.mark.parametrize("name", [name for name in models.MODELS if name not in ("bsc", "sbc")])
def test_models_of_real_numbers_compare_large_and_small_vectors(name: str) -> None:
    model = models.make(name, reals=36)
    a, b = model.random(2, generator=torch.Generator().manual_seed(0))
    expected = model.similarity(a, b)
    found = model.similarity(1e30 * a, 1e-30 * b), model.pairwise_similarity(1e-30 * a, 1e30 * b[None])[0]
    for similarity in (*found, model.similarity(1e18 * a, 1e18 * b) / 1e36):
        assert float(similarity) == pytest.approx(float(expected), abs=1e-5)
    with pytest.raises(ValueError, match="beyond the range"):
        model.similarity(1e30 * a, 1e30 * a)


@pytest.mark.parametrize("name", ["fhrr", "hrr", "hrr-unitary", "vtb", "mbat", "smr", "tpr", "hlb", "ghrr-3"])
@pytest.mark.parametrize("scale", [1e30, 1e-30])
def test_models_normalize_large_and_small_vectors(name: str, scale: float) -> None:
    model = models.make(name, reals=36)
    x = 3 * model.random(2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model.normalize(scale * x), model.normalize(x))
