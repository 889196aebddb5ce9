"""Small models, texts and training runs shared by the tests of language models."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from ghrr_lab.lm import EncodedCorpus, Model, ModelConfig, TrainConfig, TrainProgress, WordTokenizer, train
from tests.helpers import generator

# Every kind of attention, and every option of GHRR attention in at least one of them.
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
ROOT = Path(__file__).parents[3]
STEPS = 72  # length of short_run
SMALL = {"embed_dim": 16, "num_layers": 2, "num_heads": 2, "ffn_dim": 12, "max_len": 8, "dropout": 0.0}


class Stop(Exception):  # noqa: N818 (not an error)
    """Raised by tests to interrupt a run."""


def small_config(name: str = "vanilla", *, vocab_size: int = 20, **settings: Any) -> ModelConfig:
    return ModelConfig(**{"vocab_size": vocab_size, **SMALL, **ATTENTIONS[name], **settings})


def new_model(name: str = "vanilla", *, weight_seed: int = 0, **settings: Any) -> Model:
    """Make a model with the initial weights of training."""
    with torch.random.fork_rng():
        torch.manual_seed(weight_seed)
        return Model(small_config(name, **settings))


def small_model(name: str = "vanilla", *, weight_seed: int = 0, **settings: Any) -> Model:
    """Make a float64 model with weights large enough for attention and positions to matter."""
    with torch.random.fork_rng():
        torch.manual_seed(weight_seed)
        model = Model(small_config(name, **settings)).double().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def random_tokens(*shape: int, vocab_size: int = 20, seed: int = 0) -> Tensor:
    return torch.randint(vocab_size, shape, generator=generator(seed))


def random_text(train: int = 400, held_out: int = 100, *, vocab_size: int = 20, name: str = "random") -> EncodedCorpus:
    """Make a text of independent, equally likely tokens, which a model can only memorise."""
    tokenizer = WordTokenizer(["<unk>", "<eos>", *(f"w{i}" for i in range(2, vocab_size))])
    sizes = {"train": train, "valid": held_out, "test": held_out}
    parts = {split: random_tokens(n, vocab_size=vocab_size, seed=i) for i, (split, n) in enumerate(sizes.items())}
    return EncodedCorpus(name, tokenizer, **parts, word_counts=sizes)


def counting_text(train: int = 400, held_out: int = 100, *, vocab_size: int = 20) -> EncodedCorpus:
    """Make a text that counts up from a random token at every third position, which a model can learn slowly."""
    text = random_text(train, held_out, vocab_size=vocab_size, name="counting")

    def count(tokens: Tensor) -> Tensor:
        indices = torch.arange(len(tokens))
        return (tokens[indices - indices % 3] + indices % 3) % vocab_size

    return dataclasses.replace(text, train=count(text.train), valid=count(text.valid), test=count(text.test))


def short_training(**settings: Any) -> TrainConfig:
    return TrainConfig(**{"epochs": 4, "batch": 4, "warmup": 2, "learning_rate": 0.01, "evaluations": 2, **settings})


def short_run(
    folder: Path, on_progress: Callable[[TrainProgress], None] | None = None, **settings: Any
) -> dict[str, Any]:
    """Start or resume a run of 72 steps with dropout and a checkpoint every 6 steps."""
    model = small_config("feature different", dropout=0.2)
    training = short_training(epochs=6, learning_rate=0.003)
    return train(model, training, counting_text(), folder, resume=True, on_progress=on_progress, **settings)


def assert_same_tensors(one: Path, other: Path) -> None:
    """Assert that two safetensors files hold the same tensors, bit for bit."""
    first, second = load_file(one), load_file(other)
    assert first.keys() == second.keys()
    assert [name for name in first if not torch.equal(first[name], second[name])] == []


def stop_at(step: int) -> Callable[[TrainProgress], None]:
    """Return a callback that interrupts a run after a step."""

    def stop(progress: TrainProgress) -> None:
        if progress.step == step:
            raise Stop

    return stop


def file_contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return the content and the modification time of each file."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir() if path.is_file()}
