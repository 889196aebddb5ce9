"""Source code of experiments: its hash, to detect stored results of other code, and excerpts for the report."""

from __future__ import annotations

import ast
import functools
import hashlib
from pathlib import Path

import ghrr
import ghrr_lab
from ghrr_lab.paper.registry import module_name

_LIBRARY = Path(ghrr.__file__).parent
_PROGRAMS = Path(ghrr_lab.__file__).parent  # experiments, added module by module
_UNUSED = {"cli", "learn", "lm", "memory", "nn", "paper.py", "relations", "search", "structures", "training"}
_NO_EFFECT = {
    "ghrr_lab.paper.experiment",
    "ghrr_lab.paper.statistics",
    "ghrr_lab.paper.style",
}  # they draw and judge only


def source_hash(name: str) -> str:
    """Return a short hash of the source code on which the trials of an experiment depend.

    That is the module of the experiment, the modules of ``ghrr_lab`` that it imports, directly or not, and the packages
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


def source_file(name: str) -> str:
    """Return the path of the module of an experiment in the repository.

    Examples
    --------
    >>> source_file("fixed-vs-varying")
    'src/ghrr_lab/paper/experiments/fixed_vs_varying.py'
    """
    return f"src/{module_name(name).replace('.', '/')}.py"


def trial_source(name: str) -> str:
    """Return the code of one trial of an experiment: ``run_trial`` and the functions of its module that it uses."""
    return _functions(name, ["run_trial"])


def claim_source(name: str, says: str) -> str:
    """Return the functions in the module of an experiment that test the claim with this statement.

    They are named beside the statement, in the same call or tuple. An unknown statement gives ``""``. Nothing is
    imported.
    """
    nodes = ast.walk(_parse(module_name(name)))
    claims = [node for node in nodes if isinstance(node, ast.Call | ast.Tuple) and _states(node, says)]
    return _functions(name, [used for claim in claims for used in _names(claim)])


def _states(node: ast.AST, says: str) -> bool:
    """Whether a call or a tuple contains a statement, or the larger part of it: some claims share their first words."""
    texts = [str(part.value) for part in ast.iter_child_nodes(node) if isinstance(part, ast.Constant)]
    return any(says.endswith(text) and 2 * len(text) > len(says) for text in texts)


def _names(node: ast.AST) -> list[str]:
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]


def _functions(name: str, pending: list[str]) -> str:
    """Return these functions of an experiment's module and all functions that they use, in the order of the file."""
    module = module_name(name)
    functions = {node.name: node for node in _parse(module).body if isinstance(node, ast.FunctionDef)}
    used = set()
    while pending:
        function = pending.pop()
        if function in functions and function not in used:
            used.add(function)
            pending += _names(functions[function])
    text = _path(module).read_text(encoding="utf-8")
    return "\n\n\n".join(str(ast.get_source_segment(text, functions[key])) for key in functions if key in used)


def _path(module: str) -> Path:
    return _PROGRAMS.parent.joinpath(*module.split(".")).with_suffix(".py")


@functools.cache
def _parse(module: str) -> ast.Module:
    return ast.parse(_path(module).read_bytes())


@functools.cache
def _read_module(module: str) -> tuple[bytes, list[str]]:
    """Return the source of a module and the modules of ``ghrr_lab`` that it imports."""
    imported = set()
    for node in ast.walk(_parse(module)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("ghrr_lab."):
            names = {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
            imported |= {name for name in names if _path(name).exists()}
    return _path(module).read_bytes(), sorted(imported)


@functools.cache
def _library_source() -> bytes:
    relevant = [path for path in _LIBRARY.rglob("*.py") if path.relative_to(_LIBRARY).parts[0] not in _UNUSED]
    return b"".join(path.read_bytes() for path in sorted(relevant))
