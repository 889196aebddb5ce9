"""Learned rotations: they start as the stationary kernel, and help where the length scale changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ghrr import Space, similarity
from ghrr.encoding import AdaptiveEncoder
from ghrr.learn import HDRegressor, KernelFeatures, explain
from ghrr.learn.adaptive_rotations import AdaptiveRotations, rotate


def doppler(count: int, seed: int) -> tuple[Any, Any]:
    """Return a function that oscillates faster and faster towards 0."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 1, size=count))
    y = np.sqrt(x * (1 - x)) * np.sin(2.1 * np.pi / (x + 0.05))
    return (x[:, None] - 0.5) * np.sqrt(12), y + 0.05 * rng.normal(size=count)


def test_inner_products_are_similarities_of_the_adaptive_encoder() -> None:
    encoder = AdaptiveEncoder(Space(30, 2, seed=3), n_features=2)
    with torch.no_grad():
        for parameter in encoder.network.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(0))
    x = torch.randn(6, 2, generator=torch.Generator().manual_seed(1))
    layers = [layer for layer in encoder.network.children() if isinstance(layer, torch.nn.Linear)]
    rotations = AdaptiveRotations(
        [layer.weight.detach() for layer in layers], [layer.bias.detach() for layer in layers], encoder.axes
    )
    z = torch.view_as_real(rotate(x, encoder.base.diagonal(x), rotations)).flatten(start_dim=1) / np.sqrt(60)
    h = encoder(x).detach()
    torch.testing.assert_close(z @ z.mT, similarity(h[:, None], h), atol=1e-5, rtol=0)
    plain = encoder.base(x)
    assert (z @ z.mT - similarity(plain[:, None], plain)).abs().max() > 0.05  # negative control: without rotations


@pytest.mark.slow
def test_adaptive_rotations_beat_a_stationary_kernel_where_the_scale_changes() -> None:
    (x, y), (xt, yt) = doppler(300, 0), doppler(1000, 1)
    scores = {}
    for name, encoder in {
        "adaptive": KernelFeatures(128, m=2, bandwidth="cv", adaptive=True, random_state=0),
        "stationary": KernelFeatures(512, m=1, bandwidth="cv", random_state=0),
    }.items():
        scores[name] = HDRegressor(encoder, random_state=0).fit(x, y).score(xt, yt)
    assert scores["adaptive"] > scores["stationary"]


def test_rotations_of_two_samples_are_those_of_the_stationary_kernel() -> None:
    x, y = doppler(2, 0)
    adaptive, plain = (
        KernelFeatures(50, m=2, adaptive=flag, random_state=0).fit_transform(x, y) for flag in (True, False)
    )
    np.testing.assert_allclose(adaptive @ adaptive.T, plain @ plain.T, atol=1e-5)


def test_wrong_settings_are_refused() -> None:
    x, y = doppler(20, 0)
    with pytest.raises(ValueError, match="adaptive rotations need m of at least 2, got 1; use m=2"):
        KernelFeatures(8, adaptive=True).fit(x, y)
    with pytest.raises(ValueError, match="requires y to be passed"):
        KernelFeatures(8, m=2, adaptive=True).fit(x)
    model = HDRegressor(KernelFeatures(8, m=2, adaptive=True, random_state=0)).fit(x, y)
    with pytest.raises(ValueError, match="not available for KernelFeatures\\(adaptive=True\\)"):
        explain(model, x)
