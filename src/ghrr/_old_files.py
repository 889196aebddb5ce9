"""Functions of other packages that take the name of the operation, for code that is not converted yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ghrr import files
from ghrr._old_checks import named, with_operation
from ghrr.files import *  # noqa: F403
from ghrr.files.container import _PARSE_ERRORS
from ghrr.space import Space  # noqa: F401
from ghrr.space import check_space as _check_space


def _after_path(function: Callable[..., Any]) -> Any:
    def run(path: Any, operation: str, *arguments: Any, **options: Any) -> Any:
        return with_path(operation, path, lambda: function(path, *arguments, **options))

    return run


def with_path(operation: str, path: Any, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (OSError, ValueError) as error:
        if not named("") and error.args and isinstance(error.args[0], str):
            name = repr(str(path))
            error.args = (error.args[0].replace(name, f"{operation.partition('(')[0]}({name})", 1),)
        raise


check_space = with_operation(_check_space)
check_regular = _after_path(files.check_regular)
check_inside = _after_path(files.check_inside)
check_suffix = _after_path(files.check_suffix)
read_bytes = _after_path(files.read_bytes)
read_json = _after_path(files.read_json)
open_to_append = _after_path(files.open_to_append)


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
