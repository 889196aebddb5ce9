"""All encoders are modules: they can be saved, loaded, copied and chained."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import ghrr
from ghrr import Space
from ghrr.encoding import (
    AdaptiveEncoder,
    Circular,
    Codebook,
    FractionalPower,
    GivenPositions,
    Image,
    Level,
    Multimodal,
    NGramEncoder,
    OneHotPositions,
    PowerPositions,
    SequenceEncoder,
    Spectrum,
    Thermometer,
    TimeSeries,
)
from ghrr.encoding.kernels import SPECTRA
from tests.helpers import generator, saved

NUMBERS = torch.linspace(-1, 1, 6).reshape(3, 2)
# For each encoder a function that makes it in a space, and one that makes an input.
ENCODERS: dict[str, tuple[Callable[[Space], nn.Module], Callable[[Space], Any]]] = {
    "FractionalPower": (lambda s: FractionalPower(s, 2), lambda s: NUMBERS),
    "FractionalPower, mixed": (
        lambda s: FractionalPower(s, 2, kernel=["rbf", "laplace"], bandwidth=[[1.0], [2.0]]),
        lambda s: NUMBERS,
    ),
    "FractionalPower, unitary": (lambda s: FractionalPower(s, 2, trainable_rotation=True), lambda s: NUMBERS),
    "FractionalPower, relaxed": (
        lambda s: FractionalPower(s, 2, trainable_rotation=True, keep_unitary=False),
        lambda s: NUMBERS,
    ),
    "AdaptiveEncoder": (lambda s: AdaptiveEncoder(s, 2), lambda s: NUMBERS),
    "Circular": (lambda s: Circular(s, 24), lambda s: NUMBERS),
    "Level": (lambda s: Level(s, -1, 1), lambda s: NUMBERS),
    "Thermometer": (lambda s: Thermometer(s, -1, 1), lambda s: NUMBERS),
    "Codebook": (lambda s: Codebook(s, ["a", "b", "c"]), lambda s: ["c", "a"]),
    "SequenceEncoder": (SequenceEncoder, lambda s: s.random(4, generator=generator())),
    "NGramEncoder": (lambda s: NGramEncoder(2), lambda s: s.random(4, generator=generator())),
    "Image": (lambda s: Image(s, 3, 2), lambda s: NUMBERS),
    "TimeSeries": (lambda s: TimeSeries(s, 3, 2), lambda s: NUMBERS),
    "Multimodal": (
        lambda s: Multimodal({"word": Codebook(s, ["a", "b"]), "size": FractionalPower(s, 2)}),
        lambda s: {"word": "a", "size": NUMBERS},
    ),
    "OneHotPositions": (OneHotPositions, lambda s: torch.tensor([1, 0])),
    "PowerPositions": (PowerPositions, lambda s: torch.tensor([1.5, 0.0])),
    "GivenPositions": (
        lambda s: GivenPositions(s.random(4, generator=s.generator("places"))),
        lambda s: torch.tensor([3, 0]),
    ),
    "GivenPositions, trainable": (
        lambda s: GivenPositions(s.random(4, generator=s.generator("places")), trainable=True),
        lambda s: torch.tensor([3, 0]),
    ),
}
# Their results depend on their settings only, not on tensors of a state dict.
NO_TENSORS = {"NGramEncoder", "OneHotPositions", "Codebook"}


def test_every_encoder_is_listed() -> None:
    listed = {name.split(",")[0] for name in ENCODERS}
    modules = {name for name in ghrr.encoding.__all__ if isinstance(getattr(ghrr.encoding, name), type)}
    assert listed == modules - {"Decoded", "Spectrum"}


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.filterwarnings("ignore:Complex modules are a new feature")
def test_encoders_keep_the_precision_of_their_space(name: str) -> None:
    make, example = ENCODERS[name]
    space = Space(6, 2)
    module = make(space)
    before = module(example(space))
    casts: list[Callable[[nn.Module], nn.Module]] = [
        *(lambda m, dtype=dtype: m.to(dtype) for dtype in (torch.float64, torch.float16, torch.complex128)),
        lambda m: nn.Sequential(m).to(torch.bfloat16)[0],
        lambda m: m.double(),
        lambda m: m.bfloat16(),
    ]
    for cast in casts:
        after = cast(module)(example(space))
        assert after.dtype == before.dtype
        assert torch.equal(after, before)


def test_copied_spectra_keep_all_fields() -> None:
    own = Spectrum("own", torch.sin, torch.cos, extra=2, isotropic=True, norm=1.0)
    again = pickle.loads(pickle.dumps(own))
    fields = [field.name for field in dataclasses.fields(Spectrum)]
    assert [getattr(again, name) for name in fields] == [getattr(own, name) for name in fields]
    assert pickle.loads(pickle.dumps(SPECTRA["laplace"])) is SPECTRA["laplace"]


@pytest.mark.parametrize("name", [name for name in ENCODERS if "unitary" not in name])  # torch cannot pickle those
def test_pickled_encoders_give_the_same_encodings(name: str) -> None:
    make, example = ENCODERS[name]
    space = Space(6, 2)
    module = make(space)
    again = pickle.loads(pickle.dumps(module))
    assert torch.equal(again(example(space)), module(example(space)))


def test_adaptive_encoders_of_different_names_have_different_networks() -> None:
    one, two = (AdaptiveEncoder(Space(6, 2), 2, name=name) for name in ("a", "b"))
    assert not torch.equal(next(one.network.parameters()), next(two.network.parameters()))


@pytest.mark.parametrize("x", [1.0, 1e4, 1e6])
def test_untrained_adaptive_encoder_is_exact_for_large_numbers(x: float) -> None:
    number = torch.tensor([[x]], dtype=torch.float64)
    torch.testing.assert_close(AdaptiveEncoder(Space(50, 2), 1)(number), FractionalPower(Space(50, 2), 1)(number))


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_do_not_change_the_global_random_state(name: str) -> None:
    make, example = ENCODERS[name]
    space = Space(6, 2)
    before = torch.get_rng_state()
    make(space)(example(space))
    assert torch.equal(torch.get_rng_state(), before)


def step(module: nn.Module, x: Any) -> None:
    """Change the parameters, so that the state differs from the state of a new module."""
    parameters = list(module.parameters())
    if parameters:
        optimiser = torch.optim.SGD(parameters, lr=0.5)
        out: Tensor = module(x)
        (out.real * torch.linspace(-1, 1, out.numel()).reshape(out.shape)).sum().backward()
        optimiser.step()


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_saved_state_dict_restores_the_encoder(name: str, dtype: torch.dtype) -> None:
    make, example = ENCODERS[name]
    space = Space(12, 2, dtype=dtype)
    module, x = make(space), example(space)
    step(module, x)
    want = module(x).detach()
    assert want.dtype == dtype
    fresh = make(space)
    fresh.load_state_dict(saved(module))
    torch.testing.assert_close(fresh(x).detach(), want)
    if name not in NO_TENSORS and name != "Multimodal":  # the state also replaces the state of another seed
        other = make(Space(12, 2, seed=7, dtype=dtype))
        assert not torch.allclose(other(x).detach(), want, atol=0.05)
        other.load_state_dict(saved(module))
        torch.testing.assert_close(other(x).detach(), want)


@pytest.mark.parametrize("name", ENCODERS)
def test_a_deep_copy_is_independent(name: str) -> None:
    make, example = ENCODERS[name]
    space = Space(12, 2)
    module, x = make(space), example(space)
    want = module(x).detach().clone()
    other = copy.deepcopy(module)
    assert torch.equal(other(x).detach(), want)
    step(other, x)
    with torch.no_grad():
        for tensor in other.buffers():
            tensor.zero_()
    assert torch.equal(module(x).detach(), want)


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_work_in_sequential(name: str) -> None:
    make, example = ENCODERS[name]
    space = Space(12, 2)
    module, x = make(space), example(space)

    class Readout(nn.Module):
        def forward(self, h: Tensor) -> Tensor:
            return torch.view_as_real(h).flatten(start_dim=-4)

    model = nn.Sequential(module, Readout(), nn.Linear(2 * space.total_dim, 3))
    out = model(x)
    assert out.shape == (*module(x).shape[:-3], 3)
    out.sum().backward()
    assert all(parameter.grad is not None for parameter in model[2].parameters())
    prefixed = {key for key in model.state_dict() if key.startswith("0.")}
    assert prefixed == {f"0.{key}" for key in module.state_dict()}


def test_encoders_can_be_chained() -> None:
    space = Space(300, 2)
    numbers, sequence = FractionalPower(space, 1), SequenceEncoder(space)
    values = torch.tensor([[0.5], [-1.0], [2.0]])
    encoded = nn.Sequential(numbers, sequence)(values)
    read = numbers.decode(sequence.item(encoded, torch.arange(3)), low=-3, high=3)
    assert ((read.value - values).abs() < 5 * read.std).all()
    words = nn.Sequential(Codebook(space, list("abc")), NGramEncoder(2))
    assert not torch.allclose(words(list("abc")), words(list("cba")), atol=0.1)


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_with_equal_settings_are_equal(name: str) -> None:
    make, example = ENCODERS[name]
    torch.manual_seed(1)
    one = make(Space(12, 2))
    torch.manual_seed(2)
    two = make(Space(12, 2))
    x = example(Space(12, 2))
    assert torch.equal(one(x).detach(), two(x).detach())
