"""Memory: items by label with exact cleanup, answers that say how sure they are, factors of products."""

from ghrr.memory.backend import Backend
from ghrr.memory.backend_faiss import FaissBackend
from ghrr.memory.backend_milvus import MilvusBackend
from ghrr.memory.backend_torch import TorchBackend
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
