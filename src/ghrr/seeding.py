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

__all__ = ["labelled_generator", "labelled_uniform"]

Keys = NDArray[np.uint64]


def _digest(seed: int, *labels: str) -> bytes:
    # JSON separates labels unambiguously. The first string is the version of this format.
    return hashlib.sha256(json.dumps(["ghrr-1", seed, *labels]).encode()).digest()


def labelled_keys(names: Sequence[str], seed: int, *labels: str) -> Keys:
    """Return the key of a Philox stream for each name, which is the last label: ``(len(names), 2)``."""
    start = json.dumps(["ghrr-1", seed, *labels])[:-1] + ", "
    digests = [hashlib.sha256(f"{start}{encode_basestring_ascii(name)}]".encode()).digest()[:16] for name in names]
    # A copy is writable. For read-only arrays numba would compile its loops again.
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64).reshape(-1, 2)


def drawn_keys(count: int, generator: torch.Generator | None) -> Keys:
    """Draw keys of Philox streams from a generator on the CPU, ``(count, 2)``."""
    drawn = torch.empty((count, 2), dtype=torch.int64, device="cpu").random_(generator=generator)
    return drawn.numpy().view(np.uint64)


def philox_uniform(keys: Keys, count: int) -> Tensor:
    """Return uniform numbers in [0, 1) of 53 random bits from each Philox stream, ``(len(keys), count)``.

    NumPy guarantees that the raw stream of a bit generator never changes; torch does not guarantee this for its
    generators.
    """
    return torch.from_numpy((_raw_words(keys, count) >> np.uint64(11)) * 2.0**-53)


def slot_uniform(keys: Keys, slots: int, numbers: int) -> Tensor:
    """Return uniform numbers in [0, 1) of 32 random bits for each slot, ``(len(keys), slots, numbers)``.

    A word of the Philox stream gives two of them, the lower half first. A block of four words gives one number to each
    of eight slots: blocks 0 to ``numbers - 1`` belong to slots 0 to 7, the next ones to slots 8 to 15, and so on. So
    the numbers of a slot do not depend on how many slots there are, and a kernel computes eight slots with the same
    instructions.
    """
    groups = -(-slots // 8)
    words = _raw_words(keys, 4 * groups * numbers).astype("<u8", copy=False)
    halves = words.view("<u4").reshape(len(keys), groups, numbers, 8).swapaxes(-1, -2)
    return torch.from_numpy(halves * 2.0**-32).reshape(len(keys), 8 * groups, numbers)[:, :slots]


def _raw_words(keys: Keys, count: int) -> NDArray[np.uint64]:
    raw = [np.random.Philox(key=key).random_raw(count) for key in keys]
    return np.stack(raw) if raw else np.empty((0, count), dtype=np.uint64)


def labelled_uniform(count: int, seed: int, *labels: str) -> Tensor:
    """Return uniform numbers in [0, 1), in double precision, from the Philox stream of a seed and labels."""
    return philox_uniform(labelled_keys(labels[-1:], seed, *labels[:-1]), count)[0]


def labelled_generator(seed: int, *labels: str) -> torch.Generator:
    """Return a new torch generator, seeded by a hash of seed and labels."""
    return torch.Generator().manual_seed(int.from_bytes(_digest(seed, *labels)[:8], "little") >> 1)
