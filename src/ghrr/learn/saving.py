"""Save and load fitted estimators in one file, without pickle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from ghrr.checks import describe, names_errors, short_repr, type_error
from ghrr.encoding.kernels import SPECTRA, Spectrum
from ghrr.files import PathLike, as_real_pairs, prefix_errors, read_tensors, restore_space, space_header, write_tensors
from ghrr.learn.classifier import HDClassifier
from ghrr.learn.graph_features import GraphFeatures
from ghrr.learn.image_features import ImageFeatures
from ghrr.learn.kernel_features import KernelFeatures
from ghrr.learn.loaded_state import check_state
from ghrr.learn.regressor import HDRegressor
from ghrr.learn.ridge import NormalEquations
from ghrr.learn.series_features import SeriesFeatures
from ghrr.learn.table_features import TableFeatures
from ghrr.learn.text_features import TextFeatures
from ghrr.space import Space

FORMAT = "ghrr-estimator"
VERSION = 1
# Only these classes are made from a file.
_CLASSES = {
    cls.__name__: cls
    for cls in (
        GraphFeatures,
        HDClassifier,
        HDRegressor,
        ImageFeatures,
        KernelFeatures,
        SeriesFeatures,
        TableFeatures,
        TextFeatures,
    )
}
_PLAIN = (str, int, float, bool, type(None))
_NOT_STORED = ("_descent",)  # the state of an optimiser
# Settings that files of earlier versions do not have; they get their defaults.
_ADDED = {
    "TableFeatures": {"kernel", "column_share", "linear"},
    "HDRegressor": {
        "training",
        "max_epochs",
        "learning_rate",
        "batch_size",
        "early_stopping",
        "validation_fraction",
        "patience",
    },
}


@names_errors("save(path, estimator)")
def save(path: PathLike, estimator: BaseEstimator) -> None:
    """Write a fitted estimator to one safetensors file.

    The file holds all settings and learned numbers, and no code. A ``RandomState`` given as ``random_state`` is stored
    as None: what was drawn from it is stored, but another ``fit`` of the loaded estimator draws other numbers. Encoders
    of other libraries inside a classifier and a ``Spectrum`` of your own cannot be stored; use joblib for those.

    Parameters
    ----------
    path
        File to write, usually ``*.safetensors``. It is written completely or not at all.
    estimator
        Fitted estimator of :mod:`ghrr.learn`.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib
    >>> from ghrr import learn
    >>> x = np.linspace(0, 6, 50)[:, None]
    >>> model = learn.HDRegressor(random_state=0).fit(x, np.sin(x[:, 0]))
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> learn.save(path, model)
    >>> bool((learn.load(path).predict(x) == model.predict(x)).all())
    True
    """
    if type(estimator).__name__ not in _CLASSES:
        raise type_error(
            f"got {type(estimator).__name__}, expected one of {', '.join(_CLASSES)}; use joblib "
            f"for pipelines and estimators of other libraries"
        )
    check_is_fitted(estimator)
    tensors: dict[str, Tensor] = {}
    header = {"estimator": _pack(estimator, tensors)}
    order = sorted(tensors, key=lambda name: -tensors[name].dtype.itemsize)  # wider dtypes first, for alignment
    write_tensors(path, header, {name: tensors[name] for name in order}, kind=FORMAT, version=VERSION)


@names_errors("learn.load")
def load(path: PathLike) -> Any:
    """Read an estimator that :func:`save` wrote. It predicts on its ``device``, by default the CPU.

    Raises
    ------
    OSError
        There is no such file.
    ValueError
        The file is not from :func:`save`, was truncated or changed, or its entries do not fit together.
    """
    header, tensors = read_tensors(path, kind=FORMAT, version=VERSION)
    with prefix_errors(path):
        estimator = _unpack(header["estimator"], tensors)
        if type(estimator).__name__ not in _CLASSES:
            raise ValueError(f"it holds {describe(estimator)}, expected a fitted estimator")
        check_is_fitted(estimator)
        return estimator


def _pack(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Return a value as JSON; arrays go to ``tensors``."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, np.random.RandomState):
        return None
    if isinstance(value, Spectrum) and SPECTRA.get(value.name) is value:
        return value.name  # means the same kernel
    if isinstance(value, (list, tuple)):
        return {"list": [_pack(item, tensors) for item in value], "is_tuple": isinstance(value, tuple)}
    if isinstance(value, dict):
        return {"dict": [[_pack(key, tensors), _pack(item, tensors)] for key, item in value.items()]}
    if isinstance(value, np.ndarray):
        return _pack_array(value, tensors)
    if isinstance(value, Tensor):
        tensor = value.detach().cpu()
        name = f"t{len(tensors)}"
        tensors[name] = (as_real_pairs(tensor) if tensor.is_complex() else tensor).clone(
            memory_format=torch.contiguous_format
        )
        return {"tensor": name, "is_array": False, "is_complex": tensor.is_complex()}
    if isinstance(value, Space):
        return {"space": space_header(value)[0]}
    if isinstance(value, torch.device):
        return str(value)
    kind = type(value).__name__
    if isinstance(value, NormalEquations) or kind in _CLASSES:
        kept = {name: item for name, item in vars(value).items() if name not in _NOT_STORED}
        return {"class": kind, "state": {name: _pack(item, tensors) for name, item in kept.items()}}
    raise type_error(f"cannot store a {kind}; use joblib for estimators that contain one")


def _pack_array(value: np.ndarray[Any, Any], tensors: dict[str, Tensor]) -> dict[str, Any]:
    kind = value.dtype.kind
    if kind in "OU":
        return {"strings": [_pack(item, tensors) for item in value.tolist()], "is_object": kind == "O"}
    if kind in "mM":
        return {"times": _pack(value.view(np.int64), tensors), "dtype": value.dtype.str}
    if kind == "u" and value.dtype != np.uint8:  # not in the file format
        return {"unsigned": _pack(value.astype(np.int64), tensors), "dtype": value.dtype.str}
    if kind in "biufc":
        return {**_pack(torch.tensor(value), tensors), "is_array": True}
    raise type_error(f"cannot store an array of dtype {value.dtype}; use joblib for estimators that contain one")


def _unpack(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Return the value of :func:`_pack`. Fitted estimators are checked; other errors are raised as they come."""
    if not isinstance(value, dict):
        return value
    makers: dict[str, Callable[[dict[str, Any], dict[str, Tensor]], Any]] = {
        "list": _unpack_list,
        "dict": _unpack_dict,
        "strings": _unpack_strings,
        "times": lambda packed, tensors: _unpack(packed["times"], tensors).view(_checked_dtype(packed, "mM")),
        "unsigned": lambda packed, tensors: _unpack(packed["unsigned"], tensors).astype(_checked_dtype(packed, "u")),
        "tensor": _unpack_tensor,
        "space": lambda packed, tensors: restore_space(packed["space"], {}),
        "class": _unpack_object,
    }
    kinds = [kind for kind in makers if kind in value]
    if len(kinds) != 1:
        raise ValueError(f"an entry must have one of {', '.join(makers)}, got {short_repr(list(value))}")
    return makers[kinds[0]](value, tensors)


def _unpack_list(packed: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
    items = [_unpack(item, tensors) for item in packed["list"]]
    return tuple(items) if packed["is_tuple"] else items


def _unpack_dict(packed: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
    result = {_unpack(key, tensors): _unpack(item, tensors) for key, item in packed["dict"]}
    if len(result) < len(packed["dict"]):
        raise ValueError(f"an entry has a key more than once, got {short_repr(packed['dict'])}")
    return result


def _checked_dtype(packed: dict[str, Any], kinds: str) -> np.dtype[Any]:
    dtype: np.dtype[Any] = np.dtype(packed["dtype"])
    if dtype.kind not in kinds:
        raise ValueError(f"the dtype of an array must be of kind {kinds}, got {dtype}")
    return dtype


def _unpack_strings(packed: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
    if not all(isinstance(item, _PLAIN if packed["is_object"] else str) for item in packed["strings"]):
        raise ValueError(f"strings must be text, got {short_repr(packed['strings'])}")
    return np.array(packed["strings"], dtype=object if packed["is_object"] else np.str_)


def _unpack_tensor(packed: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
    tensor = tensors[packed["tensor"]]
    tensor = torch.view_as_complex(tensor) if packed["is_complex"] else tensor
    return tensor.numpy() if packed["is_array"] else tensor


def _unpack_object(packed: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
    state = {name: _unpack(item, tensors) for name, item in packed["state"].items()}
    cls: Any = NormalEquations if packed["class"] == NormalEquations.__name__ else _CLASSES[packed["class"]]
    result = cls.__new__(cls)
    if cls is NormalEquations:
        # Files of version 0.2 have sums from which nothing was subtracted, and earlier ones did not count copies.
        shifts = {f"{part}_shift": torch.zeros_like(state[f"{part}_sum"]) for part in ("feature", "target")}
        vars(result).update({"rounding": 4 * torch.finfo(torch.float32).eps, "independent": 0.0} | shifts | state)
        return result
    defaults = cls().get_params(deep=False)
    vars(result).update({name: defaults[name] for name in _ADDED.get(cls.__name__, ())} | state)
    if set(state) - set(defaults):  # a setting that is an estimator is not fitted
        check_state(result)
    else:
        result._validate_params()
    device = state.get("device")
    if device not in (None, "cpu"):
        for name, item in state.items():
            if isinstance(item, Tensor):
                setattr(result, name, item.to(device))
    return result
