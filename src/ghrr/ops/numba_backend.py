"""Operations for which numba has a faster loop on the CPU, and when to use it.

Same names and meaning as :mod:`ghrr.ops.reference`. numba is optional: ``pip install 'ghrr[fast]'``. It is imported,
and its loops compiled (then kept on disk), when the first tensor arrives that is worth it.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from ghrr.ops import torch_backend

# Below so many phases torch is done before numba is imported.
_WORTH_IT = 1 << 18


def suits_fractional_power(rotation: Tensor, frequencies: Tensor, x: Tensor) -> bool:
    """Single precision on the CPU, nothing to differentiate, many phases, none of them huge, and numba is there."""
    phases = x.shape[:-1].numel() * frequencies.shape[-3:-1].numel()
    return (
        phases >= _WORTH_IT
        and {rotation.dtype, frequencies.dtype, x.dtype} == {torch.complex64, torch.float32}
        and {rotation.device.type, frequencies.device.type, x.device.type} == {"cpu"}
        and torch_backend.needs_no_derivative(rotation, frequencies, x)
        and (kernels := _kernels()) is not None
        and _largest_norm(frequencies) * _largest_norm(x) <= kernels.LARGEST_ANGLE  # false for NaN
    )


def _largest_norm(rows: Tensor) -> float:
    return float(torch.linalg.vector_norm(rows, dim=-1).amax())


def fractional_power(rotation: Tensor, frequencies: Tensor, x: Tensor) -> Tensor:
    """As the specification, for what :func:`suits_fractional_power` allows."""
    kernels = _kernels()
    assert kernels is not None
    rotate = kernels.rotate_kernel(rotation.shape[-1])
    q, iq = (torch.view_as_real(part).flatten().numpy() for part in (rotation.resolve_conj(), 1j * rotation))

    def fill(angles: Tensor, out: Tensor) -> None:
        from_angles, to = angles.numpy(), torch.view_as_real(out).flatten(start_dim=1).numpy()
        _in_threads(lambda part: rotate(from_angles[part], q, iq, to[part]), len(angles))

    return torch_backend.encode_rows(rotation, frequencies, x, fill)


@functools.cache
def _kernels() -> ModuleType | None:
    if importlib.util.find_spec("numba") is None:
        return None
    try:
        from ghrr.ops import numba_kernels  # noqa: PLC0415 (numba takes long to import)
    except ImportError as error:
        warnings.warn(f"ghrr goes on without numba, which cannot be imported: {error}", RuntimeWarning, stacklevel=2)
        return None
    return numba_kernels


def _in_threads(work: Callable[[slice], Any], rows: int) -> None:
    """Share rows out over as many threads as torch uses; the loops release the interpreter's lock.

    numba's own threads would end the process when two threads of the caller meet in them, or after a fork.
    """
    count = min(torch.get_num_threads(), rows)
    edges = [rows * n // count for n in range(count + 1)]
    parts = [slice(*pair) for pair in itertools.pairwise(edges)]
    waiting = [_pool(os.getpid(), count - 1).submit(work, part) for part in parts[1:]]
    work(parts[0])
    for one in waiting:
        one.result()


@functools.cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """One pool for each process: a fork takes the pool along, but not its threads."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"ghrr-{process}")
