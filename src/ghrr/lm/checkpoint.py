"""The state of a training run in one safetensors file: weights, optimiser and progress change places together."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from ghrr.files import atomic_write

FORMAT = "ghrr-lm-checkpoint"
VERSION = 1
_MODEL, _OPTIMIZER = "model.", "optimizer."


def save_checkpoint(
    path: str | os.PathLike[str], model: nn.Module, info: dict[str, Any], optimizer: torch.optim.Optimizer | None = None
) -> None:
    """Write weights, the optimiser's state if given, and a JSON object; until all is written the old file stays."""
    tensors = {_MODEL + name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    if optimizer is not None:
        for i, state in optimizer.state_dict()["state"].items():
            tensors |= {f"{_OPTIMIZER}{i}.{key}": value.contiguous() for key, value in state.items()}
    tensors = {name: tensor.detach().cpu() for name, tensor in tensors.items()}
    text = json.dumps({"format": FORMAT, "version": VERSION, **info}, sort_keys=True)
    with atomic_write(path) as temporary:
        save_file(tensors, temporary, metadata={"ghrr": text, "sha256": _checksum(text, tensors)})


def load_checkpoint(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The JSON object and the tensors of a checkpoint; ``ValueError`` for a file that is damaged or of another kind."""
    if not Path(path).exists():
        raise FileNotFoundError(f"no checkpoint at {path}")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (not a dict)
        text = metadata.get("ghrr", "{}")
        info = json.loads(text)
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(f"{path} is not a readable checkpoint: cut short, or of another kind ({error})") from error
    if not isinstance(info, dict) or info.get("format") != FORMAT:
        raise ValueError(f"{path} is a safetensors file, but not a checkpoint of ghrr.lm")
    if info.get("version") != VERSION:
        raise ValueError(
            f"{path} has version {info.get('version')!r}, this ghrr reads {VERSION}; use the one that wrote it"
        )
    if metadata.get("sha256") != _checksum(text, tensors):
        raise ValueError(f"{path} was changed since it was written: its checksum does not match")
    return info, tensors


def restore_model(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Put the weights of a checkpoint into a model; ``ValueError`` where names or shapes differ."""
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
    """Put the state of the optimiser back."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith(_OPTIMIZER):
            index, key = name.removeprefix(_OPTIMIZER).split(".")
            state.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _checksum(text: str, tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
