"""Settings for all tests, and ``pytest --fast``: a quick check while you work."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from fnmatch import fnmatch

import pytest
import torch
from hypothesis import settings

import ghrr  # noqa: F401 (here, coverage traces the import)
from ghrr import _calls
from tests.untraced import compile_untraced, untraced

torch.set_num_threads(1)  # the tests run in two processes on two cores
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is imported: GPU kernels run on the CPU, slowly

# Not even imported with --fast: tests that start processes, train models, run experiments or interpret GPU kernels.
_SLOW = (
    "src/ghrr_lab/comparison",
    "src/ghrr_lab/lm",
    "src/ghrr_lab/paper",
    "tests/examples",
    "tests/faults",
    "tests/lab/comparison",
    "tests/lab/lm",
    "tests/lab/paper",
    "tests/relations/test_chain_model.py",
    "tests/relations/test_training.py",
    "tests/*_triton*",
)

# The tests that measure the coverage of the packages that `make coverage` checks.
_MEASURES_COVERAGE = (
    "src/ghrr/algebra/*",
    "src/ghrr/ops/*",
    "src/ghrr/space/*",
    "src/ghrr/unitary/*",
    "tests/models/test_counting.py",
    "tests/nn/*_triton.py",
    "tests/ops/*",
    "tests/test_algebra.py",
    "tests/test_errors.py",
    "tests/test_space.py",
    "tests/unitary/*",
)

settings.register_profile("ghrr", max_examples=40, deadline=None, derandomize=True)
settings.register_profile("fast", max_examples=5, deadline=None, derandomize=True)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Restore the number of threads: with another one, later tests round sums differently."""
    yield
    torch.set_num_threads(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fast",
        action="store_true",
        help="run every test function with its first parameters only, and leave out slow tests",
    )


def pytest_configure(config: pytest.Config) -> None:
    fast = config.getoption("--fast", default=False)
    settings.load_profile("fast" if fast else "ghrr")
    compile_untraced()
    if fast:
        config.option.ignore_glob = [*(config.option.ignore_glob or ()), *(config.rootpath / path for path in _SLOW)]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--fast", default=False):
        return
    kept: dict[str, pytest.Item] = {}
    for item in items:
        if item.get_closest_marker("slow") is None:
            kept.setdefault(item.nodeid.partition("[")[0], item)
    chosen = list(kept.values())
    config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
    items[:] = chosen


def pytest_collection_finish() -> None:
    _calls._packages.discard("tests")  # tests are users of the library, although some of them name their errors


def _tracing(node: pytest.Item | pytest.Collector) -> AbstractContextManager[None]:
    if any(source is not True for source in node.config.getoption("cov_source", default=None) or ()):
        return nullcontext()  # --cov=src: everything is traced
    file = node.nodeid.partition("::")[0]
    return nullcontext() if any(fnmatch(file, pattern) for pattern in _MEASURES_COVERAGE) else untraced()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    with _tracing(collector):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool, bool]:
    with _tracing(item):
        return (yield)
