"""Multimodal: the similarity is the mixture of the modalities' kernels."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import nn

import ghrr
from ghrr import Space
from ghrr.encoding import Circular, Codebook, FractionalPower, Multimodal
from tests.encoding.common import slots
from tests.helpers import assert_mean, wrong

SPACE = Space(8000, 2)
X = {"size": torch.tensor([0.3]), "place": torch.tensor([0.1, 0.5]), "hour": torch.tensor(23.0)}
Y = {"size": torch.tensor([0.0]), "place": torch.tensor([0.9, -0.2]), "hour": torch.tensor(1.0)}


def make(weights: dict[str, float] | None = None, name: str = "place") -> Multimodal:
    return Multimodal(
        {
            "size": FractionalPower(SPACE, 1, kernel="laplace", name="size"),
            "place": FractionalPower(SPACE, 2, bandwidth=0.5, name=name),
            "hour": Circular(SPACE, 24),
        },
        weights,
    )


def mixture(model: Multimodal, weights: dict[str, float]) -> float:
    kernels: dict[str, float] = {name: wrong(model.encoders[name]).kernel(X[name], Y[name]).item() for name in X}
    return sum(weights[name] * value for name, value in kernels.items()) / sum(weights.values())


@pytest.mark.parametrize("weights", [None, {"size": 1.0, "place": 3.0, "hour": 0.5}])
def test_similarity_is_the_mixture_of_kernels(weights: dict[str, float] | None) -> None:
    model = make(weights)
    want = mixture(model, weights or dict.fromkeys(X, 1.0))
    assert model.kernel(X, Y).item() == pytest.approx(want)
    values = slots(model(X), model(Y))
    assert_mean(values, want)
    assert_mean(slots(model(X), model(X)), 1.0)
    with pytest.raises(AssertionError):  # negative control: other weights
        assert_mean(values, mixture(model, {"size": 1.0, "place": 1.0, "hour": 3.0}))
    for name in X:
        with pytest.raises(AssertionError):  # negative control: a single modality
            assert_mean(values, mixture(model, {other: float(other == name) for other in X}))


@pytest.mark.parametrize(
    "settings", [{"m": 2}, {"m": 1}, {"m": 2, "rotation": "shared"}, {"m": 2, "rotation": "fixed"}]
)
@pytest.mark.parametrize("name", ["b", "a"])
def test_modalities_do_not_interfere(name: str, settings: dict[str, Any]) -> None:
    """Keys separate them, also for FHRR, shared rotations and encoders with the same name."""
    space = Space(8000, **settings)
    x, y = {"a": torch.tensor([0.2]), "b": torch.tensor([0.9])}, {"a": torch.tensor([1.2]), "b": torch.tensor([0.3])}
    encoders = {"a": FractionalPower(space, 1, name="a"), "b": FractionalPower(space, 1, name=name)}
    model = Multimodal(encoders)
    assert_mean(slots(model(x), model(y)), model.kernel(x, y).item())
    if name == "a":  # negative control: without keys
        bare = [sum(encoders[s](z[s]) for s in "ab") / 2**0.5 for z in (x, y)]
        with pytest.raises(AssertionError):
            assert_mean(slots(torch.as_tensor(bare[0]), torch.as_tensor(bare[1])), model.kernel(x, y).item())


def test_unbinding_a_key_recovers_its_modality() -> None:
    model = Multimodal({"a": FractionalPower(SPACE, 1), "b": FractionalPower(SPACE, 1, name="b")})
    h = model({"a": [0.4], "b": [-1.3]})
    encoder = model.encoders["b"]
    assert isinstance(encoder, FractionalPower)
    found = encoder.decode(ghrr.unbind(h, model.key("b"), side="left"), low=-5, high=5)
    assert abs(found.value.item() + 1.3) < 5 * found.std.item() < 0.1
    wrong = encoder.decode(ghrr.unbind(h, model.key("a"), side="left"), low=-5, high=5)
    assert wrong.score < 0.3 < found.score
    with pytest.raises(ValueError, match=re.escape("Multimodal.key: modality must be one of ['a', 'b'], got str 'c'")):
        model.key("c")


def test_codebooks_can_be_modalities() -> None:
    model = Multimodal({"word": Codebook(SPACE, ["cat", "dog"]), "size": FractionalPower(SPACE, 1)})
    one, other = model({"word": ["cat", "cat"], "size": [[0.3], [0.8]]}), model({"word": "dog", "size": [0.3]})
    assert one.shape == (2, 8000, 2, 2)  # batches broadcast
    assert_mean(slots(one[0], other), 0.5)
    with pytest.raises(ValueError, match=re.escape("Multimodal.kernel: the encoder of 'word' has no kernel")):
        model.kernel({"word": "cat", "size": [0.3]}, {"word": "dog", "size": [0.3]})


def test_weights_are_normalized() -> None:
    space = Space(20, 2)
    encoders = {"a": FractionalPower(space, 1, name="a"), "b": FractionalPower(space, 1, name="b")}
    one, two = Multimodal(encoders, {"a": 1, "b": 3}), Multimodal(encoders, {"b": 0.3, "a": 0.1})
    x = {"a": [0.1], "b": [0.2]}
    torch.testing.assert_close(one(x), two(x))
    parts = 0.5 * encoders["a"]([0.1]), 0.75**0.5 * encoders["b"]([0.2])
    torch.testing.assert_close(one(x), one.keys[0] @ parts[0] + one.keys[1] @ parts[1])
    assert not torch.allclose(one(x), Multimodal(encoders)(x), atol=0.05)


def test_empty_batch_has_an_empty_result() -> None:
    model = Multimodal({"a": FractionalPower(Space(20, 2), 1)})
    assert model({"a": torch.empty(0, 1)}).shape == (0, 20, 2, 2)


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ({"size": [0.1]}, ValueError, "inputs must have the modalities ['size', 'word'], got ['size']"),
        ({"size": [0.1], "word": "a", "x": 1}, ValueError, "got ['size', 'word', 'x']"),
        ({"size": [0.1], 3: "a"}, ValueError, "got ['3', 'size']"),
        (["size", "word"], TypeError, "inputs must be a mapping of modality to value, got list"),
        (torch.zeros(2), TypeError, "inputs must be a mapping of modality to value, got a float32 tensor"),
        ({"size": torch.zeros(3, 1), "word": ["a", "a"]}, ValueError, "batch shapes do not broadcast: 'size' (3,)"),
    ],
)
def test_invalid_inputs_raise_and_are_named(inputs: Any, error: type[Exception], message: str) -> None:
    space = Space(10, 2)
    model = Multimodal({"size": FractionalPower(space, 1), "word": Codebook(space, ["a"])})
    with pytest.raises(error, match="Multimodal.*" + re.escape(message)):
        model(inputs)


@pytest.mark.parametrize(
    ("encoders", "weights", "error", "message"),
    [
        ({}, None, ValueError, "needs at least one encoder"),
        (
            {"a": FractionalPower(Space(10, 2), 1), "b": FractionalPower(Space(10, 2, seed=1), 1)},
            None,
            ValueError,
            "all encoders must be of one space; 'b' is of Space(dim=10, m=2, seed=1), not Space(dim=10, m=2, seed=0)",
        ),
        ({"a": nn.Identity()}, None, ValueError, "all encoders must be of one space; 'a' is of None"),
        (
            {"type": Codebook(Space(10, 2))},
            None,
            ValueError,
            "invalid name of a modality: attribute 'type'",
        ),
        ({"a.b": Codebook(Space(10, 2))}, None, ValueError, "invalid name of a modality"),
        ({"a": Codebook(Space(10, 2))}, {"b": 1.0}, ValueError, "weights must have the modalities ['a'], got ['b']"),
        ({"a": Codebook(Space(10, 2))}, {"a": 0.0}, ValueError, "weight of 'a' must lie in (0.0, inf), got"),
        ({"a": Codebook(Space(10, 2))}, {"a": -1.0}, ValueError, "weight of 'a' must lie in (0.0, inf), got"),
        ({"a": Codebook(Space(10, 2))}, [1.0], TypeError, "weights must be a mapping"),
    ],
)
def test_invalid_settings_raise_and_are_named(
    encoders: Any, weights: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match="Multimodal: .*" + re.escape(message)):
        Multimodal(encoders, weights)


def test_similarity_is_the_mean_over_slots() -> None:
    model = make()
    assert ghrr.similarity(model(X), model(Y)).item() == pytest.approx(
        slots(model(X), model(Y)).mean().item(), abs=1e-5
    )
