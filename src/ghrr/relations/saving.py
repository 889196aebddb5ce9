"""Files of relation models: a trained model, and the checkpoint of a training run."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor

from ghrr.checks import check_device, current_call, describe, names_errors, type_error
from ghrr.files import check_fields, prefix_errors, read_tensors, write_tensors
from ghrr.relations.model import RelationModel, check_model
from ghrr.relations.unseen import UnseenHeads
from ghrr.training import checkpoint_tensors, restore_module, restore_optimizer

_MODEL, _CHECKPOINT, _VERSION = "ghrr-relation-model", "ghrr-relation-checkpoint", 1
_UNSEEN = ("unseen", "unseen.indices", "unseen.values")  # tensors of a model that was trained
_MODEL_FIELDS: dict[str, type | tuple[type, ...]] = {
    "entities": list,
    "relations": list,
    "dim": int,
    "m": int,
    "relation_form": str,
    "length_penalty": float,
    "temperature": float,
    "background": float,
}


@names_errors
def save_model(path: str | os.PathLike[str], model: RelationModel) -> None:
    """Write a model with its names to one file, atomically. Files hold single precision.

    Examples
    --------
    >>> import tempfile
    >>> from ghrr.relations import RelationModel, load_model, save_model
    >>> model = RelationModel(("Ada", "Byron"), ("parent",), dim=20, m=3, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(f"{folder}/model.safetensors", model)
    ...     load_model(f"{folder}/model.safetensors").entities
    ('Ada', 'Byron')
    """
    if check_model(model).entity_table.dtype != torch.float32:
        raise type_error("the parameters of the model must be float32, got float64; use model.float()")
    header = {name: getattr(model, name) for name in _MODEL_FIELDS}
    tensors = dict(model.state_dict())
    if model.unseen is not None:
        counts = model.unseen.counts
        tensors |= zip(_UNSEEN, (model.unseen.is_unseen, counts.indices(), counts.values()), strict=True)
    write_tensors(path, header, tensors, kind=_MODEL, version=_VERSION)


@names_errors
def load_model(path: str | os.PathLike[str], *, device: str | torch.device = "cpu") -> RelationModel:
    """Read a model that :func:`save_model` or :func:`ghrr.relations.train` wrote.

    Parameters
    ----------
    path
        File, or the folder of a training run.
    device
        Device for the model.

    Raises
    ------
    OSError
        There is no such file, or it is not a regular file.
    ValueError
        The file is damaged or has another format.

    Examples
    --------
    >>> import tempfile
    >>> from ghrr.relations import RelationModel, load_model, save_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(f"{folder}/model.safetensors", RelationModel(("Ada",), ("knows",), dim=20, m=3))
    ...     load_model(folder).m
    3
    """
    target = check_device(device)
    file = os.path.join(path, "model.safetensors") if os.path.isdir(path) else path
    header, tensors = read_tensors(file, kind=_MODEL, version=_VERSION)
    with prefix_errors(file):
        header.setdefault("length_penalty", 0.0)  # files of earlier versions have none
        check_fields("header", header, _MODEL_FIELDS)
        settings = {name: header[name] for name in ("dim", "m", "relation_form", "length_penalty")}
        table = tensors["entity_table"]
        if table.shape != (len(header["entities"]), 2 * settings["dim"] * settings["m"] ** 2):
            raise ValueError(f"entity_table does not fit the header, got {describe(table)}")
        model = RelationModel(header["entities"], header["relations"], **settings)
        if tensors.keys() >= set(_UNSEEN):  # not in files of earlier versions
            model.unseen = _restore_unseen(model, *(tensors.pop(name) for name in _UNSEEN))
        restore_module(model, tensors)
        model.temperature, model.background = header["temperature"], header["background"]
    return model.to(target)


def _restore_unseen(model: RelationModel, is_unseen: Tensor, indices: Tensor, values: Tensor) -> UnseenHeads:
    """Return the answers of unseen heads; raise ``ValueError`` if shapes or indices do not fit the model."""
    size = 2 * len(model.relations), len(model.entities)
    if is_unseen.shape != size[1:] or is_unseen.dtype != torch.bool or not (values.isfinite() & (values >= 0)).all():
        raise ValueError(f"unseen entities do not fit the model, got {describe(is_unseen)}")
    try:
        # An argument check_invariants makes torch 2.11 warn.
        with torch.sparse.check_sparse_tensor_invariants(True):  # type: ignore[no-untyped-call]
            counts = torch.sparse_coo_tensor(indices, values, size)
    except RuntimeError as error:
        raise ValueError(f"counts of tails do not fit the model: {error}") from error
    return UnseenHeads(is_unseen, counts.coalesce())


def save_checkpoint(
    path: str | os.PathLike[str],
    info: dict[str, Any],
    models: dict[str, RelationModel],
    optimizer: torch.optim.Optimizer,
) -> None:
    """Write parameters, optimiser state and a JSON object. The old file stays until all is written."""
    tensors = checkpoint_tensors(models, optimizer)
    write_tensors(path, info, tensors, kind=_CHECKPOINT, version=_VERSION, follow_links=False)


def load_checkpoint(
    path: str | os.PathLike[str], fields: dict[str, type | tuple[type, ...]]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the JSON object and the tensors of a checkpoint, after checking the fields of the object."""
    info, tensors = read_tensors(path, kind=_CHECKPOINT, version=_VERSION)
    return check_fields(current_call(path), info, fields), tensors


def restore_checkpoint(
    models: dict[str, RelationModel], optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]
) -> None:
    """Load parameters and optimiser state; raise ``ValueError`` if names or shapes do not fit."""
    for name, model in models.items():
        restore_module(model, tensors, name)
    restore_optimizer(optimizer, tensors)
