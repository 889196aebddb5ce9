"""Public names of ``ghrr.relations.chains``."""

from __future__ import annotations

from ghrr.relations import chains


def test_names_are_frozen() -> None:
    assert chains.__all__ == [
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


def test_every_name_has_an_executed_example() -> None:
    functions = [name for name in chains.__all__ if not name.isupper()]
    assert [name for name in functions if ">>> " not in getattr(chains, name).__doc__] == []
