"""A small plan for the tests of plans and comparisons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ghrr_lab.lm import generate_grammar_text

PARAMETERS = 20_000
POSITIONS = {"position_sharing": "qkv", "trainable_positions": True}
PLAN: dict[str, Any] = {
    "parameters": PARAMETERS,
    "model": {"embed_dim": 16, "num_layers": 1, "num_heads": 2, "max_len": 8, "dropout": 0.1},
    "training": {"epochs": 1, "batch": 8, "warmup": 2},
    "runs": [
        {"label": "vanilla", "model": {"attention": "vanilla"}, "training": {"learning_rate": 0.01}, "seeds": [1]},
        {"label": "ghrr-feature", "variant": "qkv, trained", "model": POSITIONS, "seeds": [0, 1]},
    ],
}


def write_plan(folder: Path, **changes: Any) -> Path:
    """Write a plan for a small corpus in a folder called ptb, since the Penn Treebank may not be redistributed."""
    corpus = folder / "ptb"
    corpus.mkdir(exist_ok=True)
    for seed, split in enumerate(("train", "valid", "test")):
        (corpus / f"{split}.txt").write_text(generate_grammar_text(60, seed=seed))
    path = folder / "plan.json"
    path.write_text(json.dumps({"dataset": str(corpus), **PLAN, **changes}))
    return path
