"""Bad input raises an error that names the operation, the given value and the expected one."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr.unitary import (
    diagonality,
    exp_hermitian,
    haar,
    is_unitary,
    orthonormalize,
    polar,
    unitarity_error,
    with_diagonality,
)
from ghrr.unitary.projection import check_unitary
from tests.helpers import gaussian, generator, wrong

A = gaussian(10, 3, 3)
GEN = generator()
JORDAN = torch.tensor([[[1, 1], [0, 1]]], dtype=torch.complex128)


def twice(function: Callable[[Tensor, Tensor], object]) -> Callable[[Tensor], object]:
    return lambda a: function(a, a)


PAIRS: dict[str, Callable[[Tensor, Tensor], object]] = {
    "bind(a, b)": ghrr.bind,
    "unbind(x, key)": lambda a, b: ghrr.unbind(a, b, side="left"),
    "multibind(items)": lambda a, b: ghrr.multibind([a, b]),
    "bundle(items)": lambda a, b: ghrr.bundle([a, b]),
    "bind_bundle(keys, values)": lambda a, b: ghrr.bind_bundle(a[None], b[None]),
    "similarity(a, b)": ghrr.similarity,
    "pairwise_similarity(queries, items)": lambda a, b: ghrr.pairwise_similarity(a, b[None]),
    "commutator(a, b)": ghrr.commutator,
    "commutativity(a, b)": ghrr.commutativity,
}
SINGLES: dict[str, Callable[[Tensor], object]] = {
    "adjoint(a)": ghrr.adjoint,
    "shift(a, steps)": ghrr.shift,
    "power(a, exponent)": lambda a: ghrr.power(a, 0.5),
    "normalize(a)": ghrr.normalize,
    "is_unitary(x)": is_unitary,
    **{name: twice(function) for name, function in PAIRS.items()},
    "bind_bundle(keys, values)": lambda a: ghrr.bind_bundle(a, a),
}


@pytest.mark.parametrize("operation", PAIRS)
@pytest.mark.parametrize(
    ("other", "message"),
    [
        (gaussian(10, 2, 2), "differ in m: 3 and 2"),
        (gaussian(11, 3, 3), "differ in dim: 10 and 11"),
        (A.to(torch.complex64), "differ in dtype: torch.complex128 and torch.complex64"),
        (A.to("meta"), "differ in device: cpu and meta"),
    ],
    ids=["m", "dim", "dtype", "device"],
)
def test_mismatched_hypervectors_are_rejected(operation: str, other: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        PAIRS[operation](A, other)
    assert str(caught.value).startswith(operation)
    assert str(tuple(other.shape))[1:-1] in str(caught.value)  # the value it got
    assert "same dim, m, dtype and device" in str(caught.value)  # the expected value


@pytest.mark.parametrize("operation", SINGLES)
@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (gaussian(10, 3, 2), ValueError, "square slots"),
        (gaussian(3, 3), ValueError, "(*batch, dim, m, m)"),
        (gaussian(0, 3, 3), ValueError, "dim >= 1"),
        (gaussian(4, 0, 0), ValueError, "m >= 1"),
        (A.real, TypeError, "must be complex (complex64 or complex128), got a float64 tensor"),
    ],
    ids=["not square", "too few axes", "no slots", "m = 0", "real"],
)
def test_other_tensors_are_rejected(operation: str, given: Tensor, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)) as caught:
        SINGLES[operation](given)
    assert str(caught.value).startswith(operation)


@pytest.mark.parametrize("function", [ghrr.adjoint, ghrr.normalize, lambda x: ghrr.bind(x, x)])
def test_values_that_are_no_tensors_are_rejected(function: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="got list"):
        function([1, 2])


def test_batches_that_do_not_broadcast_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"bind\(a, b\): the batch shapes do not broadcast: a \(2, 3\), b \(2,\)"):
        ghrr.bind(gaussian(2, 3, 4, 2, 2), gaussian(2, 4, 2, 2))
    with pytest.raises(ValueError, match=r"power\(a, exponent\): .* a \(2,\), exponent \(3,\)"):
        ghrr.power(gaussian(2, 4, 2, 2), torch.ones(3))
    with pytest.raises(ValueError, match=r"bind_bundle.* keys \(3,\), values \(4,\)"):
        ghrr.bind_bundle(gaussian(3, 4, 2, 2), gaussian(4, 4, 2, 2))
    with pytest.raises(ValueError, match=r"bundle.* do not broadcast"):
        ghrr.bundle([gaussian(3, 4, 2, 2), gaussian(4, 4, 2, 2)])


def test_missing_item_axis_is_rejected() -> None:
    for function in (ghrr.bundle, ghrr.multibind, lambda a: ghrr.bind_bundle(a, a)):
        with pytest.raises(ValueError, match=r"axis of items before the slots, shape \(\*batch, n, dim, m, m\)"):
            function(A)
    with pytest.raises(TypeError, match=r"bundle\(items\): give a list, \[a, b\], or one tensor .* got 2 arguments"):
        ghrr.bundle(A, A)
    with pytest.raises(TypeError, match=r"multibind\(items\): give a list, .* got 1 argument, the first str"):
        ghrr.multibind("ab")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"bundle\(items\): an empty list has no shape"):
        ghrr.bundle([])
    with pytest.raises(ValueError, match=r"items must have shape \(n, dim, m, m\)"):
        ghrr.pairwise_similarity(A, A)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ghrr.unbind(A, A, side="middle"), ValueError, "side must be one of 'left', 'right'; got 'middle'"),
        (lambda: ghrr.unbind(A, 0 * A, side="left", exact=True), ValueError, "a slot of the key is singular"),
        (lambda: ghrr.normalize(A, to="one"), ValueError, "to must be one of 'norm', 'unitary'; got 'one'"),
        (lambda: ghrr.shift(A, wrong(1.5)), TypeError, "steps must be a whole number, got float 1.5"),
        (lambda: ghrr.power(A, wrong("2")), TypeError, "exponent must be a real number or a real tensor"),
        (lambda: ghrr.power(A, wrong(1j)), TypeError, "exponent must be a real number"),
        (lambda: ghrr.power(A, torch.tensor(1j)), TypeError, "exponent must be real"),
        (lambda: ghrr.power(A, wrong(True)), TypeError, "exponent must be a real number"),
        (lambda: ghrr.power(A, float("nan")), ValueError, "exponent must be finite, got nan"),
        (lambda: ghrr.power(A, torch.tensor(torch.inf)), ValueError, "exponent must be finite"),
        (lambda: ghrr.power(A, torch.ones(2, device="meta")), ValueError, "a is on cpu but exponent on meta"),
        (lambda: ghrr.power(A, 10**12 + 1), ValueError, "exponent must be at most 1e+12 in size"),
        (lambda: ghrr.power(A, -(10**30)), ValueError, "exponent must be at most 1e+12 in size"),
        (lambda: ghrr.power(A, torch.tensor([1.0, 2e12])), ValueError, "exponent must be at most 1e+12 in size"),
        (lambda: ghrr.power(0 * A, -1), ValueError, "slot (0,) of a is singular"),
        (lambda: ghrr.power(0 * A, 0.5), ValueError, "slot (0,) of a is singular"),
        (lambda: ghrr.power(0 * A[:, :1, :1], -1), ValueError, "slot (0,) of a is singular"),
        (lambda: ghrr.power(JORDAN, 0.5), ValueError, "slot (0,) of a is not diagonalisable"),
        (lambda: ghrr.shift(A, wrong(True)), TypeError, "steps must be a whole number, got bool True"),
        (lambda: ghrr.bind(torch.zeros(4, 2, 2, dtype=torch.bfloat16), A), TypeError, "must be complex (complex64 or"),
        (lambda: haar(-1, m=2, generator=GEN), ValueError, "a batch size must be a whole number of at least 0"),
        (lambda: haar(wrong((2, 3)), m=2, generator=GEN), TypeError, "a batch size must be a whole number, got tuple"),
        (lambda: polar(gaussian(2, 3)), ValueError, "polar(x): needs square matrices, (*, m, m); got a complex128"),
        (lambda: polar(wrong([1])), TypeError, "polar(x): needs a tensor of square matrices, got list [1]"),
        (lambda: diagonality(gaussian(2, 3)), ValueError, "diagonality(q): needs square matrices"),
        (lambda: diagonality(torch.ones(2, 2).bool()), TypeError, "diagonality(q): needs numbers"),
        (lambda: exp_hermitian(gaussian(2, 3)), ValueError, "exp_hermitian(x): needs square matrices"),
        (lambda: orthonormalize(gaussian(2, 3)), ValueError, "orthonormalize(x): needs square matrices"),
        (lambda: unitarity_error(gaussian(4, 2, 3)), ValueError, "unitarity_error(x): needs square matrices"),
        (lambda: haar(3, m=0, generator=GEN), ValueError, "m must be a whole number of at least 1, got 0"),
        (lambda: haar(3, m=2, generator=wrong(0)), TypeError, "must be a torch.Generator, for example"),
        (lambda: haar(3, m=2, generator=GEN, dtype=torch.float32), ValueError, "must be torch.complex64 or"),
        (lambda: with_diagonality(1.2, 3, m=2, generator=GEN), ValueError, "must lie in [0.0, 1.0], got 1.2"),
        (lambda: with_diagonality(-0.1, 3, m=2, generator=GEN), ValueError, "must lie in [0.0, 1.0], got -0.1"),
        (lambda: with_diagonality(float("nan"), 3, m=2, generator=GEN), ValueError, "got nan"),
        (lambda: with_diagonality(wrong("x"), 3, m=2, generator=GEN), TypeError, "must be a real number"),
        (lambda: with_diagonality(0.5, 3, m=1, generator=GEN), ValueError, "a 1x1 matrix has diagonality 1"),
        (lambda: with_diagonality(0.5, m=2, generator=GEN, method="luck"), ValueError, "method must be one of"),
    ],
)
def test_bad_single_arguments_are_rejected(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_nonfinite_numbers_are_rejected(bad: float) -> None:
    x = gaussian(2, 5, 3, 3)
    x[1, 3, 0, 2] = bad
    with pytest.raises(ValueError, match=r"normalize\(a\): slot \(1, 3\) of x is not finite"):
        ghrr.normalize(x, to="unitary")
    with pytest.raises(ValueError, match=r"polar\(x\)"):
        polar(x)
    with pytest.raises(ValueError, match=r"normalize\(a\): slot \(1, 3\) of a is not finite"):
        ghrr.normalize(x)
    with pytest.raises(ValueError, match=r"unbind\(x, key\): slot \(1, 3\) of key is not finite"):
        ghrr.unbind(x, x, side="left", exact=True)
    with pytest.raises(ValueError, match=r"power\(a, exponent\): slot \(1, 3\) of a is not finite"):
        ghrr.power(x, 0.5)
    assert not is_unitary(x)
    with pytest.raises(ValueError, match=r"slot 3 of item \(1,\) holds a number that is not finite"):
        check_unitary("test", x)


@pytest.mark.filterwarnings("ignore")  # torch will drop quantized tensors
def test_power_refuses_a_quantized_exponent() -> None:
    exponent = torch.quantize_per_tensor(torch.rand(10), 0.1, 0, torch.quint8)
    with pytest.raises(TypeError, match="exponent must be real"):
        ghrr.power(A, exponent)
