"""Reasoning over chains of relations: the sister of a father is an aunt.

:class:`RelationChains` learns one hypervector per relation from short chains and composes long ones. See
:mod:`~ghrr.relations.chains.products` for the model and :mod:`~ghrr.relations.chains.chart` for the search.
"""

from ghrr.relations.chains.chart import compose_left_to_right, fill_chart
from ghrr.relations.chains.clutrr import Clutrr, Stories, load_clutrr
from ghrr.relations.chains.derivation import Derivation
from ghrr.relations.chains.examples import Example
from ghrr.relations.chains.kinship import (
    KINSHIP_NAMES,
    KINSHIPS,
    generate_kinship_chains,
    kinship_rules,
    possible_kinships,
)
from ghrr.relations.chains.lengthening import lengthen_chains
from ghrr.relations.chains.model import ComposedMatch, RelationChains
from ghrr.relations.chains.saving import load_chains, save_chains
from ghrr.relations.chains.training import ChainProgress, TrainingConfig

__all__ = [
    "KINSHIPS",
    "KINSHIP_NAMES",
    "ChainProgress",
    "Clutrr",
    "ComposedMatch",
    "Derivation",
    "Example",
    "RelationChains",
    "Stories",
    "TrainingConfig",
    "compose_left_to_right",
    "fill_chart",
    "generate_kinship_chains",
    "kinship_rules",
    "lengthen_chains",
    "load_chains",
    "load_clutrr",
    "possible_kinships",
    "save_chains",
]
