r"""Law checkers, for those who write their own encoders, samplers or kernels.

Each checker answers ``True`` or ``False`` or, with ``explain=True``, a pair of the answer and the reason. Exact
laws must hold to rounding; statistical ones to five standard errors, computed, not tuned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, overload

import torch
from torch import Tensor

from ghrr import algebra
from ghrr._checks import check_hypervectors, check_items, describe, first_nonfinite_slot
from ghrr.hypervector import Hypervector
from ghrr.unitary import check_unitary

__all__ = ["LAWS", "Law", "check_encoder", "check_laws", "check_quasi_orthogonal"]

_STANDARD_ERRORS = 5.0


@dataclass(frozen=True)
class Law:
    """An equation between three hypervectors.

    Attributes
    ----------
    statement
        The equation, to be read by people.
    needs_unitary
        Whether it holds for unitary hypervectors only, not for bundles.
    sides
        Both sides of the equation as a function of three hypervectors.
    """

    statement: str
    needs_unitary: bool
    sides: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def _identity(a: Tensor) -> Tensor:
    return torch.eye(a.shape[-1], dtype=a.dtype, device=a.device).expand_as(a)


LAWS: dict[str, Law] = {
    "associative": Law(
        "(A * B) * C = A * (B * C)",
        False,
        lambda a, b, c: (algebra.bind(algebra.bind(a, b), c), algebra.bind(a, algebra.bind(b, c))),
    ),
    "distributes from the left": Law(
        "A * (B + C) = A * B + A * C",
        False,
        lambda a, b, c: (algebra.bind(a, b + c), algebra.bind(a, b) + algebra.bind(a, c)),
    ),
    "distributes from the right": Law(
        "(A + B) * C = A * C + B * C",
        False,
        lambda a, b, c: (algebra.bind(a + b, c), algebra.bind(a, c) + algebra.bind(b, c)),
    ),
    "adjoint of a product": Law(
        "(A * B)^H = B^H * A^H",
        False,
        lambda a, b, _: (
            algebra.adjoint(algebra.bind(a, b)),
            algebra.bind(algebra.adjoint(b), algebra.adjoint(a)),
        ),
    ),
    "identity": Law("A * 1 = A", False, lambda a, _b, _c: (algebra.bind(a, _identity(a)), a)),
    "similarity is symmetric": Law(
        "δ(A, B) = δ(B, A)", False, lambda a, b, _: (algebra.similarity(a, b), algebra.similarity(b, a))
    ),
    "similarity is linear": Law(
        "δ(A + 2B, C) = δ(A, C) + 2 δ(B, C)",
        False,
        lambda a, b, c: (
            algebra.similarity(a + 2 * b, c),
            algebra.similarity(a, c) + 2 * algebra.similarity(b, c),
        ),
    ),
    "shift respects binding": Law(
        "ρ(A * B) = ρ(A) * ρ(B)",
        False,
        lambda a, b, _: (algebra.shift(algebra.bind(a, b)), algebra.bind(algebra.shift(a), algebra.shift(b))),
    ),
    "left key, left unbinding": Law(
        "A^H * (A * B) = B",
        True,
        lambda a, b, _: (algebra.unbind(algebra.bind(a, b), a, side="left"), b),
    ),
    "right key, right unbinding": Law(
        "(A * B) * B^H = A",
        True,
        lambda a, b, _: (algebra.unbind(algebra.bind(a, b), b, side="right"), a),
    ),
    "binding keeps similarity": Law(
        "δ(C * A, C * B) = δ(A, B)",
        True,
        lambda a, b, c: (
            algebra.similarity(algebra.bind(c, a), algebra.bind(c, b)),
            algebra.similarity(a, b),
        ),
    ),
    "similar to itself": Law(
        "δ(A, A) = 1",
        True,
        lambda a, _b, _c: (algebra.similarity(a, a), torch.ones_like(algebra.similarity(a, a))),
    ),
}


@overload
def check_laws(
    a: Tensor | Hypervector,
    b: Tensor | Hypervector,
    c: Tensor | Hypervector,
    *,
    unitary: bool = True,
    explain: Literal[False] = False,
) -> bool: ...
@overload
def check_laws(
    a: Tensor | Hypervector,
    b: Tensor | Hypervector,
    c: Tensor | Hypervector,
    *,
    unitary: bool = True,
    explain: Literal[True],
) -> tuple[bool, str]: ...
def check_laws(
    a: Tensor | Hypervector,
    b: Tensor | Hypervector,
    c: Tensor | Hypervector,
    *,
    unitary: bool = True,
    explain: bool = False,
) -> bool | tuple[bool, str]:
    """Whether three hypervectors obey the laws of the algebra, :data:`LAWS`, to rounding.

    Parameters
    ----------
    a, b, c
        Hypervectors of one shape.
    unitary
        Check also the laws that hold for unitary hypervectors only. Say False for bundles.
    explain
        Return ``(verdict, reason)``.

    Shapes
    ------
    a, b, c: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import ghrr
    >>> a, b, c = ghrr.Space(dim=50, m=3, seed=0).vectors(["a", "b", "c"])
    >>> ghrr.testing.check_laws(a, b, c)
    True
    >>> ghrr.testing.check_laws(a, b, a + c, explain=True)[1]
    'binding keeps similarity, δ(C * A, C * B) = δ(A, B): off by 0.014'
    """
    a, b, c = check_hypervectors("check_laws(a, b, c)", a=a, b=b, c=c)
    m = a.shape[-1]
    scale = math.prod(1.0 + float(x.abs().amax()) if x.numel() else 1.0 for x in (a, b, c))
    tolerance = 20 * m**2 * torch.finfo(a.dtype).eps * scale
    broken = []
    for name, law in LAWS.items():
        if law.needs_unitary and not unitary:
            continue
        left, right = law.sides(a, b, c)
        off = float((left - right).abs().amax()) if left.numel() else 0.0
        if not off <= tolerance:
            broken.append(f"{name}, {law.statement}: off by {off:.2g}")
    return _answer("; ".join(broken), explain)


@overload
def check_quasi_orthogonal(
    x: Tensor | Hypervector, *, std: float | None = None, explain: Literal[False] = False
) -> bool: ...
@overload
def check_quasi_orthogonal(
    x: Tensor | Hypervector, *, std: float | None = None, explain: Literal[True]
) -> tuple[bool, str]: ...
def check_quasi_orthogonal(
    x: Tensor | Hypervector, *, std: float | None = None, explain: bool = False
) -> bool | tuple[bool, str]:
    r"""Whether the similarities between different items have mean zero and the expected spread.

    Both are compared with theory to five standard errors, those of Gaussian noise or, if larger, those of the tails
    seen; so it fails by chance less than once in ten thousand times.

    Parameters
    ----------
    x
        At least ten independent hypervectors.
    std
        The expected standard deviation; by default that of own Haar rotations, :math:`1/\sqrt{2 D m^2}`. Pass
        ``space.noise_std`` for another regime.
    explain
        Return ``(verdict, reason)``.

    Shapes
    ------
    x: ``(n, dim, m, m)``

    Examples
    --------
    >>> import ghrr
    >>> space = ghrr.Space(dim=100, m=2, seed=0)
    >>> x = space.random(50, generator=space.generator("example"))
    >>> ghrr.testing.check_quasi_orthogonal(x)
    True
    >>> ghrr.testing.check_quasi_orthogonal(x + x[:1])
    False
    """
    operation = "check_quasi_orthogonal(x)"
    (x,) = check_hypervectors(operation, x=x)
    check_items(operation, x=x)
    if x.ndim != 4 or len(x) < 10:
        raise ValueError(f"{operation}: needs at least ten items, (n, dim, m, m); got {describe(x)}")
    expected = 1 / math.sqrt(2 * x.shape[-3] * x.shape[-1] ** 2) if std is None else std
    n = len(x)
    upper = torch.triu_indices(n, n, offset=1, device=x.device)
    values = algebra.pairwise_similarity(x, x)[upper[0], upper[1]].double()
    mean, variance = values.mean().item(), values.square().mean().item()
    mean_error = expected / math.sqrt(len(values))
    spread = max(math.sqrt(2) * expected**2, values.square().std().item())
    variance_error = spread / math.sqrt(len(values))
    reasons = []
    if not abs(mean) <= _STANDARD_ERRORS * mean_error:
        reasons.append(f"mean similarity {mean:.3g}, expected 0 ± {mean_error:.2g}")
    if not abs(variance - expected**2) <= _STANDARD_ERRORS * variance_error:
        reasons.append(f"standard deviation {math.sqrt(variance):.3g}, expected {expected:.3g}")
    return _answer("; ".join(reasons), explain)


@overload
def check_encoder(
    encode: Callable[[Tensor], Tensor], inputs: Tensor, *, unitary: bool = True, explain: Literal[False] = False
) -> bool: ...
@overload
def check_encoder(
    encode: Callable[[Tensor], Tensor], inputs: Tensor, *, unitary: bool = True, explain: Literal[True]
) -> tuple[bool, str]: ...
def check_encoder(
    encode: Callable[[Tensor], Tensor], inputs: Tensor, *, unitary: bool = True, explain: bool = False
) -> bool | tuple[bool, str]:
    """Whether a function is a well-behaved encoder of a batch of inputs.

    It must give one finite complex hypervector ``(n, dim, m, m)`` per input, unitary unless said otherwise, the same
    each time, and the same for an input alone as in a batch.

    Parameters
    ----------
    encode
        Takes the first axis of ``inputs`` as the batch.
    inputs
        At least two inputs.
    unitary
        Whether the encodings should be unitary. Say False for encoders that bundle.
    explain
        Return ``(verdict, reason)``.

    Examples
    --------
    >>> import ghrr, torch
    >>> base = ghrr.Space(dim=50, m=1, seed=0).vectors(["x"])[0]
    >>> x = torch.linspace(-1, 1, 5)
    >>> ghrr.testing.check_encoder(lambda x: ghrr.power(base, x), x)
    True
    >>> ghrr.testing.check_encoder(lambda x: ghrr.power(base, x - x.mean()), x + 1, explain=True)
    (False, 'input 0 is encoded differently alone than in a batch: off by 2')
    """
    if len(inputs) < 2:
        raise ValueError(f"check_encoder(encode, inputs): needs at least two inputs, got {describe(inputs)}")
    return _answer(_why_not_encoder(encode, inputs, unitary), explain)


def _why_not_encoder(encode: Callable[[Tensor], Tensor], inputs: Tensor, unitary: bool) -> str:
    out = encode(inputs)
    try:
        (out,) = check_hypervectors("encode(inputs)", output=out)
    except (TypeError, ValueError) as error:
        return str(error)
    if out.ndim != 4 or len(out) != len(inputs):
        return f"{len(inputs)} inputs should give ({len(inputs)}, dim, m, m), got {describe(out)}"
    nonfinite = first_nonfinite_slot(out)
    if nonfinite is not None:
        return f"the encoding of input {nonfinite[0]} is not finite in slot {nonfinite[1]}"
    if unitary:
        fine, reason = check_unitary(out, explain=True)
        if not fine:
            return reason
    if not torch.equal(out, encode(inputs)):
        return "a second call gives another result"
    tolerance = 20 * out.shape[-1] * torch.finfo(out.dtype).eps * (1 + float(out.abs().amax()))
    for i in range(len(inputs)):
        off = float((encode(inputs[i : i + 1])[0] - out[i]).abs().amax())
        if not off <= tolerance:
            return f"input {i} is encoded differently alone than in a batch: off by {off:.2g}"
    return ""


def _answer(reason: str, explain: bool) -> bool | tuple[bool, str]:
    return (not reason, reason) if explain else not reason
