"""Checkpoint: weights, optimiser state and progress of a training run in one file, replaced atomically."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor, nn

from ghrr.checks import current_call, names_errors
from ghrr.files import check_fields, read_tensors, write_tensors
from ghrr.training import checkpoint_tensors
from ghrr_lab.lm.config import ModelConfig

FORMAT = "ghrr-lm-checkpoint"
VERSION = 2
_MODEL = "model."
_FIELDS = {"step": int, "best_valid": float, "best_step": int, "seconds": float, "model": dict, "vocabulary": str}


def save_checkpoint(
    path: str | os.PathLike[str], model: nn.Module, info: dict[str, Any], optimizer: torch.optim.Optimizer | None = None
) -> None:
    """Write the weights, a JSON object, and the optimiser state if given. The old file stays until all is written."""
    tensors = checkpoint_tensors({"model": model}, optimizer)
    write_tensors(path, info, tensors, kind=FORMAT, version=VERSION, follow_links=False)


@names_errors
def load_checkpoint(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the JSON object and the tensors of a checkpoint.

    Raises
    ------
    OSError
        There is no such file, or it is not a regular file.
    ValueError
        The file is damaged or has another format.
    """
    info, tensors = read_tensors(path, kind=FORMAT, version=VERSION)
    return check_fields(current_call(path), info, _FIELDS), tensors


def check_shapes(config: ModelConfig, tensors: dict[str, Tensor]) -> None:
    """Raise ``ValueError`` unless the weights have the shapes of this model; call it before building the model."""
    expected = {
        "embedding.weight": (config.vocab_size, config.embed_dim),
        f"layers.{config.num_layers - 1}.grow.weight": (config.ffn_dim, config.embed_dim),
    }
    for name, shape in expected.items():
        found = tuple(tensors[_MODEL + name].shape) if _MODEL + name in tensors else "missing"
        if found != shape:
            raise ValueError(f"the checkpoint does not fit its settings: {name} is {found}, expected {shape}")
