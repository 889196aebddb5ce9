"""Operations that combine hypervectors: binding, unbinding and bundling."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ghrr import ops
from ghrr.algebra.arguments import SIDES, check_many, check_together
from ghrr.checks import (
    LinAlgError,
    are_alike,
    check_broadcast,
    check_choice,
    check_finite,
    check_hypervectors,
    check_items,
    describe,
    names_errors,
    type_error,
    value_error,
)

if TYPE_CHECKING:
    from ghrr.algebra.arguments import Items
    from ghrr.hypervector import Hypervector


@names_errors("bind(a, b)")
def bind(a: Tensor | Hypervector, b: Tensor | Hypervector) -> Tensor:
    r"""Bind two hypervectors: :math:`(A * B)_j = A_j B_j`, the matrix product in every slot.

    Binding is associative and distributes over bundling. It commutes only for m = 1 (FHRR) or diagonal slots. The
    product of unitary hypervectors is unitary and dissimilar to both factors. Binding with a unitary C preserves
    similarities, :math:`\delta(C * A, C * B) = \delta(A, B)`; binding with a bundle does not.

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
    unbind : the inverse.
    """
    if not are_alike(a, b):
        a, b = check_together(a=a, b=b)
    return ops.bind(a, b)


@names_errors("unbind(x, key)")
def unbind(x: Tensor | Hypervector, key: Tensor | Hypervector, *, side: str, exact: bool = False) -> Tensor:
    r"""Remove a key from a bound hypervector.

    For ``x = bind(key, value)``, ``unbind(x, key, side="left")`` returns ``value``; use ``side="right"`` for ``x =
    bind(value, key)``. Exact for unitary keys. If ``x`` is a bundle, the result is the value plus noise: clean it up
    with :class:`ghrr.ItemMemory`. On the wrong side the result has a similarity of about :math:`1/m^2` with the value
    instead of 1 (Haar rotations).

    .. math:: \text{left: } K^\dagger * X \qquad \text{right: } X * K^\dagger

    Parameters
    ----------
    x
        The bound hypervector, or a bundle that contains it.
    key
        The factor to remove.
    side
        Side of the key in the product: ``"left"`` or ``"right"``.
    exact
        Solve :math:`K V = X` instead of multiplying with the adjoint. Use it for keys that are not unitary, such as
        bundles. It amplifies noise by the condition number of the key's slots.

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
    if not are_alike(x, key):
        x, key = check_together(x=x, key=key)
    check_choice("side", side, SIDES)
    if not isinstance(exact, bool):
        raise type_error(f"exact must be True or False, got {describe(exact)}")
    if exact:
        return _solve(x, key, side)  # type: ignore[arg-type]  # both are tensors now
    left = side == "left"
    return ops.bind(key, x, adjoint_a=True) if left else ops.bind(x, key, adjoint_b=True)


def _solve(x: Tensor, key: Tensor, side: str) -> Tensor:
    check_finite("key", key)
    shape = torch.broadcast_shapes(x.shape, key.shape)  # type: ignore[no-untyped-call]
    x, key = x.expand(shape), key.expand(shape)  # solve would take an x with fewer axes for a batch of vectors
    try:
        solution: Tensor = torch.linalg.solve(key, x, left=side == "left")
    except LinAlgError as error:
        raise value_error(
            "a slot of the key is singular, so no exact inverse exists; normalize the key, or use exact=False"
        ) from error
    return solution


@names_errors("multibind(items)")
def multibind(items: Items, *others: object) -> Tensor:
    r"""Bind many hypervectors in order: :math:`A^{(1)} * A^{(2)} * \dots * A^{(n)}`.

    Pass a list of hypervectors, or a tensor with an axis of items. The product of no items is the identity.

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
    checked = check_many(items, others)
    return ops.multibind(checked) if isinstance(checked, Tensor) else functools.reduce(ops.bind, checked)


@names_errors("bundle(items)")
def bundle(items: Items, *others: object) -> Tensor:
    r"""Bundle many hypervectors: :math:`A^{(1)} + A^{(2)} + \dots + A^{(n)}`.

    The sum is similar to each item: :math:`\delta(A + B, A) = \delta(A, A) + \delta(B, A) \approx 1` for independent
    unitary A, B. It is not unitary, and not normalised: see :func:`normalize`. ``a + b`` bundles two hypervectors.

    Pass a list of hypervectors, or a tensor with an axis of items. The bundle of no items is zero.

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
    checked = check_many(items, others)
    return ops.bundle(checked) if isinstance(checked, Tensor) else functools.reduce(torch.add, checked)


@names_errors("bind_bundle(keys, values)")
def bind_bundle(keys: Tensor | Hypervector, values: Tensor | Hypervector) -> Tensor:
    r"""Bind pairs and bundle the products: :math:`\sum_n K^{(n)} * V^{(n)}`, the hypervector of a dictionary.

    Equal to ``bundle(bind(keys, values))``, without storing the products. Read it with ``unbind(x, key,
    side="left")``.

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
    keys, values = check_hypervectors(keys=keys, values=values)
    check_items(keys=keys, values=values)
    check_broadcast(keys=keys.shape[:-3], values=values.shape[:-3])
    return ops.bind_bundle(keys, values)
