"""Random numbers that depend only on a seed and labels: not on earlier draws, nor on the machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from json.encoder import encode_basestring_ascii

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Keys = NDArray[np.uint64]


def _digest(seed: int, *labels: str) -> bytes:
    # JSON separates labels unambiguously. The first string is the version of this format.
    return hashlib.sha256(json.dumps(["ghrr-1", seed, *labels]).encode()).digest()


def labelled_keys(names: Sequence[str], seed: int, *labels: str) -> Keys:
    """Return the key of a Philox stream for each name, which is the last label: ``(len(names), 2)``."""
    start = json.dumps(["ghrr-1", seed, *labels])[:-1] + ", "
    digests = [hashlib.sha256(f"{start}{encode_basestring_ascii(name)}]".encode()).digest()[:16] for name in names]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64, copy=False).reshape(-1, 2)


def drawn_keys(count: int, generator: torch.Generator | None) -> Keys:
    """Draw keys of Philox streams from a generator on the CPU, ``(count, 2)``."""
    drawn = torch.empty((count, 2), dtype=torch.int64, device="cpu").random_(generator=generator)
    return drawn.numpy().view(np.uint64)


def philox_uniform(keys: Keys, count: int, *, halves: bool = False) -> Tensor:
    """Return uniform numbers in [0, 1) from each Philox stream, in double precision, ``(len(keys), count)``.

    They have 53 random bits or, with ``halves``, 32, two numbers per word. NumPy guarantees that the raw stream of a
    bit generator never changes; torch does not guarantee this for its generators.
    """
    words = -(-count // 2) if halves else count
    raw = [np.random.Philox(key=key).random_raw(words) for key in keys]
    stacked = np.stack(raw) if raw else np.empty((0, words), dtype=np.uint64)
    if not halves:
        return torch.from_numpy((stacked >> np.uint64(11)) * 2.0**-53)
    pair = np.stack([stacked & np.uint64(0xFFFFFFFF), stacked >> np.uint64(32)], axis=-1)
    return torch.from_numpy((pair * 2.0**-32).reshape(len(keys), 2 * words)[:, :count])


def labelled_uniform(count: int, seed: int, *labels: str) -> Tensor:
    """Return uniform numbers in [0, 1), in double precision, from the Philox stream of a seed and labels."""
    return philox_uniform(labelled_keys(labels[-1:], seed, *labels[:-1]), count)[0]


def labelled_generator(seed: int, *labels: str) -> torch.Generator:
    """Return a new torch generator, seeded by a hash of seed and labels."""
    return torch.Generator().manual_seed(int.from_bytes(_digest(seed, *labels)[:8], "little") >> 1)
