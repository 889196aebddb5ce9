"""AdaptiveEncoder: rotations that depend on the input, and the resulting kernel."""

from __future__ import annotations

import copy
import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import ghrr
from ghrr import Space
from ghrr.encoding import AdaptiveEncoder, FractionalPower, kernel_weights
from ghrr.unitary import is_unitary
from tests.encoding.common import slots
from tests.helpers import assert_mean, generator, unitary


def make_adaptive(space: Space, n: int = 2, **settings: Any) -> AdaptiveEncoder:
    """Make an encoder whose rotation depends on the input: u(x) is the sum of the features."""
    network = nn.Linear(n, 1, bias=False, dtype=torch.float64 if space.dtype == torch.complex128 else torch.float32)
    nn.init.ones_(network.weight)
    return AdaptiveEncoder(space, n, latent=1, network=network, **settings)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("m", [1, 2, 3])
def test_untrained_encoder_equals_fractional_power(dtype: torch.dtype, m: int) -> None:
    space = Space(20, m, dtype=dtype)
    x = torch.randn(4, 2, generator=generator())
    for settings in ({}, {"kernel": "laplace", "bandwidth": 0.3, "name": "price"}):
        plain = FractionalPower(space, 2, **settings)  # type: ignore[arg-type]
        adaptive = AdaptiveEncoder(space, 2, **settings)  # type: ignore[arg-type]
        torch.testing.assert_close(adaptive(x), plain(x))
        assert adaptive(x).dtype == dtype
        assert not torch.allclose(adaptive(x), FractionalPower(space, 2, name="other")(x), atol=0.1)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("m", [1, 2, 3])
def test_rotations_depend_on_the_input_and_are_unitary(dtype: torch.dtype, m: int) -> None:
    adaptive = make_adaptive(Space(20, m, dtype=dtype))
    x = torch.randn(4, 2, generator=generator())
    assert is_unitary(adaptive.rotation(x).detach())
    assert is_unitary(adaptive(x).detach())
    assert not torch.allclose(adaptive.rotation(x[0]), adaptive.rotation(x[1]), atol=0.1)
    hermitian = adaptive.hermitian(x)
    torch.testing.assert_close(hermitian, hermitian.mH)
    exponential = torch.linalg.matrix_exp(1j * hermitian)
    torch.testing.assert_close(adaptive.rotation(x), adaptive.base.rotation @ exponential, atol=1e-5, rtol=0)


def test_similarity_follows_the_weighted_kernel_equation() -> None:
    """It is (1/m) Σ Re mean (Q(y)^H Q(x))_kk K_k. Negative controls: Q(x) Q(y)^H, and magnitudes."""
    space = Space(8000, 2, dtype=torch.complex128)
    adaptive = make_adaptive(space, rotation=unitary(8000, m=2), bandwidth=[[0.4], [2.0]])
    # Rotate the second entry only: the weights are 1 and cos(u(x) - u(y)).
    adaptive.axes.zero_()
    adaptive.axes[..., 1, 1] = 1
    x, y = torch.tensor([1.0, 0.9], dtype=torch.float64), torch.tensor([0.4, -0.8], dtype=torch.float64)
    with torch.no_grad():
        q, r = adaptive.rotation(x), adaptive.rotation(y)
        values = slots(adaptive(x), adaptive(y))
    kernels = torch.exp(-((x - y) / adaptive.base.bandwidth).square().sum(dim=-1) / 2)
    weights = kernel_weights(q, r)
    angle = float((x - y).sum())
    torch.testing.assert_close(weights, torch.tensor([1.0, math.cos(angle)], dtype=torch.float64))
    assert weights[1] < -0.5
    assert_mean(values, float((weights * kernels).mean()))
    other_order = torch.diagonal(q @ r.mH, dim1=-2, dim2=-1).real.mean(dim=0)
    for wrong_weights in (other_order, weights.abs(), torch.ones(2)):
        with pytest.raises(AssertionError):
            assert_mean(values, float((wrong_weights * kernels).mean()))


@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_mean_similarity_is_the_kernel_of_one_coordinate(m: int) -> None:
    adaptive = make_adaptive(Space(20_000, m, dtype=torch.complex128), n=1, bandwidth=2.0)
    x, y = torch.tensor([0.2], dtype=torch.float64), torch.tensor([1.7], dtype=torch.float64)
    with torch.no_grad():
        values = slots(adaptive(x), adaptive(y))
        expected = float(adaptive.kernel(x, y))
    assert_mean(values, expected)
    for wrong in (float(adaptive.base.kernel(x, y)), expected + 0.05):
        with pytest.raises(AssertionError):
            assert_mean(values, wrong)


def test_kernel_of_several_coordinates_is_not_known() -> None:
    with pytest.raises(ValueError, match=r"AdaptiveEncoder\.kernel: known for latent=1 only, got latent=2"):
        AdaptiveEncoder(Space(4, 2), 1).kernel([0.0], [1.0])


def test_similarity_is_lower_where_the_rotation_changes() -> None:
    space = Space(300, 2)
    adaptive, plain = make_adaptive(space, n=1), FractionalPower(space, 1)
    x, y = torch.tensor([[0.0]]), torch.tensor([[0.5]])
    assert ghrr.similarity(adaptive(x), adaptive(y)) < ghrr.similarity(plain(x), plain(y)) - 0.05
    torch.testing.assert_close(ghrr.similarity(adaptive(x), adaptive(x)), torch.ones(1))


def test_gradients_reach_the_network_the_input_and_the_rotation() -> None:
    space = Space(3, 2, dtype=torch.complex128)
    adaptive = make_adaptive(space, trainable_rotation=True, keep_unitary=False)
    x = torch.randn(2, 2, dtype=torch.float64, generator=generator(), requires_grad=True)
    parameters = dict(adaptive.named_parameters())
    assert len(parameters) == 2

    def run(x: Tensor, *values: Tensor) -> Tensor:
        out: Tensor = torch.func.functional_call(adaptive, dict(zip(parameters, values, strict=True)), (x,))
        return torch.view_as_real(out)

    assert torch.autograd.gradcheck(run, (x, *parameters.values()))


def test_training_from_the_initial_weights_reduces_the_loss() -> None:
    """The last layer starts at zero, where the gradient must not be zero."""
    space = Space(100, 2)
    adaptive = AdaptiveEncoder(space, 1)
    x = torch.linspace(-1, 1, 30)[:, None]
    # Target: negative inputs are similar to each other, positive inputs are not.
    target = torch.where((x < 0) & (x.mT < 0), 0.9, 0.0).fill_diagonal_(1.0)
    optimiser = torch.optim.Adam(adaptive.network.parameters(), lr=0.02)
    losses = []
    for _ in range(40):
        optimiser.zero_grad()
        encoded = adaptive(x)
        loss = (ghrr.pairwise_similarity(encoded, encoded) - target).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    assert is_unitary(adaptive(x).detach())


def test_initial_weights_do_not_depend_on_the_global_seed() -> None:
    states = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        states.append(AdaptiveEncoder(Space(10, 2), 2).state_dict())
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    other = AdaptiveEncoder(Space(10, 2, seed=1), 2).state_dict()
    assert not all(torch.equal(states[0][key], other[key]) for key in other)


def test_every_number_type_and_batch_shape() -> None:
    adaptive = make_adaptive(Space(10, 2))
    want = adaptive(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    inputs: list[Any] = [[[1, 2], [3, 4]], np.array([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1, 2], [3, 4]])]
    for x in inputs:
        torch.testing.assert_close(adaptive(x), want, atol=1e-5, rtol=0)
    for batch in ((), (0,), (3, 2), (2, 0)):
        assert adaptive(torch.zeros(*batch, 2)).shape == (*batch, 10, 2, 2)


def test_copies_do_not_share_the_network() -> None:
    adaptive = make_adaptive(Space(10, 2))
    x = torch.ones(2)
    before, other = adaptive(x).detach(), copy.deepcopy(adaptive)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    assert torch.equal(adaptive(x), before)
    assert not torch.allclose(other(x), before, atol=0.1)


def test_invalid_inputs_and_settings_raise() -> None:
    space = Space(10, 2)
    adaptive = AdaptiveEncoder(space, 2)
    with pytest.raises(ValueError, match=re.escape("feature 1 of input (0,) is not finite: nan")):
        adaptive([[0.0, math.nan]])
    with pytest.raises(ValueError, match="needs 2 features on the last axis"):
        adaptive([0.0])
    with pytest.raises(TypeError, match="needs numbers, got str 'ab'"):
        adaptive("ab")
    with pytest.raises(ValueError, match=re.escape("the network must return (4, 2)")):
        AdaptiveEncoder(space, 2, network=nn.Linear(2, 3))(torch.zeros(4, 2))
    bad: list[dict[str, Any]] = [{"latent": 0}, {"hidden": 0}, {"n_features": 0}]
    for settings in bad:
        with pytest.raises(ValueError, match="must be a whole number of at least 1"):
            AdaptiveEncoder(space, **({"n_features": 2} | settings))
    with pytest.raises(ValueError, match="got 'gauss'"):
        AdaptiveEncoder(space, 2, kernel="gauss")
