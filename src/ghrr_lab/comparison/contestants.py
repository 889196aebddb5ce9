"""The models of a comparison and their sizes: every model at an equal number of reals and at equal bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ghrr import models
from ghrr_lab.paper.experiment import Params, Settings

# Bytes of a real in single precision. Models that store smaller numbers have two entries, one for each budget.
BYTES_PER_REAL = 4
REALS, BYTES, BOTH = "reals", "bytes", "both"
COMPACT = ("bsc", "sbc")
DIAGONALITIES = tuple(name for name in models.MODELS if "diagonality" in name)
CORE = tuple(name for name in models.MODELS if name not in DIAGONALITIES)
NOT_CLOSED = "tpr"

TITLES: Mapping[str, str] = {
    "fhrr": "FHRR",
    "hrr": "HRR",
    "hrr-unitary": "HRR, unitary",
    "map": "MAP",
    "map-continuous": "MAP, continuous",
    "bsc": "BSC",
    "sbc": "SBC",
    "vtb": "VTB",
    "mbat": "MBAT",
    "smr": "SMR",
    "tpr": "TPR",
    "hlb": "HLB",
    **{f"ghrr-{m}": f"GHRR, m = {m}" for m in (1, 2, 3, 4)},
    **{name: f"GHRR, m = 3, diagonality {name.rpartition('-')[2]}" for name in DIAGONALITIES},
}


def contestants(names: Iterable[str]) -> list[Params]:
    """Return the entries of a comparison: a model and its budget.

    Examples
    --------
    >>> contestants(["fhrr", "bsc"])
    [{'model': 'fhrr', 'budget': 'both'}, {'model': 'bsc', 'budget': 'reals'}, {'model': 'bsc', 'budget': 'bytes'}]
    """
    return [
        {"model": name, "budget": budget}
        for name in names
        for budget in ((REALS, BYTES) if name in COMPACT else (BOTH,))
    ]


def sized(params: Params, settings: Settings, order: int = 1) -> models.Architecture:
    """Return the model of an entry, at the budget of the settings.

    Examples
    --------
    >>> sized({"model": "bsc", "budget": "bytes"}, {"reals": 576}).dim
    18432
    """
    reals = settings["reals"]
    if params["budget"] == BYTES:
        return models.make(params["model"], nbytes=BYTES_PER_REAL * reals, order=order)
    return models.make(params["model"], reals=reals, order=order)


def title(model: str, budget: str) -> str:
    """Return the name of an entry in figures and tables.

    Examples
    --------
    >>> title("fhrr", "both"), title("bsc", "bytes")
    ('FHRR', 'BSC, equal bytes')
    """
    return TITLES[model] + {REALS: ", equal numbers", BYTES: ", equal bytes", BOTH: ""}[budget]
