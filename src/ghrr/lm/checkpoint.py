"""The state of a training run in one safetensors file: weights, optimiser and progress change places together."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

import torch
from torch import Tensor, nn

from ghrr.files import check_fields, parse_json, read_tensors, write_tensors
from ghrr.lm.config import ModelConfig

FORMAT = "ghrr-lm-checkpoint"
VERSION = 1
_MODEL, _OPTIMIZER = "model.", "optimizer."
_FIELDS = {"step": int, "best_valid": float, "best_step": int, "seconds": float, "model": dict, "vocabulary": str}
_STATE = {"step": False, "exp_avg": True, "exp_avg_sq": True}  # of AdamW; True: shaped as its parameter


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
    metadata = {"ghrr": text, "sha256": _checksum(text, tensors)}
    write_tensors(path, tensors, metadata, operation="save_checkpoint", follow_links=False)


def load_checkpoint(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the JSON object and the tensors of a checkpoint.

    Raises
    ------
    OSError
        There is no such file, or it is not a regular file.
    ValueError
        It is damaged or of another kind.
    """
    metadata, tensors = read_tensors(path, operation="load_checkpoint")
    text = metadata.get("ghrr", "{}")
    info = parse_json(text, f"load_checkpoint({str(path)!r})")
    if not isinstance(info, dict) or info.get("format") != FORMAT:
        raise ValueError(f"{path} is a safetensors file, but not a checkpoint of ghrr.lm")
    if info.get("version") != VERSION:
        raise ValueError(
            f"{path} has version {info.get('version')!r}, this ghrr reads {VERSION}; use the one that wrote it"
        )
    if metadata.get("sha256") != _checksum(text, tensors):
        raise ValueError(f"{path} was changed since it was written: its checksum does not match")
    return check_fields(f"load_checkpoint({str(path)!r})", info, _FIELDS), tensors


def check_shapes(config: ModelConfig, tensors: dict[str, Tensor]) -> None:
    """Raise ``ValueError`` unless the weights are of the size of this model, before a model of that size is made."""
    expected = {
        "embedding.weight": (config.vocab_size, config.embed_dim),
        f"layers.{config.num_layers - 1}.grow.weight": (config.ffn_dim, config.embed_dim),
    }
    for name, shape in expected.items():
        found = tuple(tensors[_MODEL + name].shape) if _MODEL + name in tensors else "missing"
        if found != shape:
            raise ValueError(f"the checkpoint does not fit its settings: {name} is {found}, expected {shape}")


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
    """Put the state of the optimiser back; ``ValueError`` where names or shapes differ from its parameters."""
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


def _checksum(text: str, tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
