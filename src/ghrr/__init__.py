"""Generalized Holographic Reduced Representations: computing with structured high-dimensional vectors.

A hypervector is a complex tensor ``(*batch, dim, m, m)``: ``dim`` slots, each an m x m unitary matrix. Binding is the
matrix product in every slot, so order matters; bundling is the sum; m = 1 is FHRR.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ghrr import ops, unitary
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
from ghrr.ops import backend
from ghrr.space import Space

if TYPE_CHECKING:
    from ghrr import encoding as encoding
    from ghrr import learn as learn
    from ghrr import memory as memory
    from ghrr import models as models
    from ghrr import nn as nn
    from ghrr import reasoning as reasoning
    from ghrr import relations as relations
    from ghrr import search as search
    from ghrr import structures as structures
    from ghrr import testing as testing
    from ghrr.memory import ItemMemory as ItemMemory
    from ghrr.memory import Match as Match
    from ghrr.memory import resonator as resonator
    from ghrr.structures import Record as Record

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
_LAZY = ("encoding", "learn", "memory", "models", "nn", "reasoning", "relations", "search", "structures", "testing")
_LAZY_NAMES = {"ItemMemory": "memory", "Match": "memory", "Record": "structures", "resonator": "memory"}
_MOVED = ("lm", "paper")


def __getattr__(name: str) -> Any:
    if name in (*_LAZY, *_MOVED):
        return importlib.import_module(f"ghrr.{name}")
    if name in _LAZY_NAMES:
        value = getattr(importlib.import_module(f"ghrr.{_LAZY_NAMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'ghrr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_LAZY_NAMES})
