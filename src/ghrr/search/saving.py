"""Saving: the fields of an index and its calibration in one file."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ghrr.files import TensorFile, check_fields, prefix_errors, restore_space, space_header, write_tensors
from ghrr.search.calibration import PRIOR
from ghrr.search.encoder import RecordEncoder
from ghrr.search.fields import make_field
from ghrr.search.paths import WHOLE, Path

FORMAT = "ghrr-record-fields"
VERSION = 3
_HEADER = {"space": dict, "kinds": dict, "whole": bool, "fields": list, "calibration": list}
_FIELD = {"path": list, "kind": str, "weight": float}


def write_encoder(path: FilePath, encoder: RecordEncoder, calibration: NDArray[np.float64]) -> str:
    """Write the space, the fields and their statistics, and the calibration of an index; return the checksum."""
    settings, tensors = space_header(encoder.space)
    stored: dict[str, Any] = dict(tensors)
    for number, field in enumerate(encoder.fields):
        if field.encoder is not None:
            stored |= {f"{number}.{name}": tensor for name, tensor in field.encoder.state().items()}
    header = {
        "space": settings,
        "kinds": encoder.kinds,
        "weights": encoder.given_weights,
        "whole": encoder.whole,
        "fields": [
            {"path": list(field.path), "kind": field.kind, "weight": float(field.weight), "doubt": field.doubt}
            for field in encoder.fields
        ],
        "calibration": [float(number) for number in calibration],
        "aliases": [[list(path), list(target)] for path, target in encoder.aliases.items()],
        "whole_paths": None if encoder.whole_paths is None else sorted(map(list, encoder.whole_paths)),
    }
    return write_tensors(path, header, stored, kind=FORMAT, version=VERSION)


def read_encoder(path: FilePath, checksum: str | None = None) -> tuple[RecordEncoder, NDArray[np.float64]]:
    """Read the encoder and the calibration that :func:`write_encoder` wrote, with this checksum."""
    file = TensorFile(path, kind=FORMAT, version=VERSION)
    file.close()
    header, tensors = file.header, file.tensors
    with prefix_errors(path):
        if checksum not in (None, file.checksum):
            raise ValueError("the file belongs to another index or to another save; restore the whole folder")
        check_fields("header", header, _HEADER)
        space, weights = restore_space(header["space"], tensors), header.get("weights")
        encoder = RecordEncoder(space, kinds=header["kinds"], weights=weights, whole=header["whole"])
        for number, stored in enumerate(header["fields"]):
            check_fields("a field", stored, _FIELD)
            doubt = stored.get("doubt", "")  # files of 0.3 have none
            check_fields("a field", {"doubt": doubt}, {"doubt": str})
            is_whole = stored["path"] == ([] if "weights" in header else ["*"])  # before version 3 it was a key
            field = make_field(WHOLE if is_whole else _as_path(stored["path"]), stored["kind"])
            field.weight, field.doubt = float(stored["weight"]), doubt
            if field.encoder is not None:
                prefix = f"{number}."
                own = {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
                field.encoder.restore(own)
            encoder.fields.append(field)
        if header.get("whole_paths") is not None:  # files of version 1 have none
            encoder.whole_paths = frozenset(map(_as_path, header["whole_paths"]))
        encoder.aliases = {_as_path(path): _as_path(target) for path, target in header.get("aliases", [])}
        calibration = np.array(header["calibration"], dtype=np.float64)
        if calibration.shape == (4,):  # of version 1, with another formula
            calibration = PRIOR.copy()
        if calibration.shape != (3,) or not np.isfinite(calibration).all() or not (calibration[1:] >= 0).all():
            raise ValueError("the calibration must be three numbers, an intercept and two slopes")
    return encoder, calibration


def _as_path(stored: Any) -> Path:
    if not isinstance(stored, list) or not stored or not all(isinstance(key, str) for key in stored):
        raise ValueError(f"a path must be a list of keys, got {stored!r:.80}")
    return tuple(stored)
