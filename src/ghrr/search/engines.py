"""Engines: where the vectors of an index are stored and searched, and how a folder records it.

The torch and faiss engines keep their vectors in the folder of the index. Milvus and LanceDB keep them in their own
store; the folder has the documents, the fields and the address.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ghrr._checks import check_choice
from ghrr.files import check_fields, prefix_errors, read_json, write_json
from ghrr.memory import Backend, FaissBackend, ItemMemory, MilvusBackend, TorchBackend
from ghrr.memory.backends import make_backend
from ghrr.space import Space

NAME = "engine.json"
VERSION = 1
ENGINES = ("torch", "faiss", "milvus", "lancedb")
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "version": int,
    "backend": str,
    "uri": (str, type(None)),
    "collection": (str, type(None)),
    "approximate": bool,
}


def make_engine(
    space: Space, storage: str | None, backend: str | Backend, uri: str | None, *, approximate: bool = False
) -> Backend:
    """Return the backend of an item memory; parameters as in :class:`ghrr.search.RecordIndex`."""
    if not isinstance(backend, str):
        return backend
    check_choice("RecordIndex", "backend (or an object)", backend, ENGINES)
    if approximate and backend == "torch":
        raise ValueError(
            'RecordIndex: approximate=True needs another engine, got backend="torch", which is exact; use '
            '"faiss", "milvus" or "lancedb"'
        )
    if backend != "torch" and storage is not None:
        check_choice("RecordIndex", f"storage with {backend}", storage, ("float32",))
    if backend == "lancedb":
        from ghrr.search.lance_backend import LanceBackend  # noqa: PLC0415 (an optional package)

        if not uri:
            raise ValueError('RecordIndex: backend="lancedb" needs a folder, got none; give uri="folder"')
        return LanceBackend(2 * space.total_dim, uri, approximate=approximate)
    if backend == "milvus" and uri:
        return MilvusBackend(uri, space, collection="records", approximate=approximate)
    storage = storage or ("int8" if backend == "torch" else None)
    return make_backend(space, storage, backend, torch.device("cpu"), uri=uri, timeout=None, approximate=approximate)


def keeps_vectors_in_folder(engine: Backend) -> bool:
    """Whether :meth:`ghrr.ItemMemory.commit` writes the vectors to the folder of the index."""
    return isinstance(engine, TorchBackend | FaissBackend)


def can_be_saved(engine: Backend) -> bool:
    """Whether a folder can record the engine: not objects of your own classes."""
    return keeps_vectors_in_folder(engine) or hasattr(engine, "uri")


def write_engine(folder: Path, engine: Backend, recall: float | None) -> None:
    """Record an engine other than torch in the folder of an index. Passwords are not written."""
    if isinstance(engine, TorchBackend):
        return
    name = {FaissBackend: "faiss", MilvusBackend: "milvus"}.get(type(engine), "lancedb")
    settings = {
        "version": VERSION,
        "backend": name,
        "uri": _absolute(getattr(engine, "uri", None)),
        "collection": getattr(engine, "collection", None),
        "approximate": getattr(engine, "approximate", False),
        "recall": recall,
    }
    write_json(folder / NAME, settings)


def _absolute(uri: str | None) -> str | None:
    return uri if uri is None or "://" in uri else str(Path(uri).absolute())


def open_memory(folder: Path, vectors: Path, space: Space, uri: str | None) -> tuple[ItemMemory, Any, float | None]:
    """Return the item memory of a saved index, its engine, and its recall if that was measured."""
    path = folder / NAME
    if not path.exists():
        memory = ItemMemory.open(vectors, space=space)
        return memory, TorchBackend(2 * space.total_dim, storage=memory.storage, device=torch.device("cpu")), None
    with prefix_errors(f"RecordIndex.open({str(path)!r})"):
        settings = check_fields("engine", read_json(path, "RecordIndex.open"), _FIELDS)
        if settings["version"] > VERSION:
            raise ValueError(f"version {settings['version']} is newer than this one ({VERSION}); update ghrr")
        check_choice("engine", "backend", settings["backend"], ENGINES)
        address = uri or settings["uri"]
        if address and "***" in address:
            raise ValueError("the address needs a password, which is not stored; give uri= with it")
    approximate, recall = settings["approximate"], settings.get("recall")
    if settings["backend"] == "faiss":
        engine: Backend = FaissBackend(2 * space.total_dim, approximate=approximate)
        return ItemMemory.load(vectors, space=space, backend=engine), engine, recall
    if settings["backend"] == "milvus":
        engine = MilvusBackend(address or "", space, collection=settings["collection"], approximate=approximate)
    else:
        engine = make_engine(space, None, settings["backend"], address, approximate=approximate)
    return ItemMemory(space, backend=engine), engine, recall
