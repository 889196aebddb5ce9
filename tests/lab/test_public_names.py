"""The programs in ``ghrr_lab`` use only public names of the library."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ghrr_lab

PACKAGE = Path(str(ghrr_lab.__file__)).parent
FILES = sorted(PACKAGE.rglob("*.py"))
PUBLIC_SUBPACKAGES = {"ghrr.nn.functional", "ghrr.relations.chains"}  # with a page or section of the API
ALWAYS_PUBLIC = {"__file__", "__version__"}


def is_public(module: str, name: str) -> bool:
    """Whether a name is in ``__all__`` of a module, or is a module of ghrr that has one."""
    if (module.count(".") > 1 and module not in PUBLIC_SUBPACKAGES) or "._" in module:
        return False
    if module == "ghrr" and not name.startswith("_"):
        try:
            return hasattr(importlib.import_module(f"ghrr.{name}"), "__all__")
        except ModuleNotFoundError:
            pass
    return name in ALWAYS_PUBLIC or name in getattr(importlib.import_module(module), "__all__", ())


def used_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield (module, name) for all names of ghrr that a file uses."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                module, _, name = alias.name.rpartition(".")
                if module.split(".")[0] == "ghrr":
                    yield module, name
        elif isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "ghrr":
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Attribute) and re.fullmatch(r"ghrr(\.[a-z_]+)*", ast.unparse(node.value)):
            yield ast.unparse(node.value), node.attr


def private_attributes(tree: ast.Module) -> list[str]:
    """Return the attributes with an underscore of objects other than ``self``."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    private = [node for node in nodes if node.attr.startswith("_") and not node.attr.startswith("__")]
    return [ast.unparse(node) for node in private if ast.unparse(node.value) != "self"]


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(PACKAGE)) for path in FILES])
def test_file_uses_public_names_only(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert [names for names in used_names(tree) if not is_public(*names)] == []
    assert private_attributes(tree) == []


@pytest.mark.parametrize(
    "line",
    [
        "from ghrr._similar import did_you_mean",
        "from ghrr.ops.reference import bind",
        "from ghrr.unitary import sampling",
        "import ghrr._json",
        "import ghrr\nghrr.files._DTYPES",
        "import ghrr\nghrr.ops.torch_implementation",
        "from ghrr import _similar",
        "from ghrr.checks import are_alike",
    ],
)
def test_private_names_are_found(line: str) -> None:
    tree = ast.parse(line)
    assert [names for names in used_names(tree) if not is_public(*names)] != []
