"""Mutants change one place of the code, stay Python, and leave out what has no effect on results."""

import ast
from pathlib import Path

import pytest

import ghrr.memory.match
from tests.mutants.mutate import mutants
from tests.mutants.run import choose


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("a < b", {"a <= b"}),
        ("a @ b", {"b @ a"}),
        ("a or b", {"a and b"}),
        ("not a", {"(a)"}),
        ("x.mH", {"x.mT"}),
        ("x.conj()", {"(x)", "pass"}),
        ("torch.sqrt(x)", {"(x)", "pass"}),
        ("f(a, b=0)", {"f(a, b=1)", "pass"}),
        ("f(a, b)", {"f(b, a)", "pass"}),
        ("min(a, a)", {"max(a, a)", "pass"}),
        ("side == 'left'", {"side != 'left'", "side == 'right'"}),
        ("x = 'ö' if a else b", {"x = b if a else 'ö'"}),
        ("'é', 1.5", {"'é', 3.0"}),
        ("0.0, 0", {"1.0, 0", "0.0, 1"}),
        ("x += y", {"pass"}),
        ("if a: b = c", {"if False: b = c", "if not (a): b = c"}),
    ],
)
def test_mutants_of_one_line(code: str, expected: set[str]) -> None:
    assert {mutant.apply(code) for mutant in mutants(code)} == expected


@pytest.mark.parametrize(
    "code",
    [
        '"""Text 1 < 2."""',
        'raise ValueError(f"{1 + 1}")',
        "import a",
        "x: int | None = y",
        "warnings.warn('a', stacklevel=2)",
    ],
)
def test_texts_types_and_imports_have_no_mutants(code: str) -> None:
    assert mutants(code) == []


def test_mutants_of_a_module_are_python_and_differ_from_it() -> None:
    source = Path(ghrr.memory.match.__file__).read_text()
    for mutant in mutants(source)[::20]:
        assert ast.dump(ast.parse(mutant.apply(source))) != ast.dump(ast.parse(source))


def test_choice_follows_from_the_seed() -> None:
    root = Path(__file__).parents[2]
    found = [choose(root, ["memory/match.py"], 5, seed) for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2]
    assert len({mutant.line for _, mutant in found[0][1]}) == 5 < found[0][0]
