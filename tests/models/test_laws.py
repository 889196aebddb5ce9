"""Every model obeys the laws that its facts declare, and breaks the others."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ghrr import models
from ghrr.models import Architecture

# Relative to the norm of a product: sums of at most 64 terms, or transforms of at most 64 numbers, in double precision.
ROUNDING = 1e-12
# A law that does not hold fails by far more than rounding. HLB's vectors are within 1/√d of being their own inverses.
BROKEN = 1e-4

DOUBLE = {
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
    torch.bool: torch.bool,
    torch.uint8: torch.uint8,
}


ROTATIONS: dict[str, dict[str, Any]] = {f"ghrr-3-{kind}": {"m": 3, "rotation": kind} for kind in ("fixed", "shared")}


def double(name: str, reals: int) -> Architecture:
    """Return a model in double precision."""
    if name in ROTATIONS:
        return models.GHRR.sized(reals=reals, dtype=torch.complex128, **ROTATIONS[name])
    entry = models.MODELS[name]
    return entry.model.sized(reals=reals, dtype=DOUBLE[entry.model.dtype], **entry.settings)


names = pytest.mark.parametrize("name", [*models.MODELS, *ROTATIONS])
laws = pytest.mark.parametrize("law", models.LAWS)


@names
@laws
def test_law_holds_if_and_only_if_the_facts_declare_it(name: str, law: str) -> None:
    @settings(max_examples=5, deadline=None)
    @given(seed=st.integers(0, 2**32), reals=st.sampled_from([72, 128, 144]))
    def check(seed: int, reals: int) -> None:
        model = double(name, reals)
        holds = models.LAWS[law].holds(model.facts)
        if holds is None:
            return
        deviation = models.LAWS[law].deviation(model, torch.Generator().manual_seed(seed))
        assert deviation <= ROUNDING if holds else deviation > BROKEN

    check()


def test_a_wrong_fact_is_found() -> None:
    model = models.VTB(64, dtype=torch.float64)
    for law, right in (("commutative", False), ("distributive", True)):
        deviation = models.LAWS[law].deviation(model, torch.Generator().manual_seed(0))
        assert (deviation <= ROUNDING) is right


@pytest.mark.parametrize("law", ["distributive", "right distributive"])
def test_binding_that_is_not_linear_breaks_a_law_that_all_models_obey(law: str) -> None:
    class Affine(models.MAP):
        def bind(self, a: Tensor, b: Tensor) -> Tensor:
            return super().bind(a, b) + 1

    assert models.LAWS[law].deviation(Affine(64), torch.Generator().manual_seed(0)) > BROKEN


@names
def test_approximate_inverse_returns_value_plus_noise(name: str) -> None:
    """Unbinding is unbiased: the mean similarity with the value is 1 within five standard errors."""
    model = double(name, 144)
    generator = torch.Generator().manual_seed(1)
    n = 20 if model.facts.matrix_keys else 400
    keys, values = model.random_keys(n, generator=generator), model.random(n, generator=generator)
    back = model.unbind(model.bind(keys, values), keys, side="left")
    scores = model.similarity(back, values)
    own = model.similarity(values, values)
    error = float((scores - own).std()) / n**0.5
    if model.facts.inverse == "exact":
        assert torch.allclose(scores, own, atol=1e-10)
    else:
        # HRR and VTB draw vectors of norm 1, so that |k|⁴ averages 1 + O(1/d) instead of 1.
        assert abs(float((scores - own).mean())) <= 5 * error + 2 / model.dim**0.5
        assert error > 0


@names
def test_similarity_is_one_with_itself_and_zero_on_average(name: str) -> None:
    model = double(name, 144)
    x = model.random(200, generator=torch.Generator().manual_seed(2))
    similarities = model.pairwise_similarity(x, x)
    own, others = similarities.diagonal(), similarities[~torch.eye(200, dtype=torch.bool)]
    assert abs(float(own.mean()) - 1) <= 5 * float(own.std()) / 200**0.5 + 1e-12
    # Pairs share vectors, but are uncorrelated, and each is counted twice.
    assert abs(float(others.mean())) <= 5 * model.noise_std / (len(others) / 2) ** 0.5
    squares = others.double().square()
    error = float(squares.std()) / (len(others) / 2) ** 0.5
    assert abs(float(squares.mean()) - model.noise_std**2) <= 5 * error


@names
def test_similarity_equals_pairwise_similarity_and_batches_broadcast(name: str) -> None:
    model = double(name, 72)
    generator = torch.Generator().manual_seed(3)
    a, b = model.random(2, 3, generator=generator), model.random(4, generator=generator)
    pairwise = model.pairwise_similarity(a, b)
    one_by_one = model.similarity(a.unsqueeze(2), b)
    assert pairwise.shape == (2, 3, 4)
    assert torch.allclose(pairwise.double(), one_by_one.double(), atol=1e-6)
    keys = model.random_keys(3, generator=generator)
    bound = model.bind(keys, a)
    assert torch.allclose(bound[1, 2].to(torch.complex128), model.bind(keys[2], a[1, 2]).to(torch.complex128))


@names
def test_normalize_keeps_random_vectors_and_bundles_have_similarity_with_members(name: str) -> None:
    model = double(name, 1152)
    items = model.random(3, generator=torch.Generator().manual_seed(4))
    scores = model.bundle_scores(3)
    found = model.pairwise_similarity(model.bundle(items, generator=torch.Generator().manual_seed(0)), items)
    assert ((found - scores.member_mean).abs() < 6 * scores.member_std + 1e-9).all()
    normal = model.normalize(items)
    assert torch.allclose(model.similarity(model.normalize(normal), normal), model.similarity(normal, normal))


@names
def test_shift_changes_random_vectors_and_is_undone(name: str) -> None:
    model = double(name, 144)
    x = model.random(generator=torch.Generator().manual_seed(5))
    assert torch.equal(model.shift(model.shift(x, 5), -5), x)
    assert abs(float(model.similarity(model.shift(x), x))) < 6 * model.noise_std + (0.2 if x.dtype == torch.bool else 0)


@names
def test_random_vectors_follow_the_generator(name: str) -> None:
    model = double(name, 72)
    first, second, third = (model.random(2, generator=torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
    assert first.shape == (2, *model.shape)
    assert first.dtype == model.dtype


@names
def test_differentiable_models_have_gradients(name: str) -> None:
    model = double(name, 72)
    if not model.facts.differentiable:
        assert not model.random().is_floating_point()
        return
    generator = torch.Generator().manual_seed(6)
    key = model.random_keys(generator=generator).requires_grad_()
    values = model.random(2, generator=generator).requires_grad_()
    x = model.bundle(model.bind(key, values))
    loss = model.similarity(x, model.bind(key.detach(), values[0].detach())).square().sum()
    gradients = torch.autograd.grad(loss, [key, values])
    assert all(bool((gradient != 0).any()) for gradient in gradients)


def test_fhrr_is_ghrr_with_slots_of_one_number() -> None:
    fhrr, ghrr = models.FHRR(50, dtype=torch.complex128), models.GHRR(50, dtype=torch.complex128, m=1)
    a, b = fhrr.random(2, 7, generator=torch.Generator().manual_seed(7))
    expand = lambda x: x[..., None, None]  # noqa: E731
    assert torch.allclose(expand(fhrr.bind(a, b)), ghrr.bind(expand(a), expand(b)))
    assert torch.allclose(fhrr.similarity(a, b), ghrr.similarity(expand(a), expand(b)))
    assert fhrr.noise_std == pytest.approx(ghrr.noise_std)


def test_tensor_products_refuse_identity_and_inverse() -> None:
    with pytest.raises(ValueError, match="no vector is an identity"):
        models.TPR(8).identity()
    with pytest.raises(ValueError, match="use unbind"):
        models.TPR(8).inverse(models.TPR(8).random())
