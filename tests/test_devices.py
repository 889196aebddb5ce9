"""Hypervectors and encoders on other devices than the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import ghrr
from ghrr import Space, encoding, learn, memory, relations, structures
from ghrr.checks import check_device
from ghrr_lab import lm
from tests.helpers import generator

SPACE = Space(20, 2)
SAMPLES: dict[str, Callable[..., Tensor]] = {
    "vectors": lambda device: SPACE.vectors(["a", "b"], device=device),
    "rotations": lambda device: SPACE.rotations(["a", "b"], device=device),
    "atoms": lambda device: SPACE.atoms("a", device=device)[0].tensor,
    "identity": lambda device: SPACE.identity(2, device=device),
    "zeros": lambda device: SPACE.zeros(2, device=device),
    "random": lambda device: SPACE.random(2, generator=generator(), device=device),
}
OPERATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "integer power": lambda x: ghrr.power(x, 20),
    "real power": lambda x: ghrr.power(x, 0.3),
    "polar": lambda x: ghrr.unitary.polar(x[0] + 0.5 * x[1]),
    "normalize": lambda x: ghrr.normalize(x[0] + x[1] + x[2]),
    "exp_hermitian": lambda x: ghrr.unitary.exp_hermitian(x[0] + x[1]),
    "multibind": ghrr.multibind,
    "pairwise similarity": lambda x: ghrr.pairwise_similarity(x, x),
}
ENCODERS: dict[str, tuple[Callable[..., nn.Module], Any]] = {
    "AdaptiveEncoder": (lambda device: encoding.AdaptiveEncoder(SPACE, 1, device=device), [[0.5]]),
    "Circular": (lambda device: encoding.Circular(SPACE, 24, device=device), [0.5]),
    "Codebook": (lambda device: encoding.Codebook(SPACE, unseen="add", device=device), ["a", "b"]),
    "FractionalPower": (lambda device: encoding.FractionalPower(SPACE, 1, device=device), [[0.5]]),
    "FractionalPower, trainable": (
        lambda device: encoding.FractionalPower(SPACE, 1, trainable_rotation=True, device=device),
        [[0.5]],
    ),
    "Image": (lambda device: encoding.Image(SPACE, 2, 2, device=device), [[0.1, 0.2], [0.3, 0.4]]),
    "Level": (lambda device: encoding.Level(SPACE, 0, 1, device=device), [0.5]),
    "Multimodal": (
        lambda device: encoding.Multimodal({"word": encoding.Codebook(SPACE, ["a"])}, device=device),
        {"word": ["a"]},
    ),
    "OneHotPositions": (lambda device: encoding.OneHotPositions(SPACE, device=device), [0, 1]),
    "PowerPositions": (lambda device: encoding.PowerPositions(SPACE, device=device), [0.5, 1.0]),
    "SequenceEncoder": (lambda device: encoding.SequenceEncoder(SPACE, device=device), SPACE.vectors(["a", "b"])),
    "Thermometer": (lambda device: encoding.Thermometer(SPACE, 0, 1, device=device), [0.5]),
    "TimeSeries": (lambda device: encoding.TimeSeries(SPACE, 2, 1, device=device), [[0.1], [0.2]]),
}
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_cuda)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_the_same_numbers_on_every_device(name: str, device: str) -> None:
    sample = SAMPLES[name](device)
    assert sample.device.type == device
    assert torch.equal(sample.cpu(), SAMPLES[name](None))


@pytest.mark.parametrize("device", DEVICES)
def test_random_without_a_generator_follows_the_global_seed_on_every_device(device: str) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        one, other = SPACE.random(3, device=device), SPACE.random(3, device=device)
        torch.manual_seed(5)
        again = SPACE.random(3, device=device)
    assert one.device.type == device
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert ghrr.unitary.is_unitary(one)


@needs_cuda
@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_on_a_gpu_agree_with_the_cpu(name: str, m: int) -> None:
    x = Space(50, m).random(3, generator=generator())
    got = OPERATIONS[name](x.to("cuda"))
    assert got.is_cuda
    torch.testing.assert_close(got.cpu(), OPERATIONS[name](x), atol=1e-4, rtol=0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("m", [1, 3])
def test_unitary_matrices_are_drawn_on_the_device_of_the_generator(m: int, device: str) -> None:
    numbers = torch.Generator(device).manual_seed(0)
    q = ghrr.unitary.haar(100, m=m, generator=numbers)
    assert q.device.type == device
    assert ghrr.unitary.is_unitary(q)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_device_that_cannot_be_used_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=r"Space\.\w+: device 'quantum' cannot be used"):
        SAMPLES[name]("quantum")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_compute_on_their_device(name: str, device: str) -> None:
    make, x = ENCODERS[name]
    want = make(None)(x)
    given = x.to(device) if isinstance(x, Tensor) else x
    for encoder in (make(device), make(None).to(device)):
        got = encoder(given)
        assert got.device.type == device
        torch.testing.assert_close(got.cpu(), want)


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_refuse_a_device_that_cannot_be_used(name: str) -> None:
    with pytest.raises(ValueError, match=r"device 'quantum' cannot be used"):
        ENCODERS[name][0]("quantum")


def test_every_encoder_with_tensors_takes_a_device() -> None:
    without = {"SPECTRA", "Decoded", "GivenPositions", "NGramEncoder", "Spectrum", "kernel_weights"}
    assert {name.split(",")[0] for name in ENCODERS} == set(encoding.__all__) - without


@pytest.mark.parametrize("device", DEVICES)
def test_results_are_read_on_their_device(device: str) -> None:
    clock = encoding.Circular(SPACE, 24, device=device)
    found = clock.decode(clock([3.0, 23.5]))
    assert found.value.device.type == device
    torch.testing.assert_close(found.value.cpu(), torch.tensor([3.0, 23.5]).double(), atol=1e-3, rtol=0)
    letters = encoding.Codebook(SPACE, list("abc"), device=device)
    words = encoding.SequenceEncoder(SPACE, device=device)
    assert words.read(words(letters(list("cab"))), 3, letters.vectors()).tolist() == [2, 0, 1]
    indices = letters.indices(list("abcab"))
    assert indices.device.type == device
    grams = encoding.NGramEncoder(2)
    torch.testing.assert_close(grams.from_codebook(letters.vectors(), indices), grams(letters(indices)))


@pytest.mark.parametrize("permute", [False, True])
def test_sums_of_a_codebook_are_differentiable(permute: bool) -> None:
    table = Space(6, 2, dtype=torch.complex128).random(3, generator=generator()).requires_grad_()
    indices = torch.tensor([0, 2, 1, 0, 2])
    encoder = encoding.NGramEncoder(3, permute=permute)
    (got,) = torch.autograd.grad(encoder.from_codebook(table, indices).abs().square().sum(), table)
    (want,) = torch.autograd.grad(encoder(table[indices]).abs().square().sum(), table)
    torch.testing.assert_close(got, want)


def saved_memory(folder: Path) -> Path:
    ghrr.ItemMemory(SPACE, ["a"]).save(folder / "items.safetensors")
    return folder / "items.safetensors"


def structure(name: str) -> Callable[[Any, Path], Any]:
    return lambda device, _: getattr(structures, name)(SPACE, device=device)


OTHERS: dict[str, Callable[[Any, Path], Any]] = {
    "ItemMemory": lambda device, _: ghrr.ItemMemory(SPACE, device=device),
    "ItemMemory.load": lambda device, folder: ghrr.ItemMemory.load(saved_memory(folder), device=device),
    "ItemMemory.open": lambda device, folder: ghrr.ItemMemory.open(saved_memory(folder), device=device),
    "TorchBackend": lambda device, _: memory.TorchBackend(160, storage="float32", device=device),
    "Hypervector.to": lambda device, _: SPACE.atoms("a")[0].to(device),
    **{
        name: structure(name)
        for name in ("Automaton", "Chain", "Graph", "HashTable", "Record", "Sequence", "Set", "Stack", "Tree")
    },
    "NGrams": lambda device, _: structures.NGrams(SPACE, 2, device=device),
    "Vocabulary": lambda device, _: structures.Vocabulary(SPACE, "words", device=device),
    "load_model": lambda device, folder: relations.load_model(folder, device=device),
    "load_run": lambda device, folder: lm.load_run(folder, device=device),
    "HDClassifier": lambda device, _: learn.HDClassifier(device=device).fit([[0.0], [1.0]], [0, 1]),
    "HDRegressor": lambda device, _: learn.HDRegressor(device=device).fit([[0.0], [1.0]], [0, 1]),
    "TextFeatures": lambda device, _: learn.TextFeatures(device=device).fit(["a", "b"]),
}


@pytest.mark.parametrize("device", ["\u65e5\u672c", "", "cpu:-1", "xla", 0.5, 10**30], ids=str)
@pytest.mark.parametrize("name", OTHERS)
def test_every_device_parameter_refuses_what_cannot_be_used(name: str, device: object, tmp_path: Path) -> None:
    of_scikit_learn = r"|The 'device' parameter of \w+ must be"  # numbers, which its own checks of parameters refuse
    with pytest.raises(ValueError, match=r"^\w.*: device .* cannot be used \(.+\); try 'cpu'" + of_scikit_learn):
        OTHERS[name](device, tmp_path)


@pytest.mark.parametrize("name", [name for name in OTHERS if not name.startswith("load_")])
def test_every_device_parameter_accepts_the_cpu(name: str, tmp_path: Path) -> None:
    OTHERS[name]("cpu", tmp_path)


def test_none_is_the_cpu() -> None:
    assert check_device(None) == torch.device("cpu")
