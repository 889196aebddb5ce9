"""Selection: make the backend that the arguments of :class:`ghrr.memory.ItemMemory` describe."""

from __future__ import annotations

import torch

from ghrr.checks import check_choice, describe, type_error, value_error
from ghrr.memory.backends.faiss_backend import FaissBackend
from ghrr.memory.backends.milvus_backend import TIMEOUT, MilvusBackend
from ghrr.memory.backends.milvus_connection import hide_credentials
from ghrr.memory.backends.protocol import Backend
from ghrr.memory.backends.torch_backend import TorchBackend
from ghrr.memory.storage import DTYPES
from ghrr.space import Space


def make_backend(
    space: Space,
    storage: str | None,
    backend: str | Backend,
    device: torch.device,
    *,
    uri: str | None,
    timeout: float | None,
    approximate: bool = False,
) -> Backend:
    """Return a backend that fits the space and the storage type; parameters as in :class:`ItemMemory`."""
    for name, value in (("uri", uri), ("timeout", timeout)):
        if value is not None and backend != "milvus":
            shown = repr(hide_credentials(value, value)) if isinstance(value, str) else type(value).__name__
            raise value_error(f'{name} needs backend="milvus", got {name} {shown} with backend={backend!r}')
    if approximate and backend not in ("faiss", "milvus"):
        raise value_error(
            f'approximate=True needs backend="faiss" or "milvus", got {describe(backend)}, which is exact'
        )
    if storage is not None and not isinstance(storage, str):
        raise type_error(f"storage must be one of {', '.join(DTYPES)}, got {describe(storage)}")
    width = 2 * space.total_dim
    result: Backend
    if not isinstance(backend, str):
        result = backend
        if getattr(result, "width", None) != width:
            raise value_error(f"backend must have width {width} for {space}, got {describe(result)}")
    else:
        check_choice("backend (or an object)", backend, ("torch", "faiss", "milvus"))
        if backend == "torch":
            given = str(space.dtype.to_real()).removeprefix("torch.") if storage is None else storage
            check_choice("storage", given, tuple(DTYPES))
            return TorchBackend(width, storage=given, device=device)
        if backend == "faiss":
            result = FaissBackend(width, approximate=approximate)
        else:
            seconds = TIMEOUT if timeout is None else timeout
            result = MilvusBackend(uri or "", space, timeout=seconds, approximate=approximate)
    if storage not in (None, result.storage):
        check_choice(f"storage with {type(result).__name__}", storage, (result.storage,))
    return result
