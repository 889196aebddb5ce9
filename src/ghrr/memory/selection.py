"""Which backend: a word or an object."""

from __future__ import annotations

import torch

from ghrr._checks import check_choice, describe
from ghrr.memory.backend import Backend
from ghrr.memory.backend_faiss import FaissBackend
from ghrr.memory.backend_milvus import TIMEOUT, MilvusBackend
from ghrr.memory.backend_torch import TorchBackend
from ghrr.memory.milvus_connection import hide_credentials
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
) -> Backend:
    """The backend that was asked for, which must fit the space and the storage."""
    for name, value in (("uri", uri), ("timeout", timeout)):
        if value is not None and backend != "milvus":
            shown = repr(hide_credentials(value, value)) if isinstance(value, str) else type(value).__name__
            raise ValueError(f'ItemMemory: {name} is for backend="milvus", got {shown} with backend={backend!r}')
    if storage is not None and not isinstance(storage, str):
        raise TypeError(f"ItemMemory: storage must be one of {', '.join(DTYPES)}, got {describe(storage)}")
    width = 2 * space.total_dim
    made: Backend
    if not isinstance(backend, str):
        made = backend
        if getattr(made, "width", None) != width:
            raise ValueError(f"ItemMemory: backend must keep rows of {width} numbers for {space}, got {describe(made)}")
    else:
        check_choice("ItemMemory", "backend (or an object)", backend, ("torch", "faiss", "milvus"))
        if backend == "torch":
            kept = storage or str(space.dtype.to_real()).removeprefix("torch.")
            check_choice("ItemMemory", "storage", kept, tuple(DTYPES))
            return TorchBackend(width, storage=kept, device=device)
        if backend == "faiss":
            made = FaissBackend(width)
        else:
            made = MilvusBackend(uri or "", space, timeout=TIMEOUT if timeout is None else timeout)
    if storage not in (None, made.storage):
        check_choice("ItemMemory", f"storage with {type(made).__name__}", storage, (made.storage,))
    return made
