"""Public names of ``ghrr.relations.chains``."""

from __future__ import annotations

from ghrr.relations import chains


def test_names_are_frozen() -> None:
    assert chains.__all__ == [
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
        "save_chains",
    ]


def test_every_name_has_an_executed_example() -> None:
    assert [name for name in chains.__all__ if ">>> " not in getattr(chains, name).__doc__] == []
