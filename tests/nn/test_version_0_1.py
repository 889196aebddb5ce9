"""Weights stored by ghrr 0.1: their names, and the outputs that they gave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from ghrr.nn import Attention
from tests.helpers import rounding

STORED = Path(__file__).parent / "version_0_1" / "attention.safetensors"
NAMES = {
    "kv_heads": "num_kv_heads",
    "position_trainable": "trainable_positions",
    "phases_trainable": "trainable_phases",
    "spread": "phase_std",
    "unit_rows": "normalize_rows",
}


def stored(name: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The settings of a stored layer under today's names, and its tensors."""
    with safe_open(STORED, "pt") as file:
        settings = json.loads(file.metadata()["settings"])[name]
        keys = [key for key in file.keys() if key.startswith(f"{name}/")]  # noqa: SIM118 (cannot be iterated over)
        tensors = {key.removeprefix(f"{name}/"): file.get_tensor(key) for key in keys}
    return {NAMES.get(key, key): value for key, value in settings.items()}, tensors


@pytest.mark.parametrize(
    "name",
    [
        *("feature", "feature grouped", "feature split learned", "feature own slots"),
        *("row", "bundle", "dense", "representation"),
    ],
)
def test_stored_weights_give_the_stored_output(name: str) -> None:
    settings, tensors = stored(name)
    attention = Attention(**settings).eval()
    state = {key.removeprefix("state/"): value for key, value in tensors.items() if key.startswith("state/")}
    attention.load_state_dict(state)
    out = attention(tensors["x"])
    torch.testing.assert_close(out, tensors["out"], rtol=0, atol=rounding(torch.float32, terms=8))
    state["out_proj.weight"] = state["out_proj.weight"].roll(
        1, dims=1
    )  # negative control: the order of features matters
    attention.load_state_dict(state)
    assert not torch.allclose(attention(tensors["x"]), tensors["out"], atol=1e-3)
