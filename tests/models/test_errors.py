"""Errors of models: sizes that do not fit, mixed models, wrong sides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from ghrr import models


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: models.VTB(1000), "the nearest are 961 or 1024"),
        (lambda: models.SMR(2), "the nearest are 1 or 4"),
        (lambda: models.SBC(100, block_size=64), "the nearest are 64 or 128"),
        (lambda: models.SBC(10, block_size=64), "the nearest are 64"),
        (lambda: models.SBC(1024, block_size=512), "block_size must be at most 256"),
        (lambda: models.HRR(0), "dim must be a whole number of at least 1, got 0"),
        (lambda: models.HRR(10, dtype=torch.complex64), "dtype must be torch.float32 or torch.float64"),
        (lambda: models.MAP(10, values="binary"), "values must be one of 'bipolar', 'continuous'"),
        (lambda: models.GHRR(10, m=2, rotation="random"), "rotation"),
        (lambda: models.make("hrrr", reals=10), "did you mean 'hrr'"),
        (lambda: models.HRR.sized(reals=0), "reals must be a whole number of at least 1"),
        (lambda: models.HRR(8).random(device="gpu"), r"HRR\.random: device 'gpu' cannot be used"),
        (lambda: models.MBAT(8).random_keys(device="gpu"), r"MBAT\.random_keys: device 'gpu' cannot be used"),
        (lambda: models.VTB(9).identity(device="gpu"), r"VTB\.identity: device 'gpu' cannot be used"),
        (lambda: models.BSC(8).bundle_scores(0), r"BSC\.bundle_scores: items must be a whole number of at least 1"),
    ],
)
def test_unsupported_settings_are_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_a_budget_is_reals_or_bytes() -> None:
    with pytest.raises(TypeError, match="expected one of reals and nbytes"):
        models.HRR.sized(reals=10, nbytes=40)


@pytest.mark.parametrize("operation", ["bind", "similarity", "pairwise_similarity"])
def test_vectors_of_another_model_are_refused(operation: str) -> None:
    model = models.HRR(16)
    x = model.random(2)
    for other in (models.HRR(25).random(2), models.BSC(16).random(2), models.HRR(16, dtype=torch.float64).random(2)):
        with pytest.raises(ValueError, match=rf"HRR\.{operation}: .*must come from one model, here HRR\(dim=16\)"):
            getattr(model, operation)(x, other)
    with pytest.raises(TypeError, match="got list"):
        getattr(model, operation)(x, [1.0] * 16)


def test_batches_that_do_not_broadcast() -> None:
    model = models.MAP(8)
    with pytest.raises(ValueError, match=r"MAP\.bind: the batch shapes do not broadcast"):
        model.bind(model.random(2), model.random(3))
    mbat = models.MBAT(8)
    with pytest.raises(ValueError, match=r"MBAT\.bind: the batch shapes do not broadcast"):
        mbat.bind(mbat.random_keys(2), mbat.random(3))


def test_generator_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match=r"MAP\.random: generator must be a torch\.Generator"):
        models.MAP(8).random(generator=0)  # type: ignore[arg-type]


def test_unbind_names_the_argument_that_does_not_fit() -> None:
    for model in (models.HRR(8), models.MBAT(8), models.GHRR(8)):
        key, value = model.random_keys(), model.random()
        with pytest.raises(ValueError, match=rf"{model.name}\.unbind: key must be a"):
            model.unbind(value, key.flatten()[:7], side="left")
        with pytest.raises(ValueError, match=rf"{model.name}\.unbind: x must be a"):
            model.unbind(value.flatten()[:7], key, side="left")


def test_sides() -> None:
    model = models.MBAT(8)
    key, value = model.random_keys(), model.random()
    with pytest.raises(ValueError, match="side must be one of 'left'; got 'right'"):
        model.unbind(model.bind(key, value), key, side="right")
    with pytest.raises(ValueError, match=r"MBAT\.bind: a must be a float32 tensor of shape \(\*batch, 8, 8\)"):
        model.bind(value, value)


def test_items_need_an_axis() -> None:
    for model in (models.HRR(8), models.BSC(8), models.SBC(128)):
        with pytest.raises(ValueError, match="axis of items"):
            model.bundle(model.random())
        with pytest.raises(ValueError, match="items must have shape"):
            model.pairwise_similarity(model.random(), model.random())


def test_tensor_products_of_different_orders() -> None:
    model = models.TPR(4)
    a, b = model.random(2)
    with pytest.raises(ValueError, match="one order"):
        model.similarity(a, model.bind(a, b))
    with pytest.raises(ValueError, match="higher order"):
        model.unbind(a, b, side="left")


def test_sizes_are_the_nearest_ones() -> None:
    for name in models.MODELS:
        model = models.make(name, reals=1000)
        assert abs(model.reals_per_vector - 1000) <= 63
        model = models.make(name, nbytes=4000)
        assert abs(model.bytes_per_vector - 4000) <= 4 * 63
    assert models.TPR.sized(reals=1000, order=3).dim == 10
