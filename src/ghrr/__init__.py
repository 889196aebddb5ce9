"""Generalized Holographic Reduced Representations: computing with structured high-dimensional vectors.

A hypervector is a complex tensor ``(*batch, dim, m, m)``: ``dim`` slots, each an m x m unitary matrix. Binding is the
matrix product in every slot, so order matters; bundling is the sum; m = 1 is FHRR.
"""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

from ghrr import encoding, memory, ops, structures, unitary
from ghrr.algebra import (
    adjoint,
    bind,
    bind_bundle,
    bundle,
    commutativity,
    commutator,
    multibind,
    normalize,
    pairwise_similarity,
    power,
    shift,
    similarity,
    unbind,
    unbind_similarity,
)
from ghrr.files import load, save
from ghrr.hypervector import Hypervector
from ghrr.memory import ItemMemory, Match, resonator
from ghrr.ops import backend
from ghrr.space import Space
from ghrr.structures import Record

if TYPE_CHECKING:
    from ghrr import learn as learn
    from ghrr import models as models
    from ghrr import nn as nn
    from ghrr import reasoning as reasoning
    from ghrr import relations as relations
    from ghrr import search as search
    from ghrr import testing as testing

__version__ = "0.4.0"

__all__ = [
    "Hypervector",
    "ItemMemory",
    "Match",
    "Record",
    "Space",
    "__version__",
    "adjoint",
    "backend",
    "bind",
    "bind_bundle",
    "bundle",
    "commutativity",
    "commutator",
    "encoding",
    "load",
    "memory",
    "models",
    "multibind",
    "nn",
    "normalize",
    "ops",
    "pairwise_similarity",
    "power",
    "resonator",
    "save",
    "shift",
    "similarity",
    "structures",
    "testing",
    "unbind",
    "unbind_similarity",
    "unitary",
]

# Imported on first use, since they take long to import. Those that need optional packages are not in __all__.
_LAZY = ("learn", "models", "nn", "reasoning", "relations", "search", "testing")
_MOVED = ("lm", "paper")


def __getattr__(name: str) -> ModuleType:
    if name in (*_LAZY, *_MOVED):
        return importlib.import_module(f"ghrr.{name}")
    raise AttributeError(f"module 'ghrr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
