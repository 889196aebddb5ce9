"""Figures and measurements of the concept pages: the stored numbers agree with theory, and the figures can be drawn."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.concepts import figures
from benchmarks.concepts import measure as concepts

import ghrr
from ghrr.capacity import diagonal_weight
from ghrr_lab.paper.theory.trees import PERMUTED, theory

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "concepts"


def deviation(row: dict[str, Any], measured: float, expected: float) -> float:
    """Return the distance from theory in standard errors; rounding counts as no distance."""
    distance = abs(measured - expected)
    return 0.0 if distance < 1e-5 else distance / row["error"]


def error_of_diagonal_weight(m: int, diagonality: float | None) -> float:
    """Return the standard error of ``diagonal_weight``, which is a mean over 4096 rotations for a given diagonality."""
    if diagonality is None:
        return 0.0
    q = ghrr.unitary.with_diagonality(diagonality, 4096, m=m, generator=torch.Generator().manual_seed(0))
    return float(q[:, 0, 0].abs().square().std()) / 64


@pytest.mark.slow
def test_stored_similarities_of_swapped_products_follow_theory() -> None:
    for row in figures.stored()["order"]:
        m, diagonality = row["m"], row["diagonality"]
        weight = diagonal_weight(m, diagonality)
        error = math.hypot(row["error"], 2 * weight * error_of_diagonal_weight(m, diagonality))
        assert abs(row["mean"] - weight**2) < 4.5 * error + 1e-5, row


def test_stored_noise_follows_theory() -> None:
    for row in figures.stored()["noise"]:
        assert deviation(row, row["std"], 1 / math.sqrt(2 * row["total_dim"])) < 4.5, row


@pytest.mark.parametrize("number", range(3))
def test_stored_noise_of_rotations_follows_theory(number: int) -> None:
    row = figures.stored()["rotations"][number]
    space = ghrr.Space(concepts.TAIL_DIM, concepts.TAIL_M, rotation=row["rotation"])
    assert deviation(row, row["std"], space.noise_std) < 4.5
    m = space.m
    expected = 1 / m if row["rotation"] == "shared" else 1 / m**2
    assert deviation(row["swapped"], row["swapped"]["mean"], expected) < 4.5


@pytest.mark.parametrize("number", range(3))
def test_stored_tails_follow_theory(number: int) -> None:
    row = figures.stored()["rotations"][number]
    for threshold, count in row["beyond"].items():
        expected = row["pairs"] * figures.tail_theory(float(threshold), row["rotation"])
        if expected > 20:  # a normal distribution describes the count
            assert abs(count - expected) <= 4.5 * math.sqrt(expected), threshold


def test_tails_of_fixed_rotations_do_not_follow_those_of_varying_ones() -> None:
    fixed = figures.stored()["rotations"][1]
    expected = fixed["pairs"] * figures.tail_theory(4.0, "varying")
    assert fixed["beyond"]["4.0"] > expected + 4.5 * math.sqrt(expected)


def test_stored_accuracy_of_trees_without_rotations_follows_theory() -> None:
    for row in figures.stored()["trees"]:
        if row["m"] == 1:
            expected = theory(concepts.TREE_DEPTH, concepts.TREE_TOTAL, 1, permuted=row["kind"] == PERMUTED)
            assert abs(row["mean"] - expected) < 4.5 * row["error"] + 0.005  # the accuracy of the theory


def test_figures_of_the_pages_are_those_that_are_drawn() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in PAGES.glob("*.md"))
    shown = set(re.findall(r"\(images/(\w+)\.svg\)", text))
    assert shown == set(figures.FIGURES) == {path.stem for path in (PAGES / "images").iterdir()}


@pytest.mark.slow
def test_figures_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("theory", "diagonal_weight"):  # seconds of computing, tested elsewhere
        monkeypatch.setattr(figures, name, lambda *_, **__: 0.5)
    for path in figures.main(["--out", str(tmp_path)]):
        text = path.read_text(encoding="utf-8")
        assert "<svg" in text
        assert "fill: #ffffff" in text  # a white background, for dark pages


@pytest.mark.slow
def test_measurements_have_the_stored_form() -> None:
    assert len(concepts.noise(pairs=20)) == len(figures.stored()["noise"])
    quick = concepts.rotations(pairs=2000)
    assert [row.keys() for row in quick] == [row.keys() for row in figures.stored()["rotations"]]
