"""Random numbers that depend on a seed and a label alone: not on what was drawn before, nor on the machine."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import torch
from torch import Tensor


def _digest(seed: int, *labels: str) -> bytes:
    # JSON keeps labels apart whatever they contain; the leading word would change if the recipe ever did.
    return hashlib.sha256(json.dumps(["ghrr-1", seed, *labels]).encode()).digest()


def labelled_uniform(count: int, seed: int, *labels: str) -> Tensor:
    """Uniform numbers in [0, 1), in double precision: the Philox stream whose key is a hash of seed and labels.

    NumPy promises that the raw stream of a bit generator never changes, which torch does not promise for its
    generators.
    """
    key = int.from_bytes(_digest(seed, *labels)[:16], "little")
    raw = np.random.Philox(key=key).random_raw(count)
    return torch.from_numpy((raw >> np.uint64(11)) * 2.0**-53)


def labelled_generator(seed: int, *labels: str) -> torch.Generator:
    """A fresh torch generator seeded by a hash of seed and labels."""
    return torch.Generator().manual_seed(int.from_bytes(_digest(seed, *labels)[:8], "little") >> 1)
