"""Folders of the repository. Imports nothing, so that benchmarks of other packages can use it."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "benchmarks"
