r"""The algebra of hypervectors: pure functions on complex tensors ``(*batch, dim, m, m)``.

Every function checks that its arguments fit, broadcasts over batches, is differentiable, and works under
``torch.vmap`` and ``torch.compile``. A :class:`ghrr.Hypervector` is accepted for any tensor; the result is a plain
tensor, and spaces that differ are refused. :math:`A_j` is slot j of A, an m x m matrix, and :math:`\delta` the
similarity.
"""

from __future__ import annotations

import functools
import math
import numbers
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from ghrr import ops, unitary
from ghrr._checks import (
    LinAlgError,
    TensorInSpace,
    are_alike,
    check_broadcast,
    check_choice,
    check_finite,
    check_hypervectors,
    check_integer,
    check_items,
    describe,
    is_true,
)

if TYPE_CHECKING:
    from ghrr.hypervector import Hypervector

    Items: TypeAlias = Tensor | Hypervector | Sequence[Tensor | Hypervector]

# Eigenphases are known to 1e-15 or so: times this they are known to a thousandth of the circle.
LARGEST_EXPONENT = 10**12

__all__ = [
    "adjoint",
    "bind",
    "bind_bundle",
    "bundle",
    "commutativity",
    "commutator",
    "multibind",
    "normalize",
    "pairwise_similarity",
    "power",
    "shift",
    "similarity",
    "unbind",
    "unbind_similarity",
]


def bind(a: Tensor | Hypervector, b: Tensor | Hypervector) -> Tensor:
    r"""Bind two hypervectors: :math:`(A * B)_j = A_j B_j`, the matrix product in every slot.

    Binding is associative and distributes over bundling; it commutes only for m = 1 (FHRR) or diagonal slots. With
    unitary factors the product is unitary, unlike both factors, and keeps similarities: :math:`\delta(C * A, C * B)
    = \delta(A, B)` for a unitary C. For a C that is a bundle this fails.

    Shapes
    ------
    a, b: ``(*batch, dim, m, m)``, batches broadcast; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> space = ghrr.Space(dim=1000, m=3, seed=0)
    >>> a, b = space.vectors(["a", "b"])
    >>> ghrr.bind(a, b).shape
    torch.Size([1000, 3, 3])
    >>> torch.allclose(ghrr.bind(a, b), ghrr.bind(b, a))
    False

    See Also
    --------
    unbind : the inverse, on a named side.
    """
    if not are_alike(a, b):
        a, b = _check_fit("bind(a, b)", a=a, b=b)
    return ops.bind(a, b)  # type: ignore[arg-type]  # both are tensors now


def unbind(x: Tensor | Hypervector, key: Tensor | Hypervector, *, side: str, exact: bool = False) -> Tensor:
    r"""Undo a binding: what was bound to ``key`` when ``key`` stood on the given side.

    ``side="left"`` reads :math:`x = K * V` as :math:`K^\dagger * x = V`; ``side="right"`` reads :math:`x = V * K` as
    :math:`x * K^\dagger = V`. With a unitary key this is exact; what else is bundled in x stays as noise. On the wrong
    side the answer has a similarity of about :math:`1/m^2` with V instead of 1 (Haar rotations).

    Parameters
    ----------
    x
        The bound hypervector, or a bundle that contains it.
    key
        The factor to remove.
    side
        Where the key stands in the product: ``"left"`` or ``"right"``. There is no default, since a guess would be
        wrong half of the time.
    exact
        Solve :math:`K V = x` instead of multiplying with the adjoint. For keys that are not unitary, such as bundles;
        it amplifies noise by the condition number of the key's slots.

    Shapes
    ------
    x, key: ``(*batch, dim, m, m)``, batches broadcast; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> space = ghrr.Space(dim=1000, m=3, seed=0)
    >>> key, value = space.vectors(["key", "value"])
    >>> x = ghrr.bind(key, value)
    >>> f"{ghrr.similarity(ghrr.unbind(x, key, side='left'), value):.3f}"
    '1.000'
    >>> f"{ghrr.similarity(ghrr.unbind(x, key, side='right'), value):.1f}"
    '0.1'
    """
    operation = "unbind(x, key)"
    if not are_alike(x, key):
        x, key = _check_fit(operation, x=x, key=key)
    check_choice(operation, "side", side, ("left", "right"))
    if not isinstance(exact, bool):
        raise TypeError(f"{operation}: exact must be True or False, got {describe(exact)}")
    if exact:
        return _solve(x, key, side)  # type: ignore[arg-type]  # both are tensors now
    left = side == "left"
    return ops.bind(key, x, adjoint_a=True) if left else ops.bind(x, key, adjoint_b=True)  # type: ignore[arg-type]


def unbind_similarity(
    x: Tensor | Hypervector, key: Tensor | Hypervector, value: Tensor | Hypervector, *, side: str
) -> Tensor:
    r"""How much ``value`` is what was bound to ``key``: :math:`\delta(K^\dagger * x, V)` for a key on the left.

    Equal to ``similarity(unbind(x, key, side=side), value)``, but where each unbound hypervector meets one value it
    never exists in memory. For a key on the right it is :math:`\delta(x * K^\dagger, V)`.

    Shapes
    ------
    x, key, value: ``(*batch, dim, m, m)``, batches broadcast; output: ``(*batch)``, real

    Examples
    --------
    >>> import torch, ghrr
    >>> space = ghrr.Space(dim=1000, m=3, seed=0)
    >>> keys, values = space.vectors(["name", "city"]), space.vectors(["Ada", "London"])
    >>> x = ghrr.bind_bundle(keys, values)
    >>> [f"{s:.1f}" for s in ghrr.unbind_similarity(x, keys, values, side="left")]
    ['1.0', '1.0']
    >>> [f"{abs(s):.1f}" for s in ghrr.unbind_similarity(x, keys, values.flip(0), side="left")]
    ['0.0', '0.0']

    See Also
    --------
    unbind : the hypervector itself, for comparison with many values.
    """
    operation = "unbind_similarity(x, key, value)"
    x, key, value = _check_fit(operation, x=x, key=key, value=value)
    check_choice(operation, "side", side, ("left", "right"))
    if side == "left":
        return ops.bind_similarity(key, x, value, adjoint_a=True)
    return ops.bind_similarity(x, key, value, adjoint_b=True)


def _solve(x: Tensor, key: Tensor, side: str) -> Tensor:
    check_finite("unbind(x, key, exact=True)", "key", key)
    shape = torch.broadcast_shapes(x.shape, key.shape)  # type: ignore[no-untyped-call]
    x, key = x.expand(shape), key.expand(shape)  # solve would take a smaller x for a batch of vectors
    try:
        solution: Tensor = torch.linalg.solve(key, x, left=side == "left")
    except LinAlgError as error:
        raise ValueError(
            "unbind(x, key, exact=True): a slot of the key is singular, so no exact inverse exists; "
            "normalize the key, or unbind with its adjoint (exact=False)"
        ) from error
    return solution


def multibind(items: Items, *others: object) -> Tensor:
    r"""Bind many in order: :math:`A^{(1)} * A^{(2)} * \dots * A^{(n)}`.

    Give a list of hypervectors, or a tensor with an axis of items. Associativity lets the product be taken in pairs.
    The product of an axis of no items is the identity.

    Shapes
    ------
    items: a list of ``(*batch, dim, m, m)``, or ``(*batch, n, dim, m, m)``; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> a, b, c = ghrr.Space(dim=10, m=2, seed=0).vectors(["a", "b", "c"])
    >>> torch.allclose(ghrr.multibind([a, b, c]), ghrr.bind(a, ghrr.bind(b, c)), atol=1e-6)
    True
    >>> torch.allclose(ghrr.multibind(torch.stack([a, b, c])), ghrr.multibind([a, b, c]), atol=1e-6)
    True
    """
    checked = _check_many("multibind(items)", items, others)
    return ops.multibind(checked) if isinstance(checked, Tensor) else functools.reduce(ops.bind, checked)


def bundle(items: Items, *others: object) -> Tensor:
    r"""Superpose many: :math:`A^{(1)} + A^{(2)} + \dots + A^{(n)}`.

    The sum is similar to each of its parts: :math:`\delta(A + B, A) = \delta(A, A) + \delta(B, A) \approx 1` for
    independent unitary A, B. It is not unitary, and it is never normalised here: see :func:`normalize`.

    Give a list of hypervectors, or a tensor with an axis of items; two are simply ``a + b``. The bundle of an axis
    of no items is zero.

    Shapes
    ------
    items: a list of ``(*batch, dim, m, m)``, or ``(*batch, n, dim, m, m)``; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> space = ghrr.Space(dim=1000, m=3, seed=0)
    >>> stack = space.vectors(["a", "b", "c"])
    >>> torch.equal(ghrr.bundle(stack), ghrr.bundle(list(stack)))
    True
    >>> [f"{s:.1f}" for s in ghrr.pairwise_similarity(ghrr.bundle(stack), stack)]
    ['1.0', '1.0', '1.0']
    """
    checked = _check_many("bundle(items)", items, others)
    return ops.bundle(checked) if isinstance(checked, Tensor) else functools.reduce(torch.add, checked)


def bind_bundle(keys: Tensor | Hypervector, values: Tensor | Hypervector) -> Tensor:
    r"""Bind pairs and bundle the products: :math:`\sum_n K^{(n)} * V^{(n)}`, the hypervector of a dictionary.

    Equal to ``bundle(bind(keys, values))``, but the bound items never exist in memory. Read it with
    ``unbind(x, key, side="left")``.

    Shapes
    ------
    keys, values: ``(*batch, n, dim, m, m)``, batches and n broadcast; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> space = ghrr.Space(dim=1000, m=3, seed=0)
    >>> keys, values = space.vectors(["name", "city"]), space.vectors(["Ada", "London"])
    >>> x = ghrr.bind_bundle(keys, values)
    >>> ghrr.pairwise_similarity(ghrr.unbind(x, keys[1], side="left"), values).argmax()
    tensor(1)
    """
    operation = "bind_bundle(keys, values)"
    keys, values = check_hypervectors(operation, keys=keys, values=values)
    check_items(operation, keys=keys, values=values)
    check_broadcast(operation, keys=keys.shape[:-3], values=values.shape[:-3])
    return ops.bind_bundle(keys, values)


def adjoint(a: Tensor | Hypervector) -> Tensor:
    r"""Conjugate transpose of each slot, :math:`A_j^\dagger`: the inverse of a unitary hypervector under binding.

    :math:`(A * B)^\dagger = B^\dagger * A^\dagger`: the order turns round.

    Shapes
    ------
    a: ``(*batch, dim, m, m)``; output: the same

    Examples
    --------
    >>> import torch, ghrr
    >>> space = ghrr.Space(dim=10, m=2, seed=0)
    >>> a = space.vectors(["a"])[0]
    >>> torch.allclose(ghrr.bind(ghrr.adjoint(a), a), space.identity(), atol=1e-6)
    True
    """
    (a,) = check_hypervectors("adjoint(a)", a=a)
    return ops.adjoint(a)


def shift(a: Tensor | Hypervector, steps: int = 1) -> Tensor:
    r"""Permute by rolling the slots: :math:`\rho^s(A)_j = A_{(j-s) \bmod D}`.

    A shifted random hypervector is unlike the original; :math:`\rho` respects binding, bundling and similarity, and
    ``shift(shift(a, s), -s)`` is ``a``. The matrices inside the slots do not move.

    Shapes
    ------
    a: ``(*batch, dim, m, m)``; output: the same

    Examples
    --------
    >>> import torch, ghrr
    >>> ghrr.shift(torch.tensor([1 + 0j, 2, 3]).reshape(3, 1, 1)).flatten().real
    tensor([3., 1., 2.])
    """
    (a,) = check_hypervectors("shift(a, steps)", a=a)
    return ops.shift(a, check_integer("shift(a, steps)", "steps", steps) % a.shape[-3])


def power(a: Tensor | Hypervector, exponent: float | Tensor) -> Tensor:
    r"""Bind with itself, a whole or a fractional number of times: :math:`A_j^x`, the matrix power of each slot.

    A whole number is repeated binding, :math:`A^0` the identity and :math:`A^{-1}` the matrix inverse; it exists for
    any hypervector. A real exponent is the principal power: eigenvalues :math:`re^{i\varphi}`,
    :math:`\varphi \in (-\pi, \pi]`, become :math:`r^x e^{ix\varphi}`. Then :math:`A^x * A^y = A^{x+y}`, and for
    unitary A :math:`A^x` is unitary with :math:`(A^x)^\dagger = A^{-x}`. It jumps where an eigenvalue
    crosses -1. It needs slots that can be inverted and diagonalised, as unitary ones always can.

    A slot that :func:`ghrr.unitary.is_unitary` accepts stands for the unitary matrix nearest to it, and its power
    is computed in double precision and rounded once: it is unitary for every exponent up to 10¹² in size. The exponent
    multiplies errors of the eigenphases :math:`\varphi`: those of the stored numbers, about :math:`\varepsilon` of
    their dtype, so that :math:`A^x` and the power of the matrix that was meant differ by about :math:`|x|
    \varepsilon`; and those of double precision, about :math:`10^{-15}`. Whole exponents up to 8 in size are plain
    products. Powers of other slots grow or vanish with the exponent: project bundles first, with
    ``normalize(a, to="unitary")``, if that is not what you want.

    For m = 1 and independent phases, :math:`\delta(A^x, A^y)` is a kernel of x - y (fractional power encoding). For
    m > 1 the paper encodes numbers as :math:`Q \Lambda(x)` instead, which is not the power of a matrix.

    Parameters
    ----------
    a
        The base.
    exponent
        A whole number, a real number, or a real tensor that broadcasts against the batch; finite, and at most 10¹² in
        size. Tensors are used in double precision.

    Shapes
    ------
    a: ``(*batch, dim, m, m)``, exponent: ``(*batch)``, broadcast; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> a = ghrr.Space(dim=10, m=2, seed=0).vectors(["a"])[0]
    >>> root = ghrr.power(a, 0.5)
    >>> torch.allclose(ghrr.bind(root, root), a, atol=1e-5)
    True
    >>> ghrr.power(a, torch.linspace(0, 1, 5)).shape
    torch.Size([5, 10, 2, 2])
    """
    operation = "power(a, exponent)"
    (a,) = check_hypervectors(operation, a=a)
    given: Any = exponent
    if isinstance(given, numbers.Integral) and given is not True and given is not False:
        whole = int(given)
        if abs(whole) > LARGEST_EXPONENT:
            raise ValueError(_too_large(operation, whole))
        if whole < 0:
            _check_invertible(operation, a)
        return ops.power(a, whole)
    exponents = _real_exponent(operation, a, exponent)
    check_broadcast(operation, a=a.shape[:-3], exponent=exponents.shape)
    fast = ops.unitary_power(a, exponents)
    if fast is not None:  # what is unitary is finite, and can be inverted and diagonalised
        return fast
    _check_invertible(operation, a)
    _check_diagonalisable(operation, a)
    return ops.power(a, exponents)


def _real_exponent(operation: str, a: Tensor, exponent: object) -> Tensor:
    if not isinstance(exponent, Tensor):
        if isinstance(exponent, bool) or not isinstance(exponent, numbers.Real):
            raise TypeError(f"{operation}: exponent must be a real number or a real tensor, got {describe(exponent)}")
        number = float(exponent)
        if not abs(number) <= LARGEST_EXPONENT:  # also for NaN
            raise ValueError(_bad_exponent(operation, number))
        return torch.tensor(number, dtype=torch.float64, device=a.device)
    if exponent.dtype.is_complex or exponent.dtype == torch.bool:
        raise TypeError(f"{operation}: exponent must be real, got {describe(exponent)}")
    if exponent.device != a.device:
        raise ValueError(f"{operation}: a is on {a.device} but exponent on {exponent.device}; move one of them")
    exponent = exponent.to(torch.float64)
    inside = exponent.abs() <= LARGEST_EXPONENT  # false for NaN
    if is_true(~inside.all()):
        raise ValueError(_bad_exponent(operation, exponent[~inside].flatten()[0].item()))
    return exponent


def _bad_exponent(operation: str, exponent: float) -> str:
    if math.isfinite(exponent):
        return _too_large(operation, exponent)
    return f"{operation}: exponent must be finite, got {exponent}"


def _too_large(operation: str, exponent: float) -> str:
    return (
        f"{operation}: exponent must be at most {LARGEST_EXPONENT:.0e} in size, got {describe(exponent)}; beyond that "
        f"the errors of double precision fill the whole circle of phases"
    )


def _check_invertible(operation: str, a: Tensor) -> None:
    check_finite(operation, "a", a)
    singular = torch.linalg.det(a) == 0
    if is_true(singular.any()):
        slot = tuple(singular.nonzero()[0].tolist())
        raise ValueError(f"{operation}: slot {slot} of a is singular; only whole powers from 0 on exist for it")


def _check_diagonalisable(operation: str, a: Tensor) -> None:
    """Slots that commute with their adjoint always can be diagonalised; others are tried."""
    tolerance = 1e3 * a.shape[-1] * torch.finfo(a.dtype).eps * a.detach().abs().amax() ** 2 if a.numel() else 0.0
    if not is_true(((a @ a.mH - a.mH @ a).abs() > tolerance).any()):
        return
    vectors = torch.linalg.eig(a.detach()).eigenvectors
    largest, smallest = (torch.linalg.svdvals(vectors)[..., k] for k in (0, -1))
    poor = smallest < largest * torch.finfo(a.dtype).eps ** 0.75
    if is_true(poor.any()):
        slot = tuple(poor.nonzero()[0].tolist())
        raise ValueError(
            f"{operation}: slot {slot} of a cannot be diagonalised (its eigenvectors coincide) and has no real power "
            f"here; a whole number as exponent works, and so does normalizing to unitary first"
        )


def normalize(a: Tensor | Hypervector, *, to: str = "norm") -> Tensor:
    r"""Scale to unit norm, or project every slot to the nearest unitary matrix.

    ``to="norm"`` divides by :math:`\sqrt{\delta(A, A)}`, so that :math:`\delta(A, A) = 1`: proportions inside a
    bundle stay as they are. Zero stays zero. ``to="unitary"`` replaces each slot by its polar factor, so that the
    adjoint becomes the inverse again; for a bundle this loses capacity and is not undone by unbundling.

    Shapes
    ------
    a: ``(*batch, dim, m, m)``; output: the same

    Examples
    --------
    >>> import torch, ghrr
    >>> space = ghrr.Space(dim=100, m=2, seed=0)
    >>> x = ghrr.bundle(space.vectors(["a", "b"]))
    >>> y = ghrr.normalize(x)
    >>> f"{ghrr.similarity(y, y):.3f}"
    '1.000'
    >>> ghrr.unitary.is_unitary(ghrr.normalize(x, to="unitary"))
    True
    """
    operation = "normalize(a)"
    (a,) = check_hypervectors(operation, a=a)
    check_choice(operation, "to", to, ("norm", "unitary"))
    if to == "unitary":
        return unitary.polar(a)
    check_finite(operation, "a", a)
    # Divided by a power of two first: squares of very small or very large entries would leave the range of floats.
    pairs = torch.view_as_real(a.resolve_conj())
    _, exponent = torch.frexp(pairs.detach().abs().amax(dim=(-4, -3, -2, -1), keepdim=True))
    half = torch.div(exponent, 2, rounding_mode="floor")  # in two steps, since 2**-exponent may be no float
    scaled = torch.view_as_complex(torch.ldexp(torch.ldexp(pairs, -half), half - exponent))
    square = ops.similarity(scaled, scaled)[..., None, None, None]
    return scaled * torch.rsqrt(torch.where(square > 0, square, torch.ones_like(square)))


def similarity(a: Tensor | Hypervector, b: Tensor | Hypervector) -> Tensor:
    r"""Similarity :math:`\delta(A, B) = \frac{1}{mD} \mathrm{Re}\,\mathrm{tr}\big(\sum_j A_j B_j^\dagger\big)`.

    A real inner product: symmetric, bilinear over the reals, positive on everything but zero. A unitary hypervector has
    similarity 1 with itself; independent random ones have 0 within ``Space.noise_std``. It does not divide by norms:
    a bundle of n has similarity about 1 with each of its parts and about n with itself.

    Shapes
    ------
    a, b: ``(*batch, dim, m, m)``, batches broadcast; output: ``(*batch)``, real

    Examples
    --------
    >>> import torch, ghrr
    >>> a, b = ghrr.Space(dim=1000, m=3, seed=0).vectors(["a", "b"])
    >>> f"{ghrr.similarity(a + b, a):.2f}"
    '1.00'
    """
    if not are_alike(a, b):
        a, b = _check_fit("similarity(a, b)", a=a, b=b)
    return ops.similarity(a, b)  # type: ignore[arg-type]  # both are tensors now


def pairwise_similarity(queries: Tensor | Hypervector, items: Tensor | Hypervector) -> Tensor:
    r"""Similarity of every query with every item, as one real matrix product.

    Shapes
    ------
    queries: ``(*batch, dim, m, m)``, items: ``(n, dim, m, m)``; output: ``(*batch, n)``, real

    Examples
    --------
    >>> import torch, ghrr
    >>> items = ghrr.Space(dim=1000, m=3, seed=0).vectors(["a", "b", "c"])
    >>> ghrr.pairwise_similarity(items, items).argmax(dim=-1)
    tensor([0, 1, 2])
    """
    operation = "pairwise_similarity(queries, items)"
    queries, items = check_hypervectors(operation, queries=queries, items=items)
    if items.ndim != 4:
        raise ValueError(f"{operation}: items must have shape (n, dim, m, m), got {describe(items)}")
    return ops.pairwise_similarity(queries, items)


def commutator(a: Tensor | Hypervector, b: Tensor | Hypervector) -> Tensor:
    r"""What order changes: :math:`[A, B] = A * B - B * A`; zero when, and only when, A and B commute.

    Shapes
    ------
    a, b: ``(*batch, dim, m, m)``, batches broadcast; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> space = ghrr.Space(dim=10, m=2, seed=0)
    >>> ghrr.commutator(space.vectors(["a"])[0], space.identity()).abs().max()
    tensor(0.)
    """
    a, b = _check_fit("commutator(a, b)", a=a, b=b)
    return ops.bind(a, b) - ops.bind(b, a)


def commutativity(a: Tensor | Hypervector, b: Tensor | Hypervector) -> Tensor:
    r"""The paper's degree of commutativity :math:`\delta(A * B, B * A)`: 1 when A and B (unitary) commute.

    For independent Haar rotations its mean is :math:`1/m^2`. For given rotations Q, R of A, B and uniform phases
    the mean is :math:`\frac1m \mathrm{Re} \sum_b \overline{Q_{bb}} R_{bb} (R^\dagger Q)_{bb}`, averaged over slots.

    Shapes
    ------
    a, b: ``(*batch, dim, m, m)``, batches broadcast; output: ``(*batch)``, real

    Examples
    --------
    >>> import torch, ghrr
    >>> for m in (1, 3, 5):
    ...     a, b = ghrr.Space(dim=20000, m=m, seed=0).vectors(["a", "b"])
    ...     print(f"{ghrr.commutativity(a, b):.2f}")
    1.00
    0.11
    0.04
    """
    a, b = _check_fit("commutativity(a, b)", a=a, b=b)
    return ops.similarity(ops.bind(a, b), ops.bind(b, a))


def _check_fit(operation: str, **given: Tensor | Hypervector) -> Iterable[Tensor]:
    tensors = check_hypervectors(operation, **given)
    if len({x.shape[:-3] for x in tensors}) > 1:
        check_broadcast(operation, **{name: x.shape[:-3] for name, x in zip(given, tensors, strict=True)})
    return tensors


def _check_many(operation: str, items: Items, others: tuple[object, ...]) -> Tensor | list[Tensor]:
    """A tensor with an axis of items, or a list of hypervectors that fit together."""
    if others or not isinstance(items, (Tensor, TensorInSpace, list, tuple)):
        raise TypeError(
            f"{operation}: give a list, [a, b], or one tensor with an axis of items, (*batch, n, dim, m, m); "
            f"got {1 + len(others)} argument{'s' * bool(others)}, the first {describe(items)}"
        )
    if isinstance(items, (Tensor, TensorInSpace)):
        (stack,) = check_hypervectors(operation, items=items)
        check_items(operation, items=stack)
        return stack
    if not items:
        raise ValueError(f"{operation}: an empty list has no shape; give a tensor of shape (0, dim, m, m) instead")
    return list(_check_fit(operation, **{f"items[{i}]": x for i, x in enumerate(items)}))
