"""Engines: where the vectors of an index are stored and searched, and how a folder records it.

The torch and faiss engines keep their vectors in the folder of the index. Milvus and LanceDB keep them in their own
store; the folder has the documents, the fields and the address.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import torch

from ghrr.checks import check_choice
from ghrr.files import check_fields
from ghrr.memory import Backend, FaissBackend, ItemMemory, MilvusBackend, TorchBackend
from ghrr.memory.backends import make_backend
from ghrr.memory.backends.milvus_connection import hide_credentials
from ghrr.memory.storage import DTYPES
from ghrr.space import Space

ENGINES = ("torch", "faiss", "milvus", "lancedb")
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "backend": str,
    "uri": (str, type(None)),
    "collection": (str, type(None)),
    "approximate": bool,
}
_SCHEME = re.compile(r"[A-Za-z][\w+.-]+:")  # of an address that is not a path


def make_engine(
    space: Space, storage: str | None, backend: str | Backend, uri: str | None, *, approximate: bool = False
) -> Backend:
    """Return the backend of an item memory; parameters as in :class:`ghrr.search.RecordIndex`."""
    if storage is not None:
        check_choice("RecordIndex", "storage", storage, tuple(DTYPES))
    if not isinstance(backend, str) and hasattr(backend, "search"):
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


def may_miss(engine: Backend) -> bool:
    """Whether an engine may miss records, because it was asked to be approximate."""
    return bool(getattr(engine, "approximate", False))


def can_be_saved(engine: Backend) -> bool:
    """Whether a folder can record the engine: not objects of your own classes."""
    return keeps_vectors_in_folder(engine) or hasattr(engine, "uri")


def describe_engine(folder: Path, engine: Backend) -> dict[str, Any]:
    """Return what a folder records of an engine. Passwords are not part of it."""
    names = {TorchBackend: "torch", FaissBackend: "faiss", MilvusBackend: "milvus"}
    return {
        "backend": names.get(type(engine), "lancedb"),
        "uri": _stored_address(folder, getattr(engine, "uri", None)),
        "collection": getattr(engine, "collection", None),
        "approximate": may_miss(engine),
    }


def _stored_address(folder: Path, uri: str | None) -> str | None:
    """Return the address to store: relative for a path inside the folder, so that the folder can be moved."""
    if uri is None or _SCHEME.match(uri):
        return None if uri is None else hide_credentials(uri, uri)
    path = os.path.realpath(uri)
    return os.path.relpath(path, folder) if _is_inside(path, folder) else path


def _is_inside(path: str, folder: Path) -> bool:
    inner, outer = os.path.realpath(path), os.path.realpath(folder)
    return inner != outer and os.path.commonpath([inner, outer]) == outer


def check_engine(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings from a file; raise ValueError unless they are as :func:`describe_engine` makes them."""
    check_fields("engine", settings, _FIELDS)
    check_choice("engine", "backend", settings["backend"], ENGINES)
    return settings


def _address(folder: Path, stored: str | None, given: str | None) -> str:
    """Return the address of an engine: the given one, or the stored one if that is a path inside the folder."""
    if given is not None:
        return given
    if stored and not _SCHEME.match(stored) and _is_inside(str(folder / stored), folder):
        return str(folder / stored)
    raise ValueError(
        f"RecordIndex.open({str(folder)!r}): the vectors are at {stored!r}, outside the folder, which may be wrong or "
        f"need a password; give the address that you trust, uri=..."
    )


def open_memory(
    folder: Path, vectors: Path, space: Space, settings: dict[str, Any], uri: str | None
) -> tuple[ItemMemory, Backend]:
    """Return the item memory of a saved index and its engine. Nothing is created.

    Parameters
    ----------
    folder, vectors
        Folder of the index, and where the engines that keep their vectors in it have them.
    space
        Space of the vectors.
    settings
        Of :func:`check_engine`.
    uri
        Address that the user gave.
    """
    name, approximate = settings["backend"], settings["approximate"]
    if name == "torch":
        memory = ItemMemory.open(vectors, space=space)
        return memory, TorchBackend(2 * space.total_dim, storage=memory.storage, device=torch.device("cpu"))
    if name == "faiss":
        engine: Backend = FaissBackend(2 * space.total_dim, approximate=approximate)
        return ItemMemory.load(vectors, space=space, backend=engine), engine
    address = _address(folder, settings["uri"], uri)
    if name == "milvus":
        collection = settings["collection"]
        engine = MilvusBackend(address, space, collection=collection, approximate=approximate, create=False)
    else:
        from ghrr.search.lance_backend import LanceBackend  # noqa: PLC0415 (an optional package)

        engine = LanceBackend(2 * space.total_dim, address, approximate=approximate, create=False)
    return ItemMemory(space, backend=engine), engine
