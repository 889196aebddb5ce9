"""Checkpoint: weights, optimiser state and progress of a training run in one file, replaced atomically."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor, nn

from ghrr.files import check_fields, read_tensors, write_tensors
from ghrr.lm.config import ModelConfig

FORMAT = "ghrr-lm-checkpoint"
VERSION = 2
_MODEL, _OPTIMIZER = "model.", "optimizer."
_FIELDS = {"step": int, "best_valid": float, "best_step": int, "seconds": float, "model": dict, "vocabulary": str}
_STATE = {"step": False, "exp_avg": True, "exp_avg_sq": True}  # of AdamW; True: has the shape of its parameter


def save_checkpoint(
    path: str | os.PathLike[str], model: nn.Module, info: dict[str, Any], optimizer: torch.optim.Optimizer | None = None
) -> None:
    """Write the weights, a JSON object, and the optimiser state if given. The old file stays until all is written."""
    tensors = {_MODEL + name: tensor for name, tensor in model.state_dict().items()}
    if optimizer is not None:
        for i, state in optimizer.state_dict()["state"].items():
            tensors |= {f"{_OPTIMIZER}{i}.{key}": value for key, value in state.items()}
    ordered = dict(sorted(tensors.items(), key=lambda item: -item[1].dtype.itemsize))  # aligned for other readers
    write_tensors(path, info, ordered, kind=FORMAT, version=VERSION, follow_links=False)


def load_checkpoint(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the JSON object and the tensors of a checkpoint.

    Raises
    ------
    OSError
        There is no such file, or it is not a regular file.
    ValueError
        The file is damaged or has another format.
    """
    info, tensors = read_tensors(path, kind=FORMAT, version=VERSION, operation="load_checkpoint")
    return check_fields(f"load_checkpoint({str(path)!r})", info, _FIELDS), tensors


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


def restore_model(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Load the weights of a checkpoint into a model; raise ``ValueError`` if names or shapes differ."""
    weights = {name.removeprefix(_MODEL): t for name, t in tensors.items() if name.startswith(_MODEL)}
    expected = {name: tuple(t.shape) for name, t in model.state_dict().items()}
    found = {name: tuple(t.shape) for name, t in weights.items()}
    different = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    if different:
        name = different[0]
        raise ValueError(
            f"the checkpoint does not fit this model: {name} is {found.get(name, 'missing')} in the checkpoint and "
            f"{expected.get(name, 'missing')} in the model ({len(different)} such differences)"
        )
    model.load_state_dict(weights)


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Load the optimiser state of a checkpoint; raise ``ValueError`` if names or shapes do not fit its parameters."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith(_OPTIMIZER):
            index, _, key = name.removeprefix(_OPTIMIZER).partition(".")
            if not index.isdecimal() or int(index) >= len(parameters) or key not in _STATE:
                raise ValueError(f"the checkpoint does not fit this optimiser: it has no state {name!r:.80}")
            shape = tuple(parameters[int(index)].shape) if _STATE[key] else ()
            if tuple(tensor.shape) != shape:
                raise ValueError(
                    f"the checkpoint does not fit this optimiser: {name} is {tuple(tensor.shape)}, expected {shape}"
                )
            state.setdefault(int(index), {})[key] = tensor
    incomplete = [index for index, parts in state.items() if parts.keys() != _STATE.keys()]
    if incomplete:
        raise ValueError(
            f"the checkpoint does not fit this optimiser: the state of parameter {incomplete[0]} is incomplete"
        )
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
