"""Stored results on chains are complete and support the claims of the page; the baselines, and the figures."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from benchmarks.relations import chain_baselines as baselines
from benchmarks.relations import chain_figures as figures
from benchmarks.relations import chain_tables as tables
from benchmarks.relations import chains as measuring

from ghrr.relations.chains import KINSHIPS, generate_kinship_chains, kinship_rules
from ghrr.relations.chains.examples import group_by_length, to_indices

ROOT = Path(__file__).parents[2]

FOLDERS = ("train-2-3", "train-2-3-4")
TEST_STORIES = {"train-2-3": 1146, "train-2-3-4": 1048}


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("kind", ["path", "story"])
def test_stored_runs_of_five_seeds_answered_every_story(folder: str, kind: str) -> None:
    for m in (1, 2, 4, 8):
        found = tables.counts(folder, "hypervectors", "chart", kind, m=m)
        assert sum(total for _, total in found.values()) == 5 * TEST_STORIES[folder]


@pytest.mark.parametrize(("folder", "mean", "least"), [("train-2-3", 0.99, 0.975), ("train-2-3-4", 0.985, 0.95)])
def test_stored_shares_of_long_chains_are_as_claimed(folder: str, mean: float, least: float) -> None:
    shares = tables.shares(folder, "hypervectors", "chart", "path", m=8)
    right, total = (
        sum(tables.counts(folder, "hypervectors", "chart", "path", m=8)[n][i] for n in range(4, 11)) for i in (0, 1)
    )
    assert right / total >= mean
    assert min(shares[length] for length in range(4, 11)) >= least


@pytest.mark.parametrize("folder", FOLDERS)
def test_stored_shares_of_commutative_vectors_and_counted_pairs_are_lower(folder: str) -> None:
    def share(model: str, method: str, m: int | None) -> float:
        found = tables.shares(folder, model, method, "path", m=m)
        return float(sum(found[length] for length in range(4, 11)) / 7)

    best = share("hypervectors", "chart", 8)
    assert share("hypervectors", "chart", 1) < 0.7
    assert share("table", "chart of pairs", None) < best


@pytest.mark.parametrize("name", list(figures.FIGURES))
@pytest.mark.slow
def test_figures_show_the_stored_results(name: str, tmp_path: Path) -> None:
    drawn = next(path for path in figures.main(["--out", str(tmp_path)]) if path.stem == name)
    assert drawn.read_text() == (figures.FOLDER / f"{name}.svg").read_text(), (
        "run python -m benchmarks relations.chain_figures"
    )


def test_counted_pairs_give_the_frequencies_of_targets() -> None:
    groups = group_by_length([[0, 1], [0, 1], [0, 1], [1, 0]], [2, 2, 0, 1])
    table = baselines.pair_table(baselines.CountedChains(groups, 3), 3).exp()
    torch.testing.assert_close(table[0, 1], torch.tensor([1 / 3, 0.0, 2 / 3]), atol=1e-2, rtol=0)
    torch.testing.assert_close(table[2, 2], torch.full((3,), 1 / 3))  # never seen


@pytest.mark.slow
def test_lstm_is_tuned_on_chains_that_it_was_not_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "RATES", (0.01, 10.0))
    monkeypatch.setattr(baselines, "EPOCHS", (20,))
    examples = [*kinship_rules(), *generate_kinship_chains(400, 3, seed=0)]
    index = {name: position for position, name in enumerate(KINSHIPS)}
    chains = to_indices([chain for chain, _ in examples], index)
    groups = group_by_length(chains, [index[target] for _, target in examples])
    slow, fast = baselines.tune_lstm(groups, len(KINSHIPS))
    assert (slow["rate"], slow["epochs"], fast["rate"]) == (0.01, 20, 10.0)
    for method in ("alone", "chart of pairs"):
        assert 0.25 < slow[method] < 0.99  # held-out chains are not answered by heart
        assert fast[method] < slow[method]


def test_stored_errors_of_generated_chains_need_two_pairs_in_training() -> None:
    without = tables.counts("train-2-3", "hypervectors", "chart", "generated", m=8)[100]
    with_pairs = tables.counts("train-2-3", "pairs added", "chart", "generated", m=8)[100]
    assert without[1] == with_pairs[1]
    assert with_pairs[0] / with_pairs[1] >= 0.98 > without[0] / without[1]


def test_seeds_are_pooled_by_adding_counts() -> None:
    rows = [
        {"folder": "f", "model": "LSTM", "seed": seed, "method": "alone", "path": {"4": [right, 10], "2": [1, 10]}}
        for seed, right in enumerate((5, 7))
    ]
    (pooled,) = measuring.pool_seeds(rows)
    assert pooled["path"] == {"4": [12, 20], "2": [2, 20]}
    assert pooled["by_seed"] == [0.5, 0.7]
    assert "seed" not in pooled
