"""Run the scripts of examples and benchmarks in this process, which saves the import of torch."""

from __future__ import annotations

import importlib
import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest


def run_script(path: Path, *arguments: str) -> tuple[int, str]:
    """Call ``main`` of a script; return the exit status and all output. Modules of its folder are forgotten."""
    before, output, status = set(sys.modules), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(output), redirect_stderr(output):
        patch.syspath_prepend(path.parent)
        try:
            importlib.import_module(path.stem).main(arguments)
        except SystemExit as end:
            status = int(end.code or 0)
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "").parent == path.parent:
            del sys.modules[name]
    return status, output.getvalue()
