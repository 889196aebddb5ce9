"""The products obey the laws of GHRR, for real and complex slots."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr.relations.chains.products import cosines, multiply_chains, scale_to_unitary_norm

CHAIN = torch.tensor([[0, 1, 2]])


def vectors(m: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return scale_to_unitary_norm(torch.randn(3, 7, m, m, dtype=dtype, generator=torch.Generator().manual_seed(m)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("m", [1, 2, 3])
def test_product_is_bind_with_restored_norm(m: int, dtype: torch.dtype) -> None:
    x = vectors(m, dtype)
    expected = scale_to_unitary_norm(ghrr.multibind(list(x.to(torch.complex128))))
    torch.testing.assert_close(multiply_chains(x, CHAIN)[0].to(torch.complex128), expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_cosine_is_similarity(dtype: torch.dtype) -> None:
    x = vectors(3, dtype)
    wide = x.to(torch.complex128)
    torch.testing.assert_close(cosines(x, x), ghrr.pairwise_similarity(wide, wide))
    torch.testing.assert_close(cosines(x, x).diagonal(), torch.ones(3, dtype=torch.float64))


def test_bracketings_of_exact_products_agree() -> None:
    a, b, c = vectors(3)
    left, right = scale_to_unitary_norm(a @ b) @ c, a @ scale_to_unitary_norm(b @ c)
    torch.testing.assert_close(scale_to_unitary_norm(left), scale_to_unitary_norm(right))


def test_bracketings_of_cleaned_products_differ() -> None:
    """Negative control: a name between the steps is not the product."""
    x = vectors(3)
    a, b, c = x
    cleaned = x[cosines((a @ b)[None], x).argmax()]
    other = x[cosines((b @ c)[None], x).argmax()]
    assert not torch.allclose(scale_to_unitary_norm(cleaned @ c), scale_to_unitary_norm(a @ other))


@pytest.mark.parametrize(("m", "commutes"), [(1, True), (2, False), (4, False)])
def test_order_matters_unless_m_is_one(m: int, commutes: bool) -> None:
    x = vectors(m)
    there, back = multiply_chains(x, torch.tensor([[0, 1], [1, 0]]))
    assert torch.allclose(there, back) == commutes


def test_gradient_of_products_equals_that_of_indexing() -> None:
    x = vectors(2).requires_grad_()
    weights = torch.randn(4, 7, 2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    chains = torch.tensor([[0, 1], [1, 0], [2, 2], [0, 0]])
    (ours,) = torch.autograd.grad((weights * multiply_chains(x, chains)).sum(), x)
    plain = scale_to_unitary_norm(x[chains[:, 0]] @ x[chains[:, 1]])
    (expected,) = torch.autograd.grad((weights * plain).sum(), x)
    torch.testing.assert_close(ours, expected)


def test_projection_is_idempotent_and_a_unitary_slot_is_not() -> None:
    """A brother's brother is a brother: a singular slot can, a unitary one other than the identity cannot."""
    projection = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    rotation = torch.tensor([[0.6, -0.8], [0.8, 0.6]])
    assert torch.equal(projection @ projection, projection)
    assert not torch.allclose(rotation @ rotation, rotation)
