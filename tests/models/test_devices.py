"""Models compute the same on every device."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ghrr import models
from ghrr.models import Architecture
from tests.helpers import generator

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]
names = pytest.mark.parametrize("name", models.MODELS)
devices = pytest.mark.parametrize("device", DEVICES)


def apply_verbs(model: Architecture, keys: Tensor, values: Tensor) -> dict[str, Tensor]:
    """Return the result of every verb. Bundles of two items have ties, which a generator on the CPU breaks.

    Where phases are normalised, the first item counts twice: a sum of two could be zero up to rounding.
    """
    pairs, bundle = model.bind(keys, values), model.bundle(values[:2], generator=generator(1))
    to_normalize = bundle if isinstance(model, models.MAP) else model.bundle(values[[0, 1, 0]], generator=generator(1))
    results = {
        "bind": pairs,
        "unbind": model.unbind(pairs, keys, side="left"),
        "bind keys": model.bind_keys(keys[0], keys[1]),
        "bundle": bundle,
        "normalize": model.normalize(to_normalize, generator=generator(2)),
        "similarity": model.similarity(values[0], values[1]),
        "pairwise similarity": model.pairwise_similarity(values, values),
        "shift": model.shift(values, 2),
    }
    if model.facts.closed:
        results["inverse"] = model.inverse(keys)
    if isinstance(model, models.BSC):
        results["pack"] = model.pack(values)
    return results


@devices
@names
def test_verbs_give_the_same_numbers_on_every_device(name: str, device: str) -> None:
    model = models.make(name, reals=144)
    keys, values = model.random_keys(3, generator=generator()), model.random(3, generator=generator())
    expected = apply_verbs(model, keys, values)
    for verb, found in apply_verbs(model, keys.to(device), values.to(device)).items():
        assert found.device.type == device, verb
        assert found.dtype == expected[verb].dtype, verb
        assert torch.allclose(found.cpu().to(torch.complex64), expected[verb].to(torch.complex64), atol=1e-4), verb


@devices
@names
def test_gradients_are_the_same_on_every_device(name: str, device: str) -> None:
    model = models.make(name, reals=144)
    if not model.facts.differentiable:
        return
    keys, values = model.random_keys(2, generator=generator()), model.random(2, generator=generator(1))
    gradients = []
    for where in ("cpu", device):
        k, v = keys.to(where).requires_grad_(), values.to(where).requires_grad_()
        x = model.bundle(model.bind(k, v))
        loss = model.similarity(x, model.bind(k[0], v[0]).detach()).square()
        gradients.append(torch.autograd.grad(loss, [k, v]))
    for found, expected in zip(gradients[1], gradients[0], strict=True):
        assert found.device.type == device
        assert torch.allclose(found.cpu(), expected, atol=1e-4)


@devices
@names
def test_random_vectors_follow_the_generator_and_are_on_the_device_that_is_asked_for(name: str, device: str) -> None:
    model = models.make(name, reals=144)
    for draw in (model.random, model.random_keys):
        moved = draw(3, generator=generator(), device=device)
        assert moved.device.type == device
        assert torch.equal(moved.cpu(), draw(3, generator=generator()))  # of a generator on the CPU
        first, second = (draw(3, generator=torch.Generator(device).manual_seed(0)) for _ in range(2))
        assert first.device.type == device
        assert torch.allclose(first.to(torch.complex64), second.to(torch.complex64), atol=1e-5)
        assert draw(3, device=device).device.type == device


@devices
@names
def test_identity_is_on_the_device_that_is_asked_for(name: str, device: str) -> None:
    model = models.make(name, reals=144)
    if model.facts.identity != "none":
        identity = model.identity(2, device=device)
        assert identity.device.type == device
        assert identity.shape == (2, *model.key_shape)
        assert model.identity(device=device).shape == model.key_shape


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@names
def test_vectors_on_different_devices_are_refused(name: str) -> None:
    model = models.make(name, reals=144)
    keys, values = model.random_keys(2), model.random(2, device="cuda")
    with pytest.raises(ValueError, match=r"all vectors must be on one device, got a on cpu, b on cuda:0"):
        model.bind(keys, values)
    with pytest.raises(ValueError, match=r"all vectors must be on one device, got queries on cpu, items on cuda:0"):
        model.pairwise_similarity(values.cpu(), values)


@names
def test_dtypes_do_not_depend_on_the_default_dtype(name: str) -> None:
    model = models.make(name, reals=144)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        keys, values = model.random_keys(3, generator=generator()), model.random(3, generator=generator())
        results = apply_verbs(model, keys, values)
    finally:
        torch.set_default_dtype(before)
    assert keys.dtype == values.dtype == model.dtype
    for verb in ("bind", "unbind", "bundle", "normalize", "shift"):
        assert results[verb].dtype == model.dtype, verb
