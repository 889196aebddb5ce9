"""Structures: nested data as one hypervector, with encode, query and decode."""

from ghrr.structures.automaton import Automaton, Run
from ghrr.structures.chain import Chain
from ghrr.structures.fullness import CapacityWarning
from ghrr.structures.graph import Graph
from ghrr.structures.hash_table import HashTable
from ghrr.structures.multiset import Set
from ghrr.structures.ngrams import NGrams
from ghrr.structures.planning import answer_rate
from ghrr.structures.reading import MISSING, Answers, MatchDict, MatchList, Reading
from ghrr.structures.record import Record, Scale, parse_json
from ghrr.structures.sequence import Sequence
from ghrr.structures.stack import Stack
from ghrr.structures.tree import Tree
from ghrr.structures.vocabulary import Vocabulary

__all__ = [
    "MISSING",
    "Answers",
    "Automaton",
    "CapacityWarning",
    "Chain",
    "Graph",
    "HashTable",
    "MatchDict",
    "MatchList",
    "NGrams",
    "Reading",
    "Record",
    "Run",
    "Scale",
    "Sequence",
    "Set",
    "Stack",
    "Tree",
    "Vocabulary",
    "answer_rate",
    "parse_json",
]
