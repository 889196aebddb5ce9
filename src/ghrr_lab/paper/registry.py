"""Registry of the experiments of the paper and of comparisons of models. Each module is imported on first use."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from ghrr.checks import check_known, names_errors
from ghrr_lab.paper.experiment import Experiment

# In the order of the paper. The module of "a-name" is ghrr_lab.paper.experiments.a_name.
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
# In the order of the report. The module of "compare-a-name" is ghrr_lab.comparison.a_name.
_COMPARISON_NAMES = (
    "compare-bundling",
    "compare-dimensions",
    "compare-repeated-binding",
    "compare-records",
    "compare-nested-records",
    "compare-sequences",
    "compare-trees",
    "compare-order",
    "compare-robustness",
    "compare-cost",
)
_PREFIX = "compare-"


class _Registry(Mapping[str, Experiment]):
    """Experiments by name. Looking one up imports its module and no other."""

    def __init__(self, names: Callable[[], Sequence[str]]) -> None:
        self._names = names

    def __getitem__(self, name: str) -> Experiment:
        if name not in self._names():
            raise KeyError(name)
        experiment: Experiment = importlib.import_module(module_name(name)).EXPERIMENT
        return experiment

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())


#: The experiments of the paper.
EXPERIMENTS: Mapping[str, Experiment] = _Registry(lambda: _NAMES)
#: The comparisons of models.
COMPARISONS: Mapping[str, Experiment] = _Registry(lambda: _COMPARISON_NAMES)
ALL: Mapping[str, Experiment] = _Registry(lambda: (*_NAMES, *_COMPARISON_NAMES))


def module_name(name: str) -> str:
    """Return the name of the module that defines an experiment."""
    if name.startswith(_PREFIX):
        return f"ghrr_lab.comparison.{name.removeprefix(_PREFIX).replace('-', '_')}"
    return f"ghrr_lab.paper.experiments.{name.replace('-', '_')}"


@names_errors("paper")
def select(names: Sequence[str]) -> list[Experiment]:
    """Return the experiments with these names, or all experiments of the paper if there are no names.

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
        if name not in ALL:
            check_known("experiment", name, EXPERIMENTS)
    return [ALL[name] for name in dict.fromkeys(names or EXPERIMENTS)]
