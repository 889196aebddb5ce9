"""Memory: store hypervectors by label, find the most similar ones, and judge whether an answer can be trusted.

From an item to an answer, file by file: :mod:`~ghrr.memory.item_store` (add, remove, save) →
:mod:`~ghrr.memory.labels` and :mod:`~ghrr.memory.storage` (labels and number types) → :mod:`~ghrr.memory.backends`
(where rows are stored) → :mod:`~ghrr.memory.search` (the largest dot products) → :mod:`~ghrr.memory.item_memory`
(cleanup, match) → :mod:`~ghrr.memory.match` (judge scores, make a :class:`Match`). :mod:`~ghrr.memory.state` is the
content at one moment. :mod:`~ghrr.memory.persistence`, :mod:`~ghrr.memory.folder` and :mod:`~ghrr.memory.segment`
read and write files. :mod:`~ghrr.memory.factorization` finds the factors of products, and
:mod:`~ghrr.memory.decorrelation` separates hypervectors that are similar to each other.
"""

from ghrr.memory.backends import Backend, FaissBackend, MilvusBackend, TorchBackend
from ghrr.memory.factorization import Factors, resonator
from ghrr.memory.item_memory import Cleanup, ItemMemory
from ghrr.memory.match import Match, answer_noise, judge, make_matches

__all__ = [
    "Backend",
    "Cleanup",
    "Factors",
    "FaissBackend",
    "ItemMemory",
    "Match",
    "MilvusBackend",
    "TorchBackend",
    "answer_noise",
    "judge",
    "make_matches",
    "resonator",
]
