"""Which backend: a word or an object."""

from __future__ import annotations

import torch

from ghrr._checks import check_choice, describe
from ghrr.memory.backend import Backend
from ghrr.memory.backend_faiss import FaissBackend
from ghrr.memory.backend_milvus import MilvusBackend
from ghrr.memory.backend_torch import TorchBackend
from ghrr.memory.storage import DTYPES
from ghrr.space import Space


def make_backend(
    space: Space, storage: str | None, backend: str | Backend, device: torch.device, uri: str | None
) -> Backend:
    """The backend that was asked for, which must fit the space and the storage."""
    if uri is not None and backend != "milvus":
        raise ValueError(f'ItemMemory: uri is for backend="milvus", got {uri!r} with backend={backend!r}')
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
        made = FaissBackend(width) if backend == "faiss" else MilvusBackend(uri or "", space)
    if storage not in (None, made.storage):
        check_choice("ItemMemory", f"storage with {type(made).__name__}", storage, (made.storage,))
    return made
