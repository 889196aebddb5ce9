"""Registry of experiments. Each module is imported on first use."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterator, Mapping, Sequence

from ghrr.paper.experiment import Experiment

# In the order of the paper. The module of "a-name" is ghrr.paper.experiments.a_name.
_NAMES = (
    "algebraic-properties",
    "quasi-orthogonality",
    "kernel-shapes",
    "fixed-vs-varying",
    "binding-as-projection",
    "binding-as-attention",
    "positions-in-attention",
    "time-complexity",
    "nested-dictionary",
    "diagonality-commutativity",
    "tree-decoding",
    "tree-diagonality",
    "memorisation",
    "bundling-heatmaps",
    "capacity-curves",
    "table-capacity",
    "perplexity",
    "other-models",
)


class _Registry(Mapping[str, Experiment]):
    """Experiments by name. Looking one up imports its module and no other."""

    def __getitem__(self, name: str) -> Experiment:
        if name not in _NAMES:
            raise KeyError(name)
        experiment: Experiment = importlib.import_module(module_name(name)).EXPERIMENT
        return experiment

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


EXPERIMENTS: Mapping[str, Experiment] = _Registry()


def module_name(name: str) -> str:
    """Return the name of the module that defines an experiment."""
    return f"ghrr.paper.experiments.{name.replace('-', '_')}"


def select(names: Sequence[str]) -> list[Experiment]:
    """Return the experiments with these names, or all of them if there are no names.

    Raises
    ------
    ValueError
        For an unknown name. The message suggests the most similar known one.

    Examples
    --------
    >>> [experiment.name for experiment in select(["fixed-vs-varying"])]
    ['fixed-vs-varying']
    """
    for name in names:
        if name not in EXPERIMENTS:
            similar = difflib.get_close_matches(name, EXPERIMENTS, n=1, cutoff=0.3)
            hint = f"did you mean {similar[0]!r}? " if similar else ""
            raise ValueError(f"unknown experiment {name!r}; {hint}Experiments: {', '.join(EXPERIMENTS)}")
    return [EXPERIMENTS[name] for name in dict.fromkeys(names or EXPERIMENTS)]
