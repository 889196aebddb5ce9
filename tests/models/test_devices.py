"""Models compute the same on every device."""

from __future__ import annotations

import pytest
import torch

from ghrr import models
from tests.helpers import generator

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", models.MODELS)
def test_verbs_give_the_same_numbers_on_every_device(name: str, device: str) -> None:
    model = models.make(name, reals=144)
    keys, values = model.random_keys(3, generator=generator()), model.random(3, generator=generator())
    here = keys.to(device), values.to(device)
    sampled = model.random(3, generator=generator(), device=device)
    assert sampled.device.type == device
    assert torch.equal(sampled.cpu(), values)
    pairs, expected = model.bind(*here), model.bind(keys, values)
    verbs = {
        "bind": (pairs, expected),
        "unbind": (model.unbind(pairs, here[0], side="left"), model.unbind(expected, keys, side="left")),
        "bundle": (model.bundle(here[1][[0, 1, 0]]), model.bundle(values[[0, 1, 0]])),
        "similarity": (model.similarity(*here[1][:2]), model.similarity(*values[:2])),
        "pairwise similarity": (model.pairwise_similarity(here[1], here[1]), model.pairwise_similarity(values, values)),
        "shift": (model.shift(here[1], 2), model.shift(values, 2)),
    }
    for verb, (found, want) in verbs.items():
        assert found.device.type == device, verb
        assert torch.allclose(found.cpu().to(torch.complex64), want.to(torch.complex64), atol=1e-4), verb


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_vectors_on_different_devices_are_refused() -> None:
    model = models.MAP(8)
    with pytest.raises(ValueError, match="all vectors must be on one device"):
        model.bind(model.random(), model.random(device="cuda"))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", models.MODELS)
def test_identity_is_on_the_device_that_is_asked_for(name: str, device: str) -> None:
    model = models.make(name, reals=144)
    if model.facts.identity != "none":
        identity = model.identity(2, device=device)
        assert identity.device.type == device
        assert identity.shape == (2, *model.key_shape)
