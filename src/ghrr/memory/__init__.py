"""Memory: store hypervectors by label, find the most similar ones, and judge whether an answer can be trusted.

From an item to an answer, file by file: ``item_memory`` (:class:`ItemMemory`: checks arguments) → ``items`` (changes,
one at a time) and ``state`` (the content at one moment, which is read) → ``labels`` and ``storage`` (labels and number
types) → ``backends`` (where rows are stored) → ``search`` (the largest dot products) → ``match`` (judge scores, make a
:class:`Match`). ``persistence``, ``folder`` and ``segment`` read and write files. ``factorization`` finds the factors
of products, and ``decorrelation`` separates hypervectors that are similar to each other.
"""

from ghrr.memory.backends import Backend, Bound, FaissBackend, MilvusBackend, TorchBackend
from ghrr.memory.factorization import Factors, resonator
from ghrr.memory.item_memory import ItemMemory
from ghrr.memory.match import Answer, Match, answer_noise, judge, make_matches
from ghrr.memory.search import Cleanup

__all__ = [
    "Answer",
    "Backend",
    "Bound",
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
