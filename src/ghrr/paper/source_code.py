"""Hash the source code on which an experiment depends, to detect stored results of other code."""

from __future__ import annotations

import ast
import functools
import hashlib
from pathlib import Path

import ghrr
from ghrr.paper.registry import module_name

_PACKAGE = Path(ghrr.__file__).parent
_UNUSED_PACKAGES = {"cli", "lm", "memory", "nn", "paper", "structures"}  # "paper" is added module by module
_NO_EFFECT = {"ghrr.paper.experiment", "ghrr.paper.statistics", "ghrr.paper.style"}  # they draw and judge only


def source_hash(name: str) -> str:
    """Return a short hash of the source code on which the trials of an experiment depend.

    That is the module of the experiment, the modules of ``ghrr.paper`` that it imports, directly or not, and the layers
    of the library that experiments use. Nothing is imported.
    """
    source, pending, seen = _library_source(), [module_name(name)], set(_NO_EFFECT)
    while pending:
        module = pending.pop()
        if module not in seen:
            seen.add(module)
            text, imported = _read_module(module)
            source += text
            pending += imported
    return hashlib.sha256(source).hexdigest()[:12]


def _path(module: str) -> Path:
    return _PACKAGE.parent.joinpath(*module.split(".")).with_suffix(".py")


@functools.cache
def _read_module(module: str) -> tuple[bytes, list[str]]:
    """Return the source of a module and the modules of ``ghrr.paper`` that it imports."""
    text = _path(module).read_bytes()
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("ghrr.paper"):
            names = {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
            imported |= {name for name in names if _path(name).exists()}
    return text, sorted(imported)


@functools.cache
def _library_source() -> bytes:
    relevant = [path for path in _PACKAGE.rglob("*.py") if path.relative_to(_PACKAGE).parts[0] not in _UNUSED_PACKAGES]
    return b"".join(path.read_bytes() for path in sorted(relevant))
