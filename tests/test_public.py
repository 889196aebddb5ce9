"""Public names, their documentation, and versions."""

from __future__ import annotations

import inspect
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import ghrr
from ghrr import (
    checks,
    cli,
    encoding,
    memory,
    models,
    nn,
    ops,
    reasoning,
    relations,
    search,
    seeding,
    structures,
    testing,
    unitary,
)
from ghrr._calls import _codes as codes_of
from ghrr._calls import _names as call_names
from ghrr.ops.dispatch import OPERATIONS
from ghrr_lab import lm, paper

ROOT = Path(__file__).parent.parent


def test_public_names_are_frozen() -> None:
    assert ghrr.__all__ == [
        "Hypervector",
        "ItemMemory",
        "Match",
        "Record",
        "Space",
        "__version__",
        "adjoint",
        "backend",
        "bind",
        "bind_bundle",
        "bundle",
        "commutativity",
        "commutator",
        "encoding",
        "load",
        "memory",
        "models",
        "multibind",
        "nn",
        "normalize",
        "ops",
        "pairwise_similarity",
        "power",
        "resonator",
        "save",
        "shift",
        "similarity",
        "structures",
        "testing",
        "unbind",
        "unbind_similarity",
        "unitary",
    ]
    assert ops.__all__ == [
        "adjoint",
        "backend",
        "bind",
        "bind_bags",
        "bind_bundle",
        "bind_similarity",
        "bundle",
        "cos_sin",
        "fractional_power",
        "in_use",
        "multibind",
        "pairwise_similarity",
        "polar",
        "power",
        "shift",
        "similarity",
        "unitary_power",
    ]
    assert unitary.__all__ == [
        "diagonality",
        "exp_hermitian",
        "haar",
        "is_unitary",
        "orthonormalize",
        "polar",
        "unitarity_error",
        "with_diagonality",
    ]
    assert models.__all__ == [
        "BSC",
        "FHRR",
        "GHRR",
        "HLB",
        "HRR",
        "LAWS",
        "MAP",
        "MBAT",
        "MODELS",
        "SBC",
        "SMR",
        "TPR",
        "VTB",
        "Architecture",
        "Facts",
        "Law",
        "Scores",
        "bundling_accuracy",
        "dimension_for",
        "make",
    ]
    assert testing.__all__ == ["check_encoder", "check_laws", "check_quasi_orthogonal"]
    assert checks.__all__ == [
        "add_place",
        "check_choice",
        "check_device",
        "check_flag",
        "check_generator",
        "check_integer",
        "check_known",
        "check_names",
        "check_path",
        "check_real",
        "current_call",
        "describe",
        "install_hint",
        "is_true",
        "named",
        "names_errors",
        "short_repr",
        "type_error",
        "value_error",
        "warn",
        "without_name",
    ]
    assert cli.__all__ == [
        "ERRORS",
        "STREAM",
        "app",
        "console",
        "escaped",
        "fail",
        "main",
        "need",
        "parse_settings",
        "say",
        "stop_training",
        "warn",
    ]
    assert seeding.__all__ == ["labelled_generator", "labelled_uniform"]
    for module in (ghrr, checks, cli, models, ops, seeding, unitary, testing):
        assert all(hasattr(module, name) for name in module.__all__)


PACKAGES = (
    ghrr,
    encoding,
    lm,
    memory,
    models,
    nn,
    ops,
    paper,
    reasoning,
    relations,
    search,
    structures,
    testing,
    unitary,
)


def public_names() -> Iterator[tuple[ModuleType, str, Any]]:
    for package in PACKAGES:
        for name in package.__all__:
            yield package, name, getattr(package, name)


def test_every_public_function_and_method_names_its_errors() -> None:
    unnamed = [
        f"{package.__name__}.{name}: {code.co_qualname}"
        for package, name, value in public_names()
        if isinstance(value, type | FunctionType)
        for member, function in (vars(value) if isinstance(value, type) else {name: value}).items()
        if not member.startswith("_") or member == "__init__"
        for code in codes_of(function)
        if code.co_qualname.startswith(value.__qualname__) and (code.co_filename, code.co_qualname) not in call_names
    ]
    assert unnamed == []


def test_every_public_class_and_function_has_an_executed_example() -> None:
    missing = sorted(
        f"{package.__name__}.{name}"
        for package, name, value in public_names()
        if (isinstance(value, type) and not issubclass(value, Exception)) or inspect.isfunction(value)
        if ">>> " not in (value.__doc__ or "")
    )
    assert missing == []


def test_functions_of_tensors_state_their_shapes() -> None:
    for name in ghrr.__all__:
        value = getattr(ghrr, name)
        if callable(value) and value.__module__.startswith("ghrr.algebra"):
            assert "Shapes\n" in value.__doc__, name


def test_no_two_public_classes_share_a_name() -> None:
    classes: dict[str, set[type]] = {}
    for _, name, value in public_names():
        if isinstance(value, type):
            classes.setdefault(name, set()).add(value)
    assert {name: found for name, found in classes.items() if len(found) > 1} == {}


def test_no_public_name_shadows_a_module() -> None:
    """``import ghrr_lab.lm.train`` and ``ghrr_lab.lm.train`` must not be two different things."""
    shadowing = [
        f"{package.__name__}.{name}"
        for package, name, value in public_names()
        if not isinstance(value, ModuleType)
        if name in {module.name for module in pkgutil.iter_modules(getattr(package, "__path__", []))}
    ]
    assert shadowing == []


@pytest.mark.slow
def test_large_packages_are_attributes_that_import_on_first_use() -> None:
    code = """
import sys, ghrr
for name in ("encoding", "models", "testing", "nn", "structures", "learn", "search", "reasoning", "relations"):
    assert f"ghrr.{name}" not in sys.modules, name
    assert name in dir(ghrr)
    assert getattr(ghrr, name) is sys.modules[f"ghrr.{name}"]
for name in ("ItemMemory", "Match", "Record", "resonator"):
    assert name in dir(ghrr)
    assert getattr(ghrr, name).__name__ == name
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="has no attribute 'missing'"):
        _ = ghrr.missing


@pytest.mark.parametrize("name", ["lm", "paper"])
def test_old_names_of_programs_warn(name: str) -> None:
    code = f"import ghrr, ghrr_lab.{name} as new; assert ghrr.{name}.__all__ == new.__all__"
    done = subprocess.run([sys.executable, "-W", "default", "-c", code], check=True, capture_output=True, text=True)
    assert f"ghrr.{name} has moved; import ghrr_lab.{name} instead" in done.stderr


def test_every_operation_has_a_reference() -> None:
    for name in ops.__all__:
        if name not in ("backend", "in_use", "unitary_power"):  # unitary_power is power, for unitary slots only
            assert OPERATIONS[name].reference is getattr(ops.reference, name)


def test_layer_picture_equals_import_rules() -> None:
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    stated = {rule["containers"][0]: rule["layers"] for rule in rules if rule["type"] == "layers"}
    layers = [name for layer in (*stated["ghrr_lab"], *stated["ghrr"]) for name in layer.split(" | ")]
    picture = re.findall(r'font-weight="600"[^>]*>([^<]+)<', (ROOT / "docs" / "layers.svg").read_text())
    drawn = [name for row in picture for name in row.split(" · ")]
    assert sorted(drawn) == sorted(layers)
    assert [name for name in drawn if not name.startswith("_")] == [n for n in layers if not n.startswith("_")]
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert all(f"`{name}`" in page for name in layers)


def test_versions_and_dates_agree() -> None:
    sections = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    released = [section for section in sections if section != "Unreleased"]
    assert sections.index(released[0]) == ("Unreleased" in sections)  # changes since the release come first
    version, date = released[0].split(" ")
    assert version == ghrr.__version__
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {version}\n" in citation
    assert f'\ndate-released: "{date.strip("()")}"\n' in citation


@pytest.mark.slow
def test_core_imports_without_command_line_and_plotting_packages() -> None:
    code = (
        "import sys, importlib.abc\n"
        "class Refuse(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in {'typer', 'rich', 'matplotlib', 'pandas', 'jinja2', 'torchhd'}:\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "import ghrr\n"
        "print(ghrr.Space(4, 2).atoms('a')[0])\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "Hypervector(a, dim=4, m=2, complex64)\n"
