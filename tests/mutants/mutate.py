"""Small faults in Python code: for every line, the changes of one expression or statement that a test should notice."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple


class Mutant(NamedTuple):
    """A change of one place in a file: the text from ``start`` to ``end``, as offsets in UTF-8, becomes ``text``."""

    line: int
    start: int
    end: int
    text: str

    def apply(self, source: str) -> str:
        """Return the source code with this change."""
        data = source.encode()
        return (data[: self.start] + self.text.encode() + data[self.end :]).decode()

    def describe(self, source: str) -> str:
        """Return the old and the new text on one line."""
        old = " ".join(source.encode()[self.start : self.end].decode().split())
        return f"{old}  ->  {self.text}"


_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_STRINGS = {"left": "right", "right": "left"}
_ATTRIBUTES = {"mH": "mT", "mT": "mH", "real": "imag", "imag": "real"}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "amin": "amax", "amax": "amin"}
_REMOVED_CALLS = {"conj", "abs", "sqrt", "square", "clamp", "sorted"}
# Code without an effect on results: texts for people, types, imports, checks of types.
_SKIPPED = (ast.JoinedStr, ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)
_NO_RESULT = {"warn", "say", "debug", "cast", "overload", "isinstance"}


def mutants(source: str) -> list[Mutant]:
    """Return all mutants of a module, in the order of its lines.

    Examples
    --------
    >>> [mutant.describe("y = a < 2") for mutant in mutants("y = a < 2")]
    ['a < 2  ->  a <= 2', '2  ->  3']
    """
    starts = [0]
    for row in source.encode().split(b"\n"):
        starts.append(starts[-1] + len(row) + 1)
    found = []
    for node, text in _changes(ast.parse(source)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        found.append(Mutant(node.lineno, start, end, text))
    return sorted(found)


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Yield pairs of an expression or statement and the code to write in its place."""
    call = node.value if isinstance(node, ast.Expr) else node
    if isinstance(node, _SKIPPED) or (isinstance(call, ast.Call) and _name(call.func) in _NO_RESULT):
        return
    if isinstance(node, ast.expr):
        yield from ((node, text) for text in _other_expressions(node))
    elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield node, "pass"
    elif isinstance(node, ast.If):
        yield node.test, "False"
        yield node.test, f"not ({ast.unparse(node.test)})"
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "decorator_list", "bases", "op", "ops", "type_params"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _changes(child)


def _other_expressions(node: ast.expr) -> Iterator[str]:
    """Yield the code of expressions that differ from this one in one place."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=right):
            yield ast.unparse(ast.Compare(left, [_COMPARISONS[type(op)]()], right))
        case ast.BinOp(left=left, op=ast.MatMult(), right=right):
            yield ast.unparse(ast.BinOp(right, ast.MatMult(), left))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS and not _is_text(node):
            yield ast.unparse(ast.BinOp(left, _OPERATORS[type(op)](), right))
        case ast.BoolOp(op=op, values=values):
            yield ast.unparse(ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values))
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            yield f"({ast.unparse(operand)})"
        case ast.IfExp(test=test, body=body, orelse=other):
            yield ast.unparse(ast.IfExp(test, other, body))
        case ast.Constant(value=bool(value)):
            yield str(not value)
        case ast.Constant(value=int(value)):
            yield str(value + 1)
        case ast.Constant(value=float(value)):
            yield str(2 * value or 1.0)
        case ast.Constant(value=str(value)) if value in _STRINGS:
            yield repr(_STRINGS[value])
        case ast.Attribute(value=value, attr=name) if name in _ATTRIBUTES:
            yield f"{ast.unparse(value)}.{_ATTRIBUTES[name]}"
        case ast.Call():
            yield from _other_calls(node)


def _other_calls(node: ast.Call) -> Iterator[str]:
    """Yield a call with its first two arguments swapped, of the opposite function, or without the function."""
    name, arguments = _name(node.func), node.args
    if len(arguments) > 1 and not any(isinstance(x, ast.Starred) for x in arguments[:2]):
        swapped = [arguments[1], arguments[0], *arguments[2:]]
        if ast.dump(swapped[0]) != ast.dump(swapped[1]):
            yield ast.unparse(ast.Call(node.func, swapped, node.keywords))
    if name in _NAMES:
        other = _NAMES[name]
        func = ast.Attribute(node.func.value, other) if isinstance(node.func, ast.Attribute) else ast.Name(other)
        yield ast.unparse(ast.Call(func, arguments, node.keywords))
    if name in _REMOVED_CALLS:
        is_method = isinstance(node.func, ast.Attribute) and _name(node.func.value) not in {"torch", "np", "math"}
        kept = node.func.value if is_method and isinstance(node.func, ast.Attribute) else (arguments or [node])[0]
        yield f"({ast.unparse(kept)})"


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_text(node: ast.BinOp) -> bool:
    """Whether an operand is text, or the expression is a union of types."""
    kinds = [type(x.value) for x in (node.left, node.right) if isinstance(x, ast.Constant)]
    return any(kind in {str, bytes, type(None)} for kind in kinds) or isinstance(node.left, ast.JoinedStr)
