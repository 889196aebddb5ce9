"""Functions that take the name of the operation, for ``memory`` and ``search``, which are not converted yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ghrr import files
from ghrr._old_checks import with_operation
from ghrr.checks import current_call
from ghrr.files import (
    LINES,
    USUAL_SEPARATORS,
    PathLike,
    TensorChunks,
    aside_name,
    atomic_write,
    check_count,
    check_fields,
    exchange_folders,
    list_files,
    open_delimited,
    parse_json,
    read_objects,
    recover_folder,
    refuse_line,
    remove_files,
    restore_space,
    space_header,
    sync_folder,
    write_json,
    write_tensors,
)
from ghrr.files.container import _PARSE_ERRORS
from ghrr.space import Space
from ghrr.space import check_space as _check_space

__all__ = [
    "LINES",
    "USUAL_SEPARATORS",
    "PathLike",
    "Space",
    "TensorChunks",
    "aside_name",
    "atomic_write",
    "check_count",
    "check_fields",
    "exchange_folders",
    "list_files",
    "open_delimited",
    "parse_json",
    "read_objects",
    "recover_folder",
    "refuse_line",
    "remove_files",
    "restore_space",
    "space_header",
    "sync_folder",
    "write_json",
    "write_tensors",
]


def _after_path(function: Callable[..., Any]) -> Any:
    def run(path: Any, operation: str, *arguments: Any, **options: Any) -> Any:
        return with_path(operation, path, lambda: function(path, *arguments, **options))

    return run


def with_path(operation: str, path: Any, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (OSError, ValueError) as error:
        if not current_call() and error.args and isinstance(error.args[0], str):
            name = repr(str(path))
            error.args = (error.args[0].replace(name, f"{operation.partition('(')[0]}({name})", 1),)
        raise


check_space = with_operation(_check_space)
check_regular = _after_path(files.check_regular)
check_inside = _after_path(files.check_inside)
check_suffix = _after_path(files.check_suffix)
read_bytes = _after_path(files.read_bytes)
read_json = _after_path(files.read_json)


@contextmanager
def lock_folder(folder: Any, operation: str) -> Iterator[None]:
    lock = files.lock_folder(folder)
    with_operation(lock.__enter__)(operation)
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


@contextmanager
def prefix_errors(where: str) -> Iterator[None]:
    try:
        yield
    except _PARSE_ERRORS as error:
        reason = str(error) if isinstance(error, ValueError) else f"inconsistent content ({error!r})"
        raise ValueError(f"{where}: {reason:.500}") from error


class TensorFile(files.TensorFile):
    def __init__(self, path: Any, *, operation: str, **options: Any) -> None:
        with_path(operation, path, lambda: super(TensorFile, self).__init__(path, **options))
        self.where = f"{operation}({str(path)!r})"
