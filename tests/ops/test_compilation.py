"""Files in which compiled code is kept: two processes, damaged files, a full disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numba")

from numba.core.caching import IndexDataCacheFile

from ghrr.ops.cpu.compilation import VariantFiles


def save_at_the_same_time(make: Callable[[], Any]) -> Any:
    """Save two variants as two processes do that look for existing files before either of them has written any."""
    first, second = make(), make()
    if hasattr(second, "_load_index"):
        second._load_index = lambda: {}
    save_data = first._save_data

    def save_second_in_between(name: str, data: object) -> None:
        second.save("variant 2", "code 2")
        save_data(name, data)

    first._save_data = save_second_in_between
    first.save("variant 1", "code 1")
    return make()


def test_variants_saved_at_the_same_time_are_not_exchanged(tmp_path: Path) -> None:
    files = save_at_the_same_time(lambda: VariantFiles(str(tmp_path), "loop", "version 1"))
    assert (files.load("variant 1"), files.load("variant 2")) == ("code 1", "code 2")


def test_index_of_numba_exchanges_them(tmp_path: Path) -> None:  # the negative control
    files = save_at_the_same_time(lambda: IndexDataCacheFile(str(tmp_path), "loop", "version 1"))
    assert files.load("variant 2") == "code 1"


def test_code_of_another_version_of_the_source_is_not_used(tmp_path: Path) -> None:
    VariantFiles(str(tmp_path), "loop", "version 1").save("variant", "code")
    assert VariantFiles(str(tmp_path), "loop", "version 2").load("variant") is None


def test_damaged_file_is_compiled_again(tmp_path: Path) -> None:
    files = VariantFiles(str(tmp_path), "loop", "version 1")
    files.save("variant", "code")
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-3])
    assert files.load("variant") is None
    files.save("variant", "code")
    assert files.load("variant") == "code"


def test_full_disk_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = VariantFiles(str(tmp_path), "loop", "version 1")

    def fail(name: str, data: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "_save_data", fail)
    files.save("variant", "code")
    assert files.load("variant") is None


PRODUCTS = """
import sys, torch
from ghrr import ops
from ghrr.ops import reference
generator = torch.Generator().manual_seed(0)
for m in map(int, sys.argv[1:]):
    for dtype in (torch.complex64, torch.complex128):
        a, b = (torch.randn(3, 5, m, m, dtype=dtype, generator=generator) for _ in range(2))
        with ops.backend("numba"):
            torch.testing.assert_close(ops.bind(a, b), reference.bind(a, b))
"""


def test_processes_that_compile_at_the_same_time_leave_correct_code(tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}

    def start(*sizes: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", PRODUCTS, *sizes], env=environment)

    writers = [start("1", "2", "3"), start("3", "2", "1")]
    assert [process.wait(timeout=120) for process in writers] == [0, 0]
    assert start("1", "2", "3").wait(timeout=120) == 0
