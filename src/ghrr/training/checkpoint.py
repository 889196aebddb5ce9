"""Tensors of checkpoints: the parameters of modules and the state of an optimiser, by name."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

_OPTIMIZER = "optimizer."


def checkpoint_tensors(
    modules: Mapping[str, nn.Module], optimizer: torch.optim.Optimizer | None = None
) -> dict[str, Tensor]:
    """Return the tensors of modules, named ``part.name``, and of an optimiser, named ``optimizer.index.name``.

    The largest element types come first, so that other programs that read the file find all tensors aligned.

    Examples
    --------
    >>> import torch
    >>> from ghrr.training import checkpoint_tensors
    >>> sorted(checkpoint_tensors({"model": torch.nn.Linear(2, 1)}))
    ['model.bias', 'model.weight']
    """
    tensors = {f"{part}.{name}": t for part, module in modules.items() for name, t in module.state_dict().items()}
    if optimizer is not None:
        for index, state in optimizer.state_dict()["state"].items():
            tensors |= {f"{_OPTIMIZER}{index}.{key}": value for key, value in state.items()}
    return dict(sorted(tensors.items(), key=lambda item: -item[1].dtype.itemsize))


def restore_module(module: nn.Module, tensors: Mapping[str, Tensor], part: str = "") -> None:
    """Load all tensors or one part of a checkpoint; raise ``ValueError`` if names, shapes or types differ."""
    prefix = part and f"{part}."
    weights = {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
    expected = {name: _form(tensor) for name, tensor in module.state_dict().items()}
    found = {name: _form(tensor) for name, tensor in weights.items()}
    different = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    if different:
        name = different[0]
        raise ValueError(
            f"the checkpoint does not fit this model: {name} is {found.get(name, 'missing')} in the checkpoint and "
            f"{expected.get(name, 'missing')} in the model ({len(different)} such differences)"
        )
    module.load_state_dict(weights)


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load the state of an optimiser; raise ``ValueError`` if it is incomplete or does not fit the parameters."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    keys = _state_of(optimizer)
    for name, tensor in tensors.items():
        if name.startswith(_OPTIMIZER):
            index, _, key = name.removeprefix(_OPTIMIZER).partition(".")
            if not index.isdecimal() or int(index) >= len(parameters) or key not in keys:
                raise ValueError(f"the checkpoint does not fit this optimiser: it has no state {name!r:.80}")
            shape = tuple(parameters[int(index)].shape) if keys[key] else ()
            if tuple(tensor.shape) != shape:
                raise ValueError(
                    f"the checkpoint does not fit this optimiser: {name} is {tuple(tensor.shape)}, expected {shape}"
                )
            state.setdefault(int(index), {})[key] = tensor
    incomplete = [index for index, parts in state.items() if parts.keys() != keys.keys()]
    if incomplete:
        raise ValueError(
            f"the checkpoint does not fit this optimiser: the state of parameter {incomplete[0]} is incomplete"
        )
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _form(tensor: Tensor) -> str:
    dtype = "" if tensor.dtype == torch.float32 else f" {tensor.dtype}"
    return f"{tuple(tensor.shape)}{dtype}"


def _state_of(optimizer: torch.optim.Optimizer) -> dict[str, bool]:
    """Return the names of the state of each parameter, and whether it has the shape of the parameter."""
    if isinstance(optimizer, torch.optim.Adagrad):
        return {"step": False, "sum": True}
    return {"step": False, "exp_avg": True, "exp_avg_sq": True}  # Adam and AdamW
