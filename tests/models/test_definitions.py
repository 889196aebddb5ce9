"""Bindings follow their definitions, written out by hand."""

from __future__ import annotations

import math

import torch

from ghrr import models
from tests.helpers import generator


def test_hrr_is_circular_convolution() -> None:
    a, b = torch.randn(2, 7, generator=generator(), dtype=torch.float64)
    by_hand = torch.stack([sum((a[k] * b[(n - k) % 7] for k in range(7)), torch.tensor(0.0)) for n in range(7)])
    assert torch.allclose(models.HRR(7, dtype=torch.float64).bind(a, b), by_hand)


def test_unitary_hrr_has_fourier_coefficients_of_size_one() -> None:
    for dim in (7, 8):
        x = models.HRR(dim, dtype=torch.float64, unitary=True).random(3, generator=generator())
        assert torch.allclose(torch.fft.fft(x).abs(), torch.ones(3, dim, dtype=torch.float64))


def test_vtb_is_product_with_block_diagonal_matrix() -> None:
    a, b = torch.randn(2, 16, generator=generator(), dtype=torch.float64)
    matrix = torch.block_diag(*[b.reshape(4, 4)] * 4)
    assert torch.allclose(models.VTB(16, dtype=torch.float64).bind(a, b), math.sqrt(4) * matrix @ a)


def test_smr_is_matrix_product() -> None:
    a, b = torch.randn(2, 9, generator=generator(), dtype=torch.float64)
    product = (a.reshape(3, 3) @ b.reshape(3, 3)).flatten()
    assert torch.allclose(models.SMR(9, dtype=torch.float64).bind(a, b), product)


def test_tpr_is_kronecker_product() -> None:
    a, b = torch.randn(2, 3, generator=generator(), dtype=torch.float64)
    assert torch.allclose(models.TPR(3, dtype=torch.float64).bind(a, b), torch.kron(a, b))


def test_mbat_applies_one_key_to_all_vectors_or_one_key_to_each() -> None:
    model = models.MBAT(5, dtype=torch.float64)
    keys, values = model.random_keys(4, generator=generator()), model.random(4, generator=generator())
    each = torch.stack([key @ value for key, value in zip(keys, values, strict=True)])
    assert torch.allclose(model.bind(keys, values), each)
    assert torch.allclose(model.bind(keys[0], values), values @ keys[0].mT)


def test_block_codes_convolve_within_blocks() -> None:
    model = models.SBC(15, block_size=5)
    a, b = model.random(2, generator=generator())
    one_hot = [torch.nn.functional.one_hot(x.long(), 5).double() for x in (a, b)]
    convolved = torch.fft.irfft(torch.fft.rfft(one_hot[0]) * torch.fft.rfft(one_hot[1]), n=5)
    assert torch.equal(model.bind(a, b).long(), convolved.argmax(dim=-1))


def test_block_sizes_up_to_256_wrap_at_the_block_size() -> None:
    for size in (2, 100, 128, 200, 256):
        model = models.SBC(30 * size, block_size=size)
        a, b = model.random(2, generator=generator())
        assert torch.equal(model.bind(a, b).long(), (a.long() + b.long()) % size)
        assert torch.equal(model.bind(a, model.inverse(a)), model.identity())


def test_majority_breaks_ties_at_random() -> None:
    """Half of the bits of two random vectors differ; of those, half agree with the first one."""
    model = models.BSC(10_000)
    a, b = model.random(2, generator=generator())
    bundle = model.bundle(torch.stack([a, b]), generator=generator(1))
    assert torch.equal(bundle[a == b], a[a == b])
    ties = bundle[a != b] == a[a != b]
    assert abs(float(ties.double().mean()) - 0.5) < 5 * 0.5 / math.sqrt(len(ties))


def test_signs_of_map_break_ties_at_random() -> None:
    model = models.MAP(10_000)
    signs = model.normalize(torch.zeros(10_000), generator=generator())
    assert set(signs.tolist()) == {-1.0, 1.0}
    assert abs(float(signs.mean())) < 5 / 100
