"""Names of public calls in errors and warnings: ``bind(a, b): what is wrong, got X, expected Y``.

Public functions and classes are decorated with :func:`names_errors`, which stores their names and returns them
unchanged. Any function that they call writes ``raise value_error("what is wrong")``. Then the call stack is read, and
the name of the public call is put in front. So functions are not told who calls them, and calls without errors take no
more time.

If public functions call each other, the outermost one names the error: the user called that one. The stack is read up
to the user's code, so an error in a call that a user's callback makes has the name of that call.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any, TypeVar, overload

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

# Names by file and qualified name of the function, which its compiled copies share.
_names: dict[tuple[str, str], str] = {}
# Functions of these packages call ours for the same user. Packages with decorated functions are added.
_packages = {"ghrr", "accelerate", "joblib", "numpy", "pandas", "pykeen", "sklearn", "torch", "transformers"}
_COMPILER = "torch._dynamo.symbolic_convert"
_thread = threading.local()  # its `caller`: the frame that waits for this thread


@overload
def names_errors(target: str) -> Callable[[F], F]: ...
@overload
def names_errors(target: T) -> T: ...
def names_errors(target: Any) -> Any:
    """Let errors and warnings that a public function or class raises start with its name.

    The function or class is returned unchanged. The name of a method is ``Class.method``, with the class of the object;
    constructors, ``forward`` and special methods have the name of the class. Give another name as a string, in which
    arguments can occur and ``{cls}`` stands for the class of a method: ``@names_errors("{cls}.read({path})")``.

    Examples
    --------
    >>> from ghrr.checks import check_integer, names_errors
    >>> @names_errors
    ... def repeat(count):
    ...     return "x" * check_integer("count", count, least=1)
    >>> repeat(0)
    Traceback (most recent call last):
    ValueError: repeat: count must be a whole number of at least 1, got 0
    """
    if isinstance(target, str):
        return functools.partial(_store, name=target)
    if isinstance(target, type):
        package = target.__module__.partition(".")[0]
        _packages.add(package)
        for cls in target.__mro__:
            if cls.__module__.partition(".")[0] == package:
                for method, value in vars(cls).items():
                    _store_method(cls, method, value)
        return target
    return _store(target, name=target.__qualname__)


def _store_method(cls: type, method: str, value: object) -> None:
    is_special = method == "forward" or (method.startswith("__") and method.endswith("__"))
    if method.startswith("_") and not is_special:
        return
    owner = cls.__name__ if isinstance(value, staticmethod) else "{cls}"
    for code in _codes(value):
        if code.co_qualname.startswith(f"{cls.__qualname__}."):  # not a function of another place
            _names.setdefault((code.co_filename, code.co_qualname), owner if is_special else f"{owner}.{method}")


def _store(value: T, *, name: str) -> T:
    _packages.add(value.__module__.partition(".")[0])
    for code in _codes(value):
        _names[code.co_filename, code.co_qualname] = name
    return value


def _codes(value: Any) -> Iterator[CodeType]:
    """Yield the code of a function, below its decorators, or of the functions of a property."""
    if isinstance(value, property):
        parts: tuple[Any, ...] = (value.fget, value.fset)
    else:
        parts = (value.func if isinstance(value, functools.cached_property) else value,)
    for part in parts:
        function = inspect.unwrap(part)
        if inspect.isfunction(function):
            yield function.__code__


def _find_call() -> tuple[str, int]:
    """Return the name of the public call, or an empty string, and the number of frames below the user's code."""
    frame: FrameType | None = sys._getframe(1)
    caller: FrameType | None = getattr(_thread, "caller", None)
    name, depth = "", 0
    while frame is not None:
        code, module = frame.f_code, str(frame.f_globals.get("__name__"))
        if module == _COMPILER:  # which runs the code of another function, without a frame of it
            code = getattr(frame.f_locals.get("self"), "f_code", code)
        stored = _names.get((code.co_filename, code.co_qualname))
        if stored is not None:
            name = _fill_in(stored, code, frame) if "{" in stored else stored
        elif not _is_passed(module):
            break
        depth += 1
        frame = frame.f_back
        if frame is None:
            frame, caller = caller, None
    return name, depth


# While torch.compile traces a function, it calls this one and takes the result as a constant, as for
# torch.compiler.assume_constant_result, which would import the compiler.
_find_call._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _is_passed(module: str) -> bool:
    package = module.partition(".")[0]
    return package in _packages or package in sys.stdlib_module_names


def _fill_in(name: str, code: CodeType, frame: FrameType) -> str:
    arguments = frame.f_locals if code is frame.f_code else {}
    first = arguments.get(code.co_varnames[0]) if code.co_argcount else None
    cls = first if isinstance(first, type) else type(first)
    known = {"cls": code.co_qualname.split(".")[-2] if first is None else cls.__name__}
    try:
        return name.format_map(arguments | known)
    except Exception:  # the compiler knows no arguments, and a method of an argument can fail
        return code.co_qualname


def value_error(text: str, *, path: str | os.PathLike[str] | None = None) -> ValueError:
    """Return a ValueError to raise, whose text starts with the name of the public call: see :func:`named`."""
    return ValueError(named(text, path=path))


def type_error(text: str) -> TypeError:
    """Return a TypeError to raise, whose text starts with the name of the public call: see :func:`named`."""
    return TypeError(named(text))


def named(text: str, *, path: str | os.PathLike[str] | None = None) -> str:
    """Put the name of the public call in front of the text of an error, with the path that the error is about.

    Returns the text alone if no function with :func:`names_errors` is being called. Use it for errors that are neither
    a :func:`value_error` nor a :func:`type_error`.

    Examples
    --------
    >>> from ghrr.checks import named, names_errors
    >>> @names_errors
    ... def read(path):
    ...     raise FileNotFoundError(named("no such file", path=path))
    >>> read("a.txt")
    Traceback (most recent call last):
    FileNotFoundError: read('a.txt'): no such file
    """
    where = current_call(path)
    return f"{where}: {text}" if where else text


def current_call(path: str | os.PathLike[str] | None = None) -> str:
    """Return the name of the public call, or an empty string; with a path, as in ``read('a.txt')``."""
    name, _ = _find_call()
    if path is None:
        return name
    return f"{name.partition('(')[0]}({str(path)!r})" if name else repr(str(path))


def without_name(error: Exception) -> str:
    """Return the text of an error without the name of the public call, to make it a part of another text."""
    text, name = str(error), current_call()
    if not name or text.startswith(f"{name}: "):
        return text.removeprefix(f"{name}: ")
    start = f"{name.partition('(')[0]}("  # of a name with a path: read('a.txt')
    path, end, rest = text.removeprefix(start).partition("): ")
    return f"{path}: {rest}" if end and text.startswith(start) else text


def add_place(error: TypeError | ValueError, place: str) -> TypeError | ValueError:
    """Return an error with the place in the data in front of its text, behind the name of the public call."""
    make = type_error if isinstance(error, TypeError) else value_error
    return make(f"{place}: {without_name(error)}")


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's code that made the public call, whose name is put in front of the text."""
    name, depth = _find_call()
    warnings.warn(f"{name}: {text}" if name else text, category, stacklevel=depth + 1)


def in_this_call(work: F) -> F:
    """Return ``work`` to be run by another thread, where errors get the name of the public call in this thread."""
    frame = sys._getframe(1)

    def run(*arguments: Any, **options: Any) -> Any:
        _thread.caller = frame
        try:
            return work(*arguments, **options)
        finally:
            _thread.caller = None

    return run  # type: ignore[return-value]
