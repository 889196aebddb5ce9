"""The arithmetic of hypervectors, behind one dispatch.

Each operation exists once as a formula in :mod:`ghrr.ops.reference`, which is the specification, and once or more as a
kernel with the same name. These functions choose the kernel and call it; they check nothing. :mod:`ghrr.algebra` is the
public face, which checks shapes and explains errors. Real pairs, which are for storage in 16 bits, have no other face
than this one, and are checked here.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ghrr.ops import choice, library, numba_backend, pairs, reference, torch_backend, torch_polar, torch_power
from ghrr.ops.choice import backend, in_use

__all__ = [
    "adjoint",
    "backend",
    "bind",
    "bind_bags",
    "bind_bundle",
    "bind_bundle_pairs",
    "bind_pairs",
    "bind_similarity",
    "bundle",
    "fractional_power",
    "in_use",
    "multibind",
    "pairwise_similarity",
    "power",
    "shift",
    "similarity",
]


def bind(a: Tensor, b: Tensor, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    """Slot-wise matrix product, of adjoints where they are asked for."""
    if (adjoint_a or adjoint_b or a.shape[-1] > 1) and choice.suit_flat_loops(a, b):
        return choice.run(numba_backend, "bind_alike", (a, b), adjoint_a, adjoint_b)
    return library.call("bind", (a, b), adjoint_a, adjoint_b)


def bind_pairs(a: Tensor, b: Tensor, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    r"""Bind hypervectors that are kept as real pairs: :math:`A_j B_j`, of adjoints where they are asked for.

    Pairs in bfloat16 or float16 take half the memory of complex64 and, on a GPU, less time, since binding waits for
    memory. Arithmetic is in single precision, and the result is rounded once. Unbinding from the left is
    ``bind_pairs(key, x, adjoint_a=True)``, from the right ``bind_pairs(x, key, adjoint_b=True)``. Gradients are pairs
    of the same precision. Pairs in float32 are complex64, seen as real.

    Shapes
    ------
    a, b: ``(*batch, dim, m, m, 2)``, batches broadcast; output: the same

    Examples
    --------
    >>> import torch, ghrr
    >>> key, value = ghrr.Space(dim=1000, m=3, seed=0).vectors(["key", "value"])
    >>> a, b = (torch.view_as_real(x).to(torch.bfloat16) for x in (key, value))
    >>> x = ghrr.ops.bind_pairs(a, b)
    >>> x.shape, x.dtype
    (torch.Size([1000, 3, 3, 2]), torch.bfloat16)
    >>> back = torch.view_as_complex(ghrr.ops.bind_pairs(a, x, adjoint_a=True).float())
    >>> print(f"{ghrr.similarity(back, value):.3f}")
    1.000
    """
    pairs.check("bind_pairs(a, b)", axes=4, a=a, b=b)
    return library.call("bind_pairs", (a, b), adjoint_a, adjoint_b)


def bind_bundle_pairs(keys: Tensor, values: Tensor, adjoint_keys: bool = False, adjoint_values: bool = False) -> Tensor:
    r"""Bind real pairs and bundle the products, :math:`\sum_n K^{(n)} * V^{(n)}`: see :func:`bind_pairs`.

    The sum is in single precision too, and rounded once.

    Shapes
    ------
    keys, values: ``(*batch, n, dim, m, m, 2)``, batches and n broadcast; output: ``(*batch, dim, m, m, 2)``

    Examples
    --------
    >>> import torch, ghrr
    >>> keys = torch.ones(4, 10, 1, 1, 2, dtype=torch.bfloat16)
    >>> ghrr.ops.bind_bundle_pairs(keys, keys)[0]  # 4 (1 + i)²
    tensor([[[0., 8.]]], dtype=torch.bfloat16)
    """
    pairs.check("bind_bundle_pairs(keys, values)", axes=5, keys=keys, values=values)
    return library.call("bind_bundle_pairs", (keys, values), adjoint_keys, adjoint_values)


def adjoint(a: Tensor) -> Tensor:
    """Conjugate transpose of each slot."""
    return choice.formula("adjoint")(a)


def bundle(items: Tensor) -> Tensor:
    """Sum over the item axis."""
    return choice.formula("bundle")(items)


def multibind(items: Tensor) -> Tensor:
    """Ordered product over the item axis."""
    if choice.is_plain(items):
        return choice.compute("multibind", (items,))
    if choice.chosen() == "reference":
        return reference.multibind(items)
    return torch_backend.multibind(items, bind)


def bind_bundle(keys: Tensor, values: Tensor, adjoint_keys: bool = False, adjoint_values: bool = False) -> Tensor:
    """Sum of the products of keys and values over the item axis, without the products in memory."""
    return library.call("bind_bundle", (keys, values), adjoint_keys, adjoint_values)


def bind_bags(keys: Tensor, values: Tensor, key_places: Tensor, value_places: Tensor, starts: Tensor) -> Tensor:
    """Many sums of products of keys and values, which are given by their places in two tables."""
    tensors = keys, values, key_places, value_places, starts
    if choice.kernels_for("bind_bags", keys, values, key_places) is numba_backend and choice.is_plain(*tensors):
        return choice.run(numba_backend, "bind_bags", tensors)
    return choice.formula("bind_bags")(*tensors)


def similarity(a: Tensor, b: Tensor) -> Tensor:
    """Similarity, batches broadcast."""
    if choice.suit_flat_loops(a, b):
        return choice.run(numba_backend, "similarity", (a, b))
    return choice.formula("similarity")(a, b)


def bind_similarity(a: Tensor, b: Tensor, c: Tensor, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    """Similarity of the product of two with a third, without the product in memory."""
    products = torch.broadcast_shapes(a.shape, b.shape)  # type: ignore[no-untyped-call]
    together = torch.broadcast_shapes(products, c.shape)  # type: ignore[no-untyped-call]
    if products != together:  # each product meets several: it is made once
        return similarity(bind(a, b, adjoint_a, adjoint_b), c)
    return library.call("bind_similarity", (a, b, c), adjoint_a, adjoint_b)


def pairwise_similarity(queries: Tensor, items: Tensor) -> Tensor:
    """Similarity of every query with every item."""
    return choice.formula("pairwise_similarity")(queries, items)


def shift(a: Tensor, steps: int) -> Tensor:
    """Cyclic roll of the slots."""
    return choice.formula("shift")(a, steps)


def polar(x: Tensor) -> Tensor:
    """The unitary matrix nearest to each slot."""
    if choice.chosen() == "reference":
        return reference.polar(x)
    return _polar_factor(x) if choice.is_plain(x) else torch_polar.polar(x, _polar_factor)


def _polar_factor(x: Tensor) -> Tensor:
    if choice.is_plain(x) and choice.kernels_for("polar", x) is numba_backend:
        return choice.run(numba_backend, "polar", (x,))
    return torch_polar.polar_factor(x)


def power(a: Tensor, exponent: int | Tensor) -> Tensor:
    """Matrix power of each slot: an int repeats binding, a tensor gives real principal powers."""
    if choice.chosen() == "reference":
        return reference.power(a, exponent)
    return torch_power.power(a, exponent, _whole_power)


def unitary_power(a: Tensor, exponents: Tensor) -> Tensor | None:
    """Real powers of plain unitary slots by a kernel; None where there is none, or where a slot is not unitary."""
    if not choice.is_plain(a, exponents) or choice.kernels_for("unitary_power", a, exponents) is not numba_backend:
        return None
    try:
        return numba_backend.unitary_power(a, exponents)
    except Exception as error:  # whatever a compiler may raise
        choice.give_up("numba", error)
        return None


def _whole_power(a: Tensor, exponent: int) -> Tensor:
    if choice.is_plain(a):
        return choice.compute("whole_power", (a,), exponent)
    return torch_backend.whole_power(a, exponent, bind)


def fractional_power(rotation: Tensor, frequencies: Tensor, x: Tensor) -> Tensor:
    """Encodings of rows of numbers: rotations times phases that are linear in the numbers."""
    tensors = rotation, frequencies, x
    if numba_backend.suits_fractional_power(*tensors) and choice.allows("numba") and choice.is_plain(*tensors):
        return choice.run(numba_backend, "fractional_power", tensors)
    return choice.formula("fractional_power")(*tensors)
