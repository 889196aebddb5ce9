r"""Assertions for tests of your own encoders, samplers and kernels.

Each ``check_*`` function returns None, or raises AssertionError with an explanation. Exact laws must hold to rounding,
statistical ones to five standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ghrr import algebra, models
from ghrr.checks import (
    check_hypervectors,
    check_items,
    describe,
    first_nonfinite_slot,
    names_errors,
    value_error,
)
from ghrr.hypervector import Hypervector
from ghrr.unitary.projection import check_unitary

__all__ = ["check_encoder", "check_laws", "check_quasi_orthogonal"]

_STANDARD_ERRORS = 5.0


@names_errors("check_laws(a, b, c)")
def check_laws(
    a: Tensor | Hypervector, b: Tensor | Hypervector, c: Tensor | Hypervector, *, unitary: bool = True
) -> None:
    """Check that three hypervectors obey the laws of the algebra to rounding.

    These are the laws of :data:`ghrr.models.LAWS` that GHRR obeys. Each hypervector takes each role in them.

    Parameters
    ----------
    a, b, c
        Hypervectors of one shape.
    unitary
        Include the laws that hold only for unitary hypervectors. Use False for bundles.

    Shapes
    ------
    a, b, c: ``(*batch, dim, m, m)``

    Raises
    ------
    AssertionError
        A law does not hold. The message lists all such laws.

    Examples
    --------
    >>> import ghrr
    >>> a, b, c = ghrr.Space(dim=50, m=3, seed=0).vectors(["a", "b", "c"])
    >>> ghrr.testing.check_laws(a, b, c)
    >>> ghrr.testing.check_laws(a, b, a + c)
    Traceback (most recent call last):
    AssertionError: left inverse, unbind k on the left of k ∘ v = v: sides differ by 2.6; right inverse, ...
    """
    a, b, c = check_hypervectors(a=a, b=b, c=c)
    model = models.GHRR(a.shape[-3], m=a.shape[-1], dtype=a.dtype)
    largest = max(float(x.abs().amax()) if x.numel() else 0.0 for x in (a, b, c))
    tolerance = 20 * model.m**2 * torch.finfo(a.dtype).eps * (1 + largest) ** 3
    broken = []
    for name, law in models.LAWS.items():
        if not law.holds(model.facts) or (law.needs_unitary and not unitary):
            continue
        sides = [law.sides(model, *vectors) for vectors in ((a, b, c, b), (b, c, a, c), (c, a, b, a))]
        differences = [float((left - right).abs().amax()) if left.numel() else 0.0 for left, right in sides]
        if not all(difference <= tolerance for difference in differences):
            broken.append(f"{name}, {law.statement}: sides differ by {max(differences):.2g}")
    if broken:
        raise AssertionError("; ".join(broken))


@names_errors("check_quasi_orthogonal(x)")
def check_quasi_orthogonal(x: Tensor | Hypervector, *, std: float | None = None) -> None:
    r"""Check that the similarities between different items have mean zero and the expected standard deviation.

    Both are compared with theory to five standard errors, of Gaussian noise or, if larger, of the observed
    values. Independent hypervectors fail by chance less than once in ten thousand times.

    Parameters
    ----------
    x
        At least ten independent hypervectors.
    std
        Expected standard deviation, by default the value for varying Haar rotations, :math:`1/\sqrt{2 D m^2}`. Use
        ``space.noise_std`` for other spaces.

    Shapes
    ------
    x: ``(n, dim, m, m)``

    Raises
    ------
    AssertionError
        The mean or the standard deviation differs from its expected value.

    Examples
    --------
    >>> import ghrr
    >>> space = ghrr.Space(dim=100, m=2, seed=0)
    >>> x = space.random(50, generator=space.generator("example"))
    >>> ghrr.testing.check_quasi_orthogonal(x)
    >>> ghrr.testing.check_quasi_orthogonal(x + x[:1])
    Traceback (most recent call last):
    AssertionError: mean similarity 1.04, expected 0 ± 0.001; standard deviation 1.06, expected 0.0354
    """
    (x,) = check_hypervectors(x=x)
    check_items(x=x)
    if x.ndim != 4 or len(x) < 10:
        raise value_error(f"needs at least ten items, (n, dim, m, m); got {describe(x)}")
    expected = 1 / math.sqrt(2 * x.shape[-3] * x.shape[-1] ** 2) if std is None else std
    n = len(x)
    upper = torch.triu_indices(n, n, offset=1, device=x.device)
    values = algebra.pairwise_similarity(x, x)[upper[0], upper[1]].double()
    mean, variance = values.mean().item(), values.square().mean().item()
    mean_error = expected / math.sqrt(len(values))
    variance_error = max(math.sqrt(2) * expected**2, values.square().std().item()) / math.sqrt(len(values))
    reasons = []
    if not abs(mean) <= _STANDARD_ERRORS * mean_error:
        reasons.append(f"mean similarity {mean:.3g}, expected 0 ± {mean_error:.2g}")
    if not abs(variance - expected**2) <= _STANDARD_ERRORS * variance_error:
        reasons.append(f"standard deviation {math.sqrt(variance):.3g}, expected {expected:.3g}")
    if reasons:
        raise AssertionError("; ".join(reasons))


@names_errors("check_encoder(encode, inputs)")
def check_encoder(encode: Callable[[Tensor], Tensor], inputs: Tensor, *, unitary: bool = True) -> None:
    """Check that a function is a well-behaved encoder of a batch of inputs.

    It must return one finite hypervector per input, ``(n, dim, m, m)``, which is unitary unless you say otherwise, is
    the same in every call, and does not depend on the other inputs of the batch.

    Parameters
    ----------
    encode
        Takes the first axis of ``inputs`` as the batch.
    inputs
        At least two inputs.
    unitary
        Whether the encodings should be unitary. Use False for encoders that bundle.

    Raises
    ------
    AssertionError
        The encoder fails. The message says why, and for which input.

    Examples
    --------
    >>> import ghrr, torch
    >>> base = ghrr.Space(dim=50, m=1, seed=0).vectors(["x"])[0]
    >>> x = torch.linspace(-1, 1, 5)
    >>> ghrr.testing.check_encoder(lambda x: ghrr.power(base, x), x)
    >>> ghrr.testing.check_encoder(lambda x: ghrr.power(base, x - x.mean()), x + 1)
    Traceback (most recent call last):
    AssertionError: input 0 is encoded differently alone than in a batch: encodings differ by 2
    """
    n = len(inputs)
    if n < 2:
        raise value_error(f"needs at least two inputs, got {describe(inputs)}")
    try:
        (out,) = check_hypervectors(output=encode(inputs))
        if unitary:
            check_unitary("output", out)
    except (TypeError, ValueError) as error:
        raise AssertionError(str(error)) from None
    if out.ndim != 4 or len(out) != n:
        raise AssertionError(f"encode(inputs): expected ({n}, dim, m, m) for {n} inputs, got {describe(out)}")
    nonfinite = first_nonfinite_slot(out)
    if nonfinite is not None:
        raise AssertionError(f"the encoding of input {nonfinite[0]} is not finite in slot {nonfinite[1]}")
    if not torch.equal(out, encode(inputs)):
        raise AssertionError("encode(inputs): a second call returns another result")
    tolerance = 20 * out.shape[-1] * torch.finfo(out.dtype).eps * (1 + float(out.abs().amax()))
    for i in range(n):
        difference = float((encode(inputs[i : i + 1])[0] - out[i]).abs().amax())
        if not difference <= tolerance:
            raise AssertionError(
                f"input {i} is encoded differently alone than in a batch: encodings differ by {difference:.2g}"
            )
