"""Operations that compare hypervectors: similarity, and how far two hypervectors commute.

On the CPU, results that overflow are computed again in double precision, and raise if they are beyond the range of
their type. On a GPU they are infinite or NaN: a check would have to wait for the GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from ghrr import ops
from ghrr.algebra.arguments import SIDES, check_together
from ghrr.algebra.number_range import within_range
from ghrr.checks import are_alike, check_choice, check_hypervectors, describe, names_errors, value_error

if TYPE_CHECKING:
    from ghrr.hypervector import Hypervector


@names_errors("similarity(a, b)")
def similarity(a: Tensor | Hypervector, b: Tensor | Hypervector) -> Tensor:
    r"""Return the similarity of two hypervectors.

    .. math:: \delta(A, B) = \frac{1}{mD} \mathrm{Re}\,\mathrm{tr}\big(\sum_j A_j B_j^\dagger\big)

    A real inner product: symmetric, bilinear over the reals, positive for every A = B except zero. A unitary
    hypervector has similarity 1 with itself. Independent random ones have similarity 0 within ``Space.noise_std``. It
    is not divided by norms: a bundle of n items has similarity about 1 with each item and about n with itself.

    Shapes
    ------
    a, b: ``(*batch, dim, m, m)``, batches broadcast; output: ``(*batch)``, real

    Examples
    --------
    >>> import torch, ghrr
    >>> a, b = ghrr.Space(dim=1000, m=3, seed=0).vectors(["a", "b"])
    >>> f"{ghrr.similarity(a + b, a):.2f}"
    '1.01'
    """
    if not are_alike(a, b):
        a, b = check_together(a=a, b=b)
    return within_range(ops.similarity, a, b)  # type: ignore[arg-type]  # both are tensors now


@names_errors("pairwise_similarity(queries, items)")
def pairwise_similarity(queries: Tensor | Hypervector, items: Tensor | Hypervector) -> Tensor:
    r"""Return the similarity of every query with every item, as one real matrix product.

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
    queries, items = check_hypervectors(queries=queries, items=items)
    if items.ndim != 4:
        raise value_error(f"items must have shape (n, dim, m, m), got {describe(items)}")
    return within_range(ops.pairwise_similarity, queries, items)


@names_errors("unbind_similarity(x, key, value)")
def unbind_similarity(
    x: Tensor | Hypervector, key: Tensor | Hypervector, value: Tensor | Hypervector, *, side: str
) -> Tensor:
    r"""Return the similarity of an unbound hypervector with a value, :math:`\delta(K^\dagger * X, V)` on the left.

    Equal to ``similarity(unbind(x, key, side=side), value)``, without storing the unbound hypervectors. To compare each
    of them with many values, use :func:`unbind` and :func:`pairwise_similarity`.

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
    """
    x, key, value = check_together(x=x, key=key, value=value)
    check_choice("side", side, SIDES)

    def compute(x: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if side == "left":
            return ops.bind_similarity(key, x, value, adjoint_a=True)
        return ops.bind_similarity(x, key, value, adjoint_b=True)

    return within_range(compute, x, key, value, several_products=True)


@names_errors("commutator(a, b)")
def commutator(a: Tensor | Hypervector, b: Tensor | Hypervector) -> Tensor:
    r"""Return the commutator :math:`[A, B] = A * B - B * A`, which is zero if and only if A and B commute.

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
    a, b = check_together(a=a, b=b)
    return within_range(lambda a, b: ops.bind(a, b) - ops.bind(b, a), a, b)


@names_errors("commutativity(a, b)")
def commutativity(a: Tensor | Hypervector, b: Tensor | Hypervector) -> Tensor:
    r"""Return the paper's degree of commutativity :math:`\delta(A * B, B * A)`: 1 if unitary A and B commute.

    For independent Haar rotations its mean is :math:`1/m^2`. For given rotations Q, R of A, B and uniform phases the
    mean is :math:`\frac1m \mathrm{Re} \sum_b \overline{Q_{bb}} R_{bb} (R^\dagger Q)_{bb}`, averaged over slots.

    Shapes
    ------
    a, b: ``(*batch, dim, m, m)``, batches broadcast; output: ``(*batch)``, real

    Examples
    --------
    >>> import torch, ghrr
    >>> for m in (1, 3):
    ...     a, b = ghrr.Space(dim=2000, m=m, seed=0).vectors(["a", "b"])
    ...     print(f"{ghrr.commutativity(a, b):.1f}")
    1.0
    0.1
    """
    a, b = check_together(a=a, b=b)
    return within_range(lambda a, b: ops.similarity(ops.bind(a, b), ops.bind(b, a)), a, b)
