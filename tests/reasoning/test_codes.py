import pytest
import torch

import ghrr
from ghrr.reasoning.codes import number_code, place_codes


@pytest.mark.parametrize("m", [1, 2, 3])
def test_powers_of_different_numbers_are_orthogonal(m: int) -> None:
    table = number_code(12, columns=3, m=m, max_dim=4096).table(12)
    assert torch.allclose(ghrr.pairwise_similarity(table, table), torch.eye(12), atol=1e-5)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_binding_adds_numbers(m: int) -> None:
    code = number_code(12, columns=3, m=m, max_dim=4096)
    three, four, seven = code.powers([3, 4, 7])
    assert torch.allclose(ghrr.bind(three, four), seven, atol=1e-5)


def test_binding_convolves_distributions() -> None:
    code = number_code(12, columns=3)
    a, b = torch.tensor([0.2, 0.8]), torch.tensor([0.5, 0.25, 0.25])
    x, y = (torch.einsum("v,vdij->dij", p.to(torch.complex64), code.powers(range(len(p)))) for p in (a, b))
    total = ghrr.pairwise_similarity(ghrr.bind(x, y), code.powers(range(4)))
    assert torch.allclose(total, torch.tensor([0.1, 0.45, 0.25, 0.2]), atol=1e-5)


def test_numbers_beyond_the_range_alias() -> None:
    code = number_code(4, columns=1)  # a grid of four phases, exact below a difference of eight
    zero, seven, sixteen = code.powers([0, 7, 16])
    assert abs(float(ghrr.similarity(zero, seven))) < 1e-5
    assert float(ghrr.similarity(zero, sixteen)) == pytest.approx(1, abs=1e-5)


def test_sampled_phases_have_the_noise_that_is_stated() -> None:
    code = number_code(1000, columns=3, max_dim=256)
    table = code.table(400)
    similarities = ghrr.pairwise_similarity(table[:1], table[1:])[0]
    # Standard error of a root mean square of 399 Gaussians: 1 / sqrt(2 * 399) of it; four of them.
    assert float(similarities.square().mean().sqrt()) == pytest.approx(code.noise, rel=4 / (2 * 399) ** 0.5)


@pytest.mark.parametrize("m", [1, 2])
def test_places_are_a_circle(m: int) -> None:
    places, values = place_codes(9, 6, m=m, max_dim=4096)
    table = ghrr.bind(places.table(9)[:, None], values.table(6)).flatten(0, 1)
    assert torch.allclose(ghrr.pairwise_similarity(table, table), torch.eye(54), atol=1e-5)
    first, last = places.powers([1, 10])
    assert torch.allclose(first, last, atol=1e-5)
