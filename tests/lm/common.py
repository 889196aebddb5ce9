"""What the tests of language models share: every attention, small models, small texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from ghrr.lm import Model, ModelConfig, Progress, Text, TrainConfig, WordTokens, train
from tests.helpers import generator

# Every kind of attention, those of GHRR with each of their options.
ATTENTIONS: dict[str, dict[str, Any]] = {
    "vanilla": {"attention": "vanilla"},
    "rope": {"attention": "rope"},
    "feature": {"attention": "ghrr"},
    "feature qkv trained": {"position_sharing": "qkv", "trainable_positions": True, "position_values": True},
    "feature different": {"position_sharing": "different", "window": 3, "phase_std": 0.5},
    "feature own slots": {"mix_slots": False, "position_sharing": "head", "trainable_phases": True, "m": 3},
    "feature split": {
        "split_inputs": True,
        "num_kv_heads": 1,
        "window": 2,
        "position_sharing": "head",
        "normalize_rows": True,
    },
    "feature unitary": {"weights": "unitary", "normalize_rows": True},
    "row": {"mode": "row"},
    "row different trained": {"mode": "row", "position_sharing": "different", "trainable_positions": True},
    "bundle": {"mode": "bundle"},
    "bundle head trained": {"mode": "bundle", "position_sharing": "head", "trainable_positions": True, "m": 3},
}
ROOT = Path(__file__).parents[2]
STEPS = 72  # of interruptible_run
SMALL = {"embed_dim": 16, "num_layers": 2, "num_heads": 2, "ffn_dim": 12, "max_len": 8, "dropout": 0.0}


class Stop(Exception):  # noqa: N818 (not an error)
    """What interrupts a run in a test."""


def small_config(name: str = "vanilla", *, vocab_size: int = 20, **settings: Any) -> ModelConfig:
    return ModelConfig(**{"vocab_size": vocab_size, **SMALL, **ATTENTIONS[name], **settings})


def new_model(name: str = "vanilla", *, weight_seed: int = 0, **settings: Any) -> Model:
    """A model as training begins with it."""
    with torch.random.fork_rng():
        torch.manual_seed(weight_seed)
        return Model(small_config(name, **settings))


def small_model(name: str = "vanilla", *, weight_seed: int = 0, **settings: Any) -> Model:
    """A model in double precision whose weights are large enough for attention and positions to matter."""
    with torch.random.fork_rng():
        torch.manual_seed(weight_seed)
        model = Model(small_config(name, **settings)).double().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def random_tokens(*shape: int, vocabulary: int = 20, seed: int = 0) -> Tensor:
    return torch.randint(vocabulary, shape, generator=generator(seed))


def random_text(train: int = 400, held_out: int = 100, *, vocabulary: int = 20, name: str = "random") -> Text:
    """Independent, equally likely tokens, of which nothing can be learned but the training text by heart."""
    words = WordTokens(["<unk>", "<eos>", *(f"w{i}" for i in range(2, vocabulary))])
    sizes = {"train": train, "valid": held_out, "test": held_out}
    parts = {split: random_tokens(n, vocabulary=vocabulary, seed=i) for i, (split, n) in enumerate(sizes.items())}
    return Text(name, words, **parts, words=sizes)


def counting_text(train: int = 400, held_out: int = 100, *, vocabulary: int = 20) -> Text:
    """Numbers that count up, every third one random: something can be learned, and takes its time."""
    text = random_text(train, held_out, vocabulary=vocabulary, name="counting")

    def count(tokens: Tensor) -> Tensor:
        places = torch.arange(len(tokens))
        return (tokens[places - places % 3] + places % 3) % vocabulary

    return dataclasses.replace(text, train=count(text.train), valid=count(text.valid), test=count(text.test))


def short_training(**settings: Any) -> TrainConfig:
    return TrainConfig(**{"epochs": 4, "batch": 4, "warmup": 2, "learning_rate": 0.01, "evaluations": 2, **settings})


def interruptible_run(folder: Path, on_progress: Callable[[Progress], None], **settings: Any) -> dict[str, Any]:
    """A run of 72 steps (``STEPS``) with dropout, stored every 6 of them; it begins, or goes on where it was."""
    model = small_config("feature different", dropout=0.2)
    training = short_training(epochs=6, learning_rate=0.003)
    return train(model, training, counting_text(), folder, resume=True, on_progress=on_progress, **settings)


def assert_same_tensors(one: Path, other: Path) -> None:
    """Two safetensors files hold the same tensors, to the bit."""
    first, second = load_file(one), load_file(other)
    assert first.keys() == second.keys()
    assert [name for name in first if not torch.equal(first[name], second[name])] == []


def wrong(value: object) -> Any:
    """A value of a type that the function does not take."""
    return value
