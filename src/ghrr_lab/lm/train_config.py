"""Settings of a training run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ghrr.checks import check_choice, check_integer, check_real, names_errors, value_error


@names_errors
@dataclass(frozen=True)
class TrainConfig:
    """Settings of :func:`ghrr_lab.lm.train`. All settings are checked when the config is made.

    Parameters
    ----------
    epochs
        Passes over the training text.
    batch
        Windows per step; each window has as many tokens as the model's ``max_len``.
    learning_rate
        Highest learning rate. It rises linearly during ``warmup`` steps and falls along a cosine.
    warmup
        Steps of linear warm-up.
    weight_decay, betas
        Settings of AdamW. Embeddings, positions, biases and scales are not decayed.
    clip
        Maximum norm of the gradient.
    seed
        Seed of the initial weights, the order of the batches and dropout.
    evaluations
        Evaluations per epoch; each also writes a checkpoint.
    precision
        ``"bf16"`` (automatic mixed precision), ``"float32"``, or ``"auto"``: bf16 on a GPU, float32 elsewhere.
    compile
        Use ``torch.compile``. Default: on a GPU only.

    Examples
    --------
    >>> from ghrr_lab.lm import TrainConfig
    >>> TrainConfig(epochs=5, learning_rate=3e-4).batch
    128
    """

    epochs: int = 30
    batch: int = 128
    learning_rate: float = 1e-3
    warmup: int = 200
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.98)
    clip: float = 1.0
    seed: int = 0
    evaluations: int = 1
    precision: str = "auto"
    compile: bool | None = None

    def __post_init__(self) -> None:
        for name, least in {"epochs": 1, "batch": 1, "evaluations": 1, "warmup": 0, "seed": 0}.items():
            check_integer(name, getattr(self, name), least=least)
        check_real("learning_rate", self.learning_rate, low=0.0, high=1.0, open_ends=True)
        check_real("weight_decay", self.weight_decay, low=0.0, high=math.inf)
        check_real("clip", self.clip, low=0.0, high=math.inf, open_ends=True)
        check_choice("precision", self.precision, ("auto", "bf16", "float32"))
        betas = tuple(self.betas) if isinstance(self.betas, (tuple, list)) else ()
        if len(betas) != 2 or not all(isinstance(beta, float) and 0 <= beta < 1 for beta in betas):
            raise value_error(f"betas must be two numbers in [0, 1), got {self.betas!r}")
        object.__setattr__(self, "betas", betas)  # a list if the settings come from JSON
