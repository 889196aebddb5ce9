"""All models by name, with their settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ghrr.checks import check_known, names_errors
from ghrr.models.bsc import BSC
from ghrr.models.fhrr import FHRR
from ghrr.models.ghrr import GHRR
from ghrr.models.hlb import HLB
from ghrr.models.hrr import HRR
from ghrr.models.map import MAP
from ghrr.models.mbat import MBAT
from ghrr.models.protocol import Architecture
from ghrr.models.sbc import SBC
from ghrr.models.smr import SMR
from ghrr.models.tpr import TPR
from ghrr.models.vtb import VTB


@dataclass(frozen=True)
class _Entry:
    """A class and its settings."""

    model: type[Architecture]
    settings: Mapping[str, Any] = field(default_factory=dict)


#: The models by name. GHRR is listed with m = 1 to 4, and with m = 3 at several diagonalities.
MODELS: Mapping[str, _Entry] = {
    "fhrr": _Entry(FHRR),
    "hrr": _Entry(HRR),
    "hrr-unitary": _Entry(HRR, {"unitary": True}),
    "map": _Entry(MAP),
    "map-continuous": _Entry(MAP, {"values": "continuous"}),
    "bsc": _Entry(BSC),
    "sbc": _Entry(SBC),
    "vtb": _Entry(VTB),
    "mbat": _Entry(MBAT),
    "smr": _Entry(SMR),
    "tpr": _Entry(TPR),
    "hlb": _Entry(HLB),
    **{f"ghrr-{m}": _Entry(GHRR, {"m": m}) for m in (1, 2, 3, 4)},
    **{f"ghrr-3-diagonality-{d}": _Entry(GHRR, {"m": 3, "diagonality": d}) for d in (0.0, 0.5, 0.75, 1.0)},
}


@names_errors("models.make")
def make(name: str, *, reals: int | None = None, nbytes: int | None = None, order: int = 1) -> Architecture:
    """Return the model of this name whose vectors are nearest to a number of reals or of bytes.

    See :meth:`Architecture.sized` for the parameters.

    Examples
    --------
    >>> from ghrr import models
    >>> models.make("ghrr-3", reals=1800)
    GHRR(dim=100, m=3)
    >>> models.make("hhr", reals=100)
    Traceback (most recent call last):
    ValueError: models.make: unknown model 'hhr', expected one of fhrr, hrr, ...; did you mean 'hrr'?
    """
    check_known("model", name, MODELS)
    entry = MODELS[name]
    return entry.model.sized(reals=reals, nbytes=nbytes, order=order, **entry.settings)
