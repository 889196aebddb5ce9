"""Sparse tensors are made under an explicit choice about checks.

PyTorch 2.11 warns about those made without it, and about the argument ``check_invariants``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ghrr.relations import RelationModel, load_model, save_model
from ghrr.relations.baseline import frequency_baseline
from ghrr.relations.unseen import count_tails
from tests.relations.common import people_graph


def save_and_load_a_model(folder: Path) -> None:
    graph = people_graph()
    model = RelationModel(graph.entities, graph.relations, dim=2, m=1)
    model.unseen = count_tails(graph)
    assert model.unseen is not None
    save_model(folder / "model", model)
    load_model(folder / "model")


@pytest.mark.parametrize("make", [lambda folder: frequency_baseline(people_graph()), save_and_load_a_model])
def test_checks_are_chosen_by_a_context(
    make: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[bool] = []
    made: list[Tensor] = []
    context, sparse_tensor = torch.sparse.check_sparse_tensor_invariants, torch.sparse_coo_tensor

    class Recorded(context):  # type: ignore[misc, valid-type]
        def __enter__(self) -> None:
            chosen.append(self.state)
            super().__enter__()

        def __exit__(self, *error: Any) -> None:
            chosen.pop()
            super().__exit__(*error)

    def strict(*given: Any, **settings: Any) -> Tensor:
        assert len(chosen) == 1
        assert "check_invariants" not in settings
        made.append(sparse_tensor(*given, **settings))
        return made[-1]

    monkeypatch.setattr(torch.sparse, "check_sparse_tensor_invariants", Recorded)
    monkeypatch.setattr(torch, "sparse_coo_tensor", strict)
    make(tmp_path)
    assert made
    assert not chosen
