"""Hypervector: a tensor with its space and an expression, for interactive use."""

from __future__ import annotations

import cmath
import html
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ghrr import algebra
from ghrr.checks import TensorInSpace, check_device, describe, named, names_errors, type_error, value_error

if TYPE_CHECKING:
    from ghrr.space import Space

# Precedence of operators, as in Python: an operand of lower precedence than its operator needs gets brackets.
_SUM, _PRODUCT, _SIGN, _POWER, _NAME = range(5)
_MAX_LENGTH = 100  # of an expression


@names_errors
class Hypervector(TensorInSpace):
    r"""Hypervector, or batch of hypervectors, with operators, its space and the expression that it was computed from.

    ======================  ==========================================================
    ``a * b``               bind
    ``a + b``, ``a - b``    bundle, remove from a bundle
    ``sum([a, b, c])``      bundle many
    ``~a``                  adjoint, the inverse of a unitary hypervector
    ``a ** x``              power, x an int or a float
    ``2 * a``, ``a / 2``    scale
    ``batch[i]``            item of a batch
    ======================  ==========================================================

    All functions of the library accept a Hypervector in place of a tensor; they use ``a.tensor`` and return plain
    tensors. Operators and methods of a Hypervector return Hypervectors, on the device of their tensors, and are
    differentiable with respect to them. ``numpy.asarray(a)`` is a read-only view of the numbers and
    ``torch.as_tensor(a)`` shares them. A Hypervector is immutable.

    Parameters
    ----------
    tensor
        Complex tensor ``(*batch, dim, m, m)`` that fits the space.
    space
        Space of the hypervector. Hypervectors of different spaces cannot be combined.
    expression
        Text that the repr shows.

    Examples
    --------
    >>> import ghrr
    >>> a, b, c = ghrr.Space(dim=1024, m=3, seed=0).atoms("a", "b", "c")
    >>> x = a * (b + c)
    >>> x
    Hypervector(a * (b + c), dim=1024, m=3, complex64)
    >>> f"{x.unbind(a, side='left').similarity(b):.1f}"
    '1.0'
    """

    __slots__ = ("_precedence", "expression", "space", "tensor")
    __array_ufunc__ = None  # makes numpy.float64(2) * a scale a

    tensor: Tensor
    space: Space
    expression: str
    _precedence: int

    @names_errors("Hypervector({expression})")
    def __init__(self, tensor: Tensor, space: Space, expression: str, *, _precedence: int = _NAME) -> None:
        if not isinstance(expression, str):
            raise type_error(f"expression must be a string, got {describe(expression)}")
        tensor = space.check(tensor)
        if len(expression) > _MAX_LENGTH:
            expression = f"{expression[: _MAX_LENGTH // 2]} … {expression[-_MAX_LENGTH // 2 :]}"
        for name, value in (
            ("tensor", tensor),
            ("space", space),
            ("expression", expression),
            ("_precedence", _precedence),
        ):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(named(f"cannot set {name!r}, a Hypervector is immutable; create a new one"))

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.tensor, self.space, self.expression, self._precedence)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return the numbers for NumPy: read-only unless they are copied."""
        lazy = self.tensor.is_conj() or self.tensor.is_neg()
        if lazy and copy is False:
            raise value_error("a conjugate must be copied to become an array; use numpy.array(a)")
        numbers = self.tensor.resolve_conj().resolve_neg().numpy()
        array = np.array(numbers, dtype=dtype, copy=copy)
        array.flags.writeable = array is not numbers
        return array

    def __dlpack__(self, **options: Any) -> Any:
        """Share the numbers with other libraries, and with ``torch.as_tensor``."""
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[Any, int]:
        return self.tensor.__dlpack_device__()

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch; empty for a single hypervector."""
        return self.tensor.shape[:-3]

    def __getitem__(self, index: int | slice) -> Hypervector:
        """Return one item of a batch, or a slice."""
        len(self)
        return self._new(self.tensor[index], f"{self._inside(_NAME)}[{index}]", _NAME)

    def __len__(self) -> int:
        if not self.batch_shape:
            raise type_error(f"{self.expression} is one hypervector, not a batch; use .tensor for its slots")
        return self.batch_shape[0]

    def __iter__(self) -> Iterator[Hypervector]:
        return (self[index] for index in range(len(self)))

    def to(self, device: torch.device | str) -> Hypervector:
        """Return a copy on another device; ``self`` if it is there already."""
        tensor = self.tensor.to(check_device(device))
        return self if tensor is self.tensor else self._new(tensor, self.expression, self._precedence)

    @names_errors("*")
    def __mul__(self, other: Hypervector | float) -> Hypervector:
        if isinstance(other, (int, float)):
            return self._scaled(other)
        if not isinstance(other, Hypervector):
            return NotImplemented
        result = algebra.bind(self.tensor, self._check_other(other).tensor)
        return self._new(result, f"{self._inside(_PRODUCT)} * {other._inside(_PRODUCT)}", _PRODUCT)

    def __rmul__(self, other: float) -> Hypervector:
        if isinstance(other, (int, float)):
            return self._scaled(other)
        return NotImplemented

    @names_errors("+")
    def __add__(self, other: Hypervector) -> Hypervector:
        if not isinstance(other, Hypervector):
            return NotImplemented
        result = algebra.bundle([self.tensor, self._check_other(other).tensor])
        return self._new(result, f"{self._inside(_SUM)} + {other._inside(_SUM)}", _SUM)

    def __radd__(self, other: object) -> Hypervector:
        # sum() starts from 0, the empty bundle
        return self if isinstance(other, int) and other == 0 else NotImplemented

    @names_errors("-")
    def __sub__(self, other: Hypervector) -> Hypervector:
        if not isinstance(other, Hypervector):
            return NotImplemented
        result = algebra.bundle([self.tensor, -self._check_other(other).tensor])
        return self._new(result, f"{self._inside(_SUM)} - {other._inside(_PRODUCT)}", _SUM)

    def __truediv__(self, divisor: float) -> Hypervector:
        if not isinstance(divisor, (int, float)):
            return NotImplemented
        return self._new(self.tensor / divisor, f"{self._inside(_PRODUCT)} / {divisor}", _PRODUCT)

    def __neg__(self) -> Hypervector:
        return self._new(-self.tensor, f"-{self._inside(_SIGN)}", _SIGN)

    def __invert__(self) -> Hypervector:
        return self._new(algebra.adjoint(self.tensor), f"~{self._inside(_SIGN)}", _SIGN)

    def __pow__(self, exponent: float) -> Hypervector:
        if not isinstance(exponent, (int, float)):
            return NotImplemented
        result = algebra.power(self.tensor, exponent)
        return self._new(result, f"{self._inside(_NAME)} ** {exponent}", _POWER)

    def similarity(self, other: Hypervector) -> Tensor:
        """Similarity with another hypervector, a real tensor of the broadcast batch shape: :func:`ghrr.similarity`."""
        return algebra.similarity(self.tensor, self._check_other(other).tensor)

    def unbind(self, key: Hypervector, *, side: str, exact: bool = False) -> Hypervector:
        """Remove ``key`` from the given side: :func:`ghrr.unbind`."""
        result = algebra.unbind(self.tensor, self._check_other(key).tensor, side=side, exact=exact)
        inverse = f"{key._inside(_NAME)} ** -1" if exact else f"~{key._inside(_SIGN)}"
        bound = self._inside(_PRODUCT)
        return self._new(result, f"{inverse} * {bound}" if side == "left" else f"{bound} * {inverse}", _PRODUCT)

    def shift(self, steps: int = 1) -> Hypervector:
        """Shift the slots cyclically: :func:`ghrr.shift`."""
        return self._new(algebra.shift(self.tensor, steps), f"shift({self.expression}, {steps})", _NAME)

    def normalize(self, *, to: str = "norm") -> Hypervector:
        """Scale to unit norm or project to unitary: :func:`ghrr.normalize`."""
        result = algebra.normalize(self.tensor, to=to)
        return self._new(result, f"normalize({self.expression}, to={to!r})", _NAME)

    def __repr__(self) -> str:
        batch = f"batch={tuple(self.batch_shape)}, " if self.batch_shape else ""
        dtype = str(self.space.dtype).removeprefix("torch.")
        return f"Hypervector({self.expression}, {batch}dim={self.space.dim}, m={self.space.m}, {dtype})"

    def _repr_html_(self) -> str:
        return _html(self)

    def _scaled(self, factor: float) -> Hypervector:
        return self._new(self.tensor * factor, f"{factor} * {self._inside(_PRODUCT)}", _PRODUCT)

    def _new(self, tensor: Tensor, expression: str, precedence: int) -> Hypervector:
        return Hypervector(tensor, self.space, expression, _precedence=precedence)

    def _inside(self, precedence: int) -> str:
        return self.expression if self._precedence >= precedence else f"({self.expression})"

    def _check_other(self, other: Hypervector) -> Hypervector:
        if not isinstance(other, Hypervector):
            raise type_error(f"needs a Hypervector, got {describe(other)}; space.wrap(tensor) makes one")
        if self.space != other.space:
            raise value_error(
                f"{self.expression} and {other.expression} belong to different spaces: {self.space} and "
                f"{other.space}; create both in one space"
            )
        return other


def _rebuild(tensor: Tensor, space: Space, expression: str, precedence: int) -> Hypervector:
    return Hypervector(tensor, space, expression, _precedence=precedence)


def _html(hypervector: Hypervector) -> str:
    """Return HTML with the properties of a hypervector and, for a single one, a picture of its first slots."""
    space = hypervector.space
    title = html.escape(hypervector.expression)
    lines = f"dim = {space.dim}, m = {space.m}, total {space.total_dim}, {str(space.dtype).removeprefix('torch.')}"
    if hypervector.batch_shape:
        return _HTML.format(title=title, lines=f"{lines}, batch {tuple(hypervector.batch_shape)}", picture="")
    square = float(hypervector.similarity(hypervector).detach())
    return _HTML.format(title=title, lines=f"{lines}, δ(x, x) = {square:.3g}", picture=_picture(hypervector.tensor))


def _picture(x: Tensor, slots: int = 24, size: int = 10) -> str:
    """Return an SVG in which every entry is a line that points to its phase and has the length of its magnitude."""
    m = x.shape[-1]
    shown = x[:slots].detach().cpu()
    scale = size / 2 / (float(shown.abs().max()) or 1.0)
    marks = []
    for slot, matrix in enumerate(shown.tolist()):
        left = slot * (m * size + 6)
        box = f'width="{m * size}" height="{m * size}" rx="2" stroke="none" fill="currentColor" opacity=".08"'
        marks.append(f'<rect x="{left}" {box}/>')
        for row, entries in enumerate(matrix):
            for column, value in enumerate(entries):
                if not cmath.isfinite(value):
                    continue
                x0, y0 = left + (column + 0.5) * size, (row + 0.5) * size
                marks.append(f'<path d="M{x0} {y0}l{scale * value.real:.2f} {-scale * value.imag:.2f}"/>')
    width = len(shown) * (m * size + 6) - 6
    note = f"{'first ' if x.shape[0] > slots else ''}{len(shown)} slots; direction is phase, length is magnitude"
    look = f'style="width:100%;max-width:{width}px;display:block;margin:4px 0"'
    return (
        f'<svg viewBox="0 0 {width} {m * size}" role="img" aria-label="{note}" {look} '
        f'stroke="currentColor" stroke-width="1.4" stroke-linecap="round">{"".join(marks)}</svg><small>{note}</small>'
    )


_HTML = (
    '<div style="font-family:system-ui,sans-serif;line-height:1.4;overflow-wrap:anywhere">'
    "<b>Hypervector</b> <code>{title}</code><br><small>{lines}</small>{picture}</div>"
)
