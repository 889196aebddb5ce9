"""Save and load models of chains in one file."""

from __future__ import annotations

from dataclasses import asdict

import torch

from ghrr.checks import describe, names_errors, type_error
from ghrr.files import PathLike, as_real_pairs, check_fields, prefix_errors, read_tensors, write_tensors
from ghrr.relations.chains.composer import Composer
from ghrr.relations.chains.held_out import NO_CALIBRATION
from ghrr.relations.chains.model import RelationChains

_FORMAT, _VERSION = "ghrr-relation-chains", 1
_FIELDS = {"settings": dict, "relations": list, "longest": int}


@names_errors
def save_chains(path: PathLike, model: RelationChains) -> None:
    """Write a fitted model to one safetensors file, atomically, with a checksum.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from ghrr.relations.chains import RelationChains, kinship_rules, load_chains, save_chains
    >>> model = RelationChains(epochs=5).fit(kinship_rules())
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "kinship.safetensors"
    >>> save_chains(path, model)
    >>> load_chains(path).compose(["father", "son"]) == model.compose(["father", "son"])
    True
    """
    if not isinstance(model, RelationChains):
        raise type_error(f"model must be a RelationChains, got {describe(model)}")
    model._check_fitted()
    settings = {"dim": model.dim, "m": model.m, "numbers": model.numbers, "seed": model.seed, **asdict(model.config)}
    header = {"settings": settings, "relations": list(model.relations), "longest": model.composer.longest}
    vectors = model.composer.vectors
    stored = as_real_pairs(vectors) if vectors.is_complex() else vectors
    tensors = {"calibration": model.calibration, "vectors": stored}
    write_tensors(path, header, tensors, kind=_FORMAT, version=_VERSION)


@names_errors
def load_chains(path: PathLike) -> RelationChains:
    """Read a model that :func:`save_chains` wrote.

    Raises
    ------
    OSError
        There is no such file.
    ValueError
        The file is not from :func:`save_chains`, or was truncated or changed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from ghrr.relations.chains import RelationChains, kinship_rules, load_chains, save_chains
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "kinship.safetensors"
    >>> save_chains(path, RelationChains(epochs=5).fit(kinship_rules(), calibrate=False))
    >>> load_chains(path)
    RelationChains(20 relations, dim=8, m=8, numbers='real')
    """
    header, tensors = read_tensors(path, kind=_FORMAT, version=_VERSION)
    with prefix_errors(path):
        check_fields("header", header, _FIELDS)
        model = RelationChains(**header["settings"])
        relations = header["relations"]
        vectors = tensors["vectors"]
        vectors = torch.view_as_complex(vectors) if model.numbers == "complex" else vectors
        if vectors.shape != (len(relations), model.dim, model.m, model.m):
            raise ValueError(f"vectors of shape {tuple(vectors.shape)} do not fit the settings and the relations")
        if tensors["calibration"].shape != NO_CALIBRATION.shape:
            raise ValueError("the calibration was written by another version of ghrr; train the model again")
        if len(set(relations)) < len(relations) or not all(isinstance(name, str) for name in relations):
            raise ValueError("the relations must be different names")
        model.relations, model.calibration = tuple(relations), tensors["calibration"]
        model.composer = Composer(vectors, model.config.scale, header["longest"])
        return model
