"""Backends: where the rows of an :class:`ghrr.memory.ItemMemory` are stored and searched.

- :mod:`~ghrr.memory.backends.protocol`: the methods that every backend has
- :mod:`~ghrr.memory.backends.bounds`: conditions on numbers that are stored with the rows
- :mod:`~ghrr.memory.backends.selection`: from the ``backend=`` argument to a backend
- :mod:`~ghrr.memory.backends.torch_backend`: the default, on a CPU or GPU, in memory and in files
- :mod:`~ghrr.memory.backends.faiss_backend`: faiss
- :mod:`~ghrr.memory.backends.milvus_backend`: Milvus, with its ``milvus_connection`` and ``milvus_journal``
"""

from ghrr.memory.backends.bounds import Bound, Columns, check_bounds, check_columns
from ghrr.memory.backends.faiss_backend import FaissBackend
from ghrr.memory.backends.milvus_backend import MilvusBackend
from ghrr.memory.backends.protocol import Backend, as_filtering, can_filter, has_snapshots
from ghrr.memory.backends.selection import make_backend
from ghrr.memory.backends.torch_backend import TorchBackend

__all__ = [
    "Backend",
    "Bound",
    "Columns",
    "FaissBackend",
    "MilvusBackend",
    "TorchBackend",
    "as_filtering",
    "can_filter",
    "check_bounds",
    "check_columns",
    "has_snapshots",
    "make_backend",
]
