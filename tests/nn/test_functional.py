"""Attention as binding: the fast function against its formula, values and gradients, for every kind of input."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr.nn.complex_rows import from_complex, to_complex
from ghrr.nn.functional import attention_weights, ghrr_attention, naive_attention
from tests.helpers import assert_mean, gaussian, generator, wrong

EXACT: dict[str, Any] = {"rtol": 0, "atol": 1e-10}


def reals(*shape: int, seed: int = 9) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=generator(seed))


SEEN = torch.tensor(
    [[True, True, False, True, False], [False, False, True, False, False], [True, True, True, True, True]]
)
# Shapes of q, k and v, and settings.
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "one": ((3, 4), (5, 4), (5, 6), {}),
    "one token": ((1, 4), (1, 4), (1, 4), {}),
    "one feature": ((3, 1), (5, 1), (5, 1), {}),
    "a batch": ((2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 6), {}),
    "batches that broadcast": ((2, 1, 3, 4), (1, 3, 5, 4), (3, 5, 6), {}),
    "a batch of keys alone": ((3, 4), (2, 5, 4), (2, 5, 6), {}),
    "scale": ((2, 3, 4), (2, 5, 4), (2, 5, 6), {"scale": 0.3}),
    "scale 0": ((2, 3, 4), (2, 5, 4), (2, 5, 6), {"scale": 0.0}),
    "bool mask": ((2, 3, 4), (2, 5, 4), (2, 5, 6), {"attn_mask": SEEN}),
    "bool mask and scale": ((2, 3, 4), (2, 5, 4), (2, 5, 6), {"attn_mask": SEEN, "scale": 2.0}),
    "bool mask per batch": ((2, 3, 4), (2, 5, 4), (2, 5, 6), {"attn_mask": torch.stack((SEEN, SEEN.flip(1)))}),
    "bool mask that broadcasts": ((2, 3, 4), (2, 5, 4), (2, 5, 6), {"attn_mask": SEEN[:1]}),
    "numbers": ((2, 3, 4), (2, 5, 4), (2, 5, 6), {"attn_mask": reals(3, 5)}),
    "numbers per batch": ((2, 3, 4), (2, 5, 4), (2, 5, 6), {"attn_mask": reals(2, 1, 5)}),
    "numbers and infinity": ((3, 4), (5, 4), (5, 6), {"attn_mask": reals(3, 5).masked_fill(~SEEN, -torch.inf)}),
    "causal": ((2, 5, 4), (2, 5, 4), (2, 5, 6), {"is_causal": True}),
    "causal, fewer queries": ((3, 4), (5, 4), (5, 6), {"is_causal": True}),
    "causal, fewer keys": ((5, 4), (3, 4), (3, 6), {"is_causal": True}),
    "causal with scale": ((2, 5, 4), (2, 5, 4), (2, 5, 6), {"is_causal": True, "scale": 0.5}),
    "no queries": ((2, 0, 4), (2, 5, 4), (2, 5, 6), {}),
    "no batch": ((0, 3, 4), (0, 5, 4), (0, 5, 6), {}),
    "no features": ((2, 3, 0), (2, 5, 0), (2, 5, 6), {}),
    "no features of values": ((2, 3, 4), (2, 5, 4), (2, 5, 0), {}),
}
# What is done with a complex tensor before it is given.
KINDS: dict[str, Callable[[Tensor], Tensor]] = {
    "complex": lambda x: x,
    "conjugated": lambda x: x.conj(),
    "adjoint of the adjoint": lambda x: x.mH.clone().mH,
    "strided": lambda x: x.repeat_interleave(2, dim=-2)[..., ::2, :],
    "transposed": lambda x: x.mT.clone().mT,
    "real parts first": from_complex,
    "real parts first, strided": lambda x: from_complex(x).mT.contiguous().mT,
}


def with_gradients(
    function: Callable[..., Tensor], given: list[Tensor], kind: str, settings: dict[str, Any]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    leaves = [x.clone().requires_grad_() for x in given]
    out = function(*map(KINDS[kind], leaves), **settings)
    direction = torch.randn(out.shape, dtype=out.dtype, generator=generator(7))
    return out.detach(), torch.autograd.grad(out, leaves, direction)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_ghrr_attention_equals_naive_attention(case: str, kind: str) -> None:
    *shapes, settings = CASES[case]
    given = [gaussian(*shape, seed=i) for i, shape in enumerate(shapes)]
    out, gradients = with_gradients(ghrr_attention, given, kind, settings)
    want, wanted = with_gradients(naive_attention, given, kind, settings)
    assert out.shape == want.shape
    assert out.dtype == want.dtype
    torch.testing.assert_close(out, want, **EXACT)
    for got, expected in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(got, expected, **EXACT)


def test_query_that_sees_no_key_gets_zeros() -> None:
    q, hidden = gaussian(3, 4), torch.zeros(3, 3, dtype=torch.bool)
    for function in (ghrr_attention, naive_attention):
        assert torch.equal(function(q, q, q, hidden), torch.zeros_like(q))


def test_real_rows_and_complex_numbers_give_equal_results() -> None:
    q, k, v = gaussian(3, 2, 5, 4)
    out = ghrr_attention(from_complex(q), from_complex(k), from_complex(v))
    assert not out.is_complex()
    assert torch.equal(to_complex(out), ghrr_attention(q, k, v))
    torch.testing.assert_close(attention_weights(from_complex(q), from_complex(k)), attention_weights(q, k))


def test_gradient_of_a_mask_of_numbers() -> None:
    q, k, v = gaussian(3, 2, 5, 4)
    gradients: list[Tensor] = []
    for function in (ghrr_attention, naive_attention):
        mask = reals(5, 5).requires_grad_()
        gradients += torch.autograd.grad(torch.view_as_real(function(q, k, v, attn_mask=mask)).square().sum(), mask)
    torch.testing.assert_close(*gradients, **EXACT)
    assert gradients[0].abs().max() > 0.01


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_attention_is_the_equation_of_the_paper_on_hypervectors(dtype: torch.dtype) -> None:
    q, k, v = gaussian(3, 6, 4, 4, dtype=dtype)
    scores = ghrr.bind(q, ghrr.adjoint(k)).real
    want = ghrr.bind(torch.softmax(scores, dim=-1).to(dtype), v)
    torch.testing.assert_close(ghrr_attention(q, k, v), want)
    torch.testing.assert_close(naive_attention(q, k, v), want)
    torch.testing.assert_close(attention_weights(q, k), torch.softmax(scores, dim=-1))
    # The controls: the adjoint left out, the softmax over queries, the values on the other side.
    for other in (
        ghrr.bind(torch.softmax(ghrr.bind(q, k.mT).real, dim=-1).to(dtype), v),
        ghrr.bind(torch.softmax(scores, dim=-2).to(dtype), v),
        ghrr.bind(v, torch.softmax(scores, dim=-1).to(dtype)),
    ):
        assert not torch.allclose(ghrr_attention(q, k, v), other, atol=0.1)


def test_default_scale_is_one() -> None:
    q, k, v = gaussian(3, 2, 5, 4)
    assert torch.equal(ghrr_attention(q, k, v), ghrr_attention(q, k, v, scale=1.0))
    assert torch.equal(attention_weights(q, k), attention_weights(q, k, scale=1.0))
    assert not torch.allclose(ghrr_attention(q, k, v), ghrr_attention(q, k, v, scale=8**-0.5), atol=0.1)


def test_attention_is_one_real_call_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[torch.dtype]] = []
    real = torch.nn.functional.scaled_dot_product_attention

    def counted(q: Tensor, k: Tensor, v: Tensor, **settings: Any) -> Tensor:
        calls.append([q.dtype, k.dtype, v.dtype])
        return real(q, k, v, **settings)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", counted)
    ghrr_attention(gaussian(2, 5, 4), gaussian(2, 5, 4, seed=1), gaussian(2, 5, 4, seed=2))
    assert calls == [[torch.float64] * 3]


# -------------------------------------------------------------------------------------------------------------- weights


@pytest.mark.parametrize("case", CASES)
def test_weights_times_values_give_the_output(case: str) -> None:
    *shapes, settings = CASES[case]
    q, k, v = (gaussian(*shape, seed=i) for i, shape in enumerate(shapes))
    weights = attention_weights(q, k, **settings)
    assert not weights.is_complex()
    torch.testing.assert_close(weights.to(v.dtype) @ v, ghrr_attention(q, k, v, **settings), **EXACT)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1], dtype=weights.dtype))


def test_true_in_a_mask_shows_a_key() -> None:
    q, k = gaussian(2, 3, 4), gaussian(2, 5, 4, seed=1)
    weights = attention_weights(q, k, attn_mask=SEEN)
    assert torch.equal(weights > 0, SEEN.expand(2, 3, 5))
    past = attention_weights(k, k, is_causal=True)
    assert torch.equal(past > 0, torch.ones(5, 5, dtype=torch.bool).tril().expand(2, 5, 5))


def test_weights_equal_hand_computed_values() -> None:
    q = torch.tensor([[1 + 2j, 3j]], dtype=torch.complex128)
    k = torch.tensor([[1j, 1], [2, 1 - 1j]], dtype=torch.complex128)
    # Re q k†: Re((1+2i)(-i) + 3i) = 2, and Re((1+2i) 2 + 3i (1+i)) = 2 - 3 = -1.
    want = torch.tensor([[2.0, -1.0]], dtype=torch.float64).exp()
    torch.testing.assert_close(attention_weights(q, k), want / want.sum())


# -------------------------------------------------------------------------------------------------------------- dropout


def test_dropout_drops_weights_and_scales_up_the_others() -> None:
    q, k = gaussian(40, 30, 4), gaussian(40, 30, 4, seed=1)
    each = torch.eye(30, dtype=torch.complex128).expand(40, 30, 30)
    rate = 0.25
    torch.manual_seed(0)
    dropped = ghrr_attention(q, k, each, dropout_p=rate).real / attention_weights(q, k)
    kept = dropped > 0.5
    torch.testing.assert_close(dropped[kept], torch.full_like(dropped[kept], 1 / (1 - rate)))
    torch.testing.assert_close(dropped[~kept], torch.zeros_like(dropped[~kept]))
    assert_mean((~kept).double().flatten(), rate)
    with pytest.raises(AssertionError):  # negative control
        assert_mean((~kept).double().flatten(), 1.1 * rate)


# ------------------------------------------------------------------------------------------------------------ bad input

FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "ghrr_attention(q, k, v)": ghrr_attention,
    "naive_attention(q, k, v)": naive_attention,
}
C = torch.complex128
BAD: dict[str, tuple[tuple[Tensor, Tensor, Tensor], dict[str, Any], type[Exception], str]] = {
    "features of q and k": (
        (gaussian(3, 4), gaussian(5, 3), gaussian(5, 4)),
        {},
        ValueError,
        "q and k must have the same number of features; got q a complex128 tensor of shape (3, 4), k a complex128",
    ),
    "tokens of k and v": (
        (gaussian(3, 4), gaussian(5, 4), gaussian(6, 4)),
        {},
        ValueError,
        "k and v must have the same number of tokens",
    ),
    "batches": (
        (gaussian(2, 3, 4), gaussian(3, 5, 4), gaussian(3, 5, 4)),
        {},
        ValueError,
        "the batch shapes do not broadcast: q (2,), k (3,), v (3,)",
    ),
    "a vector": (
        (gaussian(4), gaussian(5, 4), gaussian(5, 4)),
        {},
        ValueError,
        "all three need axes for tokens and features",
    ),
    "odd number of real features": (
        (reals(3, 4), reals(5, 4), reals(5, 3)),
        {},
        ValueError,
        "the last axis of real tensors must be even: real parts, then imaginary parts; got q a float64 tensor",
    ),
    "whole numbers": (
        (torch.ones(3, 4).long(),) * 3,
        {},
        TypeError,
        "all three must be complex or floating-point tensors; got q a int64 tensor",
    ),
    "real and complex": (
        (reals(3, 8), gaussian(5, 4), gaussian(5, 4)),
        {},
        TypeError,
        "all three must have the same dtype; got q a float64 tensor",
    ),
    "no tensor": ((wrong([1.0]), gaussian(5, 4), gaussian(5, 4)), {}, TypeError, "q must be a tensor, got list [1.0]"),
    "no tensor as mask": (
        (gaussian(3, 4),) * 3,
        {"attn_mask": [[True]]},
        TypeError,
        "attn_mask must be a tensor, got list [[True]]",
    ),
    "a mask of too many axes": (
        (gaussian(3, 4),) * 3,
        {"attn_mask": reals(7, 3, 3)},
        ValueError,
        "attn_mask has more axes than the scores",
    ),
    "precisions": (
        (gaussian(3, 4), gaussian(5, 4), gaussian(5, 4).to(torch.complex64)),
        {},
        TypeError,
        "all three must have the same dtype",
    ),
    "a mask of whole numbers": (
        (gaussian(3, 4),) * 3,
        {"attn_mask": torch.ones(3, 3).long()},
        TypeError,
        "attn_mask must be bool (True: may attend) or floating-point, got a int64 tensor of shape (3, 3)",
    ),
    "a complex mask": (
        (gaussian(3, 4),) * 3,
        {"attn_mask": gaussian(3, 3)},
        TypeError,
        "attn_mask must be bool (True: may attend) or floating-point, got a complex128 tensor",
    ),
    "a mask of another size": (
        (gaussian(3, 4),) * 3,
        {"attn_mask": reals(3, 2)},
        ValueError,
        "the batch shapes do not broadcast: attn_mask (3, 2), scores (3, 3)",
    ),
    "a mask and causal": (
        (gaussian(3, 4),) * 3,
        {"attn_mask": torch.ones(3, 3).bool(), "is_causal": True},
        ValueError,
        "expected a mask or is_causal=True, got both",
    ),
}


@pytest.mark.parametrize("rate", [-0.5, 1.5, float("nan")])
def test_dropout_probability_outside_0_1_raises(rate: float) -> None:
    with pytest.raises(ValueError, match=r"^ghrr_attention\(q, k, v\): dropout_p must lie in \[0, 1\], got"):
        ghrr_attention(*(gaussian(3, 4),) * 3, dropout_p=rate)


@pytest.mark.parametrize("scale", ["1", float("nan"), [1.0], torch.ones(3)])
@pytest.mark.parametrize("function", [ghrr_attention, naive_attention, attention_weights])
def test_scale_that_is_not_a_number_raises(function: Callable[..., Tensor], scale: Any) -> None:
    given = (gaussian(3, 4),) * (2 if function is attention_weights else 3)
    with pytest.raises((TypeError, ValueError), match=rf"^{function.__name__}\(q, k.*: scale must "):
        function(*given, scale=scale)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("case", BAD)
def test_invalid_inputs_raise_and_are_named(case: str, function: str) -> None:
    given, settings, error, message = BAD[case]
    with pytest.raises(error, match="^" + re.escape(f"{function}: ") + ".*" + re.escape(message)):
        FUNCTIONS[function](*given, **settings)


def test_invalid_inputs_of_attention_weights_raise() -> None:
    with pytest.raises(ValueError, match=r"^attention_weights\(q, k\): q and k must have the same number of features"):
        attention_weights(gaussian(3, 4), gaussian(5, 3))
    with pytest.raises(TypeError, match=r"^attention_weights\(q, k\): attn_mask must be bool"):
        attention_weights(gaussian(3, 4), gaussian(5, 4), attn_mask=wrong(torch.ones(3, 5).int()))
