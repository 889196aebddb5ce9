"""The published documentation leads to its newest version."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def versions() -> ModuleType:
    path = Path(__file__).parents[2] / "docs" / "versions.py"
    spec = importlib.util.spec_from_file_location("docs_versions", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_newest_version_is_first(versions: ModuleType, tmp_path: Path) -> None:
    for name in ("dev", "v0.9.0", "v0.10.0", "images"):
        (tmp_path / name).mkdir()
    versions.write_pages(tmp_path)
    assert json.loads((tmp_path / "versions.json").read_text()) == ["v0.10.0", "v0.9.0", "dev"]
    assert "url=v0.10.0/" in (tmp_path / "index.html").read_text()


def test_folder_without_versions_is_refused(versions: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no folder of a version"):
        versions.write_pages(tmp_path)
