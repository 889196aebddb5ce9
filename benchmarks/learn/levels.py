"""Compiled encoder of torch-hd's classifiers with levels, for CPUs.

torch-hd binds the key of each feature with the level of its value and adds the features. It makes an array of samples x
features x dimensions for it, which takes five minutes for the 60,000 images of MNIST. All numbers are 1 and -1, so one
loop over bytes gives the same sums, exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torchhd
from torch import Tensor

from ghrr.ops.cpu.compilation import compiled

_MOST_FEATURES = np.iinfo(np.int16).max  # sums are 16-bit integers


def level_sums(keys: Any, levels: Any) -> Callable[[Tensor], Any]:
    """Return a function from samples ``(n, features)`` to their sums of bound levels, ``(n, dimensions)``.

    Parameters
    ----------
    keys, levels
        Embeddings of torch-hd with numbers 1 and -1: ``Random``, and ``Level`` or ``Thermometer``.
    """
    tables = [embedding.weight.detach().as_subclass(Tensor) for embedding in (keys, levels)]
    if not all((table.abs() == 1).all() for table in tables) or len(tables[0]) > _MOST_FEATURES:
        raise ValueError(f"level_sums: keys and levels must be 1 or -1, of at most {_MOST_FEATURES:,} features")
    key_bytes, level_bytes = (table.to(torch.int8).numpy() for table in tables)

    def encode(samples: Tensor) -> Any:
        most = levels.num_embeddings - 1
        index = torchhd.functional.value_to_index(samples, levels.low, levels.high, most + 1).clamp(0, most)
        sums = np.zeros((len(samples), tables[0].shape[1]), dtype=np.int16)
        _add(key_bytes, level_bytes, index.numpy(), sums)
        return torch.from_numpy(sums).float().as_subclass(torchhd.MAPTensor)

    return encode


@compiled
def _add(keys: Any, levels: Any, index: Any, sums: Any) -> None:
    for sample in range(index.shape[0]):
        for feature in range(index.shape[1]):
            key, level = keys[feature], levels[index[sample, feature]]
            for d in range(sums.shape[1]):
                sums[sample, d] += key[d] * level[d]
