"""Errors and warnings start with the name of the public call, which is read from the call stack."""

from __future__ import annotations

import functools
import inspect
import pickle
import re
import sys
import threading
import timeit
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import ghrr
from ghrr import _calls
from ghrr._calls import in_this_call
from ghrr.checks import add_place, check_integer, named, names_errors, type_error, value_error, warn, without_name
from tests.helpers import gaussian

LIBRARY = """
import contextlib, functools, torch
from ghrr.checks import *

def fail(x=None):
    raise value_error("wrong")

@names_errors
def inner(x=None):
    fail(x)

@names_errors
def outer(x=None):
    inner(x)

@names_errors("add(x, y)")
def add(x, y):
    fail()

@names_errors
def apply(function, *arguments):
    return function(*arguments)

@names_errors
def divide(pool, wrap):
    pool.submit(wrap(fail)).result()

@names_errors
def read(path):
    raise value_error("the file is empty", path=path)

@names_errors
def steps():
    yield 1
    fail()

@names_errors
@contextlib.contextmanager
def context():
    fail()
    yield

@names_errors
def alarm():
    notify()

def notify():
    warn("it is late", RuntimeWarning)

class Base:
    def inherited(self):
        fail()

@names_errors
class Shape(Base):
    def __init__(self, sides=3):
        if sides < 3:
            fail()

    def __len__(self):
        fail()

    def __call__(self):
        fail()

    def draw(self):
        inner()

    def _hidden(self):
        fail()

    @property
    def area(self):
        fail()

    @functools.cached_property
    def volume(self):
        fail()

    @classmethod
    def load(cls):
        fail()

    @staticmethod
    def parse():
        fail()

    @torch.no_grad()
    def decorated(self):
        fail()

    @names_errors("+")
    def __add__(self, other):
        fail()

    @names_errors("{cls}[{self.key}, {index}]")
    def find(self, index):
        fail()

    @names_errors("{cls}({self.no_such_name})")
    def unknown(self):
        fail()

@names_errors
class Layer(torch.nn.Module):
    def forward(self, x):
        if x.ndim > 1:
            fail()
        return 2 * x
"""


def make_module(name: str, source: str, **given: Any) -> Any:
    """Return a module with its own name, which decides whether its functions are part of a library."""
    module = ModuleType(name)
    module.__dict__.update(given)
    sys.modules[name] = module  # where the compiler looks for it
    exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    return module


library = make_module("some_library", LIBRARY)


def text_of(call: Callable[[], object]) -> str:
    with pytest.raises(ValueError, match="wrong") as caught:
        call()
    return str(caught.value)


def test_the_outermost_public_call_names_the_error() -> None:
    assert text_of(library.inner) == "inner: wrong"
    assert text_of(library.outer) == "outer: wrong"


def test_functions_that_are_not_public_have_no_name() -> None:
    assert text_of(library.fail) == "wrong"
    assert text_of(library.Shape()._hidden) == "wrong"
    assert named("text") == "text"


def test_a_name_can_be_given() -> None:
    assert text_of(lambda: library.add(1, 2)) == "add(x, y): wrong"


def test_methods_are_named_after_the_class_of_the_object() -> None:
    class Square(library.Shape):  # type: ignore[misc,name-defined]
        key = "side"

    shape = Square()
    calls = {
        "Square": [lambda: Square(2), lambda: len(shape), shape],
        "Shape.unknown": [shape.unknown],
        "Square.draw": [shape.draw],
        "Square.area": [lambda: shape.area],
        "Square.volume": [lambda: shape.volume],
        "Square.load": [Square.load, shape.load],
        "Shape.load": [library.Shape.load],
        "Shape.parse": [Square.parse],
        "Square.decorated": [shape.decorated],
        "Square.inherited": [shape.inherited],
        "+": [lambda: shape + 1],
        "Square[side, 3]": [lambda: shape.find(3)],
    }
    for name, functions in calls.items():
        for function in functions:
            assert text_of(function) == f"{name}: wrong"


def test_paths_follow_the_name() -> None:
    with pytest.raises(ValueError, match=r"^read\('a.txt'\): the file is empty$"):
        library.read("a.txt")
    assert str(value_error("text", path="a.txt")) == "'a.txt': text"


def test_types_of_errors_are_those_of_python() -> None:
    assert type(value_error("text")) is ValueError
    assert type(type_error("text")) is TypeError
    assert pickle.loads(pickle.dumps(value_error("text"))).args == ("text",)


def test_names_are_removed_and_places_added() -> None:
    assert library.apply(without_name, ValueError("apply: a: b")) == "a: b"
    assert library.apply(without_name, ValueError("apply('x'): a")) == "'x': a"
    assert library.apply(without_name, ValueError("applying: a")) == "applying: a"
    assert without_name(ValueError("apply: a")) == "apply: a"
    assert repr(library.apply(add_place, TypeError("apply: a"), "b[1]")) == "TypeError('apply: b[1]: a')"
    assert repr(add_place(UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), "b")).startswith("ValueError(\"b: 'utf-8'")


def test_errors_of_callbacks_and_of_other_libraries_keep_their_text() -> None:
    with pytest.raises(ValueError, match=r"^invalid literal"):
        library.apply(int, "x")
    with pytest.raises(RuntimeError, match=r"^mine$"):
        library.apply(make_module("a_user", "def f(): raise RuntimeError('mine')").f)


def test_a_call_inside_a_callback_names_its_error_itself() -> None:
    user = make_module("a_user", "def callback(): inner()", inner=library.inner)
    assert text_of(lambda: library.apply(user.callback)) == "inner: wrong"
    assert text_of(lambda: library.apply(functools.partial(map, library.inner), [1]).__next__()) == "inner: wrong"
    assert text_of(lambda: library.apply(library.inner)) == "apply: wrong"  # no code of the user between the two


def test_an_override_of_the_user_does_not_hide_the_name() -> None:
    source = "class Mine(Shape):\n    def draw(self):\n        super().draw()"
    user = make_module("a_user", source, Shape=library.Shape)
    assert text_of(user.Mine().draw) == "Mine.draw: wrong"


def test_generators_and_context_managers_are_named() -> None:
    steps = library.steps()
    next(steps)
    assert text_of(lambda: next(steps)) == "steps: wrong"
    assert text_of(lambda: library.context().__enter__()) == "context: wrong"


def test_calls_of_modules_pass_through_torch() -> None:
    layer = library.Layer()
    assert text_of(lambda: nn.Sequential(layer)(torch.ones(2, 2))) == "Layer: wrong"
    assert text_of(lambda: torch.vmap(library.outer)(torch.ones(2))) == "outer: wrong"


@pytest.mark.parametrize("fullgraph", [False, True])
def test_compiled_functions_name_their_errors(fullgraph: bool) -> None:
    # An error in a function without breaks is raised either as it is or inside an error of the compiler.
    errors = (ValueError, torch._dynamo.exc.Unsupported) if fullgraph else ValueError
    a, b = gaussian(4, 2, 2), gaussian(5, 2, 2)
    for function, arguments, text in [
        (library.Layer(), [torch.ones(2, 2)], "Layer: wrong"),
        (lambda x: library.outer(x) + 1, [torch.ones(2)], "outer: wrong"),
        (lambda a, b: 2 * ghrr.bind(a, b), [a, b], "bind(a, b): a and b differ in dim: 4 and 5"),
    ]:
        torch.compiler.reset()
        compiled = torch.compile(function, backend="eager", fullgraph=fullgraph)
        with pytest.raises(errors, match=f"(^|raised exception ValueError..){re.escape(text)}"):
            compiled(*arguments)
        result = torch.compile(library.Layer(), backend="eager", fullgraph=fullgraph)(torch.ones(2))
        torch.testing.assert_close(result, torch.full((2,), 2.0))


def test_threads_do_not_share_names() -> None:
    texts: list[str] = []
    inside, raised = threading.Event(), threading.Event()

    def wait() -> None:
        inside.set()
        raised.wait(10)

    other = threading.Thread(target=library.apply, args=[wait])
    other.start()
    inside.wait(10)
    texts.append(text_of(library.inner))
    raised.set()
    other.join()
    assert texts == ["inner: wrong"]


def test_work_in_other_threads_belongs_to_the_call() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert text_of(lambda: library.divide(pool, in_this_call)) == "divide: wrong"
        assert text_of(lambda: library.divide(pool, lambda work: work)) == "wrong"
        with ThreadPoolExecutor(1) as outer:  # no frame of the user in any thread
            assert text_of(outer.submit(library.divide, pool, in_this_call).result) == "divide: wrong"


def test_warnings_have_the_name_and_the_line_of_the_user() -> None:
    user = make_module("a_user", "def f():\n    alarm()\n\ndef g():\n    f()", alarm=library.alarm)
    for call in (user.f, user.g):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        (warning,) = caught
        assert str(warning.message) == "alarm: it is late"
        assert (warning.filename, warning.lineno, warning.category) == ("a_user.py", 2, RuntimeWarning)
    with pytest.warns(UserWarning, match=r"^text$"):
        warn("text")


def test_decorated_functions_are_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_calls, "_packages", set(_calls._packages))  # or these tests become a library

    def function(x: int, *, y: str = "") -> int:
        return x

    assert names_errors(function) is function
    assert names_errors("f(x)")(function) is function
    assert names_errors(Example) is Example
    assert list(inspect.signature(ghrr.unbind).parameters) == ["x", "key", "side", "exact"]
    assert not hasattr(ghrr.bind, "__wrapped__")
    assert pickle.loads(pickle.dumps(ghrr.bind)) is ghrr.bind


class Example:
    value: Any = 3


def test_tracebacks_have_only_functions_that_were_called() -> None:
    with pytest.raises(TypeError) as caught:
        ghrr.bind(1, 2)  # type: ignore[arg-type]
    assert [entry.name for entry in caught.traceback[1:]] == [
        "bind",
        "check_together",
        "check_hypervectors",
        "_explain",
        "_check_one",
    ]


def test_checks_of_users_name_their_functions() -> None:
    source = "@names_errors\ndef repeat(n):\n    return 'x' * check_integer('n', n, least=1)"
    user = make_module("a_user_with_checks", source, names_errors=names_errors, check_integer=check_integer)
    with pytest.raises(ValueError, match=r"^repeat: n must be a whole number of at least 1, got 0$"):
        user.repeat(0)
    with pytest.raises(ValueError, match=r"^n must be"):
        check_integer("n", 0, least=1)


def test_a_chain_of_calls_without_the_user_is_searched_to_its_end() -> None:
    @contextmanager
    def deep(limit: int) -> Iterator[None]:
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(limit)
        yield
        sys.setrecursionlimit(before)

    def call(depth: int) -> Tensor:
        if depth:
            return library.apply(call, depth - 1)  # type: ignore[no-any-return]
        return library.inner()  # type: ignore[no-any-return]

    with deep(4000):
        assert text_of(lambda: library.apply(call, 500)) in {"inner: wrong", "apply: wrong"}
        assert timeit.timeit(lambda: text_of(lambda: library.apply(call, 500)), number=1) < 5
